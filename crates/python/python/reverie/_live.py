"""Shows the progress of a run: a table in a notebook, one line on a terminal, a line now and then in a log."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

from reverie.tables import html_table


def make_watcher(progress: bool | Callable[[dict[str, Any]], Any] | None) -> Watcher | None:
    """What shows a run's progress: nothing for `False`; by default a notebook's table, a terminal's line, or a log."""
    if callable(progress):
        return Watcher(progress)
    if progress is False:
        return None
    if _in_notebook():
        return Notebook()
    return Terminal() if sys.stderr.isatty() else Log()


def make_draft_watcher(progress: bool | Callable[[dict[str, int]], Any] | None) -> Watcher | None:
    """The same for golden questions that are being written."""
    if callable(progress):
        return Watcher(progress)
    return None if progress is False else Drafts()


def _in_notebook() -> bool:
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return getattr(shell, "kernel", None) is not None


class Watcher:
    """Passes the progress on to a function."""

    def __init__(self, tell: Callable[[dict[str, Any]], Any]) -> None:
        self._tell = tell

    def __call__(self, progress: dict[str, Any]) -> None:
        self._tell(progress)

    def end(self, finished: bool) -> None:
        """Called when no more progress will come: the run has finished, or was ended."""


class Notebook(Watcher):
    """One table below the cell."""

    def __init__(self) -> None:
        super().__init__(self._draw)
        self._handle: Any = None
        self._started = time.monotonic()

    def _draw(self, now: dict[str, Any]) -> None:
        from IPython.display import HTML, display

        page = HTML(self._page(now))
        if self._handle is None:
            self._handle = display(page, display_id=True)
        else:
            self._handle.update(page)

    def end(self, finished: bool) -> None:
        # A line replaces the last table, whose numbers are from a moment before the end.
        if finished and self._handle is not None:
            from IPython.display import HTML

            self._handle.update(HTML(f'<p style="opacity:.6">finished in {time.monotonic() - self._started:.0f} s</p>'))
        elif self._handle is not None:
            from IPython.display import HTML

            after = f"stopped after {time.monotonic() - self._started:.0f} s; what is done is kept"
            self._handle.update(HTML(f'<p style="opacity:.6">{after}</p>'))

    def _page(self, now: dict[str, Any]) -> str:
        names = ["operator", "status", "rows", "queued", "active", "stored", "failed", "rows/s", "left"]
        rows = [
            [(each["operator"], False), (each["status"], False), (_format_rows(each), True)]
            + [(f"{each[name]:,}", True) for name in ("queued", "active", "reused", "failed")]
            + [(f"{each['rate_now']:.1f}", True), (_format_wait(each) or _format_seconds(each["seconds_left"]), True)]
            for each in now["operators"]
        ]
        page = html_table(names, rows) if rows else "<p>Reading the corpus and planning …</p>"
        if now["models"]:
            names = ["model", "in flight", "target", "queue", "answered", "answers/s", "tokens/s", "refused"]
            page += html_table(
                names,
                [
                    [(each["name"], False)]
                    + [(f"{each[name]:,}", True) for name in ("in_flight", "target", "waiting", "answered")]
                    + [(f"{each['goodput']:.1f}", True), (f"{each['tokens_per_second']:.0f}", True)]
                    + [(f"{100 * each['refused_share']:.1f} %", True)]
                    for each in now["models"]
                ],
            )
        return f'{page}<p style="opacity:.6">{time.monotonic() - self._started:.0f} s</p>'


class Terminal(Watcher):
    """One line on standard error."""

    def __init__(self) -> None:
        super().__init__(self._draw)
        self._started = time.monotonic()
        self._drawn = False

    def _draw(self, now: dict[str, Any]) -> None:
        busy = [each for each in now["operators"] if each["status"] in ("running", "failed")]
        parts = [f"{each['operator']} {_format_rows(each)}" for each in busy]
        parts += [f"{each['name']} {each['goodput']:.1f}/s" for each in now["models"] if each["in_flight"]]
        line = f"{time.monotonic() - self._started:4.0f} s  {' · '.join(parts) or 'working'}"
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[2K{line[:width]}")
        sys.stderr.flush()
        self._drawn = True

    def end(self, finished: bool) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


class Log(Watcher):
    """A line on standard error when an operator begins, every ten seconds while it goes on, and when it ends."""

    every = 10.0

    def __init__(self) -> None:
        super().__init__(self._draw)
        self._started = time.monotonic()
        self._going: dict[str, float] = {}
        self._ended: dict[str, int] = {}
        self._held: dict[str, str | None] = {}

    def _draw(self, now: dict[str, Any]) -> None:
        at = time.monotonic()
        for each in now["operators"]:
            name, status, ended = each["operator"], each["status"], each["finished"] + each["failed"]
            held = each["held_by"]
            if held and self._held.get(name) != held:
                self._say(f"{name}: waits for {held}, which does the same work")
            self._held[name] = held
            if status == "pending":
                self._going.pop(name, None)
                self._ended.pop(name, None)
            elif status == "running" and each["active"]:
                if name not in self._going:
                    self._say(f"{name}: begins, {each['queued'] + each['active']:,} tasks")
                    self._going[name] = at
                elif at - self._going[name] >= self.every:
                    known = [other["seconds_left"] for other in now["operators"] if other["seconds_left"] is not None]
                    left = _format_seconds(max(known, default=None))
                    left = f"; the run: about {left} left" if left else ""
                    self._say(f"{name}: {_format_rows(each)} rows, {each['rate_now']:.1f} rows/s{left}")
                    self._going[name] = at
                self._ended.pop(name, None)
            elif status in ("finished", "failed") and ended and self._ended.get(name) != ended:
                failed = f", {each['failed']:,} tasks failed" if each["failed"] else ""
                self._say(f"{name}: done, {each['rows_done']:,} rows, {each['rate_average']:.1f} rows/s{failed}")
                self._going.pop(name, None)
                self._ended[name] = ended

    def _say(self, text: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - self._started:6.1f}s] {text}\n")
        sys.stderr.flush()


class Drafts(Watcher):
    """The number of golden questions so far: a line on a terminal, which is overwritten, or a line every ten seconds."""

    every = 10.0

    def __init__(self) -> None:
        super().__init__(self._draw)
        self._is_terminal = sys.stderr.isatty()
        self._started = self._told = time.monotonic()

    def _draw(self, now: dict[str, int]) -> None:
        at = time.monotonic()
        if not self._is_terminal and at - self._told < self.every:
            return
        self._told = at
        line = f"[{at - self._started:6.1f}s] {now['accepted']} of {now['size']} questions, {now['attempted']} drafts"
        sys.stderr.write(f"\r\x1b[2K{line}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()

    def end(self, finished: bool) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _format_rows(operator: dict[str, Any]) -> str:
    estimated = operator["rows_estimated"]
    done = format(operator["rows_done"], ",")
    return done if estimated is None else f"{done}/{estimated:,}"


def _format_wait(operator: dict[str, Any]) -> str:
    return f"waits for {operator['waits_for']}" if operator.get("waits_for") else ""


def _format_seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
