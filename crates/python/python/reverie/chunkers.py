"""The chunkers with their settings: `reverie.chunker.Sentence` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from reverie._settings import Component


@dataclass(frozen=True, kw_only=True)
class Sentence(Component):
    """`sentence`: chunks of whole sentences that overlap.

    The usual first choice: chunks of an even size that seldom cut a sentence. Gives the same chunks as LlamaIndex's
    `SentenceSplitter` for an English document without metadata (metadata is not counted as part of a chunk here).
    Sentences in other languages are found by the rules of the language, and no grapheme cluster is cut.

    Args:
        chunk_size: The size of a chunk, in tokens of `cl100k_base`. Default 1024.
        chunk_overlap: The most that a chunk repeats of the one before, in tokens; whole sentences only. Default: a
            fifth of `chunk_size`, at most 200.
        paragraph_separator: What separates paragraphs; text is cut there before it is cut into sentences. Default three
            line ends.
        separator: What separates words; a sentence that is too long is cut there. Default one space.
        language: The language whose rules find sentences, by its English name in small letters, such as `german`.
            Default `auto`: the language of each document, if it is recognised, else English.
    """

    _name: ClassVar[str] = "sentence"

    chunk_size: int = 1024
    chunk_overlap: int | None = None
    paragraph_separator: str = "\n\n\n"
    separator: str = " "
    language: str = "auto"


@dataclass(frozen=True, kw_only=True)
class SentenceWindow(Component):
    """`sentence_window`: each sentence is searched, its neighbourhood is read.

    A single sentence matches a question sharply but says too little to answer from, so a hit is replaced by its window
    of sentences. For texts of flowing prose. Sentences are not limited in size: an embedder may cut a long one.

    Args:
        window_size: How many sentences before and after the one found. Default 3, so at most seven in all.
        language: The language whose rules find sentences, by its English name in small letters, such as `german`.
            Default `auto`: the language of each document, if it is recognised, else English.
    """

    _name: ClassVar[str] = "sentence_window"

    window_size: int = 3
    language: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Hierarchical(Component):
    """`hierarchical`: small chunks are searched, and merged into the larger ones that they are part of when enough of
    them are found.

    For long texts where an answer may need a sentence or a whole section: the small chunks that are found decide which.
    Every level is cut like `sentence`; only the smallest chunks are searchable.

    Args:
        chunk_sizes: The size of a chunk at each level, largest first, in tokens of `cl100k_base`. Default 2048, 512,
            128.
        chunk_overlap: The most that a chunk repeats of the one before, at every level, in tokens; whole sentences only.
            Default: a fifth of the smallest size, at most 20.
        merge_threshold: A parent replaces its children if more than this share of them was found. From 0 to 1. Default
            0.5.
        language: The language whose rules find sentences, by its English name in small letters, such as `german`.
            Default `auto`: the language of each document, if it is recognised, else English.
    """

    _name: ClassVar[str] = "hierarchical"

    chunk_sizes: Sequence[int] = (2048, 512, 128)
    chunk_overlap: int | None = None
    merge_threshold: float = 0.5
    language: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Token(Component):
    """`token`: chunks of about the same number of tokens, cut between words.

    Pays no heed to sentences, so chunks are fuller than those of `sentence`; for text without sentences (tables, logs,
    lists of names).

    Args:
        chunk_size: The size of a chunk, in tokens of `cl100k_base`. Default 1024.
        chunk_overlap: The most that a chunk repeats of the one before, in tokens. Default: a fifth of `chunk_size`, at
            most 20.
        separator: What separates words: text is cut there, else at line ends, else between characters. Default one
            space.
    """

    _name: ClassVar[str] = "token"

    chunk_size: int = 1024
    chunk_overlap: int | None = None
    separator: str = " "


@dataclass(frozen=True, kw_only=True)
class Recursive(Component):
    """`recursive`: paragraphs first, then lines, sentences, words and characters.

    What is too large is cut at the coarsest separator that it has, and only its own pieces are joined again: a chunk
    never mixes the end of a long paragraph with the next one. For text whose structure is in its blank lines.

    Args:
        chunk_size: The size of a chunk, in tokens of `cl100k_base`. Default 512.
        chunk_overlap: The most that a chunk repeats of the one before, in tokens. Default: a fifth of `chunk_size`, at
            most 50.
        separators: Where to cut, coarse first; an empty string cuts between grapheme clusters and must come last.
            Default blank line, line end, the ends of sentences of several scripts (`. `, `。`, `！`, `？`, `؟`, `۔`, `।`),
            space, Chinese and Japanese commas, empty.
    """

    _name: ClassVar[str] = "recursive"

    chunk_size: int = 512
    chunk_overlap: int | None = None
    separators: Sequence[str] = ("\n\n", "\n", ". ", "。", "！", "？", "؟", "۔", "।", " ", "，", "、", "")


@dataclass(frozen=True, kw_only=True)
class Markdown(Component):
    """`markdown`: chunks follow the headings.

    One section is one chunk; a section that is too large is cut between sentences, but never inside a table or fenced
    code unless that alone is too large; small sections under one heading share a chunk. For manuals and other texts
    with headings (Markdown, HTML, EPUB and DOCX keep them); a PDF or a plain text is one section, cut like `sentence`.

    Args:
        chunk_size: The size of a chunk, in tokens of `cl100k_base`. Default 512.
        chunk_overlap: The most that a chunk repeats of the one before within a section that is too large, in tokens.
            Default: a fifth of `chunk_size`, at most 50.
        merge_sections: Whether small sections under one heading share a chunk. Default true.
        language: The language whose rules find sentences, by its English name in small letters, such as `german`.
            Default `auto`: the language of each document, if it is recognised, else English.
    """

    _name: ClassVar[str] = "markdown"

    chunk_size: int = 512
    chunk_overlap: int | None = None
    merge_sections: bool = True
    language: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Table(Component):
    """`table`: tables are cut between their rows, and the rest of a document between sentences.

    A row is never cut from its neighbours in the middle, and never read without the header rows of its table: a passage
    of rows begins with them. For spreadsheets, price lists, reports and forms; with `rows = 1` each row is a passage,
    which suits questions about one thing in a long list. Searches see the header rows only with `enrich = "heading"`. A
    document without tables is cut as by `sentence`. Text that is no table is never mixed with rows.

    Args:
        chunk_size: The size of a chunk, in tokens of `cl100k_base`, the repeated header rows included. Default 512.
        chunk_overlap: The most that a chunk of prose repeats of the one before, in tokens. Rows are not repeated.
            Default: a fifth of `chunk_size`, at most 50.
        rows: The most rows of a chunk, without the header rows; 0 for as many as fit. Default 0.
        language: The language whose rules find sentences, by its English name in small letters, such as `german`.
            Default `auto`: the language of each document, if it is recognised, else English.
    """

    _name: ClassVar[str] = "table"

    chunk_size: int = 512
    chunk_overlap: int | None = None
    rows: int = 0
    language: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Semantic(Component):
    """`semantic`: chunks end where the meaning of the text changes.

    Each sentence is embedded together with its neighbours, by the trial's embedder; a chunk ends where two sentences
    that follow each other are farther apart than most of the document are. It can pay for long documents that change
    their subject without headings, such as transcripts. It seldom pays elsewhere: in a comparison over retrieval,
    evidence and answers, chunks of a fixed size did as well (Qu, Tu and Bao, Is Semantic Chunking Worth the
    Computational Cost?, 2024, arXiv 2410.13070), while this embeds each sentence `2 · buffer_size + 1` times over,
    before the chunks themselves are embedded. The threshold is relative to the document, so a text of one subject is
    cut as often as one of many.

    Args:
        buffer_size: How many sentences before and after a sentence are embedded with it. Default 1.
        breakpoint_percentile: A chunk ends where the distance of two sentences is larger than this percentile of all
            distances of the document, from 0 to 100: 95 (the default) cuts one border of sentences in twenty.
        least_size: A chunk of fewer tokens of `cl100k_base` is joined with the next one, if both fit into `most_size`.
            Default 32.
        most_size: A chunk of more tokens is cut. Default 1024.
        language: The language whose rules find sentences, by its English name in small letters, such as `german`.
            Default `auto`: the language of each document, if it is recognised, else English.
    """

    _name: ClassVar[str] = "semantic"

    buffer_size: int = 1
    breakpoint_percentile: float = 95.0
    least_size: int = 32
    most_size: int = 1024
    language: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Python(Component):
    """`python`: a function of the user's own cuts the document into chunks.

    When to use it: where the documents have a shape that only you know: a ticket per paragraph, a question with its
    answer, a clause of a contract. The file's path is relative to the experiment file.

    Args:
        file: The file with the function, relative to the experiment file.
        function: The function. Default `chunk`.
        interpreter: The program that runs it. Default: the Python that started Reverie, else that of the active virtual
            environment, else `python3`.
        timeout_seconds: How long one call may take, in seconds. Default 300; no part of any key.
        concurrency: How many calls of an `async def` run at once, 1 to 256. Default 16; no part of any key. Other
            functions are called one at a time.
    """

    _name: ClassVar[str] = "python"

    file: str
    function: str = "chunk"
    interpreter: str | None = None
    timeout_seconds: float = 300.0
    concurrency: int | None = None


@dataclass(frozen=True, kw_only=True)
class None_(Component):
    """`none`: documents are not cut, because the retriever searches an index of your own.

    It is what a trial gets whose retriever searches an existing index, such as `pgvector`, and need not be listed.
    Other retrievers find nothing with it, and are refused. The texts of documents are kept, to look up the places of
    passages.
    """

    _name: ClassVar[str] = "none"


class Chunkers:
    """The chunkers by their names: `reverie.chunker` has them."""

    Sentence = Sentence
    SentenceWindow = SentenceWindow
    Hierarchical = Hierarchical
    Token = Token
    Recursive = Recursive
    Markdown = Markdown
    Table = Table
    Semantic = Semantic
    Python = Python
    None_ = None_
