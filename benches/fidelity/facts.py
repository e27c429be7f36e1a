"""Cases of the metrics that count statements and verdicts, or compare vectors."""

from reasons_ragas import (
    EMPTY_ANSWER,
    EMPTY_INPUT,
    LOST_SAMPLE,
    MISSING_VERDICT,
    NO_REFERENCE,
    NOT_APPLICABLE,
    NOTHING_FOUND,
    NOTHING_SAID,
    ONE_EMPTY,
    REPEATED,
    SENTENCES,
    THRESHOLD,
    UNREADABLE,
    ZEROS,
)
from script import CASES, cosine, judged, mean, places, says, states, yes


def fact_case(draw, **changes):
    """A sample with passages, and the judge's statements on its answer."""
    case = {"question": draw.text("question"), "answer": draw.text("answer"), "passages": draw.texts("passage", 1, 5)}
    case["statements"] = draw.texts("fact", 1, 9)
    case["probabilities"] = draw.random() < 0.5
    case.update(changes)
    case.setdefault("verdicts", draw.verdicts(case["statements"]))
    return case


def faithfulness(draw):
    def made(case, steps=()):
        ours = {key: case[key] for key in ("question", "answer", "probabilities")} | {
            "passages": places(case["passages"])
        }
        ours["rules"] = [states(case["answer"], case["statements"]), *says(case["statements"], case["verdicts"])]
        replies = [{"statements": case["statements"]}] if case["answer"] and case["passages"] else []
        if replies and case["statements"]:
            replies.append(judged(case["statements"], case["verdicts"]))
        theirs = {"user_input": case["question"], "response": case["answer"], "retrieved_contexts": case["passages"]}
        return {}, {}, ours, theirs, replies, steps

    for _ in range(CASES):
        yield made(fact_case(draw))
    for _ in range(10):
        yield made(fact_case(draw, statements=[]), [(NOTHING_SAID, EMPTY_INPUT)])
        yield made(fact_case(draw, passages=[]), [(NOTHING_FOUND, EMPTY_INPUT)])
        yield made(fact_case(draw, answer=""), [(EMPTY_ANSWER, EMPTY_INPUT)])
        a, b = draw.texts("fact", 2, 2)
        verdicts = [(v := draw.random() < 0.5), not v, v, v]
        yield made(fact_case(draw, statements=[a, b, a, a], verdicts=verdicts), [(REPEATED, 0.5)])
        statements = draw.texts("fact", 2, 6)
        verdicts = [None, *draw.verdicts(statements[1:])]
        yield made(
            fact_case(draw, statements=statements, verdicts=verdicts, probabilities=False),
            [(MISSING_VERDICT, UNREADABLE)],
        )


def answer_relevancy(draw):
    def made(question, answer, asked, flags, vectors, probabilities, steps=(), strictness=3):
        rules = [{"when": [answer], "reply": {"question": q, "noncommittal": f}} for q, f in zip(asked, flags)]
        rules.append({"when": [answer], "say": yes(all(flags))})
        ours = {
            "question": question,
            "answer": answer,
            "probabilities": probabilities,
            "rules": rules,
            "vectors": vectors,
        }
        theirs = {"user_input": question, "response": answer}
        replies = [{"question": q, "noncommittal": int(f)} for q, f in zip(asked, flags)] if answer else []
        return {"strictness": strictness}, {"strictness": strictness}, ours, theirs, replies, steps

    def parts(strictness=3):
        asked = draw.texts("question", strictness, strictness)
        question, answer = draw.text("question"), draw.text("answer")
        return question, answer, asked, {text: draw.vector() for text in [question, *asked]}

    for i in range(CASES):
        strictness = draw.choice([1, 3, 3, 5])
        question, answer, asked, vectors = parts(strictness)
        probabilities = i % 2 == 0
        # By probability the judge is asked once whether the answer is noncommittal.
        flags = [draw.random() < 0.3] * strictness if probabilities else draw.verdicts(asked)
        yield made(question, answer, asked, flags, vectors, probabilities, strictness=strictness)
    for i in range(10):
        question, answer, asked, vectors = parts()
        yield made(question, "", asked, [False] * 3, vectors, True, [(EMPTY_ANSWER, EMPTY_INPUT)])
        lost = [asked[0], "", asked[2]] if i % 2 else [""] * 3
        yield made(question, answer, lost, [False] * 3, vectors, i % 3 == 0, [(LOST_SAMPLE, UNREADABLE)])
        vectors[asked[1]] = [0.0] * 12
        yield made(question, answer, asked, [False] * 3, vectors, i % 2 == 0, [(ZEROS, EMPTY_INPUT)])


