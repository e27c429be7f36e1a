"""The refiners with their settings: `reverie.refine.Threshold` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from reverie._settings import Component


@dataclass(frozen=True, kw_only=True)
class None_(Component):
    """`none`: passages stay as they are.

    The baseline that every other step must beat.
    """

    _name: ClassVar[str] = "none"


@dataclass(frozen=True, kw_only=True)
class Threshold(Component):
    """`threshold`: passages with a low score are left out.

    It pays where many questions need one passage and some need many, and where the scores mean the same for every
    question: those of a cross-encoder do, those of BM25 and of reciprocal rank fusion do not. A score is that of the
    last stage that ranked. At least `keep` passages stay.

    Args:
        least: The least score of a passage that stays. Default 0.
        keep: How many passages stay at least, the best first. Default 1.
    """

    _name: ClassVar[str] = "threshold"

    least: float = 0.0
    keep: int = 1


@dataclass(frozen=True, kw_only=True)
class ScoreGap(Component):
    """`score_gap`: passages behind the largest drop in the scores are left out.

    The number of passages follows from the question: a question with one good passage gets one, a question with many
    gets many. It needs no threshold, so it works for scores of any scale. It pays with scores that fall sharply behind
    what is relevant, such as those of a cross-encoder, and saves tokens. It does not pay with reciprocal rank fusion or
    `listwise`, whose scores fall by the rank alone, or where an answer needs passages of different strength: raise
    `keep` then. Equal scores have no drop, so nothing is left out.

    Args:
        keep: How many passages stay at least, the best first. Default 1.
    """

    _name: ClassVar[str] = "score_gap"

    keep: int = 1


@dataclass(frozen=True, kw_only=True)
class Dedupe(Component):
    """`dedupe`: passages whose text a better passage holds already are left out.

    Two texts are compared without regard to white space. It pays where the corpus holds copies (versions of a document,
    boilerplate, mirrored pages), and after steps that make passages overlap. Nothing is gained on a corpus without
    copies. Of equal texts in two documents only the better ranked one stays, so a metric that looks for evidence in the
    other document does not find it. With `similarity`, near copies go too: a share that is too low also removes
    passages that differ in one number, which may be the answer.

    Args:
        similarity: A passage is also removed if its Jaccard similarity with a better one is at least this: the share of
            common sequences of five words, without regard to case, or of five pairs of characters in scripts without
            spaces. Above 0, at most 1. Default: none, so that only equal and contained texts are removed.
    """

    _name: ClassVar[str] = "dedupe"

    similarity: float | None = None


@dataclass(frozen=True, kw_only=True)
class Neighbours(Component):
    """`neighbours`: a passage is read with the chunks before and after it.

    Small chunks are found sharply but say little; their neighbours complete them. It pays with small chunks and answers
    that run on over a border of chunks. It does not pay with chunks of several hundred tokens: it then adds tokens that
    dilute what was found. Neighbours are chunks of the same document. Passages that overlap or touch become one, in the
    place of the best of them and with its score, so no text comes twice, and there may be fewer passages than before.

    Args:
        chunks: How many chunks before a passage, and how many after it. Default 1.
    """

    _name: ClassVar[str] = "neighbours"

    chunks: int = 1


@dataclass(frozen=True, kw_only=True)
class Parents(Component):
    """`parents`: a passage is read as the larger part that it belongs to.

    Where the chunker makes a hierarchy, that is the parent chunk; elsewhere all chunks in a row under the same heading.
    Several hits of one parent become one passage, in the place of the best and with its score. It pays where an answer
    needs the whole section but a sentence of it is what matches, as in manuals and regulations. It does not pay where
    sections are long, or a question needs one fact: most of what is added is noise. The chunker `hierarchical` merges
    by itself where enough of a parent was found; this step does it for every hit. Text without a heading stays as it
    is, and so does a passage whose section has more than `chunks` chunks.

    Args:
        chunks: The most chunks of a section under a heading; passages of larger sections stay as they are. It does not
            concern parent chunks. Default 10.
    """

    _name: ClassVar[str] = "parents"

    chunks: int = 10


@dataclass(frozen=True, kw_only=True)
class Sentences(Component):
    """`sentences`: of each passage, only the sentences near the question stay.

    Sentences are compared with the question by the vectors of the trial's embedder, and those around a near one stay
    too. It saves tokens, and can help small models that lose themselves in long passages. It does not pay where what
    answers does not sound like the question (tables, code, references such as "it" and "this"), nor with an endpoint
    whose every call costs time: all sentences of all passages are embedded for every question. What was left out is
    shown as ` … `, and metrics that look for evidence count only what stayed. At least the best sentence of all
    passages stays; a passage without any goes.

    Args:
        least: The least cosine of a sentence and the question, from -1 to 1. What is near differs from embedder to
            embedder. Default 0.3.
        neighbours: How many sentences stay before and after a near one. Default 1.
    """

    _name: ClassVar[str] = "sentences"

    least: float = 0.3
    neighbours: int = 1


@dataclass(frozen=True, kw_only=True)
class Extract(Component):
    """`extract`: a chat model names the sentences of each passage that matter.

    One call for each passage; the model sees the passage's sentences with numbers and returns numbers, held to a JSON
    Schema. Text comes from the document, never from the model. It pays with long passages, an expensive generator and a
    cheap, capable model that extracts; it does not pay with short chunks, or with a model of half a billion parameters,
    which picks at random. It adds a call for each passage and its time to every question. What was left out is shown as
    ` … `, and metrics that look for evidence count only what stayed. A reply that cannot be used leaves its passage
    unchanged, as does a passage that the model's context cannot hold. A passage of which nothing matters goes, but if
    nothing matters in any, the first stays whole.

    Args:
        model: The name of the chat model.
    """

    _name: ClassVar[str] = "extract"

    model: str


@dataclass(frozen=True, kw_only=True)
class Budget(Component):
    """`budget`: passages are kept, best first, up to a number of tokens.

    It pays where chunks differ in size or a pipeline may not exceed a cost for each question, and it makes pipelines
    comparable: with `top_k` alone, larger chunks win for nothing else than being larger. It does not pay where the
    generator's own `context_tokens` bounds the same text already. The passage that crosses the number is cut behind its
    last sentence that fits, or left out if none fits; what comes after it is left out. The first passage is never left
    out: it is cut behind a word where its first sentence is too long. Tokens are those of `cl100k_base`, as for sizes
    of chunks; marks around the passages and the question come on top.

    Args:
        tokens: The most tokens of all passages together, at least 16. Default 2000.
    """

    _name: ClassVar[str] = "budget"

    tokens: int = 2000


@dataclass(frozen=True, kw_only=True)
class LongContextReorder(Component):
    """`long_context_reorder`: the best passages stand at both ends, the worst in the middle.

    Models read the beginning and the end of a long context better than its middle. It pays with ten passages or more
    and models that show this weakness; with few passages, or a model that reads its whole window well, it changes
    nothing or harms. Put it last: a later `budget` would cut off the second best passage. Metrics that look at ranks
    (`ndcg`, `mrr`, and every metric with `k`) judge this order, so their scores fall by design: compare answers.
    """

    _name: ClassVar[str] = "long_context_reorder"


@dataclass(frozen=True, kw_only=True)
class LongContext(Component):
    """`long_context`: the model reads a whole document, or the whole corpus.

    The baseline that answers "do I need retrieval at all?": many corpora fit into the window of a model. `scope =
    "document"` gives the document of the best hit; `scope = "corpus"` gives every document in the order of the corpus,
    whatever was found. It pays for small corpora and questions that need much of a document; each question costs the
    whole text, and models overlook facts in the middle of a long context, so it loses against retrieval on single
    facts.

    Args:
        scope: `document` (the default): that of the best hit. `corpus`: all documents.
        tokens: The most tokens of all text together, counted as `cl100k_base` does; at least 16. Default 100,000.
    """

    _name: ClassVar[str] = "long_context"

    scope: Literal["document", "corpus"] = "document"
    tokens: int = 100000


@dataclass(frozen=True, kw_only=True)
class SelfRoute(Component):
    """`self_route`: a chat model says whether the passages answer the question; only where they do not, the whole
    document, or the whole corpus, takes their place.

    Most questions then cost what retrieval costs, and the hard ones get the long context. It pays for corpora whose
    documents fit the window of a model that reads them well, where some questions need much of a document. It does not
    pay with a model of half a billion parameters, which says "answerable" of nearly everything. It makes one short call
    for each question. The paper takes the answer from the same call; here a generator answers afterwards, so a question
    that the passages answer costs one call more. The result of a question shows whether it got more text. A model that
    fails leaves the passages as they are.

    Args:
        model: The name of the chat model.
        scope: What is read where the passages do not answer: `document` (the default), that of the best hit, or
            `corpus`, all documents.
        tokens: The most tokens of what is read then, counted as `cl100k_base` does; at least 16. Default 100,000.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes replies repeatable at a temperature above 0, if the model supports it. Default 0.
        max_tokens: The longest reply, in tokens; a longer one is not used. Default 16.
    """

    _name: ClassVar[str] = "self_route"

    model: str
    scope: Literal["document", "corpus"] = "document"
    tokens: int = 100000
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 16


@dataclass(frozen=True, kw_only=True)
class Corrective(Component):
    """`corrective`: a chat model grades what was found; where it is not enough, the model writes another query and the
    trial's retriever searches again.

    Every passage gets a grade: 2 if it holds the answer or a part of it, 1 if it is about the same matter, 0 if not.
    Where no passage reaches `enough`, the model writes a query with other words, and what that finds is graded too, in
    at most `rounds` rounds. The best grades come first, of equals what was found first, as many as there were before; a
    passage below `least` goes, but one stays. A passage's score is its grade.

    Args:
        model: The name of the chat model.
        rounds: How often it searches again, at most; 1 to 3. Default 3.
        enough: The grade that the best passage must have for the search to end; 1 or 2. Default 2.
        least: The least grade of a passage that stays, 0 to 2. Default 1.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes replies repeatable at a temperature above 0, if the model supports it. Default 0.
        max_tokens: The longest reply, in tokens; a longer one is not used. Default 256.
    """

    _name: ClassVar[str] = "corrective"

    model: str
    rounds: int = 3
    enough: int = 2
    least: int = 1
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 256


@dataclass(frozen=True, kw_only=True)
class Agentic(Component):
    """`agentic`: a chat model looks at what was found and writes questions for what is still missing; each is searched,
    and once more in other words where that does not answer it.

    First the model says whether the passages are `enough`, whether `nothing` that could be searched would help, or what
    `more` is needed: at most `tasks` questions. These are searched side by side; for each the model says whether what
    was found answers it, and writes one other query where it does not. At the end the first passages and those of each
    question take turns, the best of each first, as many as there were before unless `top_n` is set. A passage's score
    is its place as a share: 1 for the first. The answer is then written by the generator, as for any other step.

    Args:
        model: The name of the chat model.
        tasks: How many questions the model may ask, 1 to 8. Default 3.
        top_n: The most passages to keep. Default: as many as were found before.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes replies repeatable at a temperature above 0, if the model supports it. Default 0.
        max_tokens: The longest reply, in tokens; a longer one is not used. Default 256.
    """

    _name: ClassVar[str] = "agentic"

    model: str
    tasks: int = 3
    top_n: int | None = None
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 256


@dataclass(frozen=True, kw_only=True)
class Recency(Component):
    """`recency`: newer passages come before older ones of about the same relevance.

    A passage's new score is `(1 - weight) x relevance + weight x freshness`. Relevance is its score as a share between
    the lowest and the highest of the question's passages (1 if all are equal). Freshness halves with every
    `half_life_days` that it is older than the newest of them, so that no clock is read, and the same question gives the
    same order next year. A passage without a date has no freshness.

    Args:
        field: The field with the date. Default `date`.
        half_life_days: After so many days a passage is half as fresh. Default 365.
        weight: How much freshness counts, 0 to 1; relevance counts the rest. Default 0.3.
    """

    _name: ClassVar[str] = "recency"

    field: str = "date"
    half_life_days: float = 365.0
    weight: float = 0.3


class Refiners:
    """The refiners by their names: `reverie.refine` has them."""

    None_ = None_
    Threshold = Threshold
    ScoreGap = ScoreGap
    Dedupe = Dedupe
    Neighbours = Neighbours
    Parents = Parents
    Sentences = Sentences
    Extract = Extract
    Budget = Budget
    LongContextReorder = LongContextReorder
    LongContext = LongContext
    SelfRoute = SelfRoute
    Corrective = Corrective
    Agentic = Agentic
    Recency = Recency


refine = Refiners()
