"""Experiments: which pipeline answers best on these documents?"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from html import escape
from pathlib import Path
from typing import Any, Literal

from reverie import _core
from reverie._background import asynchronous, carry_out
from reverie._command import _connect
from reverie._function_embedders import FunctionEmbedder, to_embedder
from reverie._function_models import ServedModels, function_name, is_model, serve_models, settings, split_functions
from reverie._live import make_watcher
from reverie._live_systems import LiveSystem, serve_systems
from reverie._ragas_rows import plain
from reverie._outcome import check_on_error, report_failures, run_watched
from reverie.answers import Pipeline
from reverie.functions import to_metrics
from reverie.live import LiveRun
from reverie._settings import Component, Part
from reverie.results import Comparison, Results, Trial
from reverie.systems import split_systems
from reverie.tables import Table, format_fixed, html_table, warnings_table


class Experiment:
    """An experiment, from its file or from a dictionary with the same tables.

        experiment = reverie.Experiment("experiment.toml")
        experiment.plan()                 # what would run, what is done already, what the rest should cost
        results = experiment.run()        # Ctrl-C at any time: what is finished is kept
        results.leaderboard().to_pandas()
        experiment.pipeline().query("What is a virtual package?")

    In a dictionary, components can be objects of their classes, such as `reverie.chunker.Sentence(chunk_size=256)`, or
    functions decorated with `reverie.metric`, `reverie.chunker` and so on, and `None` is the same as leaving a setting
    out. Tables and axes can also be keyword arguments, instead of a dictionary or to override it. `dataset` may be
    a data frame, an Arrow table or a list of dictionaries, with the columns of a file of questions (`question`,
    `reference`, `evidence`, or `quote` and `document`); as a text it is the path of a file, as `corpus` is:

        reverie.Experiment(
            name="manuals",
            corpus="docs",
            dataset=frame,
            chunker=[reverie.chunker.Sentence(chunk_size=n) for n in (256, 512)],
            retriever=[reverie.retriever.Bm25(top_k=3)],
        )
    """

    # The scored trials of the last run of this object, if it was interrupted.
    _partial: Results | None = None
    # Of the last run: what stops it, and what is set when its thread has ended.
    _last_run: tuple[_core.Stop | None, threading.Event] | None = None

    def __init__(
        self,
        experiment: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        *,
        base: str | os.PathLike[str] | None = None,
        chunker: Any = None,
        enrich: Any = None,
        embedder: Any = None,
        index: Any = None,
        query: Any = None,
        retriever: Any = None,
        reranker: Any = None,
        refine: Any = None,
        prompt: Any = None,
        generator: Any = None,
        **tables: Any,
    ) -> None:
        """Reads and checks an experiment; nothing is run.

        Args:
            experiment: The path of an experiment file, or what is in one.
            base: The folder that relative paths start from. Default: the file's folder, else the current one.
            chunker: The chunkers to compare, as in `space`: a list, or one.
            enrich: What is written beside chunks, to be searched with them: `reverie.enrich`.
            embedder: The names of embedding models to compare: of `models`, or of the catalogue, as everywhere in an
                experiment where a model is named. A model of the catalogue runs in this process. An `Embeddings` of
                LangChain and a `BaseEmbedding` of LlamaIndex are embedders too, also in `models`.
            index: How vectors are searched: `reverie.vector_indexes`, or `"flat"`, `"hnsw"`.
            query: How a question becomes the queries that are searched for: `reverie.query`.
            retriever: The retrievers to compare.
            reranker: The rerankers to compare.
            refine: What becomes of passages before the answer: `reverie.refine`. A value is a step, or a list of
                steps.
            prompt: What the model is told to do with passages: `grounded`, `brief`, or the path of a TOML file.
            generator: The generators to compare.
            tables: What else a dictionary would hold: `name`, `corpus`, `dataset`, `models`, `evaluate` and so on. In
                `metrics` and `objective` of `evaluate`, functions may stand, decorated or plain. In `systems`, a
                function, a query engine of LlamaIndex or a runnable of LangChain is a system, as `reverie.system` says.

        Raises:
            ValueError: If it has mistakes: all of them, with their keys (in a file their lines) and what to do.
        """
        unknown = _describe_unknown(tables)
        if unknown:
            raise ValueError("\n".join(unknown))
        axes = {"chunker": chunker, "enrich": enrich, "embedder": embedder, "index": index, "query": query}
        axes.update({"retriever": retriever, "reranker": reranker, "refine": refine, "prompt": prompt, "generator": generator})
        axes.update({axis: tables.pop(axis) for axis in _core.axes() if axis in tables})
        space = {axis: value for axis, value in axes.items() if value is not None}
        if experiment is None or isinstance(experiment, Mapping):
            merged = {**(experiment or {}), **tables}
            evaluate = merged.get("evaluate")
            if isinstance(evaluate, Mapping):
                given = {name: evaluate[name] for name in ("metrics", "objective") if evaluate.get(name) is not None}
                merged["evaluate"] = {**evaluate, **{name: to_metrics(value) for name, value in given.items()}}
            if space:
                merged["space"] = {**(merged.get("space") or {}), **space}
            if merged.get("dataset") is not None:
                merged["dataset"] = plain(merged["dataset"])
            self._systems: dict[str, LiveSystem] = {}
            if merged.get("systems"):
                merged["systems"], self._systems = split_systems(merged["systems"])
            merged, functions = _extract_functions(merged)
            self._functions: dict[str, Callable[..., Any]] = functions
            self._core = _core.Experiment(merged, os.path.abspath(base or "."))
            return
        if space or tables:
            names = ", ".join([*space, *tables])
            raise ValueError(f"{names}: cannot be combined with an experiment file, {experiment}")
        path = Path(experiment)
        self._functions, self._systems = {}, {}
        self._core = _core.Experiment(path.read_text(encoding="utf-8"), os.path.abspath(base or path.parent))

    def __getstate__(self) -> dict[str, Any]:
        # Locks cannot be pickled, and the state of the last run belongs to this process.
        return {name: value for name, value in self.__dict__.items() if name not in ("_partial", "_last_run")}

    @property
    def name(self) -> str:
        """Its name."""
        return self._core.name

    @property
    def text(self) -> str:
        """The experiment file's text; of a dictionary, the text that says the same."""
        return self._core.text

    def trials(self) -> Table:
        """All combinations, a row each, before anything is run."""
        trials = self._core.trials()
        axes = list(trials[0]["labels"]) if trials else []
        rows = ([trial["id"], *(trial["labels"].get(axis) for axis in axes)] for trial in trials)
        return Table([("trial", "text"), *((axis, "text") for axis in axes)], rows)

    def plan(self) -> Plan:
        """What a run would do, without doing it. Reads the corpus.

        Raises:
            ValueError: If models, corpus or questions are not as they must be.
            RuntimeError: If something else fails.
        """
        with self._serve_functions():
            return Plan(self.name, self._core.plan(_connect))

    def sample_plan(self, files: int = 200) -> dict[str, Any]:
        """What a first run would cost, estimated from a sample of the corpus' files, as `reverie plan --sample --json`
        prints it. Only the sample is read, and nothing is stored. Each estimate is a dictionary with `estimate`, and with
        the ends of its 95 % interval, `low` and `high`.

        Args:
            files: The most files of the sample, at least 10. Default: 200.

        Raises:
            ValueError: If models, corpus or questions are not as they must be, or if questions must be generated first.
            RuntimeError: If something else fails.
        """
        with self._serve_functions():
            return self._core.sample_plan(files)

    def run(
        self,
        *,
        engine: str | None = None,
        address: str | None = None,
        budget_usd: float | None = None,
        progress: bool | Callable[[dict[str, Any]], Any] | None = None,
        on_error: Literal["warn", "raise"] = "warn",
    ) -> Results:
        """Runs the tasks that are not done yet, and returns the results.

        What is finished is kept and never done or paid again: after Ctrl-C, run it once more.

        Args:
            engine: `local` (this machine) or `ray` (a cluster). Default: what the experiment says.
            address: Where the cluster is: `auto` or `HOST:PORT`. Implies `ray`; with `local` it is refused.
            budget_usd: What this run may cost, in US dollars. At the cap it ends with `Results.partial`.
            progress: A table in a notebook, a line on a terminal, or lines on standard error in a log
                (default), nothing (`False`), or a function that is called up to four times a second with what the
                operators and models are doing.
            on_error: What happens at the end where functions of your own failed, such as a metric that raised or a
                chunker that did not return in time. `warn`: a `FunctionWarning` with their tracebacks, and the
                results, of which `Results.failures()` is a table. `raise`: a `FunctionError` that has the results.
                The default is to warn, since everything else is finished and may have been paid for.

        Raises:
            ValueError: If something is not as it must be; nothing was run.
            FunctionError: With `on_error="raise"`, if functions of your own failed.
            RuntimeError: If something else fails.
            KeyboardInterrupt: After Ctrl-C.

        Warns:
            FunctionWarning: If functions of your own failed.
            UserWarning: If a tracker lacks something of this run, which is complete all the same.
        """
        check_on_error(on_error)
        watching = make_watcher(progress)

        def run(stop: _core.Stop | None) -> Results:
            with self._serve_functions():
                return Results(self._core.run(_connect, engine, address, budget_usd, watching, stop))

        def work(stop: _core.Stop | None) -> Results:
            ended = threading.Event()
            self._partial, self._last_run = None, (stop, ended)
            try:
                return run_watched(watching, lambda: run(stop))
            except KeyboardInterrupt as raised:
                partial = getattr(raised, "_partial", None)
                if partial is not None:
                    self._partial = Results(partial)
                raise
            finally:
                ended.set()

        return carry_out(work, lambda results: report_failures(results, results._function_failures(), on_error))

    arun = asynchronous(run)

    def results(self) -> Results:
        """The results of the last finished run; after `run` of this object was interrupted, those of the trials that are
        scored, with `Results.partial`.

        Raises:
            RuntimeError: If there was none.
        """
        stop, ended = self._last_run or (None, None)
        if stop is not None and ended is not None and stop.is_stopped():
            # The thread finishes the calls that have begun, and then looks what is scored.
            ended.wait(_STOPPING_SECONDS)
            self._last_run = None
        if self._partial is not None:
            return self._partial
        return Results(self._core.results())

    def compare(self, first: str, second: str) -> Comparison:
        """Two trials of the last finished run, metric by metric."""
        return self.results().compare(first, second)

    def best(self) -> Trial:
        """The winner of the last finished run; where none is named, the first of its leaderboard."""
        return self.results().best()

    def report(self) -> str:
        """The report of the last finished run: one HTML page that needs nothing else."""
        return self._core.report()

    def live(self, run: str | None = None) -> LiveRun:
        """The run of this experiment that goes on, to look at it and to steer it: from another thread or process, or from
        another machine that uses the same store.

            live = experiment.live()
            live.add_trial("t01", {"retriever.bm25.top_k": 8})

        Args:
            run: A run by its id, or by the beginning of its id. Needed if several go on.

        Raises:
            RuntimeError: If none goes on, or several do.
        """
        return LiveRun(self._core, run)

    def promote(
        self,
        output: str | os.PathLike[str],
        trial: str | None = None,
        *,
        run: str | None = None,
        into: str | Component | None = None,
        alias: str | None = None,
    ) -> Bundle:
        """Makes a bundle of a trial: everything that is needed to serve it without the store.

            bundle = experiment.promote("bundles/manuals-1")
            app = reverie.Service(bundle.place)

        A bundle holds the settings of the trial, its chunks and indexes, the identities of its models and its scores, and
        is never changed. The models themselves are not in it. `reverie promote` does the same.

        Args:
            output: Where it is made: a folder that does not exist or is empty, or a URL such as `s3://bucket/manuals-1`.
            trial: Such as `t03`. Default: the winner, else the first of the leaderboard.
            run: A run by its id, or by the beginning of its id. Default: the last finished run.
            into: A database, into which chunks and vectors are also written, so that the bundle searches there: a name
                such as `"pgvector"`, an address without a password, or `reverie.vector_index.Pgvector(...)`.
            alias: With `into`: a name in the database that is then pointed to what was written, for other programs.

        Raises:
            ValueError: If `into` names no database, or has a password.
            RuntimeError: If there is no finished run or no such trial, the trial cannot be served, the place is
                taken or cannot be written, or the database cannot be used.
        """
        place = os.fspath(output)
        if alias is not None and into is None:
            raise ValueError("`alias` needs `into`: it is a name in that database")
        database = json.dumps(into.setting()) if isinstance(into, Component) else into
        return Bundle(
            self._core.promote(place if "://" in place else os.path.abspath(place), trial, run, database, alias)
        )

    def pipeline(self, trial: str | None = None, *, budget_usd: float | None = None) -> Pipeline:
        """A trial of the last finished run, to be asked.

        Args:
            trial: Such as `t03`. Default: the winner, else the first of the leaderboard.
            budget_usd: What all questions to it may cost together, in US dollars. Default: no limit; the budget of the
                experiment was that of its run.
        """
        served = ServedModels(self._functions)
        try:
            pipeline = Pipeline(self._core.pipeline(trial, budget_usd), self, budget_usd)
        except BaseException:
            served.end()
            raise
        # Its functions are served as long as somebody may ask it.
        weakref.finalize(pipeline, served.end)
        return pipeline

    @contextmanager
    def _serve_functions(self) -> Iterator[None]:
        """Functions that stand for models, and objects that are systems, can be asked for as long as this lasts."""
        with serve_models(self._functions), serve_systems(self._systems):
            yield

    def __repr__(self) -> str:
        return f"<experiment {self.name}: {len(self._core.trials())} trials>"


