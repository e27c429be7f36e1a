"""A run on Ray that is steered from another process, beside a run that was planned as it ended."""

from __future__ import annotations

import json
import time
from pathlib import Path

from conftest import Provider, Run

DEPTHS = (1, 2, 3)


def write_experiment(workspace, name: str, url: str, depths: tuple[int, ...], rest: str = "") -> Path:
    """Writes an experiment whose trials differ in how many passages they retrieve."""
    path = workspace.experiment(name, url, rest=f'objective = ["token_f1"]\n{rest}')
    retrievers = ", ".join(f"{{ bm25 = {{ top_k = {depth} }} }}" for depth in depths)
    lines = [
        f"retriever = [{retrievers}]" if line.startswith("retriever")
        else "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]" if line.startswith("chunker")
        else line.replace('model = "gpt"', 'model = "gpt", concurrency = 3, price = { input = 40.0, output = 300.0 }')
        if "chat.openai" in line
        else line
        for line in path.read_text().splitlines()
        if not line.startswith(("embedder", "[models.emb]", "embedding.openai"))
    ]  # fmt: skip
    path.write_text("\n".join(lines))
    return path


def ctl(experiment: Path, *arguments: str) -> dict:
    """Posts an act, as soon as the run has written how it is doing. Gives what was done, with its seconds."""
    for _ in range(300):
        begun = time.monotonic()
        run = Run("ctl", "-f", experiment, *arguments, "--json", folder=experiment.parent).end(60)
        if "goes on in this store" not in run.err:
            assert run.code in (0, 1) and run.out, run.err
            return {**json.loads(run.out), "seconds": time.monotonic() - begun}
        time.sleep(0.2)
    raise AssertionError("no run goes on")


def numbers(results: dict, depth: int) -> dict:
    """What a trial was measured to be, without its id and its times."""
    trial = next(trial for trial in results["trials"] if trial["trial"]["retriever"]["bm25"]["top_k"] == depth)
    return {name: trial[name] for name in ("metrics", "objective", "group", "tied", "p_value", "effect_size")}


def test_a_run_on_ray_is_steered_and_its_statistics_are_those_of_a_run_that_was_planned_so(ray_cluster, workspace):
    provider = Provider(latency={"constant": {"seconds": 0.4}})
    ray = ("--json", "--engine", "ray", "--address", ray_cluster.address)
    try:
        # Three dollars are too little for all answers.
        experiment = write_experiment(workspace, "steered", provider.url, DEPTHS, "budget = { usd = 3.0 }")
        run = Run("run", "-f", experiment, *ray)
        while provider.statistics()["requests"] < 10:
            assert run.process.poll() is None, run.end().err
            time.sleep(0.1)
        acts = [
            ctl(experiment, "stop", "t02"),
            ctl(experiment, "budget", "--usd", "50"),
            ctl(experiment, "limit", "chat gpt", "2"),
            ctl(experiment, "pause"),
            ctl(experiment, "continue"),
        ]
        results = run.succeeds()
        planned = Run("run", "-f", write_experiment(workspace, "planned", provider.url, (1, 3)), *ray).succeeds()
    finally:
        provider.stop()
    print("seconds of acts:", [round(act["seconds"], 2) for act in acts])
    assert [act["refused"] for act in acts] == [False, False, True, False, False], acts
    assert "belong to the cluster" in acts[2]["outcome"]
    assert [act["act"]["act"] for act in results["acts"]] == ["stop_trial", "set_budget", "set_limit", "pause", "continue"]
    assert results["budget"]["caps"]["usd"] == 50.0 and results["budget"]["reached"] is None, results["budget"]
    for trial in results["trials"]:
        if trial["trial"]["id"] == "t02":
            assert trial["stopped"]["kind"] == "by_person" and trial["group"] is None and trial["p_value"] is None
    for depth in (1, 3):
        assert numbers(results, depth) == numbers(planned, depth)


def test_a_pause_on_ray_stops_the_calls_of_all_workers_and_a_trial_that_is_added_is_as_if_it_had_been_planned(ray_cluster, workspace):
    provider = Provider(latency={"constant": {"seconds": 0.4}})
    ray = ("--json", "--engine", "ray", "--address", ray_cluster.address)
    try:
        experiment = write_experiment(workspace, "added", provider.url, (1, 2), "budget = { usd = 50.0 }")
        run = Run("run", "-f", experiment, *ray)
        while provider.statistics()["requests"] < 10:
            assert run.process.poll() is None, run.end().err
            time.sleep(0.1)
        paused = ctl(experiment, "pause")
        # Workers hear of it within a second, and calls in flight end.
        time.sleep(2.0)
        asked = provider.statistics()["requests"]
        time.sleep(3.0)
        assert provider.statistics()["requests"] == asked, "nothing is asked during a pause"
        added = ctl(experiment, "add", "t01", "--set", "retriever.bm25.top_k=3")
        raised = ctl(experiment, "budget", "--usd", "60")
        went_on = ctl(experiment, "continue")
        results = run.succeeds()
        assert asked < 60, f"{asked} of {provider.statistics()['requests']} calls were made before the pause held"
        planned = Run("run", "-f", write_experiment(workspace, "foreseen", provider.url, (1, 2, 3)), *ray).succeeds()
    finally:
        provider.stop()
    acts = [paused, added, raised, went_on]
    print("seconds of acts:", [round(act["seconds"], 2) for act in acts], "calls before the pause:", asked)
    assert [act["refused"] for act in acts] == [False] * 4, acts
    assert added["outcome"].startswith("t03 is added")
    assert results["run"] == added["outcome"].split()[-1]
    assert results["run"].split("-")[-1] == planned["run"].split("-")[-1], "it is the same plan"
    for depth in DEPTHS:
        assert numbers(results, depth) == numbers(planned, depth)
