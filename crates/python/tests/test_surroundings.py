"""`AsyncExecutor` and what is around it: context variables, event loops, memory, the progress bar."""

import asyncio
import contextvars
import gc
import logging
import sys
import time

import pytest

from reverie.exceptions import PhoenixException
from reverie.executors import AsyncExecutor, ExecutionStatus

COMPLETED = ExecutionStatus.COMPLETED


def test_context_variables_set_for_one_input_are_not_seen_by_the_next():
    variable = contextvars.ContextVar("variable", default="outer")
    seen = []

    async def task(value):
        seen.append(variable.get())
        variable.set(value)
        await asyncio.sleep(0)
        assert variable.get() == value
        await asyncio.create_task(asyncio.sleep(0))

    variable.set("caller")
    _, details = AsyncExecutor(task, concurrency=2).run(range(6))
    assert [detail.status for detail in details] == [COMPLETED] * 6
    assert seen == ["caller"] * 6


def test_tasks_that_never_wait_let_the_loop_do_other_things():
    async def busy(value):
        deadline = time.perf_counter() + 0.001
        while time.perf_counter() < deadline:
            pass

    async def both():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        await AsyncExecutor(busy, concurrency=4).execute(range(50))
        ticking.cancel()
        return ticks

    assert asyncio.run(both()) >= 12


def test_execute_works_in_a_running_loop_many_at_once():
    async def task(value):
        await asyncio.sleep(0.001)
        return value + 1

    async def main():
        executor = AsyncExecutor(task)
        return await asyncio.gather(*(executor.execute(range(20)) for _ in range(5)))

    assert [outputs for outputs, _ in asyncio.run(main())] == [list(range(1, 21))] * 5


def test_run_in_a_running_loop_says_what_to_do_instead():
    async def main():
        AsyncExecutor(asyncio.sleep).run([0])

    with pytest.raises(RuntimeError, match="await executor.execute"):
        asyncio.run(main())


def test_cancelling_execute_cancels_what_it_runs():
    cancelled = []

    async def task(value):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(value)
            raise

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(AsyncExecutor(task, concurrency=3).execute(range(9)), 0.05)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert sorted(cancelled) == [0, 1, 2]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_eager_tasks_are_no_obstacle():
    async def task(value):
        if value % 2:
            await asyncio.sleep(0.001)
        return value

    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        return await AsyncExecutor(task, concurrency=4).execute(range(40))

    assert asyncio.run(main())[0] == list(range(40))


def test_a_run_leaves_nothing_in_memory():
    class Payload:
        pass

    async def task(payload):
        await asyncio.sleep(0)
        if payload.fails:
            raise ValueError

    def payloads():
        for index in range(30):
            payload = Payload()
            payload.fails = index % 3 == 0
            yield payload

    def left():
        gc.collect()
        kinds = ("Payload", "Run", "Scheduler", "Attempt")
        return sum(type(thing).__name__ in kinds for thing in gc.get_objects())

    before = left()
    AsyncExecutor(task, concurrency=3, max_retries=1, exit_on_error=False).run(payloads())
    assert left() == before


def test_the_bar_counts_results_and_failures_and_is_not_there_without_a_format(capsys):
    async def task(value):
        if value == 2:
            raise PhoenixException("two")

    bar_format = "judging |{n_fmt}/{total_fmt}|"
    AsyncExecutor(task, tqdm_bar_format=bar_format, exit_on_error=False).run(range(5))
    captured = capsys.readouterr()
    assert "judging |5/5|" in captured.err and "two" in captured.err
    assert captured.out == ""
    AsyncExecutor(task, exit_on_error=False).run([1])
    assert capsys.readouterr().err == ""


def test_without_tqdm_there_is_a_warning_instead_of_a_bar(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with caplog.at_level(logging.WARNING, "reverie"):
        assert AsyncExecutor(asyncio.sleep, tqdm_bar_format="{bar}").run([0])[0] == [None]
    assert "pip install tqdm" in caplog.text
