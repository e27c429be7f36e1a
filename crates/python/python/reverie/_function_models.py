"""Functions of the caller's own as chat models.

A function is served to the rest of Reverie as a model behind an endpoint of this process, on the loopback interface and
at an address that nobody can guess. So everything holds for it that holds for other models: limits, retries, the schemas
of replies, and the journal. Its answers count as free. It is identified by the digest of its source, of constants and
functions of the program's own that it uses, and of its `version`: what it answered once is not asked again, also in
another process, until one of these changes.
What it raises counts as the failure of a function, with its traceback and the line of its file, and not as that of a
provider: the endpoint's refusal holds it in `function_failed`.
"""

from __future__ import annotations

import asyncio
import contextvars
import dis
import functools
import hashlib
import inspect
import json
import secrets
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import CodeType, FunctionType
from typing import Any, Union

from reverie import _core
from reverie._function_embedders import FunctionEmbedder, to_embedder
from reverie.exceptions import is_permanent, is_rate_limit, retry_after, status_of

# A model is the name of one, or a function from messages to a text or to what the schema asks for.
Model = Union[str, Callable[[list[dict[str, str]]], Any]]

# Fields that requests to a function leave out: the schema is in the prompt, and there are no probabilities.
_OMIT = ["response_format", "logprobs", "top_logprobs", "stream", "stream_options"]


class FunctionModel:
    """A function as a chat model, with its settings. Made by `reverie.model`; it can still be called."""

    def __init__(self, function: Callable[..., Any], version: str | None, concurrency: int | None) -> None:
        self.function, self.version, self.concurrency = function, version, concurrency
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return f"<model {getattr(self.function, '__name__', self.function)!s}>"


def model(
    function: Callable[..., Any] | None = None, *, version: str | None = None, concurrency: int | None = None
) -> Any:
    """Makes a chat model of a function, with settings. A plain function is a model too, wherever one is named.

        @reverie.model(version="2", concurrency=8)
        async def ask(messages):
            return await client.chat(messages)

    The function gets the messages, a list of dictionaries with `role` and `content`, and returns the reply: a text, or a
    dictionary where the messages ask for JSON. It runs in this process. Its replies are kept in the journal of the store
    by its source, by constants (texts, numbers, tuples) and functions of your own that it uses, and by `version`. The
    content of lists, dictionaries and clients does not count.

    Args:
        function: The function; it may be an `async def`.
        version: Any text. A new one asks everything anew, for a change that the source does not show: another model
            behind a client. Default: none.
        concurrency: How many calls run at once, at least 1. Default: up to 256, as many as it can handle.

    Raises:
        ValueError: If `concurrency` is below 1.
    """
    if concurrency is not None and concurrency < 1:
        raise ValueError(f"concurrency: how many calls run at once, at least 1, not {concurrency!r}")

    def made(function: Callable[..., Any]) -> FunctionModel:
        return FunctionModel(function, version, concurrency)

    return made if function is None else made(function)


def limit_concurrency(model: Model, concurrency: int | None) -> Model:
    """A function with this limit, unless it has one of its own; names of models as they are."""
    if concurrency is None or isinstance(model, (str, FunctionModel)) or not callable(model):
        return model
    return FunctionModel(model, None, concurrency)


def as_models(judge: Model | Sequence[Model] | None) -> list[Model]:
    """One judge, several or none, as a list."""
    if judge is None:
        return []
    return [judge] if isinstance(judge, str) or callable(judge) else list(judge)


@contextmanager
def serve_functions(
    given: Sequence[Model], models: Mapping[str, Any] | None
) -> Iterator[tuple[list[str], dict[str, Any] | None]]:
    """The names of these models, and all models by name; functions are served for as long as this lasts."""
    names: list[str] = []
    functions: dict[str, Callable[..., Any]] = {}
    for each in given:
        if isinstance(each, str):
            names.append(each)
        elif callable(each):
            names.append(function_name(each, {*names, *(models or {})}))
            functions[names[-1]] = each
        else:
            raise TypeError(f"a model is a name or a function, not {each!r}")
    plain, more = split_functions(models or {})
    functions.update(more)
    own = {name: settings(name, function) for name, function in functions.items()}
    with serve_models(functions):
        yield names, None if models is None and not own else {**plain, **own}


def is_model(value: Any) -> bool:
    """Whether it is a function that may stand for a model: no class, no component, no decorated metric or stage."""
    return callable(value) and not inspect.isclass(value) and not hasattr(value, "setting")


def split_functions(models: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Callable[..., Any]]]:
    """The models that are not functions, and those that are, by name."""
    # Embedding models of LlamaIndex can be called too, for another purpose.
    models = {name: to_embedder(value) for name, value in models.items()}
    functions = {name: value for name, value in models.items() if is_model(value)}
    return {name: value for name, value in models.items() if name not in functions}, functions


