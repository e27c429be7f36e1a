"""The retrievers with their settings: `reverie.retriever.Dense` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from reverie._settings import Component, Part


@dataclass(frozen=True, kw_only=True)
class Dense(Component):
    """`dense`: the chunks whose vectors are nearest to the question's.

    Use it when questions are worded differently from the documents. It is weak at names, codes and rare words; `hybrid`
    is strong at both.

    Args:
        top_k: The most chunks to return. Default 5.
        cutoff: Chunks with a lower cosine than this, from -1 to 1, are left out; none is left out if not set.
    """

    _name: ClassVar[str] = "dense"

    top_k: int = 5
    cutoff: float | None = None


@dataclass(frozen=True, kw_only=True)
class Bm25(Component):
    """`bm25`: the chunks that share the most telling words with the question.

    Use it for names, codes, error messages and rare words, and where no embedding model is available; it does not find
    synonyms. A question that shares no word with any chunk has no hits.

    Args:
        top_k: The most chunks to return. Default 5.
        language: The language of the texts: `auto`, or the English name of a language in lower case, such as `german`.
            `auto` detects the language of each document and each question. A question in an unclear language, such as
            one of a few words, is cut by the rules of all frequent languages of the corpus. `english` cuts texts
            exactly as LlamaIndex does: they are only lower-cased, not normalized (NFKC). Default `auto`.
        tokens: What counts as a term: `auto` (what fits the language), `words`, `bigrams` (pairs of characters in
            scripts without spaces, words elsewhere) or `ngrams` (runs of four characters of each word). Default `auto`.
        stemmer: Whether words are stemmed (their endings are cut off), if the language has a Snowball stemmer. Default
            true.
        stop_words: Whether stop words (words that nearly every text contains) are left out, if there is a list of them
            for the language. Default true.
        k1: How much further occurrences of a term add to the score, from 0 (nothing) to 1000. Default 1.5.
        b: How strongly long chunks are penalised, from 0 (not at all) to 1. Default 0.75.
    """

    _name: ClassVar[str] = "bm25"

    top_k: int = 5
    language: str = "auto"
    tokens: Literal["auto", "words", "bigrams", "ngrams"] = "auto"
    stemmer: bool = True
    stop_words: bool = True
    k1: float = 1.5
    b: float = 0.75


@dataclass(frozen=True, kw_only=True)
class Rrf(Component):
    """Reciprocal rank fusion.

    Args:
        k: The larger, the less the first ranks stand out. Default 60.
    """

    _name: ClassVar[str] = "rrf"

    k: int = 60


@dataclass(frozen=True, kw_only=True)
class Weighted(Component):
    """A weighted sum of the scores, each list on a scale of its own.

    Args:
        dense_weight: The share of the vectors, from 0 to 1; the words have the rest. Default 0.5.
        normalization: What makes the two sides' scores comparable. Default `min_max`.
    """

    _name: ClassVar[str] = "weighted"

    dense_weight: float = 0.5
    normalization: Literal["min_max", "z_score", "dbsf", "theoretical_minimum"] = "min_max"


@dataclass(frozen=True, kw_only=True)
class Hybrid(Component):
    """`hybrid`: vectors and words search side by side, and the two lists are joined.

    The best first choice: each side finds what the other is blind to. `rrf` joins by ranks and has nothing to tune;
    `weighted` joins by scores, which pays where one side is known to be better. Its `normalization` decides what makes
    the two sides' scores comparable: `min_max` looks at the best and the last hit only, so one that stands out squeezes
    all others together; `z_score` and `dbsf` look at all hits, and pay where such hits are common;
    `theoretical_minimum` keeps how bad a list is as a whole, which pays where one side often finds nothing that fits.
    None of them pays where the ranks say as much as the scores: then `rrf` is as good and needs no weight.

    Args:
        top_k: The most chunks to return. Default 5.
        candidates: How many chunks each side puts forward. Default: four times `top_k`, at least 20.
        fusion: How the two lists are joined. Default `rrf`.
        language: The language of the texts: `auto`, or the English name of a language in lower case, such as `german`.
            `auto` detects the language of each document and each question. A question in an unclear language, such as
            one of a few words, is cut by the rules of all frequent languages of the corpus. `english` cuts texts
            exactly as LlamaIndex does: they are only lower-cased, not normalized (NFKC). Default `auto`.
        tokens: What counts as a term: `auto` (what fits the language), `words`, `bigrams` (pairs of characters in
            scripts without spaces, words elsewhere) or `ngrams` (runs of four characters of each word). Default `auto`.
        stemmer: Whether words are stemmed (their endings are cut off), if the language has a Snowball stemmer. Default
            true.
        stop_words: Whether stop words (words that nearly every text contains) are left out, if there is a list of them
            for the language. Default true.
        k1: How much further occurrences of a term add to the score, from 0 (nothing) to 1000. Default 1.5.
        b: How strongly long chunks are penalised, from 0 (not at all) to 1. Default 0.75.
    """

    _name: ClassVar[str] = "hybrid"

    top_k: int = 5
    candidates: int | None = None
    fusion: Rrf | Weighted | Mapping[str, Any] = Rrf()
    language: str = "auto"
    tokens: Literal["auto", "words", "bigrams", "ngrams"] = "auto"
    stemmer: bool = True
    stop_words: bool = True
    k1: float = 1.5
    b: float = 0.75


@dataclass(frozen=True, kw_only=True)
class Mmr(Component):
    """`mmr`: near to the question, but not the same thing twice (maximal marginal relevance).

    Use it where documents repeat themselves, so that five hits would be five copies of one passage. Each next hit is
    the candidate with the highest `lambda · cosine(question) − (1 − lambda) · highest cosine(chosen hits)`, which is
    also its score. A cosine below 0 to what was chosen counts as 0: no hit is more novel than an unrelated one, and
    scores fall from hit to hit.

    Args:
        top_k: The most chunks to return. Default 5.
        candidates: How many of the nearest chunks are chosen from. Default: four times `top_k`, at least 20.
        lambda_: From 0 to 1: 1 is nearness alone, 0 is novelty alone. Default 0.5.
    """

    _name: ClassVar[str] = "mmr"

    top_k: int = 5
    candidates: int | None = None
    lambda_: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Pgvector(Component):
    """`pgvector`: searches a table of PostgreSQL that you have filled, with the extension pgvector.

    Use it if your application has its vectors in PostgreSQL: trials differ in how the table is searched, and in all
    that comes after it. Nothing is written there. The trial's embedder must be the one that filled the table: before a
    run, the texts of some rows are embedded and compared with their vectors. The right to `select` is enough.

    Args:
        table: The table or view, as `table` or `schema.table`.
        id: The column with the id. Default: the primary key.
        vector: The column with the vector. Default `embedding`.
        text: The column with the text. Default `text`.
        document: The column with the path of the document in the corpus, its file's name, or the name without its
            ending. `meta.source` is the value `source` of a JSON column `meta`. Without it, passages are looked for in
            all documents.
        page: The column with the page.
        title: The column with the title.
        metadata: A JSON column with the other fields that filters may name.
        fields: Columns by the names that filters use, such as `{ year = "published" }`.
        condition: A condition in SQL that all rows must meet, such as `"lang = 'en'"`.
        metric: `cosine`, `inner_product` or `l2`: what the table is indexed for. Default `cosine`.
        top_k: The most passages to return. Default 5.
        ef: How many near vectors an `hnsw` index keeps during a search. Default: the server's.
        probes: The clusters that an `ivfflat` index looks into. Default: the server's.
        oversampling: Searches an index over `binary_quantize(vector)`, one bit a number: how many times `top_k` rows it
            finds, of which the nearest by their vectors are returned. Default: 1 if the table has such an index alone,
            else it is not searched.
        exact: Whether to compare every vector, without the index. Default false.
        hybrid: Whether to search by words too, by PostgreSQL's full-text search. Default false.
        language: How texts are cut into words: a text search configuration, such as `english` or `simple`. Default
            `english`; only with `hybrid`.
        words: The column with the words of each text, of the type `tsvector`. Without it, every search reads all texts;
            only with `hybrid`.
        version: What stands for the content of the table in keys. Default: its number of rows, and PostgreSQL's count
            of changes.
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

    table: str = ""
    id: str | None = None
    vector: str = "embedding"
    text: str = "text"
    document: str | None = None
    page: str | None = None
    title: str | None = None
    metadata: str | None = None
    fields: Mapping[str, Any] | None = None
    condition: str | None = None
    metric: Literal["cosine", "inner_product", "l2"] = "cosine"
    top_k: int = 5
    ef: int | None = None
    probes: int | None = None
    oversampling: int | None = None
    exact: bool = False
    hybrid: bool = False
    language: str = "english"
    words: str | None = None
    version: str | None = None
    url: str = "env:DATABASE_URL"
    identity: str | None = None
    timeout_seconds: int = 30
    concurrency: int = 64
    plain: bool = False


