"""Results: tables of questions, passages and failures, past runs by name, and what can be pickled."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import statistics
import subprocess
import sys
from types import SimpleNamespace

import pytest

import reverie
from workspace import Workspace, settings

pytest.importorskip("pyarrow")


@reverie.metric
def short(answer):
    """A function that can be pickled by what it is made of."""
    return len(answer) < 1000


@pytest.fixture
def ran(small, provider, monkeypatch):
    """An experiment that has run once, in the current folder."""
    monkeypatch.chdir(small.folder)
    experiment = reverie.Experiment(settings(small, provider.url, store=None))
    return experiment, experiment.run(progress=False)


def test_columns_are_named_for_what_they_hold(ran):
    _, results = ran
    questions = results.questions("t02")
    assert questions.columns[:5] == ["trial", "question_id", "question", "reference", "answer"]
    assert questions["question_id"][0] == "q0" and questions["question"][0] == "When was the mill number 0 built?"
    passages = results.passages("t02")
    assert passages.columns[:6] == ["trial", "question_id", "question", "rank", "document", "text"]
    assert len(passages) == 18 and passages["rank"][:4] == [1, 2, 3, 1] and all(passages["text"])
    assert passages["question"][0] == questions["question"][0]
    assert [row["document"] for row in passages if row["question_id"] == "q0"] == questions["retrieved"][0]
    assert set(passages["cited"]) <= {True, False} and len(results.passages()) > 18
    assert "question_id" in results.failures().columns and len(results.failures()) == 0
    for table in (questions, passages):
        assert len(table.to_pandas()) == len(table)
    with pytest.raises(LookupError, match="t01"):
        results.passages("t99")


def test_past_runs_are_found_by_the_name_of_their_experiment(ran, small, provider):
    _, first = ran
    assert reverie.Results.of("mills").data == first.data
    second = reverie.Experiment(
        settings(small, provider.url, store=None, evaluate={"metrics": ["recall"]})
    ).run(progress=False)
    assert reverie.Results.of("mills").run == second.run != first.run
    past = reverie.Results.past("mills")
    assert past["run"] == [second.run, first.run] and len(reverie.Results.past("others")) == 0
    assert reverie.Results.of("mills", first.run, store=small.folder / ".reverie").data == first.data
    with pytest.raises(LookupError, match=re.escape(f"there are {second.run}, {first.run}")):
        reverie.Results.of("mills", "0000")
    with pytest.raises(RuntimeError, match="others"):
        reverie.Results.of("others")
    with pytest.raises(ValueError, match="letters, digits"):
        reverie.Results.of("../mills")


def test_a_notebook_stores_the_plot_only_where_it_is_asked_for(ran, tmp_path):
    _, results = ran
    assert "<iframe" not in results._repr_html_() and len(results._repr_html_()) < 20_000
    plot = results.plot()
    assert "<iframe" in plot._repr_html_() and "allow-scripts" in plot._repr_html_()
    plot.save(tmp_path / "plot.html")
    assert (tmp_path / "plot.html").read_text(encoding="utf-8") == plot.html and "<html" in plot.html
    alone = {**results.data, "trials": results.data["trials"][:1]}
    with pytest.raises(LookupError, match="fewer than two trials"):
        reverie.Results(json.dumps(alone)).plot()


def test_own_answers_are_compared_with_a_trial(ran):
    _, results = ran
    scores = results.scores("t02")
    questions = results.questions("t02").rows()
    assert scores["recall"] == [row["recall"] for row in questions] and len(scores) == len(questions)
    assert scores.table()["question_id"] == [row["question_id"] for row in questions]
    # The same two trials, compared by their scores and by the run.
    pair = scores.compare(results.scores("t01"))
    assert pair.rows() == results.compare("t02", "t01").rows() and repr(pair).startswith("t02 of run ")
    silent = [{"question": row["question"], "reference": row["reference"], "answer": "nothing"} for row in questions]
    mine = reverie.evaluate(silent, ["token_f1"], progress=False)
    (row,) = reverie.compare(scores, mine, names=("trial", "mine")).rows()
    assert row["metric"] == "token_f1" and row["n_pairs"] == len(questions)
    assert row["difference"] == pytest.approx(statistics.fmean(scores["token_f1"]) - statistics.fmean(mine["token_f1"]))
    with pytest.raises(LookupError, match="there is no trial 't99'"):
        results.scores("t99")


def test_the_best_pipelines_are_the_space_of_a_next_experiment(ran, small, provider):
    experiment, results = ran
    first, second = results.finalists(2)
    assert [first["retriever"], second["retriever"]] == [trial.settings["retriever"] for trial in results.trials[:2]]
    brief = reverie.generator.Compact(model="gpt", max_tokens=9)
    spaces = results.finalists(1, generator=[{"compact": {"model": "gpt"}}, brief], reranker="none")
    following = reverie.Experiment({**settings(small, provider.url), "name": "following", "space": spaces})
    # A label has the settings in which trials of one experiment differ.
    best = results.trials[0].labels["retriever"].split("(")[0]
    assert len(following.trials()) == 2 and set(following.trials()["retriever"]) == {best}
    with pytest.raises(ValueError, match="there is no axis `generatr`; there are parse, chunker"):
        results.finalists(generatr="compact")
    with pytest.raises(ValueError, match="best: at least one pipeline, not 0"):
        results.finalists(0)


def test_a_trial_becomes_a_bundle_that_is_served(ran, tmp_path):
    experiment, results = ran
    bundle = experiment.promote("bundles/mills-1", "t02")
    assert (bundle.name, bundle.trial, bundle.run) == ("mills", "t02", results.run)
    assert bundle.place == str(tmp_path / "bundles" / "mills-1") and bundle.bytes > 0
    assert bundle.settings["retriever"] == next(each for each in results.trials if each.id == "t02").settings["retriever"]
    service = reverie.Service(bundle.place)
    assert service.version == bundle.digest
    assert experiment.promote(tmp_path / "again", run=results.run[:12]).trial == results.best().id
    with pytest.raises(RuntimeError, match="is there already; a bundle is never changed"):
        experiment.promote("bundles/mills-1", "t01")
    with pytest.raises(RuntimeError, match="there is no trial `t99`"):
        experiment.promote("bundles/mills-2", "t99")
    with pytest.raises(ValueError, match="into: .*name one that Reverie can fill: pgvector"):
        experiment.promote("bundles/mills-2", "t01", into="mysql")
    with pytest.raises(ValueError, match="`alias` needs `into`"):
        experiment.promote("bundles/mills-2", "t01", alias="mills")
    with pytest.raises(RuntimeError, match="compares no vectors; promote it without"):
        experiment.promote("bundles/mills-2", "t01", into=reverie.vector_index.Chroma(url="http://127.0.0.1:1"))
    assert bundle.database is None
    assert not (tmp_path / "bundles" / "mills-2").exists()


def test_what_people_hold_can_be_pickled(ran):
    experiment, results = ran
    pipeline = experiment.pipeline("t02")
    answer = pipeline.query("Which mill was built in 1703?")
    for held in (experiment.plan(), results.leaderboard(), results.best(), results.compare("t01", "t02"), answer):
        assert repr(pickle.loads(pickle.dumps(held))) == repr(held)
    again = pickle.loads(pickle.dumps(pipeline))
    assert again.trial == "t02" and again.query("Which mill was built in 1703?").text == answer.text
    function = pickle.loads(pickle.dumps(short))
    assert function("a") and function.setting() == short.setting() and repr(function) == repr(short)
    assert pickle.loads(pickle.dumps(function)).setting() == short.setting()


def test_a_run_can_be_awaited(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url))

    async def both():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.02)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        results = await experiment.arun(progress=False)
        ticking.cancel()
        return results, ticks

    results, ticks = asyncio.run(both())
    assert len(results.trials) == 4 and ticks > 3
    assert experiment.run().data["executed"] == 0

    async def wrong():
        await experiment.arun(budget_usd=-1)

    with pytest.raises(ValueError, match="budget_usd"):
        asyncio.run(wrong())


def test_an_amount_that_is_none_is_refused(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url))
    for amount in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="^budget_usd: .* is no amount of dollars"):
            experiment.run(budget_usd=amount)
    assert provider.statistics()["requests"] == 0


def test_mistakes_in_a_dictionary_cite_its_keys(small, provider):
    models = {"gpt": {"chat": {"openai": {"model": "gpt", "base_ur": "http://h/v1"}}}}
    for changes, place in [
        ({"evaluate": {"metrics": ["recal"]}}, "evaluate.metrics[0]: "),
        ({"evaluate": {"metrics": ["recall", {"token_f1": {"x": 1}}]}}, "evaluate.metrics[1].token_f1.x: "),
        ({"evaluate": {"metrics": []}}, "evaluate.metrics: "),
        ({"evaluate": {"metrics": ["recall"], "objective": ["recal"]}}, "evaluate.objective: "),
        ({"evaluate": {"metrics": ["recall"], "judge": "nobody"}}, "evaluate.judge: "),
        ({"evaluate": {"metrics": ["recall"], "budget": {"usd": "much"}}}, "evaluate.budget.usd: "),
        ({"evaluate": {"metric": ["recall"]}}, "evaluate.metric: "),
        ({"models": models}, "models.gpt.chat.openai.base_ur: "),
        ({"corpus": {"source": "docs", "includ": []}}, "corpus.includ: "),
        ({"dataset": {"path": "g", "generate": {"size": 2}}}, "dataset.generate: "),
        ({"corpse": {}}, "the experiment: unknown key `corpse`; did you mean `corpus`?"),
        ({"name": "a b"}, "name: "),
        ({"space": {"chunker": [{"sentence": {"chunk_size": [1, 2]}}], "retriever": "bm25"}}, "space.chunker[0].sentence.chunk_size: "),
    ]:
        with pytest.raises(ValueError) as told:
            reverie.Experiment(settings(small, provider.url, **changes))
        lines = str(told.value).splitlines()
        assert any(line.startswith(place) for line in lines), (place, lines)
        assert not any(re.match(r"line \d|\d+:\d+", line) for line in lines), lines


def test_no_number_is_below_zero_by_nothing(ran):
    _, results = ran
    rows = results.compare("t01", "t02")
    for page in (repr(results), results._repr_html_(), repr(rows), rows._repr_html_(), repr(results.leaderboard())):
        assert not re.search(r"-0\.0+(?![0-9])", page)


def test_leaderboards_and_comparisons_of_a_run_that_is_kept_read_no_passages(small, provider):
    store = str(small.folder / "store")
    ran = reverie.Experiment(settings(small, provider.url)).run(progress=False)
    results = small.folder / "store" / "runs" / ran.run / "results.json"
    results.write_bytes(b" " * results.stat().st_size)
    kept = reverie.Results.of("mills", store=store)
    assert kept.leaderboard().rows() == ran.leaderboard().rows() and kept.best().id == ran.best().id
    assert kept.compare("t01", "t02").rows() == ran.compare("t01", "t02").rows()
    with pytest.raises(LookupError, match="there is no trial 't99'"):
        kept.compare("t01", "t99")
    with pytest.raises(RuntimeError, match="results.json"):
        kept.questions()


def test_one_trial_is_read_without_the_others_and_all_together_give_the_same(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url))
    ran = experiment.run(progress=False)
    folder = small.folder / "store" / "runs" / ran.run
    for path in (folder, folder / "results.json"):
        assert reverie.Results.read(path).data == ran.data
    kept = experiment.results()
    assert kept.questions().rows() == ran.questions().rows() and kept.losses().rows() == ran.losses().rows()
    with pytest.raises(ValueError, match="Results.read"):
        reverie.Results((folder / "results.json").read_text(encoding="utf-8"))

    table = pytest.importorskip("pyarrow.parquet").read_table(folder / "trials")
    assert table.num_rows == len(ran.data["trials"]) * len(ran.data["questions"])
    assert {f"score_{metric['name']}" for metric in ran.data["metrics"]} <= set(table.column_names)
    answers = {(row["trial"], row["question_id"]): row["answer"] for row in ran.questions()}
    assert {(row["trial"], row["question"]): row["answer"] for row in table.to_pylist()} == answers

    (other,) = (folder / "trials").glob("t02-*.parquet")
    other.unlink()
    assert kept.questions("t01").rows() == ran.questions("t01").rows()
    assert kept.passages("t01").rows() == ran.passages("t01").rows()
    with pytest.raises(RuntimeError, match="t02-.*run again"):
        experiment.results().questions("t02")
    assert ran.questions("t02").rows(), "a small run is in memory"


def test_passages_count_characters_and_bytes(small, provider):
    path = small.folder / "docs" / "00.md"
    path.write_text("Żółw. " + path.read_text(encoding="utf-8"), encoding="utf-8")
    experiment = reverie.Experiment(settings(small, provider.url, evaluate={"metrics": ["recall"]}))
    ran = experiment.run(progress=False)
    for results in (ran, experiment.results()):
        rows = [row for row in results.passages() if row["document"] == "00.md"]
        assert rows and any(row["end"] < row["end_byte"] for row in rows)
        assert all(row["end"] - row["start"] == len(row["text"]) for row in rows)
        (parsed,) = reverie.parse(str(path))
        assert all(parsed["text"][row["start"] : row["end"]] == row["text"] for row in rows)
    (small.folder / "docs" / "00.md").write_text("Another text altogether.")
    again = experiment.results().passages()
    assert all(row["start"] is None and row["start_byte"] is not None for row in again if row["document"] == "00.md")
    assert any(row["start"] is not None for row in again)


@reverie.metric
def varied(passages, question):
    """A score by lot, which is missing for one question, and for another with three passages."""
    if "number 3 " in question or "number 5 " in question and len(passages) == 3:
        return None, "it is left out"
    import hashlib

    return hashlib.sha256(" ".join([question, *passages]).encode()).digest()[0] / 255


def find_differences(results, axis: str, value: str, baseline: str) -> tuple[int, list[float]]:
    """Pairs of trials that differ on this axis alone, and for each question the mean difference of its scores over them."""
    labels = {trial.id: trial.labels for trial in results.trials}
    pairs = [
        (one, other)
        for one, ours in labels.items()
        for other, theirs in labels.items()
        if (ours[axis], theirs[axis]) == (value, baseline) and {**ours, axis: ""} == {**theirs, axis: ""}
    ]
    scores = {(row["trial"], row["question_id"]): row["varied"] for row in results.questions()}
    differences = []
    for question in dict.fromkeys(row["question_id"] for row in results.questions()):
        both = [(scores[one, question], scores[other, question]) for one, other in pairs]
        if scored := [ours - theirs for ours, theirs in both if ours is not None and theirs is not None]:
            differences.append(statistics.fmean(scored))
    return len(pairs), differences


def test_losses_name_the_step_the_chunk_and_the_shared_terms_of_each_question():
    board = {"winner": None, "rows": []}
    chunk = {"document": "a.md", "number": 3, "span": {"start": 5, "end": 90}, "share": 1.0, "shared_terms": ["mast"]}
    lost = {"step": "not_found", "component": "bm25", "rank": 37, "searched": 5, "depth": 80, "chunk": chunk}
    questions = [
        {"question": "q1", "loss": {"step": "not_found", "component": "bm25", "evidence": [{"searched": 5, "rank": 1}, lost]}},
        {"question": "q2", "loss": {"step": "in_passages", "evidence": [{"searched": 5, "rank": 2}]}},
        {"question": "q3"},
    ]
    golden = [{"id": f"q{n}", "question": f"{n}?", "evidence": [{"document": "a.md"}, {"document": "b.md"}]} for n in (1, 2, 3)]
    results = reverie.Results.__new__(reverie.Results)
    results._board = board
    trial = {"trial": {"id": "t01"}, "questions": questions}
    results._core = SimpleNamespace(
        head_text=lambda: json.dumps({"questions": golden, "trials": [{"trial": {"id": "t01"}}]}),
        trial_text={"t01": json.dumps(trial)}.__getitem__,
    )
    first, second, third = results.losses()
    assert [first[name] for name in ("trial", "question_id", "step", "component")] == ["t01", "q1", "not_found", "bm25"]
    assert [first[name] for name in ("evidence", "lost", "document", "chunk", "rank", "passages")] == [2, 1, "b.md", 3, 37, 5]
    assert (first["start_byte"], first["end_byte"], first["share"], first["shared_terms"]) == (5, 90, 1.0, ["mast"])
    assert (second["step"], second["lost"], second["document"]) == ("in_passages", 0, None)
    assert (third["step"], third["lost"], third["evidence"]) == (None, None, 2), "a run of an earlier version"


def test_warnings_are_a_table_before_and_after_a_run(tmp_path):
    workspace = Workspace(tmp_path, documents=8)
    (workspace.folder / "docs" / "prices.log").write_text("a,b\n")
    (workspace.folder / "docs" / "old.log").write_text("a,b\n")
    space = {"chunker": ["sentence"], "enrich": ["none", "heading"], "retriever": [{"bm25": {"top_k": 3}}]}
    changes = {"models": None, "space": space, "evaluate": {"metrics": ["recall"]}}
    experiment = reverie.Experiment(settings(workspace, "http://127.0.0.1:1", **changes))
    columns = ["code", "trials", "count", "total", "text", "action"]

    planned = experiment.plan().warnings()
    assert planned.columns == columns
    (unread,) = [row for row in planned if row["code"] == "unread-types"]
    assert unread["text"] == "2 files were not read because of the type: 2 .log"
    assert (unread["trials"], unread["count"], unread["total"]) == ([], 2, 10) and unread["action"]
    assert unread["text"] in repr(experiment.plan()) + experiment.plan()._repr_html_()

    results = experiment.run(progress=False)
    told = results.warnings()
    assert told.columns == columns and unread in list(told)
    assert [row for row in results.warnings("t01") if row["trials"] == ["t02"]] == []
    assert f"Warning (unread-types): {unread['text']}." in repr(results)
    with pytest.raises(LookupError):
        results.warnings("t99")

    changes["warnings"] = {"ignore": ["unread-types"]}
    quiet = reverie.Experiment(settings(workspace, "http://127.0.0.1:1", **changes))
    assert "unread-types" not in quiet.plan().warnings()["code"]
    assert "unread-types" not in quiet.run(progress=False).warnings()["code"]
    with pytest.raises(ValueError, match="did you mean `unread-types`"):
        reverie.Experiment(settings(workspace, "http://127.0.0.1:1", **changes | {"warnings": {"ignore": ["unread-type"]}}))


def test_effects_are_differences_between_trials_that_are_equal_on_all_other_axes(tmp_path):
    changes = {
        "models": None,
        "space": {
            "chunker": [{"sentence": {"chunk_size": 32, "chunk_overlap": 0}}, {"token": {"chunk_size": 16, "chunk_overlap": 0}},
                        {"sentence_window": {"window_size": 1}}],
            "retriever": [{"bm25": {"top_k": 1}}, {"bm25": {"top_k": 3}}],
        },
        "evaluate": {"metrics": [varied], "objective": [varied]},
    }  # fmt: skip
    experiment = reverie.Experiment(settings(Workspace(tmp_path, documents=40), "http://127.0.0.1:1", **changes))
    results = experiment.run(progress=False)
    assert len(results.trials) == 6
    effects = results.effects()
    assert effects.columns == ["axis", "value", "baseline", "pairs", "questions", "difference", "low", "high"]

    # A row for each value that the leading trial does not have, on the two axes on which trials differ.
    leading = results.trials[0].labels
    values = {axis: {trial.labels[axis] for trial in results.trials} for axis in ("chunker", "retriever")}
    others = {(axis, value, leading[axis]) for axis in values for value in values[axis] - {leading[axis]}}
    assert len(others) == len(effects) == 3
    assert {(row["axis"], row["value"], row["baseline"]) for row in effects} == others
    first, second = (row["difference"] for row in effects if row["axis"] == "chunker")
    assert first >= second, "the better value comes first"

    for row in effects:
        pairs, differences = find_differences(results, row["axis"], row["value"], row["baseline"])
        assert (row["pairs"], row["questions"]) == (pairs, len(differences))
        # The retriever is paired with each of three chunkers; one question has no pair with both scores.
        assert (pairs, len(differences)) == ((3, 38) if row["axis"] == "retriever" else (2, 39))
        mean = statistics.fmean(differences)
        assert row["difference"] == pytest.approx(mean, abs=1e-9)
        # The interval of the mean over questions: here close to that of Student, with 2.02 standard errors on each side.
        margin = 2.02 * statistics.stdev(differences) / len(differences) ** 0.5
        assert [row["low"], row["high"]] == pytest.approx([mean - margin, mean + margin], abs=margin / 4)
    assert len({row["difference"] for row in effects}) == 3

    path = tmp_path / "effects.toml"
    path.write_text(experiment.text, encoding="utf-8")
    command = [sys.executable, "-m", "reverie", "leaderboard", "-f", path]
    told = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True, encoding="utf-8")
    found = [{**effect, **(effect["interval"] or {})} for effect in json.loads(told.stdout)["effects"]]
    assert [[effect[column] for column in effects.columns] for effect in found] == [list(row.values()) for row in effects]
    told = subprocess.run([*command, "--effects"], check=True, capture_output=True, text=True, encoding="utf-8")
    table = told.stdout[told.stdout.index("what each axis changes") :].splitlines()
    for row in effects:
        shown = f"{row['difference']:+.3f} {row['low']:+.3f} to {row['high']:+.3f} {row['pairs']}"
        (line,) = (line for line in table if row["value"] in line.split()[:2])
        assert re.sub(r"[^\w.+-]+", " ", line.replace("−", "-")).strip().endswith(shown), (line, shown)
