"""Clients for Python against `reverie serve`, as docs/clients.md sets them up."""

from __future__ import annotations

import asyncio
import urllib.request

import pytest

MODEL = "mast"
QUESTION = "When is the mast raised?"
MORE = "And how is it taken down?"
CUT = "Why is the mast CUT?"


def openai_client(service):
    import openai

    return openai.OpenAI(base_url=f"{service}/v1", api_key="none", max_retries=0)


def test_openai_whole_stream_and_cut(service):
    client = openai_client(service)
    ask = [{"role": "user", "content": QUESTION}]
    whole = client.chat.completions.create(model=MODEL, messages=ask)
    assert whole.choices[0].finish_reason == "stop" and "[1]" in whole.choices[0].message.content
    cited = whole.model_extra["sources"]
    assert len({source["metadata"][0]["source"] for source in cited}) == len(cited)
    with client.chat.completions.stream(model=MODEL, messages=ask) as stream:
        assert stream.get_final_completion().choices[0].message.content == whole.choices[0].message.content
    cut = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": CUT}])
    assert cut.choices[0].finish_reason == "length"
    response = client.responses.create(model=MODEL, input=CUT)
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"


def test_openai_feeds_the_output_of_a_response_back(service):
    client = openai_client(service)
    turns = [{"role": "user", "content": QUESTION}]
    first = client.responses.create(model=MODEL, input=turns, include=["file_search_call.results"])
    turns += [item.model_dump() for item in first.output]
    second = client.responses.create(model=MODEL, input=[*turns, {"role": "user", "content": MORE}])
    assert second.status == "completed" and second.output_text
    with client.responses.stream(model=MODEL, input=[*turns, {"role": "user", "content": MORE}]) as stream:
        assert stream.get_final_response().output_text == second.output_text


def test_openai_is_refused_before_it_pays(service, stub):
    import openai
    import pydantic

    client, before = openai_client(service), stub[0].calls

    class Form(pydantic.BaseModel):
        answer: str

    ask = [{"role": "user", "content": QUESTION}]
    function = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    for call in (
        lambda: client.responses.parse(model=MODEL, input=QUESTION, text_format=Form),
        lambda: client.chat.completions.create(model=MODEL, messages=ask, tools=[function], tool_choice="required"),
        lambda: client.responses.create(model=MODEL, input=QUESTION, previous_response_id="resp_1"),
    ):
        with pytest.raises(openai.BadRequestError):
            call()
    assert stub[0].calls == before


def test_langchain(service):
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    settings = {"model": MODEL, "base_url": f"{service}/v1", "api_key": "none", "max_retries": 0}
    chat = ChatOpenAI(**settings)
    assert "[1]" in chat.invoke(QUESTION).content
    assert "".join(piece.content for piece in chat.stream(QUESTION)) == chat.invoke(QUESTION).content
    responses = ChatOpenAI(use_responses_api=True, **settings)
    first = responses.invoke(QUESTION)
    turns = [("user", QUESTION), first, ("user", MORE)]
    second = responses.invoke(turns)
    annotations = [a for block in second.content if block["type"] == "text" for a in block["annotations"]]
    assert annotations, "citations are kept"
    with pytest.raises(Exception, match="tool_choice"):
        chat.with_structured_output({"title": "a", "type": "object", "properties": {}}, method="function_calling").invoke(QUESTION)
    embeddings = OpenAIEmbeddings(
        model="vectors", base_url=f"{service}/v1", api_key="none", check_embedding_ctx_length=False
    )
    assert len(embeddings.embed_query("rope")) == 64


def test_llama_index(service):
    from llama_index.core.llms import ChatMessage
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(model=MODEL, api_base=f"{service}/v1", api_key="none", is_chat_model=True)
    answer = model.chat([ChatMessage(role="user", content=QUESTION)])
    assert "[1]" in answer.message.content
    assert "".join(piece.delta or "" for piece in model.stream_complete(QUESTION)) == answer.message.content
    embedder = OpenAILikeEmbedding(model_name="vectors", api_base=f"{service}/v1", api_key="none")
    assert len(embedder.get_text_embedding("rope")) == 64


def test_litellm(service):
    import litellm

    settings = {"model": f"openai/{MODEL}", "api_base": f"{service}/v1", "api_key": "none", "max_retries": 0}
    whole = litellm.completion(messages=[{"role": "user", "content": QUESTION}], **settings)
    assert whole.choices[0].finish_reason == "stop" and whole.choices[0].message.annotations
    cut = litellm.completion(messages=[{"role": "user", "content": CUT}], **settings)
    assert cut.choices[0].finish_reason == "length"
    ranked = litellm.rerank(
        model=f"jina_ai/{MODEL}", query="rope", documents=["a light", "the rope"], top_n=1,
        api_base=f"{service}/v1/rerank", api_key="none",
    )  # fmt: skip
    assert [result["index"] for result in ranked.results] == [1]


def test_pydantic_ai(service):
    from pydantic import BaseModel
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{service}/v1", api_key="none")
    for model in (OpenAIChatModel(MODEL, provider=provider), OpenAIResponsesModel(MODEL, provider=provider)):
        agent = Agent(model)
        first = agent.run_sync(QUESTION)
        assert "[1]" in first.output
        assert agent.run_sync(MORE, message_history=first.all_messages()).output

    class Form(BaseModel):
        answer: str

    with pytest.raises(Exception, match="tool_choice"):
        Agent(OpenAIChatModel(MODEL, provider=provider), output_type=Form).run_sync(QUESTION)


