"""Fills a collection with the database's own Python client, and prints the seconds and the processor's seconds.

`clients_fill.py chroma|qdrant|milvus URL`. Each part is as large as the client takes by default, or as Reverie's.
"""

import sys
import time

import numpy

ROWS, DIMENSIONS, PART = 100_000, 384, 4_000
name, url = sys.argv[1:]
vectors = numpy.random.default_rng(1).standard_normal((ROWS, DIMENSIONS)).astype("f4")
vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
text = "text of a chunk " * 20
fields = [{"path": f"guides/{i // 10}.md", "page": i % 10} for i in range(ROWS)]


def chroma():
    import chromadb

    host, port = url.removeprefix("http://").split(":")
    client = chromadb.HttpClient(host=host, port=int(port))
    collection = client.create_collection("theirs", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None)
    ids = [str(i) for i in range(ROWS)]

    def fill():
        for start in range(0, ROWS, PART):
            part = slice(start, start + PART)
            collection.upsert(ids=ids[part], embeddings=vectors[part], documents=[text] * len(ids[part]), metadatas=fields[part])
        return collection.count()

    return fill, lambda: client.delete_collection("theirs")


def qdrant():
    from qdrant_client import QdrantClient, models

    client = QdrantClient(url=url, timeout=300, check_compatibility=False)
    client.create_collection("theirs", vectors_config=models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE))

    def fill():
        payload = ({"text": text, "fields": each} for each in fields)
        client.upload_collection("theirs", vectors=vectors, payload=payload, ids=range(ROWS), batch_size=PART // 2, wait=True)
        return client.count("theirs", exact=True).count

    return fill, lambda: client.delete_collection("theirs")


def milvus():
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(url)
    schema = client.create_schema(enable_dynamic_field=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIMENSIONS)
    schema.add_field("text", DataType.VARCHAR, max_length=65535)
    schema.add_field("fields", DataType.JSON)
    client.create_collection("theirs", schema=schema)

    def fill():
        for start in range(0, ROWS, PART):
            rows = range(start, min(start + PART, ROWS))
            client.upsert("theirs", [{"id": i, "vector": vectors[i], "text": text, "fields": fields[i]} for i in rows])
        client.flush("theirs")
        return ROWS

    return fill, lambda: client.drop_collection("theirs")


fill, remove = {"chroma": chroma, "qdrant": qdrant, "milvus": milvus}[name]()
started, processor = time.perf_counter(), time.process_time()
assert fill() == ROWS
print(round(time.perf_counter() - started, 3), round(time.process_time() - processor, 3))
remove()
