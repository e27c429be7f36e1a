"""`reverie.Experiment` and `reverie.Pipeline`, on this machine, with a simulated provider for answers."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import reverie
from workspace import Handler, Provider, settings

pyarrow = pytest.importorskip("pyarrow")


def test_importing_the_package_imports_nothing_else():
    code = "import sys, reverie; print(sorted(name for name in sys.modules if name.startswith('reverie')), 'json' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(reverie.__file__).parents[1])},
        check=True,
    )
    assert done.stdout.split() == ["['reverie',", "'reverie._kinds']", "False"]
    assert "Experiment" in dir(reverie)
    with pytest.raises(AttributeError, match="Experimnet"):
        reverie.Experimnet  # noqa: B018


def test_an_experiment_is_planned_run_compared_and_asked(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url))
    assert experiment.name == "mills"
    assert experiment.trials()["trial"] == ["t01", "t02", "t03", "t04"]
    plan = experiment.plan()
    chunks = next(row for row in plan.operators().rows() if row["operator"] == "chunk")
    assert plan.trials == 4 and chunks["planned"] > chunks["unique"] > chunks["stored"] == 0
    assert "4 trials" in repr(plan) and "<table>" in plan._repr_html_()
    sampled = experiment.sample_plan()
    assert sampled["is_whole"] and sampled["cost"]["calls"]["estimate"] == plan.cost["calls"]
    with pytest.raises(ValueError, match="at least 10 files"):
        experiment.sample_plan(files=9)
    with pytest.raises(RuntimeError):
        experiment.results()

    told = []
    results = experiment.run(progress=told.append)
    assert all({"operators", "models"} <= now.keys() for now in told)
    asked = provider.statistics()["requests"]
    assert asked > 6, "questions are answered"
    board = results.leaderboard()
    arrow = pyarrow.table(board)
    assert arrow.num_rows == 4 and arrow.schema.field("recall_low").type == pyarrow.float64()
    assert arrow.schema.field("questions_needed").type == pyarrow.int64()
    assert all(
        low <= mean <= high for low, mean, high in zip(board["recall_low"], board["recall"], board["recall_high"])
    )
    frame = board.to_pandas()
    assert list(frame["objective"]) == sorted(frame["objective"], reverse=True)
    questions = results.questions("t02")
    assert len(questions) == 6 and len(results.questions()) == 24
    first = questions.rows()[0]
    assert first["reference"] == "1700" and first["answer"] and len(first["retrieved"]) == 3

    shown = repr(results)
    assert "s p95" in shown and "tokens" in shown and "tasks executed" in results._repr_html_()
    assert pickle.loads(pickle.dumps(results)).leaderboard().rows() == board.rows()
    with pytest.raises(ValueError, match="these are no results"):
        reverie.Results("{}")

    best = experiment.best()
    assert best.id == board["trial"][0] and best.settings["retriever"]["bm25"]["top_k"] in (1, 3)
    assert best.is_winner == (results.winner is not None)
    last = board["trial"][-1]
    difference = results.compare(best.id, last)
    row = dict(zip(difference["metric"], difference.rows()))["precision"]
    assert row["difference"] == pytest.approx(frame["precision"].iloc[0] - frame["precision"].iloc[-1])
    assert row["low"] <= row["difference"] <= row["high"] and row["n_pairs"] == 6
    assert experiment.compare(best.id, last).rows() == difference.rows()
    with pytest.raises(LookupError, match="t01"):
        results.compare("t01", "t99")

    again = experiment.run(progress=False)
    assert again.data["executed"] == 0 and provider.statistics()["requests"] == asked
    assert experiment.results().leaderboard().rows() == again.leaderboard().rows()

    pipeline = experiment.pipeline("t02")
    answer = pipeline.query("Which mill was built in 1703?")
    assert answer.trial == pipeline.trial == "t02" and len(answer.passages) == 3
    assert answer.text and answer.passages[0].document == "03.md" and "03.md" in str(answer)
    assert "03.md" in answer._repr_html_()


def test_many_questions_are_asked_at_once_without_blocking_the_loop(small, slow):
    experiment = reverie.Experiment(settings(small, slow.url, dataset=None, evaluate=None))
    experiment.run()
    pipeline = reverie.Pipeline.load(experiment, "t01")

    async def go_on() -> None:
        while slow.in_flight < 8:
            await asyncio.sleep(0.01)
        slow.go_on.set()

    async def ask() -> list:
        asking = asyncio.gather(*(pipeline.aquery(f"What is ground for village {i}?") for i in range(8)))
        # The model answers none of them until the loop, which therefore is not blocked, has seen all eight.
        await asyncio.wait_for(go_on(), 100)
        return await asking

    slow.go_on.clear()
    answers = asyncio.run(ask())
    assert len({answer.question for answer in answers}) == 8 and all(answer.text for answer in answers)


def test_the_budget_of_an_experiment_is_that_of_its_run_and_a_pipeline_has_its_own(small, provider):
    priced = {"openai": {"model": "gpt", "base_url": f"{provider.url}/v1", "price": {"input": 1.0, "output": 2.0}}}
    changes = settings(small, provider.url, name="budgets", models={"gpt": {"chat": priced}})
    changes["space"]["retriever"] = [{"bm25": {"top_k": 1}}]
    changes["evaluate"]["budget"] = {"calls": 20}
    experiment = reverie.Experiment(changes)
    assert experiment.run(progress=False).partial is None, "two trials of six questions"
    questions = [f"When was the mill number {number} built, and what does it grind?" for number in range(40)]
    pipeline = experiment.pipeline()
    for question in questions:
        assert pipeline.query(question).text
    capped = experiment.pipeline(budget_usd=0.001)
    with pytest.raises(RuntimeError, match="budget"):
        for question in questions:
            capped.query("Again: " + question)


class Refusing(Handler):
    """An endpoint that is there, and refuses every request for good."""

    def do_GET(self) -> None:
        """Lists no models."""
        self.answer(200, {"data": []})

    def do_POST(self) -> None:
        """Refuses."""
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(400, {"error": {"message": "the model has left"}})


def test_what_fails_while_a_question_is_asked_is_raised(small):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        experiment = reverie.Experiment(settings(small, url, dataset=None, evaluate=None))
        with pytest.raises(RuntimeError):
            experiment.pipeline()
        experiment.run()
        pipeline = experiment.pipeline("t01")
        with pytest.raises(RuntimeError, match="the model has left"):
            asyncio.run(pipeline.aquery("Which mill grinds oats?"))
        with pytest.raises(RuntimeError, match="the model has left"):
            pipeline.query("Which mill grinds oats?")
        with pytest.raises(RuntimeError, match="t99"):
            experiment.pipeline("t99")
    finally:
        server.shutdown()
        server.server_close()


def test_all_mistakes_are_told_at_once(small, provider):
    wrong = settings(small, provider.url, evaluate={"metrics": ["recal"]})
    wrong["space"]["retriever"] = [{"bm25": {"top": 1}}]
    with pytest.raises(ValueError) as told:
        reverie.Experiment(wrong)
    assert "recal" in str(told.value) and "top" in str(told.value)
    path = small.experiment("file", provider.url)
    path.write_text(path.read_text().replace('"recall"', '"recal"'))
    with pytest.raises(ValueError, match="recal"):
        reverie.Experiment(path)
    with pytest.raises(FileNotFoundError):
        reverie.Experiment(small.folder / "nowhere.toml")


def test_a_file_and_a_dictionary_are_the_same_experiment(small, provider):
    from_dictionary = reverie.Experiment(settings(small, provider.url))
    path = small.folder / "experiment.toml"
    path.write_text(from_dictionary.text)
    from_file = reverie.Experiment(path)
    assert from_file.trials().rows() == from_dictionary.trials().rows()
    assert from_dictionary.run().data["executed"] > 0
    assert from_file.run().data["executed"] == 0
    assert reverie.Pipeline.load(path).query("Which mill?").passages


def test_ctrl_c_ends_a_run_and_keeps_what_is_finished(small):
    slow = Provider(latency={"constant": {"seconds": 0.5}}, concurrency=2)
    # A shell starts what it runs in the background with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        experiment = reverie.Experiment(settings(small, slow.url))

        def interrupt() -> None:
            while slow.statistics()["requests"] < 8:
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            experiment.run()
        results = experiment.run()
        answered = slow.statistics()["requests"] - sum(slow.statistics()["rejected"].values())
    finally:
        signal.signal(signal.SIGINT, before)
        slow.stop()
    assert results.data["provider_errors"] == 0
    # 24 answers, and what was in flight when it was interrupted.
    assert answered <= 24 + 4 + 4, answered


def small_experiment(**changes):
    """Settings that need nothing but themselves to be read."""
    return {"name": "mills", "corpus": "docs", "chunker": "sentence", "retriever": "bm25", **changes}


def test_models_of_the_catalogue_are_named_without_an_entry(tmp_path):
    made = reverie.Experiment(
        **small_experiment(
            embedder=["all-minilm-l6-v2"],
            retriever=[reverie.retriever.Dense(top_k=3)],
            generator=[reverie.generator.Compact(model="qwen2.5-coder-0.5b-instruct")],
            dataset=[{"question": "Who?", "reference": "Jan"}],
            evaluate={"metrics": ["faithfulness", "answer_similarity"], "judge": "qwen2.5-coder-0.5b-instruct", "embedder": "all-minilm-l6-v2"},
        )
    )
    assert made.trials()["embedder"] == ["all-minilm-l6-v2"]
    assert "models" not in made.text, "an experiment file resolves the same names"
    with pytest.raises(ValueError, match="no model `all-minilm-l6-v3`; did you mean `all-minilm-l6-v2`?"):
        reverie.Experiment(**small_experiment(embedder=["all-minilm-l6-v3"], retriever="dense"))
    with pytest.raises(ValueError, match="no model `xyz`; add \\[models.xyz\\], or name one of the catalogue: .*qwen2.5"):
        reverie.Experiment(**small_experiment(generator=[reverie.generator.Compact(model="xyz")]))


def test_a_local_model_without_a_name_is_the_default_one():
    nameless = {"embedding": {"local": {}}}
    opened = reverie.Experiment(**small_experiment(embedder="e", retriever="dense", models={"e": nameless}))
    assert opened.trials()["embedder"] == ["e"]


def test_an_unknown_parameter_is_told_with_what_may_be_meant():
    for given, said in [
        ("retreiver", "did you mean `retriever`"),
        ("datset", "did you mean `dataset`"),
        ("rerankers", "did you mean `reranker`"),
        ("metrics", "`metrics` stands in `evaluate`"),
        ("faithfullness", "`faithfulness` is a metric"),
        ("colour", "there are name, store"),
    ]:
        with pytest.raises(ValueError, match=said):
            reverie.Experiment(**small_experiment(), **{given: ["x"]})


def test_a_function_as_the_judge_of_an_experiment_is_checked_like_any_other_judge():
    evaluate = {"metrics": ["faithfulness"], "judge": lambda messages: ""}
    with pytest.raises(ValueError, match=r"evaluate.metrics\[0\]: `faithfulness` scores answers, but \[space\] has no"):
        reverie.Experiment(**small_experiment(evaluate=evaluate))


@pytest.mark.parametrize("awaited", [False, True])
def test_what_was_scored_before_a_stop_is_there_as_partial_results(tmp_path, awaited):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "mill.txt").write_text("The mill was built in 1700. It grinds oats. " * 20)
    signs = tmp_path / "signs"
    signs.mkdir()
    here = str(signs)

    @reverie.metric
    def waits(passages, signs=here):
        import os
        import time

        number = len(os.listdir(signs))
        open(os.path.join(signs, str(number)), "w").close()
        # The first trials are scored; a later call does not end by itself.
        while number >= 12:
            time.sleep(0.01)
        return 1.0

    evidence = [{"document": "mill.txt", "quote": "It grinds oats."}]
    experiment = reverie.Experiment(
        name="stopped", store=str(tmp_path / "store"), corpus=str(tmp_path / "docs"),
        dataset=[{"question": f"What does mill {i} grind?", "reference": "Oats.", "evidence": evidence} for i in range(6)],
        chunker=["sentence"], retriever=[{"bm25": {"top_k": k}} for k in (1, 2, 3, 4, 5, 6)],
        evaluate={"metrics": ["recall", waits], "objective": ["recall"]},
    )  # fmt: skip

    def stop_when_stuck(stop):
        while len(os.listdir(signs)) <= 12:
            time.sleep(0.01)
        stop()

    if awaited:

        async def cancelled():
            task = asyncio.create_task(experiment.arun(progress=False))
            await asyncio.to_thread(stop_when_stuck, lambda: None)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
    else:
        threading.Thread(target=stop_when_stuck, args=(lambda: signal.raise_signal(signal.SIGINT),), daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            experiment.run(progress=False)
    results = experiment.results()
    assert results.partial and "interrupted" in results.partial
    assert 1 <= len(results.trials) < 6 and results.winner is None