# How long `results` waits for a run that was cancelled.
_STOPPING_SECONDS = 30.0
# Functions are looked for so many levels deep; no settings are nested deeper.
_MOST_LEVELS = 64


def _extract_functions(tables: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Callable[..., Any]]]:
    """The tables with functions that stand for models replaced by their names, and the functions by name."""
    models, functions = split_functions(tables.get("models") or {})

    def named(value: Any) -> Any:
        """A function, or an embedding model of LangChain or LlamaIndex, as the name of a model."""
        value = to_embedder(value)
        if not is_model(value):
            return value
        same = getattr(value, "model", None) if isinstance(value, FunctionEmbedder) else None
        known = next(
            (name for name, each in functions.items() if each is value or (same is not None and getattr(each, "model", None) is same)),
            None,
        )
        name = known or function_name(value, {*models, *functions})
        functions[name] = value
        return name

    def walk(value: Any, key: str, depth: int = 0) -> Any:
        if depth > _MOST_LEVELS:
            raise ValueError("settings are nested too deep: do they hold themselves?")
        if key in ("model", "judge", "writer", "embedder"):
            value = [named(each) for each in value] if isinstance(value, (list, tuple)) else named(value)
        if isinstance(value, Part):
            changed = {field.name: walk(getattr(value, field.name), field.name, depth + 1) for field in dataclasses.fields(value)}
            return dataclasses.replace(value, **changed)
        if isinstance(value, Mapping):
            return {each: walk(inner, each, depth + 1) for each, inner in value.items()}
        if isinstance(value, list):
            return [walk(each, "", depth + 1) for each in value]
        return value

    walked = {key: value if key in ("models", "dataset", "systems") else walk(value, key) for key, value in tables.items()}
    if functions:
        walked["models"] = {**models, **{name: settings(name, function) for name, function in functions.items()}}
    return walked, functions


