"""Functions of the caller's own as chat models.

A function is served to the rest of Reverie as a model behind an endpoint of this process, on the loopback interface and
at an address that nobody can guess. So everything holds for it that holds for other models: limits, retries, and the
schemas of replies. Its answers count as free, and nothing that was answered is taken for the answer of another process.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Union

from reverie.exceptions import is_permanent, is_rate_limit, retry_after, status_of

# A model is the name of one, or a function from messages to a text.
Model = Union[str, Callable[[list[dict[str, str]]], Any]]

# What an endpoint of this kind is not asked for: the schema is asked for in words, and there are no probabilities.
_OMIT = ["response_format", "logprobs", "top_logprobs", "stream", "stream_options"]


def several(judge: Model | Sequence[Model] | None) -> list[Model]:
    """A list of judges, or one."""
    if judge is None:
        return []
    return [judge] if isinstance(judge, str) or callable(judge) else list(judge)


@contextmanager
def served(
    given: Sequence[Model], models: Mapping[str, Any] | None
) -> Iterator[tuple[list[str], dict[str, Any] | None]]:
    """The names of these models, and all models by name; functions are served for as long as this lasts."""
    names: list[str] = []
    functions: dict[str, Callable[..., Any]] = {}
    for each in given:
        if isinstance(each, str):
            names.append(each)
        elif callable(each):
            names.append(_name(each, {*names, *(models or {})}))
            functions[names[-1]] = each
        else:
            raise TypeError(f"a model is the name of one or a function, not {each!r}")
    if not functions:
        yield names, None if models is None else dict(models)
        return
    server = _Server(functions)
    try:
        yield names, {**(models or {}), **{name: server.settings(name) for name in functions}}
    finally:
        server.end()


def _name(function: Callable[..., Any], taken: set[str]) -> str:
    plain = getattr(function, "__name__", None) or type(function).__name__
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in plain).strip("_") or "function"
    free = name
    number = 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


class _Server:
    """An endpoint that speaks OpenAI's protocol, with a model for each function."""

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        self.functions = functions
        self.path = f"/{secrets.token_urlsafe(24)}/v1"
        self.context = contextvars.copy_context()
        self._server = _Loopback(self)
        threading.Thread(target=self._server.serve_forever, name="reverie-models", daemon=True).start()

    def settings(self, name: str) -> dict[str, Any]:
        """The model in an experiment's `models`."""
        address = f"http://127.0.0.1:{self._server.server_address[1]}{self.path}"
        price = {"input": 0, "output": 0}
        endpoint = {"model": name, "base_url": address, "api_key_env": "", "omit": _OMIT, "price": price}
        return {"chat": {"openai": {**endpoint, "timeout_seconds": 600.0}}}

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: dict[str, Any]) -> tuple[int, dict[str, Any], float | None]:
        """The status, the body, and how long to wait before another call, of what a function was asked."""
        name = request.get("model", "")
        messages = [{"role": each["role"], "content": each["content"]} for each in request["messages"]]
        try:
            said = self.context.copy().run(_called, self.functions[name], messages)
        except Exception as error:
            said_error = {"error": {"message": f"the function `{name}` raised {type(error).__name__}: {error}"}}
            return _status(error), said_error, retry_after(error)
        if not isinstance(said, str):
            kind = type(said).__name__
            return 400, {"error": {"message": f"the function `{name}` returned {kind}, and not the answer's text"}}, None
        message = {"role": "assistant", "content": said}
        return 200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}, None


def _called(function: Callable[..., Any], messages: list[dict[str, str]]) -> Any:
    said = function(messages)
    if inspect.isawaitable(said):

        async def awaited() -> Any:
            return await said

        return asyncio.run(awaited())
    return said


def _status(error: Exception) -> int:
    """What an endpoint would say: another attempt may help only where the other side, or the way there, failed."""
    status = status_of(error)
    if is_rate_limit(error) or status == 429:
        return 429
    if status is not None and 400 <= status < 600:
        return status
    passing = isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError))
    return 503 if passing and not is_permanent(error) else 400


class _Loopback(ThreadingHTTPServer):
    daemon_threads = True
    # Calls in flight are as many as the limiter allows.
    request_queue_size = 256

    def __init__(self, models: _Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.models = models

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked went away, as after a cancellation: that is no error of the program."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Loopback

    def do_GET(self) -> None:
        names = list(self.server.models.functions)
        self._reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}, None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != f"{self.server.models.path}/chat/completions":
            self._reply(404, {"error": {"message": "there is nothing at this address"}}, None)
            return
        self._reply(*self.server.models.answer(json.loads(body)))

    def _reply(self, status: int, value: dict[str, Any], wait: float | None) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if wait is not None:
            self.send_header("Retry-After", f"{wait:g}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody asked for a log of requests."""
