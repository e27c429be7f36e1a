"""What a run found: tables, comparisons, the winner or the reason why there is none."""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path
from typing import Any

from reverie import _core
from reverie.tables import Table, fixed, html_table, shown

AXES = ("chunker", "embedder", "retriever", "reranker", "generator")
# The plot's part of the report page, for a frame in a notebook.
_ONLY_THE_PLOT = "<style>header,section:not(:first-child){display:none}h2{margin-top:8px!important}</style></head>"


class Trial:
    """One combination, and its numbers."""

    def __init__(self, data: dict[str, Any], winner: str | None) -> None:
        self._data = data
        self.id: str = data["trial"]["id"]
        """Such as `t03`."""
        self.labels: dict[str, str] = data["trial"]["labels"]
        """What it has on each axis, in a word."""
        self.settings: dict[str, Any] = {axis: data["trial"][axis] for axis in AXES}
        """What it has on each axis, in full: as in the lists of `[space]`."""
        self.objective: float | None = (data["objective"] or {}).get("mean")
        """The mean of the objective's metrics, in [0, 1]."""
        self.metrics: dict[str, float | None] = {name: one["mean"] for name, one in data["metrics"].items()}
        """The mean of each metric."""
        self.is_winner: bool = self.id == winner
        """Whether it is the winner, and not only the first of the leaderboard."""
        self.is_tied: bool = data["tied"]
        """Whether it cannot be told from the winner."""

    def __repr__(self) -> str:
        labels = ", ".join(label for label in self.labels.values() if label != "none")
        return f"<trial {self.id}: {labels}; objective {shown(self.objective)}{', winner' if self.is_winner else ''}>"


