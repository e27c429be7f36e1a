"""Judges: what one is asked about an example, whether it can tell right from wrong, and how much noise it adds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from reverie import _core
from reverie._background import asynchronous, carry_out
from reverie._function_models import Model, serve_functions, as_models
from reverie._outcome import check_on_error, report_failures
from reverie.answers import _to_experiment
from reverie.functions import to_metrics
from reverie.golden import read
from reverie.scores import failures_table
from reverie.tables import Table, format_fixed, format_value

if TYPE_CHECKING:
    from reverie.experiment import Experiment


@dataclass(frozen=True)
class Exchange:
    """A request to a judge, and its reply."""

    model: str
    """The model, as its provider knows it."""
    messages: tuple[dict[str, str], ...]
    """The request, in full: `role` and `content` of each message."""
    schema: dict[str, Any] | None
    """The JSON schema that the reply must match; none where any text will do."""
    reply: str | None
    """The reply; none where the call failed."""
    probabilities: dict[str, float] | None
    """The probability of each reply that was offered; none if the model does not tell."""
    error: str | None
    """Why the call failed; none where it did not."""
    prompt_tokens: int
    """Tokens read."""
    completion_tokens: int
    """Tokens written."""


@dataclass(frozen=True)
class Judgement:
    """One example, scored by one metric, with everything that the judges were asked for it."""

    metric: str
    """The metric's name."""
    score: float | None
    """The score; none where there is none."""
    missing: str | None
    """Why there is no score; none where there is one."""
    range: tuple[float, float]
    """The lowest and the highest score of the metric."""
    detail: Any
    """What is needed to check the score: statements, verdicts, what several judges agreed on."""
    exchanges: tuple[Exchange, ...]
    """The calls, in the order in which they ended. Calls that the journal answered are included."""
    function_failures: tuple[dict[str, Any], ...] = ()
    """What functions of your own failed at; `failures()` is a table of it."""

    def failures(self) -> Table:
        """What functions of your own failed at, as metric or as judge, a row each, with the traceback."""
        return failures_table(self.function_failures)

    def __str__(self) -> str:
        lines = [f"{self.metric}: {format_fixed(self.score, 3) if self.score is not None else f'no score, {self.missing}'}"]
        for number, exchange in enumerate(self.exchanges, 1):
            lines += ["", f"── {number} of {len(self.exchanges)} · {exchange.model}"]
            lines += [f"{message['role']}: {message['content']}" for message in exchange.messages]
            if exchange.schema is not None:
                lines.append(f"schema: {json.dumps(exchange.schema, ensure_ascii=False)}")
            lines.append(f"→ {_format_reply(exchange)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        score = format_value(self.score) if self.score is not None else f"no score: {self.missing}"
        page = f"<p><b>{escape(self.metric)}</b>: {escape(score)}</p>"
        for exchange in self.exchanges:
            asked = "\n\n".join(f"{message['role']}: {message['content']}" for message in exchange.messages)
            if exchange.schema is not None:
                asked += f"\n\nschema: {json.dumps(exchange.schema, ensure_ascii=False)}"
            page += (
                f"<details><summary>{escape(exchange.model)}: {escape(_format_reply(exchange))}</summary>"
                f'<pre style="white-space:pre-wrap">{escape(asked)}</pre></details>'
            )
        return page


def _format_reply(exchange: Exchange) -> str:
    if exchange.error is not None:
        return f"failed: {exchange.error}"
    shares = exchange.probabilities or {}
    listed = ", ".join(f"{reply} {format_fixed(share, 3)}" for reply, share in shares.items())
    return f"{exchange.reply} ({listed})" if listed else exchange.reply or ""


def explain(
    example: Mapping[str, Any],
    metric: Any,
    judge: Model | Sequence[Model],
    *,
    embedder: str | None = None,
    models: Mapping[str, Any] | None = None,
    budget_usd: float | None = None,
    store: str | os.PathLike[str] | None = None,
    on_error: Literal["warn", "raise"] = "warn",
) -> Judgement:
    """Scores one example by one metric, and shows what the judge was asked and what it said.

        print(reverie.explain({"question": …, "answer": …, "contexts": […]}, "faithfulness", "gpt", models=models))

    `reverie.evaluate` scores many.

    Args:
        example: A dictionary with the columns of `reverie.evaluate`: `question`, `answer`, `contexts`, `reference`, or
            those of Ragas and DeepEval.
        metric: A name, an object such as `reverie.metric.Faithfulness()`, a dictionary, or a function.
        judge: The model that judges: the name of one of `models`, or of a chat model of the catalogue, which runs here;
            or a function of your own. Of several the majority decides. What a function gets and returns: see
            `reverie.evaluate`; the schema that its reply must match is in `Exchange.schema`.
        embedder: The model that compares meanings, for metrics that need one.
        models: Models by name, as in an experiment.
        budget_usd: What this may cost, in US dollars.
        store: The folder of the journal of paid calls. Default: `.reverie`.
        on_error: As in `reverie.evaluate`; `results` of a `FunctionError` is the judgement.

    Raises:
        ValueError: If example, metric or models are not as they must be. No model was called.
        FunctionError: With `on_error="raise"`, if a function of your own failed.
        KeyboardInterrupt: After Ctrl-C.

    Warns:
        FunctionWarning: If a function of your own failed.
    """
    check_on_error(on_error)
    metrics, base = to_metrics(metric), os.getcwd()
    if len(metrics) != 1:
        raise ValueError(f"metric: give one metric, not {len(metrics)}; `reverie.evaluate` takes many")

    def work(stop: _core.Stop | None) -> dict[str, Any]:
        with serve_functions(as_models(judge), models) as (names, known):
            tables = {"models": known, "store": store, "evaluate": {"metrics": metrics}}
            return _core.explain([example], tables, names, embedder, base, budget_usd, stop)

    return carry_out(work, lambda row: report_failures(_judgement(row), row["failed_functions"], on_error))


aexplain = asynchronous(explain)


def _judgement(row: dict[str, Any]) -> Judgement:
    names = ("model", "schema", "reply", "probabilities", "error", "prompt_tokens", "completion_tokens")
    exchanges = (
        Exchange(messages=tuple(each["messages"]), **{name: each[name] for name in names}) for each in row["exchanges"]
    )
    low, high = row["range"]
    return Judgement(
        row["metric"],
        row["score"],
        row["missing"],
        (low, high),
        row["detail"],
        tuple(exchanges),
        tuple(row["function_failures"]),
    )


class Qualification(Table):
    """How judges did on cases whose truth is known, a row per judge and kind of verdict.

    Columns: `judge`; `kind` (`supported`: does the context support the statement; `relevant`: does the passage help to
    answer; `correct`: does the reference support the answer); `n`, the cases with a verdict; `unreadable`, those
    without one; `auc` with `auc_low` and `auc_high`, how often a true case gets a higher probability than a false one,
    for models that tell probabilities; `balanced_accuracy` with `accuracy_low` and `accuracy_high`, where 0.5 is
    guessing; `threshold`, the probability from which on a yes is best accepted; `qualified`, whether its verdicts may
    choose a winner; `reason`, why or why not. The ends are those of 95 % intervals.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        columns = [("judge", "text"), ("kind", "text"), ("n", "count"), ("unreadable", "count"), ("auc", "real")]
        columns += [("auc_low", "real"), ("auc_high", "real"), ("balanced_accuracy", "real")]
        columns += [("accuracy_low", "real"), ("accuracy_high", "real"), ("threshold", "real")]
        columns += [("qualified", "truth"), ("reason", "text")]
        rows = []
        for record in records:
            for found in record["kinds"]:
                auc, accuracy = (found[name] or {} for name in ("auc_interval", "accuracy_interval"))
                row = [record["judge"], found["kind"], found["n"], found["unreadable"], found["auc"]]
                row += [auc.get("low"), auc.get("high"), found["balanced_accuracy"]]
                row += [accuracy.get("low"), accuracy.get("high"), found["threshold"]]
                rows.append([*row, found["qualified"], found["reason"]])
        super().__init__(columns, rows)


def judge(
    judges: Model | Sequence[Model],
    cases: Any = None,
    *,
    golden: Any = None,
    planted: int | None = None,
    models: Mapping[str, Any] | None = None,
    budget_usd: float | None = None,
    store: str | os.PathLike[str] | None = None,
) -> Qualification:
    """Tries judges on cases whose truth is known: can they tell right from wrong?

        reverie.judge("gpt", golden="golden.jsonl", models=models)      # cases planted from golden questions
        reverie.judge("gpt", labelled, models=models)                   # labelled by people

    What `reverie judge` does on the command line: the record is kept in the store (with an object
    store: also in `.reverie/qualifications` of the working folder), and a metric of a qualified judge may stand in
    `objective` of an experiment that has the same store. `Results.calibrate` says how a metric of a run agrees with
    people; `reverie.explain` what a judge is asked about one example.

    Args:
        judges: The model, or several: names of `models` or of the catalogue, or functions of your own, as in
            `reverie.evaluate`.
        cases: Labelled cases: a data frame, an Arrow table or a list of dictionaries with `kind` (`supported`,
            `relevant`, `correct`), `question`, `against` (the context, the answer or the reference), `item` (the
            statement, the passage or the answer) and `label`, whether yes is right.
        golden: Golden questions, as in `reverie.golden.read`, from which cases are planted: each question with its own
            evidence, and with that of another one. They are easier than real mistakes.
        planted: How many cases are planted for each kind. Default: 60 where no labelled ones are given, else none.
        models: Models by name, as in an experiment.
        budget_usd: What this may cost, in US dollars.
        store: The folder of the journal, and of the records. Default: `.reverie`.

    Raises:
        ValueError: If cases or models are not as they must be: all mistakes. No model was called.
        FunctionError: If a function raises, or what it returns for the first case has not the form that is asked for.
        RuntimeError: If a model fails: a judge is not judged by what it did not answer.
        KeyboardInterrupt: After Ctrl-C.
    """
    base = os.getcwd()

    def work(stop: _core.Stop | None) -> list[dict[str, Any]]:
        questions = None if golden is None else read(golden)._core
        with serve_functions(as_models(judges), models) as (names, known):
            tables = {"models": known, "store": store}
            return _core.qualify(names, cases, questions, planted, tables, base, budget_usd, stop)

    return carry_out(work, Qualification)


ajudge = asynchronous(judge)


@dataclass(frozen=True)
class Noise:
    """Where the noise of a metric comes from: variances between questions, between answers to one question, and between
    judgements of one answer."""

    trial: str
    """The trial."""
    metric: str
    """The metric."""
    question: float
    """The variance between questions."""
    generation: float
    """The variance between answers to one question: the generator's."""
    judge: float
    """The variance between judgements of one answer: the judge's."""
    used: int
    """Questions that had a score for every repeat."""
    left_out: int
    """Questions that were left out because a score was missing."""
    questions: int
    """Questions of the run."""
    standard_error: float
    """The standard error of the run's mean as it is."""
    with_twice_the_questions: float
    """What it would be with twice the questions."""
    with_three_answers: float
    """What it would be with three answers to each question."""
    with_three_judgements: float
    """What it would be with three judgements of each answer."""

    def table(self) -> Table:
        """A row per `source` of noise: its `variance`, its `deviation` (the square root), and its `share` of all."""
        parts = [("questions", self.question), ("generator", self.generation), ("judge", self.judge)]
        whole = sum(part for _, part in parts)
        columns = [("source", "text"), ("variance", "real"), ("deviation", "real"), ("share", "real")]
        return Table(columns, [[name, part, part**0.5, part / whole if whole else 0.0] for name, part in parts])

    def __str__(self) -> str:
        told = (
            f"standard error over {self.questions} questions: {format_fixed(self.standard_error, 3)}; with twice the questions "
            f"{format_fixed(self.with_twice_the_questions, 3)}, with three answers each {format_fixed(self.with_three_answers, 3)}, with "
            f"three judgements each {format_fixed(self.with_three_judgements, 3)}"
        )
        left = f" ({self.left_out} questions left out: a score is missing)" if self.left_out else ""
        return f"{self.metric} of {self.trial}, from {self.used} questions{left}\n{self.table()!r}\n{told}"

    def _repr_html_(self) -> str:
        first, *_, last = str(self).splitlines()
        return f"<p>{escape(first)}</p>{self.table()._repr_html_()}<p>{escape(last)}</p>"


def noise(
    experiment: str | os.PathLike[str] | Mapping[str, Any] | Experiment,
    trial: str,
    metric: str,
    *,
    questions: int = 8,
    answers: int = 3,
    judgements: int = 3,
    budget_usd: float | None = None,
) -> Noise:
    """How much of a metric's noise comes from the questions, the generator and the judge.

    A few questions of a trial of the last run are answered several times, and each answer is scored several times. The
    calls are kept, so a second look pays nothing. A local model at temperature 0 repeats itself: its noise is none.

    Args:
        experiment: The experiment, its file, or its dictionary.
        trial: A trial of its last finished run, such as `t03`, with a generator.
        metric: One of its metrics.
        questions: Questions, drawn at random; at least 2.
        answers: Answers to each question.
        judgements: Judgements of each answer.
        budget_usd: What this may cost, in US dollars.

    Raises:
        ValueError: If a number is too small, or a model has no price that the budget needs.
        RuntimeError: If there is no such trial or metric, the trial generates nothing, a model fails, or fewer than two
            questions have all their scores.
        KeyboardInterrupt: After Ctrl-C.
    """
    opened = _to_experiment(experiment)

    def measure(stop: _core.Stop | None) -> dict[str, Any]:
        # Functions that stand for models, and objects that are systems, are asked again.
        with opened._serve_functions():
            return opened._core.noise(trial, metric, questions, answers, judgements, budget_usd, stop)

    return carry_out(
        measure,
        lambda row: Noise(
            row["trial"],
            row["metric"],
            row["noise"]["question"],
            row["noise"]["generation"],
            row["noise"]["judge"],
            row["used"],
            row["left_out"],
            row["n_questions"],
            *row["standard_errors"],
        ),
    )


anoise = asynchronous(noise)
