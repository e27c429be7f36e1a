"""Reverie for Python.

- `reverie.Experiment`: plan and run an experiment, and look at what it found.
- `reverie.Pipeline`: ask one of its trials.
- `reverie.metric`, `reverie.chunker`, `reverie.retriever`, `reverie.reranker`, `reverie.generator`: a Python function
  as a metric or a stage.
- `reverie.Parser`, `reverie.Chunker`, `reverie.Embedding`: stages by themselves, on Arrow batches.
- `reverie.executors`: many calls at once, with retries and adaptive concurrency; takes the place of
  `phoenix.evals.executors`.
- `reverie.exceptions`: what a call raises to say whether another attempt is worthwhile.

Importing this module imports none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reverie._core import Chunker, Embedding, Parser
    from reverie.answers import Answer, Passage, Pipeline
    from reverie.experiment import Experiment, Plan
    from reverie.functions import Function, chunker, generator, metric, reranker, retriever
    from reverie.results import Comparison, Results, Trial
    from reverie.tables import Table

__version__ = "0.1.0"

_HOME = {
    "Answer": "answers",
    "Chunker": "_core",
    "Comparison": "results",
    "Embedding": "_core",
    "Experiment": "experiment",
    "Function": "functions",
    "Parser": "_core",
    "Passage": "answers",
    "Pipeline": "answers",
    "Plan": "experiment",
    "Results": "results",
    "Table": "tables",
    "Trial": "results",
    "chunker": "functions",
    "generator": "functions",
    "metric": "functions",
    "reranker": "functions",
    "retriever": "functions",
}

__all__ = [
    "Answer",
    "Chunker",
    "Comparison",
    "Embedding",
    "Experiment",
    "Function",
    "Parser",
    "Passage",
    "Pipeline",
    "Plan",
    "Results",
    "Table",
    "Trial",
    "chunker",
    "generator",
    "metric",
    "reranker",
    "retriever",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
