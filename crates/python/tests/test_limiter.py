"""`limiter="adaptive"`: the limit of the other side is found, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from statistics import mean

import pytest

from reverie.exceptions import PhoenixException, RateLimitError
from reverie.executors import AsyncExecutor, ExecutionStatus, get_executor_on_sync_context


class Server:
    """An endpoint on the loopback interface that answers 429 above a hidden number of calls at once.

    A call takes `seconds`, and until as many run as the executor lets run (`expected`): so the number of calls at once
    is what the executor chose, however busy the machine is.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit, self.seconds = limit, seconds
        # How many calls the executor will have in flight, as far as the server takes them.
        self.expected: Callable[[], int] = lambda: 0
        # Whether the executor left a call alone for a minute; then no call is held any more.
        self.left_alone = False
        self.running = self.most = self.refused = self.answered = 0
        # For each call that runs, and for each that was answered: the most calls that ran at once meanwhile.
        self.beside: dict[int, int] = {}
        self.concurrency: list[int] = []

    async def start(self) -> int:
        """Listens; gives the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        return self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Listens no more."""
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if self.running >= self.limit:
            self.refused += 1
            writer.write(b'{"status": 429}\n')
        else:
            self.running += 1
            self.most = max(self.most, self.running)
            value = int(line)
            self.beside[value] = self.running
            self.beside = {call: max(most, self.running) for call, most in self.beside.items()}
            await asyncio.sleep(self.seconds)
            deadline = time.monotonic() + 60
            while self.running < min(self.limit, self.expected()) and not self.left_alone:
                await asyncio.sleep(0.001)
                self.left_alone = time.monotonic() > deadline
            self.concurrency.append(self.beside.pop(value))
            self.running -= 1
            self.answered += 1
            writer.write(json.dumps({"status": 200, "twice": 2 * value}).encode() + b"\n")
        await writer.drain()
        writer.close()


class ClientError(Exception):
    """As a client library raises it."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


def asking(port: int, error):
    """A call of the endpoint."""

    async def call(value: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{value}\n".encode())
        reply = json.loads(await reader.readline())
        writer.close()
        if reply["status"] != 200:
            raise error()
        return reply["twice"]

    return call


async def run(server: Server, n: int, error, **settings):
    """Runs all inputs through an executor."""
    port = await server.start()
    try:
        executor = AsyncExecutor(asking(port, error), termination_signal=None, **settings)
        controller = executor._concurrency_controller
        server.expected = lambda: min(controller.target_concurrency, n - server.answered)
        outputs, details = await executor.execute(range(n))
        return outputs, details, executor
    finally:
        await server.stop()


@pytest.mark.parametrize("error", [lambda: RateLimitError(), lambda: ClientError(429)], ids=["ours", "a client's"])
def test_concurrency_converges_on_a_hidden_limit_and_nothing_is_lost(error):
    limit, n = 12, 1500
    server = Server(limit, 0.05)
    outputs, details, executor = asyncio.run(run(server, n, error, concurrency=256, max_retries=0, limiter="adaptive"))
    assert outputs == [2 * value for value in range(n)], "every input has its own result, without a retry that counts"
    assert {detail.status for detail in details} <= {ExecutionStatus.COMPLETED, ExecutionStatus.COMPLETED_WITH_RETRIES}
    assert server.answered == n and server.most == limit and not server.left_alone
    second_half = server.concurrency[n // 2 :]
    assert mean(second_half) >= 0.75 * limit, f"{mean(second_half):.1f} calls at once of {limit}"
    everything = mean(server.concurrency)
    assert everything >= 0.65 * limit, f"{everything:.1f} calls at once of {limit}, with the search for the limit"
    # Whoever does not learn is refused more often than answered. The first calls, which go out before any answer, are
    # at most 256, and may all be refused on a busy machine.
    assert server.refused < 0.5 * n, f"{server.refused} refused"
    assert 1 <= executor._concurrency_controller.target_concurrency <= 2 * limit


def test_what_was_learned_is_kept_for_the_next_run():
    async def twice() -> tuple[int, int]:
        server = Server(8, 0.02)
        port = await server.start()
        executor = AsyncExecutor(
            asking(port, RateLimitError), concurrency=256, termination_signal=None, limiter="adaptive"
        )
        await executor.execute(range(400))
        first = server.refused
        outputs, _ = await executor.execute(range(400))
        await server.stop()
        assert outputs == [2 * value for value in range(400)]
        return first, server.refused - first

    first, second = asyncio.run(twice())
    assert second <= max(first, 40), f"{first}, then {second}"


def test_the_wait_that_the_other_side_asks_for_is_kept():
    starts: list[float] = []

    async def call(value: int) -> int:
        starts.append(time.monotonic())
        if len(starts) == 1:
            raise RateLimitError(retry_after=1)
        return value

    outputs, details = AsyncExecutor(call, limiter="adaptive", max_retries=0).run([7])
    assert outputs == [7] and details[0].status == ExecutionStatus.COMPLETED_WITH_RETRIES
    # Without that wish, half a second would be the longest wait. The upper bound only notices a hang.
    assert 1 <= starts[1] - starts[0] < 120


def test_other_failures_count_and_permanent_ones_are_not_tried_again():
    calls: dict[int, int] = {}

    async def call(value: int) -> int:
        calls[value] = calls.get(value, 0) + 1
        if value == 1:
            raise ValueError("no")
        if value == 2:
            raise PhoenixException("never")
        return value

    executor = AsyncExecutor(call, limiter="adaptive", max_retries=2, exit_on_error=False, fallback_return_value=None)
    outputs, details = executor.run(range(4))
    assert outputs == [0, None, None, 3] and (calls[1], calls[2]) == (3, 1)
    assert [detail.status for detail in details] == [
        ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.FAILED, ExecutionStatus.COMPLETED,
    ]  # fmt: skip


def test_a_call_that_takes_too_long_is_cut_and_tried_again():
    calls = []

    async def call(value: int) -> int:
        calls.append(value)
        await asyncio.sleep(3600 if len(calls) == 1 else 0)
        return value

    executor = AsyncExecutor(call, limiter="adaptive", timeout=1, max_retries=1)
    assert executor.run([3])[0] == [3] and len(calls) == 2


def test_stopping_a_run_leaves_what_rests_as_not_run():
    async def main():
        called = asyncio.Event()

        async def call(value: int) -> int:
            called.set()
            raise RateLimitError(retry_after=30)

        executor = AsyncExecutor(call, limiter="adaptive", termination_signal=None)
        task = asyncio.ensure_future(executor.execute(range(3)))
        await called.wait()
        # Until all that could begin was refused.
        await asyncio.sleep(0.05)
        (run,) = executor._runs
        run.stop()
        return await asyncio.wait_for(task, 120)

    _, details = asyncio.run(main())
    assert [detail.status for detail in details] == [ExecutionStatus.DID_NOT_RUN] * 3


def test_a_limiter_that_is_none_is_refused():
    with pytest.raises(ValueError, match="`phoenix` or `adaptive`"):
        AsyncExecutor(asyncio.sleep, limiter="fast")
    executor = get_executor_on_sync_context(print, asyncio.sleep, limiter="adaptive")
    assert type(executor._concurrency_controller).__name__ == "Adaptive"
