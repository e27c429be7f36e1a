"""Datasets of Ragas, in and out. Needs `pip install reverie[ragas]`.

    from reverie import ragas

    ragas.dataset(questions)                                    # golden questions, to be answered
    ragas.dataset(results, "t03")                               # what a trial found and answered
    reverie.evaluate(evaluation_dataset, ["faithfulness"])      # the other way needs nothing of this module
    ragas.questions(evaluation_dataset)                         # its questions as golden questions

`reverie.evaluate`, `reverie.compare`, `golden.read` and the `dataset` of an experiment take an `EvaluationDataset` as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ragas import EvaluationDataset, MultiTurnSample, SingleTurnSample
from ragas.messages import AIMessage, HumanMessage

from reverie._ragas_rows import is_ragas, to_rows
from reverie.golden import Questions, read
from reverie.results import Results
from reverie.scores import Scores

__all__ = ["dataset", "questions"]

_CITATION = re.compile(r"\s?\[(\d{1,3})\]")
# What a row may be called by, in the order of preference.
_NAMES: dict[str, Sequence[str]] = {
    "user_input": ("user_input", "question", "query", "input"),
    "response": ("response", "answer", "actual_output", "prediction", "output"),
    "retrieved_contexts": ("retrieved_contexts", "contexts", "retrieval_context", "passages"),
    "reference": ("reference", "ground_truth", "expected_output"),
    "reference_contexts": ("reference_contexts",),
    "turns": ("turns",),
}


def dataset(data: Any, trial: str | None = None, *, citations: bool = False, name: str | None = None) -> EvaluationDataset:
    """An `EvaluationDataset` of golden questions, of the answers of a trial, or of rows.

    A row with `turns`, the messages before its question, becomes a sample of several turns. All samples of a dataset have
    the same kind, so then the others do too; samples of several turns have no place for contexts.

    Args:
        data: Golden questions; the results of a run; a table or a list of dictionaries with the columns of
            `reverie.evaluate`; or what `golden.read` reads.
        trial: Of results, the trial whose answers are taken. Default: the winner, else the first of the leaderboard.
        citations: Whether citations such as `[1]` stay in answers. Metrics of Ragas read them as text. Default: no.
        name: The name of the dataset. Default: none.

    Raises:
        LookupError: If there is no such trial.
        TypeError: If `data` has no answers to take, such as scores, or `trial` is given for other data than results.
        ValueError: If a row has no question, or the questions have mistakes.
    """
    if is_ragas(data):
        rows: Iterable[Mapping[str, Any]] = to_rows(data)
    elif isinstance(data, Results):
        rows = _rows_of_trial(data, trial)
    elif isinstance(data, Scores):
        raise TypeError("scores do not hold the answers that they score: give the answers, or `results` and a trial")
    elif isinstance(data, Questions):
        rows = _rows_of_questions(data)
    else:
        rows = _plain_rows(data)
    if trial is not None and not isinstance(data, Results):
        raise TypeError("trial: only results of a run have trials")
    samples = [_sample(row, number, citations) for number, row in enumerate(rows)]
    if any(isinstance(sample, MultiTurnSample) for sample in samples):
        samples = [_as_conversation(sample) for sample in samples]
    return EvaluationDataset(samples=samples, name=name)


def questions(data: EvaluationDataset) -> Questions:
    """The golden questions of an `EvaluationDataset`. `reference_contexts` become evidence whose documents are not known:
    `golden.anchor` finds them.

    Raises:
        ValueError: All mistakes, each with the number of its row (from 0).
    """
    golden = ("user_input", "reference", "reference_contexts", "turns")
    return read([{key: row[key] for key in golden if key in row} for row in to_rows(data)])


def _rows_of_trial(results: Results, trial: str | None) -> Iterator[dict[str, Any]]:
    chosen = trial or results.best().id
    for _, result, asked in results._question_rows(chosen):
        contexts = [passage["text"] for passage in result["passages"]]
        row = {"user_input": asked["question"], "response": (result["answer"] or {}).get("text")}
        row |= {"retrieved_contexts": contexts, "reference": asked.get("reference"), "turns": asked.get("turns")}
        yield {**row, "reference_contexts": _quotes(asked)}


def _rows_of_questions(golden: Questions) -> Iterator[dict[str, Any]]:
    for asked in golden._records():
        row = {"user_input": asked["question"], "reference": asked.get("reference"), "turns": asked.get("turns")}
        yield {**row, "reference_contexts": _quotes(asked)}


def _quotes(asked: Mapping[str, Any]) -> list[str] | None:
    return [item["quote"] for item in asked.get("evidence") or () if item.get("quote")] or None


def _plain_rows(data: Any) -> Iterator[dict[str, Any]]:
    """Rows by the names of Ragas, from a data frame, an Arrow table or dictionaries."""
    to_list: Callable[[], Any] | None = getattr(data, "to_pylist", None)
    if isinstance(data, (list, tuple)):
        given: Iterable[Any] = data
    elif to_list is not None:
        given = to_list()
    elif hasattr(data, "__arrow_c_stream__"):
        import pyarrow

        given = pyarrow.table(data).to_pylist()
    else:
        given = _rows_of_questions(read(data))
    for row in given:
        if not isinstance(row, Mapping):
            raise TypeError(f"expected rows as dictionaries, not a {type(row).__name__}")
        yield {name: next((row[each] for each in names if row.get(each) is not None), None) for name, names in _NAMES.items()}


def _sample(row: Mapping[str, Any], number: int, citations: bool) -> SingleTurnSample | MultiTurnSample:
    question = row.get("user_input")
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"row {number} (from 0) has no question")
    contexts, response = _texts(row.get("retrieved_contexts")), row.get("response")
    if response is not None and not citations:
        response = _without_citations(response, len(contexts) if contexts is not None else None)
    if row.get("turns"):
        spoken = [_message(turn["role"], turn["content"]) for turn in row["turns"]]
        spoken.append(HumanMessage(content=question))
        if response is not None:
            spoken.append(AIMessage(content=response))
        return MultiTurnSample(user_input=spoken, reference=row.get("reference"))
    return SingleTurnSample(
        user_input=question,
        response=response,
        retrieved_contexts=contexts,
        reference=row.get("reference"),
        reference_contexts=_texts(row.get("reference_contexts")),
    )


def _as_conversation(sample: SingleTurnSample | MultiTurnSample) -> MultiTurnSample:
    if isinstance(sample, MultiTurnSample):
        return sample
    spoken: list[Any] = [HumanMessage(content=sample.user_input)]
    if sample.response is not None:
        spoken.append(AIMessage(content=sample.response))
    return MultiTurnSample(user_input=spoken, reference=sample.reference)


def _message(role: str, content: str) -> HumanMessage | AIMessage:
    return HumanMessage(content=content) if role == "user" else AIMessage(content=content)


def _texts(given: Any) -> list[str] | None:
    """Contexts as texts; a context may be a dictionary of `text` and more."""
    if given is None:
        return None
    return [each["text"] if isinstance(each, Mapping) else str(each) for each in given]


def _without_citations(text: str, contexts: int | None) -> str:
    """The text without citations of contexts that exist."""
    most = 99 if contexts is None else contexts
    return _CITATION.sub(lambda found: "" if 0 < int(found[1]) <= most else found[0], text)
