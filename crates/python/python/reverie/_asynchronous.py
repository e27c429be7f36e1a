"""Drives one run of an `AsyncExecutor` in the caller's event loop. The asynchronous versions of other functions
(`_background.asynchronous`) do not use it.

The scheduler (`reverie._core`) decides; this module starts and cancels the tasks that the scheduler asks for. A worker
is an asyncio task that makes one attempt after another. The module acts only on events: an attempt ends, the earliest
deadline passes, a signal arrives. The one exception is a concurrency controller of the user: it cannot report that its
target changed, so it is asked again after its own `inactive_check_interval`, as long as something waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sized
from typing import Any

from reverie._core import Adaptive, Scheduler
from reverie._loop import CLEANUP_SECONDS, give_up
from reverie._progress import progress_bar, say
from reverie.exceptions import is_permanent, is_rate_limit, is_refusal, retry_after


class Run:
    def __init__(
        self,
        generate: Callable[[Any], Any],
        inputs: Iterable[Any],
        *,
        concurrency: int,
        max_retries: int,
        exit_on_error: bool,
        timeout: float,
        fallback: Any,
        bar_format: str | None,
    ) -> None:
        length = len(inputs) if isinstance(inputs, Sized) else None
        self.outputs: list[Any] = [fallback] * (length or 0)
        self.cut_off = False
        """Whether an attempt was cancelled, so that a thread that it started may still be busy."""
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._exit_on_error = exit_on_error
        self._timeout = timeout
        self._tasks: dict[int, asyncio.Task[None] | None] = {}
        self._graces: dict[int, asyncio.TimerHandle] = {}
        self._deadline: asyncio.TimerHandle | None = None
        self._recheck: asyncio.TimerHandle | None = None
        self._start: asyncio.TimerHandle | None = None
        self._refused: Callable[[BaseException], bool] = is_rate_limit
        self._recheck_seconds: float | None = None
        self._scheduler = Scheduler(
            generate,
            iter(inputs),
            length=length,
            outputs=self.outputs,
            fallback=fallback,
            concurrency=max(1, int(concurrency)),
            max_retries=int(max_retries),
            timeout=float(timeout),
            on_room=self._fill,
        )
        self._bar = progress_bar(length, bar_format)

    def set_controller(self, controller: Any, recheck_seconds: float | None) -> None:
        """Sets the controller that decides how many attempts may run, and how often it is asked."""
        self._scheduler.set_controller(controller)
        self._refused = is_refusal if isinstance(controller, Adaptive) else is_rate_limit
        self._recheck_seconds = recheck_seconds
        if self._deadline is not None:
            self._fill()

    async def finish(self) -> None:
        """Returns when every input is done, or the run was stopped."""
        try:
            self._watch()
            self._fill()
            self._end_if_finished()
            await self._done
        except BaseException:
            self.stop()
            if tasks := [task for task in self._tasks.values() if task is not None]:
                await asyncio.wait(tasks, timeout=CLEANUP_SECONDS)
            raise
        finally:
            for timer in (self._deadline, self._recheck, self._start, *self._graces.values()):
                if timer is not None:
                    timer.cancel()
            for task in self._tasks.values():
                give_up(task)
            if self._done.done() and not self._done.cancelled():
                self._done.exception()  # So that asyncio does not report it.
            if self._bar is not None:
                self._bar.close()

    def records(self) -> list[tuple[int, float, list[BaseException]]]:
        return self._scheduler.records()

    def on_signal(self, count: int) -> None:
        """May be called at any time, also from a signal handler."""
        self._loop.call_soon_threadsafe(self._guard, self._interrupted, count)

    def _interrupted(self, count: int) -> None:
        self.stop()
        if count > 1:
            for worker in list(self._tasks):
                self._abandon(worker)

    def stop(self) -> None:
        """Begins nothing more, and cancels what is running."""
        for worker in self._scheduler.stop():
            self._cut(worker)
        self._end_if_finished()

    # Workers.

    def _fill(self) -> None:
        """Starts as many workers as there is room for."""
        while (worker := self._scheduler.hire()) is not None:
            # With an eager task factory, the worker may have left before its task is known.
            self._tasks[worker] = None
            task = self._loop.create_task(self._work(worker))
            if worker in self._tasks:
                self._tasks[worker] = task
        if self._recheck_seconds is not None and self._recheck is None and self._scheduler.wanting():
            self._recheck = self._loop.call_later(self._recheck_seconds, self._guard, self._ask_again)
        if (seconds := self._scheduler.next_start()) is not None:
            at = self._loop.time() + max(seconds, 0.001)
            if self._start is None or at < self._start.when():
                if self._start is not None:
                    self._start.cancel()
                self._start = self._loop.call_at(at, self._guard, self._start_waiting)

    def _start_waiting(self) -> None:
        """Some task has rested for long enough, or the limit lets calls start again."""
        self._start = None
        self._fill()
        self._end_if_finished()

    def _ask_again(self) -> None:
        self._recheck = None
        self._fill()

    async def _work(self, worker: int) -> None:
        take, bar = self._scheduler.take, self._bar
        try:
            while (attempt := take(worker)) is not None:
                error: BaseException | None = None
                try:
                    kept = await attempt
                except (Exception, asyncio.CancelledError) as failure:
                    error = failure
                else:
                    if kept is None:
                        if bar is not None:
                            bar.update()
                        continue
                goes_on = self._ended(worker, error)
                error = None
                if not goes_on:
                    break
            self._leave(worker)
        except GeneratorExit:
            raise
        except BaseException as crash:
            self._crash(crash)
            if isinstance(crash, (KeyboardInterrupt, SystemExit)):
                raise

    def _ended(self, worker: int, error: BaseException | None) -> bool:
        """Handles an attempt that ended without a wanted result. Returns whether its worker continues.

        The worker does not continue after a cancellation: asyncio does not tell whether the cancellation is over.
        """
        state = self._scheduler.attempt_state(worker)
        if state == "timed out":
            self._time_out(worker)
        if state != "running" or error is None:
            return False
        refused = self._refused(error)
        wish = retry_after(error) if refused else None
        verdict = self._scheduler.failed(worker, error, not is_permanent(error), refused, wish)
        # A learned limit expects refusals, so they are not reported.
        if not (refused and verdict is not None and verdict[2] and self._refused is is_refusal):
            self._handle_verdict(verdict, error)
        return not isinstance(error, asyncio.CancelledError)

    def _time_out(self, worker: int) -> None:
        error = TimeoutError(f"no result within {self._timeout:g} s")
        self._handle_verdict(self._scheduler.timed_out(worker, error), error)

    def _handle_verdict(self, verdict: tuple[int, int, bool] | None, error: BaseException) -> None:
        if verdict is None:
            return
        index, attempts, again = verdict
        if again:
            say(f"Input {index}: attempt {attempts} failed and will be repeated: {error!r}")
            return
        say(f"Input {index}: no result after {attempts} attempts: {error!r}")
        if self._exit_on_error:
            self.stop()
        elif self._bar is not None:
            self._bar.update()

    def _leave(self, worker: int) -> None:
        if worker not in self._tasks:
            return
        del self._tasks[worker]
        if (grace := self._graces.pop(worker, None)) is not None:
            grace.cancel()
        self._scheduler.let_go(worker)
        self._fill()
        self._end_if_finished()

    def _end_if_finished(self) -> None:
        if self._scheduler.finished() and not self._done.done():
            self._done.set_result(None)

    # Attempts that end early.

    def _watch(self) -> None:
        """Cuts the attempts that are overdue, and runs again at the next deadline."""
        for worker in self._scheduler.cut_overdue():
            self._cut(worker)
        seconds = max(self._scheduler.next_deadline(), 0.001)
        self._deadline = self._loop.call_later(seconds, self._guard, self._watch)

    def _cut(self, worker: int) -> None:
        self.cut_off = True
        if (task := self._tasks.get(worker)) is not None:
            task.cancel()
        if worker not in self._graces:
            self._graces[worker] = self._loop.call_later(CLEANUP_SECONDS, self._guard, self._abandon, worker)

    def _abandon(self, worker: int) -> None:
        """Continues without waiting for an attempt that ignores its cancellation."""
        if worker not in self._tasks:
            return
        give_up(self._tasks[worker])
        if self._scheduler.attempt_state(worker) == "timed out":
            self._time_out(worker)
        self._leave(worker)

    def _guard(self, callback: Callable[..., None], *arguments: Any) -> None:
        """An event loop only logs what a callback raises, and the run would wait for ever."""
        try:
            callback(*arguments)
        except BaseException as error:
            self._crash(error)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise

    def _crash(self, error: BaseException) -> None:
        """Ends the run with an error that does not come from an attempt."""
        if isinstance(error, StopIteration):
            cause, error = error, RuntimeError("StopIteration was raised where nothing iterates")
            error.__cause__ = cause
        if not self._done.done():
            self._done.set_exception(error)
