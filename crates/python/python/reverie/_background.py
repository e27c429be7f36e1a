"""Work in a thread that an event loop waits for, and asynchronous versions of functions that do such work.

A public function prepares its work, and ends with `carry_out`, which does the work and finishes it. `asynchronous` makes
the function's version for event loops: it calls the same function, but `carry_out` then only hands the work over, and the
work is done in a thread."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import re
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, cast

from reverie import _core

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W")

TICK_SECONDS = 0.2
"""How often the event loop wakes while it waits. A notebook's stop button cancels the task from a signal handler, which
wakes no loop: without a tick the cancellation would arrive with the work's end."""
END_SECONDS = 0.6
"""How long a cancelled `await` waits for the work's end. Calls of models that have begun go on in any case, two minutes
at most, and are kept."""


async def wait_in_ticks(future: asyncio.Future[T]) -> T:
    """Waits for a future in short steps, and leaves it alone where the wait is cancelled."""
    while not future.done():
        await asyncio.wait([future], timeout=TICK_SECONDS)
    return future.result()


async def run_in_thread(work: Callable[[_core.Stop], T]) -> T:
    """Does the work in a thread of its own, and stops it where the `await` is cancelled."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    stop = _core.Stop()

    def end(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        elif isinstance(error, KeyboardInterrupt):
            future.cancel()
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work(stop)
        except BaseException as raised:
            error = raised
        # If the loop is closed, nobody waits any more.
        if not loop.is_closed():
            loop.call_soon_threadsafe(end, result, error)

    context = contextvars.copy_context()
    # A thread that does not end must not keep the program from ending.
    threading.Thread(target=context.run, args=(run,), name="reverie", daemon=True).start()
    try:
        return await wait_in_ticks(future)
    except asyncio.CancelledError:
        stop.stop()
        # The thread goes on until calls that have begun are kept.
        await asyncio.wait([future], timeout=END_SECONDS)
        if future.done() and not future.cancelled():
            future.exception()  # Asked for, so that asyncio does not report it.
        raise


_handed_over: contextvars.ContextVar[list[tuple[Any, Any]] | None] = contextvars.ContextVar("_handed_over", default=None)
"""Where `carry_out` puts the work of an asynchronous version."""


def carry_out(work: Callable[[_core.Stop | None], W], finish: Callable[[W], T]) -> T:
    """Does the work of a public function, and finishes it in the caller's thread. Must be what the function returns."""
    calls = _handed_over.get()
    if calls is None:
        return finish(work(None))
    calls.append((work, finish))
    return cast(T, None)


def asynchronous(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The version of a function that does not block the event loop. `function` must end with `carry_out`."""

    @functools.wraps(function)
    async def call(*arguments: P.args, **named: P.kwargs) -> T:
        calls: list[tuple[Any, Any]] = []
        token = _handed_over.set(calls)
        try:
            function(*arguments, **named)
        finally:
            _handed_over.reset(token)
        ((work, finish),) = calls
        return _finish(finish, await run_in_thread(work))

    call.__name__, call.__qualname__ = f"a{function.__name__}", re.sub(r"(\w+)$", r"a\1", function.__qualname__)
    call.__doc__ = (
        f"The same as `{function.__name__}` without blocking the event loop.\n\nWhere the `await` is cancelled, calls of "
        "models that have begun are finished and kept, and nothing more is asked."
    )
    return call


def _finish(finish: Callable[[W], T], done: W) -> T:
    # A stack frame in the place of `carry_out`, so that warnings name the user's line here too.
    return finish(done)
