"""Judges: what one is asked, whether it can tell right from wrong, how much noise it adds; functions as models."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import reverie
from reverie._function_models import function_name, limit_concurrency
from reverie.exceptions import FunctionError, FunctionWarning, RateLimitError
from workspace import Gate, run_failing_endpoint, settings, wait_for_stopped_scores

pandas = pytest.importorskip("pandas")

EXAMPLE = {
    "user_input": "When was the mill built?",
    "response": "It was built in 1700.",
    "retrieved_contexts": ["The mill was built in 1700."],
    "reference": "in 1700",
}


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    """The journal is in the current folder."""
    monkeypatch.chdir(tmp_path)


def honest(messages: list[dict[str, str]]) -> str:
    """A judge that takes the statements of an answer as they are, and calls supported what stands in the prompt twice."""
    wanted, prompt = messages[0]["content"], messages[-1]["content"]
    if '"verdicts"' not in wanted:
        return json.dumps({"statements": ["The mill was built in 1700."]})
    shared, _, listed = prompt.partition("</context>") if "</context>" in prompt else prompt.rpartition("s>\n<")
    items = re.findall(r'<\w+ number="\d+">\n(.*?)\n</', listed, re.S) or [listed]
    verdicts = []
    for number, item in enumerate(items, 1):
        words = set(re.findall(r"\w{4,}|\d+", item.lower()))
        known = words & set(re.findall(r"\w{4,}|\d+", shared.lower()))
        verdicts.append({"number": number, "reason": "words", "verdict": "Yes" if 2 * len(known) > len(words) else "No"})
    return json.dumps({"verdicts": verdicts})


async def patient(messages: list[dict[str, str]]) -> str:
    """The same, as a coroutine."""
    await asyncio.sleep(0.01)
    return honest(messages)


def test_what_a_judge_is_asked_and_says_is_shown_in_full():
    seen = []

    def judge(messages):
        seen.append(messages)
        return honest(messages)

    told = reverie.explain(EXAMPLE, "faithfulness", judge)
    assert told.metric == "faithfulness" and told.score == 1.0 and told.missing is None and told.range == (0.0, 1.0)
    assert [list(exchange.messages) for exchange in told.exchanges] == seen or len(seen) == len(told.exchanges)
    assert len(told.exchanges) == 2 and {exchange.model for exchange in told.exchanges} == {"judge"}
    assert told.exchanges[-1].messages[-1]["role"] == "user"
    assert "The mill was built in 1700." in told.exchanges[-1].messages[-1]["content"]
    assert json.loads(told.exchanges[-1].reply)["verdicts"][0]["verdict"] == "Yes"
    assert "── 2 of 2 · judge" in str(told) and "faithfulness: 1.000" in str(told)
    assert "<details>" in told._repr_html_()
    assert asyncio.run(reverie.aexplain(EXAMPLE, reverie.metric.Faithfulness(), patient)).score == 1.0


def test_a_metric_without_a_judge_asks_nothing():
    told = reverie.explain(EXAMPLE, "token_f1", [])
    assert told.exchanges == () and told.score is not None


def test_long_prompts_are_not_cut():
    context = "The mill was built in 1700. " + "It ground oats for the village. " * 100
    told = reverie.explain({**EXAMPLE, "retrieved_contexts": [context]}, "faithfulness", honest)
    assert context.strip() in told.exchanges[-1].messages[-1]["content"]


def test_mistakes_come_before_any_call():
    def never(messages):
        raise AssertionError("nobody asks")

    for mistake, message in [
        ({"metric": "faithfullness"}, "faithfulness"),
        ({"metric": ["faithfulness", "token_f1"]}, "one metric"),
        ({"judge": []}, "needs a judge"),
        ({"example": {"question": "Why?"}}, "needs the columns"),
        ({"budget_usd": -1}, "budget_usd"),
    ]:
        with pytest.raises(ValueError, match=message):
            reverie.explain(**{"example": EXAMPLE, "metric": "faithfulness", "judge": never, **mistake})
    with pytest.raises(TypeError, match="is a name or a function"):
        reverie.explain(EXAMPLE, "faithfulness", [3])


COUNTED = """
import reverie
from test_judges import EXAMPLE, honest

