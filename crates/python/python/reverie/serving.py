"""The HTTP service as an ASGI application: for uvicorn, FastAPI, Ray Serve and notebooks.

    uvicorn.run(reverie.Service("bundles/manuals-1"), port=8080)

Every route is that of `reverie serve` (docs/http.md); Rust does the work, and Python only passes bytes on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote

from reverie import _core

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# One byte more than the service takes: it refuses such a body itself.
_MOST_BYTES = (2 << 20) + 1


class Service:
    """A bundle behind HTTP, as an ASGI application.

    It is ready when it is made. Clients reach it through the server around it, which decides who may.

    Args:
        bundle: What `reverie promote` made: a folder, or a URL such as `s3://bucket/manuals-1`.
        fallback: The bundle that answers while the chat model of the first one fails.
        keys: The path of a file that `reverie keys new` wrote. Without it, everybody who reaches the server may ask, and
            nobody may read `/metrics`.
        public_url: The address that people use, for links to sources. A server on this machine that passes requests on,
            such as nginx, needs it, or `keys`, or `open_to_all`.
        answers_at_once: How many answers are written at once.
        queue: How many questions may wait; more are refused with 503.
        searches_at_once: How many searches, embeddings and rankings run at once, and how many more may wait.
        deadline: The longest time for an answer, in seconds.
        first_token: The longest time from when the passages are found to the answer's first word, in seconds.
        open_to_all: Whether everybody may ask without a key, also where there are `keys`, and whatever `Host` their
            requests name.
        admin_without_key: Whether programs on this machine may read `/metrics` without a key.

    Raises:
        RuntimeError: If the bundle is damaged or of a newer format, or a model is missing.
        ValueError: If a setting is no number of seconds or is 0, or the keys cannot be read.
    """

    # The way to the other parts, if this is the gateway of a graph: see `reverie.ray.serve.graph`.
    _others: Any = None

    def __init__(
        self,
        bundle: str | os.PathLike[str],
        *,
        fallback: str | os.PathLike[str] | None = None,
        keys: str | os.PathLike[str] | None = None,
        public_url: str | None = None,
        answers_at_once: int = 64,
        queue: int = 256,
        searches_at_once: int = 256,
        deadline: float = 120.0,
        first_token: float = 60.0,
        open_to_all: bool = False,
        admin_without_key: bool = False,
    ) -> None:
        text = None
        if keys is not None:
            with open(keys, encoding="utf-8") as file:
                text = file.read()
        self._core = _core.Service(
            os.fspath(bundle),
            None if fallback is None else os.fspath(fallback),
            text,
            public_url,
            answers_at_once,
            queue,
            searches_at_once,
            deadline,
            first_token,
            self._others,
            open_to_all,
            admin_without_key,
        )

    @property
    def name(self) -> str:
        """The name that clients send as `model`."""
        return self._core.name

    @property
    def version(self) -> str:
        """The digest of the bundle."""
        return self._core.version

    def __repr__(self) -> str:
        return f"<service {self.name} {self.version[:12]}>"

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answers one request, as ASGI 3 asks for it."""
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"the service speaks HTTP, not {scope['type']}")
        body = await _body(receive)
        if body is None:
            return
        reply = self._core.answer(scope["method"], _target(scope), list(scope["headers"]), body, _peer(scope))
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await self._send_parts(reply, send, disconnected)
        finally:
            disconnected.cancel()
            reply.close()

    async def _send_parts(self, reply: _core.Reply, send: _Send, disconnected: asyncio.Future[None]) -> None:
        while True:
            part = asyncio.ensure_future(next_part(reply))
            either: set[asyncio.Future[Any]] = {part, disconnected}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not part.done():
                # Nobody reads it any more, so the call of the model ends too.
                part.cancel()
                return
            content = part.result()
            if content is None:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            if isinstance(content, tuple):
                status, headers = content
                await send({"type": "http.response.start", "status": status, "headers": headers})
            else:
                await send({"type": "http.response.body", "body": content, "more_body": True})


def _target(scope: _Scope) -> str:
    """The path of a request below the path of the application, and its query, as they were sent."""
    path, root = scope.get("raw_path"), scope.get("root_path", "")
    if path:
        target = path.removeprefix(root.encode())
    else:
        target = quote(scope["path"].removeprefix(root), errors="replace").encode()
    target = target or b"/"
    if scope.get("query_string"):
        target += b"?" + scope["query_string"]
    try:
        return target.decode()
    except UnicodeDecodeError:
        # No address has this character, so the request is refused with 400, as by `reverie serve`.
        return "\0"


def _peer(scope: _Scope) -> str | None:
    """The address that a request comes from, if the server knows it.

    A server may take the client's address from `X-Forwarded-For`, which a web page can set; uvicorn does, for
    connections from its own machine. The server's own address cannot be set: a connection to a loopback address comes
    from this machine.
    """
    server, client = scope.get("server"), scope.get("client")
    if server and _is_loopback(server[0]):
        return server[0]
    return client[0] if client else None


def _is_loopback(address: str) -> bool:
    try:
        read = ip_address(address)
    except ValueError:
        # The name of a server, or the path of a socket.
        return False
    return (getattr(read, "ipv4_mapped", None) or read).is_loopback


async def _body(receive: _Receive) -> bytes | None:
    """The request's body, up to what the service takes; None if the client left."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        if len(body) < _MOST_BYTES:
            body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body[:_MOST_BYTES])


async def _wait_for_disconnect(receive: _Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def lifespan(receive: _Receive, send: _Send) -> None:
    """Says yes to a server that starts and ends: a service is ready when it is made."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def next_part(reply: _core.Reply) -> tuple[int, list[tuple[bytes, bytes]]] | bytes | None:
    """The next part of a response, which comes from another thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def end(content: Any, _: None) -> None:
        if not future.done():
            future.set_result(content)

    def done(content: Any, _: None) -> None:
        try:
            loop.call_soon_threadsafe(end, content, None)
        except RuntimeError:
            # The loop was closed: nobody waits any more.
            pass

    reply.anext(done)
    return await future
