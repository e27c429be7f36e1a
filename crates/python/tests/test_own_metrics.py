"""Metrics of `evaluate` that cannot leave the process of their program."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import reverie
from workspace import Gate, Handler, run_handler

LIMIT = 3
MANY = [{"question": f"Why {i}?", "answer": "so"} for i in range(12)]
ROWS = [{"question": f"Why {i}?", "answer": " ".join(["so"] * i), "contexts": ["because"]} for i in range(1, 7)]


def values(scores: reverie.Scores, name: str) -> list[float | None]:
    return scores[name]


class Shorter:
    def __init__(self, limit: int) -> None:
        self.limit, self.calls = limit, 0

    def __call__(self, answer: str) -> bool:
        self.calls += 1
        return len(answer.split()) <= self.limit

    def share(self, answer: str, contexts: list[str]) -> float:
        return len(contexts) / (self.limit + len(answer.split()))


def uses_the_program(answer: str) -> float:
    return 1.0 if len(answer.split()) <= LIMIT else 0.0


def test_objects_methods_lambdas_and_closures_are_metrics():
    shorter, most = Shorter(2), 4

    def closure(answer, reference=None):
        return (len(answer.split()) <= most, f"at most {most}")

    metrics = [shorter, shorter.share, lambda question, answer: question.startswith("Why") and answer.count("so") == 1, closure, uses_the_program]
    scores = reverie.evaluate(ROWS, metrics)
    assert scores.metrics == ["Shorter", "share", "lambda", "closure", "uses_the_program"]
    assert values(scores, "Shorter") == [1, 1, 0, 0, 0, 0] and shorter.calls == 6
    assert values(scores, "share") == [pytest.approx(1 / (2 + n)) for n in range(1, 7)]
    assert values(scores, "lambda") == [1, 0, 0, 0, 0, 0]
    assert values(scores, "closure") == [1, 1, 1, 1, 0, 0]
    assert values(scores, "uses_the_program") == [1, 1, 1, 0, 0, 0]


def test_a_metric_sees_the_other_columns_of_its_row():
    rows = [{**row, "seconds": n, "tags": ["slow"], "my column": None} for n, row in enumerate(ROWS)]

    def by_itself(answer, columns):
        return columns["seconds"] < 3 and columns["tags"] == ["slow"] and "answer" not in columns

    scores = reverie.evaluate(rows, [by_itself, lambda columns: columns["seconds"] < LIMIT - 1])
    assert values(scores, "by_itself") == [1, 1, 1, 0, 0, 0]
    assert values(scores, "lambda") == [1, 1, 0, 0, 0, 0]


def test_several_lambdas_have_names_of_their_own():
    scores = reverie.evaluate(ROWS[:2], [lambda answer: 1.0, lambda answer: 0.5])
    assert scores.metrics == ["lambda", "lambda_2"]


def test_what_is_not_async_is_called_once_at_a_time_and_async_calls_run_side_by_side():
    at_once, most = 0, {"sync": 0, "async": 0}
    lock = threading.Lock()

    def enter(kind):
        nonlocal at_once
        with lock:
            at_once += 1
            most[kind] = max(most[kind], at_once)

    def leave():
        nonlocal at_once
        with lock:
            at_once -= 1

    def sync(answer):
        enter("sync")
        time.sleep(0.01)
        leave()
        return 1.0

    reverie.evaluate(ROWS, [sync], concurrency=3)
    everybody = asyncio.Event()

    async def waits(answer):
        enter("async")
        # Each call waits until all of them have begun, so it ends only if they run side by side.
        while most["async"] < len(ROWS):
            await asyncio.sleep(0.005)
        leave()
        return 1.0

    assert everybody is not None and reverie.evaluate(ROWS, [waits]).metrics == ["waits"]
    assert most == {"sync": 1, "async": len(ROWS)}


@pytest.mark.parametrize("limit", [1, 3])
def test_concurrency_is_how_many_calls_of_an_async_metric_of_this_process_run_at_once(limit):
    gate = Gate(limit)

    async def here(answer):
        with gate:
            return 1.0

    scores = reverie.evaluate(MANY, [here], concurrency=limit, progress=False)
    assert values(scores, "here") == [1.0] * len(MANY) and gate.most == limit


@pytest.mark.parametrize("limit", [1, 3])
def test_concurrency_is_how_many_calls_of_an_async_metric_of_another_process_run_at_once(limit):
    gate = Gate(limit)

    class Gated(Handler):
        def do_GET(self):
            """Answers after the gate."""
            with gate:
                pass
            self.answer(200, {})

    with run_handler(Gated) as url:
        # This function uses no names from around it, so it runs in another process.
        async def elsewhere(answer, url=url):
            import asyncio
            import urllib.request

            await asyncio.to_thread(urllib.request.urlopen, url)
            return 1.0

        scores = reverie.evaluate(MANY, [elsewhere], concurrency=limit, progress=False)
    assert values(scores, "elsewhere") == [1.0] * len(MANY) and gate.most == limit


def test_what_it_raises_is_no_score_and_named():
    bad = "so so"

    def picky(answer):
        if answer == bad:
            raise KeyError(f"not {bad}")
        return 1.0

    with pytest.warns(reverie.exceptions.FunctionWarning, match="KeyError"):
        scores = reverie.evaluate(ROWS, [picky])
    assert [value is None for value in values(scores, "picky")] == [False, True, False, False, False, False]
    reason = scores.missing().to_pandas()["reason"].iloc[0]
    assert "KeyError" in reason and "not so so" in reason and "line" in reason


def test_a_parameter_that_no_row_has_is_refused_with_what_there_is():
    with pytest.raises(ValueError, match=r"the known ones are question, answer, reference, passages"):
        reverie.evaluate(ROWS, [lambda wants: 1.0])
