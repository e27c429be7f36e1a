"""Ragas beside `crates/eval`: the same answers of judge and embedder, replayed
into both, have to give the same scores.

A metric is a line in METRICS and a function that makes its cases. A case says
what happened (texts, statements, verdicts, vectors) once, and from that:

- `ours`, the request to the example `score`: the sample, and rules by which the
  scripted judge answers;
- `theirs`, the arguments of Ragas' `ascore`, and `replies`, what its model says
  call by call, each checked against the model that Ragas wants to be filled;
- `steps`, for each declared difference that the case shows, the score that
  doing it our way gives, computed here and not taken from ours.
"""

import asyncio
import collections
import math
import warnings

import claims
import facts
import marks
import ragas.metrics.collections as ragas
import strings
from outcome import Table
from ragas.embeddings.base import BaseRagasEmbedding
from ragas.llms.base import InstructorBaseRagasLLM
from reasons_ragas import DIFFERENCES, NONE
from script import Draw

TOLERANCE = 1e-9


def same(ours, theirs):
    if isinstance(ours, float) and isinstance(theirs, float):
        return abs(ours - theirs) <= TOLERANCE
    return ours == theirs


class Model(InstructorBaseRagasLLM):
    """Ragas' model: gives the replies of the case in their order."""

    is_async = True

    def __init__(self):
        self.replies = collections.deque()

    def generate(self, prompt, response_model):
        return response_model(**self.replies.popleft())

    async def agenerate(self, prompt, response_model):
        return self.generate(prompt, response_model)


class Embeddings(BaseRagasEmbedding):
    """Ragas' embedder: the vectors of the case."""

    def __init__(self):
        super().__init__()
        self.vectors = {}

    def embed_text(self, text, **_):
        return self.vectors[text]

    async def aembed_text(self, text, **_):
        return self.vectors[text]


# Ours, what Ragas calls it, its models, and the cases.
METRICS = [
    ("faithfulness", ragas.Faithfulness, ("llm",), facts.faithfulness),
    ("answer_relevancy", ragas.AnswerRelevancy, ("llm", "embeddings"), facts.answer_relevancy),
    ("context_precision", ragas.ContextPrecision, ("llm",), facts.context_precision),
    ("context_precision", ragas.ContextUtilization, ("llm",), lambda draw: facts.context_precision(draw, "answer")),
    ("context_recall", ragas.ContextRecall, ("llm",), facts.context_recall),
    ("answer_correctness", ragas.AnswerCorrectness, ("llm", "embeddings"), facts.answer_correctness),
    ("answer_similarity", ragas.SemanticSimilarity, ("embeddings",), facts.answer_similarity),
    ("factual_correctness", ragas.FactualCorrectness, ("llm",), claims.factual_correctness),
    ("noise_sensitivity", ragas.NoiseSensitivity, ("llm",), claims.noise_sensitivity),
    ("context_entity_recall", ragas.ContextEntityRecall, ("llm",), claims.context_entity_recall),
    ("answer_accuracy", ragas.AnswerAccuracy, ("llm",), marks.answer_accuracy),
    ("context_relevance", ragas.ContextRelevance, ("llm",), marks.context_relevance),
    ("response_groundedness", ragas.ResponseGroundedness, ("llm",), marks.response_groundedness),
    ("rubric", ragas.DomainSpecificRubrics, ("llm",), marks.rubric),
    ("criteria", marks.Critic, ("llm",), marks.criteria),
    ("criteria", marks.Degree, ("llm",), lambda draw: marks.criteria(draw, "degree")),
    ("rouge_l", ragas.RougeScore, (), strings.rouge_l),
    ("exact_match", ragas.ExactMatch, (), strings.exact_match),
]


async def ragas_score(metric, model, theirs, replies):
    """Ragas' score as a number or as the words for what happened instead."""
    model.replies = collections.deque(replies)
    try:
        value = float((await metric.ascore(**theirs)).value)
    except ValueError as error:
        value = f"ValueError: {str(error).split('.')[0].splitlines()[0]}"
    if model.replies:
        raise RuntimeError(f"{type(metric).__name__} left {len(model.replies)} replies unread")
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


async def compare(table, process):
    for ours_name, kind, models, cases in METRICS:
        theirs_name = getattr(kind, "kind", kind).__name__
        row = table.row(f"{ours_name}: {theirs_name}", "samples")
        model, embeddings = Model(), Embeddings()
        given = {name: {"llm": model, "embeddings": embeddings}[name] for name in models}
        for i, (our_config, their_config, ours, theirs, replies, steps) in enumerate(
            cases(Draw(f"{ours_name} {theirs_name}"))
        ):
            metric = kind(**given, **their_config)
            embeddings.vectors = ours.get("vectors", {})
            theirs_score = await ragas_score(metric, model, theirs, replies)
            answer = process.ask({"metric": {ours_name: our_config}, **ours})
            ours_score = float(answer["value"]) if "value" in answer else NONE + answer["missing"]["reason"]
            if ours_score == NONE + "provider_error":
                ours_score += ": " + answer["missing"]["detail"]
            row.compare(f"case {i}", ours_score, theirs_score, steps)


def run(process):
    # Ragas divides by the length of a vector of zeros.
    warnings.simplefilter("ignore", RuntimeWarning)
    table = Table("Ragas 0.4.3", DIFFERENCES, same)
    asyncio.run(compare(table, process))
    return table
