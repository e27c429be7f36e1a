"""Systems that are called in this process: query engines, runnables, and functions that use variables of the program.

Like functions that stand for models, they are served to the rest of Reverie at an address of the loopback interface that
nobody can guess, so limits, retries, the journal and the budget hold for them as for every other system. They are called,
and what they return is read, by the code that the processes of systems run (`_core.system_code`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from reverie import _core
from reverie._function_models import _describe, _failure_row, _file, _Handler, _is_own, _Loopback, _names, _unwrap, digest

# Questions at once, if it is asynchronous.
_ASYNCHRONOUS = 16
_SECRETS: dict[int, tuple[Any, str]] = {}
# How the code of `_core.system_code` is called in tracebacks.
_CODE_NAME = "<reverie systems>"


@functools.cache
def _code() -> dict[str, Any]:
    """What calls a system and reads its replies."""
    space: dict[str, Any] = {"__name__": "reverie._system_code"}
    exec(compile(_core.system_code(), _CODE_NAME, "exec"), space)
    return space


class LiveSystem:
    """A system that is called in this process, under its name in an experiment."""

    def __init__(self, name: str, target: Any, settings: Mapping[str, Any], version: str | None) -> None:
        self.name, self.target = name, target
        self.title = _title(target)
        self.timeout_seconds: float = settings["timeout_seconds"]
        asked = self.asked()
        stated = settings.get("concurrency")
        default = _ASYNCHRONOUS if asked.is_async else 1
        self.concurrency: int = 1 if asked.is_serial else stated or default
        self.digest = _digest(name, target, version)
        self.arguments: list[str] = list(asked.takes)

    @staticmethod
    def check(target: Any) -> None:
        """Checks that it can be asked.

        Raises:
            TypeError: If it can neither be called, nor be queried or invoked.
        """
        code = _code()
        try:
            code["SystemTarget"](target, _title(target))
        except code["UnusableReply"] as error:
            raise TypeError(str(error)) from None

    def asked(self) -> Any:
        """The object with the way in which it gets a question."""
        return _code()["SystemTarget"](self.target, self.title)

    def settings(self) -> dict[str, Any]:
        """The table `object` of the experiment: the same in every process in which its digest is the same."""
        limits = {"timeout_seconds": self.timeout_seconds, "concurrency": self.concurrency}
        return {"digest": self.digest, "name": self.title, "arguments": self.arguments, **limits}


@contextmanager
def serve_systems(systems: Mapping[str, LiveSystem]) -> Iterator[None]:
    """Serves systems by their names for as long as this lasts."""
    server = _SystemServer(dict(systems)) if systems else None
    try:
        yield
    finally:
        if server is not None:
            server.end()


def _title(target: Any) -> str:
    """The name of a system in messages."""
    plain = target.func if isinstance(target, functools.partial) else target
    if isinstance(plain, MethodType):
        return f"{type(plain.__self__).__name__}.{plain.__name__}"
    named = isinstance(plain, (FunctionType, BuiltinFunctionType))
    name: str = plain.__qualname__.rpartition("<locals>.")[2] if named else type(target).__name__
    return name.strip("<>") or "function"


def _digest(name: str, target: Any, version: str | None) -> str:
    """What identifies a system, as an address. Two systems are told apart by their names in the experiment."""
    is_function = isinstance(target, (FunctionType, functools.partial))
    if is_function and not _uses_objects(target, set()):
        what = digest(target)
    elif version is not None:
        what = f"{type(target).__module__}.{type(target).__qualname__} {_title(target)}"
    else:
        # Nothing says which replies it gives: another program could not tell.
        what = _SECRETS.setdefault(id(target), (target, secrets.token_hex(16)))[1]
    return f"function:{hashlib.sha256(json.dumps([name, what]).encode('utf-8', 'replace')).hexdigest()[:32]}"


def _uses_objects(function: Any, known: set[int]) -> bool:
    """Whether a function uses objects of the program, whose content decides what it replies."""
    if isinstance(function, functools.partial):
        bound = (*function.args, *function.keywords.values())
        return any(_is_object(value, known) for value in bound) or _uses_objects(function.func, known)
    plain = _unwrap(function)
    if not isinstance(plain, FunctionType) or id(plain) in known:
        return not isinstance(plain, FunctionType)
    known.add(id(plain))
    used = [cell.cell_contents for cell in plain.__closure__ or () if not _is_empty(cell)]
    used += [plain.__globals__[name] for name in _names(plain.__code__) if name in plain.__globals__]
    used += [*(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).values()]
    return any(_is_object(value, known) for value in used)


def _is_object(value: Any, known: set[int]) -> bool:
    if isinstance(value, (str, bytes, int, float, bool, type(None), type, ModuleType, BuiltinFunctionType)):
        return False
    if isinstance(value, tuple):
        return any(_is_object(each, known) for each in value)
    if isinstance(value, (FunctionType, functools.partial)):
        plain = _unwrap(value)
        return isinstance(plain, FunctionType) and _is_own(plain) and _uses_objects(value, known)
    return True


def _is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return True
    return False


class _SystemServer:
    """An endpoint with an address for each system."""

    def __init__(self, systems: dict[str, LiveSystem]) -> None:
        self._context = contextvars.copy_context()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._server = _Loopback(self, _SystemHandler)
        self.asked = {f"/{secrets.token_urlsafe(24)}": _AskedSystem(system) for system in systems.values()}
        address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._served = [
            _core.ServedFunction(asked.system.digest, f"[systems.{asked.system.name}]", f"{address}{path}", asked.file)
            for path, asked in self.asked.items()
        ]
        threading.Thread(target=self._serve, name="reverie-systems", daemon=True).start()

    def end(self) -> None:
        """Ends the endpoint as soon as nobody may ask it any more."""
        for system in self._served:
            system.withdraw()
        self._ended.set()

    def _serve(self) -> None:
        with self._server:
            while not self._ended.is_set() or any(system.is_in_use() for system in self._served):
                self._server.handle_request()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def wait(self, coroutine: Any, seconds: float) -> Any:
        """Awaits a coroutine in the event loop of this endpoint, and cancels it after that time."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="reverie-systems-loop", daemon=True).start()
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(seconds)
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise _TimedOut from None

    def answer(self, asked: _AskedSystem, request: dict[str, Any]) -> tuple[int, dict[str, Any], float | None]:
        """Asks a system. Returns the status, the body, and how long to wait before another call."""
        system, code = asked.system, _code()
        named = {"function": system.title, "file": asked.file}
        if not asked.slots.acquire(timeout=system.timeout_seconds):
            return 503, _refusal({**named, "message": "it is busy with earlier questions", "passes": True}), None
        try:
            reply = self._context.copy().run(asked.call, request, self)
            # As text here, so that what JSON cannot hold is a failure of the system.
            json.dumps(reply, default=_plain, allow_nan=False)
            return 200, {"reply": reply}, None
        except _TimedOut:
            return 503, _refusal({**named, "message": f"no reply within {system.timeout_seconds:g} s"}), None
        except code["UnusableReply"] as error:
            return 400, _refusal({**named, "message": str(error)}), None
        except Exception as error:
            refusal = code["refusal_of"](error)
            status = refusal["status"] if refusal["status"] == 429 or (refusal["status"] or 0) >= 500 else 400
            failed = {**_failure_row(system.target, error, (__file__, _CODE_NAME)), **named, "passes": status >= 500}
            return status, _refusal(failed), refusal["retry_after"]
        finally:
            asked.slots.release()


