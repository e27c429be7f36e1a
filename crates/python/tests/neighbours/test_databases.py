"""Tables that psycopg and LlamaIndex have filled: the retriever `pgvector` finds in them what their own clients find."""

from __future__ import annotations

import json
import math
import zlib

import pytest

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("llama_index.vector_stores.postgres")

from llama_index.core import Document, StorageContext, VectorStoreIndex  # noqa: E402
from llama_index.core.embeddings import BaseEmbedding  # noqa: E402
from llama_index.core.node_parser import SentenceSplitter  # noqa: E402
from llama_index.vector_stores.postgres import PGVectorStore  # noqa: E402
from pgvector.psycopg import register_vector  # noqa: E402

import databases  # noqa: E402
import reverie  # noqa: E402
from reverie import llama_index  # noqa: E402
from workspace import settings  # noqa: E402

DIMENSIONS = 64
TOP = 4


def grams(text: str) -> list[float]:
    """The vector of a text: how often runs of three characters occur in it, of length 1."""
    counts = [0.0] * DIMENSIONS
    for start in range(len(text) - 2):
        counts[zlib.crc32(text[start : start + 3].encode()) % DIMENSIONS] += 1.0
    length = math.sqrt(sum(count * count for count in counts)) or 1.0
    return [count / length for count in counts]


class Grams(BaseEmbedding):
    """The same as an embedding model of LlamaIndex."""

    def _get_query_embedding(self, query):
        return grams(query)

    async def _aget_query_embedding(self, query):
        return grams(query)

    def _get_text_embedding(self, text):
        return grams(text)


@pytest.fixture
def postgres(tmp_path, monkeypatch):
    """The address of a PostgreSQL server with pgvector, also in DATABASE_URL."""
    with databases.postgres(tmp_path) as url:
        monkeypatch.setenv("DATABASE_URL", url)
        yield url


def found_by_us(small, retriever: dict) -> list[list[tuple[str, float]]]:
    """Texts and scores that a trial with this retriever finds for each golden question."""
    tables = settings(small, "http://127.0.0.1:1", name="existing", models={"grams": llama_index.embedder(Grams(model_name="grams"), version="1")})
    tables["space"] = {"embedder": ["grams"], "retriever": [{"pgvector": {**retriever, "top_k": TOP}}]}
    tables["evaluate"] = {"metrics": ["recall"], "objective": ["recall"]}
    experiment = reverie.Experiment(tables)
    results = experiment.run(progress=False)
    (trial,) = results.trials
    # The passages are found in the documents, so the metric counts them.
    assert sum(row["recall"] for row in results.questions(trial.id)) > 0
    pipeline = experiment.pipeline()
    return [[(passage.text, passage.score) for passage in pipeline.retrieve(text)] for text in questions(small)]


def questions(small) -> list[str]:
    lines = (small.folder / "golden.jsonl").read_text().splitlines()
    return sorted(json.loads(line)["question"] for line in lines)


def same(ours, theirs):
    """The same texts in the same order, with the same scores; equal scores in any order."""
    assert len(ours) == len(theirs) > 0
    for mine, yours in zip(ours, theirs, strict=True):
        assert [round(score, 4) for _, score in mine] == [round(score, 4) for _, score in yours]
        least = min(score for _, score in yours) + 1e-6
        assert {text for text, score in mine if score > least} == {text for text, score in yours if score > least}


def test_a_table_that_psycopg_has_filled_gives_the_hits_of_psycopg(small, postgres):
    with psycopg.connect(postgres, autocommit=True) as client:
        register_vector(client)
        client.execute(f"create table docs (id bigserial primary key, file text, body text, embedding vector({DIMENSIONS}))")
        for path in sorted((small.folder / "docs").iterdir()):
            for body in (part.strip() for part in path.read_text().split(". ") if part.strip()):
                client.execute("insert into docs (file, body, embedding) values (%s, %s, %s::vector)", (path.name, body, str(grams(body))))
        client.execute("create index on docs using hnsw (embedding vector_cosine_ops)")
        ours = found_by_us(small, {"table": "docs", "text": "body", "document": "file"})
        asked = "select body, 1 - (embedding <=> %s::vector) from docs order by embedding <=> %s::vector, id limit %s"
        theirs = [client.execute(asked, (str(grams(text)), str(grams(text)), TOP)).fetchall() for text in questions(small)]
    same(ours, theirs)


def test_a_table_that_llama_index_has_filled_gives_the_hits_of_llama_index(small, postgres):
    port = int(postgres.rsplit(":", 1)[1].split("/")[0])
    store = PGVectorStore.from_params(database="postgres", host="127.0.0.1", port=str(port), user="owner", password=databases.PASSWORD, table_name="manuals", embed_dim=DIMENSIONS)
    documents = [Document(text=path.read_text(), metadata={"file_name": path.name}, excluded_embed_metadata_keys=["file_name"]) for path in sorted((small.folder / "docs").iterdir())]
    index = VectorStoreIndex.from_documents(
        documents,
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=Grams(model_name="grams"),
        transformations=[SentenceSplitter(chunk_size=24, chunk_overlap=0)],
    )
    ours = found_by_us(small, {"table": "data_manuals", "document": "metadata_.file_name", "metadata": "metadata_"})
    retriever = index.as_retriever(similarity_top_k=TOP)
    theirs = [[(node.text, node.score) for node in retriever.retrieve(text)] for text in questions(small)]
    same(ours, theirs)
