"""Reverie for Python.

- `reverie.Experiment`: plan and run an experiment, and look at what it found.
- `reverie.Pipeline`: ask one of its trials.
- `reverie.evaluate`: score the answers of any system; `reverie.compare`: two systems, question by question;
  `reverie.explain`: look at what a judge is asked for one of them.
- `reverie.golden`: golden questions, generated from documents, reviewed, anchored, written.
- `reverie.judge`, `reverie.noise`: whether a judge can tell right from wrong, and where a metric's noise comes from.
- `reverie.chunker.Sentence(chunk_size=256)`, `reverie.query.…`, `reverie.retriever.Hybrid(top_k=3)`,
  `reverie.reranker.…`, `reverie.generator.…`, `reverie.metric.…`: components with their settings. They stand in
  experiments wherever a dictionary does; the modules `reverie.chunkers`, `reverie.metrics` and so on have the same
  classes, for annotations.
- `@reverie.metric`, `@reverie.parser`, `@reverie.chunker`, `@reverie.retriever`, `@reverie.reranker`,
  `@reverie.generator`: a Python function as a metric or a stage; `@reverie.model`: one as a chat model.
- `reverie.system`: a function, a query engine of LlamaIndex or a runnable of LangChain as a system of an experiment.
- `reverie.langchain`, `reverie.llama_index`, `reverie.ragas`: pipelines, indexes, embedding models and questions as
  objects of these packages, and theirs as ours.
- `reverie.parse`, `reverie.chunk`, `reverie.embed`, `reverie.index`: stages by themselves.
- `reverie.Parser`, `reverie.Chunker`, `reverie.Embedding`: the same on Arrow batches, for Ray Data and the like.
- `reverie.Service`: a bundle behind HTTP, as an ASGI application; `reverie.ray.serve` runs it on Ray Serve.
- `reverie.executors`: many calls at once, with retries and adaptive concurrency; takes the place of
  `phoenix.evals.executors`.
- `reverie.exceptions`: what Reverie raises, and what a call raises to say whether another attempt is worthwhile.

Importing this module imports none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reverie import _kinds

if TYPE_CHECKING:
    from reverie import exceptions, executors, golden
    from reverie._core import Chunker, Embedding, Parser
    from reverie._function_models import FunctionModel, model
    from reverie._kinds import *
    from reverie.answers import Answer, Event, Passage, Pipeline
    from reverie.experiment import Bundle, Experiment, Plan
    from reverie.functions import Function, chunker, generator, metric, parser, reranker, retriever
    from reverie.judges import Judgement, Noise, Qualification, aexplain, ajudge, anoise, explain, judge, noise
    from reverie.live import LiveRun
    from reverie.pages import PageView, view_page
    from reverie.results import Calibration, Comparison, Plot, Results, Trial
    from reverie.scores import Scores, aevaluate, compare, evaluate, stopped_scores
    from reverie.serving import Service
    from reverie.stages import Chunks, Documents, Index, chunk, embed, index, parse
    from reverie.systems import System, system
    from reverie.tables import Table

__version__ = "0.1.0"

_HOME = {
    "Answer": "answers",
    "Bundle": "experiment",
    "Calibration": "results",
    "Chunker": "_core",
    "Chunks": "stages",
    "Comparison": "results",
    "Documents": "stages",
    "Embedding": "_core",
    "Event": "answers",
    "Experiment": "experiment",
    "Function": "functions",
    "FunctionModel": "_function_models",
    "Index": "stages",
    "Judgement": "judges",
    "LiveRun": "live",
    "Noise": "judges",
    "PageView": "pages",
    "Parser": "_core",
    "Passage": "answers",
    "Pipeline": "answers",
    "Plan": "experiment",
    "Plot": "results",
    "Qualification": "judges",
    "Results": "results",
    "Scores": "scores",
    "Service": "serving",
    "System": "systems",
    "Table": "tables",
    "Trial": "results",
    "aevaluate": "scores",
    "aexplain": "judges",
    "ajudge": "judges",
    "anoise": "judges",
    "chunk": "stages",
    "chunker": "functions",
    "compare": "scores",
    "embed": "stages",
    "evaluate": "scores",
    "explain": "judges",
    "generator": "functions",
    "index": "stages",
    "judge": "judges",
    "metric": "functions",
    "model": "_function_models",
    "noise": "judges",
    "parse": "stages",
    "parser": "functions",
    "reranker": "functions",
    "retriever": "functions",
    "stopped_scores": "scores",
    "system": "systems",
    "view_page": "pages",
}

_MODULES = ("exceptions", "executors", "golden", *_kinds.MODULES)
# Modules that need another package, with its extra. They are not in `__all__`: `import *` would need all of them.
_NEIGHBOURS = {"langchain": "langchain", "llama_index": "llama-index", "ragas": "ragas"}

__all__ = [
    "Answer",
    "Bundle",
    "Calibration",
    "Chunker",
    "Chunks",
    "Comparison",
    "Documents",
    "Embedding",
    "Event",
    "Experiment",
    "Function",
    "FunctionModel",
    "Index",
    "Judgement",
    "LiveRun",
    "Noise",
    "PageView",
    "Parser",
    "Passage",
    "Pipeline",
    "Plan",
    "Plot",
    "Qualification",
    "Results",
    "Scores",
    "Service",
    "System",
    "Table",
    "Trial",
    "aevaluate",
    "aexplain",
    "ajudge",
    "anoise",
    "chunk",
    "chunker",
    "compare",
    "embed",
    "evaluate",
    "exceptions",
    "executors",
    "explain",
    "generator",
    "golden",
    "index",
    "judge",
    "metric",
    "model",
    "noise",
    "parse",
    "parser",
    "reranker",
    "retriever",
    "stopped_scores",
    "system",
    "view_page",
]
__all__ += _kinds.__all__


if not TYPE_CHECKING:
    # A type checker that sees `__getattr__` accepts every name.
    def __getattr__(name: str) -> Any:
        home = _HOME.get(name) or _kinds.HOMES.get(name)
        if home is None and name not in _MODULES and name not in _NEIGHBOURS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        if home is None:
            try:
                return import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                if name in _NEIGHBOURS and not (error.name or "").startswith(f"{__name__}."):
                    needed = f"`reverie.{name}` needs another package: pip install 'reverie[{_NEIGHBOURS[name]}]'"
                    raise ModuleNotFoundError(needed, name=error.name) from error
                raise
        value = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
