"""`SyncExecutor`, and the choice between the two."""

import asyncio
import logging
import queue
import signal
import subprocess
import sys
import threading

import pytest

from reverie.exceptions import PhoenixContextLimitExceeded, RateLimitError
from reverie.executors import (
    AsyncExecutor,
    ExecutionDetails,
    ExecutionStatus,
    SyncExecutor,
    Unset,
    get_executor_on_sync_context,
)

DID_NOT_RUN, COMPLETED, COMPLETED_WITH_RETRIES, FAILED = ExecutionStatus


class Attempts:
    def __init__(self, failures):
        self.failures = {value: list(errors) for value, errors in failures.items()}
        self.made = []

    def __call__(self, value):
        self.made.append(value)
        if self.failures.get(value):
            raise self.failures[value].pop(0)
        return value * 10


def statuses(details):
    return [detail.status for detail in details]


def test_inputs_run_in_order_and_failures_are_repeated_at_once():
    attempts = Attempts({2: [ValueError(), RateLimitError()]})
    outputs, details = SyncExecutor(attempts).run([1, 2, 3])
    assert outputs == [10, 20, 30]
    assert attempts.made == [1, 2, 2, 2, 3]
    assert statuses(details) == [COMPLETED, COMPLETED_WITH_RETRIES, COMPLETED]
    assert [len(detail.exceptions) for detail in details] == [0, 2, 0]


@pytest.mark.parametrize("error, made", [(ValueError, 4), (RateLimitError, 4), (PhoenixContextLimitExceeded, 1)])
def test_the_run_ends_at_the_first_failure_for_good_or_goes_on_if_told_to(error, made):
    attempts = Attempts({1: [error() for _ in range(99)]})
    outputs, details = SyncExecutor(attempts, max_retries=3).run([1, 2])
    assert all(isinstance(output, Unset) for output in outputs)
    assert (len(attempts.made), statuses(details)) == (made, [FAILED, DID_NOT_RUN])

    attempts = Attempts({1: [error() for _ in range(99)]})
    executor = SyncExecutor(attempts, max_retries=3, exit_on_error=False, fallback_return_value=None)
    outputs, details = executor.run([1, 2])
    assert (outputs, statuses(details)) == ([None, 20], [FAILED, COMPLETED])


def test_inputs_may_be_without_length():
    assert SyncExecutor(Attempts({})).run(iter([1, 2]))[0] == [10, 20]
    assert SyncExecutor(Attempts({})).run([]) == ([], [])


def test_the_signal_is_handled_while_it_runs_unless_told_otherwise():
    def handler(value):
        return signal.getsignal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    assert SyncExecutor(handler).run([1])[0][0] is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert SyncExecutor(handler, termination_signal=None).run([1])[0][0] is before


def test_details_can_be_filled_by_hand():
    details = ExecutionDetails()
    assert (details.status.value, details.exceptions, details.execution_seconds) == ("DID NOT RUN", [], 0)
    details.complete()
    assert details.status.value == "COMPLETED"
    details.log_exception(ValueError())
    details.complete()
    assert details.status.value == "COMPLETED WITH RETRIES"
    details.fail()
    assert details.status.value == "FAILED"
    details.log_runtime(0.0)
    assert details.execution_seconds > 1e9


async def nothing(value):
    pass


def choose(**options):
    return get_executor_on_sync_context(print, nothing, **options)


def in_a_thread(function):
    results = queue.Queue()
    thread = threading.Thread(target=lambda: results.put(function()))
    thread.start()
    thread.join()
    return results.get()


def test_a_script_gets_the_asynchronous_one_with_everything_it_asked_for():
    executor = choose(concurrency=7, tqdm_bar_format="x", max_retries=2, exit_on_error=False, timeout=9)
    assert isinstance(executor, AsyncExecutor)
    assert (executor.generate, executor.concurrency, executor.tqdm_bar_format) == (nothing, 7, "x")
    assert (executor.max_retries, executor.exit_on_error, executor.timeout) == (2, False, 9)
    assert isinstance(executor.fallback_return_value, Unset)
    assert choose().timeout == 60


def test_who_asks_for_it_gets_the_synchronous_one():
    executor = choose(run_sync=True, max_retries=2, fallback_return_value=None)
    assert isinstance(executor, SyncExecutor)
    assert (executor.generate, executor.max_retries, executor.fallback_return_value) == (print, 2, None)
    assert executor.termination_signal == signal.SIGINT


def test_a_thread_gets_the_synchronous_one_without_a_signal(caplog):
    with caplog.at_level(logging.WARNING):
        executor = in_a_thread(lambda: choose(run_sync=True))
        assert isinstance(executor, SyncExecutor) and executor.termination_signal is None
        assert caplog.text == ""
        assert isinstance(in_a_thread(choose), SyncExecutor)
        assert "main thread" in caplog.text


def test_executors_run_in_threads():
    assert in_a_thread(lambda: SyncExecutor(Attempts({})).run([1]))[0] == [10]

    async def task(value):
        await asyncio.sleep(0)
        return value * 10

    assert in_a_thread(lambda: AsyncExecutor(task).run([1, 2]))[0] == [10, 20]


def test_a_notebook_gets_the_synchronous_one_and_a_warning(caplog):
    async def cell():
        return choose()

    with caplog.at_level(logging.WARNING):
        assert isinstance(asyncio.run(cell()), SyncExecutor)
    assert "nest_asyncio.apply()" in caplog.text


NOTEBOOK = """
import asyncio
import nest_asyncio
nest_asyncio.apply()
from reverie.executors import AsyncExecutor, get_executor_on_sync_context

running = most = 0

async def task(value):
    global running, most
    running += 1
    most = max(most, running)
    await asyncio.sleep(0.02)
    running -= 1
    return value

async def cell():
    executor = get_executor_on_sync_context(print, task, concurrency=10)
    assert isinstance(executor, AsyncExecutor)
    outputs, _ = executor.run(range(50))
    assert outputs == list(range(50)) and most == 10
    return executor.run([7])[0]

assert asyncio.run(cell()) == [7]
assert AsyncExecutor(task).run([8])[0] == [8]
"""


def test_a_notebook_with_nested_loops_runs_at_once():
    pytest.importorskip("nest_asyncio")
    # The patch is for good, so it gets a process of its own.
    subprocess.run([sys.executable, "-c", NOTEBOOK], check=True, timeout=600)


def test_importing_the_package_is_light():
    code = "import sys, reverie; assert not {'asyncio', 'reverie._core', 'tqdm'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
    code = "import sys, reverie.executors; assert not {'tqdm', 'phoenix', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
