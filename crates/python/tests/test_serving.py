"""A bundle behind HTTP, as an ASGI application."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

import reverie


@pytest.fixture
def bundle(small, slow):
    """A promoted trial with a generator at the endpoint."""
    path = small.writing("served", slow.url, "store")
    output = small.folder / "bundle"
    for verb in (["run", "-f", path, "--quiet"], ["promote", "-f", path, "--output", output]):
        subprocess.run([sys.executable, "-m", "reverie", *verb], check=True, capture_output=True)
    return output


async def ask(service, method: str, target: str, body: dict | None = None, leave_after: int | None = None):
    """What an ASGI server would get: status, headers, parts of the body. It may leave after so many parts."""
    path, _, query = target.partition("?")
    headers = [(b"host", b"service"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": headers, "root_path": "",
    }  # fmt: skip
    gone = asyncio.Event()
    messages = [{"type": "http.request", "body": json.dumps(body).encode() if body else b"", "more_body": False}]
    sent = []

    async def receive():
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        if leave_after is not None and len(sent) > leave_after:
            gone.set()

    await service(scope, receive, send)
    parts = [message["body"] for message in sent[1:] if message["body"]]
    return sent[0]["status"], dict(sent[0]["headers"]), parts


def question(**more) -> dict:
    return {"model": "mills", "messages": [{"role": "user", "content": "Which mill grinds oats?"}], **more}


def test_every_route_is_that_of_the_service(bundle):
    async def main():
        service = reverie.Service(bundle)
        assert service.name == "mills" and service.version in (bundle / "manifest.json").read_text()
        status, headers, parts = await ask(service, "GET", "/rag/retrieve?query=oats&top_k=1")
        assert status == 200 and headers[b"x-request-id"].startswith(b"req-")
        assert len(json.loads(b"".join(parts))["passages"]) == 1
        status, _, parts = await ask(service, "POST", "/v1/chat/completions", question(model="other"))
        assert status == 404 and json.loads(b"".join(parts))["error"]["code"] == "model_not_found"
        status, _, parts = await ask(service, "POST", "/v1/chat/completions", question())
        whole = json.loads(b"".join(parts))["choices"][0]["message"]["content"]
        assert status == 200 and whole.startswith("word0 word1")

    asyncio.run(main())


def test_an_answer_is_streamed_and_ends_with_a_client_that_leaves(bundle, slow):
    async def main():
        service = reverie.Service(bundle)
        status, headers, parts = await ask(service, "POST", "/v1/chat/completions", question(stream=True))
        assert status == 200 and headers[b"content-type"] == b"text/event-stream" and len(parts) > 10
        assert parts[-1].endswith(b"data: [DONE]\n\n")
        slow.endless = True
        other = {"model": "mills", "messages": [{"role": "user", "content": "Who built it?"}], "stream": True}
        _, _, parts = await ask(service, "POST", "/v1/chat/completions", other, leave_after=3)
        assert not any(b"[DONE]" in part for part in parts)
        assert await asyncio.to_thread(slow.broken_off.wait, 120), "the call of the model ends too"

    asyncio.run(main())


def test_a_damaged_bundle_is_refused_by_its_file(bundle):
    (bundle / "experiment.toml").write_text("name = 'other'")
    with pytest.raises(RuntimeError, match=r"experiment\.toml is not what was written"):
        reverie.Service(bundle)
    with pytest.raises(ValueError, match="deadline"):
        reverie.Service(bundle, deadline=-1)
