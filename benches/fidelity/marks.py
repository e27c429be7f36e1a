"""Cases of the metrics whose judge gives marks: ratings, levels, and the user's own criteria."""

from ragas.dataset_schema import SingleTurnSample
from ragas.metrics import AspectCritic, SimpleCriteriaScore
from ragas.metrics.result import MetricResult
from reasons_ragas import (
    EMPTY_ANSWER,
    EMPTY_INPUT,
    NO_REFERENCE,
    NOT_APPLICABLE,
    NOTHING_FOUND,
    OFF_SCALE,
    REPEATED_QUESTION,
    UNREADABLE,
    UNREADABLE_RATING,
)
from script import CASES, places, yes


def rated(draw, scale, made):
    """Cases of metrics that are the mean of two ratings; `made` makes one of ratings."""
    top = max(scale)
    for _ in range(CASES):
        yield made([draw.choice(scale), draw.choice(scale)])
    for i in range(10):
        good, bad = draw.choice(scale), draw.choice([top + 1, top + 3, -1])
        replies = [[good] + [bad] * 5, [bad] * 5 + [good], [bad] * 10][i % 3]
        yield made([[good, bad], [bad, good], [bad, bad]][i % 3], [(UNREADABLE_RATING, UNREADABLE)], replies)


def rating_case(draw, ours_has, theirs_has, ratings, steps=(), replies=None, **changes):
    case = {"question": draw.text("question"), "answer": draw.text("answer"), "reference": draw.text("reference"),
            "passages": draw.texts("passage", 1, 5)} | changes  # fmt: skip
    readable = all(rating >= 0 for rating in ratings) and replies is None
    ours = {key: case[key] for key in ours_has} | {
        "ratings": ratings,
        "probabilities": readable and draw.random() < 0.5,
    }
    if "passages" in ours:
        ours["passages"] = places(case["passages"])
    names = {"user_input": "question", "response": "answer", "reference": "reference", "retrieved_contexts": "passages"}
    theirs = {name: case[names[name]] for name in theirs_has}
    return {}, {}, ours, theirs, [{"rating": rating} for rating in (ratings if replies is None else replies)], steps


def answer_accuracy(draw):
    def made(ratings, steps=(), replies=None, **changes):
        return rating_case(
            draw,
            ("question", "answer", "reference"),
            ("user_input", "response", "reference"),
            ratings,
            steps,
            replies,
            **changes,
        )

    yield from rated(draw, [0, 2, 4], made)
    for _ in range(10):
        yield made([4, 4], [(EMPTY_ANSWER, EMPTY_INPUT)], [], answer="")
        yield made([4, 4], [(NO_REFERENCE, NOT_APPLICABLE)], [], reference="")


def context_relevance(draw):
    def made(ratings, steps=(), replies=None, **changes):
        return rating_case(
            draw, ("question", "passages"), ("user_input", "retrieved_contexts"), ratings, steps, replies, **changes
        )

    yield from rated(draw, [0, 1, 2], made)
    for _ in range(10):
        yield made([2, 2], [(NOTHING_FOUND, 0.0)], [], passages=[])
        question = draw.text("question")
        yield made([2, 1], [(REPEATED_QUESTION, 0.75)], [], question=question, passages=[question])


def response_groundedness(draw):
    def made(ratings, steps=(), replies=None, **changes):
        return rating_case(
            draw, ("answer", "passages"), ("response", "retrieved_contexts"), ratings, steps, replies, **changes
        )

    yield from rated(draw, [0, 1, 2], made)
    for _ in range(10):
        yield made([2, 2], [(NOTHING_FOUND, EMPTY_INPUT)], [], passages=[])
        yield made([2, 2], [(EMPTY_ANSWER, EMPTY_INPUT)], [], answer=draw.choice(["", "  ", "\n"]))


def rubric(draw):
    def made(level, steps=(), answer=None):
        levels = [f"The answer is {word}." for word in ("bad", "poor", "fair", "good", "best")]
        ours = {
            "question": draw.text("question"),
            "answer": draw.text("answer") if answer is None else answer,
            "ratings": [level],
        }
        ours["probabilities"] = not steps and draw.random() < 0.5
        theirs = {"user_input": ours["question"], "response": ours["answer"]}
        rubrics = {f"score{i}_description": text for i, text in enumerate(levels, 1)}
        return {"levels": levels}, {"rubrics": rubrics}, ours, theirs, [{"feedback": "it is so", "score": level}], steps

    for _ in range(CASES):
        yield made(draw.randint(1, 5))
    for _ in range(10):
        yield made(draw.choice([0, 6, -1, 10]), [(OFF_SCALE, UNREADABLE)])
        yield made(draw.randint(1, 5), [(EMPTY_ANSWER, EMPTY_INPUT)], "")


class Criterion:
    """One of Ragas' older metrics, which its collections do not have, called as these are."""

    def __init__(self, llm, **config):
        self.metric = self.kind(name="polite", llm=llm, **config)

    async def ascore(self, **columns):
        return MetricResult(value=float(await self.metric.single_turn_ascore(SingleTurnSample(**columns))))


class Critic(Criterion):
    kind = AspectCritic


class Degree(Criterion):
    kind = SimpleCriteriaScore


def criteria(draw, scale="yes_no"):
    def made(verdict, steps=(), answer=None):
        criterion = "The answer is polite."
        ours = {"question": draw.text("question"), "answer": draw.text("answer") if answer is None else answer}
        ours |= {"probabilities": not steps and draw.random() < 0.5, "ratings": [verdict]}
        ours["rules"] = [{"when": [ours["answer"]], "say": yes(verdict)}]
        theirs = {"user_input": ours["question"], "response": ours["answer"]}
        reply = {"reason": "it is so", "verdict" if scale == "yes_no" else "score": verdict}
        return {"criterion": criterion, "scale": scale}, {"definition": criterion}, ours, theirs, [reply], steps

    for _ in range(CASES):
        yield made(draw.randint(0, 1))
    for _ in range(10):
        yield made(draw.randint(0, 1), [(EMPTY_ANSWER, EMPTY_INPUT)], "")
        if scale == "degree":
            yield made(draw.choice([2, 5, -1]), [(OFF_SCALE, UNREADABLE)])
