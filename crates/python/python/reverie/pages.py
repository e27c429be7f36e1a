"""Pages of documents as a person sees them, with the places of texts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from reverie import _core


@dataclass(frozen=True)
class PageView:
    """A page as a picture in which texts are marked. A notebook shows the picture.

    Attributes:
        page: Its number, from 1.
        png: The picture as a PNG file.
        width, height: The size of the picture in pixels.
        boxes: For each text the boxes of its lines: left, top, right and bottom as parts of the width and height, from 0 to
            1, from the upper left corner. Empty for a text that is not on the page.
        lines: What the parser `ocr` reads on a page without letters, from top to bottom: the text of each line, how sure
            the network is of it, from 0 to 1, and its box. Empty for a page with letters, and without the networks.
    """

    page: int
    png: bytes = field(repr=False)
    width: int
    height: int
    boxes: list[list[tuple[float, float, float, float]]]
    lines: list[tuple[str, float, tuple[float, float, float, float]]] = field(repr=False)

    def _repr_png_(self) -> bytes:
        return self.png


def view_page(
    file: str | os.PathLike[str], page: int = 1, texts: str | Iterable[str] = (), *, dots_per_inch: int = 110
) -> PageView:
    """Draws a page of a PDF, or a picture, and marks texts on it.

        passage = pipeline.ask("What does a barn owl weigh?").passages[0]
        reverie.view_page(f"docs/{passage.document}", passage.page, passage.text)

    A text is found by its letters and digits, so it is found whichever parser read it. A page without letters, such as a
    scan, is read as the parser `ocr` reads it, if its networks are here.

    Args:
        file: A PDF, or a PNG, JPEG, TIFF or WebP file.
        page: The number of the page, from 1.
        texts: What is marked: a text, or several.
        dots_per_inch: How finely a page of a PDF is drawn.

    Raises:
        ValueError: If there is no such file or page, it is damaged or needs a password, or its format has no pages that can
            be drawn.
    """
    wanted = [texts] if isinstance(texts, str) else list(texts)
    return PageView(*_core.view_page(os.fspath(file), page, wanted, dots_per_inch))
