"""Embedding models of the caller's own: objects of LangChain and LlamaIndex, served to the rest of Reverie as a model behind
an endpoint of this process, as functions that stand for chat models are (`_function_models`)."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any

# What precedes a text in a request: it says whether the text is a question, and is removed before the model sees the text.
QUESTION, DOCUMENT = "?", "."
_WANTED = "it must return a list of numbers for each text"
_unknown: dict[int, tuple[Any, str]] = {}

Vectors = Callable[[Sequence[str]], Sequence[Sequence[float]]]


class FunctionEmbedder:
    """An embedding model of the program. Made by `reverie.langchain.embedder` and `reverie.llama_index.embedder`."""

    def __init__(
        self, model: Any, documents: Vectors, questions: Vectors, *, version: str | None = None, concurrency: int = 1
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency: how many calls run at once, at least 1, not {concurrency!r}")
        self.model, self.version, self.concurrency = model, version, concurrency
        self._documents, self._questions = documents, questions
        self._slots = threading.BoundedSemaphore(concurrency)
        self.__name__ = type(model).__name__

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of texts as a request has them: each begins with its kind."""
        vectors: list[list[float]] = [[] for _ in texts]
        for kind, embed in ((DOCUMENT, self._documents), (QUESTION, self._questions)):
            places = [i for i, text in enumerate(texts) if text[:1] == kind]
            if not places:
                continue
            with self._slots:
                found = list(embed([texts[i][1:] for i in places]))
            if len(found) != len(places):
                raise ValueError(f"it returned {len(found)} vectors for {len(places)} texts: {_WANTED}")
            for i, vector in zip(places, found):
                vectors[i] = [float(number) for number in vector]
        return vectors

    def digest(self) -> str:
        """What identifies it, as an address: its class, the name of its model and its version. One without a model's name
        and a version is another model in each program."""
        name = next((value for key in ("model_name", "model") if isinstance(value := getattr(self.model, key, None), str)), None)
        if self.version is None and name is None:
            return _unknown.setdefault(id(self.model), (self.model, f"function:{secrets.token_hex(16)}"))[1]
        kind = f"{type(self.model).__module__}.{type(self.model).__qualname__}"
        text = json.dumps(["embedding", kind, name, self.version])
        return f"function:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:32]}"

    def settings(self, name: str) -> dict[str, Any]:
        """The model of an experiment that stands for it."""
        endpoint: dict[str, Any] = {"model": name, "base_url": self.digest(), "api_key_env": "", "price": 0}
        endpoint |= {"query_prefix": QUESTION, "document_prefix": DOCUMENT, "encoding": "float"}
        return {"embedding": {"openai": {**endpoint, "concurrency": self.concurrency, "timeout_seconds": 600.0}}}

    def __repr__(self) -> str:
        return f"<embedder {self.__name__}>"


def of_langchain(model: Any, version: str | None = None, concurrency: int = 1) -> FunctionEmbedder:
    """An `Embeddings` of LangChain as a model."""
    questions = lambda texts: [model.embed_query(text) for text in texts]  # noqa: E731
    return FunctionEmbedder(model, lambda texts: model.embed_documents(list(texts)), questions, version=version, concurrency=concurrency)


def of_llama_index(model: Any, version: str | None = None, concurrency: int = 1) -> FunctionEmbedder:
    """A `BaseEmbedding` of LlamaIndex as a model."""
    questions = lambda texts: [model.get_query_embedding(text) for text in texts]  # noqa: E731
    documents = lambda texts: model.get_text_embedding_batch(list(texts))  # noqa: E731
    return FunctionEmbedder(model, documents, questions, version=version, concurrency=concurrency)


def to_embedder(value: Any) -> Any:
    """An embedding model of LangChain or LlamaIndex as a model; anything else as it is. Neither package is imported."""
    if isinstance(value, (str, FunctionEmbedder)):
        return value
    for methods, made in (
        (("embed_documents", "embed_query"), of_langchain),
        (("get_text_embedding_batch", "get_query_embedding"), of_llama_index),
    ):
        if all(callable(getattr(value, name, None)) for name in methods):
            return made(value)
    return value