class Results:
    """The results of a run.

    In a notebook it shows the leaderboard with intervals, what is tied, and parallel coordinates of all trials.
    """

    def __init__(self, results: str | _core.Results) -> None:
        self._core = results if isinstance(results, _core.Results) else _core.Results(results)
        self._data: dict[str, Any] = json.loads(self._core.text)
        self.experiment: str = self._data["experiment"]
        """The experiment's name."""
        self.run: str = self._data["run"]
        """The run's id."""
        winner = self._data["winner"]
        self.winner: str | None = winner.get("trial")
        """The best trial's id, if one can be named."""
        self.reason: str | None = winner.get("refused")
        """Why there is no winner."""
        self.partial: str | None = self._data.get("partial")
        """Why these results are not all that the experiment asks for, if the budget ended the run early."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Results:
        """Reads `results.json` of a run, or a run's folder."""
        path = Path(path)
        return cls((path / "results.json" if path.is_dir() else path).read_text(encoding="utf-8"))

    @property
    def data(self) -> dict[str, Any]:
        """Everything, as in `results.json`."""
        return self._data

    @property
    def trials(self) -> list[Trial]:
        """The trials, best first."""
        return [Trial(trial, self.winner) for trial in self._data["trials"]]

    def best(self) -> Trial:
        """The winner; where none is named, the first of the leaderboard (`is_winner` tells, `reason` says why).

        Raises:
            LookupError: If there are no trials.
        """
        trials = self.trials
        if not trials:
            raise LookupError("the run has no trials")
        return next((trial for trial in trials if trial.is_winner), trials[0])

    def leaderboard(self) -> Table:
        """A row per trial, best first.

        Each metric has its mean, the ends of the 95 % interval (`_low`, `_high`) and how many questions have a score
        (`_scored`); so has the objective. `group` counts groups of trials that cannot be told apart, from 1.
        """
        metrics = [metric["name"] for metric in self._data["metrics"]]
        columns = [("trial", "text"), ("group", "count"), ("winner", "truth"), ("tied", "truth")]
        columns += [(axis, "text") for axis in AXES]
        for name in ["objective", *metrics]:
            columns += [(name, "real"), (f"{name}_low", "real"), (f"{name}_high", "real"), (f"{name}_scored", "count")]
        columns += [("test", "real"), ("latency_p50", "real"), ("latency_p95", "real"), ("tokens", "real")]
        columns += [("cost_usd", "real"), ("p_value", "real"), ("effect_size", "real"), ("questions_needed", "count")]
        columns += [("front", "truth"), ("stopped", "text")]
        rows = []
        for trial in self._data["trials"]:
            id, labels = trial["trial"]["id"], trial["trial"]["labels"]
            row = [id, trial["group"], id == self.winner, trial["tied"], *(labels.get(axis) for axis in AXES)]
            for summary in [trial["objective"], *(trial["metrics"].get(name) for name in metrics)]:
                row += [(summary or {}).get(part) for part in ("mean", "low", "high", "n_scored")]
            row += [(trial["test"] or {}).get("mean"), trial["latency_p50"], trial["latency_p95"], trial["tokens"]]
            row += [trial["cost_usd"], trial["p_value"], trial["effect_size"], trial["questions_needed"]]
            row += [trial["front"], (trial["stopped"] or {}).get("reason")]
            rows.append(row)
        return Table(columns, rows)

    def questions(self, trial: str | None = None) -> Table:
        """A row per trial and question: the answer, what was retrieved, a score per metric.

        Where a score is missing, `missing` says why, as JSON by metric; `failures` has tracebacks.

        Args:
            trial: Only this one.
        """
        metrics = [metric["name"] for metric in self._data["metrics"]]
        columns = [("trial", "text"), ("question", "text"), ("text", "text"), ("reference", "text"), ("answer", "text")]
        columns += [("error", "text"), ("retrieved", "texts"), ("seconds", "real")]
        columns += [(name, "real") for name in metrics] + [("missing", "text")]
        golden = {question["id"]: question for question in self._data["questions"]}
        rows = []
        for each in self._data["trials"] if trial is None else [self._trial(trial)]:
            for result in each["questions"]:
                asked, answer = golden[result["question"]], result["answer"] or {}
                scores = {name: result["scores"].get(name, {}).get("score", {}) for name in metrics}
                missing = {name: score["missing"] for name, score in scores.items() if "missing" in score}
                row = [each["trial"]["id"], result["question"], asked["question"], asked.get("reference")]
                row += [answer.get("text"), result["error"], [passage["document"] for passage in result["passages"]]]
                row += [answer.get("seconds"), *(scores[name].get("value") for name in metrics)]
                rows.append([*row, json.dumps(missing, ensure_ascii=False) if missing else None])
        return Table(columns, rows)

    def failures(self) -> Table:
        """What failed, a row each: functions of your own that raised, took too long or gave what cannot be used, with
        their traceback, and stages that failed for other reasons.

        `question` is missing where a whole stage failed; `kind` is `raised`, `timed_out`, `ended` or `returned` for
        functions, and missing for the rest.
        """
        names = ("trial", "stage", "label", "function", "file", "kind", "question", "message", "traceback")
        rows = []
        for trial in self._data["trials"]:
            functions = trial.get("function_failures", [])
            rows += [[each[name] for name in names] for each in functions]
            own = {f"the function `{each['function']}`" for each in functions if each["question"] is None}
            for text in trial["failures"]:
                if not any(name in text for name in own):
                    label, _, message = text.partition(": ")
                    stage = label.split(" ")[0]
                    rows.append([trial["trial"]["id"], stage, label, None, None, None, None, message, None])
        return Table([(name, "text") for name in names], rows)

    def _function_failures(self) -> str | None:
        return self._core.function_failures() if self._data.get("function_errors") else None

    def compare(self, first: str, second: str) -> Comparison:
        """Two trials, metric by metric, on the questions that both were asked.

        Raises:
            LookupError: If there is no such trial.
        """
        self._trial(first), self._trial(second)
        return Comparison(first, second, json.loads(self._core.compare(first, second)))

    def report(self) -> str:
        """The report: one HTML page that needs nothing else."""
        return self._core.report()

    def _trial(self, id: str) -> dict[str, Any]:
        known = {trial["trial"]["id"]: trial for trial in self._data["trials"]}
        if id not in known:
            raise LookupError(f"there is no trial {id!r}; there are {', '.join(known)}")
        return known[id]

    def _verdict(self) -> list[str]:
        lines = [f"Partial results: {self.partial}."] if self.partial else []
        if self._data.get("function_errors"):
            lines.append(f"{self._data['function_errors']} failures of functions of your own: see failures().")
        if not self._data["questions"]:
            return [*lines, "Everything is indexed; without golden questions there is nothing to score."]
        lines += [f"{sentence[0].upper()}{sentence[1:]}." for sentence in self._data["verdict"]]
        if self.winner is None:
            return lines
        groups: dict[int, list[str]] = {}
        for trial in self._data["trials"]:
            if trial["group"] is not None:
                groups.setdefault(trial["group"], []).append(trial["trial"]["id"])
        if len(groups) > 1:
            lines.append(
                "Groups, each better than the next: " + " > ".join(" = ".join(groups[g]) for g in sorted(groups))
            )
        return lines

    def _board(self) -> tuple[list[str], list[list[tuple[str, bool]]]]:
        """The leaderboard as a person wants it: only axes that differ, intervals below means."""
        trials = self._data["trials"]
        axes = [axis for axis in AXES if len({trial["trial"]["labels"].get(axis) for trial in trials}) > 1]
        metrics = self._data["metrics"]
        answers = any(trial["latency_p50"] is not None for trial in trials)
        paid = any(trial["cost_usd"] > 0 for trial in trials)
        names = ["", "trial", *axes, *(["objective"] if self._data["objective"] else [])]
        names += [metric["name"] + ("*" if metric["judged"] else "") for metric in metrics]
        names += ["s p50"] * answers + ["$"] * paid
        rows = []
        for trial in trials:
            id = trial["trial"]["id"]
            mark = "winner" if id == self.winner else "stopped" if trial["stopped"] else "tied" if trial["tied"] else ""
            row = [(mark if self.winner or trial["stopped"] else "", False), (id, False)]
            row += [(trial["trial"]["labels"].get(axis, ""), False) for axis in axes]
            if self._data["objective"]:
                row.append((_interval(trial["objective"]), True))
            row += [(_interval(trial["metrics"].get(metric["name"])), True) for metric in metrics]
            row += [(shown(trial["latency_p50"]), True)] * answers + [(fixed(trial["cost_usd"], 4), True)] * paid
            rows.append(row)
        return names, rows

    def __repr__(self) -> str:
        names, rows = self._board()
        table = Table(
            [(name or " " * i, "text") for i, name in enumerate(names)],
            [[text.replace("\n", " ") for text, _ in row] for row in rows],
        )
        return "\n".join([f"{self.experiment}, run {self.run}", repr(table), *self._verdict()])

    def _repr_html_(self) -> str:
        data = self._data
        facts = (
            f"{data['documents']} documents, {len(data['questions'])} questions, {len(data['trials'])} trials; "
            f"{data['executed']} tasks executed, {data['reused']} taken from the store"
        )
        names, rows = self._board()
        bold = [trial["trial"]["id"] == self.winner for trial in data["trials"]]
        verdict = "<br>".join(escape(line) for line in self._verdict())
        judged = (
            "<p>* given by a judge; chooses only if the judge was qualified.</p>"
            if any("*" in n for n in names)
            else ""
        )
        return (
            f"<h3>{escape(self.experiment)}</h3><p>{verdict}</p>{html_table(names, rows, lambda row: bold[row])}"
            f'{judged}<p style="opacity:.6">{escape(facts)}. Below a mean: its 95 % interval.</p>{self._plot()}'
        )

    def _plot(self) -> str:
        """The report's plot, without questions and passages, in a frame that can do nothing but draw."""
        if len(self._data["trials"]) < 2 or not self._data["questions"]:
            return ""
        page = self._core.overview().replace("</head>", _ONLY_THE_PLOT, 1)
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(page)}" title="Parallel coordinates" '
            'style="width:100%;height:520px;border:0"></iframe>'
        )


