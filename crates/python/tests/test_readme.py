"""What the README says of Python runs as it stands there, with models and documents of the tests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import reverie
from test_golden import BEES, MILLS, Writer
from test_judges import honest
from workspace import ROOT, settings

pandas = pytest.importorskip("pandas")

# What the blocks have and tests have not, with what stands for it.
STANDS_FOR = {
    '{"model": "gpt-4o-mini"}': '{"model": "gpt-4o-mini", "base_url": url, "price": {"input": 1, "output": 1}}',
    ', embedder="all-minilm-l6-v2"': "",
    "reverie.retriever.Hybrid()": "reverie.retriever.Bm25()",
    'golden.estimate("docs"': 'golden.estimate("prose"',
    'golden.generate("docs", ask, size=2, budget_usd=1': (
        'golden.generate("prose", ask, size=2, budget_usd=1, kinds={"single_hop_specific": 1.0}, progress=False'
    ),
    "reverie.judge(ask, golden=questions)": "reverie.judge(judge, golden=questions)",
    'reverie.explain(row, "faithfulness", ask)': 'reverie.explain(row, "faithfulness", judge)',
}


def blocks() -> list[str]:
    """The Python of the README's section."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## From Python")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.S)


class Client:
    """A client of somebody's own."""

    def __init__(self) -> None:
        self._writer = Writer()

    def chat(self, *, model: str, messages: list[dict[str, str]]) -> str:
        """The reply of a model."""
        assert model == "gpt-4o-mini"
        return self._writer(messages)


async def call(value: int) -> int:
    """A call of somebody's own."""
    return value + 1


def run(path: Path, text: str, space: dict) -> None:
    """Runs a program from a file: the source of its functions has to stand somewhere."""
    path.write_text(text)
    exec(compile(text, str(path), "exec"), space)


def test_the_readme_runs_as_it_stands(small, provider, monkeypatch):
    monkeypatch.chdir(small.folder)
    # Of which questions can be made.
    (small.folder / "prose").mkdir()
    for name, text in {"bees.txt": BEES, "mills.txt": MILLS}.items():
        (small.folder / "prose" / name).write_text(text)
    written = settings(small, provider.url, name="manuals", store=".reverie")
    (small.folder / "experiment.toml").write_text(reverie.Experiment(written).text)
    text = "\n".join(blocks())
    for there, ours in STANDS_FOR.items():
        assert there in text, f"the README no longer has {there}"
        text = text.replace(there, ours)
    space = {
        "url": f"{provider.url}/v1",
        "client": Client(),
        "judge": honest,
        "call": call,
        "inputs": range(9),
        "labels": [{"trial": "t01", "question": f"q{i}", "label": True} for i in range(3)],
        "frame": pandas.DataFrame([json.loads(line) for line in small.golden.splitlines()]),
    }
    # Answers of another system, where the README speaks of such.
    answers = pandas.DataFrame({"question": ["Why?"], "answer": ["So."], "contexts": [["So it is."]], "reference": ["So."]})
    before, after = text.split("scores = reverie.evaluate(")
    run(small.folder / "first.py", before, space)
    space["frame"] = answers
    run(small.folder / "second.py", f"scores = reverie.evaluate({after}", space)
    assert space["outputs"] == list(range(1, 10))
    assert len(space["questions"]) == 2 and (small.folder / "reviewed.jsonl").exists()
    assert list(space["scores"].metrics) == ["faithfulness", "token_f1", "short"]
