"""The enrichers with their settings: `reverie.enrich.Heading` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reverie._settings import Component


@dataclass(frozen=True, kw_only=True)
class None_(Component):
    """`none`: chunks are searched as they are.

    The baseline that every other way must beat to be worth its calls.
    """

    _name: ClassVar[str] = "none"


@dataclass(frozen=True, kw_only=True)
class Heading(Component):
    """`heading`: the document's title, the headings above a chunk and the header rows of its table stand before its
    text.

    Free, and worth a try wherever documents have titles and headings: a chunk that says "it takes two arguments" is
    found by the name of what takes them. It changes nothing where a document states neither; and where headings are
    long and chunks short, it makes chunks of one section look alike.

    Args:
        title: Whether the document's title stands there as well. Default true.
        table_header: Whether the header rows stand there as well, if the chunk begins in a table behind them. Default
            true.
    """

    _name: ClassVar[str] = "heading"

    title: bool = True
    table_header: bool = True


@dataclass(frozen=True, kw_only=True)
class Contextual(Component):
    """`contextual`: a chat model reads the document and writes for each chunk one or two sentences that say where it
    stands; they are searched with its text.

    It pays where chunks speak of "the company" or "this option" and the names stand elsewhere; at Anthropic, right
    chunks were missing from 20 hits a third less often with vectors, and half as often if words are searched as well.
    It does not pay where chunks carry their names, and it is the most expensive enricher: one call for each chunk. The
    document stands first in the prompt, so that providers cache it, and a local model computes it once for all of its
    chunks.

    Args:
        model: The name of the chat model.
        window_tokens: The most tokens of the document that the model is shown, at most what fits into its context. A
            longer document is shown in parts, each with the document's title and headings. Default 6000.
        max_tokens: The longest text that the model writes for a chunk, in tokens. Default 100.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes contexts repeatable at a temperature above 0, if the model supports it. Default 0.
    """

    _name: ClassVar[str] = "contextual"

    model: str
    window_tokens: int = 6000
    max_tokens: int = 100
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Questions(Component):
    """`questions`: a chat model writes the questions that a chunk answers; they are searched with its text.

    It pays where people ask in other words than the documents use, most of all for search by words. It adds little
    where vectors bridge the words anyway, and costs a call for each chunk, though a shorter one than `contextual`: the
    model sees the chunk alone.

    Args:
        model: The name of the chat model.
        n: Questions for each chunk. Default 3.
        temperature: 0 (the default) always takes the likeliest word.
        seed: Makes questions repeatable at a temperature above 0, if the model supports it. Default 0.
    """

    _name: ClassVar[str] = "questions"

    model: str
    n: int = 3
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class LateChunking(Component):
    """`late_chunking`: a chunk's vector is made of the vectors that its tokens have in the whole document, so that it
    knows what stands around the chunk.

    The whole document is embedded first and cut afterwards: a chunk's vector is the mean of its tokens' vectors, of
    length 1 like all others. So a chunk that says "the city" is found by the name that stands a page before it. Only
    vectors change: words are searched as they are, the token vectors of `late_interaction` are those of the chunk
    alone, and what is shown and cited stays the chunk's own text.

    Args:
        overlap: How many tokens two windows of a long document share, at most half of the embedder's window. Default
            256.
        least_window: The least tokens that the embedder must read at a time; an embedder with a shorter window is
            refused. Default 1024.
    """

    _name: ClassVar[str] = "late_chunking"

    overlap: int = 256
    least_window: int = 1024


class Enrichers:
    """The enrichers by their names: `reverie.enrich` has them."""

    None_ = None_
    Heading = Heading
    Contextual = Contextual
    Questions = Questions
    LateChunking = LateChunking


enrich = Enrichers()
