"""What a run found: tables, comparisons, the winner or the reason why there is none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reverie import _core
from reverie.tables import (
    Table,
    format_fixed,
    format_interval,
    format_signed,
    format_value,
    html_table,
    warnings_table,
)

if TYPE_CHECKING:
    from reverie.scores import Scores

# The columns of `leaderboard` by their kind: all of the first group, then all of the next; within a group they keep the
# board's order. A column of the kind `objective` or `metric` becomes four, `_SUMMARY`, named with these `_SUFFIXES`.
_TABLE = (("axis",), ("objective",), ("metric",), ("test", "seconds", "tokens", "money"))
_SUMMARY = ("mean", "low", "high", "n_scored")
_SUFFIXES = {"": "", "mean": "", "low": "_low", "high": "_high", "n_scored": "_scored"}
# What the notes about judges are `about`.
_JUDGES = ("judge", "untried_judge")
# What a run did and cost is shown elsewhere.
_HIDDEN_NOTES = (*_JUDGES, "work", "spending", "budget", "journal")


class Trial:
    """One combination, and its numbers."""

    def __init__(self, board: dict[str, Any], row: dict[str, Any]) -> None:
        self.id: str = row["id"]
        """Such as `t03`."""
        self.labels: dict[str, str] = row["labels"]
        """What it has on each axis, in a word."""
        self.settings: dict[str, Any] = row["settings"]
        """What it has on each axis, in full: as in the lists of `[space]`."""
        means = {(column["kind"], column["name"]): cell for column, cell in _cells(board, row)}
        self.objective: float | None = _part(means["objective", "objective"], "mean")
        """The mean of the objective's metrics, in [0, 1]."""
        self.metrics: dict[str, float | None] = {
            name: _part(cell, "mean") for (kind, name), cell in means.items() if kind == "metric"
        }
        """The mean of each metric."""
        self.is_winner: bool = self.id == board["winner"]
        """Whether it is the winner, and not only the first of the leaderboard."""
        self.reason: str | None = board["no_winner"]
        """Why the run names no winner; None where it names one."""
        self.is_tied: bool = row["tied"]
        """Whether it cannot be told apart from the leading trial."""

    def __repr__(self) -> str:
        labels = ", ".join(label for label in self.labels.values() if label != "none")
        return f"<trial {self.id}: {labels}; objective {format_value(self.objective)}{', winner' if self.is_winner else ''}>"


