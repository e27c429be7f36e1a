"""A RAG application over HTTP. With DROP=3 in its environment it has a fault: it loses every third passage
that it serves."""

import os
import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from retrieval import extract, retriever

DROP = int(os.environ.get("DROP", "0"))
application = FastAPI()
search = retriever(top_k=6)
served = 0


class Question(BaseModel):
    question: str
    top_k: int = 4


@application.post("/ask")
def ask(asked: Question) -> dict:
    global served
    kept = []
    for node in search.retrieve(asked.question)[: asked.top_k]:
        served += 1
        if not DROP or served % DROP:
            kept.append(node)
    sources = [
        {
            "content": node.node.get_content(),
            "metadata": {"source": node.node.metadata.get("file_name"), "page": node.node.metadata.get("page_label")},
            "score": float(node.score or 0.0),
        }
        for node in kept
    ]
    return {"answer": extract(asked.question, [source["content"] for source in sources]), "sources": sources}


@application.get("/version")
def version() -> dict:
    return {"build": f"drop-{DROP}"}


if __name__ == "__main__":
    uvicorn.run(application, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
