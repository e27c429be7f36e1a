"""Ragas: its datasets in evaluations, golden questions and experiments, and ours as its datasets."""

from __future__ import annotations

import pytest

pytest.importorskip("ragas")

from ragas import EvaluationDataset, MultiTurnSample, SingleTurnSample  # noqa: E402
from ragas.messages import AIMessage, HumanMessage, ToolMessage  # noqa: E402

import reverie  # noqa: E402
from conftest import QUESTION, trial  # noqa: E402
from reverie import golden, ragas  # noqa: E402


def single(response="1713"):
    """A dataset of one turn each."""
    return EvaluationDataset(
        samples=[
            SingleTurnSample(
                user_input=f"When was the mill number {i} built?",
                response=response,
                retrieved_contexts=[f"The mill number {i} was built in {1700 + i}."],
                reference=str(1700 + i),
                reference_contexts=[f"The mill number {i} was built in {1700 + i}."],
            )
            for i in range(13, 16)
        ]
    )


def several():
    """A dataset of conversations."""
    spoken = [
        HumanMessage(content="Is the mill number 13 old?"),
        AIMessage(content="Very."),
        HumanMessage(content="When was it built?"),
        AIMessage(content="", tool_calls=[{"name": "search", "args": {"query": "mill 13"}}]),
        ToolMessage(content="1713"),
        AIMessage(content="In 1713."),
    ]
    return EvaluationDataset(samples=[MultiTurnSample(user_input=spoken, reference="1713")])


def test_a_dataset_is_evaluated_as_it_is():
    scores = reverie.evaluate(single(), ["token_f1"], progress=False)
    assert scores["token_f1"] == [1.0, 0.0, 0.0]


def test_two_datasets_are_compared():
    compared = reverie.compare(single(), single("none"), ["token_f1"], progress=False)
    row = list(compared)[0]
    assert row["metric"] == "token_f1" and row["difference"] == pytest.approx(1 / 3)


def test_of_a_conversation_the_last_answer_is_scored():
    scores = reverie.evaluate(several(), [seen_turns, "token_f1"], progress=False)
    assert scores.data["rows"][0]["question"] == "When was it built?"
    assert scores["seen_turns"] == [2.0]


@reverie.metric(range=(0, 10))
def seen_turns(answer, columns):
    """How many messages precede the question."""
    assert answer == "In 1713."
    return len(columns["turns"])


def test_the_questions_of_a_dataset_are_golden_questions(small):
    questions = ragas.questions(single())
    assert questions["question"] == golden.read(single())["question"] == [f"When was the mill number {i} built?" for i in (13, 14, 15)]
    assert questions["reference"] == ["1713", "1714", "1715"]
    found = golden.anchor(small.folder / "docs", questions)
    assert found.evidence == 3 and not len(found.lost)
    assert [row["evidence"][0]["document"] for row in found.questions] == ["13.md", "14.md", "15.md"]


def test_a_conversation_becomes_a_question_with_turns():
    record = ragas.questions(several())._records()[0]
    assert record["question"] == "When was it built?" and record["reference"] == "1713"
    assert [turn["role"] for turn in record["turns"]] == ["user", "assistant"]


def test_a_dataset_is_the_dataset_of_an_experiment(small):
    results = trial(small, dataset=single()).run(progress=False)
    assert len(results.questions()) == 3 and set(results.questions()["recall"]) <= {1.0, 0.0}


def test_golden_questions_go_out_and_come_back():
    rows = [{"id": "a", "question": QUESTION, "reference": "1713", "evidence": [{"document": "13.md", "quote": "built in 1713"}]}]
    out = ragas.dataset(golden.read(rows), name="mills")
    assert isinstance(out, EvaluationDataset) and out.name == "mills"
    sample = out.samples[0]
    assert (sample.user_input, sample.reference, sample.reference_contexts) == (QUESTION, "1713", ["built in 1713"])
    assert sample.response is None
    assert ragas.questions(out)["question"] == [QUESTION]


def test_the_answers_of_a_trial_go_out_with_contexts_and_without_citations(small):
    results = trial(small).run(progress=False)
    out = ragas.dataset(results, results.best().id)
    sample = next(each for each in out.samples if each.user_input == QUESTION)
    assert sample.response == "It was built in 1713." and sample.reference == "1713"
    assert len(sample.retrieved_contexts) == 3 and "number 13" in sample.retrieved_contexts[0]
    assert sample.reference_contexts == ["The mill number 13 was built in 1713."]
    cited = next(each for each in ragas.dataset(results, citations=True).samples if each.user_input == QUESTION)
    assert cited.response == "It was built in 1713 [1]."
    again = reverie.evaluate(out, ["token_f1"], progress=False)
    assert again["token_f1"] == pytest.approx([row["token_f1"] for row in results.questions(results.best().id)])
    with pytest.raises(LookupError):
        ragas.dataset(results, "t99")


def test_rows_with_turns_become_conversations():
    rows = [
        {"question": "When?", "answer": "In 1713 [1].", "contexts": [{"text": "…"}], "turns": [{"role": "user", "content": "Old?"}]},
        {"question": "And now?", "answer": "Now.", "contexts": ["…"]},
    ]
    out = ragas.dataset(rows)
    assert out.get_sample_type() is MultiTurnSample
    assert [message.content for message in out.samples[0].user_input] == ["Old?", "When?", "In 1713."]
    assert [message.content for message in out.samples[1].user_input] == ["And now?", "Now."]


def test_tables_of_pandas_and_arrow_go_out(tmp_path):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    rows = {"question": [QUESTION], "answer": ["1713"], "contexts": [["a mill"]], "reference": ["1713"]}
    for table in (pandas.DataFrame(rows), pyarrow.table(rows)):
        sample = ragas.dataset(table).samples[0]
        assert (sample.user_input, sample.response, sample.retrieved_contexts) == (QUESTION, "1713", ["a mill"])


def test_what_holds_no_answers_is_named():
    scores = reverie.evaluate(single(), ["token_f1"], progress=False)
    with pytest.raises(TypeError, match="scores do not hold the answers"):
        ragas.dataset(scores)
    with pytest.raises(ValueError, match="row 0 .* has no question"):
        ragas.dataset([{"answer": "1713"}])
    with pytest.raises(TypeError, match="only results of a run have trials"):
        ragas.dataset(golden.read([{"question": QUESTION}]), "t01")
