"""Golden questions: generated, read, reviewed, anchored, divided, written."""

from __future__ import annotations

import asyncio
import json
import pickle

import pytest

import reverie
from reverie import golden
from reverie.exceptions import FunctionError, FunctionWarning, GenerationError
from workspace import settings

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

BEES = (
    "Bees that have found food dance on the comb in the dark hive. The angle of the dance tells the direction of the "
    "flowers against the sun. Its length tells the others how far away the flowers are. In this way they lose no time "
    "with searching.\n"
)
MILLS = (
    "The Ostra mill was built by the miller Jan Tesch in 1790. It ground rye for three villages until the railway came "
    "to the valley. The wheel was taken down in the autumn of 1931. Swallows nest below its roof today, and children "
    "bathe in the pond.\n"
)
ONE_KIND = {"single_hop_specific": 1.0}


class Writer:
    """Asks about the second sentence of the passage it is shown, says yes to every check, and knows nothing by itself."""

    __name__ = "writer"

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, messages: list[dict[str, str]]) -> str:
        self.asked += 1
        # Functions are told in words what JSON is wanted.
        wanted, prompt = messages[0]["content"], messages[-1]["content"]
        if '"quote"' in wanted:
            passage = prompt.split("<passage>\n")[1].split("\n</passage>")[0]
            sentence = passage.split(". ")[1].strip() + "."
            words = sentence.rstrip(".").split()
            question = f"What follows {' '.join(words[:-3])}?"
            return json.dumps({"question": question, "answer": " ".join(words[-3:]), "quote": sentence})
        if '"verdicts"' in wanted:
            return json.dumps({"verdicts": [{"number": 1, "reason": "it does", "verdict": "Yes"}]})
        return "unknown"


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A folder with two documents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bees.txt").write_text(BEES)
    (tmp_path / "docs" / "mills.txt").write_text(MILLS)
    return "docs"


def test_the_cost_is_told_before_anything_is_asked(docs):
    writer = Writer()
    told = golden.estimate(docs, writer, size=2, kinds=ONE_KIND)
    assert (told.model, told.size, told.passages, told.cost_usd) == ("writer", 2, 2, 0)
    assert told.most_calls >= told.calls > 2 and told.tokens == told.prompt_tokens + told.completion_tokens > 100
    assert "2 questions with writer" in str(told) and writer.asked == 0
    priced = {"gpt": {"chat": {"openai": {"model": "gpt", "base_url": "http://127.0.0.1:1/v1", "price": {"input": 1, "output": 2}}}}}
    cost = golden.estimate(docs, "gpt", size=2, models=priced, kinds=ONE_KIND)
    assert cost.cost_usd == pytest.approx((cost.prompt_tokens + 2 * cost.completion_tokens) / 1e6)
    assert asyncio.run(golden.aestimate(docs, "gpt", size=2, models=priced, kinds=ONE_KIND)) == cost


def test_a_function_writes_questions_that_an_experiment_takes(docs, tmp_path):
    writer, seen = Writer(), []
    questions = golden.generate(docs, writer, size=2, kinds=ONE_KIND, test_share=0.5, progress=seen.append)
    assert len(questions) == 2 and writer.asked >= 4
    assert {each["evidence"][0]["document"] for each in questions} == {"bees.txt", "mills.txt"}
    assert {each["origin"]["model"] for each in questions} == {"writer"}
    assert sorted(questions["split"]) == ["test", "tune"]
    assert questions.manifest["attempts"] >= 2 and questions.manifest["kinds"] == {"single_hop_specific": 2}
    assert seen[-1]["accepted"] <= seen[-1]["size"] == 2
    assert "Ostra" in repr(questions) or "dance" in repr(questions)
    for frame in (questions.to_pandas(), questions.to_polars(), questions, list(questions)):
        assert [each for each in golden.read(frame)] == list(questions)
    again = pickle.loads(pickle.dumps(questions))
    assert list(again) == list(questions) and again.manifest == questions.manifest
    results = reverie.Experiment(
        name="made", corpus=docs, dataset=questions, chunker="sentence", retriever="bm25",
        evaluate={"metrics": ["recall"]}, store=str(tmp_path / "store"),
    ).run(progress=False)
    assert results.leaderboard()["recall_scored"] in ([1], [2])


