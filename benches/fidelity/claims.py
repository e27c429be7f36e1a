"""Cases of the metrics that count claims, wrong statements and entities."""

from reasons_ragas import (
    EMPTY_ANSWER,
    EMPTY_INPUT,
    LEFT_OUT,
    MISSING_VERDICT,
    NO_CLAIMS,
    NO_ENTITY,
    NO_REFERENCE,
    NOT_APPLICABLE,
    NOTHING_FOUND,
    NOTHING_SAID,
    ONE_LIST,
    OTHER_WORDS,
    REPEATED,
    ROUNDED,
    SMALL_TERM,
    UNREADABLE,
)
from script import CASES, judged, mean, places, says, states


def factual_correctness(draw):
    def made(said, supported, wanted, present, mode="f_beta", beta=1.0, steps=(), **changes):
        case = {
            "question": draw.text("question"),
            "answer": draw.text("answer"),
            "reference": draw.text("reference"),
        } | changes
        answer, reference = case["answer"], case["reference"]
        ours = {**case, "probabilities": draw.random() < 0.5 and None not in supported}
        ours["rules"] = [
            states(answer or "no answer", said, "claims"),
            states(reference or "no reference", wanted, "claims"),
        ]
        ours["rules"] += [*says(said, supported, reference), *says(wanted, present, answer)]
        replies = []
        for claims, verdicts, asked in [(said, supported, True), (wanted, present, mode != "precision")]:
            if answer and reference and asked:
                replies += [{"claims": claims}, judged(claims, verdicts)] if claims else [{"claims": claims}]
        config = {"mode": mode, "beta": beta}
        theirs = {"response": answer, "reference": reference}
        return config, config | {"mode": mode.replace("f_beta", "f1")}, ours, theirs, replies, steps

    def apart(supported, present, mode, beta):
        """With recall as a share of one list; and not rounded."""
        precision, recall = mean(supported), mean(present)
        f = (1 + beta**2) * precision * recall / (beta**2 * precision + recall) if precision and recall else 0.0
        value = {"precision": precision, "recall": recall, "f_beta": f}[mode]
        return [(ONE_LIST, round(value, 2)), (ROUNDED, value)]

    for _ in range(CASES):
        said, wanted = draw.texts("claim", 1, 8), draw.texts("point", 1, 8)
        supported, present = draw.verdicts(said), draw.verdicts(wanted)
        mode, beta = draw.choice(["f_beta", "f_beta", "precision", "recall"]), draw.choice([1.0, 1.0, 0.5, 2.0])
        yield made(said, supported, wanted, present, mode, beta, apart(supported, present, mode, beta))
    for i in range(10):
        mode = ["f_beta", "precision", "recall"][i % 3]
        said, wanted = draw.texts("claim", 1, 4), draw.texts("point", 1, 4)
        supported, present = draw.verdicts(said), draw.verdicts(wanted)
        missing = EMPTY_INPUT if mode == "precision" else NOT_APPLICABLE
        neither = (NO_CLAIMS, 1.0) if mode == "f_beta" else (NOTHING_SAID, missing)
        yield made([], [], [], [], mode, steps=[neither])
        yield made([], [], wanted, present)
        yield made(said, supported, [], [], "recall", steps=[(NOTHING_SAID, NOT_APPLICABLE)])
        yield made(said, supported, wanted, present, mode, steps=[(EMPTY_ANSWER, EMPTY_INPUT)], answer="")
        yield made(said, supported, wanted, present, mode, steps=[(NO_REFERENCE, NOT_APPLICABLE)], reference="")
        if mode != "recall":
            yield made(said, [None, *supported[1:]], wanted, present, mode, steps=[(MISSING_VERDICT, UNREADABLE)])
        a, b = draw.texts("claim", 2, 2)
        steps = [(REPEATED, round(2 / 3, 2)), (ROUNDED, 2 / 3)]
        yield made([a, a, b], [True, True, False], wanted, [True] * len(wanted), "f_beta", steps=steps)


