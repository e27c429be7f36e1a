"""`trec_eval` beside the retrieval metrics of `crates/eval`.

`trec_eval` judges documents by name; ours look for evidence in the text of
passages. Here every document is one place in a file: passage number i covers it
whole, and it is evidence if it is relevant, so that both see the same ranking.
"""

import random

import pytrec_eval
from outcome import Table

CASES = 300
TOLERANCE = 1e-9

SHORT = "fewer than k retrieved"
GRADES = "grades of relevance"
NOTHING_RELEVANT = "nothing relevant"
DIFFERENCES = {
    SHORT: "`P_k` divides by k even where fewer were retrieved. Here precision divides by those that were looked at: it says how much "
    "noise the generator was given, and recall says what is missing.",
    GRADES: "`trec_eval` takes grades as gains in nDCG. Golden evidence has no grades here: each item is needed.",
    NOTHING_RELEVANT: "A question without relevant documents is 0 there. Without evidence the metric does not apply here, which is no failure of the retriever.",
}

# Ours; theirs without and with a cut at k.
METRICS = [("recall", "recall_1000", "recall_{k}"), ("precision", "set_P", "P_{k}"), ("mrr", "recip_rank", None),
           ("ndcg", "ndcg", "ndcg_cut_{k}"), ("hit_rate", "success_1000", "success_{k}")]  # fmt: skip
CUTS = (1, 3, 5, 10)
NOT_APPLICABLE = "no score: not_applicable"


def same(ours, theirs):
    if isinstance(ours, float) and isinstance(theirs, float):
        return abs(ours - theirs) <= TOLERANCE
    return ours == theirs


def trec(relevant, retrieved, measure):
    """The measure of one question; `relevant` maps documents to grades."""
    name = measure.rsplit("_", 1)
    asked = f"{name[0]}.{name[1]}" if name[-1].isdigit() else measure
    run = {f"d{document}": float(len(retrieved) - rank) for rank, document in enumerate(retrieved)}
    # A document of grade 0 is known, and not relevant; without any, the question is unknown.
    grades = {"unseen": 0} | {f"d{document}": grade for document, grade in relevant.items()}
    return pytrec_eval.RelevanceEvaluator({"q": grades}, {asked}).evaluate({"q": run})["q"][measure]


def place(document):
    # Several files: evidence in another one must not count.
    return {"document": f"{document % 3}.txt", "start": 100 * document, "end": 100 * document + 60}


def cases(draw):
    """Grades of relevant documents, and documents in the order retrieved."""
    for _ in range(CASES):
        collection = range(draw.choice([6, 12, 40]))
        relevant = dict.fromkeys(draw.sample(collection, draw.randint(1, 5)), 1)
        yield relevant, draw.sample(collection, draw.randint(1, len(collection)))
    for _ in range(20):
        yield {}, draw.sample(range(9), 4)
        yield {draw.randrange(9): 1}, []
        yield {d: draw.randint(1, 3) for d in draw.sample(range(12), 4)}, draw.sample(range(12), draw.randint(2, 12))


def run(process):
    table = Table("trec_eval (pytrec_eval-terrier 0.5.11)", DIFFERENCES, same)
    samples = list(cases(random.Random(6)))
    for name, whole, cut in METRICS:
        for k in (None, *CUTS):
            measure = whole if k is None or cut is None else cut.format(k=k)
            row = table.row(
                f"{name}{'' if k is None else f'@{k}'}: {measure}" + (" of the first k" if k and not cut else ""),
                "questions",
            )
            for i, (relevant, retrieved) in enumerate(samples):
                # The reciprocal rank has no cut there: it is given the first k.
                seen = retrieved[:k] if k and not cut else retrieved
                theirs = trec(relevant, seen, measure)
                steps = []
                if name == "precision" and k and 0 < len(retrieved) < k:
                    steps.append((SHORT, trec(relevant, retrieved, "set_P")))
                if name == "ndcg" and any(grade > 1 for grade in relevant.values()):
                    steps.append((GRADES, trec(dict.fromkeys(relevant, 1), seen, measure)))
                if not relevant:
                    steps.append((NOTHING_RELEVANT, NOT_APPLICABLE))
                request = {"metric": {name: {} if k is None else {"k": k}}, "evidence": [place(d) for d in relevant],
                           "passages": [place(d) for d in retrieved]}  # fmt: skip
                answer = process.ask(request)
                ours = float(answer["value"]) if "value" in answer else f"no score: {answer['missing']['reason']}"
                row.compare(f"question {i}", ours, theirs, steps)
    return table
