"""The live table of a notebook: what it shows during an evaluation, and what stays after its end or interruption."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import threading
import types

import pytest

import reverie
from workspace import wait_for_stopped_scores

ROWS = [{"question": f"Why {i}?", "answer": "So."} for i in range(500)]


class Display:
    """What IPython has for the output below a cell.

    Attributes:
        shown: The pages that the cell has shown, each in the place of the one before.
        n_displays: How many outputs the cell has.
        is_drawn: Set when there is a table of operators.
    """

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.n_displays = 0
        self.is_drawn = threading.Event()

    def display(self, page: str, display_id: bool) -> Display:
        assert display_id, "a page without an id cannot be replaced"
        self.n_displays += 1
        self.update(page)
        return self

    def update(self, page: str) -> None:
        self.shown.append(page)
        if ">operator</th>" in page:
            self.is_drawn.set()

    def wait_for_the_table(self) -> None:
        """Waits until it is drawn. If it never is, the test fails later: no other call waits for it."""
        if not self.is_drawn.wait(60):
            self.is_drawn.set()


@pytest.fixture
def cell(tmp_path, monkeypatch):
    """The output of a notebook's cell."""
    monkeypatch.chdir(tmp_path)
    cell = Display()
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = display
    display.display, display.HTML = cell.display, str
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return cell


def test_the_table_of_a_notebook_is_replaced_by_the_time_at_the_end(cell):
    def waits_for_the_table(answer):
        cell.wait_for_the_table()
        return 1.0

    scores = reverie.evaluate(ROWS[:3], [waits_for_the_table])
    assert scores["waits_for_the_table"] == [1.0] * 3
    assert cell.n_displays == 1, "one output, which is updated"
    assert any(">operator</th>" in page for page in cell.shown)
    assert re.fullmatch(r'<p style="opacity:.6">finished in \d+ s</p>', cell.shown[-1])


@pytest.mark.parametrize("stop", ["Ctrl-C", "cancellation"])
def test_after_an_interruption_a_notebook_shows_that_it_ended_early_and_no_table(cell, stop):
    main, is_sent, is_stopped = threading.main_thread().ident, threading.Event(), threading.Event()

    def interrupted(answer):
        cell.wait_for_the_table()
        if stop == "Ctrl-C" and not is_sent.is_set():
            is_sent.set()
            signal.pthread_kill(main, signal.SIGINT)
        # Nothing is scored before the program has been told.
        is_stopped.wait(60)
        return 1.0

    def tell(number, frame):
        is_stopped.set()
        signal.default_int_handler(number, frame)

    async def cancel():
        task = asyncio.ensure_future(reverie.aevaluate(ROWS, [interrupted]))
        await asyncio.to_thread(cell.wait_for_the_table)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        is_stopped.set()

    if stop == "Ctrl-C":
        before = signal.signal(signal.SIGINT, tell)
        try:
            with pytest.raises(KeyboardInterrupt):
                reverie.evaluate(ROWS, [interrupted])
        finally:
            signal.signal(signal.SIGINT, before)
    else:
        asyncio.run(cancel())
    # A cancelled `await` ends before the thread that finishes what has begun.
    wait_for_stopped_scores()
    assert cell.n_displays == 1 and any(">operator</th>" in page for page in cell.shown)
    ended = r'<p style="opacity:.6">stopped after \d+ s; what is done is kept</p>'
    assert re.fullmatch(ended, cell.shown[-1])
