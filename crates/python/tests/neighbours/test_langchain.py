"""LangChain: our retrievers, answers and embeddings in it, its runnables and embeddings in ours."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("langchain_core")

from langchain_core.callbacks import BaseCallbackHandler  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.embeddings import Embeddings  # noqa: E402
from langchain_core.messages import AIMessage  # noqa: E402
from langchain_core.runnables import RunnableLambda, RunnablePassthrough  # noqa: E402
from langchain_core.vectorstores import InMemoryVectorStore  # noqa: E402

import reverie  # noqa: E402
from conftest import QUESTION, answers, fact, recall, systems, words, year  # noqa: E402
from reverie import langchain  # noqa: E402


class Words(Embeddings):
    """An embedding model of LangChain that counts words, and what it was asked."""

    def __init__(self):
        self.documents, self.questions = [], []

    def embed_documents(self, texts):
        self.documents += texts
        return [words(text) for text in texts]

    def embed_query(self, text):
        self.questions.append(text)
        return words(text)


def test_a_pipeline_is_a_retriever_sync_async_and_in_batches(pipeline):
    retriever = langchain.Retriever(pipeline, top_k=2)
    found = retriever.invoke(QUESTION)
    assert [type(each) for each in found] == [Document, Document]
    first = found[0]
    assert "number 13" in first.page_content and first.id.startswith("13.md:")
    assert first.metadata["path"] == first.metadata["source"] == "13.md"
    assert first.metadata["end_byte"] > first.metadata["start_byte"] and first.metadata["score"] > 0
    assert first.metadata["book"] == "Mill 13"
    assert asyncio.run(retriever.ainvoke(QUESTION)) == found
    other = QUESTION.replace("13", "14")
    batch = retriever.batch([QUESTION, other])
    assert batch == asyncio.run(retriever.abatch([QUESTION, other]))
    assert batch[0] == found and batch[1][0].metadata["path"] == "14.md"


def test_an_index_is_a_retriever_with_filters_and_the_metadata_of_documents(index):
    found = langchain.Retriever(index, top_k=1, search="bm25").invoke(QUESTION)
    assert len(found) == 1 and found[0].metadata["village"] == 13 and found[0].metadata["path"] == "13.md"
    only = langchain.Retriever(index, filter={"village": {"ge": 14}})
    assert {each.metadata["village"] for each in only.invoke(QUESTION)} <= {14, 15}
    assert asyncio.run(only.ainvoke(QUESTION)) == only.invoke(QUESTION)


def test_callbacks_hear_of_a_search_and_an_answer(pipeline):
    heard = []

    class Listener(BaseCallbackHandler):
        def on_retriever_end(self, documents, **_):
            heard.append(len(documents))

        def on_chain_end(self, outputs, **_):
            heard.append(sorted(outputs))

    langchain.Retriever(pipeline, top_k=2, tags=["mine"]).invoke(QUESTION, config={"callbacks": [Listener()]})
    langchain.Answerer(pipeline).invoke(QUESTION, config={"callbacks": [Listener()]})
    assert heard == [2, ["answer", "context", "input"]]


def test_a_pipeline_answers_in_a_chain_with_its_sources(pipeline):
    answerer = langchain.Answerer(pipeline)
    answered = answerer.invoke({"question": QUESTION})
    assert answered["input"] == QUESTION and answered["answer"] == "It was built in 1713 [1]."
    assert [each.metadata["cited"] for each in answered["context"]][:2] == [True, False]
    assert asyncio.run(answerer.ainvoke(QUESTION)) == answered
    chain = {"input": RunnablePassthrough()} | answerer | (lambda given: given["answer"].upper())
    assert chain.invoke(QUESTION) == "IT WAS BUILT IN 1713 [1]."
    assert answerer.batch([QUESTION, QUESTION]) == [answered, answered]
    with pytest.raises(TypeError, match="expected the question as a text"):
        answerer.invoke({"words": QUESTION})


def test_what_is_no_source_or_does_not_answer_is_named(index, pipeline):
    with pytest.raises(TypeError, match="expected a `reverie.Pipeline`"):
        langchain.Retriever("mills")
    with pytest.raises(TypeError, match="an index writes no answers"):
        langchain.Answerer(index)
    with pytest.raises(TypeError, match="filter: a pipeline does not take this"):
        langchain.Retriever(pipeline, filter={"village": 13})
    with pytest.raises(ValueError, match="top_k"):
        langchain.Retriever(index, top_k=0)


def test_a_service_at_an_address_is_a_retriever_and_answers(service):
    found = langchain.Retriever(service, top_k=2).invoke(QUESTION)
    assert [each.metadata["path"] for each in found][:1] == ["13.md"] and len(found) == 2
    assert asyncio.run(langchain.Retriever(service, top_k=2).ainvoke(QUESTION)) == found
    answered = langchain.Answerer(service).invoke(QUESTION)
    assert answered["answer"] == "It was built in 1713 [1]."
    assert [each.metadata["cited"] for each in answered["context"]] == [True, False, False]
    with pytest.raises(RuntimeError, match="rag/retrieve refused the question .400."):
        langchain.Retriever(service).invoke(" ")


def test_a_service_that_is_away_is_named():
    with pytest.raises(RuntimeError, match="does the service run"):
        langchain.Retriever("http://127.0.0.1:1").invoke(QUESTION)


def test_our_embedder_serves_a_vector_store_of_theirs(embedding):
    ours = langchain.Embedder(embedding)
    store = InMemoryVectorStore(ours)
    store.add_texts(["number 13 was built", "oats oats oats"])
    assert store.similarity_search("number 13 ", k=1)[0].page_content == "number 13 was built"
    assert len(asyncio.run(ours.aembed_query("oats"))) == len(ours.embed_documents(["oats"])[0]) == 5


def test_their_embeddings_make_our_index(small):
    theirs = Words()
    documents = reverie.parse(small.folder / "docs")
    chunks = reverie.chunk(documents, reverie.chunker.Sentence(chunk_size=32, chunk_overlap=0))
    index = reverie.index(chunks, embedder=theirs)
    assert index.search(QUESTION, retriever="dense", top_k=1)["document"] == ["13.md"]
    assert theirs.questions == [QUESTION] and len(theirs.documents) >= len(chunks)
    assert not any(text[0] in "?." for text in theirs.documents), "no text has a mark of ours"
    vectors = reverie.embed(chunks, langchain.embedder(theirs, version="1"))
    assert len(vectors["vector"][0]) == 5


def test_their_embeddings_are_an_embedder_of_an_experiment(small):
    from workspace import settings

    theirs = Words()
    tables = settings(small, "http://127.0.0.1:1", name="dense", models={"words": langchain.embedder(theirs, version="1")})
    tables["space"] = {"chunker": ["sentence_window"], "embedder": ["words"], "retriever": [{"dense": {"top_k": 1}}]}
    tables["evaluate"] = {"metrics": ["recall"]}
    experiment = reverie.Experiment(tables)
    results = experiment.run(progress=False)
    scored = {row["question_id"]: row["recall"] for row in results.questions()}
    assert scored["q13"] == scored["q14"] == 1.0
    embedded = len(theirs.documents)
    reverie.Experiment(tables).run(progress=False)
    assert len(theirs.documents) == embedded, "vectors are kept"
    inline = {**tables, "models": {}, "name": "inline", "space": {**tables["space"], "embedder": [theirs]}}
    assert "function:" in reverie.Experiment(inline).text


def test_a_failure_of_their_embeddings_names_them(small):
    class Broken(Words):
        def embed_documents(self, texts):
            raise ValueError("no room")

    chunks = reverie.chunk(reverie.parse(small.folder / "docs"))
    with pytest.raises(RuntimeError, match="Broken.*no room"):
        reverie.index(chunks, embedder=Broken())


def test_a_runnable_is_a_system_in_one_line(small):
    documents = lambda question: [Document(page_content=fact(question), metadata={"source": "somewhere"})]
    chain = RunnablePassthrough.assign(context=lambda given: documents(given["input"])) | RunnablePassthrough.assign(
        answer=lambda given: year(given["input"])
    )
    text = RunnableLambda(lambda question: AIMessage(year(question), usage_metadata={"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}))
    results = systems(
        small, {"chain": RunnableLambda(lambda question: {"input": question}) | chain, "text": text, "version": reverie.system(text, version="2")}
    )
    for name in ("chain", "text", "version"):
        assert answers(results, name)["q15"] == "1715", name
    assert set(recall(results, "chain").values()) == {1.0}, "documents are found by their text"
    assert set(recall(results, "text").values()) == {None}, "it returns no passages"


def test_our_retriever_and_our_answers_come_back_as_systems(small, pipeline):
    results = systems(small, {"ours": langchain.Answerer(pipeline)})
    assert answers(results, "ours")["q13"].startswith("It was built in 1713")
    assert recall(results, "ours")["q13"] == 1.0


@pytest.fixture
def embedding():
    """A model of an experiment behind an endpoint: it counts words."""
    import json

    from workspace import Handler, run_handler

    class Counting(Handler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            rows = [{"index": i, "embedding": words(text)} for i, text in enumerate(body["input"])]
            self.answer(200, {"data": rows, "usage": {"prompt_tokens": 1, "total_tokens": 1}})

    with run_handler(Counting) as url:
        yield {"embedding": {"openai": {"model": "count", "base_url": f"{url}/v1", "api_key_env": "", "encoding": "float"}}}
