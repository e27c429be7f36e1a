"""Work in a thread that an event loop waits for, and that ends with the wait."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

from reverie import _core

T = TypeVar("T")

TICK_SECONDS = 0.2
"""How often the event loop wakes while it waits. A notebook's stop button cancels the task from a signal handler, which
wakes no loop: without a tick the cancellation would arrive with the work's end."""
END_SECONDS = 0.6
"""How long a cancelled `await` waits for the work's end. Calls of models that have begun go on in any case, two minutes
at most, and are kept."""


async def ticking(future: asyncio.Future[T]) -> T:
    """Waits for a future in short steps, and leaves it alone where the wait is cancelled."""
    while not future.done():
        await asyncio.wait([future], timeout=TICK_SECONDS)
    return future.result()


async def aside(work: Callable[[_core.Stop], T]) -> T:
    """Does the work in a thread of its own, which is told to stop where the `await` is cancelled."""
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
        return await ticking(future)
    except asyncio.CancelledError:
        stop.stop()
        # The thread goes on until calls that have begun are kept.
        await asyncio.wait([future], timeout=END_SECONDS)
        if future.done() and not future.cancelled():
            future.exception()  # Asked for, so that asyncio does not report it.
        raise
