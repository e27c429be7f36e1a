"""A run that goes on, in this process or another one: how it is doing, and how to steer it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reverie.tables import Table

if TYPE_CHECKING:
    from reverie import _core


class LiveRun:
    """A run that goes on. `Experiment.live()` gives it.

        live = experiment.live()
        live.state, live.spent_usd        # "running", 1.27
        live.stop_trial("t03")
        live.add_trial("t01", {"retriever.bm25.top_k": 8})
        live.set_budget(usd=5)

    The run may be in another process, or on another machine that uses the same store. It reads what it is told within a
    second; each method waits for its answer and returns it as a sentence. `ValueError` says why it did nothing.
    """

    def __init__(self, experiment: _core.Experiment, run: str | None) -> None:
        self._experiment = experiment
        self._data: dict[str, Any] = experiment.live(run)

    @property
    def run(self) -> str:
        """The run's id. It changes when a trial is added or more questions are asked: `refresh` follows."""
        return self._data["run"]

    @property
    def state(self) -> str:
        """`running`, `paused`, `finished`, `interrupted`, `failed`, or `stalled` if nothing was heard for 20 s."""
        return self._data["state"]

    @property
    def spent_usd(self) -> float:
        """What its calls have cost so far, in US dollars."""
        return self._data["spending"]["cost_usd"]

    @property
    def data(self) -> dict[str, Any]:
        """Everything that the run has written: operators, models, spending, failures, trials, acts."""
        return self._data

    def trials(self) -> Table:
        """The trials with their means so far."""
        trials = self._data["trials"]
        metrics = list(dict.fromkeys(metric for trial in trials for metric in trial["scores"]))
        columns = [("trial", "text"), ("state", "text"), *((metric, "real") for metric in metrics)]
        means = [[trial["scores"].get(metric, {}).get("mean") for metric in metrics] for trial in trials]
        return Table(columns, [[trial["trial"], trial["state"], *row] for trial, row in zip(trials, means)])

    def refresh(self) -> LiveRun:
        """Looks again. Follows a run whose plan was changed. Returns this object."""
        self._data = self._experiment.live_run(self.run)
        while self._data.get("continued_as"):
            try:
                self._data = self._experiment.live_run(self._data["continued_as"])
            except RuntimeError:
                # It has not begun to write yet.
                break
        return self

    def pause(self) -> str:
        """Starts no further task and no further call. Calls in flight go on to their end."""
        return self._steer({"act": "pause"})

    def resume(self) -> str:
        """Ends a pause."""
        return self._steer({"act": "continue"})

    def stop_trial(self, trial: str) -> str:
        """Asks a trial nothing more. It keeps its scores, is compared with no other trial, and is never called worse."""
        return self._steer({"act": "stop_trial", "trial": trial})

    def add_trial(self, like: str, set: dict[str, Any]) -> str:  # noqa: A002: as `--set`
        """Adds a trial: a copy of another one with other settings. The run goes on as one in which it was planned.

        Args:
            like: The id of the trial that is copied.
            set: Settings by their dotted keys: `{"retriever.bm25.top_k": 8}`, `{"chunker": "token"}`.
        """
        return self._steer({"act": "add_trial", "like": like, "set": set})

    def ask_questions(self, questions: int) -> str:
        """Asks more questions than `evaluate.answered`, or else `dataset.limit`, allows: this many, from the first on."""
        return self._steer({"act": "ask_questions", "questions": questions})

    def set_budget(
        self, *, usd: float | None = None, tokens: int | None = None, calls: int | None = None, minutes: float | None = None
    ) -> str:
        """Replaces caps of the run's budget. A cap that is left out stays as it is."""
        caps = {"usd": usd, "tokens": tokens, "calls": calls, "minutes": minutes}
        return self._steer({"act": "set_budget", **{name: cap for name, cap in caps.items() if cap is not None}})

    def set_limit(self, model: str, concurrency: int) -> str:
        """Sets how many calls of a model may be in flight. `model` is its name in `data["models"]`: `chat gpt-5-mini`."""
        return self._steer({"act": "set_limit", "model": model, "concurrency": concurrency})

    def _steer(self, act: dict[str, Any]) -> str:
        applied = self._experiment.steer(self.run, json.dumps(act))
        if applied["refused"]:
            raise ValueError(applied["outcome"])
        self.refresh()
        return applied["outcome"]

    def __repr__(self) -> str:
        ended = sum(trial["state"] in ("finished", "stopped") for trial in self._data["trials"])
        return f"<LiveRun {self.run}: {self.state}, {ended} of {len(self._data['trials'])} trials, ${self.spent_usd:.2f} spent>"