def settings(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """The model that an experiment has for a function: the same in every process."""
    if isinstance(function, FunctionEmbedder):
        return function.settings(name)
    # The digest, so that the model is the same in every process; calls go to the address of the `_Server` that has it.
    endpoint: dict[str, Any] = {"model": name, "base_url": digest(function), "api_key_env": "", "omit": _OMIT}
    concurrency = function.concurrency if isinstance(function, FunctionModel) else None
    if concurrency is not None:
        endpoint["concurrency"] = concurrency
    return {"chat": {"openai": {**endpoint, "price": {"input": 0, "output": 0}, "timeout_seconds": 600.0}}}


@contextmanager
def serve_models(functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Serves functions by these names for as long as this lasts."""
    server = ServedModels(functions)
    try:
        yield
    finally:
        server.end()


class ServedModels:
    """Functions that are served until `end` is called."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._server = _Server(dict(functions)) if functions else None

    def end(self) -> None:
        """Ends the endpoint as soon as no model may ask it any more. That may be later: another run with equal functions
        may use the same endpoint."""
        if self._server is not None:
            self._server.end()
            self._server = None


# Functions without a readable source, each with the random digest that it has in this process.
_unknown: dict[int, tuple[Any, str]] = {}


def digest(function: Callable[..., Any]) -> str:
    """What identifies a function, as an address: `function:` and the digest of its source, of the constants and functions
    of the program's own that it uses, and of its version."""
    version = None
    if isinstance(function, FunctionEmbedder):
        return function.digest()
    if isinstance(function, FunctionModel):
        version = function.version
        function = function.function
    try:
        parts = [repr(version), *_parts(function, set())]
    except (OSError, TypeError, ValueError):
        if version is None:
            # Its replies cannot be told apart from those of another function.
            return _unknown.setdefault(id(function), (function, f"function:{secrets.token_hex(16)}"))[1]
        parts = [repr(version), getattr(_unwrap(function), "__qualname__", type(function).__qualname__)]
    return f"function:{hashlib.sha256(json.dumps(parts).encode('utf-8', 'replace')).hexdigest()[:32]}"


def _parts(function: Any, known: set[int]) -> Iterator[str]:
    """The texts that decide what a function does, as far as this program can see."""
    if isinstance(function, FunctionModel):
        function = function.function
    if id(function) in known:
        return
    known.add(id(function))
    while isinstance(function, functools.partial):
        yield from (_constant(value, known) for value in (*function.args, *sorted(function.keywords.items())))
        function = function.func
    function = inspect.unwrap(function)
    owner = getattr(function, "__self__", None)
    plain = _unwrap(function)
    if owner is None and plain is not function:
        owner = function
    if owner is not None and not inspect.ismodule(owner):
        yield from (f"{name}={_constant(value, known)}" for name, value in sorted(getattr(owner, "__dict__", {}).items()))
    plain = getattr(plain, "__func__", plain)
    if not isinstance(plain, FunctionType):
        raise TypeError("it has no source")
    code = plain.__code__
    if plain.__name__ == "<lambda>":
        # A line may hold several lambdas.
        yield _code(code)
    else:
        try:
            yield textwrap.dedent(inspect.getsource(plain))
        except (OSError, TypeError):
            yield _code(code)
    yield from (_constant(value, known) for value in (plain.__defaults__ or ()))
    yield from (f"{name}={_constant(value, known)}" for name, value in sorted((plain.__kwdefaults__ or {}).items()))
    changed = {each.argval for each in dis.get_instructions(code) if each.opname in ("STORE_GLOBAL", "STORE_DEREF")}
    for name, cell in zip(code.co_freevars, plain.__closure__ or ()):
        if name in changed:
            continue
        try:
            yield f"{name}={_constant(cell.cell_contents, known)}"
        except ValueError:
            yield f"{name}="
    yield from (
        f"{name}={_constant(plain.__globals__[name], known)}"
        for name in sorted(_names(code) - changed)
        if name in plain.__globals__
    )


def _constant(value: Any, known: set[int]) -> str:
    """A constant as a text, a function of the program's own by its source; of anything else the name of its type: what is
    in a list or a dictionary may change while the function runs, as a count of calls does."""
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(_constant(each, known) for each in value)}]"
    if isinstance(value, FunctionModel) or (isinstance(value, FunctionType) and _is_own(value)):
        return json.dumps(list(_parts(value, known)))
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _is_own(function: FunctionType) -> bool:
    """Whether a function is of the program and not of an installed package."""
    file = function.__code__.co_filename
    return "site-packages" not in file and "/lib/python" not in file


