"""Clients for Python whose dependencies conflict with those of the others: requirements-apart.txt."""

from __future__ import annotations

import asyncio
import json

import pytest
from conftest import ANSWER, MORE, PAUSE, QUESTION

MODEL = "mast"


def semantic_kernel(service, key="none"):
    from openai import AsyncOpenAI
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAITextEmbedding

    api = AsyncOpenAI(base_url=f"{service}/v1", api_key=key, max_retries=0)
    return OpenAIChatCompletion(MODEL, async_client=api), OpenAITextEmbedding("vectors", async_client=api)


def history(*turns):
    from semantic_kernel.contents import ChatHistory

    history = ChatHistory()
    for turn in turns:
        history.add_user_message(turn) if isinstance(turn, str) else history.add_message(turn)
    return history


def test_semantic_kernel_holds_a_conversation_about_the_sources(service):
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatPromptExecutionSettings as Settings

    async def converse():
        chat, _ = semantic_kernel(service)
        first = await chat.get_chat_message_content(history(QUESTION), Settings())
        assert first.content.endswith(ANSWER) and first.finish_reason.value == "stop"
        second = await chat.get_chat_message_content(history(QUESTION, first, MORE), Settings())
        assert "Lower the mast slowly." in second.content

    asyncio.run(converse())


def test_semantic_kernel_gets_the_start_of_a_stream_before_its_end_is_written(service, stub):
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatPromptExecutionSettings as Settings

    async def stream():
        chat, _ = semantic_kernel(service)
        pieces = []
        async for piece in chat.get_streaming_chat_message_content(history(PAUSE), Settings()):
            if str(piece):
                pieces.append(str(piece))
                stub[0].go_on.set()
        assert len(pieces) > 1 and "".join(pieces).endswith(ANSWER)

    asyncio.run(stream())


def test_semantic_kernel_embeds_texts_as_the_embedder_does(service):
    from conftest import unit_vector

    _, embedder = semantic_kernel(service)
    vectors = asyncio.run(embedder.generate_embeddings(["rope", "a red light"]))
    for found, text in zip(vectors, ["rope", "a red light"], strict=True):
        assert list(found) == pytest.approx(unit_vector(text), abs=1e-6)


def test_semantic_kernel_is_refused_with_a_wrong_key(locked):
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatPromptExecutionSettings as Settings

    url, key = locked

    async def ask(key):
        return await semantic_kernel(url, key)[0].get_chat_message_content(history(QUESTION), Settings())

    assert asyncio.run(ask(key)).content.endswith(ANSWER)
    with pytest.raises(Exception, match="401"):
        asyncio.run(ask("wrong"))


def evaluate(service, key, folder, monkeypatch):
    """The log of an eval by Inspect of three samples: two of the answers contain the target."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import includes

    monkeypatch.setenv("REVERIE_BASE_URL", f"{service}/v1")
    monkeypatch.setenv("REVERIE_API_KEY", key)
    samples = [
        Sample(QUESTION, target="before noon"),
        Sample("What does a red light mean?", target="the battery is empty"),
        Sample("What does a green light mean?", target="the battery is empty"),
    ]
    # By default Inspect keeps a model, with its address and key, for the next eval.
    model = get_model(f"openai-api/reverie/{MODEL}", memoize=False)
    return eval(Task(samples, scorer=includes()), model=model, log_dir=str(folder), display="none", max_retries=0)[0]


def test_inspect_scores_each_of_its_samples(service, tmp_path, monkeypatch):
    log = evaluate(service, "none", tmp_path, monkeypatch)
    assert log.status == "success" and log.results.completed_samples == 3
    assert [sample.scores["includes"].value for sample in log.samples] == ["C", "C", "I"]
    assert log.results.scores[0].metrics["accuracy"].value == pytest.approx(2 / 3)
    assert log.stats.model_usage[f"openai-api/reverie/{MODEL}"].output_tokens > 0


def test_inspect_shows_that_a_wrong_key_is_refused(locked, tmp_path, monkeypatch):
    url, key = locked
    assert evaluate(url, key, tmp_path, monkeypatch).status == "success"
    log = evaluate(url, "wrong", tmp_path, monkeypatch)
    assert log.status == "error" and "401" in log.error.message


def langchain_tools(service, key="none"):
    from langchain_mcp_adapters.client import MultiServerMCPClient

    headers = {"Authorization": f"Bearer {key}"}
    settings = {"transport": "streamable_http", "url": f"{service}/mcp", "headers": headers}
    return MultiServerMCPClient({"reverie": settings}).get_tools()


def test_langchain_mcp_adapters_find_passages_and_fetch_their_source(service):
    async def use():
        tools = {tool.name: tool for tool in await langchain_tools(service)}
        assert set(tools) == {"search", "fetch"}
        found = json.loads((await tools["search"].ainvoke({"query": "rope"}))[0]["text"])["results"]
        assert found[0]["text"] == "Tie the rope to the post."
        assert found[0]["url"].startswith(f"{service}/rag/sources/")
        source = json.loads((await tools["fetch"].ainvoke({"id": found[0]["id"]}))[0]["text"])
        assert source["text"].startswith("# Raising the mast") and found[0]["text"] in source["text"]
        assert "no source" in (await tools["fetch"].ainvoke({"id": "none"}))[0]["text"]

    asyncio.run(use())


def test_langchain_mcp_adapters_are_refused_with_a_wrong_key(locked):
    url, key = locked
    assert len(asyncio.run(langchain_tools(url, key))) == 2
    with pytest.raises(BaseException) as refused:
        asyncio.run(langchain_tools(url, "wrong"))
    error = refused.value
    # A group of errors, with a group in it.
    while getattr(error, "exceptions", ()):
        error = error.exceptions[0]
    assert "401" in str(error)
