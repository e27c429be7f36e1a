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
import random
import warnings

import numpy as np
import ragas.metrics.collections as ragas
import regex
import Stemmer
from outcome import Table
from ragas.embeddings.base import BaseRagasEmbedding
from ragas.llms.base import InstructorBaseRagasLLM
from rouge_score import rouge_scorer

TOLERANCE = 1e-9
CASES = 240

NOTHING_SAID = "no statement"
NOTHING_FOUND = "nothing retrieved"
EMPTY_ANSWER = "empty answer"
NO_REFERENCE = "no reference"
MISSING_VERDICT = "missing verdict"
REPEATED = "repeated statement"
LOST_SAMPLE = "lost sample"
ZEROS = "embedding of zeros"
ONE_EMPTY = "one text states nothing"
SENTENCES = "sentences of the reference"
THRESHOLD = "threshold of 0"
NORMAL_FORM = "SQuAD's normal form"
CITATIONS = "citations"
LETTERS = "letters beyond ASCII"
STEMMER = "stemmer"
DIFFERENCES = {
    NOTHING_SAID: "An answer that states nothing is NaN there. Here the score is missing for a stated reason, and the row is counted.",
    NOTHING_FOUND: "Ragas raises where nothing was retrieved. Here context precision and recall are 0, so that a retriever gains nothing by "
    "returning nothing, and faithfulness is missing for a stated reason.",
    EMPTY_ANSWER: "Ragas raises, or embeds a space. Here the score is missing for a stated reason.",
    NO_REFERENCE: "Ragas raises, or scores against an empty text. Here the metric does not apply, which is no failure of the trial.",
    MISSING_VERDICT: "Ragas divides by the verdicts that came back, so a judge that forgets a statement raises the score. Here there is no "
    "score then.",
    REPEATED: "A statement that the judge repeats word for word counts once here.",
    LOST_SAMPLE: "Ragas drops a sample without a question, and gives 0 if none is left. Here there is no score, since a failing judge is not "
    "a bad answer.",
    ZEROS: "A cosine with a vector of zeros is NaN there (0 in answer correctness). Here there is no score, since nothing was compared.",
    ONE_EMPTY: "Ragas gives full marks for facts if either text states nothing, which rewards refusals. Here only if both do; else the "
    "counts decide: an answer without statements has 0.",
    SENTENCES: "Ragas divides by the sentences that the judge lists. Here the reference is cut by a rule, so that the denominator is the "
    "same for every trial.",
    THRESHOLD: "Ragas takes a threshold of 0 for none.",
    NORMAL_FORM: "Ragas compares strings. Here case, punctuation and articles do not count, as in SQuAD's evaluation.",
    CITATIONS: "Citations such as [1] are taken off an answer before it is compared with a reference.",
    LETTERS: "`rouge_score` drops letters beyond ASCII, so that answers in other languages score 0. Here they are kept.",
    STEMMER: "`rouge_score` stems with NLTK's Porter stemmer, here with Snowball's English one (Porter's second), as BM25 does.",
}

NONE = "no score: "
EMPTY_INPUT, UNREADABLE, NOT_APPLICABLE = NONE + "empty_input", NONE + "judge_unparsable", NONE + "not_applicable"


def same(ours, theirs):
    if isinstance(ours, float) and isinstance(theirs, float):
        return abs(ours - theirs) <= TOLERANCE
    return ours == theirs


class Model(InstructorBaseRagasLLM):
    """Ragas' model: gives the replies of the case in their order."""

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


class Draw(random.Random):
    """Random parts of cases; every text has a mark that stands in no other."""

    marks = 0

    def text(self, kind):
        self.marks += 1
        return f"The {kind} M{self.marks:06}M is {self.choice(['big', 'red', 'new', 'old'])}."

    def texts(self, kind, least, most):
        return [self.text(kind) for _ in range(self.randint(least, most))]

    def verdicts(self, items):
        share = self.choice([0, 0.3, 0.5, 0.8, 1])
        return [self.random() < share for _ in items]

    def vector(self):
        numbers = np.random.Generator(np.random.PCG64(self.getrandbits(60))).standard_normal(12)
        return (numbers / np.linalg.norm(numbers)).astype(np.float32).tolist()


def cosine(a, b):
    a, b = np.array(a), np.array(b)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def yes(verdict):
    return "Yes" if verdict else "No"


