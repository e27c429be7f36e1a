"""Functions of the user's own: metrics and stages, what they print and raise, and how long they may take."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import reverie
from reverie.exceptions import FunctionError, FunctionWarning
from workspace import settings, wait_until


@reverie.metric
def names_the_year(answer, reference):
    """Whether the answer has the reference in it."""
    return reference in answer


@reverie.metric(name="words", range=(0, 1000), higher_is_better=False)
def count_words(answer: str) -> float:
    """How long it is."""
    import re

    def of(text):
        return len(re.findall(r"\w+", text))

    return of(answer)


def test_a_function_is_a_metric(small, provider):
    evaluate = {"metrics": ["recall", names_the_year, count_words], "objective": ["recall"]}
    results = reverie.Experiment(settings(small, provider.url, evaluate=evaluate)).run()
    board = results.leaderboard()
    assert set(board["names_the_year"]) <= {0.0, 1.0}, "simulated answers hold no years"
    assert all(words > 1 for words in board["words"])
    assert results.questions("t01")["missing"] == [None] * 6
    assert names_the_year("in 1700", "1700") and count_words("two words") == 2


@reverie.chunker
def by_sentence(text, path):
    """Sentences, and the heading of the mill in each."""
    import re

    assert path.endswith(".md")
    return [(found.start(), found.end()) for found in re.finditer(r"[A-Z][^.#]*\.", text)]


@reverie.parser
def without_headings(file):
    """A manual without its headings."""
    with open(file, encoding="utf-8") as manual:
        return "".join(line for line in manual if not line.startswith("#"))


def test_a_function_is_a_parser_of_some_files(small, provider):
    space = {"parse": ["text", {"markdown": without_headings}], "chunker": ["sentence"], "retriever": [{"bm25": {"top_k": 3}}]}
    results = reverie.Experiment(settings(small, provider.url, space=space, evaluate={"metrics": ["recall"]})).run()
    labels = [trial.labels["parse"] for trial in results.trials]
    assert sorted(labels) == ["markdown=python default=text", "text"]
    for label, trial in zip(labels, results.data["trials"], strict=True):
        passages = [passage["text"] for question in trial["questions"] for passage in question["passages"]]
        assert any("# " in text for text in passages) == (label == "text")


@reverie.reranker(top_n=1)
def longest(passages, question):
    """The longest passage, whatever was asked."""
    return [len(passage) for passage in passages]


def test_functions_are_stages(small, provider):
    space = {"chunker": ["sentence", by_sentence], "retriever": [{"bm25": {"top_k": 3}}], "reranker": ["none", longest]}
    results = reverie.Experiment(settings(small, provider.url, space=space, evaluate={"metrics": ["recall"]})).run()
    labels = [(trial.labels["chunker"], trial.labels["reranker"]) for trial in results.trials]
    assert sorted(labels) == [("python", "none"), ("python", "python"), ("sentence", "none"), ("sentence", "python")]
    passages = {
        labels[i]: [[passage["text"] for passage in question["passages"]] for question in trial["questions"]]
        for i, trial in enumerate(results.data["trials"])
    }
    assert all(text.count(".") == 1 for texts in passages["python", "none"] for text in texts), "a sentence each"
    found, kept = passages["sentence", "none"], passages["sentence", "python"]
    assert kept == [[max(texts, key=len)] for texts in found]


@reverie.retriever(top_k=1)
def by_shared_words(questions, chunks):
    """The chunk that shares most words with the question."""
    words = [set(chunk.split()) for chunk in chunks]
    return [[(i, len(set(question.split()) & shared)) for i, shared in enumerate(words)] for question in questions]


@reverie.generator(model="gpt", max_tokens=16)
def shouted(question, passages, documents):
    """A prompt that nobody else has."""
    return [
        {"role": "system", "content": "SHOUT."},
        {"role": "user", "content": f"{documents[0]}: {passages[0]} {question.upper()}"},
    ]


def test_functions_retrieve_and_write_prompts(small, provider):
    space = {
        "chunker": ["sentence"],
        "retriever": [{"bm25": {"top_k": 1}}, by_shared_words],
        "generator": [{"compact": {"model": "gpt"}}, shouted],
    }
    before = provider.statistics()["requests"]
    results = reverie.Experiment(settings(small, provider.url, space=space, evaluate={"metrics": ["recall"]})).run()
    assert all(trial["failures"] == [] for trial in results.data["trials"])
    labels = sorted((trial.labels["retriever"], trial.labels["generator"]) for trial in results.trials)
    assert labels == [("bm25", "compact"), ("bm25", "python"), ("python", "compact"), ("python", "python")]
    answered = [question["answer"] for trial in results.data["trials"] for question in trial["questions"]]
    assert all(answered)
    assert provider.statistics()["requests"] > before


@reverie.retriever(top_k=2)
def from_elsewhere(questions, chunks, documents):
    """Passages as an index of another system gives them: half a chunk, and a text that is in no document."""
    words = [set(chunk.split()) for chunk in chunks]
    found = []
    for question in questions:
        best = max(range(len(chunks)), key=lambda i: len(set(question.split()) & words[i]))
        found.append([{"text": chunks[best][: len(chunks[best]) // 2], "document": documents[best]}, {"text": "Elsewhere."}])
    return found


@reverie.generator
def first_passage(question, passages):
    """An answer that no model wrote."""
    return None if "1703" in question else f"{passages[0]} [1]"


def test_functions_return_passages_and_answers_of_their_own(small, provider):
    space = {"chunker": ["sentence"], "retriever": [from_elsewhere], "generator": [first_passage]}
    before = provider.statistics()["requests"]
    results = reverie.Experiment(
        settings(small, provider.url, space=space, evaluate={"metrics": ["recall", "token_f1"]})
    ).run(progress=False)
    assert provider.statistics()["requests"] == before, "no model is asked"
    (trial,) = results.data["trials"]
    assert trial["failures"] == [] and trial["function_failures"] == []
    passages = results.passages()
    placed = [row for row in passages if row["rank"] == 1]
    assert len(placed) == 6 and all(row["end_byte"] - row["start_byte"] == len(row["text"].encode()) for row in placed)
    assert all((row["document"], row["end_byte"]) == ("", 0) for row in passages if row["text"] == "Elsewhere.")
    remarks = [remark for question in trial["questions"] for remark in question["remarks"]]
    assert remarks == ["1 of the 2 passages of the retriever stand in no document, so no evidence is found in them"] * 6
    for question in trial["questions"]:
        answer = question["answer"]
        if answer["citations"]:
            assert answer["text"].startswith(question["passages"][0]["text"].rstrip(".")) and answer["citations"] == [1]
        assert answer["calls"] == 0
    index = reverie.index(reverie.chunk(reverie.parse(small.folder / "docs")))
    found = index.search("Which mill was built in 1703?", retriever=from_elsewhere)
    assert found["text"][1] == "Elsewhere." and found["number"] == [found["number"][0], None] and found["start_byte"][1] == 0


def test_what_a_model_would_need_is_refused_where_a_function_answers():
    def answer(passages):
        return passages[0]

    assert reverie.generator(answer).setting()["python"]["answers"] is True
    assert "answers" not in reverie.generator(model="gpt")(answer).setting()["python"]
    with pytest.raises(ValueError, match="max_tokens, seed: only a model has this"):
        reverie.generator(max_tokens=9, seed=1)(answer)


def test_a_stage_that_raises_names_the_document(small, provider):
    @reverie.chunker
    def broken(text):
        return [text[0] + "x"]

    space = {"chunker": ["sentence", broken], "retriever": [{"bm25": {"top_k": 3}}]}
    with pytest.warns(FunctionWarning, match="broken"):
        results = reverie.Experiment(settings(small, provider.url, space=space, evaluate={"metrics": ["recall"]})).run()
    failures = {trial["trial"]["labels"]["chunker"]: trial["failures"] for trial in results.data["trials"]}
    assert failures["sentence"] == [], "the rest goes on"
    assert all(f".md: the function `broken` of {__file__}: part 0 is not in the text" in failure for failure in failures["python"]), (
        failures
    )
    assert failures["python"]


def test_a_function_that_cannot_stand_alone_is_refused():
    limit = 3
    with pytest.raises(ValueError, match="uses limit from outside of it"):
        reverie.metric(lambda_free(limit))
    with pytest.raises(ValueError, match="uses json from outside of it"):

        @reverie.metric
        def structured(answer):
            return bool(json.loads(answer))

    with pytest.raises(ValueError, match="with a name"):
        reverie.metric(lambda answer: 1.0)
    with pytest.raises(ValueError, match="decorate it with `reverie.metric`, `reverie.chunker` or"):
        reverie.Experiment({"name": "x", "space": {"chunker": [lambda_free]}})
    for bound in (functools.partial(len), functools.partial(at_least, least=object())):
        with pytest.raises(ValueError, match="made by `def`|only texts, numbers, truth values"):
            reverie.metric(bound)
    with pytest.raises(ValueError, match="made by `def`"):
        reverie.metric("a".startswith)


FEW = 2


def at_least(answer, least, *, most=FEW * 50, passages=None):
    """Has a parameter that nobody gives, and a default that is a name here."""
    words = len(answer.split())
    return least <= words <= most, f"{words} words, {len(passages)} passages"


async def slowly(answer, reference, pause: float = 0.001):
    """Waits before it answers."""
    import asyncio

    await asyncio.sleep(pause)
    return (None, "it has no digit") if not any(map(str.isdigit, reference)) else (reference in answer, "looked")


def test_functions_come_in_every_natural_shape(small, provider):
    few, none = functools.partial(at_least, least=1), reverie.metric(name="none")(functools.partial(at_least, least=99))
    results = scored_by(small, provider, few, none, slowly).run(on_error="raise")
    (row,) = results.leaderboard()
    assert (row["at_least"], row["none"], row["slowly"]) == (1.0, 0.0, 0.0)
    assert row["slowly_scored"] == row["at_least_scored"] == 6
    details = [question["scores"] for question in results.data["trials"][0]["questions"]]
    assert all(scores["slowly"]["detail"] == {"function": "slowly", "reason": "looked"} for scores in details)
    assert all(scores["at_least"]["detail"]["reason"].endswith("words, 1 passages") for scores in details)
    scores = reverie.evaluate(
        [{"question": "Why?", "answer": "So it is.", "reference": "So", "contexts": ["a"]}], [few, slowly]
    )
    assert scores["at_least"] == [1.0] and scores["slowly"] == [None]
    assert scores.missing()["reason"] == ["not applicable: the function `slowly` gives no score: it has no digit"]
    assert scores.details()["detail"][0]["reason"] == "3 words, 1 passages"


def test_a_function_is_the_objective(small, provider):
    space = {"chunker": ["sentence"], "retriever": [{"bm25": {"top_k": 1}}, {"bm25": {"top_k": 3}}]}
    space["generator"] = [{"compact": {"model": "gpt"}}]

    def passages_found(passages):
        return len(passages) / 3

    evaluate = {"metrics": ["recall", passages_found], "objective": [passages_found]}
    results = reverie.Experiment(settings(small, provider.url, space=space, evaluate=evaluate)).run()
    assert results.leaderboard()["objective"] == [1.0, pytest.approx(1 / 3)] and results.winner == "t02"
    evaluate = {"metrics": ["recall"], "objective": [passages_found]}
    with pytest.raises(ValueError, match="evaluate.objective.*: `passages_found` is not among the metrics"):
        reverie.Experiment(settings(small, provider.url, space=space, evaluate=evaluate))


def lambda_free(limit):
    """A function that needs what is around it."""

    def short(answer):
        return len(answer) < limit

    return short


def scored_by(small, provider, *metrics, **changes):
    """An experiment of one trial, scored by functions."""
    space = {
        "chunker": ["sentence"],
        "retriever": [{"bm25": {"top_k": 1}}],
        "generator": [{"compact": {"model": "gpt"}}],
    }
    evaluate = {"metrics": ["recall", *metrics], "objective": ["recall"]}
    return reverie.Experiment(settings(small, provider.url, space=space, evaluate=evaluate, **changes))


@reverie.metric
def unlucky(answer, question):
    """Raises at one question."""
    if "number 3 " in question:
        numbers = []
        return numbers[0]
    return True


def test_what_a_metric_raises_is_a_failure_of_its_own_kind_with_its_traceback(small, provider):
    experiment = scored_by(small, provider, unlucky)
    with pytest.warns(FunctionWarning) as told:
        results = experiment.run()
    warning = str(next(each.message for each in told if each.category is FunctionWarning))
    assert f"metric the function `unlucky` of {__file__}: IndexError" in warning and "return numbers[0]" in warning
    assert "in t01, at q3" in warning
    assert results.data["function_errors"] == 1 and results.data["provider_errors"] == 0
    failures = results.failures()
    assert failures.columns == [
        "trial",
        "stage",
        "label",
        "function",
        "file",
        "kind",
        "question_id",
        "question",
        "message",
        "traceback",
    ]
    (row,) = failures
    assert [row[name] for name in ("trial", "stage", "function", "kind", "question_id")] == [
        "t01",
        "metric",
        "unlucky",
        "raised",
        "q3",
    ]
    assert row["message"].startswith("IndexError: list index out of range (line ")
    assert row["traceback"].startswith("Traceback (most recent call last)") and "return numbers[0]" in row["traceback"]
    missing = [by_metric["unlucky"]["reason"] for by_metric in results.questions("t01")["missing"] if by_metric]
    assert missing == ["function_error"]
    assert "failures()" in repr(results)


def test_a_run_raises_if_asked_to_and_has_the_results_all_the_same(small, provider):
    with pytest.raises(FunctionError, match="IndexError") as raised:
        scored_by(small, provider, unlucky).run(on_error="raise")
    without = scored_by(small, provider).run()
    assert raised.value.results.leaderboard()["recall"] == without.leaderboard()["recall"] != [None]
    assert [failure["question_id"] for failure in raised.value.failures] == ["q3"]
    with pytest.raises(ValueError, match="on_error"):
        scored_by(small, provider).run(on_error="ignore")


def test_a_run_without_failures_warns_of_nothing(small, provider):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = scored_by(small, provider, names_the_year).run(on_error="raise")
    assert len(results.failures()) == 0 and results.data["function_errors"] == 0


def test_a_function_that_never_returns_is_ended_and_named(small, provider):
    @reverie.metric(timeout_seconds=5)
    def endless(answer, question):
        while "number 2 " in question:
            pass
        return True

    # On a busy machine a call that returns may be late too. What is late is asked again, and the rest is kept.
    for _ in range(20):
        with pytest.warns(FunctionWarning, match="did not return within 5 s for t01"):
            results = scored_by(small, provider, endless).run()
        rows = list(results.failures())
        assert {(row["kind"], row["function"]) for row in rows} == {("timed_out", "endless")}
        assert "q2" in [row["question_id"] for row in rows]
        if len(rows) == 1:
            break
    assert [row["question_id"] for row in rows] == ["q2"]
    assert results.leaderboard()["endless_scored"] == [5]


def test_a_limit_that_cannot_pass_is_refused_and_one_is_no_part_of_a_key(small, provider):
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout_seconds"):
            reverie.chunker(timeout_seconds=seconds)
    experiment = settings(small, provider.url)
    experiment["evaluate"] = {"metrics": [{"python": {"source": "def score(answer): return 1", "timeout_seconds": 0}}]}
    with pytest.raises(ValueError, match="timeout_seconds"):
        reverie.Experiment(experiment).run()

    def score_with(seconds):
        def right(answer):
            return True

        return scored_by(small, provider, reverie.metric(timeout_seconds=seconds)(right)).run()

    assert score_with(20).data["executed"] > 0
    assert score_with(30).data["executed"] == 0


def test_a_function_runs_in_the_interpreter_that_runs_this(small, provider, capfd):
    @reverie.metric(name="same")
    def elsewhere(answer):
        import os
        import sys

        print("I am", os.path.realpath(sys.executable), sys.prefix)
        return True

    scored_by(small, provider, elsewhere).run()
    printed = [line for line in capfd.readouterr().err.splitlines() if "I am" in line]
    assert len(printed) == 6
    assert set(printed) == {f"[elsewhere, t01] I am {os.path.realpath(sys.executable)} {sys.prefix}"}


def test_a_missing_module_says_which_interpreter_lacks_it_and_is_looked_for_again(small, provider, tmp_path):
    (tmp_path / "needy.py").write_text(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport mill_of_oats\n\ndef score(answer):\n    return mill_of_oats.N\n"
    )
    needy = {"python": {"name": "needy", "file": str(tmp_path / "needy.py")}}
    with pytest.warns(FunctionWarning, match="No module named 'mill_of_oats'"):
        results = scored_by(small, provider, needy).run()
    assert sys.executable in results.failures()["message"][0]
    assert results.failures()["file"][0] == str(tmp_path / "needy.py")
    (tmp_path / "mill_of_oats.py").write_text("N = 0.5\n")
    assert scored_by(small, provider, needy).run(on_error="raise").leaderboard()["needy"] == [0.5]


@reverie.retriever
def lost(questions, chunks):
    """Fails whatever it is asked."""
    raise LookupError("nothing is where it was")


@reverie.generator(model="gpt")
def speechless(question, passages):
    """Writes no prompt for one question."""
    return "" if "number 1 " in question else question


def test_stages_that_fail_are_told_with_their_trial(small, provider):
    space = {
        "chunker": ["sentence"],
        "retriever": [{"bm25": {"top_k": 1}}, lost],
        "generator": [{"compact": {"model": "gpt"}}, speechless],
    }
    evaluate = {"metrics": ["recall", "token_f1"], "objective": ["recall"]}
    with pytest.warns(FunctionWarning):
        results = reverie.Experiment(settings(small, provider.url, space=space, evaluate=evaluate)).run()
    by_trial = {trial.id: (trial.labels["retriever"], trial.labels["generator"]) for trial in results.trials}
    rows = [(by_trial[row["trial"]], row["stage"], row["function"], row["question_id"]) for row in results.failures()]
    assert sorted(rows, key=str) == [
        (("bm25", "python"), "generator", "speechless", "q1"),
        (("python", "compact"), "retriever", "lost", None),
        (("python", "python"), "retriever", "lost", None),
    ]
    assert all("LookupError" in row["message"] for row in results.failures() if row["stage"] == "retriever")
    # What is missing because of them is their failure too, and no provider's.
    assert results.data["provider_errors"] == 0
    for trial in results.data["trials"]:
        reasons = {
            score["score"]["missing"]["reason"]
            for question in trial["questions"]
            for score in question["scores"].values()
            if "missing" in score["score"]
        }
        assert reasons <= {"function_error"}


def test_a_pipeline_raises_what_a_function_did(small, provider):
    @reverie.reranker
    def moody(question, passages):
        if "seven" in question:
            raise RuntimeError("I do not like seven")
        return [1.0] * len(passages)

    space = {"chunker": ["sentence"], "retriever": [{"bm25": {"top_k": 2}}], "reranker": [moody]}
    experiment = reverie.Experiment(settings(small, provider.url, space=space, dataset=None, evaluate=None))
    experiment.run()
    pipeline = experiment.pipeline("t01")
    assert pipeline.query("Which mill?").passages
    with pytest.raises(FunctionError, match="I do not like seven") as raised:
        pipeline.query("Is it seven mills?")
    assert "in moody" in str(raised.value) and raised.value.failures[0]["stage"] == "reranker"
    with pytest.raises(FunctionError, match="I do not like seven"):
        asyncio.run(pipeline.aquery("Is it seven mills?"))


def is_there(pid: int) -> bool:
    """Whether a process runs, and does not only wait to be looked at."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked at in /proc")
