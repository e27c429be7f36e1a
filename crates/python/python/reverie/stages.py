"""Stages by themselves: files to documents, documents to chunks, chunks to an index that can be searched."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reverie import _core
from reverie.exceptions import ParseWarning
from reverie.tables import Table

if TYPE_CHECKING:
    import pyarrow

# How many rows of a large table are shown to people.
_SHOWN = 10


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
            a list of dictionaries with `path` and `text`.
        chunker: A name, an object such as `reverie.chunker.Sentence(chunk_size=256)`, a dictionary, or a function
            decorated with `reverie.chunker`.

    Raises:
        ValueError: If a setting is wrong, or a column is missing.
        RuntimeError: If a document cannot be cut; `reverie.exceptions.FunctionError` if a function of your own fails.
    """
    given = documents._held if isinstance(documents, Documents) else _to_rows(documents)
    return Chunks(_core.Chunker(chunker).chunk(given), _core.settings(chunker))


def index(chunks: Any, embedder: Any = None, *, cores: int | None = None) -> Index:
    """Makes an index of chunks, in memory.

    Args:
        chunks: What `reverie.chunk` gave, or the same as a data frame or an Arrow table.
        embedder: The name of a local model, such as `"all-minilm-l6-v2"`, or a model as in `models` of an
            experiment: `{"embedding": {"openai": {…}}}`. Default: none; then words are searched, and no meanings.
        cores: How many threads a local model may use. Default: all of the machine's.

    Raises:
        ValueError: If there is no such model, or a column is missing.
        RuntimeError: If the model fails.
    """
    held, chunker = (chunks._held, chunks._chunker) if isinstance(chunks, Chunks) else (_to_rows(chunks), '{"sentence": {}}')
    embedding = None if embedder is None else _core.Embedding(embedder, cores)
    return Index(_core.Index(held, chunker, embedding))


class _ArrowTable(Table):
    """A table in Arrow's memory, whose rows become Python objects on demand."""

    def __init__(self, held: pyarrow.RecordBatch, columns: list[tuple[str, str]]) -> None:
        # Without `__init__` of the base class, which wants the rows.
        self._kinds, self._held = dict(columns), held

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:  # type: ignore[override]
        return list(zip(*(self._held[name].to_pylist() for name in self.columns)))

    def __len__(self) -> int:
        return self._held.num_rows

    def __getitem__(self, column: str) -> list[Any]:
        if isinstance(column, str) and column in self._kinds:
            return self._held[column].to_pylist()
        return super().__getitem__(column)

    def to_arrow(self) -> pyarrow.Table:
        """A `pyarrow.Table` with all columns. Needs pyarrow."""
        return _arrow().Table.from_batches([self._held])

    def _head(self) -> Table:
        rows = self._held.slice(0, _SHOWN)
        return Table(list(self._kinds.items()), zip(*(rows[name].to_pylist() for name in self.columns)))

    def __repr__(self) -> str:
        more = f"\n… {len(self):,} rows" if len(self) > _SHOWN else ""
        return f"{self._head()!r}{more}"

    def _repr_html_(self) -> str:
        more = f'<p style="opacity:.6">{len(self):,} rows</p>' if len(self) > _SHOWN else ""
        return f"{self._head()._repr_html_()}{more}"


class Documents(_ArrowTable):
    """Documents, a row each: `path`, `title`, `author`, `text`. Data frames and Arrow tables of it have more columns.

    `rejected` is a table of the files that gave no document: `path` and `reason`, a row each.
    """

    def __init__(self, held: pyarrow.RecordBatch, unread: list[tuple[str, str]]) -> None:
        compute = _arrow().compute
        is_document = compute.is_valid(held["text"])
        refused = held.filter(compute.invert(is_document))
        reasons = [_core.rejection(reason) or "" for reason in refused["rejected"].to_pylist()]
        rejected = [*unread, *zip(refused["path"].to_pylist(), reasons)]
        self.rejected = Table([("path", "text"), ("reason", "text")], sorted(rejected))
        """Files that gave no document, and why."""
        super().__init__(held.filter(is_document), [(name, "text") for name in ("path", "title", "author", "text")])

    def __reduce__(self) -> tuple[Any, ...]:
        return _documents, (self._held, self.rejected)


def _documents(held: pyarrow.RecordBatch, rejected: Table) -> Documents:
    made = Documents(held, [])
    made.rejected = rejected
    return made


class Chunks(_ArrowTable):
    """Chunks, a row each. `start` and `end` count characters of the document's text, as Python does:
    `text[start:end]` is the chunk. `start_byte` and `end_byte` count the bytes of its UTF-8."""

    def __init__(self, held: pyarrow.RecordBatch, chunker: str) -> None:
        self._chunker = chunker
        columns = [("document", "text"), ("number", "count")]
        columns += [(name, "count") for name in ("start", "end", "start_byte", "end_byte")]
        columns += [("text", "text"), ("searchable", "truth"), ("level", "count"), ("parent", "count")]
        columns += [("page", "count"), ("book", "text"), ("heading", "text")]
        super().__init__(held, columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._held, self._chunker)


class Index:
    """An index of chunks in memory. Several threads may search it."""

    def __init__(self, core: _core.Index) -> None:
        self._core = core

    def search(self, question: str, *, top_k: int | None = None, retriever: Any = None) -> Table:
        """What is found for a question, best first: `document`, `start`, `end`, `text`, `score` and where it stands.

        Args:
            question: What is asked.
            top_k: The most passages. Default: what the retriever says, 5 unless it is told otherwise.
            retriever: A name, an object such as `reverie.retriever.Hybrid()`, a dictionary, or a function decorated
                with `reverie.retriever`. Default: `hybrid` where there are vectors, else `bm25`.

        Raises:
            ValueError: If a setting is wrong, or the retriever needs vectors and the index has none.
            RuntimeError: If a model fails; `reverie.exceptions.FunctionError` if a function of your own does.
        """
        found = self._core.search(question, retriever, top_k)
        columns = [("document", "text"), ("score", "real"), ("text", "text"), ("start", "count"), ("end", "count")]
        columns += [("start_byte", "count"), ("end_byte", "count"), ("page", "count"), ("book", "text")]
        columns += [("heading", "text")]
        return Table(columns, ([passage[name] for name, _ in columns] for passage in found))

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


def _to_rows(given: Any) -> Any:
    """A list of dictionaries as an Arrow table; other data as it is."""
    if isinstance(given, (list, tuple)):
        return _arrow().Table.from_pylist(list(given))
    return given


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("stages by themselves need pyarrow: pip install pyarrow") from error
    return pyarrow
