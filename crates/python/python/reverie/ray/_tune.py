"""An experiment's trials for Ray Tune: its searchers choose combinations, its schedulers stop bad ones.

Each Tune trial is the experiment with its space reduced to one combination. It answers more and more of the
questions, and reports after every batch. All trials and batches share the experiment's store, so that no stage is
computed twice.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Iterable

from reverie import _core
from reverie._command import _connect
from reverie.ray._environment import driver_environment

AXES = tuple(_core.axes())
BATCH = 8


def space(experiment: str | Path | dict[str, Any], *, grid: bool = False) -> dict[str, Any]:
    """What `Tuner(param_space=…)` takes: an experiment's axes, each a choice, or a grid to be searched whole."""
    from ray import tune

    axes = _read(experiment)[0].get("space", {})
    of = tune.grid_search if grid else tune.choice
    return {axis: of(_values(axes[axis])) for axis in AXES if axis in axes}


def tunable(
    experiment: str | Path | dict[str, Any],
    *,
    batch: int = BATCH,
    questions: int | None = None,
    engine: str = "local",
    environment: Iterable[str] = (),
) -> Callable[[dict[str, Any]], None]:
    """A function for `Tuner`: runs the combination in its config and reports after every `batch` of questions.

    It reports `objective`, every metric's mean by its name, `cost_usd` if it is known, and `questions`, the number answered so
    far. A scheduler takes that number as its time:
    `ASHAScheduler(time_attr="questions", metric="objective", mode="max", max_t=…)`.
    Without a generator there are no batches: retrieval is scored for all questions at once, in one report.

    Args:
        experiment: the file, or what is in it as a dictionary. Its folder (of a dictionary: the working folder),
            corpus and store must be the same for every node: a shared folder, or `s3://…`.
        batch: questions answered between reports.
        questions: how many at most; `answered` of the experiment if not given, else all.
        engine: `local` runs a trial where Tune placed it. With `ray` a trial only waits for the cluster's workers:
            let it ask for no CPU (`tune.with_resources(…, {"cpu": 0})`).
        environment: variables of this process that trials need, such as `OPENAI_API_KEY`.
    """
    if batch < 1:
        raise ValueError("batch: at least one question")
    given, base = _read(experiment)
    # Mistakes are reported here, not by every trial.
    _core.Experiment(given, base)
    limit = questions or given.get("evaluate", {}).get("answered")
    secrets = driver_environment(environment)

    def trial(config: dict[str, Any]) -> None:
        from ray import tune

        secrets.set_missing()
        reduced = _reduced(given, config, tune.get_context().get_trial_id())
        if "generator" not in reduced["space"]:
            tune.report(_report(_results(reduced, base, engine)))
            return
        asked = 0
        while limit is None or asked < limit:
            asked = asked + batch if limit is None else min(asked + batch, limit)
            reduced["evaluate"] = {**reduced.get("evaluate", {}), "answered": asked}
            results = _results(reduced, base, engine)
            total = len(results["questions"])
            tune.report(_report(results, min(asked, total)))
            if asked >= total:
                return

    return trial


def _read(experiment: str | Path | dict[str, Any]) -> tuple[dict[str, Any], str]:
    """An experiment as a dictionary, and the folder that its paths start from."""
    if isinstance(experiment, dict):
        return experiment, os.getcwd()
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        try:
            import tomli as tomllib  # type: ignore[no-redef]
        except ModuleNotFoundError as error:
            raise RuntimeError("before Python 3.11, reading an experiment file needs tomli: pip install tomli") from error
    path = Path(experiment).resolve()
    return tomllib.loads(path.read_text()), str(path.parent)


def _values(axis: Any) -> list[Any]:
    return axis if isinstance(axis, list) else [axis]


def _reduced(given: dict[str, Any], config: dict[str, Any], trial: str) -> dict[str, Any]:
    """The experiment with one value on every axis."""
    unknown = sorted(set(config) - set(AXES))
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no axis of an experiment; there are {', '.join(AXES)}")
    axes = {**given.get("space", {}), **config}
    several = [axis for axis, values in axes.items() if len(_values(values)) != 1]
    if several:
        raise ValueError(f"{', '.join(several)}: Tune set no value, and the experiment has several; use `param_space=space(…)`")
    # A run's results are stored under the experiment's name, so each trial needs a name of its own.
    name = f"{given.get('name', 'experiment')}-{trial}"
    # Tune decides which questions are asked and which trials are stopped.
    rest = {key: value for key, value in given.items() if key not in ("search", "engine")}
    return {**rest, "name": name, "space": {axis: _values(values) for axis, values in axes.items()}}


def _results(experiment: dict[str, Any], base: str, engine: str) -> dict[str, Any]:
    return json.loads(_core.Experiment(experiment, base).run(_connect, engine).text())


def _report(results: dict[str, Any], questions: int | None = None) -> dict[str, Any]:
    (trial,) = results["trials"]
    if not results["objective"]:
        raise ValueError("the experiment does not say what is better: add `objective = [\"ndcg\"]`, or other metrics, under [evaluate]")
    if trial["objective"] is None:
        raise RuntimeError("; ".join(trial["failures"]) or f"nothing of {', '.join(results['objective'])} could be scored")
    report: dict[str, Any] = {name: summary["mean"] for name, summary in trial["metrics"].items()}
    report["objective"] = trial["objective"]["mean"]
    report["questions"] = len(results["questions"]) if questions is None else questions
    if trial["cost_usd"] is not None:
        report["cost_usd"] = trial["cost_usd"]
    report["executed"], report["reused"] = results["executed"], results["reused"]
    return report
