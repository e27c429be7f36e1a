"""The rerankers with their settings: `reverie.reranker.CrossEncoder` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from reverie._settings import Component, Part


@dataclass(frozen=True, kw_only=True)
class None_(Component):
    """`none`: the retriever's order stands; at most cut short.

    The baseline that every other reranker must beat to be worth its time.

    Args:
        top_n: The most passages to keep. Default: all.
    """

    _name: ClassVar[str] = "none"

    top_n: int | None = None


@dataclass(frozen=True, kw_only=True)
class CrossEncoder(Component):
    """`cross_encoder`: a model reads question and passage together and says how well they match.

    The most accurate order for its cost where such a model is to be had: it sees both texts at once, which vectors made
    apart cannot.

    Args:
        model: The name of the rerank model.
        candidates: How many hits the retriever finds for it to choose from. Default: four times the retriever's
            `top_k`, at least 20.
        top_n: The most passages to keep. Default 3.
    """

    _name: ClassVar[str] = "cross_encoder"

    model: str
    candidates: int | None = None
    top_n: int = 3


@dataclass(frozen=True, kw_only=True)
class Weights(Part):
    """How much each score counts; only their ratio matters.

    Args:
        maxsim: The match of the words' vectors. Default 1.
        bm25: The shared words, by BM25. It always uses `k1` 1.5 and `b` 0.75, not the settings of the retriever.
            Default 1.
        dense: The nearness of the texts' vectors. Default 1.
    """

    maxsim: float = 1.0
    bm25: float = 1.0
    dense: float = 1.0


@dataclass(frozen=True, kw_only=True)
class LateInteraction(Component):
    """`late_interaction`: every word of the question looks for its best match among the words of a chunk (MaxSim), by
    the token vectors of the trial's own embedder; joined with the BM25 and the dense score.

    Use it where there is no cross-encoder: it needs no further model. The token vectors of the chunks are an index,
    made once for a chunker and an embedder; only the question is encoded when passages are ordered. It takes 50 kB for
    a chunk of 128 tokens and 384 dimensions.

    Args:
        candidates: How many hits the retriever finds for it to choose from. Default: four times the retriever's
            `top_k`, at least 20.
        top_n: The most passages to keep. Default 3.
        weights: How much each score counts.
    """

    _name: ClassVar[str] = "late_interaction"

    candidates: int | None = None
    top_n: int = 3
    weights: Weights | Mapping[str, Any] = Weights()


@dataclass(frozen=True, kw_only=True)
class Listwise(Component):
    """`listwise`: a chat model sees all passages at once and writes their numbers in order, the most helpful first.

    Use it with a capable chat model; one of half a billion parameters orders at random. The answer is held to a JSON
    Schema. What it names comes first; what it forgets keeps its order behind; an answer that cannot be read changes
    nothing. A passage's score is its place as a share: 1 for the first.

    Args:
        model: The name of the chat model.
        candidates: How many hits the retriever finds for it to choose from. Default: four times the retriever's
            `top_k`, at least 20.
        top_n: The most passages to keep. Default 3.
    """

    _name: ClassVar[str] = "listwise"

    model: str
    candidates: int | None = None
    top_n: int = 3


@dataclass(frozen=True, kw_only=True)
class Pointwise(Component):
    """`pointwise`: a chat model is asked of each passage by itself whether it meets the question, to be answered by yes
    or no. The score is how far yes is ahead: logit(yes) − logit(no), from the probabilities of the two words.

    Use it where there is a chat model but no cross-encoder, or with a model that was trained for this, such as
    Qwen3-Reranker: its format of instruction, query and document is used. Scores mean the same for every question, so
    `threshold` may follow. It does not pay where a cross-encoder is at hand, which is as good and a fraction of the
    work, or where calls are expensive: there is one for each of the `candidates`. The endpoint must report
    probabilities of tokens, as llama.cpp, vLLM and some models of OpenAI do; `listwise` needs none.

    Args:
        model: The name of the chat model. It must tell probabilities of tokens.
        instruction: What a passage must do, as the model is told. Say here what counts in your field, in a sentence.
            Default: `Given a question, retrieve passages that answer it`.
        candidates: How many hits the retriever finds for it to choose from, each of which is a call. Default: four
            times the retriever's `top_k`, at least 20.
        top_n: The most passages to keep. Default 3.
    """

    _name: ClassVar[str] = "pointwise"

    model: str
    instruction: str = "Given a question, retrieve passages that answer it"
    candidates: int | None = None
    top_n: int = 3


@dataclass(frozen=True, kw_only=True)
class Python(Component):
    """`python`: passages in the order that a function of the user's own says.

    When to use it: where something outside the texts decides, such as age, source or a house rule, or to try a model
    that Reverie does not run. The file's path is relative to the experiment file.

    Args:
        file: The file with the function, relative to the experiment file.
        function: The function. Default `rerank`.
        interpreter: The program that runs it. Default: the Python that started Reverie, else that of the active virtual
            environment, else `python3`.
        timeout_seconds: How long one call may take, in seconds. Default 300; no part of any key.
        concurrency: How many calls of an `async def` run at once, 1 to 256. Default 16; no part of any key. Other
            functions are called one at a time.
        candidates: How many hits the retriever finds for it to choose from. Default: four times the retriever's
            `top_k`, at least 20.
        top_n: The most passages to keep. Default 3.
    """

    _name: ClassVar[str] = "python"

    file: str
    function: str = "rerank"
    interpreter: str | None = None
    timeout_seconds: float = 300.0
    concurrency: int | None = None
    candidates: int | None = None
    top_n: int = 3


class Rerankers:
    """The rerankers by their names: `reverie.reranker` has them."""

    None_ = None_
    CrossEncoder = CrossEncoder
    LateInteraction = LateInteraction
    Listwise = Listwise
    Pointwise = Pointwise
    Python = Python
