"""Draws the pages of a PDF, and keeps the truth: blocks in the order a person reads them, tables, headings, footnotes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from drawing import DrawnTable, Style
from fonts import FONTS, Line, register_fonts, width_of, wrap
from grids import Table
from words import plain

MARGIN = 56
NOTE_INDENT = 11


@dataclass
class Running:
    """What stands on each page: texts at the left and right of the head and the foot; `{n}` is the page's number."""

    head: tuple[str, str] = ("", "")
    foot: tuple[str, str] = ("", "")
    foot_centre: str = ""
    ruled: bool = False
    mirrored: bool = False


class Layout:
    """A PDF in the making. Text flows through frames (columns) and over pages."""

    def __init__(self, path: Path, *, font: str = "Helvetica", size: float = 10, columns: int = 1, gap: float = 22, running: Running | None = None,
                 rotation: int = 0, landscape: bool = False, outline: bool = False, total: int = 1):  # fmt: skip
        """`total` is the number of pages, for page numbers such as "1 of 3"."""
        register_fonts()
        width, height = A4[::-1] if landscape else A4
        self.rotation, self.media = rotation, (width, height)
        # The size of the page as a person sees it, which is also what reportlab asks for.
        self.width, self.height = (height, width) if rotation in (90, 270) else (width, height)
        self.canvas = Canvas(str(path), pagesize=(self.width, self.height), invariant=True, pageCompression=1)
        self.regular, self.bold, self.italic = FONTS[font]
        self.size, self.leading = size, size * 1.32
        self.columns, self.gap, self.running, self.total, self.outline = columns, gap, running, total, outline
        self.page = 0
        self.blocks: list[str] = []
        self.headings: list[dict] = []
        self.tables: list[dict] = []
        self.footnotes: list[dict] = []
        self.running_truth: list[dict] = []
        self.hyphenated: list[str] = []
        self.fields: dict[str, str] = {}
        self.page_texts: list[list[str]] = []
        self.notes_here: list[tuple[str, list[Line]]] = []
        self.foot_texts: list[str] = []
        self.reserved = 0.0
        self.new_page()

    # Pages and frames.

    def new_page(self) -> None:
        if self.page:
            self.end_page()
        self.page += 1
        self.page_texts.append([])
        width, height = self.media
        if self.rotation:
            self.canvas.setPageRotation(self.rotation)
            if self.rotation == 90:
                self.canvas.translate(width, 0)
            elif self.rotation == 270:
                self.canvas.translate(0, height)
            else:
                self.canvas.translate(width, height)
            self.canvas.rotate({90: 90, 180: 180, 270: -90}[self.rotation])
        self.top, self.bottom = self.height - MARGIN, MARGIN
        self.draw_running()
        self.frame_top = self.top
        self.use_columns(self.columns)

    def use_columns(self, columns: int) -> None:
        """From here down the page has this many frames."""
        self.n_frames = columns
        self.frame_width = (self.width - 2 * MARGIN - (columns - 1) * self.gap) / columns
        self.frame = 0
        self.y = self.frame_top
        self.lowest = self.frame_top

    def start_columns(self, columns: int) -> None:
        self.frame_top = min(self.y, self.lowest) - self.leading * 0.5
        self.columns = columns
        self.use_columns(columns)

    @property
    def x(self) -> float:
        return MARGIN + self.frame * (self.frame_width + self.gap)

    @property
    def floor(self) -> float:
        return self.bottom + self.reserved

    def next_frame(self) -> None:
        self.lowest = min(self.lowest, self.y)
        if self.frame + 1 < self.n_frames:
            self.frame += 1
            self.y = self.frame_top
        else:
            self.new_page()

    def need(self, height: float) -> None:
        """Goes on in the next frame unless the height is left in this one."""
        if self.y - height < self.floor and self.y < self.frame_top:
            self.next_frame()

    def space(self, lines: float = 0.6) -> None:
        if self.y < self.frame_top:
            self.y -= self.leading * lines

    def end_page(self) -> None:
        y = self.bottom + self.reserved - 10
        if self.notes_here:
            self.canvas.setLineWidth(0.4)
            self.canvas.line(MARGIN, y, MARGIN + 110, y)
            y -= 4
        for mark, lines in self.notes_here:
            texts = []
            for i, line in enumerate(lines):
                y -= (self.size - 2) * 1.25
                if i == 0:
                    self.canvas.setFont(self.regular, self.size - 4.5)
                    self.canvas.drawString(MARGIN, y + 2.4, mark)
                self.canvas.setFont(self.regular, self.size - 2)
                self.canvas.drawString(MARGIN + NOTE_INDENT, y, line.text)
                texts.append(line.text)
            self.page_texts[-1].append(f"{mark} " + "\n".join(texts))
        self.page_texts[-1] += self.foot_texts
        self.notes_here, self.reserved = [], 0.0
        self.canvas.showPage()

    def draw_running(self) -> None:
        self.foot_texts = []
        running = self.running
        if running is None:
            return
        numbers = {"n": self.page, "total": self.total}
        size = 8
        self.canvas.setFont(self.regular, size)
        for place, (left, right), y in [("head", running.head, self.height - 34), ("foot", running.foot, 28)]:
            if running.mirrored and self.page % 2 == 0:
                left, right = right, left
            for text, right_aligned in [(left, False), (right, True)]:
                if not text:
                    continue
                text = text.format(**numbers)
                if right_aligned:
                    self.canvas.drawRightString(self.width - MARGIN, y, text)
                else:
                    self.canvas.drawString(MARGIN, y, text)
                self.keep_running(text, place)
            if running.ruled and (left or right):
                self.canvas.setLineWidth(0.4)
                self.canvas.line(MARGIN, y + (-5 if place == "head" else 11), self.width - MARGIN, y + (-5 if place == "head" else 11))
        if running.foot_centre:
            text = running.foot_centre.format(**numbers)
            self.canvas.drawCentredString(self.width / 2, 28, text)
            self.keep_running(text, "foot")

    def keep_running(self, text: str, place: str) -> None:
        self.running_truth.append({"page": self.page, "text": text})
        if place == "head":
            self.page_texts[-1].append(text)
        else:
            self.foot_texts.append(text)

    # Text.

    def keep(self, text: str) -> None:
        """Text on this page, for scans."""
        self.page_texts[-1].append(text)

    def draw_line(self, x: float, y: float, line: Line, font: str, size: float, justify_to: float = 0) -> None:
        if line.marks:
            begin = 0
            for offset, mark in [*line.marks, (len(line.text), "")]:
                piece = line.text[begin:offset]
                self.canvas.setFont(font, size)
                self.canvas.drawString(x, y, piece)
                x += width_of(piece, font, size)
                self.canvas.setFont(font, size * 0.6)
                self.canvas.drawString(x + 0.3, y + size * 0.36, mark)
                x += width_of(mark, font, size * 0.6) + 0.3
                begin = offset
            return
        self.canvas.setFont(font, size)
        words = line.text.split(" ")
        missing = justify_to - width_of(line.text, font, size)
        if not justify_to or line.ends_paragraph or len(words) < 2 or missing > 0.35 * justify_to:
            self.canvas.drawString(x, y, line.text)
            return
        # Each word is placed by itself, as many programs do.
        gap = width_of(" ", font, size) + missing / (len(words) - 1)
        for word in words:
            self.canvas.drawString(x, y, word)
            x += width_of(word, font, size) + gap

    def flow(self, lines: list[Line], font: str, size: float, indent: float = 0, justify: bool = False) -> Iterator[tuple[Line, float]]:
        """Draws the lines one below the other, over frames and pages."""
        leading = size * 1.32
        for line in lines:
            self.need(leading)
            self.y -= leading
            width = self.frame_width - indent
            self.draw_line(self.x + indent, self.y + leading * 0.24, line, font, size, width if justify else 0)
            self.lowest = min(self.lowest, self.y)
            yield line, self.y + leading * 0.24

    def keep_divided(self, text: str, lines: list[Line]) -> None:
        """Notes which words were divided at the end of a line."""
        words, position = plain(text).split(" "), 0
        for line in lines:
            drawn = line.text.split(" ")
            if line.divided:
                self.hyphenated.append(words[position + len(drawn) - 1].strip(".,"))
                # The rest of the word begins the next line.
                position += len(drawn) - 1
            else:
                position += len(drawn)

    def add_heading(self, text: str, level: int = 1) -> None:
        size = {1: self.size + 7, 2: self.size + 3, 3: self.size + 1}[level]
        self.space({1: 1.2, 2: 1.0, 3: 0.7}[level])
        lines = wrap(text, self.bold, size, self.frame_width)
        # A heading does not stand alone at the end of a frame.
        self.need(size * 1.32 * len(lines) + self.leading * 3)
        self.keep(text)
        for _ in self.flow(lines, self.bold, size):
            pass
        self.y -= self.leading * 0.25
        self.blocks.append(text)
        self.headings.append({"level": level, "text": text})
        if level == 1:
            self.canvas.setTitle(text)
        if self.outline:
            key = f"h{len(self.headings)}"
            self.canvas.bookmarkPage(key)
            self.canvas.addOutlineEntry(text, key, level - 1)

    def add_paragraph(self, text: str, *, hyphenate: bool = False, justify: bool = False, notes: list[str] | None = None) -> None:
        """Text that may run over frames and pages. With `notes`, sentences end in footnote marks, and the text stays together."""
        # Marks need some room in their lines.
        lines = wrap(text, self.regular, self.size, self.frame_width - (14 if notes else 0), hyphenate)
        if notes:
            self.reserve_notes(notes, len(lines) * self.leading)
            self.place_marks(text, lines, [note["mark"] for note in self.footnotes[-len(notes) :]])
        else:
            # At least two lines before the page ends.
            self.need(self.leading * min(2, len(lines)))
        self.blocks.append(plain(text))
        self.keep_divided(text, lines)
        for line, _ in self.flow(lines, self.regular, self.size, justify=justify):
            self.keep(" ".join([line.text, *(mark for _, mark in line.marks)]))
        self.space(0.5)

    def reserve_notes(self, notes: list[str], text_height: float) -> None:
        """Keeps room at the foot of the page for notes to a text, which begins on the next page if both do not fit."""
        size, made = self.size - 2, []
        for note in notes:
            mark = str(len(self.footnotes) + 1)
            self.footnotes.append({"mark": mark, "text": note})
            made.append((mark, wrap(note, self.regular, size, self.width - 2 * MARGIN - NOTE_INDENT)))
        height = sum(size * 1.25 * len(lines) for _, lines in made)
        # The first note of a page needs room for the rule above it.
        if self.y - text_height - height - (0 if self.notes_here else 16) < self.floor:
            self.next_frame()
        self.reserved += height + (0 if self.notes_here else 16)
        self.notes_here += made

    @staticmethod
    def place_marks(text: str, lines: list[Line], marks: list[str]) -> None:
        """The marks stand at ends of sentences, as evenly as the sentences allow, the last one at the end."""
        words = plain(text).split()
        ends = [i + 1 for i, word in enumerate(words) if word.endswith(".") and word[-2].isalpha()]
        if not ends or ends[-1] != len(words):
            ends.append(len(words))
        chosen = [ends[(i + 1) * len(ends) // len(marks) - 1] for i in range(len(marks))]
        count = 0
        for line in lines:
            here = line.text.split()
            for end, mark in zip(chosen, marks):
                if count < end <= count + len(here):
                    line.marks.append((len(" ".join(here[: end - count])), mark))
            count += len(here)

    def add_list(self, texts: list[tuple[int, str]], marker: str = "•") -> None:
        """A list. `marker` is a bullet, or one of `1.`, `1)`, `a)`; levels begin at 0."""
        counts = [0] * 6
        for level, text in texts:
            counts[level] += 1
            counts[level + 1 :] = [0] * (5 - level)
            bullet = {"1.": f"{counts[level]}.", "1)": f"{counts[level]})", "a)": f"{'abcdefghijkl'[counts[level] - 1]})"}.get(marker, marker)
            if level and marker in ("1.", "1)"):
                bullet = f"{'abcdefghijkl'[counts[level] - 1]})"
            elif level and marker == "•":
                bullet = "–"
            indent = 16 + 16 * level
            lines = wrap(text, self.regular, self.size, self.frame_width - indent)
            self.need(self.leading * min(2, len(lines)))
            for i, (line, y) in enumerate(self.flow(lines, self.regular, self.size, indent)):
                if i == 0:
                    # reportlab writes a bullet of the fonts that are not embedded as a code that few programs know.
                    self.canvas.setFont("Vera" if bullet == "•" else self.regular, self.size)
                    self.canvas.drawString(self.x + indent - 14, y, bullet)
                self.keep(f"{bullet} {line.text}" if i == 0 else line.text)
            self.blocks.append(plain(text))
            self.y -= self.leading * 0.15
        self.space(0.4)

    # Tables.

    def measure(self, table: Table, style: Style) -> DrawnTable:
        return DrawnTable(table, style, self.regular, self.bold)

    def keep_table(self, table: Table, page: int) -> dict:
        truth = {"page": page, "header_rows": table.header_rows, "cells": [cell.truth() for cell in sorted(table.cells, key=lambda c: (c.row, c.column))]}
        self.tables.append(truth)
        return truth

    def keep_rows(self, table: Table, begin: int, end: int) -> None:
        """The rows as text of this page, for scans."""
        for row in table.rows()[begin:end]:
            self.keep(" ".join(filter(None, row)))

    def add_table(self, table: Table, style: Style, *, repeat_header: bool = True, centred: bool = False, divided: bool = False) -> None:
        """A table in the frame. With `divided` it begins here and goes on over the next pages."""
        drawn = self.measure(table, style)
        if drawn.width > self.frame_width + 0.5:
            raise ValueError(f"the table is {drawn.width:.0f} points wide, the frame {self.frame_width:.0f}")
        self.space(0.4)
        self.need(drawn.height(0, table.header_rows + 2 if divided else None))
        indent = (self.frame_width - drawn.width) / 2 if centred else 0
        truth = self.keep_table(table, self.page)
        parts, begin = [], 0
        while begin < table.n_rows:
            if begin and repeat_header:
                drawn.draw(self.canvas, self.x + indent, self.y, 0, table.header_rows)
                self.keep_rows(table, 0, table.header_rows)
                self.y -= drawn.height(0, table.header_rows)
            end = begin
            while end < table.n_rows and self.y - drawn.height(begin, end + 1) >= self.floor:
                end += 1
            end = self.uncut(table, end)
            if end <= begin:
                raise ValueError("a row is higher than the page")
            drawn.draw(self.canvas, self.x + indent, self.y, begin, end)
            self.keep_rows(table, begin, end)
            self.y -= drawn.height(begin, end)
            self.lowest = min(self.lowest, self.y)
            parts.append({"page": self.page, "rows": [begin, end]})
            begin = end
            if begin < table.n_rows:
                self.next_frame()
        if len(parts) > 1:
            truth["parts"] = parts
            truth["header_repeated"] = repeat_header
        self.space(0.8)

    @staticmethod
    def uncut(table: Table, end: int) -> int:
        """The last row before `end` after which no merged cell is cut."""
        while any(cell.row < end < cell.row + cell.rows for cell in table.cells):
            end -= 1
        return end

    def add_tables_beside(self, pairs: list[tuple[str, Table]], style: Style, gap: float = 26) -> None:
        """Tables side by side, each below its caption."""
        measured = [self.measure(table, style) for _, table in pairs]
        width = sum(one.width for one in measured) + gap * (len(pairs) - 1)
        if width > self.frame_width + 0.5:
            raise ValueError(f"the tables are {width:.0f} points wide, the frame {self.frame_width:.0f}")
        self.space(0.4)
        caption_height = self.leading * 1.2
        self.need(caption_height + max(one.height() for one in measured))
        x, rows_by_table = self.x, []
        for (caption, table), one in zip(pairs, measured):
            if caption:
                self.canvas.setFont(self.italic, style.size)
                self.canvas.drawString(x, self.y - style.size, caption)
                self.blocks.append(caption)
                self.keep(caption)
            one.draw(self.canvas, x, self.y - caption_height)
            self.keep_table(table, self.page)
            rows_by_table.append(table.rows())
            x += one.width + gap
        for rows in rows_by_table:
            for row in rows:
                self.keep(" ".join(filter(None, row)))
        self.y -= caption_height + max(one.height() for one in measured)
        self.lowest = min(self.lowest, self.y)
        self.space(0.8)

    def add_turned_table(self, table: Table, style: Style, degrees: int) -> None:
        """A table turned by 90 (text runs upwards) or 270 degrees (downwards) on an upright page."""
        drawn = self.measure(table, style)
        height, width = drawn.width, drawn.height()
        if width > self.frame_width or self.y - height < self.floor:
            raise ValueError(f"the turned table of {width:.0f} × {height:.0f} points is too large")
        self.canvas.saveState()
        left = self.x + (self.frame_width - width) / 2
        if degrees == 90:
            self.canvas.translate(left, self.y - height)
        else:
            self.canvas.translate(left + width, self.y)
        self.canvas.rotate(degrees)
        drawn.draw(self.canvas, 0, 0)
        self.canvas.restoreState()
        self.keep_table(table, self.page)
        self.keep_rows(table, 0, table.n_rows)
        self.y -= height
        self.space(1)

    def add_caption(self, text: str) -> None:
        self.need(self.leading * 4)
        self.blocks.append(text)
        self.keep(text)
        lines = wrap(text, self.italic, self.size - 1, self.frame_width)
        for _ in self.flow(lines, self.italic, self.size - 1):
            pass

    def finish(self) -> dict:
        self.end_page()
        self.canvas.save()
        return {
            "pages": self.page,
            "reading_order": self.blocks,
            "running": self.running_truth,
            "tables": self.tables,
            "footnotes": self.footnotes,
            "headings": self.headings,
            "hyphenated": self.hyphenated,
            "page_texts": ["\n".join(texts) for texts in self.page_texts],
        }
