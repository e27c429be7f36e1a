"""Pipelines, indexes and embedding models for LangChain, and LangChain's for Reverie. Needs `pip install reverie[langchain]`.

    from reverie import langchain

    retriever = langchain.Retriever(reverie.Pipeline.load("experiment.toml"), top_k=4)
    retriever.invoke("What is a virtual package?")              # documents with page_content and metadata
    chain = langchain.Answerer(reverie.Pipeline.load("experiment.toml"))
    chain.invoke("What is a virtual package?")["answer"]        # and "context": the documents

The other way needs nothing of this module: a runnable of LangChain is a system of an experiment, and an `Embeddings` is an
embedder, as they are. See `reverie.system`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import PrivateAttr

from reverie import _core
from reverie._function_embedders import FunctionEmbedder, of_langchain
from reverie._passages import FoundAnswer, FoundPassage, check_answers, open_source

__all__ = ["Answerer", "Embedder", "Retriever", "embedder"]

# The fields of an input in which a question may stand.
_QUESTION_FIELDS = ("input", "question", "query")


class Retriever(BaseRetriever):
    """A retriever of LangChain over a pipeline, an index or a service.

        langchain.Retriever(index, top_k=3, filter={"language": "en"})
        langchain.Retriever("http://127.0.0.1:8400", api_key=os.environ["RAG_KEY"])

    It answers `invoke`, `ainvoke`, `batch` and `abatch`. The metadata of a document has `path` and `source` (both the path in
    the corpus), `page` (from 1) and `page_label`, `book`, `heading`, `score`, and the place `start_byte` to `end_byte` in
    the document's text, as far as they are known; over an index also the metadata of the file. A generator is not asked.
    """

    _source: Any = PrivateAttr()

    def __init__(
        self,
        source: Any,
        *,
        top_k: int | None = None,
        search: Any = None,
        filter: Mapping[str, Any] | None = None,
        api_key: str | None = None,
        **settings: Any,
    ) -> None:
        """Opens the source; nothing is searched.

        Args:
            source: A `reverie.Pipeline`, a `reverie.Index`, or the address of a running service.
            top_k: The most passages. Default: as many as the pipeline finds; 5 from an index.
            search: Over an index, its `retriever`, as in `Index.search`.
            filter: Over an index, its `filter`, as in `Index.search`.
            api_key: Over a service, the key that it wants.
            settings: What every retriever of LangChain takes, such as `tags`.

        Raises:
            TypeError: If the source is none of these, or does not take a setting.
            ValueError: If `top_k` is below 1.
        """
        super().__init__(**settings)
        self._source = open_source(source, top_k=top_k, search=search, filter=filter, api_key=api_key)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [_document(passage) for passage in self._source.find(query)]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [_document(passage) for passage in await self._source.afind(query)]


class Answerer(Runnable[Any, dict[str, Any]]):
    """A runnable of LangChain that answers with sources.

    Its input is the question, or a dictionary with `input`, `question` or `query`. Its output has `input`, `answer`, and
    `context`: the documents that were found, of which the metadata `cited` says whether the answer cites them.
    """

    def __init__(self, source: Any, *, api_key: str | None = None) -> None:
        """Opens the source; nothing is asked.

        Args:
            source: A `reverie.Pipeline` with a generator, or the address of a running service.
            api_key: Over a service, the key that it wants.

        Raises:
            TypeError: If the source is none of these, or writes no answers.
        """
        self._source = open_source(source, api_key=api_key)
        check_answers(self._source)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """Answers a question."""
        return self._call_with_config(lambda given: _output(given, self._source.answer(_question(given))), input, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """The same without blocking the event loop."""

        async def answer(given: Any) -> dict[str, Any]:
            return _output(given, await self._source.aanswer(_question(given)))

        return await self._acall_with_config(answer, input, config)


class Embedder(Embeddings):
    """An embedding model of Reverie as `Embeddings` of LangChain.

        langchain.Embedder("all-minilm-l6-v2").embed_query("Who built it?")
    """

    def __init__(self, embedder: Any, *, cores: int | None = None) -> None:
        """Opens the model.

        Args:
            embedder: The name of a local model, or a model as in `models` of an experiment, as `reverie.index` takes it.
            cores: How many threads a local model may use. Default: all of the machine's.

        Raises:
            ValueError: If there is no such model.
        """
        self.model = embedder if isinstance(embedder, str) else None
        self._embedding = _core.Embedding(embedder, cores)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of documents."""
        return self._embedding.vectors(list(texts), False)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return self._embedding.vectors([text], True)[0]


def embedder(embeddings: Embeddings, *, version: str | None = None, concurrency: int = 1) -> FunctionEmbedder:
    """An `Embeddings` of LangChain as an embedder of Reverie, with settings. It is one without this, too: in
    `reverie.index(embedder=…)`, and in `embedder` and `models` of an experiment.

    It runs in this process. Its vectors are kept by its class, the name of its model and `version`; without a name and a
    version they are those of this program alone.

    Args:
        embeddings: The model.
        version: Any text; another one embeds everything anew. Default: none.
        concurrency: How many calls run at once. Default: 1.

    Raises:
        ValueError: If `concurrency` is below 1.
    """
    return of_langchain(embeddings, version, concurrency)


def _document(passage: FoundPassage) -> Document:
    metadata = {**passage.metadata, "source": passage.metadata["path"]}
    return Document(page_content=passage.text, metadata=metadata, id=passage.id)


def _question(given: Any) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        for name in _QUESTION_FIELDS:
            if isinstance(given.get(name), str):
                return str(given[name])
    raise TypeError(f"expected the question as a text, or a dictionary with {', '.join(_QUESTION_FIELDS)}, not {given!r}")


def _output(given: Any, answer: FoundAnswer) -> dict[str, Any]:
    return {"input": _question(given), "context": [_document(each) for each in answer.passages], "answer": answer.text}
