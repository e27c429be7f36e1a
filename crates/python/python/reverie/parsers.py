"""The parsers with their settings: `reverie.parser.Text` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from reverie._settings import Component


@dataclass(frozen=True, kw_only=True)
class Text(Component):
    """`text`: the text of each format as Reverie reads it: headings, lists and tables where the format has them, and
    the lines of a PDF in their order.

    The default. Fast, and needs no model and no other program. Tables of PDFs are lines of text, and scanned pages have
    none.
    """

    _name: ClassVar[str] = "text"


@dataclass(frozen=True, kw_only=True)
class Layout(Component):
    """`layout`: PDFs by the places of their letters: columns one after another, tables with their rows and columns,
    headings, lists, listings and footnotes, without running headers and page numbers. Other files as `text` reads them.

    When to use it: for PDFs with tables or columns. It takes about twice the time of `text`, and no model. Scanned
    pages have no letters, so it reads nothing on them.
    """

    _name: ClassVar[str] = "layout"


@dataclass(frozen=True, kw_only=True)
class Ocr(Component):
    """`ocr`: reads pictures of text: scanned pages, photographs of documents, screenshots.

    When to use it: for scanned PDFs, and for PNG, JPEG, TIFF and WebP files. Pages with letters are read as `layout`
    reads them; only those without are drawn and recognized, about one in a second on two cores.

    Args:
        dots_per_inch: How finely a page of a PDF is drawn before it is read, in dots per inch, 72 to 600. Default 200.
        all_pages: Whether pages that have letters are read as pictures too: for PDFs whose letters are wrong. Default
            false.
    """

    _name: ClassVar[str] = "ocr"

    dots_per_inch: int = 200
    all_pages: bool = False


@dataclass(frozen=True, kw_only=True)
class Command(Component):
    """`command`: a program of this machine reads the file and writes Markdown.

    When to use it: for a parser that you have, such as Docling, MinerU, Marker or Unstructured, to see on the
    leaderboard whether it finds more than the others, and what it costs in time.

    Args:
        program: The program: a name that is found on `PATH`, or a path from the working folder.
        args: Its arguments; `{file}` stands for the path of the file. Default `["{file}"]`.
        version: The version of the program, in your words: documents are made anew if it changes. Default none.
        timeout_seconds: How long it may take for one file, in seconds. Default 300; no part of any key.
        memory_mb: The most memory of each of its processes, in MB; 0 for no limit. Default 0; no part of any key.
            Programs that reserve much more memory than they use, such as those with CUDA, need no limit.
    """

    _name: ClassVar[str] = "command"

    program: str = ""
    args: Sequence[str] = ("{file}",)
    version: str = ""
    timeout_seconds: float = 300.0
    memory_mb: int = 0


@dataclass(frozen=True, kw_only=True)
class Python(Component):
    """`python`: a function of the user's own reads the file.

    When to use it: for a parser that is a Python package, which is loaded once and kept, or for files that only you can
    read. The file's path is relative to the experiment file.

    Args:
        file: The file with the function, relative to the experiment file.
        function: The function. Default `parse`.
        interpreter: The program that runs it. Default: the Python that started Reverie, else that of the active virtual
            environment, else `python3`.
        timeout_seconds: How long one call may take, in seconds. Default 300; no part of any key.
        concurrency: How many calls of an `async def` run at once, 1 to 256. Default 16; no part of any key. Other
            functions are called one at a time.
    """

    _name: ClassVar[str] = "python"

    file: str
    function: str = "parse"
    interpreter: str | None = None
    timeout_seconds: float = 300.0
    concurrency: int | None = None


class Parsers:
    """The parsers by their names: `reverie.parser` has them."""

    Text = Text
    Layout = Layout
    Ocr = Ocr
    Command = Command
    Python = Python
