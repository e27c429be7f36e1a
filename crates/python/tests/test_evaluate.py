"""Scores of answers that a program holds: data frames, tables, dictionaries, files."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from test_judges import honest
from workspace import Handler, run_failing_endpoint, run_handler, wait_for_stopped_scores

import reverie
from reverie.exceptions import FunctionError, FunctionWarning

pyarrow = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

ROWS = [
    {
        "user_input": "When was the mill built?",
        "response": "In 1700 [1].",
        "retrieved_contexts": ["The mill was built in 1700."],
        "reference": "in 1700",
    },
    {
        "user_input": "What does it grind?",
        "response": "Rye.",
        "retrieved_contexts": ["It grinds oats.", "It has a wheel."],
        "reference": "oats",
    },
    {
        "user_input": "Who owns it?",
        "response": "Nobody knows.",
        "retrieved_contexts": [],
        "reference": None,
    },
]


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    """The journal is in the current folder."""
    monkeypatch.chdir(tmp_path)


@reverie.metric(range=(0, 100))
def words(answer):
    """How many words the answer has."""
    return len(answer.split())


def cites(answer, passages):
    """A function that nobody decorated."""
    return any(word in passage for word in answer.split() for passage in passages)


def test_every_shape_of_data_gives_the_same_scores(tmp_path):
    metrics = ["token_f1", reverie.metric.RougeL(), {"exact_match": {}}, words, cites]
    frame = pandas.DataFrame(ROWS)
    frame.to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "rows.parquet")
    found = {
        "dictionaries": reverie.evaluate(ROWS, metrics),
        "pandas": reverie.evaluate(frame, metrics),
        "polars": reverie.evaluate(polars.DataFrame(ROWS), metrics),
        "pyarrow": reverie.evaluate(pyarrow.Table.from_pylist(ROWS), metrics),
        "a path": reverie.evaluate(tmp_path / "rows.jsonl", metrics),
        "Parquet": reverie.evaluate(str(tmp_path / "rows.parquet"), metrics),
    }
    for name, scores in found.items():
        assert scores.metrics == ["token_f1", "rouge_l", "exact_match", "words", "cites"], name
        assert {metric: scores[metric] for metric in scores.metrics} == {
            metric: found["dictionaries"][metric] for metric in scores.metrics
        }, name
    scores = found["dictionaries"]
    assert scores["words"] == [2, 1, 2] and scores["exact_match"][:2] == [1.0, 0.0] and scores["exact_match"][2] is None
    assert found["pandas"].table()["row"] == [0, 1, 2] and found["a path"].table()["row"] == [1, 2, 3]
    assert found["pandas"].table()["question_id"] == ["row-0", "row-1", "row-2"]


def test_samples_of_ragas_are_rows():
    from pydantic import BaseModel

    class Sample(BaseModel):
        user_input: str
        response: str
        retrieved_contexts: list[str] | None = None
        reference: str | None = None
        rubrics: dict[str, str] | None = None

    scores = reverie.evaluate([Sample(**row) for row in ROWS], ["token_f1"])
    assert scores["token_f1"] == reverie.evaluate(ROWS, ["token_f1"])["token_f1"]


def test_tables_say_how_sure_a_mean_is_and_why_scores_are_missing():
    scores = reverie.evaluate(ROWS, ["token_f1", words])
    table = scores.table()
    assert table.columns == ["row", "question_id", "question", "token_f1", "words", "missing"] and len(scores) == len(table) == 3
    assert list(scores.to_pandas()["words"]) == [2, 1, 2]
    assert table["missing"][:2] == [None, None]
    assert table["missing"][2]["token_f1"].startswith("not applicable")
    assert scores.to_polars()["missing"].struct.field("token_f1").to_list()[2].startswith("not applicable")
    assert list(scores) == table.rows() and scores.columns == table.columns
    frames = (pandas.DataFrame(scores), polars.DataFrame(scores).to_pandas(), pyarrow.table(scores).to_pandas())
    assert all(list(frame["words"]) == table["words"] for frame in frames)
    f1, counted = scores.means()
    assert (f1["n_scored"], f1["n_total"], f1["missing"]) == (2, 3, "1 not applicable")
    assert f1["low"] <= f1["mean"] <= f1["high"]
    assert counted["missing"] is None and counted["mean"] == pytest.approx(5 / 3)
    (gap,) = scores.missing()
    assert (gap["row"], gap["metric"], gap["kind"]) == (2, "token_f1", "not_applicable")
    assert "2 of 3" in repr(scores) and "2 of 3" in scores._repr_html_() and "<table>" in scores._repr_html_()
    assert "-0.000" not in repr(scores)
    again = pickle.loads(pickle.dumps(scores))
    assert again.data == scores.data and again.table().rows() == table.rows()
    with pytest.raises(KeyError, match="there are token_f1, words"):
        scores["recall"]


def test_a_function_that_raises_is_a_missing_score_with_its_traceback():
    @reverie.metric
    def unlucky(answer):
        return 1 / (len(answer) - 4)

    with pytest.warns(FunctionWarning, match="ZeroDivisionError"):
        scores = reverie.evaluate(ROWS, [unlucky, words])
    (failure,) = scores.failures()
    assert (failure["metric"], failure["question_id"], failure["kind"]) == ("unlucky", "row-1", "raised")
    assert "return 1 / (len(answer) - 4)" in failure["traceback"]
    assert scores["unlucky"][1] is None and scores.means()["missing"][0] == "1 function error"
    with pytest.raises(FunctionError) as raised:
        reverie.evaluate(ROWS, [unlucky], on_error="raise")
    assert raised.value.results["unlucky"][1] is None and raised.value.failures[0]["function"] == "unlucky"


def test_mistakes_name_rows_and_parameters_and_come_before_any_call(provider):
    rows = [ROWS[0], {**ROWS[1], "user_input": ""}, {**ROWS[2], "retrieved_contexts": {"a": 1}}]
    with pytest.raises(ValueError) as raised:
        reverie.evaluate(rows, ["token_f1"])
    assert "data, row 1 (from 0): has an empty question" in str(raised.value)
    assert "data, row 2 (from 0): `retrieved_contexts` must be a list of texts" in str(raised.value)
    models = {"gpt": {"chat": {"openai": {"model": "gpt", "base_url": f"{provider.url}/v1"}}}}
    for mistake, message in [
        ({"metrics": ["token_f2"]}, r"metrics\[0\]: .*token_f1"),
        ({"metrics": []}, "metrics: nothing to score by"),
        ({"metrics": ["faithfulness"]}, "needs a judge: give `judge`, the name of one of `models`"),
        ({"metrics": ["faithfulness"], "judge": "gtp", "models": models}, "did you mean `gpt`"),
        ({"metrics": ["faithfulness"], "judge": "gpt", "models": {"gpt": {"chat": {"opnai": {}}}}}, "^models.gpt"),
        ({"metrics": ["answer_similarity"]}, "needs an embedder: give `embedder`"),
        ({"metrics": [{"token_f1": {"x": 1}}]}, r"^metrics\[0\].token_f1.x: unknown field"),
        ({"metrics": ["token_f1", "token_f1"]}, "listed twice"),
        ({"metrics": ["token_f1"], "budget_usd": -1}, "budget_usd: .*not below 0"),
    ]:
        with pytest.raises(ValueError, match=message) as raised:
            reverie.evaluate(ROWS, **mistake)
        assert "line " not in str(raised.value) and "--" not in str(raised.value), raised.value
    with pytest.raises(ValueError, match="it needs the columns `answer`"):
        reverie.evaluate([{"question": "Why?"}], ["token_f1"])
    with pytest.raises(TypeError, match="data: expected a data frame"):
        reverie.evaluate(3, ["token_f1"])
    with pytest.raises(TypeError, match=r"data, row 0 \(from 0\): expected a dictionary, not a int"):
        reverie.evaluate([1], ["token_f1"])
    with pytest.raises(ValueError, match="there are no rows"):
        reverie.evaluate([], ["token_f1"])
    with pytest.raises(ValueError, match="nowhere.jsonl cannot be read"):
        reverie.evaluate("nowhere.jsonl", ["token_f1"])
    assert provider.statistics()["requests"] == 0


def test_a_judge_is_one_of_the_models_and_is_paid_once(provider):
    models = {"gpt": {"chat": {"openai": {"model": "gpt", "base_url": f"{provider.url}/v1"}}}}
    scores = reverie.evaluate(ROWS, [reverie.metric.Faithfulness()], judge="gpt", models=models, progress=False)
    asked = provider.statistics()["requests"]
    assert asked > 0 and scores.means()["judged"] == [True]
    assert "judged by gpt, not qualified" in repr(scores) and "faithfulness*" in repr(scores)
    again = reverie.evaluate(ROWS, ["faithfulness"], judge=["gpt"], models=models)
    assert again["faithfulness"] == scores["faithfulness"] and provider.statistics()["requests"] == asked


WITHOUT_ADDRESS = """
import json, sys
import reverie