class Results:
    """The results of a run.

    In a notebook it shows the leaderboard with intervals, and what is tied. `plot()` shows the trials as parallel
    coordinates.
    """

    def __init__(self, results: str | _core.Results) -> None:
        """Reads the JSON of whole results: of `reverie run --json`, or a `results.json` of an earlier version."""
        self._core = _core.Results(results) if isinstance(results, str) else results
        self._board: dict[str, Any] = self._core.board()
        self.experiment: str = self._board["experiment"]
        """The experiment's name."""
        self.run: str = self._board["run"]
        """The run's id."""
        self.winner: str | None = self._board["winner"]
        """The best trial's id, where the verdict names a winner: all others are worse."""
        self.leads: str | None = self._board["leads"]
        """The id of the first trial by the objective, winner or not; None where no trial has scores to trust."""
        self.reason: str | None = self._board["no_winner"]
        """Why no winner is named; None where there is one."""
        self.partial: str | None = self._board["partial"]
        """Why these results are not all that the experiment asks for, if the budget or Ctrl-C ended the run early."""

    def __reduce__(self) -> tuple[type[Results], tuple[str]]:
        return type(self), (self._core.text(),)

    @classmethod
    def of(
        cls, name: str, run: str | None = None, *, store: str | os.PathLike[str] = ".reverie"
    ) -> Results:
        """The results of an experiment's last finished run, by its name alone.

        Args:
            name: The experiment's name.
            run: One of its earlier runs, by its id: `reverie.Results.past()` lists them.
            store: The store that the experiment names: a folder, or the URL of an object store.

        Raises:
            RuntimeError: If the experiment has no finished run in the store.
            LookupError: If `run` is none of the experiment's.
        """
        return cls(_core.Results.of(name, os.fspath(store), os.getcwd(), run))

    @classmethod
    def past(cls, name: str | None = None, *, store: str | os.PathLike[str] = ".reverie") -> Table:
        """The finished runs of this machine in a store, the last first: `experiment`, `run`, and `time_ms`, when it
        finished, in milliseconds since 1970.

        Of an object store, only runs that were begun on this machine, or fetched to it by `Results.of`, are listed: the
        store itself names only the last run of each experiment, and that is what `Results.of` gives on any machine.

        Args:
            name: Only those of this experiment.
            store: The store that the experiments name: a folder, or the URL of an object store.
        """
        names = ("experiment", "run", "time_ms")
        runs = _core.runs(os.fspath(store), os.getcwd())
        rows = ([run[column] for column in names] for run in runs if name in (None, run["experiment"]))
        return Table([("experiment", "text"), ("run", "text"), ("time_ms", "count")], rows)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Results:
        """Reads a run's folder, or its `results.json`, beside which the folder `trials` has what each trial found."""
        path = Path(path)
        file = path / "results.json" if path.is_dir() else path
        return cls(_core.Results(file.read_text(encoding="utf-8"), file.parent))

    @cached_property
    def data(self) -> dict[str, Any]:
        """Everything, as `reverie run --json` prints it: also each passage of each trial, which takes memory."""
        return json.loads(self._core.text())

    @cached_property
    def _head(self) -> dict[str, Any]:
        """Everything but what trials found for each question."""
        return json.loads(self._core.head_text())

    @property
    def trials(self) -> list[Trial]:
        """The trials, best first."""
        return [Trial(self._board, row) for row in self._board["rows"]]

    def best(self) -> Trial:
        """The winner; where none is named, the first of the leaderboard (`is_winner` tells, `reason` says why). If there are
        pipelines of Reverie, it is one of them; else it is a system.

        Raises:
            LookupError: If there are no trials.
        """
        answering, trials = self._board["answering"], self.trials
        if not trials:
            raise LookupError("the run has no trials")
        # Only a pipeline can be asked here.
        chosen = answering["trial"] if answering is not None else self.winner or trials[0].id
        return next(trial for trial in trials if trial.id == chosen)

    def leaderboard(self) -> Table:
        """A row per trial, best first.

        Each metric has its mean, the ends of the 95 % interval (`_low`, `_high`) and how many questions have a score
        (`_scored`); so has the objective. `group` counts groups of trials that cannot be told apart, from 1.
        """
        parts = {"axis": ("",), "objective": _SUMMARY, "metric": _SUMMARY}
        chosen = [column for kinds in _TABLE for column in self._board["columns"] if column["kind"] in kinds]
        columns = [("trial", "text"), ("group", "count"), ("winner", "truth"), ("tied", "truth")]
        for column in chosen:
            for part in parts.get(column["kind"], ("mean",)):
                kind = "text" if column["kind"] == "axis" else "count" if part == "n_scored" else "real"
                columns.append((f"{column['name']}{_SUFFIXES[part]}", kind))
        columns += [("p_value", "real"), ("effect_size", "real"), ("questions_needed", "count")]
        columns += [("front", "truth"), ("stopped", "text")]
        rows = []
        for each in self._board["rows"]:
            row = [each["id"], each["group"], each["id"] == self.winner, each["tied"]]
            cells = {(column["kind"], column["name"]): cell for column, cell in _cells(self._board, each)}
            for column in chosen:
                cell = cells[column["kind"], column["name"]]
                row += [_part(cell, part) for part in parts.get(column["kind"], ("mean",))]
            row += [each[name] for name in ("p_value", "effect_size", "questions_needed", "front", "stopped")]
            rows.append(row)
        return Table(columns, rows)

    def effects(self) -> Table:
        """What each axis changes: a row per value, compared with the value of the leading trial (`baseline`).

        `difference` is the mean difference of the objective between trials that are equal on all other axes, `low`
        and `high` are the ends of its 95 % interval over questions, and `pairs` counts the pairs of trials. A value
        without pairs was never tried in an otherwise equal trial.
        """
        columns = [("axis", "text"), ("value", "text"), ("baseline", "text"), ("pairs", "count"), ("questions", "count")]
        columns += [("difference", "real"), ("low", "real"), ("high", "real")]
        rows = []
        for each in self._board["effects"]:
            ends = each["interval"] or {"low": None, "high": None}
            row = [each[name] for name in ("axis", "value", "baseline", "pairs", "questions", "difference")]
            rows.append([*row, ends["low"], ends["high"]])
        return Table(columns, rows)

    def finalists(self, best: int = 3, **axes: Any) -> list[dict[str, Any]]:
        """The best pipelines as the space of a next experiment: a dictionary per trial, with its value on each axis.

            found = retrieval.run()                                # a large space, searched without a call of a model
            answers = reverie.Experiment(
                name="answers", corpus="docs", dataset="golden.jsonl", models=models,
                space=found.finalists(3, generator={"compact": {"model": "gpt"}}),
                evaluate={"metrics": ["token_f1"]},
            )

        With the same store, nothing that both experiments need is computed again. Trials that a search stopped are not
        among the best.

        Args:
            best: How many pipelines, from the first of the leaderboard.
            axes: Values that every pipeline gets in place of its own, by axis, in the forms that `reverie.Experiment`
                takes. A list is a value to try for each of its items.

        Raises:
            ValueError: If `best` is below 1, or there is no such axis.
            LookupError: If no trial has a score, so that none is better than another.
        """
        if best < 1:
            raise ValueError(f"best: at least one pipeline, not {best}")
        return self._core.finalists(best, axes)

    def warnings(self, trial: str | None = None) -> Table:
        """A row per warning, the most serious first: what put trials at a disadvantage.

        `code` names the kind of warning; `reverie warnings CODE` explains it. `trials` lists the trials that the
        warning is about, and is empty if it is about the documents or the questions. `count` of `total` questions,
        chunks, files or trials are affected; each is None if it was not counted. `action` says what to do. Warnings
        that the experiment ignores (`ignore` under `warnings`) are left out.

        Args:
            trial: Only warnings about this trial, and those about the whole run.
        """
        only = None if trial is None else self._check_trial(trial)
        return warnings_table(
            each for each in self._board["warnings"] if only is None or not each["trials"] or only in each["trials"]
        )

    def questions(self, trial: str | None = None) -> Table:
        """A row per trial and question: the answer, the documents of what was retrieved, a score per metric.

        Where a score is missing, `missing` says why, by metric; `failures` has tracebacks.

        Args:
            trial: Only this one.
        """
        metrics = [metric["name"] for metric in self._head["metrics"]]
        columns = [("trial", "text"), ("question_id", "text"), ("question", "text"), ("reference", "text")]
        columns += [("answer", "text"), ("error", "text"), ("retrieved", "texts"), ("seconds", "real")]
        columns += [(name, "real") for name in metrics] + [("missing", "struct")]
        rows = []
        for each, result, asked in self._question_rows(trial):
            answer = result["answer"] or {}
            scores = {name: result["scores"].get(name, {}).get("score", {}) for name in metrics}
            missing = {name: score["missing"] for name, score in scores.items() if "missing" in score}
            row = [each["trial"]["id"], result["question"], asked["question"], asked.get("reference")]
            row += [answer.get("text"), result["error"], [passage["document"] for passage in result["passages"]]]
            row += [answer.get("seconds"), *(scores[name].get("value") for name in metrics)]
            rows.append([*row, missing or None])
        return Table(columns, rows)

    def passages(self, trial: str | None = None) -> Table:
        """A row per trial, question and passage, in the order of retrieval: what was found, with its text and score.

        `rank` counts from 1, as citations do; `cited` says whether the answer cites it. `start` and `end` say where it
        lies in the document's text, in characters; `start_byte` and `end_byte` in bytes. Characters are counted in the
        documents as they are read now: they are missing where the text of the passage no longer stands there, and
        everywhere if the documents or their experiment cannot be read (`Results.read`).

        Args:
            trial: Only this one.
        """
        columns = [("trial", "text"), ("question_id", "text"), ("question", "text"), ("rank", "count")]
        columns += [("document", "text"), ("text", "text"), ("score", "real"), ("cited", "truth"), ("page", "count")]
        columns += [("book", "text"), ("heading", "text"), ("start", "count"), ("end", "count")]
        columns += [("start_byte", "count"), ("end_byte", "count")]
        rows = []
        characters = self._characters(None if trial is None else self._check_trial(trial))
        for each, result, asked in self._question_rows(trial):
            cited = (result["answer"] or {}).get("citations", [])
            for rank, passage in enumerate(result["passages"], 1):
                row = [each["trial"]["id"], result["question"], asked["question"], rank]
                row += [passage["document"], passage["text"], passage["score"], rank in cited]
                row += [passage.get(name) for name in ("page", "book", "heading")]
                start, end = passage["span"]["start"], passage["span"]["end"]
                row += characters.get(passage["document"], {}).get(f"{start}-{end}", (None, None))
                rows.append([*row, start, end])
        return Table(columns, rows)

    def losses(self, trial: str | None = None) -> Table:
        """A row per trial and question: the first step at which its golden evidence was lost, or how it ended.

        `step` is one of `not_read`, `cut_apart`, `not_found`, `ranked_out`, `dropped`, `cut_from_prompt`, `not_used`,
        `answered_wrong`, `failed_call`, `not_searched`, `no_evidence`, `in_passages`, `right_without_evidence` and
        `answered_right`; `component` is the component that lost the evidence. `evidence` counts the pieces of evidence
        of the question, and `lost` counts the pieces that were lost before the answer. The other columns describe the
        first piece that was lost at `step`, or the first lost piece if none was lost there: its document, the number
        and the bytes of the chunk that holds it, the share of the piece in that chunk, its rank in the search, the
        number of passages that the search returned, and the terms that chunk and question share. To count the
        questions of each trial by step: `results.losses().to_pandas().groupby(["trial", "step"]).size()`.

        Args:
            trial: Only this trial.
        """
        columns = [("trial", "text"), ("question_id", "text"), ("question", "text"), ("step", "text"), ("component", "text")]
        columns += [("evidence", "count"), ("lost", "count"), ("document", "text"), ("chunk", "count"), ("start_byte", "count")]
        columns += [("end_byte", "count"), ("share", "real"), ("rank", "count"), ("passages", "count"), ("shared_terms", "texts")]
        rows = []
        for each, result, asked in self._question_rows(trial):
            loss = result.get("loss") or {}
            pieces = loss.get("evidence", [])
            lost = [(number, piece) for number, piece in enumerate(pieces) if piece.get("step")]
            nothing: tuple[int | None, dict[str, Any]] = (None, {})
            number, first = min(lost, key=lambda at: at[1]["step"] != loss["step"], default=nothing)
            document = None if number is None else asked["evidence"][number]["document"]
            chunk = first.get("chunk") or {}
            span = chunk.get("span", {})
            row = [each["trial"]["id"], result["question"], asked["question"], loss.get("step"), loss.get("component")]
            row += [len(asked.get("evidence", [])), len(lost) if loss else None, document, chunk.get("number")]
            row += [span.get("start"), span.get("end"), chunk.get("share"), first.get("rank"), first.get("searched")]
            rows.append([*row, chunk.get("shared_terms")])
        return Table(columns, rows)

    def _characters(self, trial: str | None) -> dict[str, dict[str, list[int]]]:
        """Where passages of a trial, or of all, begin and end in characters, by document and by bytes."""
        if trial not in self._counted_characters:
            try:
                self._counted_characters[trial] = self._core.characters(trial)
            except (ValueError, RuntimeError, OSError):
                # The documents are gone, or cannot be read: the bytes are all that is known.
                self._counted_characters[trial] = {}
        return self._counted_characters[trial]

    @cached_property
    def _counted_characters(self) -> dict[str | None, dict[str, dict[str, list[int]]]]:
        """What `_characters` has found so far."""
        return {}

    def _question_rows(self, trial: str | None) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
        """Trials with what they made of each question, and the question."""
        golden = {question["id"]: question for question in self._head["questions"]}
        only = None if trial is None else self._check_trial(trial)
        for known in self._head["trials"]:
            if only in (None, known["trial"]["id"]):
                # One trial at a time is in memory.
                each = json.loads(self._core.trial_text(known["trial"]["id"]))
                yield from ((each, result, golden[result["question"]]) for result in each["questions"])

    def failures(self) -> Table:
        """What failed, a row each: functions of your own that raised, took too long or gave what cannot be used, with
        their traceback, and stages that failed for other reasons.

        `question_id` and `question` are missing where a whole stage failed; `kind` is `raised`, `timed_out`, `ended` (the
        interpreter ended or did not start) or `returned` (something that cannot be used) for functions, and missing for the
        rest.
        """
        names = ("trial", "stage", "label", "function", "file", "kind", "message", "traceback")
        golden = {question["id"]: question["question"] for question in self._head["questions"]}
        rows = []
        for trial in self._head["trials"]:
            functions = trial.get("function_failures", [])
            rows += [
                [*(each[name] for name in names[:6]), each["question"], golden.get(each["question"])]
                + [each[name] for name in names[6:]]
                for each in functions
            ]
            own = {f"the function `{each['function']}`" for each in functions if each["question"] is None}
            for text in trial["failures"]:
                if not any(name in text for name in own):
                    label, _, message = text.partition(": ")
                    stage = label.split(" ")[0]
                    rows.append([trial["trial"]["id"], stage, label, None, None, None, None, None, message, None])
        columns = [*names[:6], "question_id", "question", *names[6:]]
        return Table([(name, "text") for name in columns], rows)

    def _function_failures(self) -> str | None:
        return self._core.function_failures()

    def compare(self, first: str, second: str) -> Comparison:
        """Two trials, metric by metric, on the questions that both were asked.

        Raises:
            LookupError: If there is no such trial.
        """
        self._check_trial(first), self._check_trial(second)
        return Comparison(first, second, self._core.compare(first, second))

    def scores(self, trial: str) -> Scores:
        """The scores of a trial, as `reverie.evaluate` gives them: for a comparison with another system's answers.

            mine = reverie.evaluate("answers.csv", ["token_f1", "ndcg"], documents="docs")    # what my system answered
            reverie.compare(mine, results.scores("t04")).real()                               # the metrics in which they differ

        Questions are matched by their ids, or by their texts if the other system's answers have no ids. Score the other
        answers with the settings of the experiment's metrics, and with the same judge.

        Args:
            trial: The trial's id.

        Raises:
            LookupError: If there is no such trial.
        """
        from reverie.scores import Scores

        return Scores(self._core.scores(self._check_trial(trial)))

    def calibrate(self, metric: str, labels: Any) -> Calibration:
        """How far a judged metric agrees with people, and what the means would be if people had scored everything.

        `reverie calibrate` does the same. No model is called.

        Args:
            metric: A metric of the run.
            labels: What people said: a data frame, an Arrow table or a list of dictionaries with `trial`, `question` (the
                question's id) and `label` (a truth value, or a score in the metric's range). The labelled answers must be
                a random part of all.

        Raises:
            ValueError: With every label that names no answer of the run, or is out of the metric's range.
            RuntimeError: If there is no such metric.
        """
        return Calibration(self._core.calibrate(metric, labels))

    def report(self) -> str:
        """The report: one HTML page that needs nothing else, however large it is."""
        return self._core.report()

    def save_report(self, page: str | os.PathLike[str], *, one_file: bool | None = None) -> None:
        """Writes the report as a page of this name. An earlier report of this name is replaced.

        Args:
            page: The file.
            one_file: Whether the page holds everything. If not, passages, answers and scores go into a folder beside
                the page, from which it loads what is looked at: `oats.html` has the folder `oats-parts`. `None` for one
                file if that has at most 20 MB.

        Raises:
            RuntimeError: If it cannot be written.
        """
        self._core.save_report(os.fspath(page), one_file)

    def _check_trial(self, id: str) -> str:
        known = [row["id"] for row in self._board["rows"]]
        if id not in known:
            raise LookupError(f"there is no trial {id!r}; there are {', '.join(known)}")
        return id

    def _verdict(self) -> list[str]:
        board = self._board
        lines = [f"Partial results: {self.partial}."] if self.partial else []
        verdict = [board["unscored"]] if board["unscored"] else board["verdict"]
        lines += (_sentence(sentence, self.leads) for sentence in verdict)
        lines += (f"Warning ({each['code']}): {each['text']}." for each in board["warnings"])
        for note in board["notes"]:
            if note["about"] not in _HIDDEN_NOTES:
                more = ": see failures()" if note["about"] == "functions" else ""
                lines.append(_sentence(note["text"] + more, note["subject"]))
        return lines

    def _display_rows(self) -> tuple[list[str], list[list[tuple[str, bool]]]]:
        """The leaderboard for people: only columns on which trials differ, with intervals below means."""
        columns = [column for column in self._board["columns"] if column["shown"]]
        names = ["", "trial", *(column["title"] + "*" * column["judged"] for column in columns)]
        rows = []
        for row in self._board["rows"]:
            cells = [(column, cell) for column, cell in _cells(self._board, row) if column["shown"]]
            texts = [(_format_cell(column, cell), column["kind"] != "axis") for column, cell in cells]
            rows.append([(row["label"], False), (row["id"], False), *texts])
        return names, rows

    def __repr__(self) -> str:
        names, rows = self._display_rows()
        table = Table(
            [(name or " " * i, "text") for i, name in enumerate(names)],
            [[text.replace("\n", " ") for text, _ in row] for row in rows],
        )
        return "\n".join([f"{self.experiment}, run {self.run}", repr(table), *self._verdict()])

    def _repr_html_(self) -> str:
        board = self._board
        names, rows = self._display_rows()
        bold = [row["id"] == self.winner for row in board["rows"]]
        verdict = "<br>".join(escape(line) for line in self._verdict())
        judges = [_sentence(note["text"]) for note in board["notes"] if note["about"] in _JUDGES]
        judged = f"<p>* {escape(' '.join(judges))} The metric counts in the objective only if its judge is qualified.</p>" if judges else ""
        facts = f"{board['corpus']}; {board['work']}. Below a mean: its 95 % interval."
        return (
            f"<h3>{escape(self.experiment)}</h3><p>{verdict}</p>{html_table(names, rows, lambda row: bold[row])}"
            f'{judged}<p style="opacity:.6">{escape(facts)}</p>'
        )

    def plot(self) -> Plot:
        """All trials as parallel coordinates: a line per trial, through its value on each axis and its means.

            results.plot()                    # in a notebook, as the result of a cell
            results.plot().save("plot.html")

        Drag along an axis to keep the trials between two values. A plot holds the program that draws it, about 100 kB,
        which a notebook stores with the cell.

        Raises:
            LookupError: If there are fewer than two trials, or none has a score.
        """
        if len(self._board["rows"]) < 2:
            raise LookupError("there is nothing to plot: the run has fewer than two trials")
        if self._board["unscored"]:
            raise LookupError(f"there is nothing to plot: {self._board['unscored']}")
        return Plot(self._core.plot())