@dataclass(frozen=True, kw_only=True)
class Chroma(Component):
    """`chroma`: searches a collection of a Chroma server that you have filled.

    Use it if your application has its vectors in Chroma. Nothing is written there. The trial's embedder must be the one
    that filled the collection: before a run, the texts of some records are embedded and compared with their vectors.

    Args:
        collection: The name of the collection.
        document: The key of the metadata with the path of the document in the corpus, its file's name, or the name
            without its ending. Without it, passages are looked for in all documents.
        page: The key of the metadata with the page.
        title: The key of the metadata with the title.
        fields: Keys of the metadata by the names that filters use, where they differ.
        condition: A condition that all records must meet, as Chroma's `where` in JSON.
        metric: `cosine`, `inner_product` or `l2`: what the collection is indexed for. Chroma's own default is `l2`.
            Default `cosine`.
        top_k: The most passages to return. Default 5.
        tenant: Default `default_tenant`.
        database: Default `default_database`.
        api_key: The key of the server, as `env:NAME`; none if not set.
        version: What stands for the content of the collection in keys. Default: its number of records.
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

    collection: str = ""
    document: str | None = None
    page: str | None = None
    title: str | None = None
    fields: Mapping[str, Any] | None = None
    condition: str | None = None
    metric: Literal["cosine", "inner_product", "l2"] = "cosine"
    top_k: int = 5
    tenant: str = "default_tenant"
    database: str = "default_database"
    api_key: str | None = None
    version: str | None = None
    url: str = "http://127.0.0.1:8000"
    identity: str | None = None
    timeout_seconds: int = 30
    concurrency: int = 64
    plain: bool = False


@dataclass(frozen=True, kw_only=True)
class Qdrant(Component):
    """`qdrant`: searches a collection of a Qdrant server that you have filled.

    Use it if your application has its vectors in Qdrant. Nothing is written there. The trial's embedder must be the one
    that filled the collection: before a run, the texts of some points are embedded and compared with their vectors.

    Args:
        collection: The name of the collection, or of an alias.
        vector: The name of the vector, where points have several. Default: the vector without a name.
        text: The place of the text in the payload. LangChain writes it to `page_content`. Default `text`.
        document: The place of the path of the document in the corpus, its file's name, or the name without its ending.
            Without it, passages are looked for in all documents.
        page: The place of the page.
        title: The place of the title.
        metadata: An object in the payload with the other fields that filters may name, such as `metadata`. Default: the
            payload itself.
        fields: Places in the payload by the names that filters use, where they differ.
        condition: A condition that all points must meet, as a filter of Qdrant in JSON.
        metric: `cosine`, `inner_product` or `l2`: the distance of the collection. Default `cosine`.
        top_k: The most passages to return. Default 5.
        ef: How many near vectors the graph keeps during a search. Default: the collection's.
        oversampling: In a collection with quantization: how many times `top_k` points are found by the smaller vectors,
            of which the nearest by their own vectors are returned. Default: the server's.
        exact: Whether to compare every vector, without the graph. Default false.
        api_key: The key of the server, as `env:NAME`; none if not set.
        version: What stands for the content of the collection in keys. Default: its number of points.
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

    collection: str = ""
    vector: str | None = None
    text: str = "text"
    document: str | None = None
    page: str | None = None
    title: str | None = None
    metadata: str | None = None
    fields: Mapping[str, Any] | None = None
    condition: str | None = None
    metric: Literal["cosine", "inner_product", "l2"] = "cosine"
    top_k: int = 5
    ef: int | None = None
    oversampling: int | None = None
    exact: bool = False
    api_key: str | None = None
    version: str | None = None
    url: str = "http://127.0.0.1:6333"
    identity: str | None = None
    timeout_seconds: int = 30
    concurrency: int = 64
    plain: bool = False