def test_what_the_questions_can_show_is_known_before_a_run_and_from_its_scores(docs, tmp_path):
    rows = [
        {"id": f"q{i}", "question": f"{word}?", "evidence": [{"document": "bees.txt", "quote": BEES.split(". ")[0]}]}
        for i, word in enumerate(BEES.split()[:30])
    ]
    questions = golden.read(rows)
    stated = questions.statistics(trials=24)["detectable"]
    assert (stated["questions"], stated["run"], stated["trials"]) == (30, None, 24)
    assert [each["differing_share"] for each in stated["differences"]] == [0.1, 0.3]
    few, many = stated["differences"]
    assert few["two_trials"] is None and many["two_trials"] == pytest.approx(0.29, abs=0.005)
    assert few["all_trials"] is None and many["all_trials"] is None
    large = [{**rows[0], "id": f"q{i}", "question": f"Why {i}?"} for i in range(400)]
    large = golden.read(large).statistics(trials=24)["detectable"]
    assert all(each["all_trials"] > each["two_trials"] for each in large["differences"])
    assert questions.statistics()["detectable"]["differences"][0]["all_trials"] is None
    results = reverie.Experiment(
        name="shown", corpus=docs, dataset=questions, chunker="sentence",
        retriever=[reverie.retriever.Bm25(top_k=1), reverie.retriever.Bm25(top_k=2)],
        evaluate={"metrics": ["recall"]}, store=str(tmp_path / "store"),
    ).run(progress=False)
    found = questions.statistics(results)["detectable"]
    assert found["trials"] == 2 and results.run in (found["run"], found.get("run_without_spread"))


def test_documents_may_be_parsed_or_held_by_the_program(docs):
    texts = [{"path": "bees.txt", "text": BEES}, {"path": "mills.txt", "text": MILLS}]
    wanted = golden.generate(docs, Writer(), size=2, kinds=ONE_KIND, progress=False)
    for given in (reverie.parse(docs), texts, pandas.DataFrame(texts), {"source": docs, "include": ["*.txt"]}):
        found = golden.generate(given, Writer(), size=2, kinds=ONE_KIND, progress=False)
        assert sorted(found["question"]) == sorted(wanted["question"])
    one = golden.generate({"source": docs, "include": ["bees*"]}, Writer(), size=1, kinds=ONE_KIND, progress=False)
    assert one["evidence"][0][0]["document"] == "bees.txt"


def test_questions_are_attacked_by_documents_with_their_words(docs, tmp_path):
    rows = [{"question": f"What is below roof {i}?", "reference": "Swallows."} for i in range(6)]
    attacked = golden.attack(docs, rows, kinds=["hijack", "canary"], size=4, seed=3)
    assert len(attacked.questions) == 4 and len(attacked.documents) == 4
    assert all("attack" in tags for tags in attacked.questions["tags"])
    assert {id.rsplit("-", 1)[1] for id in attacked.questions["id"]} == {"hijack", "canary"}
    for question, text in zip(attacked.questions["question"], attacked.documents["text"]):
        assert text.count(question) == 2
    again = asyncio.run(golden.aattack({"source": str(docs)}, rows, kinds=["hijack", "canary"], size=4, seed=3))
    assert again.documents.rows() == attacked.documents.rows() != golden.attack(docs, rows).documents.rows()
    attacked.write_documents(tmp_path / "docs" / "added")
    assert sorted(path.name for path in (tmp_path / "docs" / "added").iterdir()) == sorted(attacked.documents["path"])
    with pytest.raises(FileExistsError, match="notes-0001.txt is there already"):
        attacked.write_documents(tmp_path / "docs" / "added")
    attacked.write_documents(tmp_path / "docs" / "added", replace=True)
    with pytest.raises(ValueError, match="the code word CANARY.* stands in the documents already, in added/notes-"):
        golden.attack(docs, rows, kinds=["hijack", "canary"], size=4, seed=3)
    with pytest.raises(ValueError, match="is attacked already: give the original questions"):
        golden.attack(docs, attacked.questions)
    for wrong, message in [({"size": 0}, "size: must be at least 1"), ({"kinds": ["hijak"]}, "unknown variant `hijak`")]:
        with pytest.raises(ValueError, match=message):
            golden.attack(docs, rows, **wrong)


def test_many_are_generated_at_once_in_an_event_loop(docs):
    async def both():
        make = lambda size: golden.agenerate(docs, Writer(), size=size, kinds=ONE_KIND, progress=False)  # noqa: E731
        return await asyncio.gather(make(1), make(2))

    one, two = asyncio.run(both())
    assert (len(one), len(two)) == (1, 2)


