"""Stages by themselves: files to documents, documents to chunks, chunks to vectors and to an index that can be searched."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reverie import _core
from reverie._background import asynchronous, carry_out
from reverie._function_embedders import FunctionEmbedder, to_embedder
from reverie.exceptions import ParseWarning
from reverie.tables import Table, struct_array

if TYPE_CHECKING:
    import pyarrow

# How many rows of a large table are shown to people.
_SHOWN = 10
# The files of a saved index: the chunks, and what is needed to open them, which is written last.
_CHUNKS, _MANIFEST = "chunks.parquet", "index.json"
# The format of a saved index.
_FORMAT = 1
# Columns of these kinds are shown to people.
_SHOWN_KINDS = ("text", "count", "truth")


def parse(
    source: str | os.PathLike[str],
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    limits: Mapping[str, Any] | None = None,
) -> Documents:
    """Reads files and takes the text out of them.

        docs = reverie.parse("docs/**/*")
        chunks = reverie.chunk(docs, reverie.chunker.Sentence(chunk_size=256))
        index = reverie.index(chunks, embedder="all-minilm-l6-v2")
        index.search("What is a virtual package?", top_k=5)

    Args:
        source: A folder, a file, a pattern, or the URL of an object store.
        include: Patterns of files to read, as in `[corpus]` of an experiment. Default: those with known endings.
        exclude: Patterns of files to leave out.
        limits: As in `[corpus.limits]`.

    Raises:
        ValueError: If there is no such file or folder, a setting is wrong, or no file gave a document.
        ModuleNotFoundError: Without pyarrow.

    Warns:
        ParseWarning: If some files gave no document; `rejected` of the result is a table of them.
    """
    _arrow()
    corpus = _core.Corpus(os.fspath(source), list(include), list(exclude), limits)
    documents = Documents(_core.Parser(limits).parse_corpus(corpus), corpus.rejected)
    if len(documents.rejected):
        text = _rejections(documents)
        if not len(documents):
            raise ValueError(f"{os.fspath(source)}: no file gave a document\n{text}")
        warnings.warn(f"{text}\n`rejected` of the result is a table of them", ParseWarning, stacklevel=2)
    return documents


def _rejections(documents: Documents) -> str:
    """How many files gave no document, by reason, most frequent first, with an example of each."""
    paths: dict[str, str] = {}
    for row in documents.rejected:
        paths.setdefault(row["reason"], row["path"])
    counts = Counter(documents.rejected["reason"])
    n, all_files = len(documents.rejected), len(documents) + len(documents.rejected)
    lines = [f"{n:,} of {all_files:,} files gave no document:"]
    lines += [f"  {count:,}: {reason} (such as {paths[reason]})" for reason, count in counts.most_common(5)]
    if len(counts) > 5:
        lines.append(f"  and {len(counts) - 5} more reasons")
    return "\n".join(lines)


def chunk(documents: Any, chunker: Any = "sentence") -> Chunks:
    """Cuts documents into chunks.

    Args:
        documents: What `reverie.parse` gave, or texts with their paths from anywhere: a data frame, an Arrow table, or
            a list of dictionaries with `path` and `text`. Its other columns, such as `year` or `language`, become
            metadata: a filter of `Index.search` may name them, and passages have them. Dates are texts.
        chunker: A name, an object such as `reverie.chunker.Sentence(chunk_size=256)`, a dictionary, or a function
            decorated with `reverie.chunker`.

    Raises:
        ValueError: If a setting is wrong, or a column is missing.
        RuntimeError: If a document cannot be cut; `reverie.exceptions.FunctionError` if a function of your own fails.
    """
    given = documents._held if isinstance(documents, Documents) else _to_rows(documents)
    return Chunks(_core.Chunker(chunker).chunk(given), _core.settings(chunker))


def embed(chunks: Any, embedder: Any, *, cores: int | None = None) -> Chunks:
    """Makes the vectors of chunks: the chunks with one more column, `vector`, a list of numbers.

        vectors = reverie.embed(chunks, "all-minilm-l6-v2")
        vectors.to_polars().write_parquet("vectors.parquet")
        index = reverie.index(polars.read_parquet("vectors.parquet"), embedder="all-minilm-l6-v2")    # nothing is embedded

    Args:
        chunks: What `chunk` gave, or the same as a data frame or an Arrow table.
        embedder: As in `index`.
        cores: As in `index`.

    Raises:
        ValueError: If there is no such model, or a column is missing.
        RuntimeError: If the model fails.
    """
    held, chunker = _to_chunks(chunks)
    return Chunks(_to_embedding(embedder, cores).embed(held), chunker)


def index(chunks: Any, embedder: Any = None, *, cores: int | None = None) -> Index:
    """Makes an index of chunks, in memory.

    Args:
        chunks: What `chunk` or `embed` gave, or the same as a data frame or an Arrow table. If they have a column
            `vector`, nothing is embedded.
        embedder: The name of a local model, such as `"all-minilm-l6-v2"`, or a model as in `models` of an
            experiment: `{"embedding": {"openai": {…}}}`; or an `Embeddings` of LangChain, or a `BaseEmbedding` of
            LlamaIndex. Default: none; then words are searched, and no meanings. Chunks
            that have vectors need the embedder that made them, for the vectors of questions; it embeds the first chunk
            once more, to compare.
        cores: How many threads a local model may use. Default: all of the machine's.

    Raises:
        ValueError: If there is no such model, a column is missing, or the vectors are those of another model.
        RuntimeError: If the model fails.
    """
    held, chunker = _to_chunks(chunks)
    return _open_index(held, chunker, embedder, cores)


def _open_index(held: Any, chunker: str, embedder: Any, cores: int | None) -> Index:
    embedding = None if embedder is None else _to_embedding(embedder, cores)
    model = embedder if isinstance(embedder, str) else None
    return Index(_core.Index(held, chunker, embedding), held, chunker, embedding, model)


def _to_embedding(embedder: Any, cores: int | None) -> _core.Embedding:
    embedder = to_embedder(embedder)
    if not isinstance(embedder, FunctionEmbedder):
        return _core.Embedding(embedder, cores)
    from reverie._function_models import serve_models

    # It stays served as long as the embedding exists.
    with serve_models({embedder.__name__: embedder}):
        return _core.Embedding(embedder.settings(embedder.__name__), cores)


def _to_chunks(chunks: Any) -> tuple[Any, str]:
    """Chunks as one batch, with the settings of their chunker."""
    if isinstance(chunks, Chunks):
        return chunks._held, chunks._chunker
    table = _to_rows(chunks)
    if hasattr(table, "__arrow_c_stream__"):
        table = _arrow().table(table).combine_chunks()
        batches = table.to_batches()
        table = batches[0] if batches else _arrow().RecordBatch.from_pylist([], schema=table.schema)
    return table, '{"sentence": {}}'


class _ArrowTable(Table):
    """A table in Arrow's memory, whose rows become Python objects on demand. Its columns are those of its Arrow table.

    `_held` is the batch as the core takes it, with JSON in place of lists and structures.
    """

    # How a column of JSON becomes one of structures.
    _structures: Mapping[str, Callable[[Any], Any]] = {}
    def __init__(self, held: pyarrow.RecordBatch, columns: list[tuple[str, str]]) -> None:
        # Without `__init__` of the base class, which wants the rows.
        self._kinds, self._held = dict(columns), held

    @cached_property
    def _table(self) -> pyarrow.Table:
        names = list(self._kinds)
        return _arrow().table([self._column(self._held, name) for name in names], names=names)

    def _column(self, batch: pyarrow.RecordBatch, name: str) -> Any:
        structure = self._structures.get(name)
        texts = batch[name]
        return texts if structure is None else structure(texts)

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:  # type: ignore[override]
        return list(zip(*(self._values(name) for name in self.columns)))

    def _values(self, name: str) -> list[Any]:
        values: list[Any] = self._table[name].to_pylist()
        return [_drop_missing(value) for value in values] if name == "metadata" else values

    def __len__(self) -> int:
        return self._held.num_rows

    def __getitem__(self, column: str) -> list[Any]:
        if isinstance(column, str) and column in self._kinds:
            return self._values(column)
        return super().__getitem__(column)

    def to_arrow(self) -> pyarrow.Table:
        """A `pyarrow.Table` with all columns. Needs pyarrow."""
        return self._table

    def _head(self) -> Table:
        """The first rows, for people: without nested values."""
        shown = [(name, kind) for name, kind in self._kinds.items() if kind in _SHOWN_KINDS]
        rows = self._held.slice(0, _SHOWN)
        return Table(shown, zip(*(self._column(rows, name).to_pylist() for name, _ in shown)))

    def __repr__(self) -> str:
        more = f"\n… {len(self):,} rows" if len(self) > _SHOWN else ""
        return f"{self._head()!r}{more}"

    def _repr_html_(self) -> str:
        more = f'<p style="opacity:.6">{len(self):,} rows</p>' if len(self) > _SHOWN else ""
        return f"{self._head()._repr_html_()}{more}"


class Documents(_ArrowTable):
    """Documents, a row each: `path`, `title`, `author`, `text`, `format` (such as `pdf`), `content` (the digest of the
    file), `pages` (a list of `number`, `start_byte`, `end_byte`), `headings` (a list of `start_byte`, `level`, `title`) and
    `metadata` (what the file says of itself, such as `date` and `language`: a structure with the fields of all documents).

    `rejected` is a table of the files that gave no document: `path` and `reason`, a row each.
    """

    _structures = {
        "format": lambda texts: struct_array(texts, lambda name: name, _arrow().string()),
        "pages": lambda texts: struct_array(texts, _page_rows, _arrow().list_(_places("number", "start_byte", "end_byte"))),
        "headings": lambda texts: struct_array(texts, _heading_rows, _arrow().list_(_places("start_byte", "level", title=True))),
        "metadata": lambda texts: struct_array(texts, lambda fields: fields),
    }

    def __init__(self, held: pyarrow.RecordBatch, unread: list[tuple[str, str]]) -> None:
        compute = _arrow().compute
        is_document = compute.is_valid(held["text"])
        refused = held.filter(compute.invert(is_document))
        reasons = [_core.rejection(reason) or "" for reason in refused["rejected"].to_pylist()]
        rejected = [*unread, *zip(refused["path"].to_pylist(), reasons)]
        self.rejected = Table([("path", "text"), ("reason", "text")], sorted(rejected))
        """Files that gave no document, and why."""
        columns = [(name, "text") for name in ("path", "title", "author", "text", "format")]
        columns += [("content", "other"), ("pages", "other"), ("headings", "other"), ("metadata", "other")]
        super().__init__(held.filter(is_document), columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return _documents, (self._held, self.rejected)


def _documents(held: pyarrow.RecordBatch, rejected: Table) -> Documents:
    made = Documents(held, [])
    made.rejected = rejected
    return made


class Chunks(_ArrowTable):
    """Chunks, a row each. `start` and `end` count characters of the document's text, as Python does:
    `text[start:end]` is the chunk. `start_byte` and `end_byte` count the bytes of its UTF-8. `metadata` is what is known
    of the document, `space` the white space after the chunk, and `vector` is there after `reverie.embed`."""

    _structures = {"metadata": lambda texts: struct_array(texts, lambda fields: fields)}

    def __init__(self, held: pyarrow.RecordBatch, chunker: str) -> None:
        self._chunker = chunker
        columns = [("document", "text"), ("number", "count")]
        columns += [(name, "count") for name in ("start", "end", "start_byte", "end_byte")]
        columns += [("text", "text"), ("searchable", "truth"), ("level", "count")]
        columns += [("parent", "count"), ("previous", "other"), ("next", "other"), ("page", "count")]
        columns += [("book", "text"), ("heading", "text"), ("metadata", "other"), ("space", "other"), ("vector", "other")]
        super().__init__(held, [(name, kind) for name, kind in columns if name in held.schema.names])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._held, self._chunker)


class Index:
    """An index of chunks in memory. Several threads may search it."""

    def __init__(
        self,
        core: _core.Index,
        held: pyarrow.RecordBatch,
        chunker: str,
        embedding: _core.Embedding | None,
        model: str | None,
    ) -> None:
        self._core, self._held, self._chunker = core, held, chunker
        self._embedding, self._model = embedding, model

    @property
    def chunks(self) -> Chunks:
        """The chunks, with a column `vector` if the index has vectors."""
        has_all = "vector" in self._held.schema.names or self._embedding is None
        return Chunks(self._held if has_all else self._core.with_vectors(self._held), self._chunker)

    def search(
        self,
        question: str | Iterable[str],
        *,
        top_k: int | None = None,
        retriever: Any = None,
        filter: Mapping[str, Any] | None = None,
    ) -> Table:
        """What is found for a question or for many, best first, a row per passage.

            index.search("Who built it?", filter={"year": {"ge": 1700}, "language": ["de", "en"]})
            index.search(golden["question"], top_k=3).to_pandas().groupby("question")["document"].first()

        Columns: `question`, `rank` (from 1), `document`, `number` (of the chunk in its document), `text`, `score` (higher is
        better; its scale is that of the retriever), `page`, `book`, `heading`, `start` and `end` in characters of the
        document's text, `start_byte` and `end_byte` in bytes, and `metadata`, a dictionary: what is known of the document.

        Args:
            question: What is asked: a text, or a list or column of texts, which are embedded and searched together.
            top_k: The most passages for each question. Default: what the retriever says, 5 unless it is told otherwise.
            retriever: A name, an object such as `reverie.retriever.Hybrid()`, a dictionary, or a function decorated
                with `reverie.retriever`. Default: `hybrid` where there are vectors, else `bm25`.
            filter: Only chunks that meet all of these conditions are found. The fields are `path`, `title`, `page`,
                `heading`, and those of the metadata. A condition is a value, a list of values, or tests: `gt`, `ge`, `lt`,
                `le`, `ne`, `glob`. Default: all chunks.

        Raises:
            ValueError: If a setting or a filter is wrong, no chunk has a field of the filter, or the retriever needs
                vectors and the index has none.
            RuntimeError: If a model fails; `reverie.exceptions.FunctionError` if a function of your own does.
        """
        questions = [question] if isinstance(question, str) else list(question)
        columns = [("question", "text"), ("rank", "count"), ("document", "text"), ("number", "count"), ("text", "text")]
        columns += [("score", "real"), ("page", "count"), ("book", "text"), ("heading", "text")]
        columns += [(name, "count") for name in ("start", "end", "start_byte", "end_byte")]
        columns += [("metadata", "struct")]
        names = [name for name, _ in columns[2:]]

        def table(found: list[list[dict[str, Any]]]) -> Table:
            return Table(
                columns,
                (
                    [asked, rank, *(passage[name] for name in names)]
                    for asked, passages in zip(questions, found)
                    for rank, passage in enumerate(passages, 1)
                ),
            )

        return carry_out(lambda stop: self._core.search(questions, retriever, top_k, filter, stop), table)

    asearch = asynchronous(search)

    def save(self, folder: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Writes the index into a folder, for `Index.load`: the chunks with their vectors, and which model made them.

        Args:
            folder: The folder, which is made if it does not exist.
            replace: Whether an index that is there is replaced.

        Raises:
            FileExistsError: If there is an index, and it is not to be replaced.
        """
        place = Path(folder)
        if (place / _MANIFEST).exists() and not replace:
            raise FileExistsError(f"{place} has an index already: choose another folder, or `replace`")
        from pyarrow import parquet

        place.mkdir(parents=True, exist_ok=True)
        # Without a manifest there is no index, so that a broken write leaves none.
        (place / _MANIFEST).unlink(missing_ok=True)
        drafts = {name: place / f"{name}.{os.getpid()}.draft" for name in (_CHUNKS, _MANIFEST)}
        table = _arrow().Table.from_batches([self.chunks._held])
        parquet.write_table(table, drafts[_CHUNKS], compression="zstd")
        identity = None if self._embedding is None else json.loads(self._embedding.identity)
        manifest = {"format": _FORMAT, "chunker": json.loads(self._chunker), "embedder": self._model, "model": identity}
        drafts[_MANIFEST].write_text(json.dumps(manifest, indent=2), encoding="utf-8")
        for name in (_CHUNKS, _MANIFEST):
            os.replace(drafts[name], place / name)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, embedder: Any = None, cores: int | None = None) -> Index:
        """Opens an index that `save` wrote. No chunk is embedded again, except the first, to compare.

        Args:
            folder: The folder.
            embedder: The embedder that made the vectors, as in `reverie.index`. Default: the local model that was named.
                An index whose embedder is behind an endpoint needs it: its address and its key are not saved.
            cores: How many threads a local model may use. Default: all of the machine's.

        Raises:
            FileNotFoundError: If there is no index.
            ValueError: If the embedder is missing or another one, or another version wrote the index in another format.
        """
        place = Path(folder)
        manifest = json.loads((place / _MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != _FORMAT:
            raise ValueError(f"{place}: the index has format {manifest['format']}, and this version reads {_FORMAT}: save it anew")
        from pyarrow import parquet

        named = manifest["embedder"] if embedder is None else embedder
        made_by = manifest["model"]
        if made_by is not None and named is None:
            raise ValueError(f"{place}: give `embedder`, the model {made_by['model']} of {made_by['provider']} as in `reverie.index`")
        if made_by is None:
            named = None
        table = parquet.read_table(place / _CHUNKS).combine_chunks()
        held = table.to_batches()[0] if len(table) else _arrow().RecordBatch.from_pylist([], schema=table.schema)
        opened = _open_index(held, json.dumps(manifest["chunker"]), named, cores)
        if opened._embedding is not None and json.loads(opened._embedding.identity) != made_by:
            ours = json.loads(opened._embedding.identity)
            raise ValueError(
                f"{place}: the vectors are those of {made_by['model']} (revision {made_by['revision']}), and the embedder is "
                f"{ours['model']} (revision {ours['revision']}): give that embedder, or index the chunks anew"
            )
        return opened

    def __len__(self) -> int:
        """How many chunks can be found."""
        return len(self._core)

    def __repr__(self) -> str:
        return f"<index of {len(self):,} chunks, {'with' if self._core.embedded else 'without'} vectors>"


def to_core_documents(documents: Any) -> Any:
    """Documents as the core takes them: what `parse` gave or takes, or rows of `path` and `text`."""
    if isinstance(documents, (str, os.PathLike)):
        documents = parse(documents)
    return documents._held if isinstance(documents, Documents) else _to_rows(documents)


def _places(*counts: str, title: bool = False) -> Any:
    """The type of a place in a document."""
    arrow = _arrow()
    return arrow.struct([*((name, arrow.int64()) for name in counts), *([("title", arrow.string())] if title else [])])


def _page_rows(pages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"number": each["number"], "start_byte": each["span"]["start"], "end_byte": each["span"]["end"]} for each in pages]


def _heading_rows(headings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"start_byte": each["start"], "level": each["level"], "title": each["title"]} for each in headings]


def _drop_missing(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """The metadata of one row: a structure has the fields of all rows."""
    return {name: value for name, value in (fields or {}).items() if value is not None}


def _to_rows(given: Any) -> Any:
    """A list of dictionaries or a data frame as an Arrow table; other data as it is."""
    if isinstance(given, (list, tuple)):
        return _arrow().Table.from_pylist(list(given))
    # Through pyarrow, because the nulls of Polars have a buffer, which Arrow forbids.
    return _arrow().table(given) if hasattr(given, "__arrow_c_stream__") else given


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("stages by themselves need pyarrow: pip install pyarrow") from error
    return pyarrow
