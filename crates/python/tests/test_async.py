"""`AsyncExecutor`: what it does with results, failures, timeouts and tasks that misbehave."""

import asyncio
import random
import threading

import pytest

import reverie
from reverie.exceptions import PhoenixException, RateLimitError
from reverie.executors import AsyncExecutor, ExecutionStatus, Unset

DID_NOT_RUN, COMPLETED, COMPLETED_WITH_RETRIES, FAILED = ExecutionStatus


def statuses(details):
    return [detail.status for detail in details]


def counts(details):
    return [len(detail.exceptions) for detail in details]


class Attempts:
    """Counts attempts by input, and raises what it is told to."""

    def __init__(self, failures):
        self.failures = failures
        self.made = []

    async def __call__(self, value):
        self.made.append(value)
        await asyncio.sleep(0)
        wanted = self.failures.get(value, [])
        attempt = self.made.count(value)
        if attempt <= len(wanted):
            raise wanted[attempt - 1]
        return value * 10


def test_outputs_are_in_the_order_of_the_inputs_whatever_ends_first():
    async def slow_first(value):
        await asyncio.sleep((10 - value) / 500)
        return value

    outputs, details = AsyncExecutor(slow_first, concurrency=10).run(list(range(10)))
    assert outputs == list(range(10))
    assert statuses(details) == [COMPLETED] * 10
    assert all(isinstance(detail.execution_seconds, float) for detail in details)
    assert 0.018 < details[0].execution_seconds < 60


def test_no_more_run_at_once_than_the_concurrency_and_inputs_are_fetched_when_needed():
    running, most, fetched, ended, ahead = 0, 0, 0, 0, 0

    def inputs():
        nonlocal fetched, ahead
        for value in range(50):
            fetched += 1
            ahead = max(ahead, fetched - ended)
            yield value

    async def count(value):
        nonlocal running, most, ended
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        ended += 1

    outputs, details = AsyncExecutor(count, concurrency=4).run(inputs())
    assert (most, ahead) == (4, 4)
    assert outputs == [None] * 50 and statuses(details) == [COMPLETED] * 50


class ClockedLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own: where nothing is left to do, it goes to the next timer without waiting."""

    seconds = 0.0

    def time(self):
        return self.seconds

    def _run_once(self):
        if not self._ready and self._scheduled:
            self.seconds = max(self.seconds, self._scheduled[0].when())
        super()._run_once()


def test_nothing_waits_between_results_and_at_the_end():
    async def task(value):
        await asyncio.sleep(0.001)

    loop = ClockedLoop()
    try:
        _, details = loop.run_until_complete(AsyncExecutor(task, concurrency=3).execute(range(300)))
    finally:
        loop.close()
    assert statuses(details) == [COMPLETED] * 300
    # A third of a millisecond for each; in Phoenix it is 34 seconds.
    assert loop.seconds == pytest.approx(0.1)


@pytest.mark.parametrize("inputs", [[], (), iter([]), range(0)])
def test_without_inputs_there_are_no_outputs(inputs):
    async def task(value):
        raise AssertionError

    assert AsyncExecutor(task).run(inputs) == ([], [])


def test_the_mixed_run_of_the_reference():
    attempts = []

    async def task(kind):
        attempts.append(kind)
        if kind == "slow":
            await asyncio.sleep(3600)
        if kind != "ok":
            raise {"permanent": PhoenixException, "value": ValueError, "limited": RateLimitError}[kind](kind)
        return kind

    kinds = ["ok", "permanent", "value", "limited", "slow"]
    executor = AsyncExecutor(task, concurrency=5, max_retries=2, timeout=0.1, exit_on_error=False)
    outputs, details = executor.run(kinds)
    assert outputs[0] == "ok" and all(isinstance(output, Unset) for output in outputs[1:])
    assert [attempts.count(kind) for kind in kinds] == [1, 1, 3, 3, 3]
    assert counts(details) == [0, 1, 3, 3, 3]
    assert statuses(details) == [COMPLETED, FAILED, FAILED, FAILED, FAILED]
    assert all(type(error) is TimeoutError for error in details[4].exceptions)
    assert details[4].execution_seconds >= 0.3


def test_a_result_after_failures_is_completed_with_retries():
    errors = [ValueError("1"), RateLimitError("2"), asyncio.TimeoutError("3")]
    attempts = Attempts({2: errors})
    outputs, details = AsyncExecutor(attempts, concurrency=1).run([1, 2, 3])
    assert outputs == [10, 20, 30]
    assert statuses(details) == [COMPLETED, COMPLETED_WITH_RETRIES, COMPLETED]
    assert details[1].exceptions == errors
    assert attempts.made == [1, 2, 2, 2, 2, 3], "what failed goes before what is fresh"


@pytest.mark.parametrize("retries, attempts", [(0, 1), (3, 4), (10, 11)])
def test_an_input_has_one_attempt_more_than_retries(retries, attempts):
    task = Attempts({1: [ValueError()] * 99})
    _, details = AsyncExecutor(task, max_retries=retries).run([1])
    assert (len(task.made), counts(details), statuses(details)) == (attempts, [attempts], [FAILED])


def test_the_first_failure_for_good_ends_the_run_which_returns_what_it_has():
    task = Attempts({3: [PhoenixException()]})
    outputs, details = AsyncExecutor(task, concurrency=1, fallback_return_value=52).run([1, 2, 3, 4, 5])
    assert outputs == [10, 20, 52, 52, 52]
    assert statuses(details) == [COMPLETED, COMPLETED, FAILED, DID_NOT_RUN, DID_NOT_RUN]


def test_what_runs_beside_a_failure_for_good_is_cancelled_and_leaves_no_trace():
    cleaned = []

    async def task(value):
        if value == 0:
            await asyncio.sleep(0.01)
            raise PhoenixException
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(value)

    _, details = AsyncExecutor(task, concurrency=3).run(range(10))
    assert sorted(cleaned) == [1, 2]
    assert statuses(details) == [FAILED] + [DID_NOT_RUN] * 9
    assert counts(details) == [1] + [0] * 9


def test_a_task_that_ignores_its_cancellation_cannot_hold_the_run():
    held = []

    async def task(value):
        while value == 1 and not held:
            try:
                await asyncio.sleep(300)
                held.append(value)
            except asyncio.CancelledError:
                pass
        return value

    executor = AsyncExecutor(task, concurrency=2, timeout=0.1, max_retries=0, exit_on_error=False)
    outputs, details = executor.run([0, 1, 2, 3])
    assert held == [], "the run ended before the task"
    assert [outputs[index] for index in (0, 2, 3)] == [0, 2, 3]
    assert statuses(details) == [COMPLETED, FAILED, COMPLETED, COMPLETED]


def test_a_thread_that_never_returns_cannot_hold_the_run():
    release, returned = threading.Event(), threading.Event()

    def wait():
        release.wait(300)
        returned.set()

    async def task(value):
        await asyncio.to_thread(wait)

    _, details = AsyncExecutor(task, timeout=0.1, max_retries=0).run([1])
    assert not returned.is_set(), "the run ended before the thread"
    assert statuses(details) == [FAILED]
    release.set()


def test_a_result_that_comes_after_its_time_is_not_kept():
    async def task(value):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "late"

    outputs, details = AsyncExecutor(task, timeout=0.05, max_retries=0, fallback_return_value=None).run([1])
    assert outputs == [None] and statuses(details) == [FAILED]


def test_a_cancellation_that_nobody_asked_for_is_a_failure_like_any_other():
    calls = []

    async def task(value):
        calls.append(value)
        if len(calls) == 1:
            raise asyncio.CancelledError
        return value

    outputs, details = AsyncExecutor(task).run([1, 2, 3, 4])
    assert outputs == [1, 2, 3, 4]
    assert statuses(details) == [COMPLETED_WITH_RETRIES, COMPLETED, COMPLETED, COMPLETED]


def test_a_function_that_raises_at_once_or_gives_nothing_to_await_fails_like_a_task():
    def task(value):
        if value == 1:
            raise ValueError
        if value == 2:
            raise StopIteration
        return value

    _, details = AsyncExecutor(task, max_retries=1, exit_on_error=False).run([1, 2, 3])
    assert [[type(error) for error in detail.exceptions] for detail in details] == [
        [ValueError] * 2,
        [RuntimeError] * 2,
        [TypeError] * 2,
    ]


def test_any_awaitable_will_do():
    class Answer:
        def __init__(self, value):
            self.value = value

        def __await__(self):
            yield from asyncio.sleep(0.001).__await__()
            return self.value

    def task(value):
        return asyncio.ensure_future(asyncio.sleep(0.001, value)) if value % 2 else Answer(value)

    assert AsyncExecutor(task).run([1, 2, 3, 4])[0] == [1, 2, 3, 4]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, type("Own", (BaseException,), {})])
def test_what_is_no_exception_of_a_task_ends_the_run_with_it(error):
    async def task(value):
        await asyncio.sleep(0)
        if value == 2:
            raise error
        await asyncio.sleep(30)

    with pytest.raises(error):
        AsyncExecutor(task, concurrency=5).run(range(9))


def test_an_error_of_the_inputs_is_raised_and_what_runs_is_cancelled():
    cancelled = []

    def inputs():
        yield 1
        raise OSError("the file ended")

    async def task(value):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(value)
            raise

    with pytest.raises(OSError, match="the file ended"):
        AsyncExecutor(task, concurrency=2).run(inputs())
    assert cancelled == [1]


@pytest.mark.parametrize("seed", range(3))
def test_hundreds_of_tasks_that_fail_hang_and_cancel_themselves_all_end_with_their_result(seed):
    chance = random.Random(seed)
    running = most = 0

    async def task(value):
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            draw = chance.random()
            await asyncio.sleep(chance.choice([0, 0, 0.0005]))
            if draw < 0.1:
                raise chance.choice([ValueError, RateLimitError, asyncio.CancelledError, OSError])
            if draw < 0.12:
                await asyncio.sleep(30)
            return -value
        finally:
            running -= 1

    executor = AsyncExecutor(task, concurrency=20, timeout=0.05, enable_dynamic_concurrency=False)
    outputs, details = executor.run(range(600))
    assert outputs == [-value for value in range(600)]
    assert most <= 20
    for detail in details:
        assert detail.status is (COMPLETED_WITH_RETRIES if detail.exceptions else COMPLETED)


def test_a_cancellation_from_a_signal_handler_ends_an_await_while_a_judge_is_still_asked(tmp_path, monkeypatch):
    """As a notebook's stop button does: it cancels the task without waking the loop."""
    import signal

    monkeypatch.chdir(tmp_path)
    main, release, returned = threading.get_ident(), threading.Event(), threading.Event()

    def judge(messages):
        signal.pthread_kill(main, signal.SIGALRM)
        release.wait(300)
        returned.set()
        return "0"

    async def work():
        task = asyncio.current_task()
        signal.signal(signal.SIGALRM, lambda *_: task.cancel())
        rows = [{"question": "Why?", "answer": "So.", "contexts": ["So."]}]
        with pytest.raises(asyncio.CancelledError):
            await reverie.aevaluate(rows, ["faithfulness"], judge=judge, progress=False)
        assert not returned.is_set(), "the judge held it"

    earlier = signal.getsignal(signal.SIGALRM)
    try:
        asyncio.run(work())
    finally:
        release.set()
        signal.signal(signal.SIGALRM, earlier)