def test_mistakes_of_settings_name_parameters_and_ask_nothing(docs):
    writer = Writer()
    for mistake, message in [
        ({"size": 0}, "`size` must be at least 1"),
        ({"kinds": {"multihop": 1.0}}, "multi_hop"),
        ({"styles": ["plane"]}, "plain"),
        ({"test_share": 2}, "test_share: the test part must be a share"),
        ({"budget_usd": -1}, "budget_usd"),
        ({"documents": "nowhere"}, "nowhere"),
        ({"model": "no-such-model"}, "no-such-model"),
    ]:
        with pytest.raises((ValueError, RuntimeError), match=message) as raised:
            golden.generate(**{"documents": docs, "model": writer, **mistake})
        assert "line " not in str(raised.value) and "--" not in str(raised.value), raised.value
    unpriced = {"gpt": {"chat": {"openai": {"model": "gpt", "base_url": "http://127.0.0.1:1/v1"}}}}
    with pytest.raises(ValueError, match="price"):
        golden.generate(docs, "gpt", models=unpriced, budget_usd=1)
    assert writer.asked == 0


class Lazy(Writer):
    """Asks the same of every passage."""

    __name__ = "lazy"

    def __call__(self, messages: list[dict[str, str]]) -> str:
        """A draft whose question gives its answer away."""
        self.asked += 1
        if '"quote"' in messages[0]["content"]:
            return json.dumps({"question": "Is it noon at noon?", "answer": "noon", "quote": "noon"})
        return super().__call__(messages)


def test_an_error_without_a_question_says_how_many_were_written_and_rejected_and_has_them(docs):
    with pytest.raises(GenerationError) as raised:
        golden.generate(docs, Lazy(), size=1, kinds=ONE_KIND, progress=False)
    error = raised.value
    assert error.written == error.attempts == 2 and sum(error.counts.values()) == len(error.rejected) == 2
    assert f"wrote {error.written} drafts, and all were rejected" in str(error)
    assert all(f"{reason} {count}" in str(error) for reason, count in error.counts.items())
    assert error.rejected["question"] == ["Is it noon at noon?"] * 2 and error.rejected["document"][0].endswith(".txt")
    with pytest.raises(GenerationError, match="no passage of the documents is worth a question") as raised:
        golden.generate([{"path": "a.txt", "text": "Too short."}], Lazy(), size=1, kinds=ONE_KIND, progress=False)
    assert raised.value.attempts == 0 and raised.value.written == 0


def test_a_writer_that_raises_is_an_error_with_its_traceback_and_is_left_alone(docs):
    calls = []

    def broken(messages):
        calls.append(1)
        return messages["content"]

    many = [{"path": f"{i}.txt", "text": MILLS.replace("1790", str(1790 + i))} for i in range(12)]
    with pytest.raises(FunctionError, match="TypeError: list indices") as raised:
        golden.generate(many, broken, size=5, kinds=ONE_KIND, progress=False)
    assert 'return messages["content"]' in str(raised.value) and raised.value.failures[0]["file"] == __file__
    nothing = raised.value.__cause__
    assert isinstance(nothing, GenerationError) and (nothing.attempts, nothing.counts["function"]) == (3, 3)
    assert 3 <= len(calls) <= 12


def test_questions_are_given_where_a_writer_fails_now_and_then(docs):
    class Moody(Writer):
        __name__ = "moody"

        def __call__(self, messages):
            if '"quote"' in messages[0]["content"] and "Bees" in messages[-1]["content"]:
                raise OSError("not about bees")
            return super().__call__(messages)

    with pytest.warns(FunctionWarning, match="failed, once"):
        questions = golden.generate(docs, Moody(), size=2, kinds=ONE_KIND, progress=False)
    assert len(questions) == 1 and questions.failures()["function"] == ["moody"]
    assert "not about bees" in questions.failures()["traceback"][0] and "bees.txt" in questions.rejected["document"]
    with pytest.raises(FunctionError, match="not about bees") as raised:
        golden.generate(docs, Moody(), size=2, kinds=ONE_KIND, progress=False, on_error="raise")
    assert len(raised.value.results) == 1


def rows() -> list[dict]:
    return [
        {"id": "a", "question": "What do bees do?", "reference": "dance", "quote": "dance on the comb", "document": "bees.txt"},
        {"id": "b", "question": "Who built it?", "reference": "Jan", "quote": "built by the miller Jan Tesch", "document": "mills.txt"},
        {"id": "c", "question": "What is gone?", "reference": "a wall", "quote": "the wall fell", "document": "mills.txt"},
    ]


