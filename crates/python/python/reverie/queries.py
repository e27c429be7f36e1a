"""The queries with their settings: `reverie.query.Filter` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from reverie._settings import Component


@dataclass(frozen=True, kw_only=True)
class None_(Component):
    """`none`: the question is searched as it was asked.

    The baseline that every other way must beat to be worth its calls.
    """

    _name: ClassVar[str] = "none"


@dataclass(frozen=True, kw_only=True)
class Filter(Component):
    """`filter`: the question is searched as it was asked, but only in chunks whose fields meet a condition.

    ```toml query = ["none", { filter = { where = { language = "en", year = { ge = 2020 } } } }] ```

    Args:
        where: The conditions by field; all must hold. A condition is a value, a list of values, or tests: `gt`, `ge`,
            `lt`, `le`, `ne`, `glob`.
    """

    _name: ClassVar[str] = "filter"

    where: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class SelfQuery(Component):
    """`self_query`: a chat model reads from the question which documents it means, and only these are searched.

    ```toml [space.query.self_query] model = "small" fields = { year = "number", language = ["en", "de"], author =
    "text" } ```

    Args:
        model: The name of the chat model.
        fields: The fields that a filter may use, each with its type (`"text"`, `"number"`, `"boolean"`) or with the
            list of its texts.
        max_tokens: The longest reply, in tokens. Default 128.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes replies repeatable at a temperature above 0, if the model supports it. Default 0.
    """

    _name: ClassVar[str] = "self_query"

    model: str
    fields: Mapping[str, Any] | None = None
    max_tokens: int = 128
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class MultiQuery(Component):
    """`multi_query`: a chat model writes the question in other words, all are searched beside it, and what they find is
    joined by reciprocal rank fusion.

    It pays where people and documents use different words, and where one search finds too little. It does not pay where
    the question already names what the documents name: other wordings then push good hits down, and each question costs
    one more call and more searches. It asks the model once.

    Args:
        model: The name of the chat model.
        n: How many other wordings to ask for. Default 3.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes wordings repeatable at a temperature above 0, if the model supports it. Default 0.
        max_tokens: The longest reply, in tokens; a longer one is not used. Default 256.
    """

    _name: ClassVar[str] = "multi_query"

    model: str
    n: int = 3
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 256


@dataclass(frozen=True, kw_only=True)
class Hyde(Component):
    """`hyde`: a chat model writes passages that would answer the question, and the mean of their vectors and the
    question's is compared with the chunks.

    It pays with an embedder that was not trained on questions and their passages, and for short questions, because a
    passage looks more like what is to be found than a question does. It does not pay with an embedder that was trained
    for search, where the model knows nothing of the field (its passages then lead astray), or with `bm25` alone, which
    compares no vectors: the words that are searched are the question's. It asks the model `n` times for each question;
    `n = 1` is the cheap variant, and often nearly as good. Passages that fail are reported, and the others used.

    Args:
        model: The name of the chat model.
        n: How many passages to write, each with a call. Default 8.
        temperature: How much passages differ; more than 0 if there are several. Default 0.7.
        seed: The seed of the first passage; each further one has the next. Makes passages repeatable where the model
            offers it. Default 0.
        max_tokens: The longest passage, in tokens; a longer one is not used. Default 512.
    """

    _name: ClassVar[str] = "hyde"

    model: str
    n: int = 8
    temperature: float = 0.7
    seed: int = 0
    max_tokens: int = 512


@dataclass(frozen=True, kw_only=True)
class Query2doc(Component):
    """`query2doc`: a chat model writes one passage that would answer the question; the search by words gets the
    question several times and the passage, the search by vectors gets both as one text.

    It pays most with `bm25` and `hybrid`: the passage brings words that the documents use and the question lacks, and
    the repeated question keeps its own words ahead. It does not pay where the model knows nothing of the field, or
    where the question holds the one word that decides, such as an error code. It asks the model once. `hyde` is a
    variant that leaves the words alone.

    Args:
        model: The name of the chat model.
        repeats: How often the question is repeated before the passage when words are searched. With more, the passage's
            words count less. Default 5.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes a passage repeatable at a temperature above 0, if the model supports it. Default 0.
        max_tokens: The longest passage, in tokens; a longer one is not used. Default 256.
    """

    _name: ClassVar[str] = "query2doc"

    model: str
    repeats: int = 5
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 256


@dataclass(frozen=True, kw_only=True)
class StepBack(Component):
    """`step_back`: a chat model writes a more general question, both are searched, and what they find is joined by
    reciprocal rank fusion.

    It pays where an answer needs the rule behind a case: "May I return a damaged kettle after 20 days?" also needs the
    conditions of returns. It does not pay for questions of plain fact, where half of what is found is then about the
    field in general. It asks the model once.

    Args:
        model: The name of the chat model.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes a question repeatable at a temperature above 0, if the model supports it. Default 0.
        max_tokens: The longest reply, in tokens; a longer one is not used. Default 128.
    """

    _name: ClassVar[str] = "step_back"

    model: str
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 128


@dataclass(frozen=True, kw_only=True)
class Decompose(Component):
    """`decompose`: a chat model takes the question apart, each part is searched beside the whole, and what they find is
    joined by reciprocal rank fusion.

    It pays for questions that compare or that need facts of several places: "Which of the two mills is older?" becomes
    one question for each mill. It does not pay for questions of one fact; the model is asked to leave those as they
    are, which costs the call all the same. Parts that need each other's answers stay unanswered: no search uses the
    result of another. It asks the model once.

    Args:
        model: The name of the chat model.
        most: The most parts of a question. Default 4.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes parts repeatable at a temperature above 0, if the model supports it. Default 0.
        max_tokens: The longest reply, in tokens; a longer one is not used. Default 256.
    """

    _name: ClassVar[str] = "decompose"

    model: str
    most: int = 4
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 256


@dataclass(frozen=True, kw_only=True)
class Condense(Component):
    """`condense`: in a conversation, a chat model writes the last turn as a question that can be understood by itself,
    and that is searched.

    It pays in every chat: "And how much is it?" finds nothing by itself. A question without history is searched as it
    was asked, without a call, so it makes no difference to golden questions that stand alone. Where there is history it
    asks the model once. `join` does the same without a model. Later stages get the new question too.

    Args:
        model: The name of the chat model.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes a question repeatable at a temperature above 0, if the model supports it. Default 0.
        max_tokens: The longest reply, in tokens; a longer one is not used. Default 128.
    """

    _name: ClassVar[str] = "condense"

    model: str
    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 128


@dataclass(frozen=True, kw_only=True)
class Join(Component):
    """`join`: in a conversation, what the user said before stands before the question in the search.

    It is free, and enough where people stay with their subject: "And how much is it?" is searched together with "Is the
    mill for sale?". Where they change it, the old subject is searched as well; `condense` then finds more, for a call.
    A question without history is searched as it was asked, so it makes no difference to golden questions that stand
    alone.

    Args:
        turns: How many earlier turns of the user stand before the question, the latest ones. Default 3.
    """

    _name: ClassVar[str] = "join"

    turns: int = 3


class Queries:
    """The queries by their names: `reverie.query` has them."""

    None_ = None_
    Filter = Filter
    SelfQuery = SelfQuery
    MultiQuery = MultiQuery
    Hyde = Hyde
    Query2doc = Query2doc
    StepBack = StepBack
    Decompose = Decompose
    Condense = Condense
    Join = Join


query = Queries()
