"""A bundle behind HTTP, as an ASGI application."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from urllib.parse import quote, urlsplit

import pytest

import reverie
from workspace import run_server


@pytest.fixture
def bundle(small, slow):
    """A promoted trial with a generator at the endpoint."""
    path = small.writing("served", slow.url, "store")
    output = small.folder / "bundle"
    for verb in (["run", "-f", path, "--quiet"], ["promote", "-f", path, "--output", output]):
        subprocess.run([sys.executable, "-m", "reverie", *verb], check=True, capture_output=True)
    return output


async def ask(
    service, method: str, target: str | bytes, body: dict | None = None, leave_after: int | None = None,
    headers: tuple[tuple[bytes, bytes], ...] = ((b"host", b"service"),), **more,
):  # fmt: skip
    """What an ASGI server would get: status, headers, parts of the body. It may leave after so many parts.

    `more` replaces what the server says of the request, such as the address of its client.
    """
    path, _, query = (target.encode() if isinstance(target, str) else target).partition(b"?")
    scope = {
        "type": "http", "method": method, "path": path.decode(errors="replace"), "raw_path": path, "query_string": query,
        "headers": [*headers, (b"content-type", b"application/json")], "root_path": "", **more,
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


HERE = ("127.0.0.1", 50_000)
ELSEWHERE = ("10.0.0.7", 50_000)
FOREIGN = (b"mills.example", b"mills.example:8080", b"localhost.mills.example", b"127.0.0.1.mills.example", b"", b"\xff")


async def read_status(service, host: bytes, *more: tuple[bytes, bytes], target: str = "/rag/retrieve?query=oats", **scope) -> int:
    """The status of a request to this host."""
    return (await ask(service, "GET", target, headers=((b"host", host), *more), **scope))[0]


@pytest.fixture
def keys(tmp_path):
    """A file of keys, and its only key."""
    path = tmp_path / "keys.toml"
    command = [sys.executable, "-m", "reverie", "keys", "new", "alice", "--file", str(path)]
    return path, subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_without_keys_a_request_from_this_machine_with_a_foreign_host_name_is_refused(bundle, slow):
    async def main():
        service = reverie.Service(bundle)
        for address in ("127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"):
            for host in FOREIGN:
                status, _, parts = await ask(
                    service, "POST", "/v1/chat/completions", question(stream=True), headers=((b"host", host),),
                    client=(address, 50_000),
                )  # fmt: skip
                refused = json.loads(b"".join(parts))["error"]
                assert (status, refused["code"]) == (403, "forbidden"), (address, host)
                assert "this service has no keys" in refused["message"]
            for host in (b"localhost", b"localhost:8080", b"127.0.0.1", b"[::1]:8080", b"LocalHost"):
                assert await read_status(service, host, client=(address, 50_000)) == 200, (address, host)
        for target in ("/", "/docs", "/health/live", "/health/ready", "/v1/models", "/rag/answer?query=oats", "/mcp", "/nowhere"):
            assert await read_status(service, b"mills.example", target=target, client=HERE) == 403, target
        status, _, _ = await ask(service, "GET", "/health/live", headers=(), client=HERE)
        assert status == 403, "a request without a name is refused too"
        two = (b"host", b"mills.example")
        assert await read_status(service, b"localhost", two, client=HERE) == 400, "the request has two names"

    asyncio.run(main())
    assert slow.sent == 0, "the model was not asked"


def test_a_foreign_host_name_is_accepted_with_a_public_url_with_keys_and_from_other_machines(bundle, keys):
    async def main():
        public = reverie.Service(bundle, public_url="https://mills.example")
        assert await read_status(public, b"mills.example", client=HERE) == 200
        assert await read_status(public, b"other.example", client=HERE) == 403
        assert await read_status(reverie.Service(bundle, open_to_all=True), b"mills.example", client=HERE) == 200
        path, key = keys
        guarded = reverie.Service(bundle, keys=path)
        assert await read_status(guarded, b"mills.example", client=HERE) == 401, "the key decides"
        allowed = (b"authorization", b"Bearer " + key.encode())
        assert await read_status(guarded, b"mills.example", allowed, client=HERE) == 200
        # Which other machines reach it is decided by the server around it.
        service = reverie.Service(bundle)
        for client in (ELSEWHERE, None):
            assert await read_status(service, b"mills.example", client=client) == 200

    asyncio.run(main())


def test_a_web_page_cannot_hide_by_a_header_that_it_comes_from_this_machine(bundle):
    hidden = (b"x-forwarded-for", b"10.0.0.7")

    async def main():
        service = reverie.Service(bundle)
        # A server that trusts the header gives its address as the client's.
        for server in (("127.0.0.1", 8080), ("::1", 8080), ("::ffff:127.0.0.1", 8080)):
            assert await read_status(service, b"mills.example", hidden, client=ELSEWHERE, server=server) == 403, server
        for server in (("10.0.0.8", 8080), ("mills.internal", 8080), ("/run/mills.sock", None), None):
            assert await read_status(service, b"mills.example", hidden, client=ELSEWHERE, server=server) == 200, server
            assert await read_status(service, b"mills.example", client=HERE, server=server) == 403, server
        # It does not make its sender an administrator either.
        service = reverie.Service(bundle, admin_without_key=True)
        scope = {"target": "/metrics", "client": ELSEWHERE, "server": ("127.0.0.1", 8080)}
        assert await read_status(service, b"localhost", hidden, **scope) == 403
        assert await read_status(service, b"localhost", **{**scope, "client": HERE}) == 200

    asyncio.run(main())
    with run_server(reverie.Service(bundle)) as url:
        assert send_raw_request(url, b"/health/live", host=b"mills.example").startswith(b"HTTP/1.1 403 ")
        assert send_raw_request(url, b"/health/live", hidden, host=b"mills.example").startswith(b"HTTP/1.1 403 ")
        assert send_raw_request(url, b"/health/live").startswith(b"HTTP/1.1 200 ")


BAD_TARGETS = (
    # The address of another host.
    b"http://mills.example/health/live", b"https://mills.example:8080/health/live", b"mills.example:80", b"http://", b"http:///x",
    b"//mills.example", b"//mills.example/health/live", b"///health/live",
    # No UTF-8, in the path, in the query, behind a percent sign, and in the address of a host.
    b"/\xff\xfe", b"/v1/models/\xff", b"/rag/retrieve?query=\xff", b"/rag/sources/%ff", b"/%ff", b"http://\xff/", b"/\xc3",
    # Ways up.
    b"..", b"/..", b"/../health/live", b"/health/../health/live", b"/rag/sources/../../admin/status", b"/%2e%2e/health/live",
    b"/rag/sources/..%2f..%2fetc%2fpasswd", b"/rag/sources/%2e%2e", b"/./health/live", b"/health%2flive", b"\\..\\health",
    # What no address holds.
    b"/a b", b"/\x00", b"/\r\n", b"/%00", b"*", b"#top", b"/" + b"a" * 70_000,
)  # fmt: skip


def test_bad_request_targets_are_refused(bundle):
    async def main():
        service = reverie.Service(bundle)
        scope = {"headers": ((b"host", b"localhost"),), "client": HERE}
        for target in BAD_TARGETS:
            for method in ("GET", "POST", "CONNECT"):
                status, _, parts = await ask(service, method, target, **scope)
                assert 400 <= status < 500, (method, target[:80], status)
                assert json.loads(b"".join(parts))["error"]["message"], (method, target[:80])
            # A server that knows no raw path gives a decoded one.
            decoded = {"raw_path": None, "path": target.partition(b"?")[0].decode(errors="surrogateescape")}
            status, _, _ = await ask(service, "GET", target, **scope, **decoded)
            assert 400 <= status < 500, (target[:80], status)
        for method in ("", "G T", "GÉT"):
            assert (await ask(service, method, "/health/live", **scope))[0] == 400, method
        for header in ((b"a b", b"x"), (b"", b"x"), (b"x\xff", b"x"), (b"x", b"a\r\nb")):
            headers = (*scope["headers"], header)
            assert (await ask(service, "GET", "/health/live", headers=headers, client=HERE))[0] == 400, header
        # The service goes on, also under its own absolute address (RFC 9112, 3.2.2).
        for target in ("/health/live", "http://localhost:8080/health/live"):
            assert (await ask(service, "GET", target, **scope))[0] == 200, target

    asyncio.run(main())


def test_bad_request_targets_are_refused_through_uvicorn(bundle):
    with run_server(reverie.Service(bundle)) as url:
        # uvicorn closes the connection in the middle of a request that is too long.
        for target in (target for target in BAD_TARGETS if len(target) < 10_000):
            first = send_raw_request(url, target).split(b"\r\n")[0]
            assert first.startswith(b"HTTP/1.1 4"), (target[:80], first)
        assert send_raw_request(url, b"/health/live").startswith(b"HTTP/1.1 200 ")


def send_raw_request(url: str, target: bytes, *headers: tuple[bytes, bytes], host: bytes = b"localhost") -> bytes:
    """Sends a request with this target as it is, and gives the whole response."""
    lines = [b"GET " + target + b" HTTP/1.1", b"Host: " + host, b"Connection: close", *(b": ".join(pair) for pair in headers)]
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=120) as connection:
        connection.sendall(b"\r\n".join([*lines, b"", b""]))
        response = b""
        while part := connection.recv(65536):
            response += part
    return response


def test_text_in_a_target_is_utf_8_with_and_without_percent_signs(bundle):
    encoded = quote("/v1/models/Mühle").encode()

    async def main():
        service = reverie.Service(bundle)
        for scope in (
            {"raw_path": "/v1/models/Mühle".encode()},
            {"raw_path": encoded},
            {"raw_path": b"/app" + encoded, "root_path": "/app"},
            {"raw_path": None, "path": "/v1/models/Mühle"},
            {"raw_path": None, "path": "/app/v1/models/Mühle", "root_path": "/app"},
        ):
            status, _, parts = await ask(service, "GET", "", **scope)
            assert (status, json.loads(b"".join(parts))["error"]["message"]) == (404, "there is no model `Mühle`"), scope
        # A server that knows no raw path has decoded the space.
        status, _, parts = await ask(service, "GET", "", raw_path=None, path="/v1/models/two mills")
        assert (status, json.loads(b"".join(parts))["error"]["message"]) == (404, "there is no model `two mills`")

    asyncio.run(main())
