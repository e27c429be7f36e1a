"""`reverie.ray.tunable`: Tune's searchers and schedulers drive trials, and nothing is computed twice."""

from __future__ import annotations

import pytest
from conftest import Workspace

tune = pytest.importorskip("ray.tune")
import ray  # noqa: E402
from ray.tune.schedulers import ASHAScheduler  # noqa: E402

from reverie.ray import space, tunable  # noqa: E402

QUESTIONS = 24


@pytest.fixture
def joined(ray_cluster):
    """The tests' cluster, of which this process is a driver."""
    ray.init(address=ray_cluster.address, namespace="reverie", logging_level="warning", log_to_driver=False)
    yield ray_cluster
    ray.shutdown()


def experiment(workspace: Workspace, url: str):
    """Four ways to search by words. The fewer passages, the more of them are right."""
    path = workspace.folder / "experiment.toml"
    retrievers = ", ".join(f"{{ bm25 = {{ top_k = {k} }} }}" for k in (1, 4, 8, 12))
    path.write_text(
        f"""name = "mills"
store = "{workspace.folder / "store"}"
[corpus]
source = "{workspace.folder / "docs"}"
[dataset]
path = "golden.jsonl"
[models.gpt]
chat.openai = {{ model = "gpt", base_url = "{url}/v1", price = {{ input = 1, output = 4 }} }}
[space]
chunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}]
retriever = [{retrievers}]
generator = [{{ compact = {{ model = "gpt" }} }}]
[evaluate]
metrics = ["precision", "token_f1"]
objective = ["precision"]
"""
    )
    return path


def test_asha_stops_what_is_behind_and_no_answer_is_paid_twice(joined, tmp_path, provider):
    workspace = Workspace(tmp_path, documents=QUESTIONS)
    path = experiment(workspace, provider.url)
    scheduler = ASHAScheduler(
        time_attr="questions", metric="objective", mode="max", max_t=QUESTIONS, grace_period=8, reduction_factor=2
    )
    tuner = tune.Tuner(
        tunable(path, batch=8),
        param_space=space(path, grid=True),
        # One after the other, best first: who comes later has somebody to be behind.
        tune_config=tune.TuneConfig(scheduler=scheduler, max_concurrent_trials=1),
        run_config=tune.RunConfig(storage_path=str(tmp_path / "tune"), verbose=0),
    )
    found = tuner.fit()
    assert len(found) == 4 and not found.errors
    best = found.get_best_result("objective", "max")
    assert best.config["retriever"] == {"bm25": {"top_k": 1}}
    assert best.metrics["questions"] == QUESTIONS
    answered = [result.metrics["questions"] for result in found]
    assert sorted(answered)[0] < QUESTIONS, "somebody was stopped"
    # A report for every batch, each of them with the same first questions for all.
    assert list(best.metrics_dataframe["questions"]) == [8, 16, 24]
    assert {"precision", "token_f1", "objective"} <= set(best.metrics) and best.metrics["cost_usd"] > 0
    # Answers of a batch are not asked for again by the next; a stopped trial may have begun its next.
    asked = provider.statistics()["requests"]
    assert sum(answered) <= asked <= sum(answered) + 8 * len(found)
    # The corpus was parsed, cut and indexed once for all four: every batch but the very first finds that done.
    rows = [row for result in found for row in result.metrics_dataframe.to_dict("records")]
    most = max(row["executed"] for row in rows)
    assert [row["executed"] for row in rows].count(most) == 1 and most >= 8
    assert all(row["executed"] <= most - 2 and row["reused"] >= 2 for row in rows if row["executed"] < most)


def test_a_search_over_retrieval_alone_reports_once(joined, tmp_path):
    workspace = Workspace(tmp_path, documents=QUESTIONS)
    given = {
        "name": "mills",
        "store": str(tmp_path / "store"),
        "corpus": {"source": str(workspace.folder / "docs")},
        "dataset": {"path": str(workspace.folder / "golden.jsonl")},
        "space": {"chunker": ["sentence"], "retriever": [{"bm25": {"top_k": 2}}, {"bm25": {"top_k": 5}}]},
        "evaluate": {"metrics": ["precision"], "objective": ["precision"]},
    }
    found = tune.Tuner(
        tunable(given),
        param_space=space(given, grid=True),
        tune_config=tune.TuneConfig(metric="objective", mode="max", max_concurrent_trials=1),
        run_config=tune.RunConfig(storage_path=str(tmp_path / "tune"), verbose=0),
    ).fit()
    assert [len(result.metrics_dataframe) for result in found] == [1, 1]
    assert all(result.metrics["questions"] == QUESTIONS for result in found)
    assert found.get_best_result().config["retriever"] == {"bm25": {"top_k": 2}}


def test_mistakes_of_the_experiment_are_told_before_tune_starts(tmp_path):
    with pytest.raises(ValueError, match="retreiver"):
        tunable({"name": "x", "store": str(tmp_path), "corpus": {"source": "."}, "space": {"retreiver": ["bm25"]}})
    with pytest.raises(ValueError, match="batch"):
        tunable({}, batch=0)


def test_a_config_that_names_no_axis_is_refused(tmp_path):
    from reverie.ray import _tune

    with pytest.raises(ValueError, match="temperature: no axis"):
        _tune._reduced({"space": {}}, {"temperature": 1}, "t")
    with pytest.raises(ValueError, match="chunker: Tune set no value"):
        _tune._reduced({"space": {"chunker": ["token", "sentence"]}}, {}, "t")