@pytest.mark.parametrize("forever", ["while True: pass", "__import__('re').match('(a+)+$', 'a' * 64 + 'b')"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_of_a_function_outlives_the_program(small, provider, tmp_path, forever, how):
    pids = tmp_path / "pids"
    (tmp_path / "own.py").write_text(
        "import os, subprocess\n\ndef score(answer):\n"
        f"    with open({str(pids)!r}, 'w') as file:\n"
        "        print(os.getpid(), subprocess.Popen(['sleep', '3600']).pid, file=file)\n"
        f"    {forever}\n"
    )
    metric = {"python": {"name": "own", "file": str(tmp_path / "own.py")}}
    text = json.dumps(settings(small, provider.url, evaluate={"metrics": ["recall", metric]}))
    program = subprocess.Popen(
        [sys.executable, "-c", f"import json, reverie; reverie.Experiment(json.loads({text!r})).run()"]
    )
    try:
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, "the function was not called", 300)
        started = [int(pid) for pid in pids.read_text().split()]
        assert all(map(is_there, started))
        program.send_signal(how)
        program.wait(300)
        wait_until(lambda: not any(map(is_there, started)), "a process goes on", 300)
    finally:
        program.kill()
        program.wait()


def test_ctrl_c_ends_a_function_at_once(small, provider, tmp_path):
    called, interrupted, ended = tmp_path / "called", [], threading.Event()

    def sleeping(answer, called):
        import time

        open(called, "w").close()
        time.sleep(3600)

    def interrupt():
        wait_until(lambda: called.exists() or ended.is_set(), "the function was not called", 300)
        if not ended.is_set():
            interrupted.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    experiment = scored_by(small, provider, functools.partial(sleeping, called=str(called)))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            experiment.run()
        assert time.monotonic() - interrupted[0] < 300
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGINT, before)


