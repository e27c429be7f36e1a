"""Passes signals to the runs, and puts the earlier handler back.

Runs may overlap, so there is one handler per signal for all of them. It is installed for the first run and removed
after the last one; a run that ends early neither silences the others nor leaves its own handler behind.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from reverie._progress import say


class _Watch:
    def __init__(self) -> None:
        self.listeners: list[Callable[[int], None]] = []
        self.previous: Any = None
        self.received = 0


_watches: dict[int, _Watch] = {}


def _handle(signum: int, frame: Any) -> None:
    watch = _watches.get(signum)
    if watch is None:
        return
    watch.received += 1
    if watch.received == 1:
        with suppress(RuntimeError):  # The signal came while something else was being written.
            say("Interrupted: what is running is cancelled, and what is done will be returned. Again: stop at once.")
    elif watch.received > 2:
        # Something blocks, so nobody could react to the second signal.
        raise KeyboardInterrupt
    for listener in list(watch.listeners):
        listener(watch.received)


@contextmanager
def interrupts(signum: int | None, listener: Callable[[int], None]) -> Iterator[None]:
    """Calls `listener` with 1 at the first such signal and with 2 at the second one, from the signal handler.

    Does nothing without a signal, or outside of the main thread, where no handler can be installed.
    """
    if signum is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    number = int(signum)
    watch = _watches.get(number)
    if watch is None:
        watch = _watches[number] = _Watch()
        watch.previous = signal.signal(number, _handle)
    watch.listeners.append(listener)
    try:
        yield
    finally:
        watch.listeners.remove(listener)
        if not watch.listeners:
            del _watches[number]
            if signal.getsignal(number) is _handle:
                signal.signal(number, signal.SIG_DFL if watch.previous is None else watch.previous)