class Comparison(Table):
    """Two trials, metric by metric: differences are first minus second, question by question.

    `p_value` is that of a sign-flip test, `corrected` the same corrected by Holm for the number of metrics;
    `effect_size` is the mean difference in standard deviations of the differences. `least` and `most` are the mean
    difference if missing scores were as bad, or as good, for the first as they can be.
    """

    def __init__(self, first: str, second: str, rows: list[dict[str, Any]]) -> None:
        self.first, self.second = first, second
        numbers = ("p_value", "corrected", "effect_size", "least", "most")
        columns = [("metric", "text"), ("difference", "real"), ("low", "real"), ("high", "real")]
        columns += [(name, "real") for name in numbers]
        columns += [(name, "count") for name in ("n_pairs", "n_total", "questions_needed")]
        super().__init__(
            columns,
            [
                [
                    row["metric"],
                    row["mean_difference"],
                    (row["interval"] or {}).get("low"),
                    (row["interval"] or {}).get("high"),
                    *(row[name] for name in (*numbers, "n_pairs", "n_total", "questions_needed")),
                ]
                for row in rows
            ],
        )

    def real(self) -> list[str]:
        """The metrics whose difference is called real: `corrected` is below 0.05."""
        pairs = zip(self["metric"], self["corrected"])
        return [metric for metric, corrected in pairs if corrected is not None and corrected < 0.05]

    def __repr__(self) -> str:
        return f"{self.first} − {self.second}\n{super().__repr__()}"

    def _repr_html_(self) -> str:
        names = ["metric", f"{self.first} − {self.second}", "p", "effect", "pairs", "questions to tell"]
        rows = []
        for row in self.rows():
            difference = "–" if row["difference"] is None else f"{row['difference']:+.3f}"
            if row["low"] is not None:
                difference += f"\n[{row['low']:+.3f}, {row['high']:+.3f}]"
            rows.append(
                [
                    (row["metric"], False),
                    (difference, True),
                    (shown(row["corrected"]), True),
                    (shown(row["effect_size"]), True),
                    (f"{row['n_pairs']} of {row['n_total']}", True),
                    (shown(row["questions_needed"]), True),
                ]
            )
        real = set(self.real())
        note = f"p is corrected for {len(rows)} metrics; below 0.05 a difference is called real (bold)."
        table = html_table(names, rows, lambda row: rows[row][0][0] in real)
        return f'{table}<p style="opacity:.6">{note}</p>'


def _interval(summary: dict[str, Any] | None) -> str:
    if summary is None or summary["mean"] is None:
        return "–"
    text = f"{summary['mean']:.3f}"
    if summary["low"] is not None:
        text += f"\n[{summary['low']:.2f}, {summary['high']:.2f}]"
    return text