rows = [{"question": "Why?", "answer": "So.", "reference": "So.", "contexts": ["So."]}]
settings = json.loads(sys.argv[1])
try:
    reverie.evaluate(rows, **settings, progress=False)
except ValueError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"metrics": "answer_similarity", "embedder": "m", "models": {"m": {"embedding": {"openai": {"model": "e"}}}}},
        {"metrics": "faithfulness", "judge": "m", "models": {"m": {"chat": {"openai": {"model": "c"}}}}},
    ],
    ids=["embedder", "judge"],
)
def test_a_model_without_an_address_is_at_openai_and_a_missing_key_is_named_before_any_call(settings, tmp_path):
    hosts = []

    class Proxy(Handler):
        def do_CONNECT(self):
            """Lets nobody through."""
            hosts.append(self.path)
            self.answer(403, {})

    with run_handler(Proxy) as url:
        ours = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
        clean = {name: value for name, value in os.environ.items() if name not in ours and "proxy" not in name.lower()}

        def evaluate(**variables):
            command = [sys.executable, "-c", WITHOUT_ADDRESS, json.dumps(settings)]
            environment = {**clean, "HTTPS_PROXY": url, **variables}
            done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        refused = evaluate()
        assert "models.m: the environment variable `OPENAI_API_KEY` is not set" in refused and hosts == []
        refused = evaluate(OPENAI_API_KEY="key-of-a-test")
        assert "models.m: https://api.openai.com/v1 cannot be reached" in refused
        assert set(hosts) == {"api.openai.com:443"}


