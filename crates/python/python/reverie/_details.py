"""What a run of an executor (`reverie.executors`) reports about each input."""

from __future__ import annotations

import time
from enum import Enum
from typing import Any


class Unset:
    """The output of an input that has none, unless another fallback was given."""

    def __repr__(self) -> str:
        return "<unset>"


unset = Unset()


class ExecutionStatus(Enum):
    """How it went with one input."""

    DID_NOT_RUN = "DID NOT RUN"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_RETRIES = "COMPLETED WITH RETRIES"
    FAILED = "FAILED"


class ExecutionDetails:
    """What happened to one input: the exceptions of its attempts in order, its status, and the time spent on it."""

    def __init__(self) -> None:
        self.exceptions: list[Exception] = []
        self.status = ExecutionStatus.DID_NOT_RUN
        self.execution_seconds: float = 0.0

    def fail(self) -> None:
        self.status = ExecutionStatus.FAILED

    def complete(self) -> None:
        retried = bool(self.exceptions)
        self.status = ExecutionStatus.COMPLETED_WITH_RETRIES if retried else ExecutionStatus.COMPLETED

    def log_exception(self, exc: Exception) -> None:
        self.exceptions.append(exc)

    def log_runtime(self, start_time: float) -> None:
        """Adds the time since `start_time`, a reading of `time.time()`."""
        self.execution_seconds += time.time() - start_time

    def __repr__(self) -> str:
        return f"ExecutionDetails({self.status.value}, {self.execution_seconds:.3f} s, exceptions={self.exceptions!r})"


# In the order of the scheduler's numbers.
_STATUSES = list(ExecutionStatus)


def details_of(status: int, seconds: float, exceptions: list[Any]) -> ExecutionDetails:
    # Without `__init__`, whose values would only be overwritten: there is one for every input.
    details = ExecutionDetails.__new__(ExecutionDetails)
    details.status, details.execution_seconds, details.exceptions = _STATUSES[status], seconds, exceptions
    return details
