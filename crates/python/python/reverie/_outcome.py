"""How a run or an evaluation shows its progress, and how it reports functions that failed."""

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
Outcome = TypeVar("Outcome", "Results", "Scores", "Questions", "Judgement")


FINISH_STACKLEVEL = 5
"""Skips the function that warns, the `finish` that the public function gave to `_background.carry_out`, `carry_out`
itself, and the function that the user called."""


def check_on_error(on_error: str) -> None:
    """Refuses other values of the parameter."""
    if on_error not in ("warn", "raise"):
        raise ValueError(f"on_error: `warn` or `raise`, not {on_error!r}")


def run_watched(watcher: Watcher | None, work: Callable[[], T]) -> T:
    """Does the work, in this thread, and ends the display of its progress."""
    finished = False
    try:
        result = work()
        finished = True
        return result
    finally:
        if watcher is not None:
            watcher.end(finished)


def report_failures(found: Outcome, failed: str | None, on_error: str) -> Outcome:
    """Warns of functions that failed, or raises. Called by the `finish` of `carry_out`: the warning names the user's line."""
    if failed is not None:
        failures = found.failures().rows()
        if on_error == "raise":
            error = FunctionError(failed)
            error.results, error.failures = found, failures
            raise error
        times = "once" if len(failures) == 1 else f"{len(failures)} times"
        text = f"functions of your own failed, {times}; `failures()` is a table of it\n{failed}"
        warnings.warn(text, FunctionWarning, stacklevel=FINISH_STACKLEVEL)
    return found