FULL_DISK = """
import json, resource, sys
import reverie

settings = json.loads(sys.argv[1])
if settings.pop("is_full_at_once"):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
try:
    scores = reverie.evaluate(**settings)
    print(json.dumps({"scores": scores["faithfulness"]}))
except Exception as error:
    print(json.dumps({"raised": type(error).__name__, "message": str(error)}))
"""


@pytest.mark.parametrize("full_at", [0, 9])
def test_a_journal_that_cannot_grow_ends_it_with_what_to_do_and_costs_at_most_the_calls_in_flight(full_at, tmp_path):
    resource = pytest.importorskip("resource")
    asked, lock, processes = [], threading.Lock(), []

    class Judge(Handler):
        def do_GET(self):
            """Lists no models."""
            self.answer(200, {"data": []})

        def do_POST(self):
            """Judges by words; at one call, no file of the caller can grow from here on."""
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                asked.append(body["messages"][-1]["content"])
                if len(asked) == full_at:
                    resource.prlimit(processes[0].pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            content = honest(body["messages"])
            self.answer(200, {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]})

    with run_handler(Judge) as url:
        endpoint = {"model": "gpt", "base_url": f"{url}/v1", "concurrency": 2, "omit": ["logprobs", "response_format"]}
        settings = {
            "data": [
                {"question": f"When, {i}?", "answer": f"Built in 1700, {i}.", "contexts": [f"Built in 1700, {i}."]}
                for i in range(30)
            ],
            "metrics": "faithfulness",
            "judge": "gpt",
            "models": {"gpt": {"chat": {"openai": endpoint}}},
            "store": "store",
            "progress": False,
        }

        def evaluate(**more):
            command = [sys.executable, "-c", FULL_DISK, json.dumps({**settings, **more})]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            processes[:] = [subprocess.Popen(command, **pipes, text=True, cwd=tmp_path)]
            out, err = processes[0].communicate(timeout=300)
            assert processes[0].returncode == 0, err
            return json.loads(out)

        ended = evaluate(is_full_at_once=full_at == 0)
        assert ended["raised"] == "RuntimeError" and "free space there and run again" in ended["message"]
        assert "journal" in ended["message"]
        paid = len(asked)
        assert full_at <= paid <= full_at + 2, "nothing is asked after it, but for the calls in flight"

        # The disk has space again.
        assert None not in evaluate(is_full_at_once=False)["scores"]
        twice = len(asked) - len(set(asked))
        assert len(set(asked)) == 60 and twice <= 2 and twice <= paid