def _describe_unknown(given: Mapping[str, Any]) -> list[str]:
    """The messages about parameters that an experiment does not have."""
    sections, axes, evaluate, metrics = _core.experiment_names()
    messages = []
    for name in given:
        if name in sections or name in axes:
            continue
        meant = get_close_matches(name, [*sections, *axes, *evaluate, *metrics], n=1, cutoff=0.7)
        word = meant[0] if meant and name not in (*evaluate, *metrics) else name
        if word in sections or word in axes:
            hint = f"did you mean `{word}`?"
        elif word in evaluate:
            hint = f'`{word}` stands in `evaluate`: evaluate={{"{word}": …}}'
        elif word in metrics:
            hint = f'`{word}` is a metric: evaluate={{"metrics": ["{word}"]}}'
        else:
            hint = f"there are {', '.join([*sections, *axes])}"
        messages.append(f"Experiment: unknown parameter `{name}`; {hint}")
    return messages


class Bundle:
    """A bundle of a trial that was made, for `reverie.Service` or `reverie serve`."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.place: str = data["place"]
        """The folder or the URL."""
        self.name: str = data["name"]
        """The experiment's name, by which clients ask for it."""
        self.trial: str = data["trial"]
        """The trial's id."""
        self.run: str = data["run"]
        """The id of its run."""
        self.digest: str = data["digest"]
        """The digest of the whole bundle, which is the version that a service states."""
        self.bytes: int = data["bytes"]
        """The size of its files."""
        self.settings: dict[str, Any] = data["settings"]
        """The trial's value on each axis, with all settings."""
        self.database: dict[str, Any] | None = data["database"]
        """Where the vectors are, if they were put into a database: `address`, `collection`, `rows`, `alias`, and under
        `found` the share of the nearest chunks that a search finds there (`recall`)."""
        self.notes: list[str] = data["notes"]
        """Why this may not be the trial that you expect, a sentence each: no winner was named, or the run was started
        with other settings than those of the experiment file."""

    def __repr__(self) -> str:
        lines = [f"<bundle {self.place}: trial {self.trial} of run {self.run}, {self.bytes / 1e6:.1f} MB>"]
        return "\n".join([*lines, *self.notes])


