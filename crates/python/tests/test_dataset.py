"""Golden questions that a program holds."""

from __future__ import annotations

import json
import pickle

import pytest

import reverie
from workspace import settings

pyarrow = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")


def golden(small) -> list[dict]:
    """The questions of the workspace."""
    return [json.loads(line) for line in small.golden.splitlines()]


def found_by(small, provider, dataset, **changes) -> list:
    """What an experiment with these questions finds."""
    experiment = reverie.Experiment(settings(small, provider.url, dataset=dataset, **changes))
    results = pickle.loads(pickle.dumps(experiment)).run(progress=False)
    board = results.leaderboard()
    return [board["trial"], board["recall"], board["recall_scored"], board["token_f1"]]


def test_questions_in_memory_are_the_same_as_in_a_file(small, provider):
    rows = golden(small)
    wanted = found_by(small, provider, {"path": str(small.folder / "golden.jsonl")})
    assert wanted[2] == [6, 6, 6, 6] and max(wanted[1]) == 0.5
    asked = provider.statistics()["requests"]
    flat = [
        {**{name: row[name] for name in ("id", "question", "reference")}, **row["evidence"][0], "note": None}
        for row in rows
    ]
    for name, dataset in {
        "a path": str(small.folder / "golden.jsonl"),
        "a path object": small.folder / "golden.jsonl",
        "dictionaries": rows,
        "pandas": pandas.DataFrame(rows),
        "polars": polars.DataFrame(rows),
        "pyarrow": pyarrow.Table.from_pylist(rows),
        "document and quote": pandas.DataFrame(flat),
        "the table of a file": {"rows": rows},
    }.items():
        assert found_by(small, provider, dataset) == wanted, name
    assert provider.statistics()["requests"] == asked, "equal questions are asked and paid once"


def test_the_text_of_an_experiment_has_its_questions(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url, dataset=golden(small)[:2]))
    path = small.folder / "experiment.toml"
    path.write_text(experiment.text)
    results = reverie.Experiment(path).run(progress=False)
    assert results.leaderboard()["recall_scored"] == [2, 2, 2, 2]


def test_mistakes_name_the_row(small, provider):
    rows = golden(small)
    rows[1] = {**rows[1], "question": " "}
    rows[2] = {**rows[2], "id": "q0"}
    rows[3] = {**rows[3], "evidence": [{"quote": ""}]}
    with pytest.raises(ValueError) as told:
        reverie.Experiment(settings(small, provider.url, dataset=rows))
    assert str(told.value).splitlines() == [
        "dataset, row 1 (from 0): has an empty question: write one, or remove the row",
        "dataset, row 2 (from 0): has the id `q0` of row 0: ids must differ, and each question may appear only once",
        "dataset, row 3 (from 0): evidence 1 has an empty quote: copy the words from the document",
    ]
    frame = pandas.DataFrame({"qestion": ["a", "b"]})
    with pytest.raises(ValueError, match=r"dataset, row 0 \(from 0\): has a column `qestion`"):
        reverie.Experiment(settings(small, provider.url, dataset=frame))
    with pytest.raises(TypeError, match="dataset: expected a data frame"):
        reverie.Experiment(settings(small, provider.url, dataset=3))
    with pytest.raises(ValueError, match="dataset: `path` is missing"):
        reverie.Experiment(settings(small, provider.url, dataset=[]))
    both = {"path": "golden.jsonl", "rows": golden(small)}
    with pytest.raises(ValueError, match="dataset: `path` and `rows` are both there"):
        reverie.Experiment(settings(small, provider.url, dataset=both))


def test_a_corpus_is_its_path(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url, corpus=small.folder / "docs", dataset=None, evaluate=None))
    assert experiment.plan().trials == 4
