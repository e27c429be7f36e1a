"""Functions of the caller's own as chat models.

A function is served to the rest of Reverie as a model behind an endpoint of this process, on the loopback interface and
at an address that nobody can guess. So everything holds for it that holds for other models: limits, retries, and the
schemas of replies. Its answers count as free, and nothing that was answered is taken for the answer of another process.
What it raises is told as the failure of a function, with its traceback and the line of its file, and not as that of a
provider: the endpoint's refusal holds it in `function_failed`.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import json
import secrets
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Union

from reverie.exceptions import is_permanent, is_rate_limit, retry_after, status_of

# A model is the name of one, or a function from messages to a text or to what the schema asks for.
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
        function = {"reverie_function": {"function": name, "file": _file(self.functions[name])}}
        endpoint = {"model": name, "base_url": address, "api_key_env": "", "omit": _OMIT, "price": price}
        endpoint["extra"] = function
        return {"chat": {"openai": {**endpoint, "timeout_seconds": 600.0}}}

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: dict[str, Any]) -> tuple[int, dict[str, Any], float | None]:
        """The status, the body, and how long to wait before another call, of what a function was asked."""
        name = request.get("model", "")
        function = self.functions[name]
        messages = [{"role": each["role"], "content": each["content"]} for each in request["messages"]]
        try:
            said = self.context.copy().run(_called, function, messages)
            if isinstance(said, (dict, list)):
                said = json.dumps(said, ensure_ascii=False)
        except Exception as error:
            status = _status(error)
            failed = {**_raised(function, error), "function": name, "file": _file(function), "passes": status >= 500}
            return status, _refusal(failed), retry_after(error)
        if not isinstance(said, str):
            failed = {"message": f"it returned {_shown(said)}: {_WANTED}", "function": name, "file": _file(function)}
            return 400, _refusal(failed), None
        message = {"role": "assistant", "content": said}
        return 200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}, None


_WANTED = (
    "it must return the reply as a text (`str`), or as a dictionary where the messages ask for JSON, which is then "
    "checked against the schema in them"
)


def _refusal(failed: dict[str, Any]) -> dict[str, Any]:
    """What the endpoint says of a function that failed."""
    # Names of files may hold halves of characters, which no JSON can.
    message = f"the function `{failed['function']}`: {failed['message']}"
    return {"error": {"message": message, "function_failed": failed}}


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:80] + '…'}, of type {type(value).__name__}"


def _plain(function: Callable[..., Any]) -> Any:
    """What has the code: below `functools.partial`, wrappers and objects that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    own = not inspect.isroutine(function) and not inspect.isclass(function)
    return type(function).__call__ if own else function


def _file(function: Callable[..., Any]) -> str:
    """The file that it is from; empty where that is not known."""
    code = getattr(_plain(function), "__code__", None)
    return code.co_filename if code is not None else ""


def _raised(function: Callable[..., Any], error: BaseException) -> dict[str, str]:
    """What was raised, with the last line of the function's own file, and the traceback from the function on."""
    own, trace = _file(function), error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == own]
    message = f"{type(error).__name__}: {error}".rstrip(": ")
    if lines:
        message += f" (line {lines[-1]})"
    text = "".join(traceback.format_exception(type(error), error, trace))
    return {"message": message, "traceback": text[-20000:]}


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
