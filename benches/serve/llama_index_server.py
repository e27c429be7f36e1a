"""The peer: retrieval by LlamaIndex's BM25 behind FastAPI, as its users write it.

    uvicorn llama_index_server:app --port PORT

TEXTS names a folder of text files; they are cut into sentence chunks of 128 tokens once, at the start.
"""

import os
from pathlib import Path

from fastapi import FastAPI
from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter
from llama_index.retrievers.bm25 import BM25Retriever

texts = sorted(Path(os.environ["TEXTS"]).iterdir())
documents = [Document(text=path.read_text(), metadata={"file": path.name}) for path in texts]
nodes = SentenceSplitter(chunk_size=128, chunk_overlap=0).get_nodes_from_documents(documents)
retriever = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=3)
app = FastAPI()


@app.get("/health/ready")
def ready() -> dict:
    """Says that it is."""
    return {"chunks": len(nodes)}


@app.get("/rag/retrieve")
def retrieve(query: str) -> dict:
    """The passages, best first."""
    found = retriever.retrieve(query)
    return {
        "passages": [
            {"file": hit.node.metadata["file"], "text": hit.node.get_content(), "score": float(hit.score)} for hit in found
        ]
    }
