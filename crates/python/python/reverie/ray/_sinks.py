"""Where the chunks of an ingest go. A sink is one class here.

A sink is made by the caller, checked before anything runs (`prepare`), and told what will run (`begin`). It may write on
the cluster (`writer`, an operator of the pipeline whose result is a row per file or block) or in the driver (`take`).
Blocks come in any order. `finish` makes it complete and says what was written.
"""

from __future__ import annotations

import functools
import hashlib
import os
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import Table

from reverie import _core

# What a writer reports about a block.
WRITTEN = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("left_out", pa.int64())])

# Runs a function on the cluster, shown under a name, with so many CPUs, or with those of a task.
Run = Callable[[str, Callable[[], Any], float | None], Any]


@dataclass(frozen=True)
class Start:
    """An ingest that begins."""

    corpus: _core.Corpus
    limits: str
    chunker: str
    embedder: Mapping[str, Any] | str
    run: Run


@dataclass(frozen=True)
class Work:
    """What is left to do, and what an earlier start did."""

    blocks: Sequence[_core.Block]
    documents: int = 0
    rejected: dict[str, str] = field(default_factory=dict)


# What a sink does between cutting and embedding: it gets the files of a block and their chunks, and returns the chunks
# that must be embedded, and how many documents need nothing more.
Selector = Callable[[Table, Table], tuple[Table, int]]


class Sink:
    """A place for chunks and their vectors."""

    def prepare(self) -> None:
        """Raises `ValueError` if it cannot be written."""

    def begin(self, start: Start) -> Work:
        """What is left to do: everything, if the sink does not go on with what an earlier start wrote."""
        return Work(start.corpus.blocks)

    def selector(self) -> Selector | None:
        """What chooses the chunks of a block that must be embedded; all, if there is none. It runs on the cluster."""
        return None

    def writer(self) -> Callable[[Table], Table] | None:
        """What writes a block on the cluster; it may be called twice with the same block."""
        return None

    def take(self, table: Table) -> None:
        """Takes a block: of the chunks, or of what the writer reported."""

    def finish(self) -> dict[str, Any]:
        """Makes it complete, and says what is there."""
        raise NotImplementedError


class Index(Sink):
    """Reverie's own index in a folder that every node sees, or at a URL: `chunks.parquet`, `index.dense`, `index.bm25`,
    the same bytes that a run makes.

    Workers write parts below `index.parts`. At the end a task on the cluster makes the index of them, and they are removed.
    If an ingest was interrupted, the next one with the same settings goes on with the parts that are there. An index that
    is complete is refused, also if it would be the same.
    """

    def __init__(self, address: str) -> None:
        # Workers have other working folders.
        self.address = address if "://" in address else os.path.abspath(address)
        self._start: Start | None = None
        self._settings = ""
        self._written: set[str] = set()

    def prepare(self) -> None:
        _core.IndexParts.check(self.address)

    def begin(self, start: Start) -> Work:
        # Models may be on the nodes only. It needs no CPU, because it reads files and computes nothing.
        settings = functools.partial(_settings, start.limits, start.chunker, start.embedder)
        self._start, self._settings = start, start.run("Settings", settings, 0)
        blocks, documents, rejected, _ = self._parts().plan(start.corpus, True)
        return Work(blocks, documents, dict(rejected))

    def selector(self) -> Selector:
        return functools.partial(_select, self.address, self._settings)

    def writer(self) -> Callable[[Table], Table]:
        return functools.partial(_write_parts, self.address, self._settings)

    def take(self, table: Table) -> None:
        self._written.update(table["name"].to_pylist())

    def finish(self) -> dict[str, Any]:
        assert self._start is not None, "begin comes first"
        parts = self._parts()
        missing, _, _, order = parts.plan(self._start.corpus, False)
        if missing:
            paths = [path for block in missing for path in block.paths]
            raise RuntimeError(
                f"{self.address}: no part holds all of {paths[0]} ({len(paths)} such files). Either they changed while they "
                "were read: start the ingest again, and it goes on with the parts that are there. Or not every node sees this "
                "folder: give one that is shared, or a URL"
            )
        merged = self._start.run("Merge", functools.partial(_merge, self.address, self._settings, order), None)
        try:
            parts.remove()
        except RuntimeError as error:
            warnings.warn(f"{self.address}: the index is complete, but its parts cannot be removed: {error}", stacklevel=3)
        return {**merged, "parts": len(self._written)}

    def _parts(self) -> _core.IndexParts:
        return _core.IndexParts(self.address, self._settings)


def _settings(limits: str, chunker: str, embedder: Mapping[str, Any] | str) -> str:
    return _core.index_settings(limits, chunker, embedder)


def _select(address: str, settings: str, files: Table, chunks: Table) -> tuple[Table, int]:
    left, held = _core.IndexParts(address, settings).begin(files, chunks)
    return Table.from_batches([left]), held


def _write_parts(address: str, settings: str, table: Table) -> Table:
    written = _core.IndexParts(address, settings).write(table)
    rows = [{"name": name, "rows": rows, "left_out": 0} for name, rows in written]
    return pa.Table.from_pylist(rows, schema=WRITTEN)


