"""Cases of the metrics that compare words."""

import unicodedata

import regex
import Stemmer
from reasons_ragas import CITATIONS, LETTERS, NO_REFERENCE, NORMAL_FORM, NOT_APPLICABLE, STEMMER
from rouge_score import rouge_scorer
from script import CASES

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
    return "".join(
        draw.choice(words) + (draw.choice(MARKS) if draw.random() < 0.2 else "") + " "
        for _ in range(draw.randint(1, 25))
    ).strip()


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


def folded(text):
    """The normal form in which our metrics compare words, as far as these cases need it."""
    return unicodedata.normalize("NFKC", text.lower()).replace("ß", "ss")


def words_with(stem):
    def words(text):
        # As in our metrics, each Han character is a word, and combining marks are part of a word.
        found = regex.findall(r"(?V1)\p{Han}|[[\p{Alphabetic}\p{N}\p{M}]--\p{Han}]+", folded(text))
        return [stem(word) if len(word) > 3 else word for word in found]

    return words


def rouge_l(draw):
    porter = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)
    package = lambda reference, answer: porter.score(reference, answer)["rougeL"].fmeasure  # noqa: E731
    from nltk.stem import porter as nltk

    letters, snowball = (
        rouge(words_with(nltk.PorterStemmer().stem)),
        rouge(words_with(Stemmer.Stemmer("english").stemWord)),
    )
    for reference, plain, answer, citations in pairs(draw):
        steps = [
            (CITATIONS, package(reference, plain)),
            (LETTERS, letters(reference, plain)),
            (STEMMER, snowball(reference, plain)),
        ]
        ours = {"reference": reference, "answer": answer, "citations": citations}
        yield {}, {}, ours, {"reference": reference, "response": answer}, [], steps
    yield (
        {},
        {},
        {"reference": "", "answer": "x"},
        {"reference": "", "response": "x"},
        [],
        [(NO_REFERENCE, NOT_APPLICABLE)],
    )
    yield {}, {}, {"reference": "red fox", "answer": ""}, {"reference": "red fox", "response": ""}, [], []


def normal_form(text):
    """As SQuAD's script does it, for the marks that are used here."""
    text = regex.sub("—", " ", folded(text))
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
    yield (
        {},
        {},
        {"reference": "", "answer": ""},
        {"reference": "", "response": ""},
        [],
        [(NO_REFERENCE, NOT_APPLICABLE)],
    )
