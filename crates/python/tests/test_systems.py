"""Systems of an experiment that are Python functions or objects of the program."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import reverie
from reverie import exceptions
from workspace import settings


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    """The journal is in the current folder."""
    monkeypatch.chdir(tmp_path)


def experiment(small, systems, metrics=("token_f1", "recall"), **changes):
    """An experiment on the mills with these systems, and nothing else."""
    tables = settings(small, "http://127.0.0.1:1", name="systems", systems=systems)
    tables["evaluate"] = {"metrics": list(metrics), "objective": [metrics[0]]}
    del tables["space"], tables["models"]
    return reverie.Experiment({**tables, **changes})


def year(question):
    """The right answer to a question about a mill."""
    return str(1700 + int(question.split("number ")[1].split(" ")[0]))


def fact(question):
    """The sentence of the documents that answers it."""
    number = question.split("number ")[1].split(" ")[0]
    return f"The mill number {number} was built in {1700 + int(number)}."


def answers(results, system):
    """The answers of a system by question."""
    trial = next(each for each in results.trials if each.labels.get("system") == system)
    return {row["question_id"]: row["answer"] for row in results.questions(trial.id)}


class Engine:
    """A system of the program, which counts its questions."""

    def __init__(self, lag=0):
        self.asked, self.lag = [], lag

    def query(self, question):
        self.asked.append(question)
        return {"answer": year(question)[: 4 - self.lag], "passages": [{"text": fact(question)}]}


def test_an_object_and_a_function_are_trials_beside_each_other(small):
    @reverie.system
    def in_its_process(question):
        import os

        number = question.split("number ")[1].split(" ")[0]
        assert os.getpid() != os.getppid()
        return {"answer": str(1700 + int(number)), "passages": []}

    engine = Engine()
    results = experiment(small, {"mine": engine, "function": in_its_process, "closure": lambda question: year(question)}).run(
        progress=False
    )
    assert len(results.trials) == 3
    for system in ("mine", "function", "closure"):
        assert answers(results, system)["q3"] == "1703", system
    mine = next(trial for trial in results.trials if trial.labels["system"] == "mine")
    recall = [row["recall"] for row in results.questions(mine.id)]
    assert recall == [1.0] * 6, "passages are found in the documents by their text"
    assert sorted(engine.asked) == sorted(set(engine.asked)), "each question once, also that of the check before the run"


def test_a_system_is_not_asked_again_in_the_same_program(small):
    engine = Engine()
    first = experiment(small, {"mine": engine})
    first.run(progress=False)
    asked = len(engine.asked)
    first.run(progress=False)
    experiment(small, {"mine": engine}).run(progress=False)
    assert len(engine.asked) == asked == 6
    experiment(small, {"mine": reverie.system(engine, version="2")}).run(progress=False)
    assert len(engine.asked) == 12, "another version is asked anew"


def test_two_objects_of_one_class_are_told_apart(small):
    results = experiment(small, {"right": Engine(), "cut": Engine(lag=2)}).run(progress=False)
    assert answers(results, "right")["q2"] == "1702"
    assert answers(results, "cut")["q2"] == "17"
    stated = {name: reverie.system(Engine(lag), version="1") for name, lag in (("a", 0), ("b", 2))}
    results = experiment(small, stated).run(progress=False)
    assert (answers(results, "a")["q2"], answers(results, "b")["q2"]) == ("1702", "17")


def test_a_function_around_an_object_is_another_system_in_another_program():
    from reverie._live_systems import _digest

    engine, other = Engine(), Engine()
    of = lambda engine: lambda question: engine.query(question)
    assert _digest("a", of(engine), None) != _digest("a", of(other), None)
    assert _digest("a", of(engine), "1") == _digest("a", of(other), "1"), "the version says that they are the same"
    k = lambda top_k: lambda question: f"{question}{top_k}"
    assert _digest("a", k(3), None) == _digest("a", k(3), None) != _digest("a", k(5), None)
    assert _digest("a", year, None) == _digest("a", year, None) != _digest("b", year, None)


def test_parameters_version_and_price_stand_beside_a_system(small):
    seen = []

    @reverie.system(parameters={"top_k": [1, 2]}, version="2025-11", price=0.25, seed=7, in_this_process=True)
    def mine(question, top_k, seed, id, messages):
        seen.append((top_k, seed, id, messages[-1]["content"] == question))
        return year(question) if top_k == 2 else "unknown"

    results = experiment(small, {"mine": mine}, metrics=("token_f1",)).run(progress=False)
    assert sorted(trial.labels["system.top_k"] for trial in results.trials) == ["1", "2"]
    assert results.best().labels["system.top_k"] == "2"
    assert {each[:2] for each in seen} == {(1, 7), (2, 7)} and all(each[3] for each in seen)
    assert {each[2] for each in seen} == {f"q{i}" for i in range(6)}
    assert results.data["trials"][0]["cost_usd"] == pytest.approx(6 * 0.25)
    assert mine("When was the mill number 2 built?", 2, 0, "q", [{"content": ""}]) == "1702", "it can still be called"


def test_an_asynchronous_object_gets_questions_side_by_side_in_one_event_loop(small):
    loops = set()

    class Asynchronous:
        running, most = 0, 0

        async def aquery(self, question):
            loops.add(asyncio.get_running_loop())
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.2)
            self.running -= 1
            return year(question)

    system = Asynchronous()
    results = experiment(small, {"mine": system}, metrics=("token_f1",)).run(progress=False)
    assert answers(results, "mine")["q5"] == "1705"
    assert len(loops) == 1 and system.most > 1


class Counted:
    """Counts how many calls run at once."""

    def __init__(self):
        self.running, self.most, self.lock = 0, 0, threading.Lock()

    def __call__(self, question):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(0.3)
        with self.lock:
            self.running -= 1
        return year(question)


def test_other_objects_get_one_question_after_the_other_unless_a_number_is_stated(small):
    one, several = Counted(), Counted()
    systems = {"one": one, "several": reverie.system(several, concurrency=3)}
    experiment(small, systems, metrics=("token_f1",)).run(progress=False)
    assert (one.most, several.most) == (1, 3)


def test_generators_and_pairs_are_replies(small):
    def words(question):
        yield year(question)[:2]
        yield year(question)[2:]
        yield {"passages": [fact(question)]}

    async def later(question):
        yield year(question)

    mine = threading.local()  # An object from outside, so that all of them are called here.
    systems = {
        "words": lambda question, mine=None: words(question),
        "later": lambda question: later(question),
        "pair": lambda question: (year(question), [fact(question)]),
        "text": lambda question: mine and year(question),
    }
    results = experiment(small, systems).run(progress=False)
    assert {answers(results, name)["q4"] for name in systems} == {"1704"}


def test_what_a_system_raises_is_the_failure_of_a_function_with_its_line(small):
    def half(question):
        if "number 3" in question:
            raise KeyError("no mill")
        return year(question)

    with pytest.warns(reverie.exceptions.FunctionWarning, match="no mill"):
        results = experiment(small, {"mine": reverie.system(half, in_this_process=True)}, metrics=("token_f1",)).run(progress=False)
    failure = list(results.failures())[0]
    assert failure["function"].endswith("half") and "test_systems.py" in failure["file"]
    assert "(line" in failure["message"] and "KeyError" in failure["traceback"]
    assert answers(results, "mine")["q2"] == "1702", "the others are there"


def test_a_connection_error_is_tried_again(small):
    tried = []

    def shaky(question):
        tried.append(question)
        if tried.count(question) == 1:
            raise ConnectionError("reset")
        return year(question)

    results = experiment(small, {"mine": reverie.system(shaky, in_this_process=True)}, metrics=("token_f1",)).run(progress=False)
    assert answers(results, "mine")["q2"] == "1702" and len(tried) == 12


def test_a_reply_that_cannot_be_used_ends_the_run_before_anything_else(small):
    with pytest.raises((ValueError, RuntimeError), match="a text is wanted"):
        experiment(small, {"mine": reverie.system(lambda question: 7)}).run(progress=False)


def test_a_pipeline_of_reverie_is_a_system(small):
    tables = settings(small, "http://127.0.0.1:1", name="inner")
    del tables["models"], tables["space"]["generator"]
    tables["space"]["retriever"] = [{"bm25": {"top_k": 200}}]
    tables["evaluate"] = {"metrics": ["recall"], "objective": ["recall"]}
    inner = reverie.Experiment(tables)
    inner.run(progress=False)
    pipeline = inner.pipeline()
    found = pipeline.retrieve("When was the mill number 3 built?", top_k=1)
    assert len(found) == 1 and not pipeline.has_generator
    assert asyncio.run(pipeline.aretrieve("When was the mill number 3 built?", top_k=1)) == found
    with pytest.raises(ValueError, match="top_k"):
        pipeline.retrieve("When?", top_k=0)
    ask = lambda question: {"passages": pipeline.retrieve(question)}
    results = experiment(small, {"inner": ask}, metrics=("recall",)).run(progress=False)
    assert results.best().labels["system"] == "inner"
    assert [row["recall"] for row in results.questions()] == [1.0] * 6


def test_the_experiment_names_the_object_and_no_address(small):
    opened = experiment(small, {"mine": Engine()})
    assert "function:" in opened.text and "127.0.0.1" not in opened.text and "Engine" in opened.text
    assert opened.plan().trials == 1


def test_another_program_cannot_run_the_object(small):
    text = experiment(small, {"mine": Engine()}).text
    (small.folder / "experiment.toml").write_text(text)
    with pytest.raises(ValueError, match="`Engine` is an object of a Python program"):
        reverie.Experiment(small.folder / "experiment.toml").run(progress=False)


def test_a_cluster_is_refused_for_an_object(small):
    with pytest.raises(ValueError, match="systems.mine: an object is asked in this process"):
        experiment(small, {"mine": Engine()}).run(engine="ray", progress=False)


def test_what_is_no_system_is_named(small):
    with pytest.raises(TypeError, match="`mine` is a text"):
        experiment(small, {"mine": "http://127.0.0.1:1"})
    with pytest.raises(TypeError, match="`mine`.*int"):
        experiment(small, {"mine": 5})
    with pytest.raises(TypeError, match="give each a name"):
        experiment(small, [Engine()])
    with pytest.raises(TypeError, match="is a class"):
        reverie.system(Engine)
    with pytest.raises(ValueError, match="concurrency"):
        reverie.system(Engine(), concurrency=0)
    with pytest.raises(ValueError, match="timeout_seconds"):
        reverie.system(Engine(), timeout_seconds=0)
    with pytest.raises(ValueError, match="interpreter"):
        reverie.system(Engine(), interpreter="python3")
    with pytest.raises(ValueError, match="cannot run in a process of its own"):
        reverie.system(Engine(), in_this_process=False)

    def outside(question):
        return year(question)

    with pytest.raises(ValueError, match="uses year from outside"):
        reverie.system(outside, in_this_process=False)
    assert reverie.system(outside).is_live
    assert not reverie.system(in_itself).is_live


def in_itself(question):
    return question


def test_a_system_that_takes_too_long_is_a_missing_reply(small):
    released = threading.Event()

    def hangs(question):
        if "number 2 " in question:
            released.wait(60)
        return year(question)

    mine = reverie.system(hangs, in_this_process=True, timeout_seconds=1, concurrency=2)
    began = time.monotonic()
    try:
        results = experiment(small, {"mine": mine}, metrics=("token_f1",), engine={"local": {}}).run(progress=False)
    finally:
        released.set()
    assert answers(results, "mine")["q3"] == "1703" and answers(results, "mine")["q2"] is None
    assert time.monotonic() - began < 55


def test_noise_asks_a_live_system_again(small):
    engine = Engine()
    opened = experiment(small, {"mine": engine}, metrics=("token_f1",))
    results = opened.run(progress=False)
    noise = reverie.noise(opened, results.trials[0].id, "token_f1", questions=3, answers=2, judgements=1)
    assert len(engine.asked) > 6 and noise is not None


def test_a_rate_limit_that_a_system_meets_is_waited_for(small):
    refused = []

    def limited(question):
        if len(refused) < 2:
            refused.append(question)
            raise exceptions.RateLimitError("slow down")
        return year(question)

    results = experiment(small, {"mine": reverie.system(limited, in_this_process=True)}, metrics=("token_f1",)).run(progress=False)
    assert answers(results, "mine")["q1"] == "1701"


def test_a_module_for_another_package_says_which_one_it_needs(monkeypatch):
    import sys

    for module, package, extra in (("langchain", "langchain_core", "langchain"), ("llama_index", "llama_index", "llama-index")):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.delitem(sys.modules, f"reverie.{module}", raising=False)
        monkeypatch.delitem(vars(reverie), module, raising=False)
        with pytest.raises(ModuleNotFoundError, match=rf"pip install 'reverie\[{extra}\]'"):
            getattr(reverie, module)
