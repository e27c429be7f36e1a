"""Signals: once, twice, with tasks that do and do not heed their cancellation. Each case is a process of its own."""

import json
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

PRELUDE = """
import asyncio, json, os, signal, sys, threading
from reverie import _asynchronous, _interrupts, _loop
from reverie.executors import AsyncExecutor, SyncExecutor

ready = lambda: print("ready", flush=True)
cancelled = []
signals = []

# Prints a line after each signal that was handled, so that the next one is not merged with it.
def acknowledge_signals():
    handle = _interrupts._handle
    def acknowledging(signum, frame):
        try:
            handle(signum, frame)
        finally:
            signals.append(signum)
            print("handled", flush=True)
    _interrupts._handle = acknowledging

# Gives cancelled tasks an hour: a run that waits for this time is killed, and its test fails.
def clean_up_without_limit():
    _asynchronous.CLEANUP_SECONDS = _loop.CLEANUP_SECONDS = 3600

async def heeds(value):
    if value < 3:
        return value
    if value == 5:
        ready()
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        cancelled.append(value)
        raise

async def ignores(value):
    if value == 2:
        ready()
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            print("cancelled", flush=True)

def blocks(value):
    if value == 2:
        ready()
        release.wait()
    return value

release = threading.Event()

def report(outputs, details):
    statuses = [detail.status.value for detail in details]
    restored = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    print(json.dumps({"outputs": outputs, "statuses": statuses, "cancelled": cancelled, "restored": restored,
                      "exceptions": sum(len(detail.exceptions) for detail in details)}))
"""


class Process:
    """A Python program whose lines are read one by one. If it hangs, it is killed after minutes, and its test fails."""

    def __init__(self, code, errors):
        command = [sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent(code)]
        self.errors = errors
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.killer = threading.Timer(300, self.process.send_signal, [signal.SIGABRT])
        self.killer.start()

    def wait_for(self, line):
        assert self.process.stdout.readline().strip() == line, self.said()

    def interrupt(self, signum=signal.SIGINT):
        self.process.send_signal(signum)

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def report(self):
        """Waits for the end of the program; returns what it printed last."""
        lines = self.process.stdout.readlines()
        assert self.process.wait() == 0, self.said()
        return json.loads(lines[-1])

    def end(self):
        self.killer.cancel()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path):
    started = []

    def start(code):
        started.append(Process(code, (tmp_path / f"{len(started)}").open("w+")))
        return started[-1]

    yield start
    for process in started:
        process.end()
        process.errors.close()


def test_one_signal_cancels_what_runs_and_returns_what_is_done(start):
    process = start(
        """
        clean_up_without_limit()
        report(*AsyncExecutor(heeds, concurrency=3, fallback_return_value=None).run(range(100)))
        """
    )
    process.wait_for("ready")
    process.interrupt()
    report = process.report()
    assert report["outputs"] == [0, 1, 2] + [None] * 97
    assert report["statuses"] == ["COMPLETED"] * 3 + ["DID NOT RUN"] * 97
    assert (sorted(report["cancelled"]), report["exceptions"], report["restored"]) == ([3, 4, 5], 0, True)


def test_one_signal_is_enough_for_tasks_that_ignore_their_cancellation(start):
    process = start("report(*AsyncExecutor(ignores, concurrency=3, fallback_return_value=None).run(range(9)))")
    process.wait_for("ready")
    process.interrupt()
    report = process.report()
    assert report["statuses"] == ["DID NOT RUN"] * 9


def test_a_second_signal_stops_at_once(start):
    process = start(
        """
        clean_up_without_limit()
        async def main():
            outputs, details = await AsyncExecutor(ignores, fallback_return_value=None).execute(range(9))
            report(outputs, details)
        # Not `run`, which would give the stuck tasks more time before it closes the loop.
        asyncio.new_event_loop().run_until_complete(main())
        sys.stdout.flush()
        os._exit(0)
        """
    )
    process.wait_for("ready")
    process.interrupt()
    for _ in range(3):
        process.wait_for("cancelled")
    process.interrupt()
    report = process.report()
    assert (report["statuses"], report["restored"]) == (["DID NOT RUN"] * 9, True)


def test_a_third_signal_interrupts_what_blocks_the_loop(start):
    process = start(
        """
        async def stuck(value):
            blocks(value)

        acknowledge_signals()
        try:
            AsyncExecutor(stuck, concurrency=1).run(range(9))
        except KeyboardInterrupt:
            report([], [])
        """
    )
    process.wait_for("ready")
    for _ in range(3):
        process.interrupt()
        process.wait_for("handled")
    assert process.report()["restored"]


def test_another_signal_can_be_chosen(start):
    process = start(
        """
        executor = AsyncExecutor(heeds, fallback_return_value=None, termination_signal=signal.SIGUSR1)
        report(*executor.run(range(9)))
        """
    )
    process.wait_for("ready")
    process.interrupt(signal.SIGUSR1)
    assert process.report()["outputs"] == [0, 1, 2] + [None] * 6


def test_overlapping_runs_all_stop_and_the_handler_of_before_is_back(start):
    process = start(
        """
        clean_up_without_limit()
        async def main():
            quick = AsyncExecutor(asyncio.sleep).execute([0.01] * 3)
            slow = [AsyncExecutor(heeds, fallback_return_value=None).execute(range(n)) for n in (4, 9)]
            return await asyncio.gather(quick, *slow)

        loop = asyncio.new_event_loop()
        _, first, second = loop.run_until_complete(main())
        report(first[0] + second[0], first[1] + second[1])
        """
    )
    process.wait_for("ready")
    process.interrupt()
    report = process.report()
    assert report["outputs"] == [0, 1, 2, None, 0, 1, 2] + [None] * 6
    assert report["restored"]


def test_a_signal_from_within_the_inputs_stops_the_run(start):
    process = start(
        """
        def inputs():
            for value in range(1000):
                if value == 50:
                    os.kill(os.getpid(), signal.SIGINT)
                yield value

        class Sized:
            def __len__(self):
                return 1000
            def __iter__(self):
                return inputs()

        ready()
        async def task(value):
            return value
        report(*AsyncExecutor(task, fallback_return_value=None).run(Sized()))
        """
    )
    process.wait_for("ready")
    outputs = process.report()["outputs"]
    assert len(outputs) == 1000 and outputs[:50] == list(range(50))


def test_the_synchronous_executor_ends_after_its_call_at_the_first_signal_and_at_once_at_the_second(start):
    process = start(
        """
        def task(value):
            if value == 2:
                ready()
                while not signals:
                    pass
            return value
        acknowledge_signals()
        report(*SyncExecutor(task, fallback_return_value=None).run(range(9)))
        """
    )
    process.wait_for("ready")
    process.interrupt()
    report = process.report()
    assert report["outputs"] == [0, 1, 2] + [None] * 6 and report["restored"]

    process = start(
        """
        acknowledge_signals()
        report(*SyncExecutor(blocks, fallback_return_value=None).run(range(9)))
        """
    )
    process.wait_for("ready")
    for _ in range(2):
        process.interrupt()
        process.wait_for("handled")
    report = process.report()
    assert report["outputs"] == [0, 1] + [None] * 7
    assert report["statuses"] == ["COMPLETED"] * 2 + ["DID NOT RUN"] * 7
    assert report["restored"]
