"""The generators with their settings: `reverie.generator.Compact` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from reverie._settings import Component, Part


@dataclass(frozen=True, kw_only=True)
class Compact(Component):
    """`compact`: as many passages as fit into one call; what does not fit goes into further calls that improve the
    answer.

    The cheapest way and the default: nearly always one call.

    Args:
        model: The name of the chat model.
        prompt: The instructions. Default `grounded`.
        max_tokens: The longest answer, in tokens. Default 256.
        context_tokens: The most tokens of passages that are used for one answer; what is beyond is cut at the end of a
            sentence or left out. Default: all passages, in as many calls as the model's context asks for.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes answers repeatable at a temperature above 0, if the model supports it. Default 0.
        citations: Whether answers cite their sources, as `[1]`. If the model cites none, the source with the most of
            the answer's words is cited, if it has at least 6 of 10. Default true.
    """

    _name: ClassVar[str] = "compact"

    model: str
    prompt: Literal["grounded", "brief"] = "grounded"
    max_tokens: int = 256
    context_tokens: int | None = None
    temperature: float = 0.0
    seed: int = 0
    citations: bool = True


@dataclass(frozen=True, kw_only=True)
class Refine(Component):
    """`refine`: one call per passage; the first answers, each further one may correct the answer or add to it.

    Use it where a small context or a weak model cannot take several passages at once; it costs a call per passage, and
    a weak model may lose a good answer on the way.

    Args:
        model: The name of the chat model.
        prompt: The instructions. Default `grounded`.
        max_tokens: The longest answer, in tokens. Default 256.
        context_tokens: The most tokens of passages that are used for one answer; what is beyond is cut at the end of a
            sentence or left out. Default: all passages, in as many calls as the model's context asks for.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes answers repeatable at a temperature above 0, if the model supports it. Default 0.
        citations: Whether answers cite their sources, as `[1]`. If the model cites none, the source with the most of
            the answer's words is cited, if it has at least 6 of 10. Default true.
    """

    _name: ClassVar[str] = "refine"

    model: str
    prompt: Literal["grounded", "brief"] = "grounded"
    max_tokens: int = 256
    context_tokens: int | None = None
    temperature: float = 0.0
    seed: int = 0
    citations: bool = True


@dataclass(frozen=True, kw_only=True)
class TreeSummarize(Component):
    """`tree_summarize`: groups of passages are answered side by side, the answers are joined by further calls until one
    is left.

    Use it for questions over much text (summaries, lists), where every passage counts alike; for a few passages that
    fit one call it is the same as `compact`.

    Args:
        model: The name of the chat model.
        prompt: The instructions. Default `grounded`.
        max_tokens: The longest answer, in tokens. Default 256.
        context_tokens: The most tokens of passages that are used for one answer; what is beyond is cut at the end of a
            sentence or left out. Default: all passages, in as many calls as the model's context asks for.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes answers repeatable at a temperature above 0, if the model supports it. Default 0.
        citations: Whether answers cite their sources, as `[1]`. If the model cites none, the source with the most of
            the answer's words is cited, if it has at least 6 of 10. Default true.
    """

    _name: ClassVar[str] = "tree_summarize"

    model: str
    prompt: Literal["grounded", "brief"] = "grounded"
    max_tokens: int = 256
    context_tokens: int | None = None
    temperature: float = 0.0
    seed: int = 0
    citations: bool = True


@dataclass(frozen=True, kw_only=True)
class Settings(Part):
    """Settings of every generator.

    Args:
        model: The name of the chat model.
        prompt: The instructions. Default `grounded`.
        max_tokens: The longest answer, in tokens. Default 256.
        context_tokens: The most tokens of passages that are used for one answer; what is beyond is cut at the end of a
            sentence or left out. Default: all passages, in as many calls as the model's context asks for.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes answers repeatable at a temperature above 0, if the model supports it. Default 0.
        citations: Whether answers cite their sources, as `[1]`. If the model cites none, the source with the most of
            the answer's words is cited, if it has at least 6 of 10. Default true.
    """

    model: str
    prompt: Literal["grounded", "brief"] = "grounded"
    max_tokens: int = 256
    context_tokens: int | None = None
    temperature: float = 0.0
    seed: int = 0
    citations: bool = True


@dataclass(frozen=True, kw_only=True)
class Python(Component):
    """`python`: one call to the model, with a prompt that a function of the user's own writes; or the answer that the
    function returns.

    When to use it: where your house has a prompt of its own, with examples, a tone or a form that answers must have.
    The function only writes; the call is made like every other, so that limits, budget and journal hold for it. With
    `answers = true` the function returns the answer itself, for code that answers in a way of its own: by rules, by
    several calls, by another library. The file's path is relative to the experiment file.

    Args:
        file: The file with the function, relative to the experiment file.
        settings: The settings of every generator, except `prompt` and `context_tokens`.
        answers: Whether the function returns the answer itself, so that no model is asked. Then no setting of
            `settings` but `citations` means anything. Default false.
        function: The function. Default `write`.
        interpreter: The program that runs it. Default: the Python that started Reverie, else that of the active virtual
            environment, else `python3`.
        timeout_seconds: How long one call may take, in seconds. Default 300; no part of any key.
        concurrency: How many calls of an `async def` run at once, 1 to 256. Default 16; no part of any key. Other
            functions are called one at a time.
    """

    _name: ClassVar[str] = "python"

    file: str
    settings: Settings | Mapping[str, Any]
    answers: bool
    function: str = "write"
    interpreter: str | None = None
    timeout_seconds: float = 300.0
    concurrency: int | None = None


@dataclass(frozen=True, kw_only=True)
class NoRetrieval(Component):
    """`no_retrieval`: the model answers from what it knows, without any source.

    The baseline that answers "do I need retrieval at all?". It reads no passages, so it is one trial, whatever chunkers
    and retrievers are listed. Metrics that look at passages do not apply to it.

    Args:
        model: The name of the chat model.
        max_tokens: The longest answer, in tokens. Default 256.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes answers repeatable at a temperature above 0, if the model supports it. Default 0.
    """

    _name: ClassVar[str] = "no_retrieval"

    model: str
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Extractive(Component):
    """`extractive`: the answer is the sentences of the passages that share the most words with the question.

    When to use it: as the baseline that a chat model must beat, and where no model may be used. It costs nothing, takes
    no time and makes nothing up, because every sentence is one of a passage, with its citation. It cannot combine
    facts, count or rephrase, and it misses what is said in other words than the question.

    Args:
        sentences: The most sentences of an answer. Default 2.
        citations: Whether a sentence is followed by the number of its passage, such as `[1]`. Default true.
    """

    _name: ClassVar[str] = "extractive"

    sentences: int = 2
    citations: bool = True


@dataclass(frozen=True, kw_only=True)
class Reflection(Component):
    """`reflection`: the answer is graded against its sources, and written again where it says more than they do.

    First it answers as `compact` does. Then the model grades the answer: 2 if the sources hold all that it says, 1 if
    they hold some of it, 0 if none. Below `enough` it writes the answer anew from the same sources, told to leave out
    what they do not say, in at most `rounds` rounds; each new answer is graded, and the best grade wins, of equals the
    earlier one.

    Args:
        model: The name of the chat model, which writes and grades.
        prompt: The instructions. Default `grounded`.
        rounds: How often an answer is written again, 1 to 3. Default 1.
        enough: The least grade of an answer that is not written again, 1 or 2. Default 2.
        max_tokens: The longest answer, in tokens. Default 256.
        context_tokens: The most tokens of passages that are used for one answer. Default: all passages.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes answers repeatable at a temperature above 0, if the model supports it. Default 0.
        citations: Whether answers cite their sources, as `[1]`. Default true.
    """

    _name: ClassVar[str] = "reflection"

    model: str
    prompt: Literal["grounded", "brief"] = "grounded"
    rounds: int = 1
    enough: int = 2
    max_tokens: int = 256
    context_tokens: int | None = None
    temperature: float = 0.0
    seed: int = 0
    citations: bool = True


class Generators:
    """The generators by their names: `reverie.generator` has them."""

    Compact = Compact
    Refine = Refine
    TreeSummarize = TreeSummarize
    Python = Python
    NoRetrieval = NoRetrieval
    Extractive = Extractive
    Reflection = Reflection
