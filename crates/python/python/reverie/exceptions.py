"""What Reverie raises, and what a call raises to say whether another attempt is worthwhile.

The names of the latter are those of `phoenix.evals`, so that code which raises them needs no change but the import.
An executor treats Phoenix's own classes in the same way: it knows them by name and module, and does not import Phoenix.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reverie.golden import Questions
    from reverie.judges import Judgement
    from reverie.results import Results
    from reverie.scores import Scores
    from reverie.tables import Table


class FunctionError(RuntimeError):
    """A function of the user's own failed: a metric, a chunker, a retriever, a reranker, a generator, or one that stands
    for a model: a judge, or a writer of questions.

    Its text has Python's traceback of the function.
    """

    results: Results | Scores | Questions | Judgement | None = None
    """What there is all the same: the results of a run, the scores of `reverie.evaluate`, the questions of
    `golden.generate`, or what `reverie.explain` found."""
    failures: list[dict[str, Any]] = []
    """The failures: stage, function, file, kind, message and traceback of each."""

    @classmethod
    def _of(cls, text: str, failures: list[dict[str, Any]]) -> FunctionError:
        traceback = failures[0].get("traceback") if failures else None
        error = cls(f"{text}\n{traceback}" if traceback else text)
        error.failures = failures
        return error


class GenerationError(RuntimeError):
    """`golden.generate` gave no question. Its text says how many drafts were written, and why they were rejected."""

    rejected: Table
    """What was rejected, a row each, as `Questions.rejected`."""
    counts: dict[str, int]
    """How often each reason led to a rejection."""
    attempts: int
    """How many drafts were asked for."""
    written: int
    """How many were written."""
    failures: list[dict[str, Any]]
    """The failures of a function that was to write, as `Questions.failures` has them."""

    @classmethod
    def _of(cls, text: str, summary: dict[str, Any]) -> GenerationError:
        from reverie.golden import _failure_table, _rejection_table

        error = cls(text)
        error.rejected, error.counts = _rejection_table(summary["rejected"]), summary["counts"]
        error.attempts, error.written = summary["attempts"], summary["written"]
        error.failures = _failure_table(summary["failures"]).rows()
        return error


class FunctionWarning(UserWarning):
    """A function of the user's own failed in a run that is otherwise complete."""


class ParseWarning(UserWarning):
    """Files of a corpus gave no document: how many, why, and what to do."""


class PhoenixException(Exception):
    """The same call would fail again, so it is not retried; `RateLimitError` aside."""


class RateLimitError(PhoenixException):
    """The provider asks for fewer calls. The call is retried, and the concurrency is lowered."""

    def __init__(
        self,
        message: str = "the other side asks for fewer calls",
        *,
        current_rate_tokens_per_sec: float | None = None,
        initial_rate_tokens_per_sec: float | None = None,
        enforcement_window_seconds: float | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """How many seconds the other side asks to wait, if it does. `limiter="adaptive"` keeps to it."""
        self.current_rate_tokens_per_sec = current_rate_tokens_per_sec
        self.initial_rate_tokens_per_sec = initial_rate_tokens_per_sec
        self.enforcement_window_seconds = enforcement_window_seconds


class UnavailableTokensError(PhoenixException):
    """The rate limiter has no tokens left for the call."""


class PhoenixContextLimitExceeded(PhoenixException):
    """The prompt is longer than the model can read."""


class PhoenixTemplateMappingError(PhoenixException):
    """The input lacks what the prompt template names."""


class PhoenixInvalidPromptTemplateError(PhoenixException):
    """The prompt template is not one that the evaluator can use."""


class PhoenixUnsupportedAudioFormat(PhoenixException):
    """The model does not take this kind of sound."""


class PhoenixUnsupportedImageFormat(PhoenixException):
    """The model does not take this kind of picture."""


@lru_cache(maxsize=512)
def _names(kind: type[BaseException]) -> frozenset[str]:
    """The names of those base classes that are Phoenix's or ours."""
    known = ("phoenix", "reverie")
    return frozenset(base.__name__ for base in kind.__mro__ if base.__module__.partition(".")[0] in known)


def is_rate_limit(error: BaseException) -> bool:
    """Whether the other side asked for fewer calls."""
    return "RateLimitError" in _names(type(error))  # type: ignore[arg-type]


def is_permanent(error: BaseException) -> bool:
    """Whether another attempt is not worthwhile."""
    names = _names(type(error))  # type: ignore[arg-type]
    return "PhoenixException" in names and "RateLimitError" not in names


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an exception of a client library has, itself or in its `response`; none without one."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            status = getattr(holder, name, None)
            if isinstance(status, int) and not isinstance(status, bool):
                return status
    return None


def is_refusal(error: BaseException) -> bool:
    """Whether the other side has no capacity now: a `RateLimitError`, or an error of a client library with the HTTP
    status 429, 503 or 529."""
    return is_rate_limit(error) or (not is_permanent(error) and status_of(error) in (429, 503, 529))


def retry_after(error: BaseException) -> float | None:
    """How many seconds the other side asks to wait: the exception's `retry_after`, or the header `Retry-After` of its
    response; none if it does not say, or says a date."""
    wish = getattr(error, "retry_after", None)
    if wish is None:
        headers: Any = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
        if hasattr(headers, "get"):
            wish = headers.get("retry-after") or headers.get("Retry-After")
    try:
        seconds = float(wish) if wish is not None else None
    except (TypeError, ValueError):
        return None
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None