def _merge(address: str, settings: str, order: str) -> dict[str, Any]:
    return _core.IndexParts(address, settings).merge(order)


class Parquet(Sink):
    """Parquet files in a folder or at a URL, one for each block, written where the block is.

    Their names depend on what they hold, so that a block that is written twice is there once.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._files: dict[str, int] = {}

    def prepare(self) -> None:
        names = _core.Folder(self.address).names()
        if any(name.endswith(".parquet") and "/" not in name for name in names):
            raise ValueError(f"{self.address}: there are Parquet files already, which would be read as part of this corpus")

    def writer(self) -> Callable[[Table], Table]:
        return _ParquetWriter(self.address)

    def take(self, table: Table) -> None:
        self._files.update((row["name"], row["rows"]) for row in table.to_pylist())

    def finish(self) -> dict[str, Any]:
        return {"chunks": sum(self._files.values()), "files": sorted(self._files)}


class _ParquetWriter:
    def __init__(self, address: str) -> None:
        self.address = address

    def __call__(self, table: Table) -> Table:
        first = f"{table['document'][0]}\0{table['number'][0]}\0{table.num_rows}"
        name = f"chunks-{hashlib.sha256(first.encode()).hexdigest()[:16]}.parquet"
        written = pa.BufferOutputStream()
        pq.write_table(table, written, compression="zstd")
        _core.Folder(self.address).put(name, written.getvalue().to_pybytes())
        return pa.Table.from_pylist([{"name": name, "rows": table.num_rows, "left_out": 0}], schema=WRITTEN)


class Chroma(Sink):
    """A collection of a running Chroma server. Needs `pip install 'reverie[chroma]'` here and on the cluster.

    An entry is named by its document and number, so that a second ingest replaces what it finds. Chunks without
    a vector, such as the large ones of `hierarchical`, cannot be there: `left_out` counts them.
    """

    def __init__(self, url: str, collection: str, *, distance: str = "cosine", headers: dict[str, str] | None = None) -> None:
        self.url, self.collection, self.distance, self.headers = url, collection, distance, headers or {}
        self._rows: dict[str, tuple[int, int]] = {}

    def prepare(self) -> None:
        try:
            client = _chroma(self.url, self.headers)
        except ModuleNotFoundError as error:
            raise ValueError(f"Chroma's client is not installed ({error}): pip install 'reverie[chroma]'") from error
        except Exception as error:  # noqa: BLE001: its clients raise whatever their HTTP library does
            raise ValueError(f"{self.url}: no Chroma server answers: {error}") from error
        client.get_or_create_collection(self.collection, configuration={"hnsw": {"space": self.distance}}, embedding_function=None)

    def writer(self) -> Callable[[Table], Table]:
        return _ChromaWriter(self.url, self.collection, self.headers)

    def take(self, table: Table) -> None:
        self._rows.update((row["name"], (row["rows"], row["left_out"])) for row in table.to_pylist())

    def finish(self) -> dict[str, Any]:
        collection = _chroma(self.url, self.headers).get_collection(self.collection, embedding_function=None)
        written, left_out = (sum(each) for each in zip(*self._rows.values())) if self._rows else (0, 0)
        return {"chunks": written, "left_out": left_out, "collection": self.collection, "entries": collection.count()}


class _ChromaWriter:
    def __init__(self, url: str, collection: str, headers: dict[str, str]) -> None:
        self.url, self.collection, self.headers = url, collection, headers

    def __call__(self, table: Table) -> Table:
        first = f"{table['document'][0]}#{table['number'][0]}"
        kept = table.filter(table["vector"].is_valid())
        client = _chroma(self.url, self.headers)
        collection = client.get_collection(self.collection, embedding_function=None)
        step = client.get_max_batch_size()
        for start in range(0, kept.num_rows, step):
            rows = kept.slice(start, step)
            documents, numbers = rows["document"].to_pylist(), rows["number"].to_pylist()
            vectors = rows["vector"].combine_chunks()
            width = vectors.type.list_size
            collection.upsert(
                ids=[f"{document}#{number}" for document, number in zip(documents, numbers)],
                embeddings=list(vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)),
                documents=rows["text"].to_pylist(),
                metadatas=[_metadata(row) for row in rows.select([name for name in _METADATA if name in rows.column_names]).to_pylist()],
            )
        told = {"name": first, "rows": kept.num_rows, "left_out": table.num_rows - kept.num_rows}
        return pa.Table.from_pylist([told], schema=WRITTEN)


_METADATA = ["document", "number", "start", "end", "page", "level"]


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    # Chroma takes texts and numbers, and no nulls.
    return {name: value for name, value in row.items() if isinstance(value, (str, int, float))}


def _chroma(url: str, headers: dict[str, str]) -> Any:
    import chromadb
    from chromadb.config import Settings

    parts = urlsplit(url)
    return chromadb.HttpClient(
        host=parts.hostname or "localhost",
        port=parts.port or (443 if parts.scheme == "https" else 8000),
        ssl=parts.scheme == "https",
        headers=headers,
        settings=Settings(anonymized_telemetry=False),
    )