def context_precision(draw, against="reference"):
    def made(case, steps=()):
        text = case["answer"]
        given = {"reference": text} if against == "reference" else {"answer": text}
        ours = {
            "question": case["question"],
            "probabilities": case["probabilities"],
            "passages": places(case["passages"]),
            **given,
        }
        ours["rules"] = says(case["passages"], case["verdicts"])
        theirs = {"user_input": case["question"], "retrieved_contexts": case["passages"]}
        theirs["reference" if against == "reference" else "response"] = text
        replies = (
            [{"reason": "it helps", "verdict": int(v)} for v in case["verdicts"]] if text and case["passages"] else []
        )
        return {"against": against}, {}, ours, theirs, replies, steps

    for _ in range(CASES):
        passages = draw.texts("passage", 1, 12)
        yield made(fact_case(draw, passages=passages, verdicts=draw.verdicts(passages)))
    for _ in range(10):
        yield made(fact_case(draw, passages=[]), [(NOTHING_FOUND, 0.0)])
        missing = (NO_REFERENCE, NOT_APPLICABLE) if against == "reference" else (EMPTY_ANSWER, EMPTY_INPUT)
        yield made(fact_case(draw, answer=""), [missing])


def context_recall(draw):
    def made(case, sentences, verdicts, listed=None, steps=()):
        reference = " ".join(sentences)
        ours = {"question": case["question"], "reference": reference, "probabilities": case["probabilities"]}
        ours |= {"passages": places(case["passages"]), "rules": says(sentences, verdicts)}
        rows = list(zip(sentences, verdicts)) if listed is None else listed
        rows = [{"statement": s, "reason": "it says so", "attributed": int(v)} for s, v in rows]
        theirs = {"user_input": case["question"], "reference": reference, "retrieved_contexts": case["passages"]}
        return {}, {}, ours, theirs, [{"classifications": rows}] if reference and case["passages"] else [], steps

    for _ in range(CASES):
        sentences = draw.texts("Fact", 1, 10)
        yield made(fact_case(draw), sentences, draw.verdicts(sentences))
    for _ in range(10):
        sentences = draw.texts("Fact", 3, 8)
        verdicts = [True, *draw.verdicts(sentences[1:-1]), False]
        listed = list(zip(sentences, verdicts))[draw.choice([0, 1, 2]) : -1] if draw.random() < 0.8 else []
        yield made(fact_case(draw), sentences, verdicts, listed, [(SENTENCES, mean(verdicts))])
        yield made(fact_case(draw, passages=[]), sentences, verdicts, None, [(NOTHING_FOUND, 0.0)])
        yield made(fact_case(draw), [], [], None, [(NO_REFERENCE, NOT_APPLICABLE)])


