"""Many calls at once, with retries, time limits and adaptive concurrency.

Takes the place of `phoenix.evals.executors` (arize-phoenix-evals 3.9): names, signatures, defaults and what is
documented there are the same, so that code and tests written for it run with the import changed. What differs:

- A result is followed by the next call at once. There, inputs are handed out in batches, a second apart, and a run
  ends up to a second after its last result.
- A task that ignores its cancellation is given up after a second. There, it holds the run.
- A run always ends. There, it waits for ever if an input fails on a worker that a collapse has made inactive, and all
  other workers have ended.
- A second SIGINT stops at once, without waiting for what is being cancelled, and overlapping runs share one handler.
- The target of `ConcurrencyController` never leaves the range from 1 to the maximum. There, it drifts away from it.
- Inputs may be any iterable; without a length, the outputs are as many as there were inputs.
- Messages go to the standard error stream, and tqdm is imported only when there is a bar to show.

Attempts of one worker run in the same asyncio task, one after another, each in its own copy of the context variables.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence, Sized
from typing import Any, Literal, Protocol

from reverie._asynchronous import Run
from reverie._core import Adaptive, Aimd
from reverie._details import ExecutionDetails, ExecutionStatus, Unset, details_of
from reverie._details import unset as _unset
from reverie._interrupts import interrupts
from reverie._loop import loop_is_running, loops_are_nested, run_to_end
from reverie._progress import progress_bar, say
from reverie.exceptions import PhoenixException, RateLimitError, is_permanent

__all__ = [
    "AsyncExecutor",
    "ConcurrencyController",
    "ExecutionDetails",
    "ExecutionStatus",
    "Executor",
    "PhoenixException",
    "RateLimitError",
    "SyncExecutor",
    "Unset",
    "get_executor_on_sync_context",
]

logger = logging.getLogger(__name__)


class Executor(Protocol):
    """Whatever runs all inputs and returns outputs and details in their order."""

    def run(self, inputs: Sequence[Any]) -> tuple[list[Any], list[ExecutionDetails]]: ...


class ConcurrencyController:
    """Raises the concurrency step by step while all goes well, and halves it when it does not (AIMD).

    A window of `window_seconds` without timeouts and rate limits adds `increase_step` to the target, any other window
    multiplies it by `decrease_ratio`; `collapse_error_threshold` rate limits within `collapse_window_seconds` set it
    to 1 immediately. The target stays from 1 to `max_concurrency`. A window is judged at the first outcome after its end.

    With steps of a and a ratio of b, and a share r of windows with trouble, it settles at about
    a * (1 - r) / ((1 - b) * r).
    """

    def __init__(
        self,
        *,
        max_concurrency: int,
        initial_target: float,
        window_seconds: float = 5,
        increase_step: float = 0.5,
        decrease_ratio: float = 0.5,
        inactive_check_interval: float = 1.0,
        smoothing_factor: float = 0.2,
        collapse_window_seconds: float = 15.0,
        collapse_error_threshold: int = 2,
    ) -> None:
        self._windows = Aimd(
            max(1, int(max_concurrency)),
            float(initial_target),
            float(window_seconds),
            float(increase_step),
            float(decrease_ratio),
            float(smoothing_factor),
            float(collapse_window_seconds),
            max(1, int(collapse_error_threshold)),
        )
        self.inactive_check_interval = max(0.1, float(inactive_check_interval))
        """Only controllers that take the place of this one are asked at this interval."""

    @property
    def target_concurrency(self) -> int:
        """How many attempts may run now."""
        return self._windows.limit

    @property
    def _target_concurrency(self) -> float:
        return self._windows.target

    @_target_concurrency.setter
    def _target_concurrency(self, target: float) -> None:
        self._windows.set_target(float(target))

    @property
    def _smoothed_latency_seconds(self) -> float | None:
        return self._windows.smoothed_latency

    def record_success(self, latency_seconds: float) -> None:
        self._windows.record_success(latency_seconds)

    def record_timeout(self) -> None:
        self._windows.record_timeout()

    def record_error(self) -> None:
        self._windows.record_error()


_OWN_METHODS = {
    name: vars(ConcurrencyController)[name]
    for name in ("target_concurrency", "record_success", "record_timeout", "record_error")
}


def _unwrap_controller(controller: Any) -> Any:
    """The rule inside of our own controller, unless somebody changed what the controller does."""
    if isinstance(controller, ConcurrencyController) and all(
        getattr(type(controller), name) is method and name not in vars(controller)
        for name, method in _OWN_METHODS.items()
    ):
        return controller._windows
    return controller


class AsyncExecutor(Executor):
    """Runs a coroutine function over inputs, `concurrency` at a time. `execute` is awaited; `run` is not.

    Args:
        generation_fn: Called with each input; gives an awaitable.
        concurrency: The most attempts at once.
        tqdm_bar_format: The format of the progress bar; without one there is no bar.
        max_retries: How many attempts may follow a failed first one. An exception may say that another attempt is not
            worthwhile: see `reverie.exceptions`.
        exit_on_error: Whether the first input that fails for good ends the run, which then returns what it has.
        fallback_return_value: The output of an input that has none.
        termination_signal: Ends the run, which then returns what it has. `None`: no signal does.
        timeout: Seconds for each attempt; 60 by default.
        enable_dynamic_concurrency: Whether a `ConcurrencyController` lowers the concurrency when there is trouble;
            the arguments that follow are its own. It is the attribute `_concurrency_controller`, and any object with
            `target_concurrency`, `inactive_check_interval`, `record_success`, `record_timeout` and `record_error`
            may take its place, at any time.
        limiter: How the number of attempts at once is found. `phoenix`: by the controller above. `adaptive`: as Reverie
            does when it calls models. The limit of the other side is learned, on calls at once and on calls a minute:
            from a few, it grows with every result until calls are refused, and settles just below; `concurrency` is only
            the most (256 is a good one). A refused attempt (a `RateLimitError`, or an exception of a client library with
            the HTTP status 429, 503 or 529) does not count for `max_retries`: it is made again, after the wait
            that the other side asks for (`retry_after` of the exception, or `Retry-After` of its response), as long as
            other calls get through; it fails when none has for five minutes. What was learned is kept for the next run
            of this executor. The arguments of the controller mean nothing then.
    """

    def __init__(
        self,
        generation_fn: Callable[[Any], Coroutine[Any, Any, Any]],
        concurrency: int = 3,
        tqdm_bar_format: str | None = None,
        max_retries: int = 10,
        exit_on_error: bool = True,
        fallback_return_value: Unset | Any = _unset,
        termination_signal: signal.Signals | None = signal.SIGINT,
        timeout: int | None = None,
        *,
        enable_dynamic_concurrency: bool = True,
        dynamic_initial_target: int | None = None,
        dynamic_window_seconds: float = 5.0,
        dynamic_increase_step: int = 1,
        dynamic_decrease_ratio: float = 0.5,
        dynamic_inactive_check_interval: float = 1.0,
        limiter: Literal["phoenix", "adaptive"] = "phoenix",
    ):
        self.generate = generation_fn
        self.fallback_return_value = fallback_return_value
        self.concurrency = concurrency
        self.tqdm_bar_format = tqdm_bar_format
        self.max_retries = max_retries
        self.exit_on_error = exit_on_error
        self.base_priority = 0
        self.termination_signal = termination_signal
        self.timeout = timeout or 60
        self._runs: list[Run] = []
        self._threads_return = True
        self._controller: Any = None
        if limiter not in ("phoenix", "adaptive"):
            raise ValueError(f"limiter: `phoenix` or `adaptive`, not {limiter!r}")
        if limiter == "adaptive":
            self._controller = Adaptive(max(1, int(concurrency)))
        elif enable_dynamic_concurrency:
            self._controller = ConcurrencyController(
                max_concurrency=concurrency,
                initial_target=dynamic_initial_target or concurrency,
                window_seconds=dynamic_window_seconds,
                increase_step=dynamic_increase_step,
                decrease_ratio=dynamic_decrease_ratio,
                inactive_check_interval=dynamic_inactive_check_interval,
                collapse_window_seconds=30.0,
            )

    @property
    def _concurrency_controller(self) -> Any:
        return self._controller

    @_concurrency_controller.setter
    def _concurrency_controller(self, controller: Any) -> None:
        self._controller = controller
        for run in self._runs:
            self._instruct(run)

    def _instruct(self, run: Run) -> None:
        source = _unwrap_controller(self._controller)
        foreign = source is not None and not isinstance(source, (Aimd, Adaptive))
        interval = max(0.01, float(getattr(source, "inactive_check_interval", 1.0))) if foreign else None
        run.set_controller(source, interval)

    async def execute(self, inputs: Sequence[Any]) -> tuple[list[Any], list[ExecutionDetails]]:
        """Outputs and details, in the order of the inputs."""
        run = Run(
            self.generate,
            inputs,
            concurrency=self.concurrency,
            max_retries=self.max_retries,
            exit_on_error=self.exit_on_error,
            timeout=self.timeout,
            fallback=self.fallback_return_value,
            bar_format=self.tqdm_bar_format,
        )
        self._instruct(run)
        self._runs.append(run)
        try:
            with interrupts(self.termination_signal, run.on_signal):
                await run.finish()
        finally:
            self._runs.remove(run)
            self._threads_return = not run.cut_off
        return run.outputs, [details_of(*record) for record in run.records()]

    def run(self, inputs: Sequence[Any]) -> tuple[list[Any], list[ExecutionDetails]]:
        """`execute`, in an event loop of its own."""
        return run_to_end(self.execute(inputs), lambda: self._threads_return)


class _StopNow(KeyboardInterrupt):
    """A second signal."""


class SyncExecutor(Executor):
    """Runs a function over inputs, one after another, with the retries of `AsyncExecutor`.

    Args:
        generation_fn: Called with each input; gives its output.
        tqdm_bar_format: The format of the progress bar; without one there is no bar.
        max_retries: How many attempts may follow a failed first one, each without a wait.
        exit_on_error: Whether the first input that fails for good ends the run, which then returns what it has.
        fallback_return_value: The output of an input that has none.
        termination_signal: Ends the run after the call that is running, and at once when it comes again.
    """

    def __init__(
        self,
        generation_fn: Callable[[Any], Any],
        tqdm_bar_format: str | None = None,
        max_retries: int = 10,
        exit_on_error: bool = True,
        fallback_return_value: Unset | Any = _unset,
        termination_signal: signal.Signals | None = signal.SIGINT,
    ):
        self.generate = generation_fn
        self.fallback_return_value = fallback_return_value
        self.tqdm_bar_format = tqdm_bar_format
        self.max_retries = max_retries
        self.exit_on_error = exit_on_error
        self.termination_signal = termination_signal
        self._terminate = False

    def _on_signal(self, count: int) -> None:
        self._terminate = True
        if count > 1:
            raise _StopNow

    def run(self, inputs: Iterable[Any]) -> tuple[list[Any], list[ExecutionDetails]]:
        """Outputs and details, in the order of the inputs."""
        length = len(inputs) if isinstance(inputs, Sized) else None
        outputs: list[Any] = [self.fallback_return_value] * (length or 0)
        details = [ExecutionDetails() for _ in range(length or 0)]
        bar = progress_bar(length, self.tqdm_bar_format)
        self._terminate = False
        try:
            with interrupts(self.termination_signal, self._on_signal):
                for index, value in enumerate(inputs):
                    if index >= len(outputs):
                        outputs.append(self.fallback_return_value)
                        details.append(ExecutionDetails())
                    if not self._record(index, value, outputs, details[index]):
                        break
                    if bar is not None:
                        bar.update()
        except _StopNow:
            pass
        finally:
            if bar is not None:
                bar.close()
        return outputs, details

    def _record(self, index: int, value: Any, outputs: list[Any], details: ExecutionDetails) -> bool:
        """Makes the attempts at one input. Says whether the run goes on."""
        started = time.time()
        try:
            for attempt in range(1, max(0, self.max_retries) + 2):
                if self._terminate:
                    return False
                try:
                    outputs[index] = self.generate(value)
                except Exception as error:
                    details.log_exception(error)
                    if attempt <= self.max_retries and not is_permanent(error):
                        say(f"Input {index}: attempt {attempt} failed and will be repeated: {error!r}")
                        continue
                    details.fail()
                    say(f"Input {index}: no result after {attempt} attempts: {error!r}")
                    return not self.exit_on_error
                details.complete()
                return True
            return True
        finally:
            details.log_runtime(started)


def get_executor_on_sync_context(
    sync_fn: Callable[[Any], Any],
    async_fn: Callable[[Any], Coroutine[Any, Any, Any]],
    run_sync: bool = False,
    concurrency: int = 3,
    tqdm_bar_format: str | None = None,
    max_retries: int = 10,
    exit_on_error: bool = True,
    fallback_return_value: Unset | Any = _unset,
    timeout: int | None = None,
    *,
    limiter: Literal["phoenix", "adaptive"] = "phoenix",
) -> Executor:
    """The executor whose `run` works where this is called: in a script, a thread, or a notebook."""

    def one_by_one(**options: Any) -> SyncExecutor:
        return SyncExecutor(sync_fn, tqdm_bar_format, max_retries, exit_on_error, fallback_return_value, **options)

    if threading.current_thread() is not threading.main_thread():
        if not run_sync:
            logger.warning("Outside of the main thread, calls are made one after another.")
        return one_by_one(termination_signal=None)
    if run_sync:
        return one_by_one()
    if loop_is_running() and not loops_are_nested():
        logger.warning(
            "An event loop is running, as in a notebook, so calls are made one after another. "
            "`nest_asyncio.apply()` lets them run at once, which is much faster."
        )
        return one_by_one()
    return AsyncExecutor(
        async_fn,
        concurrency=concurrency,
        tqdm_bar_format=tqdm_bar_format,
        max_retries=max_retries,
        exit_on_error=exit_on_error,
        fallback_return_value=fallback_return_value,
        timeout=timeout,
        limiter=limiter,
    )
