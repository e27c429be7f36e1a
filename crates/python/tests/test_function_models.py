"""Functions as chat models: in experiments and evaluations, what is kept of their replies, and who is asked anew."""

from __future__ import annotations

import functools
import threading
import time

import pytest

import reverie
from reverie import experiment as _experiment
from reverie._function_models import FunctionModel, ServedModels, digest
from workspace import settings

ROWS = [
    {"question": f"q{i}", "answer": "The mill is old.", "contexts": ["The mill is old."], "reference": "old"}
    for i in range(3)
]


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    """The journal is in the current folder."""
    monkeypatch.chdir(tmp_path)


def counted():
    """A model that counts its calls."""
    calls = []

    def answer(messages):
        calls.append(messages)
        return "1700"

    return answer, calls


def test_a_function_stands_wherever_an_experiment_names_a_model(small):
    answer, calls = counted()
    changes = settings(small, "http://127.0.0.1:1", name="functions")
    changes["models"] = {"app": answer}
    changes["space"] = {**changes["space"], "generator": [{"compact": {"model": "app"}}]}
    experiment = reverie.Experiment(changes)
    assert "function:" in experiment.text and "127.0.0.1" not in experiment.text
    results = experiment.run(progress=False)
    asked = len(calls)
    assert asked > 0 and results.questions()["answer"][0].startswith("1700")
    assert experiment.pipeline().query("When was the mill number 3 built?").text.startswith("1700")
    # Again, and from another object: nothing is asked anew.
    asked = len(calls)
    reverie.Experiment(changes).run(progress=False)
    assert len(calls) == asked


def function_experiment(small, **models):
    """An experiment whose generator is the first of these functions."""
    changes = settings(small, "http://127.0.0.1:1", name="functions")
    changes["models"] = models
    changes["space"] = {**changes["space"], "generator": [{"compact": {"model": next(iter(models))}}]}
    return reverie.Experiment(changes)


def beside(monkeypatch, **functions):
    """Whenever an experiment serves its functions, another run serves these, right after it."""
    others = []

    class Both(ServedModels):
        def __init__(self, own):
            super().__init__(own)
            others.append(ServedModels(functions))

    monkeypatch.setattr(_experiment, "ServedModels", Both)
    return others


def test_another_run_with_an_equal_function_may_end_first(small, monkeypatch):
    answer, calls = counted()
    experiment = function_experiment(small, app=answer)
    experiment.run(progress=False)
    others = beside(monkeypatch, app=answer)
    pipeline = experiment.pipeline()
    asked = len(calls)
    others[0].end()
    time.sleep(1)
    assert pipeline.query("When was the mill number 9 built?").text.startswith("1700")
    assert len(calls) == asked + 1


def test_another_run_may_give_an_equal_function_another_name(small, monkeypatch):
    answer, _ = counted()
    experiment = function_experiment(small, app=answer)
    experiment.run(progress=False)
    beside(monkeypatch, judge=answer)
    assert experiment.pipeline().query("When was the mill number 9 built?").text.startswith("1700")


def test_an_endpoint_ends_when_nobody_may_ask_it():
    answer, _ = counted()
    server = ServedModels({"app": answer})
    thread = next(each for each in threading.enumerate() if each.name == "reverie-models")
    server.end()
    thread.join(60)
    assert not thread.is_alive()


def test_a_component_may_hold_the_function_itself(small):
    answer, calls = counted()
    experiment = reverie.Experiment(
        name="alone",
        store="alone",
        corpus=str(small.folder / "docs"),
        dataset=str(small.folder / "golden.jsonl"),
        chunker="sentence",
        retriever="bm25",
        generator=reverie.generator.Compact(model=answer),
        evaluate={"metrics": ["token_f1"]},
    )
    experiment.run(progress=False)
    assert calls


def test_the_replies_of_a_judge_are_kept_by_its_source_and_version():
    calls = []

    def judge(messages):
        calls.append(1)
        return "0"

    def scored(model):
        before = len(calls)
        reverie.evaluate(ROWS, [reverie.metric.Faithfulness()], judge=model, store="st", progress=False, on_error="warn")
        return len(calls) - before

    with pytest.warns(reverie.exceptions.FunctionWarning):
        assert scored(judge) > 0
    digests = {digest(judge), digest(reverie.model(judge, version="1")), digest(reverie.model(judge, version="2"))}
    assert len(digests) == 3
    assert digest(judge) == digest(judge)


def test_a_digest_changes_with_the_source_and_constants_and_not_with_state():
    def made(limit):
        seen = []

        def one(messages):
            seen.append(1)
            return limit

        return one

    assert digest(made(3)) == digest(made(3)) != digest(made(4))
    used = made(3)
    before = digest(used)
    used([])
    assert digest(used) == before
    assert digest(functools.partial(made(3), x=1)) != digest(functools.partial(made(3), x=2))
    assert digest(lambda messages: "a") != digest(lambda messages: "b")
    assert isinstance(reverie.model(made(3), concurrency=2), FunctionModel)
    with pytest.raises(ValueError, match="at least 1"):
        reverie.model(concurrency=0)


def test_the_text_of_such_an_experiment_says_where_it_can_run(small):
    answer, _ = counted()
    changes = settings(small, "http://127.0.0.1:1", name="gone", models={"gpt": answer})
    with pytest.raises(ValueError, match="a function of a Python program"):
        reverie.Experiment(_again(reverie.Experiment(changes).text, small.folder)).run(progress=False)
    with pytest.raises(ValueError, match="workers of a cluster cannot reach"):
        reverie.Experiment(changes).run(engine="ray", progress=False)


def _again(text, folder):
    path = folder / "again.toml"
    path.write_text(text)
    return path