def _names(code: CodeType) -> set[str]:
    """The names that a function uses, with those of functions inside of it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _code(code: CodeType) -> str:
    """A function without a source, such as one that was compiled from a text."""
    consts = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return json.dumps([code.co_code.hex(), consts, list(code.co_names), list(code.co_varnames)])


def function_name(function: Callable[..., Any], taken: set[str]) -> str:
    own = function.function if isinstance(function, FunctionModel) else function
    plain = getattr(own, "__name__", None) or type(own).__name__
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
        self._ended = threading.Event()
        self._served = [
            _core.ServedFunction(digest(function), name, self.address, _file(function))
            for name, function in functions.items()
        ]
        threading.Thread(target=self._serve, name="reverie-models", daemon=True).start()

    @property
    def address(self) -> str:
        """Where the functions are."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.path}"

    def end(self) -> None:
        for function in self._served:
            function.withdraw()
        self._ended.set()

    def _serve(self) -> None:
        with self._server:
            while not self._ended.is_set() or any(function.is_in_use() for function in self._served):
                self._server.handle_request()

    def embed(self, request: dict[str, Any]) -> tuple[int, dict[str, Any], float | None]:
        """Calls an embedding model. Returns the same as `answer`."""
        name = request.get("model", "")
        function = self.functions[name]
        try:
            vectors = self.context.copy().run(function, request["input"])
        except Exception as error:
            return self._failure(name, error)
        rows = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        return 200, {"object": "list", "data": rows, "model": name}, None

    def _failure(self, name: str, error: Exception) -> tuple[int, dict[str, Any], float | None]:
        function, status = self.functions[name], _status(error)
        # `passes`: another attempt may help.
        failed = {**_failure_row(function, error), "function": name, "file": _file(function), "passes": status >= 500}
        return status, _refusal(failed), retry_after(error)

    def answer(self, request: dict[str, Any]) -> tuple[int, dict[str, Any], float | None]:
        """Calls a function. Returns the status, the body, and how long to wait before another call."""
        name = request.get("model", "")
        function = self.functions[name]
        messages = [{"role": each["role"], "content": each["content"]} for each in request["messages"]]
        try:
            said = self.context.copy().run(_call, function, messages)
            if isinstance(said, (dict, list)):
                said = json.dumps(said, ensure_ascii=False)
        except Exception as error:
            return self._failure(name, error)
        if not isinstance(said, str):
            failed = {"message": f"it returned {_describe(said)}: {_WANTED}", "function": name, "file": _file(function)}
            return 400, _refusal(failed), None
        message = {"role": "assistant", "content": said}
        return 200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}, None


_WANTED = (
    "it must return the reply as a text (`str`), or as a dictionary where the messages ask for JSON, which is then "
    "checked against the schema in them"
)


def _refusal(failed: dict[str, Any]) -> dict[str, Any]:
    """What the endpoint says of a function that failed."""
    message = f"the function `{failed['function']}`: {failed['message']}"
    return {"error": {"message": message, "function_failed": failed}}


def _describe(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:80] + '…'}, of type {type(value).__name__}"


def _unwrap(function: Callable[..., Any]) -> Any:
    """The function with the code: below `functools.partial`, wrappers and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function.function if isinstance(function, FunctionModel) else function)
    own = not inspect.isroutine(function) and not inspect.isclass(function)
    # Query engines and other systems may have no `__call__`.
    return getattr(type(function), "__call__", None) if own else function


def _file(function: Callable[..., Any]) -> str:
    """The file that it is from; empty where that is not known."""
    code = getattr(_unwrap(function), "__code__", None)
    return code.co_filename if code is not None else ""


def _failure_row(
    function: Callable[..., Any], error: BaseException, callers: tuple[str, ...] = (__file__,)
) -> dict[str, str]:
    """What was raised, with the last line of the function's own file, and the traceback from the function on, without
    the files `callers` that called it."""
    own, trace = _file(function), error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in callers:
        trace = trace.tb_next
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == own]
    message = f"{type(error).__name__}: {error}".rstrip(": ")
    if lines:
        message += f" (line {lines[-1]})"
    text = "".join(traceback.format_exception(type(error), error, trace))
    return {"message": message, "traceback": text[-20000:]}


def _call(function: Callable[..., Any], messages: list[dict[str, str]]) -> Any:
    said = function(messages)
    if inspect.isawaitable(said):

        async def awaited() -> Any:
            return await said

        return asyncio.run(awaited())
    return said


def _status(error: Exception) -> int:
    """The HTTP status: another attempt may help only where the other side, or the way there, failed."""
    status = status_of(error)
    if is_rate_limit(error) or status == 429:
        return 429
    if status is not None and 400 <= status < 600:
        return status
    is_transient = isinstance(error, (ConnectionError, TimeoutError, asyncio.TimeoutError))
    return 503 if is_transient and not is_permanent(error) else 400


class _Loopback(ThreadingHTTPServer):
    daemon_threads = True
    # Seconds between two looks at whether it should end.
    timeout = 0.2
    # Calls in flight are as many as the limiter allows.
    request_queue_size = 256

    def __init__(self, models: Any, handler: type[_Handler] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), handler or _Handler)
        self.models = models

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client went away, such as after a cancellation: not an error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Loopback

    def do_GET(self) -> None:
        names = list(self.server.models.functions)
        self._reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}, None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        models = self.server.models
        calls = {f"{models.path}/chat/completions": models.answer, f"{models.path}/embeddings": models.embed}
        if self.path not in calls:
            self._reply(404, {"error": {"message": "there is nothing at this address"}}, None)
            return
        self._reply(*calls[self.path](json.loads(body)))

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
        """Requests are not logged."""
