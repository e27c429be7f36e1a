"""A small run of an experiment whose models are functions, for objects of LangChain, LlamaIndex and Ragas."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import reverie  # noqa: E402
from workspace import Workspace, settings  # noqa: E402

QUESTION = "When was the mill number 13 built?"


def year(question: str) -> str:
    """The right answer to a question about a mill."""
    return str(1700 + int(question.split("number ")[1].split(" ")[0]))


def fact(question: str) -> str:
    """The sentence of the documents that answers it."""
    return f"The mill number {int(year(question)) - 1700} was built in {year(question)}."


def words(text: str) -> list[float]:
    """The vector of a text: how often each of some words occurs in it."""
    return [1.0 + text.count(word) for word in ("mill", "oats", "built", "number 13 ", "number 14 ")]


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    """The journal is in the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small(tmp_path):
    """Sixteen documents with a question each."""
    return Workspace(tmp_path, documents=16)


def write(messages):
    """A chat model that answers with the year in its first passage."""
    return "It was built in 1713 [1]."


def trial(small, **changes):
    """An experiment of one trial with a generator."""
    tables = settings(small, "http://127.0.0.1:1", name="neighbours", models={"app": write})
    tables["space"] = {
        "chunker": [{"sentence": {"chunk_size": 32, "chunk_overlap": 0}}],
        "retriever": [{"bm25": {"top_k": 3}}],
        "generator": [{"compact": {"model": "app"}}],
    }
    return reverie.Experiment({**tables, **changes})


@pytest.fixture
def pipeline(small):
    """The trial of a run, opened."""
    experiment = trial(small)
    experiment.run(progress=False)
    return experiment.pipeline()


@pytest.fixture
def index(small):
    """An index of words, whose documents have metadata of their own."""
    rows = [
        {"path": path.name, "text": path.read_text(), "village": int(path.stem)}
        for path in sorted((small.folder / "docs").iterdir())
    ]
    return reverie.index(reverie.chunk(rows, reverie.chunker.Sentence(chunk_size=32, chunk_overlap=0)))


def systems(small, given, metrics=("token_f1", "recall")):
    """The results of an experiment with these systems alone."""
    tables = settings(small, "http://127.0.0.1:1", name="systems", systems=given)
    tables["evaluate"] = {"metrics": list(metrics), "objective": [metrics[0]]}
    del tables["space"], tables["models"]
    return reverie.Experiment(tables).run(progress=False)


def answers(results, system):
    """The answers of a system by question."""
    trial = next(each for each in results.trials if each.labels.get("system") == system)
    return {row["question_id"]: row["answer"] for row in results.questions(trial.id)}


def recall(results, system):
    """The recall of a system by question."""
    trial = next(each for each in results.trials if each.labels.get("system") == system)
    return {row["question_id"]: row["recall"] for row in results.questions(trial.id)}


@pytest.fixture
def service(small):
    """The address of a service over a bundle, whose model is at an endpoint of the test."""
    pytest.importorskip("uvicorn")
    from workspace import Handler, run_handler, run_server

    class Writing(Handler):
        def do_GET(self):
            self.answer(200, {"data": []})

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            message = {"role": "assistant", "content": "It was built in 1713 [1]."}
            self.answer(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})

    with run_handler(Writing) as url:
        endpoint = {"model": "app", "base_url": f"{url}/v1", "api_key_env": "", "omit": ["stream", "stream_options"]}
        experiment = trial(small, name="served", models={"app": {"chat": {"openai": endpoint}}})
        experiment.run(progress=False)
        bundle = experiment.promote(small.folder / "bundle")
        with run_server(reverie.Service(bundle.place)) as address:
            yield address
