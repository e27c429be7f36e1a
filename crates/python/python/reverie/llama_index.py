"""Pipelines, indexes and embedding models for LlamaIndex, and LlamaIndex's for Reverie. Needs
`pip install reverie[llama-index]`.

    from reverie import llama_index

    retriever = llama_index.Retriever(reverie.Pipeline.load("experiment.toml"), top_k=4)
    retriever.retrieve("What is a virtual package?")            # nodes with scores
    engine = llama_index.QueryEngine(reverie.Pipeline.load("experiment.toml"))
    engine.query("What is a virtual package?").source_nodes

The other way needs nothing of this module: a query engine or a chat engine is a system of an experiment, and a
`BaseEmbedding` is an embedder, as they are. See `reverie.system`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.response.schema import RESPONSE_TYPE, Response
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import PrivateAttr

from reverie import _core
from reverie._function_embedders import FunctionEmbedder, of_llama_index
from reverie._passages import FoundAnswer, FoundPassage, check_answers, open_source

__all__ = ["Embedder", "QueryEngine", "Retriever", "embedder"]

# Metadata that neither a prompt nor a vector should hold.
_FOR_PROGRAMS = ("file_path", "page_label", "score", "start_byte", "end_byte", "cited")


class Retriever(BaseRetriever):
    """A retriever of LlamaIndex over a pipeline, an index or a service.

        llama_index.Retriever(index, top_k=3, filter={"language": "en"})
        llama_index.Retriever("http://127.0.0.1:8400", api_key=os.environ["RAG_KEY"])

    The metadata of a node has `path` and `file_path` (both the path in the corpus), `page` (from 1) and `page_label`, `book`,
    `heading`, `score`, and the place `start_byte` to `end_byte` in the document's text, as far as they are known; over an
    index also the metadata of the file. What is only for programs is kept out of prompts. A generator is not asked.
    """

    def __init__(
        self,
        source: Any,
        *,
        top_k: int | None = None,
        search: Any = None,
        filter: Mapping[str, Any] | None = None,
        api_key: str | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        """Opens the source; nothing is searched.

        Args:
            source: A `reverie.Pipeline`, a `reverie.Index`, or the address of a running service.
            top_k: The most passages. Default: as many as the pipeline finds; 5 from an index.
            search: Over an index, its `retriever`, as in `Index.search`.
            filter: Over an index, its `filter`, as in `Index.search`.
            api_key: Over a service, the key that it wants.
            callback_manager: As for every retriever of LlamaIndex.

        Raises:
            TypeError: If the source is none of these, or does not take a setting.
            ValueError: If `top_k` is below 1.
        """
        self._source = open_source(source, top_k=top_k, search=search, filter=filter, api_key=api_key)
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(passage) for passage in self._source.find(query_bundle.query_str)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(passage) for passage in await self._source.afind(query_bundle.query_str)]


class QueryEngine(BaseQueryEngine):
    """A query engine of LlamaIndex that answers with the passages as `source_nodes`."""

    def __init__(
        self, source: Any, *, api_key: str | None = None, callback_manager: CallbackManager | None = None
    ) -> None:
        """Opens the source; nothing is asked.

        Args:
            source: A `reverie.Pipeline` with a generator, or the address of a running service.
            api_key: Over a service, the key that it wants.
            callback_manager: As for every query engine of LlamaIndex.

        Raises:
            TypeError: If the source is none of these, or writes no answers.
        """
        self._source = open_source(source, api_key=api_key)
        check_answers(self._source)
        super().__init__(callback_manager=callback_manager)

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return _response(self._source.answer(query_bundle.query_str))

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return _response(await self._source.aanswer(query_bundle.query_str))

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}


class Embedder(BaseEmbedding):
    """An embedding model of Reverie as `BaseEmbedding` of LlamaIndex.

        Settings.embed_model = llama_index.Embedder("all-minilm-l6-v2")
    """

    _embedding: Any = PrivateAttr()

    def __init__(self, embedder: Any, *, cores: int | None = None, **settings: Any) -> None:
        """Opens the model.

        Args:
            embedder: The name of a local model, or a model as in `models` of an experiment, as `reverie.index` takes it.
            cores: How many threads a local model may use. Default: all of the machine's.
            settings: What every embedding model of LlamaIndex takes, such as `embed_batch_size`.

        Raises:
            ValueError: If there is no such model.
        """
        name = embedder if isinstance(embedder, str) else "reverie"
        super().__init__(**{"model_name": name, **settings})
        self._embedding = _core.Embedding(embedder, cores)

    @classmethod
    def class_name(cls) -> str:
        """The name of the class in what LlamaIndex writes."""
        return "ReverieEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return list(self._embedding.vectors([query], True)[0])

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return list(self._embedding.vectors([text], False)[0])

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return list(self._embedding.vectors(list(texts), False))

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


def embedder(model: BaseEmbedding, *, version: str | None = None, concurrency: int = 1) -> FunctionEmbedder:
    """A `BaseEmbedding` of LlamaIndex as an embedder of Reverie, with settings. It is one without this, too: in
    `reverie.index(embedder=…)`, and in `embedder` and `models` of an experiment.

    It runs in this process. Its vectors are kept by its class, the name of its model and `version`.

    Args:
        model: The model.
        version: Any text; another one embeds everything anew. Default: none.
        concurrency: How many calls run at once. Default: 1.

    Raises:
        ValueError: If `concurrency` is below 1.
    """
    return of_llama_index(model, version, concurrency)


def _node(passage: FoundPassage) -> NodeWithScore:
    metadata = {**passage.metadata, "file_path": passage.metadata["path"]}
    hidden = [name for name in _FOR_PROGRAMS if name in metadata]
    node = TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=metadata,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
    )
    return NodeWithScore(node=node, score=passage.score)


def _response(answer: FoundAnswer) -> Response:
    return Response(answer.text, [_node(passage) for passage in answer.passages])
