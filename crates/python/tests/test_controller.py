"""The concurrency controller, ours and those that take its place."""

import asyncio
import sys

import pytest

from reverie.exceptions import RateLimitError
from reverie.executors import AsyncExecutor, ConcurrencyController


def controller(**changes):
    settings = {"max_concurrency": 10, "initial_target": 4, "window_seconds": 3600, "increase_step": 1}
    return ConcurrencyController(**{**settings, **changes})


def test_a_good_window_adds_a_step_and_a_bad_one_halves():
    # Without a length, every outcome ends a window.
    aimd = controller(window_seconds=0)
    aimd.record_success(0.01)
    assert aimd.target_concurrency == 5
    aimd.record_timeout()
    assert aimd.target_concurrency == 2
    assert aimd._target_concurrency == 2.5


def test_a_window_changes_nothing_before_its_end():
    aimd = controller()
    aimd.record_success(0.01)
    aimd.record_timeout()
    assert aimd._target_concurrency == 4


def test_errors_close_together_collapse_it_and_the_target_never_drifts():
    aimd = controller(initial_target=6, window_seconds=60)
    aimd.record_error()
    assert aimd.target_concurrency == 6
    aimd.record_error()
    assert aimd.target_concurrency == 1
    aimd._target_concurrency = 99
    assert aimd._target_concurrency == 10


def test_defaults_and_floors():
    aimd = ConcurrencyController(max_concurrency=0, initial_target=3, inactive_check_interval=0)
    assert (aimd.target_concurrency, aimd.inactive_check_interval) == (1, 0.1)
    assert aimd._smoothed_latency_seconds is None
    aimd.record_success(2)
    aimd.record_success(7)
    assert aimd._smoothed_latency_seconds == 3.0
    with pytest.raises(TypeError):
        ConcurrencyController(4, 2)


class Stub:
    inactive_check_interval = 0.01

    def __init__(self, target):
        self.target_concurrency = target
        self.heard = []

    def record_success(self, latency_seconds):
        self.heard.append("success")

    def record_timeout(self):
        self.heard.append("timeout")

    def record_error(self):
        self.heard.append("error")


class Gauge:
    def __init__(self, seconds=0.005):
        self.now = self.most = 0
        self.seconds = seconds

    async def __call__(self, value):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.seconds)
        self.now -= 1
        return value


class Gate:
    """Holds calls until it is opened, and counts them. After five minutes they fail, so that no test hangs."""

    def __init__(self):
        self.held, self.opened = 0, asyncio.Event()

    async def __call__(self, value):
        self.held += 1
        await asyncio.wait_for(self.opened.wait(), 300)

    async def wait_until(self, held):
        """Waits until so many calls are held at once."""

        async def look():
            while self.held < held:
                await asyncio.sleep(0.001)

        await asyncio.wait_for(look(), 120)


def test_another_controller_is_obeyed_and_told():
    gauge, stub = Gauge(), Stub(2)
    executor = AsyncExecutor(gauge, concurrency=4)
    executor._concurrency_controller = stub
    assert executor.run(range(12))[0] == list(range(12))
    assert (gauge.most, stub.heard) == (2, ["success"] * 12)


def test_only_rate_limits_that_are_tried_again_and_timeouts_are_told():
    async def task(kind):
        if kind == "slow":
            await asyncio.sleep(30)
        raise {"limited": RateLimitError, "value": ValueError}[kind]

    stub = Stub(1)
    executor = AsyncExecutor(task, max_retries=1, timeout=0.05, exit_on_error=False)
    executor._concurrency_controller = stub
    executor.run(["limited", "value", "slow"])
    assert stub.heard == ["error", "timeout", "timeout"]


def test_a_target_that_rises_by_itself_is_noticed_while_everybody_is_busy():
    stub = Stub(1)

    async def main():
        gate = Gate()
        executor = AsyncExecutor(gate, concurrency=4)
        executor._concurrency_controller = stub
        running = asyncio.create_task(executor.execute(range(4)))
        await gate.wait_until(held=1)
        await asyncio.sleep(0.05)
        assert gate.held == 1
        stub.target_concurrency = 4
        # The first call has not ended when the others begin.
        await gate.wait_until(held=4)
        assert stub.heard == []
        gate.opened.set()
        await running

    asyncio.run(main())
    assert stub.heard == ["success"] * 4


def test_a_controller_may_be_changed_in_the_middle_of_a_run():
    async def main():
        gate = Gate()
        executor = AsyncExecutor(gate, concurrency=4)
        executor._concurrency_controller = controller(max_concurrency=4, initial_target=1)
        running = asyncio.create_task(executor.execute(range(4)))
        await gate.wait_until(held=1)
        executor._concurrency_controller = None
        await gate.wait_until(held=4)
        gate.opened.set()
        await running

    asyncio.run(main())


def test_what_is_changed_on_our_controller_is_heard():
    heard = []

    class Listening(ConcurrencyController):
        def record_success(self, latency_seconds):
            heard.append("class")

    executor = AsyncExecutor(Gauge(), concurrency=2)
    executor._concurrency_controller = Listening(max_concurrency=2, initial_target=2)
    executor.run(range(3))
    executor._concurrency_controller = controller()
    executor._concurrency_controller.record_success = lambda latency_seconds: heard.append("object")
    executor.run(range(2))
    assert heard == ["class"] * 3 + ["object"] * 2


def test_a_controller_that_raises_is_reported_and_loses_no_result(monkeypatch):
    class Broken(Stub):
        def record_success(self, latency_seconds):
            raise OSError("no")

    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reported.append(type(report.exc_value)))
    executor = AsyncExecutor(Gauge(), concurrency=2)
    executor._concurrency_controller = Broken(2)
    assert executor.run(range(3))[0] == [0, 1, 2]
    assert reported == [OSError] * 3


def test_rate_limits_lower_the_concurrency_of_the_run():
    gauge = Gauge(0.005)
    calls = 0

    async def task(value):
        nonlocal calls
        calls += 1
        if calls <= 8:
            await asyncio.sleep(0.005)
            raise RateLimitError
        return await gauge(value)

    executor = AsyncExecutor(task, concurrency=8)
    assert executor.run(range(16))[0] == list(range(16))
    assert gauge.most == 1
    assert executor._concurrency_controller.target_concurrency == 1


def test_what_fails_after_a_collapse_is_tried_again_though_the_last_worker_had_nothing_to_do():
    made = []

    async def task(value):
        made.append(value)
        if value == 0 and made.count(0) <= 2:
            raise RateLimitError
        if value == 1:
            await asyncio.sleep(0.05)
            if made.count(1) == 1:
                raise ValueError
        return value

    # With 1.5 instead of 0.05 seconds, Phoenix 3.9.4 never ends.
    executor = AsyncExecutor(task, concurrency=2)
    assert executor.run([0, 1])[0] == [0, 1]
    assert executor._concurrency_controller.target_concurrency == 1


def test_without_dynamic_concurrency_there_is_no_controller():
    gauge = Gauge()
    executor = AsyncExecutor(gauge, concurrency=3, enable_dynamic_concurrency=False, dynamic_initial_target=1)
    assert executor._concurrency_controller is None
    executor.run(range(9))
    assert gauge.most == 3
    gauge = Gauge()
    AsyncExecutor(gauge, concurrency=3, dynamic_initial_target=1).run(range(9))
    assert gauge.most == 1