def test_the_answers_of_two_systems_are_compared_question_by_question(tmp_path):
    questions = [f"What is thing {i}?" for i in range(8)]
    rows = [{"question": question, "reference": f"thing {i}"} for i, question in enumerate(questions)]
    mine = [{**row, "answer": row["reference"]} for row in rows]
    theirs = [{**row, "answer": row["reference"] if i < 2 else "nothing"} for i, row in enumerate(rows)]
    theirs = [*theirs[::-1], {"question": "Another?", "reference": "a", "answer": "a"}]
    first, second = (reverie.evaluate(data, ["token_f1"], store=tmp_path, progress=False) for data in (mine, theirs))
    found = first.compare(second, names=("mine", "theirs"))
    row = next(iter(found.rows()))
    # Six of eight differ by 1 in the same direction: of the 2^6 ways to turn their signs two are as far from 0.
    assert (row["difference"], row["n_pairs"], row["n_total"]) == (6 / 8, 8, 9)
    assert row["p_value"] == pytest.approx(2 / 2**6) and found.real() == ["token_f1"]
    assert repr(found).startswith("mine − theirs") and second.compare(first)["difference"] == [-6 / 8]
    with pytest.raises(ValueError, match="no question in common"):
        first.compare(reverie.evaluate(theirs[-1:], ["token_f1"], store=tmp_path, progress=False))
    with pytest.raises(ValueError, match="stands twice in the second, in rows 0 and 8"):
        first.compare(reverie.evaluate([*mine, mine[0]], ["token_f1"], store=tmp_path, progress=False))


def test_answers_are_scored_and_compared_in_one_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"What is thing {i}?", "reference": f"thing {i}"} for i in range(8)]
    mine = [{**row, "answer": row["reference"]} for row in rows]
    theirs = [{**row, "answer": "nothing"} for row in rows]
    for name, data in (("mine.jsonl", mine), ("theirs.jsonl", theirs)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in data))
    found = reverie.compare("mine.jsonl", "theirs.jsonl", ["token_f1"], progress=False)
    assert repr(found).startswith("mine.jsonl − theirs.jsonl") and found.real() == ["token_f1"]
    first = reverie.evaluate(mine, ["token_f1"], progress=False)
    mixed = reverie.compare(first, "theirs.jsonl", ["token_f1"], progress=False)
    assert mixed.rows() == found.rows() and repr(mixed).startswith("first − theirs.jsonl")
    assert repr(reverie.compare(first, first, names=("one", "the same"))).startswith("one − the same")
    with pytest.raises(TypeError, match="answers need `metrics`"):
        reverie.compare(first, theirs)
    with pytest.raises(TypeError, match="so metrics, judge would change nothing"):
        reverie.compare(first, first, ["token_f1"], judge="gpt")


def test_many_are_scored_at_once_in_an_event_loop():
    async def both():
        return await asyncio.gather(reverie.aevaluate(ROWS, [words]), reverie.aevaluate(ROWS[:2], ["token_f1"]))

    first, second = asyncio.run(both())
    assert first["words"] == [2, 1, 2] and len(second) == 2

    async def wrong():
        await reverie.aevaluate(ROWS, ["token_f2"])

    with pytest.raises(ValueError, match="token_f1"):
        asyncio.run(wrong())


