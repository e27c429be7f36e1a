"""The vector_indexes with their settings: `reverie.vector_index.Flat` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from reverie._settings import Component


@dataclass(frozen=True, kw_only=True)
class Flat(Component):
    """`flat`: every vector is compared with the question's, so that nothing is missed.

    Use it up to about a million chunks. It has no settings, and is what `dense`, `hybrid` and `mmr` search if `index`
    is left out.
    """

    _name: ClassVar[str] = "flat"


@dataclass(frozen=True, kw_only=True)
class Hnsw(Component):
    """`hnsw`: a graph of near vectors is walked towards the question's, which looks at a small part of them and may
    miss some.

    Use it above a few hundred thousand chunks, where `flat` becomes slow. To see what it misses, list `flat` too: the
    leaderboard compares them.

    Args:
        m: Half of the links that a vector has. More find more, and take more memory (about 9 bytes a vector each).
            Default 16.
        ef_construction: How many near vectors are kept while links are chosen. More give a better graph, and take
            longer to build. Default 128.
        ef: How many near vectors are kept during a search, at least as many as are returned. More find more, and take
            longer. Trials that differ in this alone share one index. Default 128.
    """

    _name: ClassVar[str] = "hnsw"

    m: int = 16
    ef_construction: int = 128
    ef: int = 128


@dataclass(frozen=True, kw_only=True)
class Pgvector(Component):
    """`pgvector`: the chunks are written into a table of PostgreSQL with the extension pgvector, and searched there.

    Use it to see what your own database finds before you move there. The table is made for the trial, in the schema
    that you name, and `reverie store gc` removes it. PostgreSQL needs pgvector 0.8 or newer.

    Args:
        kind: `hnsw`, `ivfflat` or `exact`. Default `hnsw`.
        m: Of `hnsw`: the links of a vector. Default 16.
        ef_construction: Of `hnsw`: how many near vectors are kept while links are chosen. Default 64.
        ef: Of `hnsw`: how many near vectors are kept during a search. Trials that differ in this alone share one table.
            Default 40.
        lists: Of `ivfflat`: the clusters; 0 is a thousandth of the chunks, and their square root above a million.
            Default 0.
        probes: Of `ivfflat`: the clusters that a search looks into. Trials that differ in this alone share one table.
            Default 10.
        precision: `f32`; `f16` for half of the memory; `binary` for an index over one bit a number, which is much
            smaller. With an index, `f32` takes at most 2,000 dimensions, `f16` 4,000, `binary` 16,000. Default `f32`.
        oversampling: Of `precision = "binary"`: how many times as many chunks as are returned the index finds; the
            nearest of them by their 32-bit vectors are returned. Trials that differ in this alone share one table.
            Default 4.
        schema: The schema of the table. Default `public`.
        url: The address of the database, or `env:NAME` for a variable that holds it. An address with a password must be
            in a variable.
        identity: A name that stands for the address in keys, if a database has several addresses. Default: the address
            without user and password.
        timeout_seconds: The most seconds that one call may take; building an index takes as long as it takes. Default
            30.
        concurrency: The most calls at once. Default 64.
        plain: Whether a password or a key may be sent to another machine without TLS. Default false.
    """

    _name: ClassVar[str] = "pgvector"

    kind: Literal["hnsw", "ivfflat", "exact"] = "hnsw"
    m: int = 16
    ef_construction: int = 64
    ef: int = 40
    lists: int = 0
    probes: int = 10
    precision: Literal["f32", "f16", "int8", "binary"] = "f32"
    oversampling: int = 4
    schema: str = "public"
    url: str = "env:DATABASE_URL"
    identity: str | None = None
    timeout_seconds: int = 30
    concurrency: int = 64
    plain: bool = False


@dataclass(frozen=True, kw_only=True)
class Chroma(Component):
    """`chroma`: the chunks are written into a collection of a Chroma server, and searched there.

    Use it to see what your own database finds before you move there. The collection is made for the trial, and `reverie
    store gc` removes it. The server needs version 1.0 or newer. `ef` belongs to a collection, so trials with another
    `ef` have a collection of their own.

    Args:
        m: The links of a vector. Default 16.
        ef_construction: How many near vectors are kept while links are chosen. Default 100.
        ef: How many near vectors are kept during a search. Default 100.
        tenant: Default `default_tenant`.
        database: Default `default_database`.
        api_key: The key of the server, as `env:NAME`; none if not set.
        url: The address of the database, or `env:NAME` for a variable that holds it. An address with a password must be
            in a variable.
        identity: A name that stands for the address in keys, if a database has several addresses. Default: the address
            without user and password.
        timeout_seconds: The most seconds that one call may take; building an index takes as long as it takes. Default
            30.
        concurrency: The most calls at once. Default 64.
        plain: Whether a password or a key may be sent to another machine without TLS. Default false.
    """

    _name: ClassVar[str] = "chroma"

    m: int = 16
    ef_construction: int = 100
    ef: int = 100
    tenant: str = "default_tenant"
    database: str = "default_database"
    api_key: str | None = None
    url: str = "http://127.0.0.1:8000"
    identity: str | None = None
    timeout_seconds: int = 30
    concurrency: int = 64
    plain: bool = False


@dataclass(frozen=True, kw_only=True)
class Qdrant(Component):
    """`qdrant`: the chunks are written into a collection of a Qdrant server, and searched there.

    Use it to see what your own database finds before you move there. The collection is made for the trial, and `reverie
    store gc` removes it. The server needs version 1.10 or newer.

    Args:
        kind: `hnsw` or `exact`. Default `hnsw`.
        m: Of `hnsw`: the links of a vector. Default 16.
        ef_construction: Of `hnsw`: how many near vectors are kept while links are chosen. Default 100.
        ef: Of `hnsw`: how many near vectors are kept during a search. Trials that differ in this alone share one
            collection. Default 100.
        precision: `f32`; `f16` for half of the memory; `int8` or `binary` for an index over a copy of 8 bits or of one
            bit a number, which is a quarter or a 32nd of the memory. Default `f32`.
        oversampling: Of `precision` `int8` and `binary`: how many times as many chunks as are returned the index finds;
            the nearest of them by their 32-bit vectors are returned. Trials that differ in this alone share one
            collection. Default 4.
        api_key: The key of the server, as `env:NAME`; none if not set.
        url: The address of the database, or `env:NAME` for a variable that holds it. An address with a password must be
            in a variable.
        identity: A name that stands for the address in keys, if a database has several addresses. Default: the address
            without user and password.
        timeout_seconds: The most seconds that one call may take; building an index takes as long as it takes. Default
            30.
        concurrency: The most calls at once. Default 64.
        plain: Whether a password or a key may be sent to another machine without TLS. Default false.
    """

    _name: ClassVar[str] = "qdrant"

    kind: Literal["hnsw", "exact"] = "hnsw"
    m: int = 16
    ef_construction: int = 100
    ef: int = 100
    precision: Literal["f32", "f16", "int8", "binary"] = "f32"
    oversampling: int = 4
    api_key: str | None = None
    url: str = "http://127.0.0.1:6333"
    identity: str | None = None
    timeout_seconds: int = 30
    concurrency: int = 64
    plain: bool = False


@dataclass(frozen=True, kw_only=True)
class Milvus(Component):
    """`milvus`: the chunks are written into a collection of Milvus, and searched there.

    Use it to see what your own database finds before you move there. The collection is made for the trial, and `reverie
    store gc` removes it. The server needs version 2.4 or newer, or is Milvus Lite.

    Args:
        kind: `hnsw`, `ivfflat` or `exact`. Default `hnsw`.
        m: Of `hnsw`: the links of a vector. Default 16.
        ef_construction: Of `hnsw`: how many near vectors are kept while links are chosen. Default 100.
        ef: Of `hnsw`: how many near vectors are kept during a search. Trials that differ in this alone share one
            collection. Default 64.
        lists: Of `ivfflat`: the clusters; 0 is a thousandth of the chunks, and their square root above a million.
            Default 0.
        probes: Of `ivfflat`: the clusters that a search looks into. Trials that differ in this alone share one
            collection. Default 16.
        database: Default `default`.
        api_key: A token, or `user:password`, as `env:NAME`; none if not set.
        url: The address of the database, or `env:NAME` for a variable that holds it. An address with a password must be
            in a variable.
        identity: A name that stands for the address in keys, if a database has several addresses. Default: the address
            without user and password.
        timeout_seconds: The most seconds that one call may take; building an index takes as long as it takes. Default
            30.
        concurrency: The most calls at once. Default 64.
        plain: Whether a password or a key may be sent to another machine without TLS. Default false.
    """

    _name: ClassVar[str] = "milvus"

    kind: Literal["hnsw", "ivfflat", "exact"] = "hnsw"
    m: int = 16
    ef_construction: int = 100
    ef: int = 64
    lists: int = 0
    probes: int = 16
    database: str = "default"
    api_key: str | None = None
    url: str = "http://127.0.0.1:19530"
    identity: str | None = None
    timeout_seconds: int = 30
    concurrency: int = 64
    plain: bool = False


@dataclass(frozen=True, kw_only=True)
class Elasticsearch(Component):
    """`elasticsearch`: the chunks are written into an index of Elasticsearch or OpenSearch, and searched there.

    Use it to see what your own cluster finds before you move there. The index is made for the trial, and `reverie store
    gc` removes it. Elasticsearch needs version 8.4 or newer, OpenSearch 2.4 and its plugin k-NN. Vectors are stored as
    they are, in an `hnsw` graph, not rounded to 8 bits or fewer, as Elasticsearch does by default.

    Args:
        kind: `hnsw` or `exact`. Default `hnsw`.
        m: Of `hnsw`: the links of a vector. Default 16.
        ef_construction: Of `hnsw`: how many near vectors are kept while links are chosen. Default 100.
        ef: Of `hnsw`: how many near vectors are kept during a search (`num_candidates`). Trials that differ in this
            alone share one index. Default 100.
        api_key: The encoded API key, as `env:NAME`; none if not set.
        url: The address of the database, or `env:NAME` for a variable that holds it. An address with a password must be
            in a variable.
        identity: A name that stands for the address in keys, if a database has several addresses. Default: the address
            without user and password.
        timeout_seconds: The most seconds that one call may take; building an index takes as long as it takes. Default
            30.
        concurrency: The most calls at once. Default 64.
        plain: Whether a password or a key may be sent to another machine without TLS. Default false.
    """

    _name: ClassVar[str] = "elasticsearch"

    kind: Literal["hnsw", "exact"] = "hnsw"
    m: int = 16
    ef_construction: int = 100
    ef: int = 100
    api_key: str | None = None
    url: str = "http://127.0.0.1:9200"
    identity: str | None = None
    timeout_seconds: int = 30
    concurrency: int = 64
    plain: bool = False


class VectorIndexes:
    """The vector_indexes by their names: `reverie.vector_index` has them."""

    Flat = Flat
    Hnsw = Hnsw
    Pgvector = Pgvector
    Chroma = Chroma
    Qdrant = Qdrant
    Milvus = Milvus
    Elasticsearch = Elasticsearch


vector_index = VectorIndexes()