class Plan:
    """What a run would do."""

    def __init__(self, name: str, data: dict[str, Any]) -> None:
        self._data = data
        self.name = name
        """The experiment's name."""
        self.trials: int = self._data["trials"]
        """How many combinations there are."""
        self.cost: dict[str, Any] | None = self._data.get("cost")
        """What the rest should cost: calls, tokens and dollars, of all models and by model."""

    @property
    def data(self) -> dict[str, Any]:
        """Everything, as `reverie plan --json` prints it."""
        return self._data

    def operators(self) -> Table:
        """A row per operator: tasks if no trial shared any (`planned`), the different ones among them (`unique`), and
        how many of these are in the store already (`stored`)."""
        counts = ("planned", "unique", "stored")
        columns = [("operator", "text"), *((name, "count") for name in counts), ("detail", "text")]
        rows = (
            [each["operator"], *(each[name] for name in counts), each["detail"]] for each in self._data["operators"]
        )
        return Table(columns, rows)

    def warnings(self) -> Table:
        """A row per warning that is known before the run: what would put trials at a disadvantage. The columns are
        those of `reverie.Results.warnings`."""
        return warnings_table(self._data["warnings"])

    def _summary(self) -> str:
        text = f"{self.name}: {self.trials} trials"
        if self.cost:
            usd = self.cost["cost_usd"]
            money = "an unknown price" if usd is None else f"$ {format_fixed(usd, 4)}"
            text += f"; about {self.cost['calls']:,} calls, {self.cost['tokens']:,} tokens, {money}"
            if self.cost["exceeds"]:
                text += f"; more than the budget of {', '.join(map(str, self.cost['exceeds']))}"
        return text

    def __repr__(self) -> str:
        warnings = [f"Warning ({each['code']}): {each['text']}." for each in self._data["warnings"]]
        return "\n".join([self._summary(), *warnings, repr(self.operators())])

    def _repr_html_(self) -> str:
        page = f"<p><b>{escape(self._summary())}</b></p>"
        if self._data["warnings"]:
            page += f"<p>{'<br>'.join(escape(each['text']) for each in self._data['warnings'])}</p>"
        page += self.operators()._repr_html_()
        if self.cost and self.cost["models"]:
            names = ["model", "calls", "tokens read", "tokens written, at most", "$"]
            page += html_table(
                names,
                [
                    [(each["model"], False)]
                    + [(f"{each['calls']:,}", True)]
                    # The tokens of a system are not known before it replies.
                    + [
                        ("–" if each.get("is_system") else f"{each[name]:,}", True)
                        for name in ("prompt_tokens", "completion_tokens")
                    ]
                    + [("–" if each["cost_usd"] is None else format_fixed(each["cost_usd"], 4), True)]
                    for each in self.cost["models"]
                ],
            )
        return page
