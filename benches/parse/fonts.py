"""Fonts and lines: how wide a text is, and where it is broken."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import reportlab
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont

from words import SOFT_HYPHEN, plain

# Regular, bold, italic. The first two are not embedded, the third is embedded as a subset.
FONTS = {
    "Helvetica": ("Helvetica", "Helvetica-Bold", "Helvetica-Oblique"),
    "Times": ("Times-Roman", "Times-Bold", "Times-Italic"),
    "Vera": ("Vera", "VeraBd", "VeraIt"),
}


def register_fonts() -> None:
    folder = Path(reportlab.__file__).parent / "fonts"
    for name in FONTS["Vera"]:
        if name not in pdfmetrics.getRegisteredFontNames():
            pdfmetrics.registerFont(TTFont(name, str(folder / f"{name}.ttf")))


def width_of(text: str, font: str, size: float) -> float:
    return pdfmetrics.stringWidth(text, font, size)


@dataclass
class Line:
    text: str
    ends_paragraph: bool = False
    divided: bool = False
    # Footnote marks, each with the number of characters before it.
    marks: list[tuple[int, str]] = field(default_factory=list)


def wrap(text: str, font: str, size: float, width: float, hyphenate: bool = False) -> list[Line]:
    """Lines that fit into the width. Words are divided only at soft hyphens, never at their own hyphens."""
    lines, current = [], ""
    words = text.split(" ")
    i = 0
    while i < len(words):
        word = words[i]
        longer = f"{current} {plain(word)}".strip()
        if width_of(longer, font, size) <= width:
            current, i = longer, i + 1
            continue
        parts = word.split(SOFT_HYPHEN) if hyphenate else [plain(word)]
        for cut in range(len(parts) - 1, 0, -1):
            start = "".join(parts[:cut])
            candidate = f"{current} {start}-".strip()
            rest = "".join(parts[cut:])
            if min(len(start), len(rest)) > 1 and width_of(candidate, font, size) <= width:
                lines.append(Line(candidate, divided=True))
                current, words[i] = "", SOFT_HYPHEN.join(parts[cut:])
                break
        else:
            if current:
                lines.append(Line(current))
                current = ""
            else:
                # A word wider than the line stands alone.
                current, i = plain(word), i + 1
    lines.append(Line(current, ends_paragraph=True))
    return lines