class Plot:
    """A plot as an HTML page that needs nothing else. A notebook shows it, in a frame that can do nothing but draw."""

    def __init__(self, html: str) -> None:
        self.html: str = html
        """The page."""

    def save(self, page: str | os.PathLike[str]) -> None:
        """Writes the page to a file, and replaces it if it exists."""
        Path(page).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        return "<plot: a notebook shows it; `save` writes a page>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(self.html)}" title="Parallel coordinates" '
            'style="width:100%;height:520px;border:0"></iframe>'
        )


class Comparison(Table):
    """Two trials or two systems, metric by metric: differences are first minus second, question by question.

    `p_value` is that of a sign-flip test, `corrected` the same corrected by Holm for the number of metrics;
    `effect_size` is the mean difference in standard deviations of the differences. `least` and `most` are the mean
    difference if all missing scores were the worst, or the best, for the first.
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
        names = ["metric", f"{self.first} − {self.second}", "p", "effect", "pairs", "questions needed"]
        rows = []
        for row in self.rows():
            difference = "–" if row["difference"] is None else format_signed(row["difference"], 3)
            if row["low"] is not None:
                difference += f"\n[{format_signed(row['low'], 3)}, {format_signed(row['high'], 3)}]"
            rows.append(
                [
                    (row["metric"], False),
                    (difference, True),
                    (format_value(row["corrected"]), True),
                    (format_value(row["effect_size"]), True),
                    (f"{row['n_pairs']} of {row['n_total']}", True),
                    (format_value(row["questions_needed"]), True),
                ]
            )
        real = set(self.real())
        note = f"p is corrected for {len(rows)} metrics; below 0.05 a difference is called real (bold)."
        table = html_table(names, rows, lambda row: rows[row][0][0] in real)
        return f'{table}<p style="opacity:.6">{note}</p>'


class Calibration(Table):
    """A judged metric beside people's labels, a row per trial.

    Columns: `trial`; `n_labels`, its labelled answers; `n_judged`, those that only the judge scored; `judged_mean`, the
    judge's mean over all; `bias`, how far the judge's mean is from people's over the labelled ones; `corrected_mean` with
    `low` and `high`, the ends of its 95 % interval: the mean if people had scored everything. None with fewer than two
    labels.
    """

    def __init__(self, calibration: dict[str, Any]) -> None:
        columns = [("trial", "text"), ("n_labels", "count"), ("n_judged", "count"), ("judged_mean", "real")]
        columns += [("bias", "real"), ("corrected_mean", "real"), ("low", "real"), ("high", "real")]
        rows = []
        for each in calibration["trials"]:
            mean = each["corrected"] or {}
            ends = mean.get("interval", {})
            row = [each["trial"], each["n_labels"], each["n_judged"], each["judged_mean"]]
            rows.append([*row, mean.get("bias"), mean.get("mean"), ends.get("low"), ends.get("high")])
        super().__init__(columns, rows)
        agreement = calibration["agreement"] or {}
        ends = agreement.get("interval") or {}
        self.metric: str = calibration["metric"]
        """The metric."""
        self.n_labels: int = calibration["n_labels"]
        """Labels of answers that the judge scored too."""
        self.observed: float | None = agreement.get("observed")
        """The share of these on which judge and people agree: both scores are in the same half of the metric's range."""
        self.kappa: float | None = agreement.get("kappa")
        """Cohen's kappa: 1 is full agreement, 0 what chance gives; none where chance alone would make them agree."""
        self.kappa_interval: tuple[float, float] | None = (ends["low"], ends["high"]) if ends else None
        """Its 95 % interval."""

    def __repr__(self) -> str:
        text = f"{self.metric}: {self.n_labels} labels, agreement {format_value(self.observed)}, kappa {format_value(self.kappa)}"
        if self.kappa_interval is not None:
            text += f" {format_interval(*self.kappa_interval, 2)}"
        return f"{text}\n{super().__repr__()}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self).splitlines()[0])}</p>{super()._repr_html_()}"


def _cells(board: dict[str, Any], row: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """A row's cells, each with its column: a word, a number, the mean of scores as a dictionary, or nothing."""
    return zip(board["columns"], row["cells"])


def _part(cell: Any, part: str) -> Any:
    """A part of a mean of scores; any other cell as a whole."""
    return cell.get(part) if isinstance(cell, dict) else cell if part in ("", "mean") else None


def _format_cell(column: dict[str, Any], cell: Any) -> str:
    """A cell for people."""
    if column["kind"] == "axis":
        return cell or ""
    number = _part(cell, "mean")
    text = format_value(None) if number is None else format_fixed(number, column["digits"])
    if column["kind"] == "metric" and cell and (cell["n_failed"] or number is None):
        text += f" ({cell['n_scored']}/{cell['n_total']})"
    if isinstance(cell, dict) and cell["low"] is not None:
        text += f"\n{format_interval(cell['low'], cell['high'], 2)}"
    return text


def _sentence(text: str, subject: str | None = None) -> str:
    """The text as a sentence; a name at its beginning keeps its case."""
    is_name = subject is not None and text.startswith(subject)
    return f"{text}." if is_name else f"{text[0].upper()}{text[1:]}."