def says(items, verdicts, *shared):
    """The scripted judge's verdicts; none where the verdict is None."""
    return [{"when": [item, *shared], "say": yes(v)} for item, v in zip(items, verdicts) if v is not None]


def states(text, statements, key="statements"):
    return {"when": [text], "reply": {key: statements}}


def judged(items, verdicts):
    """Ragas' verdicts on statements."""
    rows = [{"statement": s, "reason": "it says so", "verdict": int(v)} for s, v in zip(items, verdicts) if v is not None]
    return {"statements": rows}


def places(texts):
    return [{"document": "a.txt", "start": 100 * i, "end": 100 * i + 50, "text": text} for i, text in enumerate(texts)]


def once(items, verdicts):
    """The verdicts of different statements."""
    return list(dict(reversed(list(zip(items, verdicts)))).values())[::-1]


def mean(values):
    return sum(values) / len(values)


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
        ours = {key: case[key] for key in ("question", "answer", "probabilities")} | {"passages": places(case["passages"])}
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
        yield made(fact_case(draw, statements=statements, verdicts=verdicts, probabilities=False), [(MISSING_VERDICT, UNREADABLE)])


def answer_relevancy(draw):
    def made(question, answer, asked, flags, vectors, probabilities, steps=(), strictness=3):
        rules = [{"when": [answer], "reply": {"question": q, "noncommittal": f}} for q, f in zip(asked, flags)]
        rules.append({"when": [answer], "say": yes(all(flags))})
        ours = {"question": question, "answer": answer, "probabilities": probabilities, "rules": rules, "vectors": vectors}
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
        ours = {"question": case["question"], "probabilities": case["probabilities"], "passages": places(case["passages"]), **given}
        ours["rules"] = says(case["passages"], case["verdicts"])
        theirs = {"user_input": case["question"], "retrieved_contexts": case["passages"]}
        theirs["reference" if against == "reference" else "response"] = text
        replies = [{"reason": "it helps", "verdict": int(v)} for v in case["verdicts"]] if text and case["passages"] else []
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
    def made(said, supported, wanted, present, steps=lambda alike, mix: (), answer=None, weights=(0.75, 0.25), beta=1.0, vectors=None):
        question, reference = draw.text("question"), draw.text("reference")
        answer = draw.text("answer") if answer is None else answer
        vectors = {answer: draw.vector(), reference: draw.vector()} if vectors is None else dict(zip([answer, reference], vectors))
        rules = [{"when": [question, text], "reply": {"statements": s}} for text, s in ((answer or "no answer", said), (reference, wanted))]
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
        yield made([a, a, b], [True, True, False], wanted, present, lambda alike, mix: [(REPEATED, mix(f_measure(1, 1, 1), alike))])
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
        yield made(answer, reference, vectors, 0.0, [(THRESHOLD, float(cosine(vectors[answer], vectors[reference]) >= 0))])
        yield made("", reference, vectors, None, [(EMPTY_ANSWER, EMPTY_INPUT)])
        yield made(answer, "", vectors, None, [(NO_REFERENCE, NOT_APPLICABLE)])
        yield made(answer, reference, vectors | {answer: [0.0] * 12}, None, [(ZEROS, EMPTY_INPUT)])


PLAIN = """the a an of reader page light engine running runs ran nationalities relational hopefulness conditional rational valency
digitizer U.S. 3.14 v2.0 don't e-mail x_1 C++ APT""".split()
# Words of one root, or only of the same letters.
FAMILIES = """general generous generously generate generation, commune communism community, arsenal arsenic, news new, skies sky,
dying die dies, early earl, single singly, proceed proceeding process, hopping hoping hope, fly flies flying, happy happily,
university universe universal""".split(",")
KIN = {word: family.split() for family in FAMILIES for word in family.split()}
FOREIGN = "Größe straße naïve Ελλάδα привет 東京 हिन्दी café".split()
MARKS = [".", ",", "!", " -", ";", "…", " — ", "”", "'s"]


def sentence(draw, words):
    return "".join(draw.choice(words) + (draw.choice(MARKS) if draw.random() < 0.2 else "") + " " for _ in range(draw.randint(1, 25))).strip()