def noise_sensitivity(draw):
    def made(said, true, wanted, passages, supports, relevant, mode, steps=(), **changes):
        """`supports[p]` and `relevant[p]`: what passage p says of the answer's and the reference's statements."""
        case = {
            "question": draw.text("question"),
            "answer": draw.text("answer"),
            "reference": draw.text("reference"),
        } | changes
        question, answer, reference = case["question"], case["answer"], case["reference"]
        ours = {**case, "passages": places(passages), "probabilities": draw.random() < 0.5 and None not in true}
        ours["rules"] = [
            states(answer or "no answer", said),
            states(reference or "no reference", wanted),
            *says(said, true, reference),
        ]
        for passage, of_said, of_wanted in zip(passages, supports, relevant):
            ours["rules"] += [*says(said, of_said, passage), *says(wanted, of_wanted, passage)]
        replies = []
        if answer and reference and passages:
            replies = [{"statements": wanted}, {"statements": said}]
            for of_said, of_wanted in zip(supports, relevant):
                replies += [judged(wanted, of_wanted), judged(said, of_said)]
            replies.append(judged(said, true))
        theirs = {"user_input": question, "response": answer, "reference": reference, "retrieved_contexts": passages}
        return {"mode": mode}, {"mode": mode}, ours, theirs, replies, steps

    def parts(least=1):
        said, wanted, passages = (
            draw.texts("fact", least, 6),
            draw.texts("point", least, 5),
            draw.texts("passage", 1, 5),
        )
        table = lambda items: [draw.verdicts(items) for _ in passages]  # noqa: E731
        return said, draw.verdicts(said), wanted, passages, table(said), table(wanted)

    for i in range(CASES):
        yield made(*parts(), ["relevant", "irrelevant"][i % 2])
    for i in range(10):
        mode = ["relevant", "irrelevant"][i % 2]
        said, true, wanted, passages, supports, relevant = parts(2)
        nothing = [[] for _ in passages]
        yield made([], [], wanted, passages, nothing, relevant, mode, [(NOTHING_SAID, EMPTY_INPUT)])
        yield made(said, true, [], passages, supports, nothing, mode, [(NOTHING_SAID, NOT_APPLICABLE)])
        yield made(said, true, wanted, [], [], [], mode, [(NOTHING_FOUND, EMPTY_INPUT)])
        yield made(said, true, wanted, passages, supports, relevant, mode, [(EMPTY_ANSWER, EMPTY_INPUT)], answer="")
        yield made(
            said, true, wanted, passages, supports, relevant, mode, [(NO_REFERENCE, NOT_APPLICABLE)], reference=""
        )
        yield made(said, [None, *true[1:]], wanted, passages, supports, relevant, mode, [(MISSING_VERDICT, UNREADABLE)])


def context_entity_recall(draw):
    def made(entities, listed, passages, steps=(), asked=(), config=None, **changes):
        reference = changes.get("reference", draw.text("reference"))
        ours = {
            "question": draw.text("question"),
            "reference": reference,
            "passages": places(passages),
            "probabilities": draw.random() < 0.5,
        }
        ours["rules"] = [
            states(reference or "no reference", entities, "entities"),
            *says(entities, [e in asked for e in entities]),
        ]
        theirs = {"reference": reference, "retrieved_contexts": passages}
        return config or {}, {}, ours, theirs, [{"entities": entities}, {"entities": listed}], steps

    for _ in range(CASES):
        marks = [text.split()[2] for text in draw.texts("entity", 1, 9)]
        entities = [draw.choice(["the ", "", "Great "]) + mark for mark in marks]
        held = [entity for entity in entities if draw.random() < draw.choice([0, 0.5, 0.9, 1])]
        others = [f"Other{n}" for n in range(draw.randint(0, 3))]
        passages = draw.texts("passage", 1, 3)
        for entity in held + others:
            place = draw.randrange(len(passages))
            passages[place] += f" There is {entity}."
        steps = [(SMALL_TERM, len(held) / len(entities))]
        config = {"matching": draw.choice(["judge", "words"])}
        yield made(entities, [*held, *others], passages, steps, (), config)
    for i in range(10):
        entities = ["the Eiffel Tower", "Gustave Eiffel", "1889"]
        passages = [draw.text("passage") + " The tower was opened in 1889.", "EIFFEL TOWER is what it is called."]
        yield made(entities, ["1889", "EIFFEL TOWER"], passages, [(SMALL_TERM, 1 / 3), (OTHER_WORDS, 2 / 3)])
        yield made(
            entities,
            ["1889", "EIFFEL TOWER", "G. Eiffel"],
            passages,
            [(SMALL_TERM, 1 / 3), (OTHER_WORDS, 1.0)],
            ["Gustave Eiffel"],
        )
        yield made(entities, [], passages, [(LEFT_OUT, 2 / 3)])
        yield made([], ["1889"], passages, [(NO_ENTITY, NOT_APPLICABLE)])
        yield made(entities, [], [])
        yield made([], [], passages, [(NO_REFERENCE, NOT_APPLICABLE)], reference="")
        yield made(["1889", "1889", "a beam"], ["1889"], passages, [(SMALL_TERM, 0.5)])