def test_an_await_that_is_cancelled_ends_the_work():
    begun, release = [], threading.Event()

    def slow(answer):
        begun.append(answer)
        release.wait(120)
        return 1.0

    async def cut():
        task = asyncio.ensure_future(reverie.aevaluate(rows(60), [slow], progress=False))
        while not begun:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cut())
    release.set()
    wait_for_stopped_scores()
    assert len(begun) < 60, "nothing is begun after it"


def rows(n: int) -> list[dict[str, str]]:
    """Answers that differ."""
    return [{"question": f"Why {each}?", "answer": "So."} for each in range(n)]


def test_what_was_scored_before_a_stop_is_there():
    main, begun = threading.main_thread().ident, []

    def stopping(answer):
        begun.append(answer)
        if len(begun) == 3:
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(1)
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        reverie.evaluate(rows(100), [stopping], progress=False)
    scores = reverie.stopped_scores()
    there = [score for score in scores["stopping"] if score is not None]
    assert 2 <= len(there) <= len(begun) < 100 and set(there) == {1.0}
    assert scores.partial == f"it was interrupted: {len(there)} of 100 scores are there; score again to go on"
    assert {row["kind"] for row in scores.missing()} == {"cancelled"}

    again = reverie.evaluate(rows(2), [stopping], progress=False)
    assert again.partial is None
    with pytest.raises(RuntimeError, match="no scores were stopped"):
        reverie.stopped_scores()


def test_what_was_scored_before_a_task_was_cancelled_is_there():
    begun = threading.Event()

    def slow(answer):
        begun.set()
        time.sleep(0.05)
        return 1.0

    async def cut():
        task = asyncio.ensure_future(reverie.aevaluate(rows(10_000), [slow], progress=False))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cut())
    scores = wait_for_stopped_scores()
    assert len(scores) == 10_000 and "it was interrupted" in scores.partial


def test_after_the_deadline_nothing_is_begun():
    begun = []

    def slow(answer):
        begun.append(answer)
        time.sleep(0.5)
        return 1.0

    scores = reverie.evaluate(rows(100), [slow], deadline_seconds=0.75, progress=False)
    there = len([score for score in scores["slow"] if score is not None])
    assert there == len(begun) < 100, "what was begun is finished"
    assert scores.partial == f"the deadline of 0.75 s was reached: {there} of 100 scores are there; score again to go on"
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="deadline_seconds"):
            reverie.evaluate(rows(1), [slow], deadline_seconds=wrong, progress=False)


def test_a_deadline_ends_the_retries_of_a_model_that_fails():
    with run_failing_endpoint() as (url, refused):
        models = {"gpt": {"chat": {"openai": {"model": "gpt", "base_url": url}}}}
        answers = [{**row, "contexts": ["So it is."]} for row in rows(3)]
        scores = reverie.evaluate(answers, ["faithfulness"], judge="gpt", models=models, deadline_seconds=1, progress=False)
        # Without a deadline there would be eight attempts for each of the three, with waits of about 40 seconds.
        assert len(refused) < 3 * 8
        assert scores["faithfulness"] == [None] * 3 and "the deadline of 1 s" in scores.partial


def test_citation_marks_do_not_count_where_nobody_told_what_was_retrieved():
    row = {"question": "When was the mill built?", "reference": "in 1700"}
    for answer, same in [
        ("In 1700 [1].", 1.0),
        ("In 1700. [1][2]", 1.0),
        ("In 1700 [1, 3].", 1.0),
        ("In 1700 [2024].", 0.0),
        ("In 1700[1].", 0.0),
    ]:
        scores = reverie.evaluate([{**row, "answer": answer}], ["exact_match", "token_f1"], progress=False)
        assert scores["exact_match"] == [same], answer
        assert (scores["token_f1"][0] == 1.0) == (same == 1.0), answer
    told = reverie.evaluate([{**row, "answer": "In 1700[1].", "contexts": ["So."]}], "exact_match", progress=False)
    assert told["exact_match"] == [1.0], "there is such a passage"