def pairs(draw):
    """References and answers that are equal, alike or different."""
    for i in range(CASES * 2):
        words = PLAIN + list(KIN) if i % 2 else PLAIN[:12] + FOREIGN * (i % 4 == 0)
        reference = sentence(draw, words)
        parts = reference.split()
        answer = draw.choice([
            reference,
            sentence(draw, words),
            " ".join(parts[: len(parts) // 2 + 1]),
            " ".join(draw.sample(parts, len(parts))),
            " ".join(draw.choice(KIN.get(part, [part])) for part in parts),
            reference.upper() + ".",
            "The " + reference.lower().replace(",", ""),
        ])  # fmt: skip
        yield reference, answer, (cited := i % 5 == 0) and answer + " [1]" or answer, [1] if cited else []


def rouge(words):
    """ROUGE-L of the package, with another idea of words."""

    class Words:
        def tokenize(self, text):
            return words(text)

    scorer = rouge_scorer.RougeScorer(["rougeL"], tokenizer=Words())
    return lambda reference, answer: scorer.score(reference, answer)["rougeL"].fmeasure


def words_with(stem):
    def words(text):
        found = regex.findall(r"[\p{Alphabetic}\p{N}]+", text.lower())
        return [stem(word) if len(word) > 3 else word for word in found]

    return words


def rouge_l(draw):
    porter = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)
    package = lambda reference, answer: porter.score(reference, answer)["rougeL"].fmeasure  # noqa: E731
    from nltk.stem import porter as nltk

    letters, snowball = rouge(words_with(nltk.PorterStemmer().stem)), rouge(words_with(Stemmer.Stemmer("english").stemWord))
    for reference, plain, answer, citations in pairs(draw):
        steps = [(CITATIONS, package(reference, plain)), (LETTERS, letters(reference, plain)), (STEMMER, snowball(reference, plain))]
        ours = {"reference": reference, "answer": answer, "citations": citations}
        yield {}, {}, ours, {"reference": reference, "response": answer}, [], steps
    yield {}, {}, {"reference": "", "answer": "x"}, {"reference": "", "response": "x"}, [], [(NO_REFERENCE, NOT_APPLICABLE)]
    yield {}, {}, {"reference": "red fox", "answer": ""}, {"reference": "red fox", "response": ""}, [], []


def normal_form(text):
    """As SQuAD's script does it, for the marks that are used here."""
    text = regex.sub("—", " ", text.lower())
    text = regex.sub(r"[!-/:-@\[-`{-~…”]", "", text)
    words = text.split()
    return [word for word in words if word not in ("a", "an", "the")]


def exact_match(draw):
    for reference, plain, answer, citations in pairs(draw):
        forms = normal_form(reference), normal_form(plain)
        equal = forms[0] == forms[1] if any(forms) else reference.strip().lower() == plain.strip().lower()
        steps = [(CITATIONS, float(reference == plain)), (NORMAL_FORM, float(equal))]
        ours = {"reference": reference, "answer": answer, "citations": citations}
        yield {}, {}, ours, {"reference": reference, "response": answer}, [], steps
    yield {}, {}, {"reference": "", "answer": ""}, {"reference": "", "response": ""}, [], [(NO_REFERENCE, NOT_APPLICABLE)]


# Ours, what Ragas calls it, its models, and the cases.
METRICS = [
    ("faithfulness", ragas.Faithfulness, ("llm",), faithfulness),
    ("answer_relevancy", ragas.AnswerRelevancy, ("llm", "embeddings"), answer_relevancy),
    ("context_precision", ragas.ContextPrecision, ("llm",), context_precision),
    ("context_precision", ragas.ContextUtilization, ("llm",), lambda draw: context_precision(draw, "answer")),
    ("context_recall", ragas.ContextRecall, ("llm",), context_recall),
    ("answer_correctness", ragas.AnswerCorrectness, ("llm", "embeddings"), answer_correctness),
    ("answer_similarity", ragas.SemanticSimilarity, ("embeddings",), answer_similarity),
    ("rouge_l", ragas.RougeScore, (), rouge_l),
    ("exact_match", ragas.ExactMatch, (), exact_match),
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
        row = table.row(f"{ours_name}: {kind.__name__}", "samples")
        model, embeddings = Model(), Embeddings()
        given = {name: {"llm": model, "embeddings": embeddings}[name] for name in models}
        for i, (our_config, their_config, ours, theirs, replies, steps) in enumerate(cases(Draw(f"{ours_name} {kind.__name__}"))):
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
