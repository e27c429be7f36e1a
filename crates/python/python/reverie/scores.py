"""Scores of the answers of any system: what `reverie.evaluate` finds."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from reverie import _core
from reverie._background import asynchronous, carry_out
from reverie._function_models import Model, limit_concurrency, serve_functions, as_models
from reverie._live import make_watcher
from reverie._outcome import check_on_error, report_failures, run_watched
from reverie._own_metrics import serve_metrics
from reverie._ragas_rows import plain
from reverie.functions import to_metrics
from reverie.results import Comparison
from reverie.stages import to_core_documents
from reverie.tables import Table, html_table, format_interval, format_value

if TYPE_CHECKING:
    import pandas
    import polars


def evaluate(
    data: Any,
    metrics: Sequence[Any] | Any,
    *,
    judge: Model | Sequence[Model] | None = None,
    embedder: str | None = None,
    models: Mapping[str, Any] | None = None,
    budget_usd: float | None = None,
    store: str | os.PathLike[str] | None = None,
    documents: Any = None,
    attempts: int | None = None,
    deadline_seconds: float | None = None,
    concurrency: int | None = None,
    progress: bool | Callable[[dict[str, Any]], Any] | None = None,
    on_error: Literal["warn", "raise"] = "warn",
) -> Scores:
    """Scores the answers of any system, whoever made them.

        scores = reverie.evaluate(frame, metrics=["faithfulness", short], judge="gpt", models={"gpt": …})
        scores.to_pandas()                # a row per answer, a column per metric
        scores.means()                    # means with their intervals, and what is missing

    Everything that can be checked is checked before a model is asked. A call that was paid once is in the journal of
    `store`, and never paid again; the same holds for a function as judge, until its source or its `version` changes
    (`reverie.model`).

    Metrics of retrieval need places in documents. A context is a text, or a dictionary of `text`, `document` (its path)
    and its place in the document's text: `start` and `end` in characters, with `documents`, or `start_byte` and `end_byte`
    in bytes. With `documents`, a place that does not hold its text is an error. `evidence` is a list of dictionaries of
    `document`, `quote`, and `start_byte` and `end_byte`; with `documents` the quotes are looked for.

    Args:
        data: The answers: a data frame of pandas or Polars, an Arrow table, a list of dictionaries, a dataset of
            Ragas (of a conversation, the answer to its last question), or the path of a file (CSV, TSV, JSONL, Parquet). Its columns are `question`, `answer`, `contexts`
            (a list of texts), `reference`, and optionally `id`, `answerable`, `evidence`, `tags`; also by the names of
            Ragas (`user_input`, `response`, `retrieved_contexts`) and DeepEval (`input`, `actual_output`,
            `retrieval_context`, `expected_output`). Metrics do not see the citations in an answer: `[1]` and so
            on, up to the number of its contexts; without a column of contexts, up to `[99]` after a space, a full stop
            or another citation.
        metrics: What to score by: names such as `"token_f1"`, objects such as `reverie.metric.Faithfulness()`,
            dictionaries as in an experiment, and functions, decorated with `reverie.metric` or plain. A function
            that stands by itself runs in a process of its own. A closure, a lambda, a method, an object that can be
            called, or a function that uses names of your program is called in this process: one call at a time,
            of an `async def` 16 calls at once, or `concurrency`. A function is given what its parameters are named after:
            `question`, `answer`, `reference`, `contexts`, and `columns`, a dictionary of the row's other columns.
        judge: The model that judges: the name of one of `models`, or of a chat model of the catalogue, which runs
            here; or a function of your own. Of several the majority decides. A function gets the messages, a list of
            dictionaries with `role` and `content`; where JSON is wanted, the first states its schema. It returns the
            reply: a text, or a dictionary that matches the schema. It may be an `async def`, runs in this process, and
            may be called by several threads at once:

                def judge(messages):
                    # [{"role": "system", "content": "… JSON Schema: {…}"}, {"role": "user", "content": "<context>…"}]
                    prompt = " ".join(message["content"] for message in messages)
                    reply = client.complete(prompt, max_tokens=1000)    # whatever you call
                    return reply.text                                   # or a dictionary, such as {"verdicts": […]}

        embedder: The model that compares meanings: the name of one of `models`, or of an embedding model of the
            catalogue.
        models: Models by name, as in an experiment, or functions: `{"gpt": {"chat": {"openai": {"model": "gpt-4o-mini"}}}}`
            is OpenAI's, with the key in `OPENAI_API_KEY`.
        budget_usd: What this may cost, in US dollars. At the cap it ends with `Scores.partial`. Each model needs its price
            then, in US dollars per million tokens: `"price": {"input": 0.15, "output": 0.6}` beside `"model"`.
        store: The folder of the journal of paid calls. Default: `.reverie`, as in experiments.
        documents: The documents that places in `data` refer to: what `reverie.parse` gave or takes, or a data frame, an
            Arrow table or dictionaries with `path` and `text`. Places are checked in them, and evidence is found in
            them, also if `data` is a file. A place that is written as `span` counts bytes if `data` is a file, else
            characters.
        attempts: How often a call of a model is tried at most when it fails, at least 1. Default: 8.
        deadline_seconds: How long this may take, in seconds. After that nothing is asked or tried again, and it ends
            with `Scores.partial`. Calls of models that are under way then are kept for the next time. Default: as long as
            it takes.
        concurrency: How many calls of a function of your own run at once, as judge or as `async def` metric, 1 to 256.
            Default: 16 of a metric, up to 256 of a judge. Other metrics are called one at a time.
        progress: As in `reverie.Experiment.run`.
        on_error: What happens at the end where functions of your own failed, as metrics or as judges. `warn`: a
            `FunctionWarning` with their tracebacks. `raise`: a `FunctionError`, of which `results` are the scores.

    Raises:
        ValueError: If data, metrics or models are not as they must be: all mistakes, each with the number of its row
            (from 0), its parameter, or its line in a file. No model was called.
        TypeError: If `data` is none of these.
        FunctionError: With `on_error="raise"`, if functions of your own failed.
        RuntimeError: If something else fails.
        KeyboardInterrupt: After Ctrl-C. `reverie.stopped_scores()` has what was scored before.

    Warns:
        FunctionWarning: If functions of your own failed.
    """
    check_on_error(on_error)
    own_judges = [limit_concurrency(each, concurrency) for each in as_models(judge)]
    own_metrics = to_metrics(metrics, concurrency, in_this_process=True)
    held_documents = None if documents is None else to_core_documents(documents)
    watching, base, data = make_watcher(progress), os.getcwd(), plain(data)

    def score(stop: _core.Stop | None) -> Scores:
        with serve_functions(own_judges, models) as (judges, known), serve_metrics(own_metrics) as named:
            tables = {"store": store, "evaluate": {"metrics": named or None}, "models": known}
            limits = (stop, held_documents, attempts, deadline_seconds)
            return Scores(_core.score(data, tables, judges, embedder, base, budget_usd, watching, *limits))

    def work(stop: _core.Stop | None) -> Scores:
        global _stopped
        _stopped = None
        try:
            scores = run_watched(watching, lambda: score(stop))
        except KeyboardInterrupt as raised:
            scored = getattr(raised, "_partial", None)
            if scored is not None:
                _stopped = Scores(scored)
            raise
        if stop is not None and stop.is_stopped():
            # All rows were scored before the stop took effect. The caller gets an exception, so keep the scores.
            _stopped = scores
        return scores

    return carry_out(work, lambda scores: report_failures(scores, scores.data["failed_functions"], on_error))


aevaluate = asynchronous(evaluate)


def compare(
    first: Any, second: Any, metrics: Sequence[Any] | Any = None, *, names: tuple[str, str] | None = None, **options: Any
) -> Comparison:
    """Compares two systems, metric by metric, on the questions that both answered.

        reverie.compare("mine.csv", "theirs.csv", ["token_f1"]).real()    # the metrics in which they differ
        reverie.compare(scores, results.scores("t04"))                    # my answers with a trial of an experiment

    The difference is the first minus the second, question by question, with its 95 % interval and p-values; see
    `Scores.compare`. Scores that were made already are taken as they are. Answers are scored first, both by the same
    metrics.

    Args:
        first: The scores of a system (what `evaluate` and `Results.scores` return), or its answers in any form that
            `evaluate` takes.
        second: The same of the other system.
        metrics: What answers are scored by, as in `evaluate`. Not needed if both are scores.
        names: The names of the two systems in the printed comparison. Default: the names of their files or trials.
        options: What else `evaluate` takes, such as `judge` and `documents`, for answers.

    Raises:
        ValueError: As `Scores.compare`; or as `evaluate`, if answers are scored.
        TypeError: If answers are given without `metrics`, or scores with `metrics` or options that would change nothing.
    """
    unscored = [each for each in (first, second) if not isinstance(each, Scores)]
    if unscored and metrics is None:
        raise TypeError('compare: answers need `metrics`, such as compare(mine, theirs, ["token_f1"])')
    if not unscored and (metrics is not None or options):
        given = ", ".join([*(["metrics"] if metrics is not None else []), *options])
        raise TypeError(f"compare: both are scores already, so {given} would change nothing: leave it out")
    one, other = (
        each if isinstance(each, Scores) else evaluate(each, metrics, **options) for each in (first, second)
    )
    return one.compare(other, names=names)


_stopped: Scores | None = None


def stopped_scores() -> Scores:
    """What `evaluate` or `aevaluate` had scored when Ctrl-C, a notebook's stop button, or the cancellation of its task
    stopped it. Scores that are missing for this reason are `cancelled`, and `Scores.partial` says how many scores there are.

        scores = reverie.evaluate(frame, metrics=["faithfulness"], judge="gpt", models=models)    # stopped
        scores = reverie.stopped_scores()

    The last call in this process counts. Replies of judges are in the journal, so that scoring again pays for none of
    them twice.

    Raises:
        RuntimeError: If the last call was not stopped, or still waits for its calls of models.
    """
    if _stopped is None:
        raise RuntimeError("no scores were stopped: the last `reverie.evaluate` was not stopped, or none ran in this process")
    return _stopped


class Scores:
    """Scores of answers: a row per answer, a column per metric.

    `scores["faithfulness"]` are the scores of a metric, in the order of the answers. It is a table as `table()` is:
    `list(scores)`, `pandas.DataFrame(scores)` and `polars.DataFrame(scores)` take its rows.
    """

    def __init__(self, text: str) -> None:
        """Reads the JSON text that `Scores.data` was made of."""
        self.data: dict[str, Any] = _read(text)
        """Everything: metrics, rows with what the judges said, calls and tokens by model, the budget."""
        self.metrics: list[str] = [metric["name"] for metric in self.data["metrics"]]
        """The names of the metrics."""
        self.partial: str | None = self.data["partial"]
        """Why not everything was scored, if the budget, the deadline or a person ended it early."""

    def __reduce__(self) -> tuple[type[Scores], tuple[str]]:
        return type(self), (json.dumps(self.data),)

    def __len__(self) -> int:
        return len(self.data["rows"])

    def __getitem__(self, metric: str) -> list[float | None]:
        """The scores of a metric, in the order of the answers."""
        if metric not in self.metrics:
            raise KeyError(f"there is no metric {metric!r}; there are {', '.join(self.metrics)}")
        return [row["scores"][metric]["value"] for row in self.data["rows"]]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `table()`."""
        return self.table().columns

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows of `table()`, as dictionaries."""
        return iter(self.table())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table().__arrow_c_stream__(requested_schema)

    def table(self) -> Table:
        """A row per answer, in their order, and a column per metric; `missing` says by metric why scores are missing.

        `row` counts the answers from 0; in a file it is the line, from 1.
        """
        columns = [("row", "count"), ("question_id", "text"), ("question", "text")]
        columns += [*((name, "real") for name in self.metrics), ("missing", "struct")]
        rows = []
        for row in self.data["rows"]:
            scores = row["scores"]
            missing = {name: scores[name]["reason"] for name in self.metrics if "reason" in scores[name]}
            values = (scores[name]["value"] for name in self.metrics)
            rows.append([row["row"], row["id"], row["question"], *values, missing or None])
        return Table(columns, rows)

    def means(self) -> Table:
        """A row per metric: its mean with the ends of the 95 % interval, and how many answers have a score.

        `missing` says why the others have none; `judged` whether a judge gave it.
        """
        columns = [("metric", "text"), ("mean", "real"), ("low", "real"), ("high", "real")]
        columns += [("n_scored", "count"), ("n_total", "count"), ("missing", "text")]
        columns += [("judged", "truth"), ("higher_is_better", "truth")]
        names = ("name", "mean", "low", "high", "n_scored", "n_total")
        rows = (
            [*(each[name] for name in names), _format_reasons(each) or None, each["judged"], each["higher_is_better"]]
            for each in self.data["metrics"]
        )
        return Table(columns, rows)

    def missing(self) -> Table:
        """A row per score that is missing, with the reason: in one word, and in full."""
        columns = [("row", "count"), ("question_id", "text"), ("metric", "text"), ("kind", "text"), ("reason", "text")]
        rows = (
            [row["row"], row["id"], name, score["missing"], score["reason"]]
            for row, name, score in self._scores()
            if "reason" in score
        )
        return Table(columns, rows)

    def details(self) -> Table:
        """A row per answer and metric, with what is needed to check the score, as a dictionary: what a judge said, the
        statements that it looked at, or the reason that a function gave. In data frames it is a structure with the
        fields of all metrics."""
        columns = [("row", "count"), ("question_id", "text"), ("metric", "text"), ("score", "real"), ("detail", "struct")]
        rows = (
            [row["row"], row["id"], name, score["value"], score["detail"]]
            for row, name, score in self._scores()
        )
        return Table(columns, rows)

    def compare(self, other: Scores, *, names: tuple[str, str] | None = None) -> Comparison:
        """Compares these scores with those of another system, metric by metric, on the questions that both answered.

            mine = reverie.evaluate("mine.csv", ["token_f1"])
            theirs = reverie.evaluate("theirs.csv", ["token_f1"])
            mine.compare(theirs, names=("mine", "theirs")).real()    # the metrics in which they differ

        Differences are these scores minus those of `other`, question by question. Answers are matched by `question_id`,
        or by the question's text if one of the two systems has no ids. A question that only one system answered counts
        in `n_total` and in nothing else.

        Args:
            other: The scores of the other system's answers.
            names: The names of the two systems in the printed comparison. Default: those of their files or trials, or
                `first` and `second`.

        Raises:
            ValueError: If the systems share no metric or no question, if a question appears twice, if one id belongs to
                two different questions, or if a shared metric was judged by different judges.
        """
        default = ("first", "second")
        found = (self._label() or default[0], other._label() or default[1])
        first, second = names or (found if found[0] != found[1] else default)
        return Comparison(first, second, _core.compare_scores(self.data, other.data))

    def failures(self) -> Table:
        """What functions of your own failed at, as metrics or as judges, a row each, with the traceback."""
        return failures_table(self.data["function_failures"])

    def to_pandas(self) -> pandas.DataFrame:
        """`table()` as a `pandas.DataFrame`. Needs pandas and pyarrow."""
        return self.table().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """`table()` as a `polars.DataFrame`. Needs Polars and pyarrow."""
        return self.table().to_polars()

    def _label(self) -> str | None:
        """The name of the file or the trial that the scores are of; rows have none."""
        name: str = self.data.get("file", "data")
        return None if name == "data" else os.path.basename(name)

    def _scores(self) -> list[tuple[dict[str, Any], str, dict[str, Any]]]:
        return [(row, name, row["scores"][name]) for row in self.data["rows"] for name in self.metrics]

    def _display_rows(self) -> list[list[str]]:
        rows = []
        for each in self.data["metrics"]:
            name = each["name"] + "*" * each["judged"] + ("" if each["higher_is_better"] else " (less is better)")
            mean = format_value(each["mean"])
            if each["low"] is not None:
                mean += f" {format_interval(each['low'], each['high'], 3)}"
            rows.append([name, mean, f"{each['n_scored']} of {each['n_total']}", _format_reasons(each)])
        return rows

    def __repr__(self) -> str:
        table = Table([("metric", "text"), ("mean [95 %]", "text"), ("n", "text"), ("missing", "text")], self._display_rows())
        return "\n".join([repr(table), *self.data["notes"]])

    def _repr_html_(self) -> str:
        names = ["metric", "mean [95 %]", "n", "missing"]
        rows = [[(cell, i in (1, 2)) for i, cell in enumerate(row)] for row in self._display_rows()]
        notes = "<br>".join(escape(note) for note in self.data["notes"])
        return html_table(names, rows) + (f'<p style="opacity:.6">{notes}</p>' if notes else "")


def _read(text: str) -> dict[str, Any]:
    """Reads the JSON with the garbage collector off: with many rows it would scan all of them many times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return json.loads(text)
    finally:
        if was_enabled:
            gc.enable()


def failures_table(failures: Sequence[dict[str, Any]]) -> Table:
    """A row for each failure of a function of the user's own where answers are scored."""
    names = ("metric", "question_id", "function", "file", "kind", "message", "traceback")
    of = {"metric": "label", "question_id": "question"}
    rows = ([each[of.get(name, name)] for name in names] for each in failures)
    return Table([(name, "text") for name in names], rows)


def _format_reasons(metric: dict[str, Any]) -> str:
    """How many scores are missing, by the reason."""
    words = {"budget": "not asked: budget"}
    return ", ".join(f"{n} {words.get(reason, reason.replace('_', ' '))}" for reason, n in metric["missing"].items())