class _AskedSystem:
    """A system at an endpoint."""

    def __init__(self, system: LiveSystem) -> None:
        self.system, self.target = system, system.asked()
        self.file = _file(system.target)
        # A call that took too long goes on, and the next one waits for it.
        self.slots = threading.BoundedSemaphore(system.concurrency)

    def call(self, request: dict[str, Any], server: _SystemServer) -> Any:
        code, target, seconds = _code(), self.target, self.system.timeout_seconds
        if target.is_async:
            return server.wait(code["call_system_async"](target, request), seconds)
        positional, named = target.arguments(request)
        value = target.call(*positional, **named)
        if hasattr(value, "__await__") or hasattr(value, "__aiter__"):
            return server.wait(code["reply_of_async"](value), seconds)
        return code["reply_of"](value)


class _TimedOut(Exception):
    """A call took too long."""


class _SystemHandler(_Handler):
    server: Any

    def do_GET(self) -> None:
        self._reply(404, {"error": {"message": "there is nothing at this address"}}, None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = self.server.models.asked.get(self.path)
        if asked is None:
            self.do_GET()
            return
        self._reply(*self.server.models.answer(asked, json.loads(body)))


def _refusal(failed: dict[str, Any]) -> dict[str, Any]:
    """What the endpoint says of a system that failed."""
    return {"error": {"message": f"the system `{failed['function']}`: {failed['message']}", "function_failed": failed}}


def _plain(value: Any) -> Any:
    """Numbers and arrays of other packages as plain ones."""
    for method in ("tolist", "item", "__float__"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"{_describe(value)} cannot be written as JSON")