def test_failures_name_the_line_of_the_users_own_file():
    @reverie.metric
    def unlucky(
        answer,
        least=3,
    ):
        words = answer.split()
        return words[least] == "mill"

    line = unlucky.function.__code__.co_firstlineno + 6
    with pytest.warns(FunctionWarning) as warned:
        scores = reverie.evaluate([{"question": "Who?", "answer": "Jan"}], unlucky, progress=False)
    (row,) = scores.failures()
    assert (row["file"], row["message"]) == (__file__, f"IndexError: list index out of range (line {line})")
    assert f'File "{__file__}", line {line}, in unlucky' in row["traceback"]
    assert 'return words[least] == "mill"' in row["traceback"]
    assert f"the function `unlucky` of {__file__}" in str(warned[0].message)


def test_a_parameter_with_a_default_need_not_be_there():
    def right(answer, reference=None):
        return reference is None or reference in answer

    def needs(answer, reference):
        return reference in answer

    rows = [{"question": "When?", "answer": "In 1700.", "reference": "1800"}, {"question": "Who?", "answer": "Jan."}]
    scores = reverie.evaluate(rows, [right, needs], progress=False)
    assert scores["right"] == [0.0, 1.0] and scores["needs"] == [0.0, None]
    assert reverie.evaluate(rows[1:], right, progress=False)["right"] == [1.0]