def test_questions_are_read_from_every_shape_and_all_mistakes_are_told(tmp_path):
    wanted = list(golden.read(rows()))
    (tmp_path / "rows.csv").write_text(pandas.DataFrame(rows()).to_csv(index=False))
    for given in (pandas.DataFrame(rows()), polars.DataFrame(rows()), tmp_path / "rows.csv"):
        assert list(golden.read(given)) == wanted
    statistics = golden.read([{**row, "colour": "red"} for row in rows()]).statistics()
    assert (statistics["questions"], statistics["with_evidence"]) == (3, 3)
    assert statistics["ignored_columns"][0]["name"] == "colour"
    with pytest.raises(ValueError) as raised:
        golden.read([{"question": ""}, {"question": "Why?", "id": "x"}, {"question": "How?", "id": "x"}])
    assert "questions, row 0 (from 0): has an empty question" in str(raised.value)
    assert "questions, row 2 (from 0): has the id `x` of row 1" in str(raised.value)
    with pytest.raises(TypeError, match="not a int"):
        golden.read(3)
    with pytest.raises(FileNotFoundError):
        golden.read(tmp_path / "nowhere.jsonl")


def test_a_review_accepts_edits_and_rejects():
    questions = golden.read(rows())
    reviewed = questions.review(accept=["a"], reject=["c"], edit={"b": {"reference": "Jan Tesch"}})
    assert reviewed["id"] == ["a", "b"] and reviewed["review"] == ["accepted", "edited"]
    assert reviewed["reference"] == ["dance", "Jan Tesch"] and reviewed["question"][1] == "Who built it?"
    assert reviewed.rejected.rows()[0]["reason"] == "review" and reviewed.rejected["question"] == ["What is gone?"]
    assert questions["id"] == ["a", "b", "c"] and questions["review"] == [None] * 3, "the questions are as they were"
    with pytest.raises(ValueError) as raised:
        questions.review(accept=["a", "z"], reject=["a"])
    assert "no question `z`" in str(raised.value) and "`a` is rejected, and accepted or edited" in str(raised.value)
    with pytest.raises(ValueError, match="refrence"):
        questions.review(edit={"b": {"refrence": "x"}})


def test_evidence_is_found_again_and_what_is_lost_is_told(docs):
    anchored = golden.anchor(docs, rows())
    assert (anchored.evidence, anchored.moved, anchored.lost["question_id"]) == (3, 2, ["c"])
    first = anchored.questions["evidence"][0][0]
    assert BEES.encode()[first["start_byte"] : first["end_byte"]].decode() == "dance on the comb"
    assert "correct the quote" in anchored.lost["reason"][0]
    again = asyncio.run(golden.aanchor([{"path": "bees.txt", "text": BEES}, {"path": "mills.txt", "text": MILLS}], anchored.questions))
    assert (again.moved, list(again.questions)) == (0, list(anchored.questions))


def test_differences_and_files(docs, tmp_path):
    questions = golden.read(rows())
    newer = questions.review(reject=["c"], edit={"b": {"reference": "Jan Tesch"}})
    changes = golden.difference(questions, newer)
    assert [(row["change"], row["id"]) for row in changes] == [("removed", "c"), ("changed", "b")]
    assert changes["fields"][1] == ["reference", "review"] and changes.unchanged == 1
    path = tmp_path / "golden.jsonl"
    newer.write(path)
    assert list(golden.read(path)) == list(newer)
    with pytest.raises(FileExistsError, match="golden.jsonl is there already"):
        newer.write(path)
    questions.write(path, replace=True)
    assert len(golden.read(path)) == 3
    questions.write("ragas.csv", columns="ragas")
    assert "user_input" in (tmp_path / "ragas.csv").read_text()
    with pytest.raises(ValueError, match=r"ends in .*\.jsonl"):
        questions.write("golden.docx")
    assert sorted(questions.split(0.34)["split"]) == ["test", "tune", "tune"]


def test_generated_questions_replace_a_file_in_an_experiment(small, provider):
    questions = golden.read(small.folder / "golden.jsonl").review(accept=["q0"])
    results = reverie.Experiment(settings(small, provider.url, dataset=questions)).run(progress=False)
    assert results.leaderboard()["recall_scored"][0] == 6