def test_haystack(service):
    from haystack.components.embedders import OpenAITextEmbedder
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret

    key = Secret.from_token("none")
    chat = OpenAIChatGenerator(model=MODEL, api_base_url=f"{service}/v1", api_key=key)
    assert "[1]" in chat.run([ChatMessage.from_user(QUESTION)])["replies"][0].text
    cut = chat.run([ChatMessage.from_user(CUT)])["replies"][0]
    assert cut.meta["finish_reason"] == "length"
    embedder = OpenAITextEmbedder(model="vectors", api_base_url=f"{service}/v1", api_key=key)
    assert len(embedder.run("rope")["embedding"]) == 64


def test_openai_agents(service):
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)

    async def converse(kind):
        # A client belongs to the loop that opened its connections.
        async with AsyncOpenAI(base_url=f"{service}/v1", api_key="none") as client:
            agent = agents.Agent(name="a", model=kind(model=MODEL, openai_client=client))
            first = await agents.Runner.run(agent, QUESTION)
            assert "[1]" in first.final_output
            turns = [*first.to_input_list(), {"role": "user", "content": MORE}]
            assert (await agents.Runner.run(agent, turns)).final_output

    for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
        asyncio.run(converse(kind))


def test_instructor_is_refused_before_it_pays(service, stub):
    import instructor
    import pydantic

    class Form(pydantic.BaseModel):
        answer: str

    client = instructor.from_openai(openai_client(service), mode=instructor.Mode.TOOLS)
    before = stub[0].calls
    with pytest.raises(Exception, match="tool_choice"):
        ask = [{"role": "user", "content": QUESTION}]
        client.chat.completions.create(model=MODEL, messages=ask, response_model=Form, max_retries=1)
    assert stub[0].calls == before


def test_fastmcp(service):
    from fastmcp import Client

    async def use():
        async with Client(f"{service}/mcp") as client:
            assert {tool.name for tool in await client.list_tools()} == {"search", "fetch"}
            found = (await client.call_tool("search", {"query": QUESTION})).structured_content["results"]
            assert all(result["url"].startswith(f"{service}/rag/sources/") for result in found)
            page = urllib.request.Request(found[0]["url"].split("#")[0], headers={"accept": "text/html"})
            assert b"<mark" in urllib.request.urlopen(page).read()
            fetched = (await client.call_tool("fetch", {"id": found[0]["id"]})).structured_content
            assert fetched["url"] == found[0]["url"] and fetched["metadata"]["passage"] in fetched["text"]
            with pytest.raises(Exception, match="top_k"):
                await client.call_tool("search", {"query": QUESTION, "top_k": 1})

    asyncio.run(use())


def test_mcp(service):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def use():
        async with (
            streamable_http_client(f"{service}/mcp") as (read, write, *_),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            await session.send_ping()
            assert {tool.name for tool in (await session.list_tools()).tools} == {"search", "fetch"}
            found = (await session.call_tool("search", {"query": QUESTION})).structured_content["results"]
            assert found[0]["url"].startswith(f"{service}/rag/sources/")
            missing = await session.call_tool("fetch", {"id": "none"})
            assert missing.is_error and "no source" in missing.content[0].text

    asyncio.run(use())


def test_prometheus_reads_the_metrics(service):
    from prometheus_client import openmetrics, parser
    from prometheus_client.openmetrics import parser as open_parser

    def scrape(accept):
        request = urllib.request.Request(f"{service}/metrics", headers={"accept": accept})
        return urllib.request.urlopen(request).read().decode()

    text = list(parser.text_string_to_metric_families(scrape("text/plain;version=0.0.4")))
    assert {"reverie_build_info", "reverie_requests"} <= {family.name for family in text}
    assert all(family.type in ("counter", "gauge", "histogram") and family.documentation for family in text)
    assert list(open_parser.text_string_to_metric_families(scrape("application/openmetrics-text")))
    assert openmetrics


def test_promtool_approves_the_metrics(service):
    import json
    import shutil
    import subprocess

    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed: it comes in the package `prometheus` of Debian and Ubuntu")
    # So that the metrics of answers and searches have numbers.
    answer = json.load(urllib.request.urlopen(f"{service}/rag/answer?query=rope"))
    metrics = urllib.request.urlopen(f"{service}/metrics").read()
    assert answer["answer"] and b"reverie_answers_total{" in metrics
    done = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_the_description_is_openapi(service):
    import json

    from openapi_spec_validator import validate

    description = json.load(urllib.request.urlopen(f"{service}/openapi.json"))
    validate(description)
    assert description["components"]["schemas"]["ChatCompletionRequest"]["required"] == ["model", "messages"]


def test_openapi_python_client_reads_typed_answers(service, tmp_path, monkeypatch):
    import importlib
    import os
    import subprocess
    import sys
    from pathlib import Path

    programs = Path(sys.executable).parent
    command = [programs / "openapi-python-client", "generate", "--url", f"{service}/openapi.json", "--meta", "none"]
    done = subprocess.run(
        [*command, "--output-path", tmp_path / "generated"], capture_output=True, text=True, timeout=180,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.syspath_prepend(tmp_path)
    module = next((tmp_path / "generated" / "api").glob("*/get_rag_answer.py"))
    get_rag_answer = importlib.import_module(f"generated.api.{module.parent.name}.get_rag_answer")
    client = importlib.import_module("generated").Client(base_url=service)
    answer = get_rag_answer.sync(client=client, query=QUESTION)
    assert answer.cited == [1, 2] and answer.sources[0].url.startswith(f"{service}/rag/sources/")
