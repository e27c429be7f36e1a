"""Metrics that are called in this process.

A function that stands by itself is run from its source in a process of its own. A closure, a lambda, a method, an object
that can be called, or a function that uses names from around it cannot leave this process. `reverie.evaluate` calls these
here: what runs in the other process is a short function that asks this one, on the loopback interface and at an address
that nobody can guess.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from reverie._function_models import _unwrap, _failure_row

# What a metric is given of a row.
_GIVEN = ("question", "answer", "reference", "passages", "contexts", "columns")

_ASKING = '''async def metric({parameters}):
    import asyncio, concurrent.futures, json, urllib.request

    given = {{{given}}}
    body = json.dumps({{name: value for name, value in given.items() if value is not None}}).encode()
    request = urllib.request.Request({url!r}, body, {{"Content-Type": "application/json"}})
    # Not through a proxy: it is this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
    global _threads
    try:
        _threads
    except NameError:
        _threads = concurrent.futures.ThreadPoolExecutor({concurrency})

    def ask():
        with opener.open(request) as reply:
            return json.load(reply)

    said = await asyncio.get_running_loop().run_in_executor(_threads, ask)
    if "raised" in said:
        raise type(said["kind"], (Exception,), {{}})(said["raised"])
    value = said["value"]
    return tuple(value) if isinstance(value, list) else value
'''


class OwnMetric:
    """A callable of the caller's own as a metric of this process."""

    def __init__(self, function: Callable[..., Any], name: str, concurrency: int | None) -> None:
        self.function, self.name = function, name
        is_async = inspect.iscoroutinefunction(_unwrap(function))
        # Other functions may not be thread-safe, so they are called one at a time.
        self.concurrency = (concurrency or 16) if is_async else 1
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise ValueError(f"the metric `{name}`: its parameters cannot be read: {error}") from error
        if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
            self._parameters = {"question": False, "answer": False, "reference": True, "passages": True}
        else:
            named = [each for each in parameters if each.kind is not inspect.Parameter.VAR_POSITIONAL]
            optional = {each.name: each.default is not inspect.Parameter.empty for each in named}
            # Unknown parameters that have a default are left out.
            self._parameters = {key: has for key, has in optional.items() if key in _GIVEN or not has}

    def setting(self, url: str) -> dict[str, Any]:
        """The settings of the metric that calls this function at `url`."""
        ordered = sorted(self._parameters.items(), key=lambda each: each[1])
        parameters = ", ".join(f"{key}=None" if optional else key for key, optional in ordered)
        given = ", ".join(f'"{key}": {key}' for key in self._parameters)
        source = _ASKING.format(parameters=parameters, given=given, url=url, concurrency=self.concurrency)
        settings = {"name": self.name, "function": "metric", "source": source, "concurrency": self.concurrency}
        return {"python": settings}


@contextmanager
def serve_metrics(metrics: Sequence[Any]) -> Iterator[list[Any]]:
    """The metrics; those of this process are served until the context ends."""
    own = [each for each in metrics if isinstance(each, OwnMetric)]
    if not own:
        yield list(metrics)
        return
    server = _Server(own)
    try:
        yield [each.setting(server.address(each)) if isinstance(each, OwnMetric) else each for each in metrics]
    finally:
        server.end()


class _Server:
    def __init__(self, metrics: list[OwnMetric]) -> None:
        self.paths = {f"/{secrets.token_urlsafe(24)}": each for each in metrics}
        self.context = contextvars.copy_context()
        self._server = _Loopback(self)
        threading.Thread(target=self._server.serve_forever, name="reverie-metrics", daemon=True).start()

    def address(self, metric: OwnMetric) -> str:
        path = next(path for path, each in self.paths.items() if each is metric)
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, metric: OwnMetric, given: dict[str, Any]) -> dict[str, Any]:
        try:
            value = self.context.copy().run(_called, metric.function, given)
            # Numbers of NumPy and the like are numbers.
            return {"value": json.loads(json.dumps(value, default=lambda other: other.item()))}
        except Exception as error:
            return {"raised": _failure_row(metric.function, error)["message"].partition(": ")[2], "kind": type(error).__name__}


def _called(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    said = function(**given)
    if inspect.isawaitable(said):

        async def awaited() -> Any:
            return await said

        return asyncio.run(awaited())
    return said


class _Loopback(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, metrics: _Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.metrics = metrics

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client went away, such as after a cancellation: not an error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Loopback

    def do_POST(self) -> None:
        metric = self.server.metrics.paths.get(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = {} if metric is None else self.server.metrics.answer(metric, json.loads(body))
        text = json.dumps(said).encode()
        self.send_response(200 if metric is not None else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""