calls = []
rows = [{**EXAMPLE, "user_input": f"When was the mill built, number {i}?"} for i in range(4)]

def judge(messages):
    calls.append(messages)
    return honest(messages)

def score():
    # Returns how often the judge was called, and the scores.
    before = len(calls)
    scores = reverie.evaluate(rows, "faithfulness", judge=judge, store="store", progress=False)
    return [len(calls) - before, scores["faithfulness"]]
"""


def test_a_judge_is_not_asked_again_about_the_same_rows_also_by_another_process(tmp_path, monkeypatch):
    (tmp_path / "counted.py").write_text(COUNTED)
    monkeypatch.syspath_prepend(tmp_path)
    import counted

    try:
        called, scores = counted.score()
        assert called >= 4 and scores == [1.0] * 4
        assert counted.score() == [0, scores]
    finally:
        del sys.modules["counted"]
    found = subprocess.run(
        [sys.executable, "-c", "import counted, json; print(json.dumps(counted.score()))"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parent)])},
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(found.stdout) == [0, scores]


def test_functions_judge_many_answers_at_once_and_vote():
    running, most, lock = 0, 0, threading.Lock()

    def slow(messages):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        try:
            threading.Event().wait(0.05)
            return honest(messages)
        finally:
            with lock:
                running -= 1

    scores = reverie.evaluate([EXAMPLE] * 1 + [{**EXAMPLE, "user_input": f"When, {i}?"} for i in range(11)], "faithfulness", judge=slow, progress=False)
    assert scores["faithfulness"] == [1.0] * 12 and most > 1
    voted = reverie.evaluate([EXAMPLE], "faithfulness", judge=[honest, patient, slow], progress=False)
    assert voted["faithfulness"] == [1.0] and voted.data["judges"] == ["honest", "patient", "slow"]


@pytest.mark.parametrize("limit", [1, 3])
def test_concurrency_is_how_many_calls_of_a_function_judge_run_at_once(limit):
    gate = Gate(limit)

    def judge(messages):
        with gate:
            return honest(messages)

    rows = [{**EXAMPLE, "user_input": f"When, {i}?"} for i in range(12)]
    scores = reverie.evaluate(rows, "faithfulness", judge=judge, concurrency=limit, progress=False)
    assert scores["faithfulness"] == [1.0] * 12 and gate.most == limit


class HeldJudge:
    """A judge that replies to its first calls at once, and to later ones when it is released.

    Attributes:
        prompts: The prompts of all calls, in the order in which they began.
        is_stuck: Set when `concurrency` calls wait, so that every earlier reply has arrived.
    """

    def __init__(self, replies: int, concurrency: int) -> None:
        self.prompts: list[str] = []
        self.replies, self.concurrency, self.lock = replies, concurrency, threading.Lock()
        self.is_stuck, self.is_released = threading.Event(), threading.Event()

    def __call__(self, messages: list[dict[str, str]]) -> str:
        with self.lock:
            self.prompts.append(messages[-1]["content"])
            number = len(self.prompts)
        if number == self.replies + self.concurrency:
            self.is_stuck.set()
        if number > self.replies:
            self.is_released.wait(120)
        return honest(messages)


@pytest.mark.parametrize("stop", ["Ctrl-C", "cancellation"])
def test_replies_of_a_function_judge_that_is_stopped_are_kept_and_only_the_rest_is_asked(stop):
    judge = HeldJudge(replies=9, concurrency=2)
    rows = [
        {**EXAMPLE, "response": f"Built in 1700, part {i}.", "retrieved_contexts": [f"Built in 1700, part {i}."]}
        for i in range(20)
    ]
    given = {"metrics": "faithfulness", "judge": judge, "concurrency": 2, "progress": False}

    def interrupt():
        if judge.is_stuck.wait(120):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    async def cancel():
        task = asyncio.ensure_future(reverie.aevaluate(rows, **given))
        assert await asyncio.to_thread(judge.is_stuck.wait, 120)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    if stop == "Ctrl-C":
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            reverie.evaluate(rows, **given)
    else:
        asyncio.run(cancel())
    judge.is_released.set()
    wait_for_stopped_scores()
    assert len(judge.prompts) == 9 + 2, "nothing is begun after it"

    scores = reverie.evaluate(rows, **given)
    assert None not in scores["faithfulness"]
    # The metric asks twice: for the statements of each answer, and whether each is supported.
    # What was in flight was waited for and kept.
    asked = Counter(judge.prompts)
    assert len(asked) == 2 * len(rows) and set(asked.values()) == {1}

    n_asked = len(judge.prompts)
    again = reverie.evaluate(rows, **given)
    assert again["faithfulness"] == scores["faithfulness"] and len(judge.prompts) == n_asked


def broken(messages: list[dict[str, str]]) -> str:
    """A judge with a mistake."""
    return {}["verdict"]


LINE = broken.__code__.co_firstlineno + 2


def test_a_judge_that_raises_is_told_as_the_failure_of_a_function_with_the_line_of_its_file():
    rows = [EXAMPLE, {**EXAMPLE, "user_input": "When, again?"}]
    with pytest.warns(FunctionWarning, match="functions of your own failed, 2 times") as warned:
        scores = reverie.evaluate(rows, "faithfulness", judge=broken, progress=False)
    (one,) = [each for each in warned if each.category is FunctionWarning]
    said = str(one.message)
    assert f"failed: judge the function `broken` of {__file__}: KeyError: 'verdict' (line {LINE})" in said
    assert "127.0.0.1" not in said and "provider" not in said
    assert scores["faithfulness"] == [None, None] and scores.missing()["kind"] == ["function_error"] * 2
    row = scores.failures().rows()[0]
    assert (row["metric"], row["function"], row["file"], row["kind"]) == ("faithfulness", "broken", __file__, "raised")
    assert row["message"] == f"KeyError: 'verdict' (line {LINE})"
    assert 'return {}["verdict"]' in row["traceback"] and "_function_models" not in row["traceback"]
    with pytest.raises(FunctionError, match="KeyError") as raised:
        reverie.evaluate(rows, "faithfulness", judge=broken, progress=False, on_error="raise")
    assert len(raised.value.results) == 2 and len(raised.value.failures) == 2
    with pytest.warns(FunctionWarning, match="once"):
        told = reverie.explain(EXAMPLE, "faithfulness", broken)
    assert told.score is None and told.failures()["function"] == ["broken"]
    with pytest.raises(FunctionError, match="broken"):
        reverie.explain(EXAMPLE, "faithfulness", broken, on_error="raise")
    with pytest.raises(FunctionError, match="trying the judge `broken` failed") as raised:
        reverie.judge(broken, CASES)
    assert 'return {}["verdict"]' in str(raised.value)


def test_a_reply_of_the_wrong_form_names_the_function_and_what_it_must_return():
    def number(messages):
        return 3

    def words(messages):
        return "I think so."

    for judge, said in [
        (number, ["it returned 3, of type int", "it must return the reply as a text"]),
        (words, ["it must return JSON", '"statements"', "it returned: I think so."]),
    ]:
        with pytest.warns(FunctionWarning):
            scores = reverie.evaluate([EXAMPLE], "faithfulness", judge=judge, progress=False)
        (row,) = scores.failures()
        assert row["function"] == judge.__name__ and row["kind"] == "returned" and row["file"] == __file__
        assert all(part in row["message"] for part in said), row["message"]


def test_a_dictionary_is_a_reply_and_the_schema_is_shown():
    told = reverie.explain(EXAMPLE, "faithfulness", lambda messages: json.loads(honest(messages)))
    assert told.score == 1.0
    assert "statements" in told.exchanges[0].schema["properties"]
    assert 'schema: {"' in str(told)


def test_a_metric_that_fails_is_told_of_one_example_too():
    @reverie.metric
    def unlucky(answer):
        raise RuntimeError("no")

    with pytest.warns(FunctionWarning, match="unlucky"):
        told = reverie.explain(EXAMPLE, unlucky, [])
    assert told.failures()["kind"] == ["raised"]


def test_a_function_that_is_asked_for_fewer_calls_is_tried_again():
    calls = []

    def busy(messages):
        calls.append(1)
        if len(calls) < 3:
            raise RateLimitError("not now")
        return honest(messages)

    assert reverie.evaluate([EXAMPLE], "faithfulness", judge=busy, progress=False)["faithfulness"] == [1.0]
    assert len(calls) == 4


CASES = [
    {"kind": "supported", "question": "", "against": f"The mill number {i} was built in {1700 + i}.", "item": item, "label": label}
    for i in range(20)
    for item, label in [(f"Mill number {i} was built in {1700 + i}.", True), ("Otters swim upstream quickly.", False)]
]


def count_calls(fails: int, attempts: int | None, error: type[Exception] = ConnectionError, evaluate=reverie.evaluate):
    """Asks a judge that raises at its first calls; gives the score, and how often each prompt was asked."""
    asked: list[str] = []

    def judge(messages):
        asked.append(messages[-1]["content"])
        if len(asked) <= fails:
            raise error("the judge is away")
        return honest(messages)

    # A store of its own: no reply of another call is reused.
    settings = {"judge": judge, "store": f"{fails}-{attempts}-{error.__name__}-{evaluate.__name__}", "progress": False}
    scores = evaluate([EXAMPLE], ["faithfulness"], attempts=attempts, **settings)
    (score,) = scores["faithfulness"]
    return score, list(Counter(asked).values())


@pytest.mark.filterwarnings("ignore::reverie.exceptions.FunctionWarning")
def test_a_judge_is_asked_as_often_as_attempts_says_and_no_more_after_it_has_answered():
    # The metric asks twice: for the statements of the answer, and whether each is supported.
    assert count_calls(fails=0, attempts=1) == (1.0, [1, 1])
    assert count_calls(fails=1, attempts=1) == (None, [1])
    assert count_calls(fails=1, attempts=2) == (1.0, [2, 1])
    assert count_calls(fails=2, attempts=2) == (None, [2])
    assert count_calls(fails=2, attempts=3) == (1.0, [3, 1])
    assert count_calls(fails=1, attempts=None) == (1.0, [2, 1]), "a call is tried again unless it is forbidden"
    # Another attempt would fail alike.
    assert count_calls(fails=1, attempts=2, error=ValueError) == (None, [1])

    def wait_for_scores(*arguments, **named):
        return asyncio.run(reverie.aevaluate(*arguments, **named))

    assert count_calls(fails=1, attempts=1, evaluate=wait_for_scores) == (None, [1])
    assert count_calls(fails=1, attempts=2, evaluate=wait_for_scores) == (1.0, [2, 1])
    with pytest.raises(ValueError, match="attempts: .*at least once, not 0 times"):
        count_calls(fails=0, attempts=0)


@pytest.mark.filterwarnings("ignore::reverie.exceptions.FunctionWarning")
def test_attempts_are_those_of_models_and_a_metric_of_ones_own_is_called_once():
    calls = []

    def unlucky(answer):
        calls.append(answer)
        raise ConnectionError("the metric is away")

    assert reverie.evaluate([EXAMPLE], [unlucky], attempts=3, progress=False)["unlucky"] == [None]
    assert calls == [EXAMPLE["response"]]


def test_an_endpoint_that_fails_is_asked_as_often_as_attempts_says():
    with run_failing_endpoint() as (url, asked):
        models = {"gpt": {"chat": {"openai": {"model": "gpt", "base_url": url}}}}
        for attempts in (1, 2):
            asked.clear()
            scores = reverie.evaluate([EXAMPLE], "faithfulness", judge="gpt", models=models, attempts=attempts, progress=False)
            assert scores["faithfulness"] == [None] and len(asked) == attempts


def test_a_judge_is_tried_on_cases_whose_truth_is_known(small):
    for cases in (CASES, pandas.DataFrame(CASES)):
        told = reverie.judge(honest, cases)
        assert told.columns[:3] == ["judge", "kind", "n"]
        (row,) = told
        assert (row["judge"], row["kind"], row["n"], row["unreadable"]) == ("honest", "supported", 40, 0)
        assert row["balanced_accuracy"] == 1.0 and row["accuracy_low"] > 0.6 and row["qualified"] is True
        assert row["auc"] is None, "a function tells no probabilities"
    lazy = reverie.judge(lambda messages: json.dumps({"verdicts": [{"number": 1, "reason": "", "verdict": "Yes"}]}), CASES)
    assert lazy["qualified"] == [False] and "guessing" in lazy["reason"][0] and lazy["balanced_accuracy"] == [0.5]
    planted = asyncio.run(reverie.ajudge([honest, patient], golden=small.folder / "golden.jsonl", planted=6))
    assert set(planted["judge"]) == {"honest", "patient"} and "supported" in planted["kind"]
    with pytest.raises(ValueError, match="there are no cases"):
        reverie.judge(honest)
    with pytest.raises(ValueError) as raised:
        reverie.judge(honest, [{**CASES[0], "kind": "right"}, {**CASES[1], "lable": True}])
    assert "cases, row 0 (from 0): unknown variant `right`" in str(raised.value)
    assert "cases, row 1 (from 0): unknown field `lable`" in str(raised.value)


def test_a_metric_of_a_run_is_held_against_labels_of_people(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url))
    results = experiment.run(progress=False)
    labels = [{"trial": "t01", "question": f"q{i}", "label": i % 2 == 0} for i in range(4)]
    for given in (labels, pandas.DataFrame(labels)):
        told = results.calibrate("recall", given)
        assert told.n_labels == 4 and 0 <= told.observed <= 1
        first = {row["trial"]: row for row in told}["t01"]
        assert (first["n_labels"], first["n_judged"]) == (4, 2) and first["low"] <= first["corrected_mean"] <= first["high"]
    assert "recall: 4 labels" in repr(told)
    with pytest.raises(ValueError) as raised:
        results.calibrate("recall", [{"trial": "t99", "question": "q0", "label": 3.0}])
    assert "there is no trial `t99`" in str(raised.value) and "not between 0 and 1" in str(raised.value)
    with pytest.raises(ValueError, match=r"labels, row 0 \(from 0\)"):
        results.calibrate("recall", [{"trial": "t01"}])


def test_where_noise_comes_from_is_told_of_a_run(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url))
    experiment.run(progress=False)
    told = reverie.noise(experiment, "t01", "token_f1", questions=4, answers=2, judgements=1)
    assert (told.trial, told.metric, told.used, told.questions) == ("t01", "token_f1", 4, 6)
    assert told.standard_error >= told.with_twice_the_questions >= 0
    assert told.table()["source"] == ["questions", "generator", "judge"]
    assert "token_f1 of t01, from 4 questions" in str(told)
    assert asyncio.run(reverie.anoise(experiment, "t01", "token_f1", questions=4, answers=2, judgements=1)) == told
    with pytest.raises(ValueError, match="at least 2 questions"):
        reverie.noise(experiment, "t01", "token_f1", questions=1)
    with pytest.raises(RuntimeError, match="there is no metric `f1`"):
        reverie.noise(experiment, "t01", "f1")
    with pytest.raises(ValueError, match="price"):
        reverie.noise(experiment, "t01", "token_f1", budget_usd=1)


def test_an_evaluation_that_ends_although_it_was_stopped_has_its_scores():
    begun, rows = threading.Event(), [{"question": f"q{i}", "answer": "a"} for i in range(3)]

    async def waits(answer):
        begun.set()
        await asyncio.sleep(0.5)
        return 1.0

    async def main():
        task = asyncio.ensure_future(reverie.aevaluate(rows, [waits], progress=False))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    stopped = wait_for_stopped_scores()
    assert len(stopped.data["rows"]) == len(rows)


def test_concurrency_changes_no_name_of_a_judge_that_is_an_object():
    class Own:
        def __call__(self, messages):
            return "0"

    names = [function_name(each, set()) for each in (Own(), limit_concurrency(Own(), 3), limit_concurrency(functools.partial(Own()), 3))]
    assert names == ["Own", "Own", "partial"]