@dataclass(frozen=True, kw_only=True)
class Milvus(Component):
    """`milvus`: searches a collection of Milvus that you have filled.

    Use it if your application has its vectors in Milvus. Nothing is written there. The trial's embedder must be the one
    that filled the collection: before a run, the texts of some records are embedded and compared with their vectors.

    Args:
        collection: The name of the collection, or of an alias.
        vector: The field with the vector. Default `vector`.
        text: The field with the text. Default `text`.
        document: The field with the path of the document in the corpus, its file's name, or the name without its
            ending. Without it, passages are looked for in all documents.
        page: The field with the page.
        title: The field with the title.
        metadata: A JSON field with the other fields that filters may name. Default: the fields of the record.
        fields: Fields by the names that filters use, where they differ.
        condition: A condition that all records must meet, as an expression of Milvus.
        metric: `cosine`, `inner_product` or `l2`: what the collection is indexed for. Default `cosine`.
        top_k: The most passages to return. Default 5.
        ef: How many near vectors an `HNSW` index keeps during a search. Default 64.
        probes: The clusters that an `IVF` index looks into. Default 16.
        hybrid: Whether to search by words too. Default false.
        words: With `hybrid`: the field that a BM25 function makes of the text.
        database: Default `default`.
        api_key: A token, or `user:password`, as `env:NAME`; none if not set.
        version: What stands for the content of the collection in keys. Default: its number of records.
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

    collection: str = ""
    vector: str = "vector"
    text: str = "text"
    document: str | None = None
    page: str | None = None
    title: str | None = None
    metadata: str | None = None
    fields: Mapping[str, Any] | None = None
    condition: str | None = None
    metric: Literal["cosine", "inner_product", "l2"] = "cosine"
    top_k: int = 5
    ef: int | None = None
    probes: int | None = None
    hybrid: bool = False
    words: str | None = None
    database: str = "default"
    api_key: str | None = None
    version: str | None = None
    url: str = "http://127.0.0.1:19530"
    identity: str | None = None
    timeout_seconds: int = 30
    concurrency: int = 64
    plain: bool = False


@dataclass(frozen=True, kw_only=True)
class Elasticsearch(Component):
    """`elasticsearch`: searches an index of Elasticsearch or OpenSearch that you have filled.

    Use it if your application has its vectors there. Nothing is written. The trial's embedder must be the one that
    filled the index: before a run, the texts of some records are embedded and compared with their vectors.

    Args:
        index: The name of the index, or of an alias.
        vector: The field with the vector. Default `vector`.
        text: The field with the text. Default `text`.
        document: The field with the path of the document in the corpus, its file's name, or the name without its
            ending. Without it, passages are looked for in all documents.
        page: The field with the page.
        title: The field with the title.
        metadata: An object with the other fields that filters may name, such as `metadata`. Default: the fields of the
            record.
        fields: Fields by the names that filters use, where they differ.
        condition: A condition that all records must meet, as a query in JSON.
        metric: `cosine`, `inner_product` or `l2`: what the field is indexed for. Default `cosine`.
        top_k: The most passages to return. Default 5.
        ef: How many near vectors the graph keeps during a search (`num_candidates`). Default: 100, or more if `top_k`
            is larger.
        exact: Whether to compare every vector, without the graph. Default false.
        hybrid: Whether to search by words too. Default false.
        api_key: The encoded API key, as `env:NAME`; none if not set.
        version: What stands for the content of the collection in keys. Default: its number of records.
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

    index: str = ""
    vector: str = "vector"
    text: str = "text"
    document: str | None = None
    page: str | None = None
    title: str | None = None
    metadata: str | None = None
    fields: Mapping[str, Any] | None = None
    condition: str | None = None
    metric: Literal["cosine", "inner_product", "l2"] = "cosine"
    top_k: int = 5
    ef: int | None = None
    exact: bool = False
    hybrid: bool = False
    api_key: str | None = None
    version: str | None = None
    url: str = "http://127.0.0.1:9200"
    identity: str | None = None
    timeout_seconds: int = 30
    concurrency: int = 64
    plain: bool = False


