"""The part that the systems of this example share: the manuals, cut and searched by LlamaIndex."""

import re
from pathlib import Path

from llama_index.core import SimpleDirectoryReader
from llama_index.core.node_parser import SentenceSplitter
from llama_index.retrievers.bm25 import BM25Retriever

CORPUS = Path(__file__).resolve().parents[2] / ".reverie" / "demo-manuals" / "corpus"


def retriever(top_k: int = 4, chunk_size: int = 256) -> BM25Retriever:
    """A retriever of LlamaIndex over the demo's manuals, read by LlamaIndex's own readers."""
    documents = SimpleDirectoryReader(str(CORPUS), required_exts=[".epub", ".pdf"]).load_data()
    nodes = SentenceSplitter(chunk_size=chunk_size, chunk_overlap=32).get_nodes_from_documents(documents)
    return BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=top_k)


def extract(question: str, texts: list[str]) -> str:
    """The sentence of the passages that shares most words with the question: an answer without a model."""
    words = set(re.findall(r"\w+", question.lower()))
    sentences = [sentence.strip() for text in texts for sentence in re.split(r"(?<=[.!?])\s+", text)]
    return max(sentences, key=lambda sentence: len(words & set(re.findall(r"\w+", sentence.lower()))), default="")
