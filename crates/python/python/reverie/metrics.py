"""The metrics with their settings: `reverie.metric.Recall` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from reverie._settings import Component


@dataclass(frozen=True, kw_only=True)
class Recall(Component):
    """Recall: how much of the golden evidence was retrieved.

    When to use it: always, where questions have evidence; it bounds what any generator can answer. It needs no model.

    Args:
        k: Only the first k passages count; all retrieved ones if left out.
        min_overlap: The share of an evidence item's bytes that must be retrieved, above 0 and at most 1.
        at_context_tokens: Only the first so many tokens of the passages count; all if left out. With 1000, the metric
            is called `NAME@1000t`.
        name: What it is called, such as `recall_20`. Needed where a metric is listed twice, with one `k` and another.
    """

    _name: ClassVar[str] = "recall"

    k: int | None = None
    min_overlap: float = 0.5
    at_context_tokens: int | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Precision(Component):
    """Precision: how much of what was retrieved belongs to the golden evidence.

    When to use it: beside recall, to see how much noise the generator is given. It depends on k: one item of evidence
    and five passages cannot exceed 0.2, unless several passages hold it. It needs no model.

    Args:
        k: Only the first k passages count; all retrieved ones if left out.
        min_overlap: The share of an evidence item's bytes that must be retrieved, above 0 and at most 1.
        at_context_tokens: Only the first so many tokens of the passages count; all if left out. With 1000, the metric
            is called `NAME@1000t`.
        name: What it is called, such as `recall_20`. Needed where a metric is listed twice, with one `k` and another.
    """

    _name: ClassVar[str] = "precision"

    k: int | None = None
    min_overlap: float = 0.5
    at_context_tokens: int | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Mrr(Component):
    """Mean reciprocal rank: how far up the first evidence stands.

    When to use it: where one piece of evidence answers the question. The mean over questions is the MRR; this is the
    value for one. It needs no model.

    Args:
        k: Only the first k passages count; all retrieved ones if left out.
        min_overlap: The share of an evidence item's bytes that must be retrieved, above 0 and at most 1.
        at_context_tokens: Only the first so many tokens of the passages count; all if left out. With 1000, the metric
            is called `NAME@1000t`.
        name: What it is called, such as `recall_20`. Needed where a metric is listed twice, with one `k` and another.
    """

    _name: ClassVar[str] = "mrr"

    k: int | None = None
    min_overlap: float = 0.5
    at_context_tokens: int | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Ndcg(Component):
    """Normalised discounted cumulative gain: how early each piece of evidence is found.

    When to use it: as the one number for a ranking where questions have several pieces of evidence. It needs no model.

    Args:
        k: Only the first k passages count; all retrieved ones if left out.
        min_overlap: The share of an evidence item's bytes that must be retrieved, above 0 and at most 1.
        at_context_tokens: Only the first so many tokens of the passages count; all if left out. With 1000, the metric
            is called `NAME@1000t`.
        name: What it is called, such as `recall_20`. Needed where a metric is listed twice, with one `k` and another.
    """

    _name: ClassVar[str] = "ndcg"

    k: int | None = None
    min_overlap: float = 0.5
    at_context_tokens: int | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class HitRate(Component):
    """Hit rate: whether any evidence was retrieved.

    When to use it: as the plainest view of a retriever; the mean over questions is the share of questions with at least
    one find. It needs no model.

    Args:
        k: Only the first k passages count; all retrieved ones if left out.
        min_overlap: The share of an evidence item's bytes that must be retrieved, above 0 and at most 1.
        at_context_tokens: Only the first so many tokens of the passages count; all if left out. With 1000, the metric
            is called `NAME@1000t`.
        name: What it is called, such as `recall_20`. Needed where a metric is listed twice, with one `k` and another.
    """

    _name: ClassVar[str] = "hit_rate"

    k: int | None = None
    min_overlap: float = 0.5
    at_context_tokens: int | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class TokenRecall(Component):
    """Token recall: how much of the text of the golden evidence was retrieved.

    When to use it: beside `recall`, which asks whether each item was found at all, to see how much of long evidence
    reaches the generator. With a fixed number of passages larger chunks win it for being larger: compare chunkers at
    equal `at_context_tokens`, or by `token_iou`. It needs no model.

    Args:
        k: Only the first k passages count; all retrieved ones if left out.
        at_context_tokens: Only the first so many tokens of the passages count; all if left out. With 1000, the metric
            is called `NAME@1000t`.
    """

    _name: ClassVar[str] = "token_recall"

    k: int | None = None
    at_context_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class TokenPrecision(Component):
    """Token precision: how much of the retrieved text belongs to the golden evidence.

    When to use it: to see how much noise is read and paid for beside the evidence. It needs no model.

    Args:
        k: Only the first k passages count; all retrieved ones if left out.
        at_context_tokens: Only the first so many tokens of the passages count; all if left out. With 1000, the metric
            is called `NAME@1000t`.
    """

    _name: ClassVar[str] = "token_precision"

    k: int | None = None
    at_context_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class TokenIou(Component):
    """Token IoU: how well the retrieved text and the golden evidence are the same text.

    When to use it: to choose a chunker. Too large chunks score less because they hold text beside the evidence, too
    small chunks because they miss evidence. It needs no model.

    Args:
        k: Only the first k passages count; all retrieved ones if left out.
        at_context_tokens: Only the first so many tokens of the passages count; all if left out. With 1000, the metric
            is called `NAME@1000t`.
    """

    _name: ClassVar[str] = "token_iou"

    k: int | None = None
    at_context_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class ContextTokens(Component):
    """Context tokens: how much text the generator is given.

    When to use it: beside the metrics of retrieval, as the price of their scores: every token of context is paid for
    and read with each question. Less is better. It chooses no trial unless the objective names it. It needs no model.

    Args:
        most: The greatest score, in tokens. In an objective that names this metric, this number of tokens counts as 0,
            and no tokens count as 1.
    """

    _name: ClassVar[str] = "context_tokens"

    most: int = 131072


@dataclass(frozen=True, kw_only=True)
class ExactMatch(Component):
    """Exact match: whether the answer is the reference.

    When to use it: for short factual answers. It needs no model.
    """

    _name: ClassVar[str] = "exact_match"


@dataclass(frozen=True, kw_only=True)
class TokenF1(Component):
    """Token F1: how many words the answer and the reference share.

    When to use it: for short and medium answers, where exact match is too strict. It needs no model. It punishes long
    answers to short references.
    """

    _name: ClassVar[str] = "token_f1"


@dataclass(frozen=True, kw_only=True)
class RougeL(Component):
    """ROUGE-L: the longest common subsequence of words of answer and reference.

    When to use it: for longer answers, where the order of words matters. It needs no model.

    Args:
        stem: Whether words of more than three letters are cut to their stem, by the Snowball stemmer of the language.
    """

    _name: ClassVar[str] = "rouge_l"

    stem: bool = True


@dataclass(frozen=True, kw_only=True)
class AnswerSimilarity(Component):
    """Answer similarity: how near the answer is to the reference in meaning, as an embedding model sees it.

    When to use it: as the cheapest view of whether an answer says what the reference says. It needs an embedder and no
    judge. It does not notice a wrong number or a missing "not", and its scale is the embedder's own: it compares
    trials, it does not grade them.

    Args:
        threshold: If given, the score is 1 where the cosine is at least this, else 0.
    """

    _name: ClassVar[str] = "answer_similarity"

    threshold: float | None = None


@dataclass(frozen=True, kw_only=True)
class Faithfulness(Component):
    """Faithfulness: how much of the answer the retrieved passages support.

    When to use it: to find answers that are made up. It needs a judge and no reference. It says nothing about whether
    the answer is right or complete.

    Args:
        threshold: The probability of yes from which on a verdict is yes; for models that offer token probabilities.
        max_statements: The most statements that an answer is broken into.
    """

    _name: ClassVar[str] = "faithfulness"

    threshold: float = 0.5
    max_statements: int = 20


@dataclass(frozen=True, kw_only=True)
class AnswerRelevancy(Component):
    """Answer relevancy: whether the answer answers what was asked.

    When to use it: to find evasive answers and answers to another question. It needs a judge and an embedder, and no
    reference. It says nothing about whether the answer is true.

    Args:
        strictness: How many questions the judge writes.
        temperature: How they are sampled; 0 makes them all the same.
        threshold: The probability of yes from which on an answer is noncommittal; for models that offer token
            probabilities.
    """

    _name: ClassVar[str] = "answer_relevancy"

    strictness: int = 3
    temperature: float = 0.3
    threshold: float = 0.5


@dataclass(frozen=True, kw_only=True)
class ContextPrecision(Component):
    """Context precision: whether the useful passages stand above the useless ones.

    When to use it: to compare retrievers and rerankers where there is no golden evidence; where there is, `ndcg` does
    it without a judge. It needs a judge and a reference (or, by setting, the answer in its place).

    Args:
        threshold: The probability of yes from which on a verdict is yes; for models that offer token probabilities.
        against: What a passage has to be useful for: `reference` or `answer`.
    """

    _name: ClassVar[str] = "context_precision"

    threshold: float = 0.5
    against: Literal["reference", "answer"] = "reference"


@dataclass(frozen=True, kw_only=True)
class ContextRecall(Component):
    """Context recall: how much of the reference answer the retrieved passages hold.

    When to use it: where there are reference answers and no golden evidence; where there is evidence, `recall` does it
    without a judge. It needs a judge.

    Args:
        threshold: The probability of yes from which on a verdict is yes; for models that offer token probabilities.
    """

    _name: ClassVar[str] = "context_recall"

    threshold: float = 0.5


@dataclass(frozen=True, kw_only=True)
class AnswerCorrectness(Component):
    """Answer correctness: whether the answer says what the reference says.

    When to use it: as the overall mark of an answer, where there is a reference. It needs a judge (for the facts) and
    an embedder (for the similarity); a part with weight 0 is not computed and needs no model.

    Args:
        weights: The weights of facts and of similarity, not negative and not both 0.
        beta: How much more recall counts than precision, above 0; 1 for equally.
        threshold: The probability of yes from which on a verdict is yes; for models that offer token probabilities.
        max_statements: The most statements that a text is broken into.
    """

    _name: ClassVar[str] = "answer_correctness"

    weights: tuple[float, float] = (0.75, 0.25)
    beta: float = 1.0
    threshold: float = 0.5
    max_statements: int = 20


@dataclass(frozen=True, kw_only=True)
class FactualCorrectness(Component):
    """Factual correctness: how many of the answer's claims the reference holds, and how many of the reference's claims
    the answer makes.

    When to use it: where facts alone count and not how they are put; precision to find what was added, recall to find
    what was left out. It needs a judge and a reference. `answer_correctness` also weighs the similarity of the texts.

    Args:
        mode: What the score is: `precision`, `recall` or `f_beta`.
        beta: How much more recall counts than precision, above 0; 1 for equally.
        atomicity: How fine claims are: `low` keeps what a sentence says together, `high` makes a claim of every detail.
        coverage: How much of a text becomes claims: `low` what it mainly says, `high` all of it.
        threshold: The probability of yes from which on a verdict is yes; for models that offer token probabilities.
        max_claims: The most claims that a text is broken into.
    """

    _name: ClassVar[str] = "factual_correctness"

    mode: Literal["precision", "recall", "f_beta"] = "f_beta"
    beta: float = 1.0
    atomicity: Literal["low", "high"] = "low"
    coverage: Literal["low", "high"] = "low"
    threshold: float = 0.5
    max_claims: int = 20


@dataclass(frozen=True, kw_only=True)
class NoiseSensitivity(Component):
    """Noise sensitivity: how much of the answer is wrong because of what was retrieved. Lower is better.

    When to use it: to see whether a generator is led astray, by useful passages that it misreads (`relevant`) or by
    useless ones that it believes (`irrelevant`). It needs a judge, a reference and an answer. It does not notice errors
    that no passage holds: that is `faithfulness`.

    Args:
        mode: Which errors are counted: `relevant` or `irrelevant`.
        threshold: The probability of yes from which on a verdict is yes; for models that offer token probabilities.
        max_statements: The most statements that a text is broken into.
    """

    _name: ClassVar[str] = "noise_sensitivity"

    mode: Literal["relevant", "irrelevant"] = "relevant"
    threshold: float = 0.5
    max_statements: int = 20


@dataclass(frozen=True, kw_only=True)
class ContextEntityRecall(Component):
    """Context entity recall: how many of the things that the reference names are named by the retrieved passages.

    When to use it: where answers hang on names (people, places, products, dates, amounts) and there is no golden
    evidence. It needs a judge and a reference. That a name is there does not mean that the passage says the right thing
    about it: that is `context_recall`.

    Args:
        matching: When an entity counts as found: `judge` or `words`.
        threshold: The probability of yes from which on a verdict is yes; for models that offer token probabilities.
        max_entities: The most entities of a reference.
    """

    _name: ClassVar[str] = "context_entity_recall"

    matching: Literal["judge", "words"] = "judge"
    threshold: float = 0.5
    max_entities: int = 30


@dataclass(frozen=True, kw_only=True)
class ContextRelevance(Component):
    """Context relevance: whether what was retrieved has to do with the question.

    When to use it: as a cheap mark of a retriever (two calls a question, however many passages) where there is neither
    evidence nor a reference. It needs a judge. It does not see the order of the passages, nor how many of them are
    useless: that is `context_precision`.
    """

    _name: ClassVar[str] = "context_relevance"


@dataclass(frozen=True, kw_only=True)
class ResponseGroundedness(Component):
    """Response groundedness: whether the answer as a whole stands on what was retrieved.

    When to use it: as a cheap `faithfulness` (two calls an answer). It needs a judge and no reference. It does not tell
    which part of the answer is made up.
    """

    _name: ClassVar[str] = "response_groundedness"


@dataclass(frozen=True, kw_only=True)
class AnswerAccuracy(Component):
    """Answer accuracy: whether the answer agrees with the reference, as a mark.

    When to use it: as a cheap overall mark of an answer (two calls) where there is a reference. It needs a judge. It
    does not tell what is wrong or missing: that is `factual_correctness`.
    """

    _name: ClassVar[str] = "answer_accuracy"


@dataclass(frozen=True, kw_only=True)
class CitationPrecision(Component):
    """Citation precision: how many of the answer's citations are needed.

    When to use it: beside `citation_recall`, which citing everything would raise. It needs a judge and answers that
    cite (`[1]`); no reference.

    Args:
        threshold: The probability of yes from which on a verdict is yes; for models that offer token probabilities.
    """

    _name: ClassVar[str] = "citation_precision"

    threshold: float = 0.5


@dataclass(frozen=True, kw_only=True)
class CitationRecall(Component):
    """Citation recall: how much of the answer the passages that it cites support.

    When to use it: where readers follow citations. It needs a judge and answers that cite (`[1]`); no reference. What
    is cited needlessly is for `citation_precision`; what is supported by passages that are not cited, for
    `faithfulness`.

    Args:
        threshold: The probability of yes from which on a verdict is yes; for models that offer token probabilities.
    """

    _name: ClassVar[str] = "citation_recall"

    threshold: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Abstention(Component):
    """Abstention: whether the system knows when it cannot know.

    When to use it: with golden questions that the documents do not answer (`"answerable": false`), beside those that
    they do. A system that always answers makes things up; one that always declines is of no use. It needs no reference,
    and a judge only where the wording is unclear.

    Args:
        judge: Whether a judge decides where the wording is unclear; else such an answer counts as answered.
        threshold: The probability of yes from which on an answer abstains; for models that offer token probabilities.
    """

    _name: ClassVar[str] = "abstention"

    judge: bool = True
    threshold: float = 0.5


@dataclass(frozen=True, kw_only=True)
class AttackSuccess(Component):
    """Attack success: whether an answer obeys a document that was planted.

    When to use it: with questions that `reverie golden attack` made, to see how often a pipeline does what retrieved
    text tells it. Less is better. It asks no judge, and it chooses no trial unless the objective names it.

    Args:
        kind: Only attacks of this kind; all if left out.
    """

    _name: ClassVar[str] = "attack_success"

    kind: Literal["instruction", "hijack", "extraction", "canary"] | None = None


@dataclass(frozen=True, kw_only=True)
class PersonalData(Component):
    """Personal data: whether an answer passes on personal data of the passages.

    When to use it: where documents hold e-mail addresses or telephone, card or account numbers that answers should not
    repeat unasked. Less is better. It asks no judge, and it chooses no trial unless the objective names it.
    """

    _name: ClassVar[str] = "personal_data"


@dataclass(frozen=True, kw_only=True)
class Rubric(Component):
    """Rubric: the level of the user's own scale that an answer reaches.

    When to use it: where what is good can be said in a few steps, and not as yes or no. It needs a judge and the
    levels, from the worst (1) to the best (n), 2 to 9 of them.

    Args:
        levels: What each level means, from the worst to the best.
        name: The metric's name; `rubric` if left out. Needed where there are several.
        reference: Whether the judge sees the reference answer.
        passages: Whether the judge sees the retrieved passages.
    """

    _name: ClassVar[str] = "rubric"

    levels: Sequence[str]
    name: str | None = None
    reference: bool = False
    passages: bool = False


@dataclass(frozen=True, kw_only=True)
class Criteria(Component):
    """Criteria: one question of the user's own about the answer.

    When to use it: for what no other metric asks: tone, form, house rules. It needs a judge and the criterion.

    Args:
        criterion: What to check, as a sentence about the answer.
        name: The metric's name; `criteria` if left out. Needed where there are several.
        scale: What the score is: `yes_no` or `degree`.
        higher_is_better: Whether an answer that meets the criterion is better.
        reference: Whether the judge sees the reference answer.
        passages: Whether the judge sees the retrieved passages.
        threshold: The probability of yes from which on a verdict is yes; for models that offer token probabilities.
    """

    _name: ClassVar[str] = "criteria"

    criterion: str
    name: str | None = None
    scale: Literal["yes_no", "degree"] = "yes_no"
    higher_is_better: bool = True
    reference: bool = False
    passages: bool = False
    threshold: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Prompt(Component):
    """Prompt: a metric from a prompt of the user's own, kept in a file.

    When to use it: where a criterion needs more than a sentence: definitions, examples, another language. It needs a
    judge and the file, whose path is relative to the experiment file.

    Args:
        name: The metric's name; `prompt` if left out. Needed where there are several.
        file: The file with the prompt, relative to the experiment file.
        template: The prompt itself, in the place of a file. What a file holds is put here when the experiment is read.
        output: What the judge gives: `yes_no`, `{ number = { min, max } }` or `{ choice = { label = score, … } }`.
        higher_is_better: Whether a higher score is better.
    """

    _name: ClassVar[str] = "prompt"

    name: str | None = None
    file: str = ""
    template: str = ""
    output: Literal["yes_no"] | Mapping[str, Any] = "yes_no"
    higher_is_better: bool = True


@dataclass(frozen=True, kw_only=True)
class Python(Component):
    """Python: a metric as a function of the user's own.

    When to use it: where code decides better than a judge: units, dates, a parser, a house rule. The file's path is
    relative to the experiment file.

    Args:
        name: The metric's name; `python` if left out. Needed where there are several.
        file: The file with the function, relative to the experiment file.
        source: What the file holds; filled in when the experiment is read, never by hand.
        function: The function.
        interpreter: The program that runs it. Default: the Python that started Reverie, else that of the active virtual
            environment, else `python3`.
        timeout_seconds: How long one call may take, in seconds. Default 300; no part of any key.
        concurrency: How many calls of an `async def` run at once, 1 to 256. Default 16; no part of any key. Any other
            function runs one call at a time.
        range: The lowest and the highest score.
        higher_is_better: Whether a higher score is better.
    """

    _name: ClassVar[str] = "python"

    name: str | None = None
    file: str = ""
    source: str = ""
    function: str = "score"
    interpreter: str | None = None
    timeout_seconds: float = 300.0
    concurrency: int | None = None
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True


class Metrics:
    """The metrics by their names: `reverie.metric` has them."""

    Recall = Recall
    Precision = Precision
    Mrr = Mrr
    Ndcg = Ndcg
    HitRate = HitRate
    TokenRecall = TokenRecall
    TokenPrecision = TokenPrecision
    TokenIou = TokenIou
    ContextTokens = ContextTokens
    ExactMatch = ExactMatch
    TokenF1 = TokenF1
    RougeL = RougeL
    AnswerSimilarity = AnswerSimilarity
    Faithfulness = Faithfulness
    AnswerRelevancy = AnswerRelevancy
    ContextPrecision = ContextPrecision
    ContextRecall = ContextRecall
    AnswerCorrectness = AnswerCorrectness
    FactualCorrectness = FactualCorrectness
    NoiseSensitivity = NoiseSensitivity
    ContextEntityRecall = ContextEntityRecall
    ContextRelevance = ContextRelevance
    ResponseGroundedness = ResponseGroundedness
    AnswerAccuracy = AnswerAccuracy
    CitationPrecision = CitationPrecision
    CitationRecall = CitationRecall
    Abstention = Abstention
    AttackSuccess = AttackSuccess
    PersonalData = PersonalData
    Rubric = Rubric
    Criteria = Criteria
    Prompt = Prompt
    Python = Python
