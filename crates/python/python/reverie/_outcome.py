"""What a run of an experiment and an evaluation have in common: how they are watched, and how they end."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from reverie._live import Watcher
from reverie.exceptions import FunctionError, FunctionWarning

if TYPE_CHECKING:
    from reverie.golden import Questions
    from reverie.judges import Judgement
    from reverie.results import Results
    from reverie.scores import Scores

T = TypeVar("T")
Found = TypeVar("Found", "Results", "Scores", "Questions", "Judgement")


def check_on_error(on_error: str) -> None:
    """Whether the parameter has one of its values."""
    if on_error not in ("warn", "raise"):
        raise ValueError(f"on_error: `warn` or `raise`, not {on_error!r}")


def watched(watching: Watcher | None, work: Callable[[], T]) -> T:
    """Does the work, in this thread, and tells who watches it that it is over."""
    finished = False
    try:
        result = work()
        finished = True
        return result
    finally:
        if watching is not None:
            watching.end(finished)


def tell_failures(found: Found, failed: str | None, on_error: str) -> Found:
    """Tells of functions that failed. Called by what the user calls: the warning names the user's line."""
    if failed is not None:
        failures = found.failures().rows()
        if on_error == "raise":
            error = FunctionError(failed)
            error.results, error.failures = found, failures
            raise error
        times = "once" if len(failures) == 1 else f"{len(failures)} times"
        text = f"functions of your own failed, {times}; `failures()` is a table of it\n{failed}"
        warnings.warn(text, FunctionWarning, stacklevel=3)
    return found