def f_measure(tp, fp, fn, beta=1.0):
    if tp == 0:
        return 0.0
    precision, recall = tp / (tp + fp), tp / (tp + fn)
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def answer_correctness(draw):
    def made(
        said,
        supported,
        wanted,
        present,
        steps=lambda alike, mix: (),
        answer=None,
        weights=(0.75, 0.25),
        beta=1.0,
        vectors=None,
    ):
        question, reference = draw.text("question"), draw.text("reference")
        answer = draw.text("answer") if answer is None else answer
        vectors = (
            {answer: draw.vector(), reference: draw.vector()}
            if vectors is None
            else dict(zip([answer, reference], vectors))
        )
        rules = [
            {"when": [question, text], "reply": {"statements": s}}
            for text, s in ((answer or "no answer", said), (reference, wanted))
        ]
        ours = {"question": question, "answer": answer, "reference": reference, "probabilities": draw.random() < 0.5, "vectors": vectors,
                "rules": [*rules, *says(said, supported), *says(wanted, present)]}  # fmt: skip
        replies = [{"statements": said}, {"statements": wanted}]
        if said and wanted:
            kinds = {"TP": [s for s, v in zip(said, supported) if v], "FP": [s for s, v in zip(said, supported) if not v],
                     "FN": [s for s, v in zip(wanted, present) if not v]}  # fmt: skip
            replies.append({kind: [{"statement": s, "reason": "so"} for s in items] for kind, items in kinds.items()})
        theirs = {"user_input": question, "response": answer, "reference": reference}
        config = {"weights": list(weights), "beta": beta}
        mix = lambda facts, alike: (weights[0] * facts + weights[1] * alike) / sum(weights)  # noqa: E731
        alike = cosine(*vectors.values()) if all(map(any, vectors.values())) else 0.0
        return config, config, ours, theirs, replies, steps(alike, mix)

    for _ in range(CASES):
        said, wanted = draw.texts("fact", 1, 8), draw.texts("point", 1, 8)
        weights, beta = draw.choice([(0.75, 0.25)] * 3 + [(1.0, 0.0), (0.2, 0.3)]), draw.choice([1.0, 1.0, 0.5, 2.0])
        yield made(said, draw.verdicts(said), wanted, draw.verdicts(wanted), weights=weights, beta=beta)
    for i in range(10):
        yield made([], [], [], [])
        said = draw.texts("fact", 2, 8) if i % 2 else []
        wanted = [] if i % 2 else draw.texts("point", 2, 8)
        supported = [False, *draw.verdicts(said[1:])] if said else []
        facts = f_measure(sum(supported), supported.count(False), 0)
        # A judge may find in the answer what it did not find the answer to state.
        present = [True] * len(wanted) if i % 4 == 0 else draw.verdicts(wanted)
        yield made(said, supported, wanted, present, lambda alike, mix: [(ONE_EMPTY, mix(facts, alike))])
        a, b = draw.texts("fact", 2, 2)
        wanted, present = draw.texts("point", 2, 2), [True, False]
        yield made(
            [a, a, b],
            [True, True, False],
            wanted,
            present,
            lambda alike, mix: [(REPEATED, mix(f_measure(1, 1, 1), alike))],
        )
        yield made([], [], wanted, present, lambda *_: [(EMPTY_ANSWER, EMPTY_INPUT)], answer="")
        yield made([a], [True], wanted, present, lambda *_: [(ZEROS, EMPTY_INPUT)], vectors=[draw.vector(), [0.0] * 12])


def answer_similarity(draw):
    def made(answer, reference, vectors, threshold=None, steps=()):
        ours = {"answer": answer, "reference": reference, "vectors": vectors}
        config = {"threshold": threshold}
        return config, config, ours, {"reference": reference, "response": answer}, [], steps

    for _ in range(CASES):
        answer, reference = draw.text("answer"), draw.text("reference")
        vectors = {answer: draw.vector(), reference: draw.vector()}
        if draw.random() < 0.1:
            vectors[answer] = vectors[reference]
        yield made(answer, reference, vectors, draw.choice([None, None, 0.3, 0.9, -0.2]))
    for _ in range(10):
        answer, reference = draw.text("answer"), draw.text("reference")
        vectors = {answer: draw.vector(), reference: draw.vector(), " ": draw.vector()}
        yield made(
            answer, reference, vectors, 0.0, [(THRESHOLD, float(cosine(vectors[answer], vectors[reference]) >= 0))]
        )
        yield made("", reference, vectors, None, [(EMPTY_ANSWER, EMPTY_INPUT)])
        yield made(answer, "", vectors, None, [(NO_REFERENCE, NOT_APPLICABLE)])
        yield made(answer, reference, vectors | {answer: [0.0] * 12}, None, [(ZEROS, EMPTY_INPUT)])
