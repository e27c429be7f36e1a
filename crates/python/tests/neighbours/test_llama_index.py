"""LlamaIndex: our retrievers, answers and embeddings in it, its engines and embeddings in ours."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import Document, VectorStoreIndex  # noqa: E402
from llama_index.core.chat_engine import ContextChatEngine  # noqa: E402
from llama_index.core.embeddings import BaseEmbedding  # noqa: E402
from llama_index.core.llms import MockLLM  # noqa: E402
from llama_index.core.memory import ChatMemoryBuffer  # noqa: E402
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine  # noqa: E402
from llama_index.core.response_synthesizers import get_response_synthesizer  # noqa: E402
from llama_index.core.retrievers import QueryFusionRetriever  # noqa: E402
from llama_index.core.schema import MetadataMode, NodeWithScore  # noqa: E402

import reverie  # noqa: E402
from conftest import QUESTION, answers, recall, systems, words, year  # noqa: E402
from reverie import llama_index  # noqa: E402


class Words(BaseEmbedding):
    """An embedding model of LlamaIndex that counts words."""

    def _get_query_embedding(self, query):
        return words(query)

    async def _aget_query_embedding(self, query):
        return words(query)

    def _get_text_embedding(self, text):
        return words(text)


def test_a_pipeline_is_a_retriever_sync_and_async(pipeline):
    retriever = llama_index.Retriever(pipeline, top_k=2)
    found = retriever.retrieve(QUESTION)
    assert [type(each) for each in found] == [NodeWithScore, NodeWithScore]
    first = found[0]
    assert "number 13" in first.text and first.score > 0 and first.node.node_id.startswith("13.md:")
    assert first.metadata["path"] == first.metadata["file_path"] == "13.md"
    assert first.metadata["end_byte"] > first.metadata["start_byte"]
    asked = first.node.get_content(MetadataMode.LLM)
    assert "book: Mill 13" in asked and "start_byte" not in asked and "file_path" not in asked
    again = asyncio.run(retriever.aretrieve(QUESTION))
    assert [each.node.node_id for each in again] == [each.node.node_id for each in found]


def test_an_index_is_a_retriever_with_filters_and_the_metadata_of_documents(index):
    found = llama_index.Retriever(index, top_k=1, search="bm25").retrieve(QUESTION)
    assert len(found) == 1 and found[0].metadata["village"] == 13
    only = llama_index.Retriever(index, filter={"village": [14, 15]}).retrieve(QUESTION)
    assert {each.metadata["village"] for each in only} <= {14, 15}


def test_equal_passages_of_two_retrievers_are_one_in_their_fusion(pipeline, index):
    two = [llama_index.Retriever(pipeline, top_k=3), llama_index.Retriever(pipeline, top_k=2)]
    fusion = QueryFusionRetriever(two, num_queries=1, similarity_top_k=10, use_async=False, llm=MockLLM(), mode="reciprocal_rerank")
    assert len(fusion.retrieve(QUESTION)) == 3


def test_our_retriever_works_in_their_query_engine(pipeline):
    engine = RetrieverQueryEngine.from_args(llama_index.Retriever(pipeline, top_k=1), llm=MockLLM())
    assert "The mill number 13" in str(engine.query(QUESTION))


def test_a_pipeline_is_a_query_engine_with_source_nodes(pipeline):
    engine = llama_index.QueryEngine(pipeline)
    answered = engine.query(QUESTION)
    assert str(answered) == "It was built in 1713 [1]." and len(answered.source_nodes) == 3
    assert answered.source_nodes[0].metadata["cited"] is True
    assert str(asyncio.run(engine.aquery(QUESTION))) == str(answered)


def test_an_index_is_no_query_engine(index):
    with pytest.raises(TypeError, match="an index writes no answers"):
        llama_index.QueryEngine(index)


def test_their_embeddings_make_our_index(small):
    chunks = reverie.chunk(reverie.parse(small.folder / "docs"), reverie.chunker.Sentence(chunk_size=32, chunk_overlap=0))
    theirs = Words(model_name="words")
    index = reverie.index(chunks, embedder=theirs)
    assert index.search(QUESTION, retriever="dense", top_k=1)["document"] == ["13.md"]
    assert llama_index.embedder(theirs).digest() == llama_index.embedder(Words(model_name="words")).digest()
    assert llama_index.embedder(theirs, version="2").digest() != llama_index.embedder(theirs).digest()


def test_our_embedder_makes_their_index(small):
    # A model of theirs behind ours, so that no file of a model is needed.
    theirs = llama_index.embedder(Words(model_name="words"))
    from reverie._function_models import serve_models

    with serve_models({"words": theirs}):
        ours = llama_index.Embedder(theirs.settings("words"))
    index = VectorStoreIndex.from_documents([Document(text="number 13 was built"), Document(text="oats oats oats")], embed_model=ours)
    assert index.as_retriever(similarity_top_k=1).retrieve("number 13 ")[0].text == "number 13 was built"
    assert len(asyncio.run(ours.aget_query_embedding("oats"))) == 5


def mills(small):
    """An index of LlamaIndex over the documents."""
    documents = [
        Document(text=path.read_text()[:120], metadata={"file_path": path.name})
        for path in sorted((small.folder / "docs").iterdir())
    ]
    return VectorStoreIndex.from_documents(documents, embed_model=Words(model_name="words"))


def test_a_query_engine_is_a_system_in_one_line(small):
    engine = mills(small).as_query_engine(llm=MockLLM(), similarity_top_k=16)
    results = systems(small, {"engine": engine, "stated": reverie.system(engine, version="1", price=0.01)})
    for name in ("engine", "stated"):
        assert "The mill number 13" in answers(results, name)["q13"]
        assert set(recall(results, name).values()) == {1.0}, "source nodes are found in the documents"


def test_a_streaming_engine_is_read_to_its_end(small):
    engine = mills(small).as_query_engine(llm=MockLLM(), similarity_top_k=16, streaming=True)
    results = systems(small, {"streamed": engine})
    assert "The mill number 13" in answers(results, "streamed")["q13"]


def test_an_engine_without_asynchronous_code_is_asked_in_a_thread(small):
    class Own(CustomQueryEngine):
        def custom_query(self, query_str: str):
            return year(query_str)

    results = systems(small, {"own": Own()}, metrics=("token_f1",))
    assert answers(results, "own")["q15"] == "1715"


def test_a_chat_engine_begins_each_question_with_the_history_of_the_question_alone(small):
    retriever = mills(small).as_retriever(similarity_top_k=16)
    engine = ContextChatEngine.from_defaults(retriever=retriever, llm=MockLLM(), memory=ChatMemoryBuffer.from_defaults(token_limit=4000))
    golden = [
        {"id": "q13", "question": "When was the mill number 13 built?", "reference": "1713", "evidence": [{"document": "13.md", "quote": "The mill number 13 was built in 1713."}]},
        {
            "id": "q14", "question": "When was the mill number 14 built?", "reference": "1714",
            "turns": [{"role": "user", "content": "Is it old?"}, {"role": "assistant", "content": "Very."}],
            "evidence": [{"document": "14.md", "quote": "The mill number 14 was built in 1714."}],
        },
    ]
    seen = []
    plain = engine.chat

    class Watched:
        """The chat engine, with a list of its histories."""

        chat_history, reset = [], None

        @staticmethod
        def chat(message, chat_history=None):
            seen.append((message, [turn.content for turn in chat_history]))
            return plain(message, chat_history=chat_history)

    from workspace import settings

    tables = settings(small, "http://127.0.0.1:1", name="chat", systems={"chat": engine, "watched": Watched()}, dataset=golden)
    tables["evaluate"] = {"metrics": ["recall"]}
    del tables["space"], tables["models"]
    results = reverie.Experiment(tables).run(progress=False)
    assert set(recall(results, "chat").values()) == {1.0}
    assert dict(seen) == {golden[0]["question"]: [], golden[1]["question"]: ["Is it old?", "Very."]}


def test_our_query_engine_comes_back_as_a_system(small, pipeline):
    results = systems(small, {"ours": llama_index.QueryEngine(pipeline)})
    assert answers(results, "ours")["q13"].startswith("It was built in 1713")
    assert recall(results, "ours")["q13"] == 1.0


def test_a_synthesizer_of_theirs_reads_our_passages(pipeline):
    nodes = llama_index.Retriever(pipeline, top_k=1).retrieve(QUESTION)
    said = get_response_synthesizer(llm=MockLLM()).synthesize(QUESTION, nodes=nodes)
    assert "1713" in str(said) and said.source_nodes