@dataclass(frozen=True, kw_only=True)
class PassagePaths(Part):
    """Where the parts of a passage stand in it. A passage may also be a plain text.

    Args:
        text: The path to its text. Default `text`; empty if a system returns no texts, but only names of documents or
            ids.
        document: The path to the document, as the system names it, such as `metadata.source`.
        start: The path to the position in the document where it begins.
        end: The path to the position where it ends.
        page: The path to the page, a number from 1.
        id: The path to the system's own id of the passage.
        score: The path to the system's own score.
    """

    text: str = "text"
    document: str | None = None
    start: str | None = None
    end: str | None = None
    page: str | None = None
    id: str | None = None
    score: str | None = None


@dataclass(frozen=True, kw_only=True)
class EndpointLimits(Part):
    """The known limits of an endpoint. Limits that are left out are learned: from the headers of answers, from
    refusals, and from latencies.

    All uses of one model at one endpoint with one key share one limit. If several entries of `[models]` state different
    rates or `concurrency` for it, the smallest of each holds for all of them. `hedge` and `refusal_timeout_seconds`
    hold for their own entry only.

    Args:
        requests_per_minute: Calls per minute.
        tokens_per_minute: Tokens per minute.
        hedge: The share of calls that may be made a second time when the first attempt takes unusually long; the
            provider may charge for both. None if left out.
        refusal_timeout_seconds: How long refusals for lack of capacity (429, 503) may continue with no call getting
            through, in seconds; then the calls fail, and the next run makes them again. As long as any call gets
            through, no call is given up because of a refusal. 300 if left out, and never less than one answer may take.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    hedge: float | None = None
    refusal_timeout_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Http(Component):
    """`http`: asks a program behind HTTP for passages, such as a search service of your own.

    Use it if no other retriever knows your database, or if your service does more than search. Any method will do, with
    JSON or parameters of the address as the request, and JSON as the reply.

    Args:
        url: The whole address, without parameters. It is used as it is: a slash at its end is kept.
        method: The HTTP method. Default `POST`.
        headers: Headers of every request. A value `env:NAME` is read from that variable; a secret must be written so.
        api_key_env: The variable that holds the key, which is sent as a bearer token. Default: no key.
        query: Parameters of the address; each value is a template.
        body: The body, a template of JSON. Default: `{ question = "{question}", top_k = "{top_k}" }`, unless `query` is
            set or the method is one without a body, such as `GET`.
        passages: The path to the list of passages. Default `passages`.
        passage: The paths to the parts of a passage, within the passage: `text` (default `text`), `document`, `start`,
            `end`, `page`, `id` and `score`.
        question: The path at which the reply repeats the question. If it repeats another one, the reply is an error.
        top_k: The most passages to return. Default 5.
        version: What stands for the content of the index in keys. Without it, later runs take the passages from the
            store even if the index has changed.
        timeout_seconds: How long one call may take, in seconds. Default 120.
        connect_timeout_seconds: How long the connection may take, in seconds. Default 10.
        max_response_bytes: The largest reply, in bytes. Default 16 MiB.
        concurrency: How many calls may be in flight at once; if left out, as many as the program turns out to take.
        limits: What is known of its limits; the rest is learned.
        plain_http: Whether a key may be sent to another machine over `http://`. Default false.
    """

    _name: ClassVar[str] = "http"

    url: str = ""
    method: str = "POST"
    headers: Mapping[str, Any] | None = None
    api_key_env: str | None = None
    query: Mapping[str, Any] | None = None
    body: Any = None
    passages: str = "passages"
    passage: PassagePaths | Mapping[str, Any] = PassagePaths()
    question: str | None = None
    top_k: int = 5
    version: str | None = None
    timeout_seconds: float = 120.0
    connect_timeout_seconds: float = 10.0
    max_response_bytes: int = 16777216
    concurrency: int | None = None
    limits: EndpointLimits | Mapping[str, Any] = EndpointLimits()
    plain_http: bool = False


@dataclass(frozen=True, kw_only=True)
class Python(Component):
    """`python`: chunks that a function of the user's own finds.

    When to use it: to try a way of searching that Reverie has not, on a corpus that fits into memory several times:
    every call gives the function all searchable chunks. An experiment makes one call for all its questions; a pipeline
    that is asked makes one for each question. The file's path is relative to the experiment file.

    Args:
        file: The file with the function, relative to the experiment file.
        function: The function. Default `retrieve`.
        interpreter: The program that runs it. Default: the Python that started Reverie, else that of the active virtual
            environment, else `python3`.
        timeout_seconds: How long one call may take, in seconds. Default 300; no part of any key.
        concurrency: How many calls of an `async def` run at once, 1 to 256. Default 16; no part of any key. Other
            functions are called one at a time.
        top_k: The most chunks or passages to return. Default 5.
    """

    _name: ClassVar[str] = "python"

    file: str
    function: str = "retrieve"
    interpreter: str | None = None
    timeout_seconds: float = 300.0
    concurrency: int | None = None
    top_k: int = 5


@dataclass(frozen=True, kw_only=True)
class None_(Component):
    """`none`: nothing is searched, and nothing is found.

    What comes before a generator that reads no passages, such as `no_retrieval`: such a generator makes one trial,
    whatever else is listed.
    """

    _name: ClassVar[str] = "none"


class Retrievers:
    """The retrievers by their names: `reverie.retriever` has them."""

    Dense = Dense
    Bm25 = Bm25
    Hybrid = Hybrid
    Mmr = Mmr
    Pgvector = Pgvector
    Chroma = Chroma
    Qdrant = Qdrant
    Milvus = Milvus
    Elasticsearch = Elasticsearch
    Http = Http
    Python = Python
    None_ = None_
