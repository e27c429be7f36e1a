"""LiteLLM's proxy between a client and `reverie serve`: requirements-proxy.txt."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import openai
import pytest
from conftest import ANSWER, MORE, PAUSE, QUESTION

CUT = "Why is the mast CUT?"
KEY = "sk-proxy"


@pytest.fixture(scope="module")
def proxy(service, locked, tmp_path_factory):
    """The address of a proxy that sends questions to both services, and to one of them with a wrong key too."""
    url, key = locked

    def model(name, model, api_base, api_key="none"):
        return {"model_name": name, "litellm_params": {"model": model, "api_base": api_base, "api_key": api_key}}

    models = [
        model("mast", "openai/mast", f"{service}/v1"),
        model("missing", "openai/missing", f"{service}/v1"),
        model("with key", "openai/mast", f"{url}/v1", key),
        model("wrong key", "openai/mast", f"{url}/v1", "wrong"),
        model("vectors", "openai/vectors", f"{service}/v1"),
        model("rerank", "jina_ai/mast", f"{service}/v1/rerank"),
    ]
    settings = {"model_list": models, "general_settings": {"master_key": KEY}, "litellm_settings": {"num_retries": 0}}
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "proxy.yaml").write_text(json.dumps(settings))
    program = Path(sys.executable).parent / "litellm"
    process = subprocess.Popen(
        [program, "--config", "proxy.yaml", "--host", "127.0.0.1", "--port", "0"],
        cwd=folder, env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    printed = []
    for line in process.stdout:
        printed.append(line)
        if found := re.search(r"running on (http://\S+)", line):
            break
    else:
        pytest.fail("".join(printed))
    threading.Thread(target=process.stdout.read, daemon=True).start()
    yield found[1]
    process.terminate()
    process.wait(60)


@pytest.fixture
def client(proxy):
    return openai.OpenAI(base_url=f"{proxy}/v1", api_key=KEY, max_retries=0)


def ask(client, *turns, model="mast", **settings):
    messages = [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]
    return client.chat.completions.create(model=model, messages=messages, **settings)


def test_an_answer_keeps_its_citations_and_sources(client, service):
    answer = ask(client, QUESTION)
    text = answer.choices[0].message.content
    assert text.endswith(ANSWER) and answer.choices[0].finish_reason == "stop"
    citations = [annotation.url_citation for annotation in answer.choices[0].message.annotations]
    assert [text[citation.start_index : citation.end_index] for citation in citations] == ["[1]", "[2]"]
    assert answer.model_extra["sources"][0]["document"] == ["# Raising the mast\n\nRaise the mast before noon."]
    assert answer.usage.completion_tokens > 0
    assert "Lower the mast slowly." in ask(client, QUESTION, text, MORE).choices[0].message.content
    assert ask(client, CUT).choices[0].finish_reason == "length"


def test_the_start_of_a_stream_arrives_before_its_end_is_written(client, stub):
    pieces, annotations = [], []
    for chunk in ask(client, PAUSE, stream=True):
        for choice in chunk.choices:
            annotations += (choice.delta.model_extra or {}).get("annotations") or []
            if choice.delta.content:
                pieces.append(choice.delta.content)
                stub[0].go_on.set()
    assert len(pieces) > 1 and "".join(pieces).endswith(ANSWER) and len(annotations) == 2


def test_a_response_can_be_continued(client):
    turns = [{"role": "user", "content": QUESTION}]
    first = client.responses.create(model="mast", input=turns)
    assert first.output_text.endswith(ANSWER)
    turns += [item.model_dump() for item in first.output]
    second = client.responses.create(model="mast", input=[*turns, {"role": "user", "content": MORE}])
    assert "Lower the mast slowly." in second.output_text


def test_embeddings_and_ranks_pass_the_proxy(client, proxy):
    from conftest import unit_vector

    found = client.embeddings.create(model="vectors", input=["rope"]).data[0].embedding
    assert found == pytest.approx(unit_vector("rope"), abs=1e-6)
    body = {"model": "rerank", "query": "rope", "documents": ["a light", "the rope"], "top_n": 1}
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    request = urllib.request.Request(f"{proxy}/v1/rerank", json.dumps(body).encode(), headers)
    assert [result["index"] for result in json.load(urllib.request.urlopen(request))["results"]] == [1]


def test_refusals_of_the_service_pass_the_proxy(client):
    assert ask(client, QUESTION, model="with key").choices[0].message.content.endswith(ANSWER)
    with pytest.raises(openai.AuthenticationError):
        ask(client, QUESTION, model="wrong key")
    with pytest.raises(openai.NotFoundError):
        ask(client, QUESTION, model="missing")
    with pytest.raises(openai.BadRequestError, match="response_format"):
        ask(client, QUESTION, response_format={"type": "json_object"})
