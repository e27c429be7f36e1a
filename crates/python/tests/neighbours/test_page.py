"""The blocks of docs/guides/neighbours.md that `make neighbours` runs, in one program and in their order."""

from __future__ import annotations

import re

import pytest

for package in ("langchain_core", "llama_index.core", "ragas"):
    pytest.importorskip(package)

import reverie  # noqa: E402
from conftest import trial, year  # noqa: E402
from workspace import ROOT  # noqa: E402

BLOCK = re.compile(r"<!-- not run: ([^\n]*) -->\n```python\n(.*?)```", re.DOTALL)


def test_the_blocks_of_the_page_run(small, monkeypatch):
    from langchain_core.runnables import RunnableLambda
    from llama_index.core.query_engine import CustomQueryEngine

    class Engine(CustomQueryEngine):
        def custom_query(self, query_str: str):
            return year(query_str)

    experiment = trial(small)
    experiment.run(progress=False)
    monkeypatch.setattr(reverie.Pipeline, "load", lambda _: experiment.pipeline())
    space = {"query_engine": Engine(), "chain": RunnableLambda(lambda question: {"answer": year(question)})}
    blocks = BLOCK.findall((ROOT / "docs" / "guides" / "neighbours.md").read_text())
    ran = [text for reason, text in blocks if "make neighbours" in reason]
    assert len(ran) == 8
    for text in ran:
        exec(compile(text, "neighbours.md", "exec"), space)
    assert space["answered"]["answer"] == "It was built in 1713 [1]."
    assert len(space["documents"]) == 3 and len(space["nodes"]) == 3
