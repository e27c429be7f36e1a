"""What the package is to a type checker, and which names it has."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import reverie
from reverie import _kinds

NAMES = """
Answer Bundle Calibration Chunker Chunks Comparison Documents Embedding Event Experiment Function FunctionModel
Index Judgement LiveRun Noise PageView Parser Passage Pipeline Plan Plot Qualification Results Scores Service System Table Trial aevaluate aexplain
ajudge anoise chunk chunker compare embed evaluate exceptions executors explain generator golden index judge metric
model noise parse parser reranker retriever stopped_scores system view_page
""".split()
# Of each kind of components.
NAMES = sorted([*NAMES, *_kinds.__all__])

PROGRAM = '''
import functools
from typing import Any, Optional

import reverie
from typing_extensions import assert_type


@reverie.metric
def short(answer: str, most: int = 40) -> bool:
    return len(answer) <= most


@reverie.metric(name="named", range=(0.0, 2.0))
async def slow(answer: str) -> tuple[float, str]:
    return 1.0, "why"


@reverie.chunker
def halves(text: str) -> list[str]:
    return [text[:9], text[9:]]


@reverie.retriever(top_k=2)
def first(questions: list[str], chunks: list[str]) -> list[list[int]]:
    return [[0] for _ in questions]


@reverie.generator
def answer(question: str, passages: list[str]) -> Optional[str]:
    return passages[0]


@reverie.generator(model="gpt", max_tokens=16)
def prompt(question: str) -> str:
    return question


def plain(answer: str) -> float:
    return 1.0


rows = [{"question": "Why?", "answer": "So."}]
assert_type(short, reverie.Function)
assert_type(answer, reverie.Function)
assert_type(prompt, reverie.Function)
index = reverie.index(reverie.embed(reverie.chunk(rows), "tiny"), "tiny")
assert_type(index.search(["Why?"], top_k=3, filter={"year": {"ge": 2020}}), reverie.Table)
assert_type(index.chunks, reverie.Chunks)
assert_type(reverie.Index.load("index"), reverie.Index)
assert_type(slow, reverie.Function)
assert_type(reverie.metric(functools.partial(plain)), reverie.Function)
scores = reverie.evaluate(rows, ["token_f1", short, plain, reverie.metric.Faithfulness()], judge="gpt", budget_usd=1)
assert_type(scores, reverie.Scores)
assert_type(scores["token_f1"], list[Optional[float]])
assert_type(scores.means(), reverie.Table)
assert_type(scores.compare(scores), reverie.Comparison)
assert_type(reverie.compare("mine.csv", scores, ["token_f1"], judge="gpt"), reverie.Comparison)


def own(messages: list[dict[str, str]]) -> str:
    return messages[-1]["content"]


judged = reverie.explain(rows[0], "faithfulness", own)
assert_type(judged, reverie.Judgement)
assert_type(judged.exchanges[0].reply, Optional[str])
assert_type(reverie.judge(["gpt", own], golden="golden.jsonl"), reverie.Qualification)
assert_type(reverie.noise("experiment.toml", "t01", "token_f1").standard_error, float)
questions = reverie.golden.generate("docs", own, size=3, kinds={"multi_hop": 1.0}, budget_usd=1)
assert_type(questions, reverie.golden.Questions)
assert_type(questions.review(accept=["a"]).rejected, reverie.Table)
assert_type(reverie.golden.estimate("docs", "gpt").cost_usd, Optional[float])
assert_type(reverie.golden.anchor("docs", rows).questions, reverie.golden.Questions)
docs = reverie.parse("docs/**/*")
chunks = reverie.chunk(docs, reverie.chunker.Sentence(chunk_size=128))
index = reverie.index(chunks, embedder="all-minilm-l6-v2")
assert_type(index.search("Why?", top_k=5, retriever=reverie.retriever.Hybrid()), reverie.Table)
experiment = reverie.Experiment(corpus="docs", dataset=rows, chunker=[halves, reverie.chunkers.Sentence()], retriever=[first])
assert_type(experiment.run(budget_usd=2.5), reverie.Results)
assert_type(reverie.Results.of("mills").passages(), reverie.Table)


async def both() -> None:
    assert_type(await reverie.aevaluate(rows, [short]), reverie.Scores)
    assert_type(await experiment.arun(), reverie.Results)
    assert_type(await reverie.golden.agenerate("docs", own), reverie.golden.Questions)
    async for event in experiment.pipeline().astream("Why?"):
        assert_type(event, reverie.Event)
        assert_type(event.answer, Optional[reverie.Answer])


def told(results: reverie.Results, pipeline: reverie.Pipeline) -> dict[str, Any]:
    assert_type(pipeline.query("Why?"), reverie.Answer)
    return {trial.id: trial.objective for trial in results.trials}
'''

WRONG = """
import reverie

reverie.Experimnet("experiment.toml")
reverie.evaluate([], ["token_f1"], budget=1)
reverie.chunker.Sentence(chunk_size="large")
reverie.metric.Faithfullness()
index: reverie.Index = reverie.parse("docs")
reverie.golden.generate("docs", 3)
"""


def checked(path: Path) -> list[str]:
    """What mypy says of a program, as strictly as it can."""
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "--cache-dir", str(path.parent), str(path)],
        capture_output=True,
        text=True,
        cwd=path.parent,
        env={**os.environ, "MYPYPATH": path_of_the_package()},
    )
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


def path_of_the_package() -> str:
    """Where it is, unless it is installed: mypy finds what is, and refuses to be told."""
    folder = Path(reverie.__file__).parents[1]
    return "" if folder.name == "site-packages" else str(folder)


def test_a_program_holds_under_the_strictest_check(tmp_path):
    assert resources.files("reverie").joinpath("py.typed").is_file()
    (tmp_path / "program.py").write_text(PROGRAM)
    assert checked(tmp_path / "program.py") == []


def test_mistakes_are_seen_before_anything_runs(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    found = checked(tmp_path / "wrong.py")
    lines = {int(line.split(":")[1]) for line in found if ": error:" in line}
    assert lines == {4, 5, 6, 7, 8, 9}, found


def test_the_names_of_the_package_are_these():
    assert sorted(reverie.__all__) == NAMES
    assert [name for name in dir(reverie) if not name.startswith("__")] == NAMES
    assert all(getattr(reverie, name) is not None for name in NAMES)
    with pytest.raises(AttributeError, match="Experimnet"):
        reverie.Experimnet  # noqa: B018
    for name in NAMES:
        assert getattr(reverie, name).__doc__, name
