"""Runs a coroutine to its end in an event loop of its own, which ends even if tasks or threads are left behind.

`asyncio.run` waits without limit for tasks that ignore their cancellation and for threads that never return.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

CLEANUP_SECONDS = 1.0
"""How long a task that was cancelled may take to clean up."""

_given_up: set[asyncio.Task[Any]] = set()


def give_up(task: asyncio.Task[Any] | None) -> None:
    """Keeps a task that ignores its cancellation until it ends: without a reference it could vanish midway."""
    if task is None:
        return
    if not task.done():
        _given_up.add(task)
        task.add_done_callback(_given_up.discard)
    elif not task.cancelled():
        task.exception()  # Asked for, so that asyncio does not report it a second time.


def loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def loops_are_nested() -> bool:
    """Whether `nest_asyncio` lets a loop run inside of another one."""
    return bool(getattr(asyncio, "_nest_patched", False))


def run_to_end(main: Coroutine[Any, Any, T], threads_return: Callable[[], bool]) -> T:
    """Runs the coroutine. Its threads are waited for only if `threads_return` says that they will end."""
    if loop_is_running():
        if loops_are_nested():
            return asyncio.run(main)
        main.close()
        raise RuntimeError(
            "an event loop is running in this thread: `await executor.execute(inputs)` instead of calling `run`, "
            "or call `nest_asyncio.apply()` first"
        )
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        try:
            tidy = _end_tasks(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            if tidy and threads_return():
                loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancels what still runs. Says whether all of it ended."""
    tasks = asyncio.all_tasks(loop)
    if not tasks:
        return True
    for task in tasks:
        task.cancel()
    _, stuck = loop.run_until_complete(asyncio.wait(tasks, timeout=CLEANUP_SECONDS))
    for task in stuck:
        # The loop closes, so these will never end.
        _given_up.discard(task)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    return not stuck
