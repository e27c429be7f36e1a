"""Draws tables: measures the columns and rows, places the texts, and draws the rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from reportlab.pdfgen.canvas import Canvas

from fonts import Line, width_of, wrap
from grids import NUMERIC, Cell, Table

# Heights of lines and of the space above and below, in sizes of the font and in paddings.
LEADING, VERTICAL_PADDING, ASCENT = 1.25, 0.6, 0.97


@dataclass
class Style:
    """How a table looks."""

    # grid, horizontal, booktabs, none, frame (outer lines and one below the header), zebra
    rules: str = "grid"
    # left, right, centre or decimal for each column; numbers right and texts left if empty
    align: list[str] = field(default_factory=list)
    padding: float = 5
    size: float = 9
    # The widest a column may become before its texts are wrapped.
    wrap_at: float = 150
    # Stretches the columns to this width.
    width: float = 0
    bold_header: bool = True
    shaded_header: bool = False
    # The header's texts run upwards, except for that of the first column.
    vertical_header: bool = False
    # The texts of cells over several rows stand at the top, or in the middle.
    span_valign: str = "middle"
    hyphenate: bool = False
    line_width: float = 0.6


def split_decimal(text: str) -> tuple[str, str]:
    """A number before its decimal mark, and from the mark on."""
    position = max(text.rfind("."), text.rfind(","))
    if position < 0 or (len(text) - position == 4 and text.count(text[position]) > 1):
        return text, ""
    return text[:position], text[position:]


class DrawnTable:
    """A table whose widths, heights and lines are known, and which can be drawn in pieces."""

    def __init__(self, table: Table, style: Style, regular: str, bold: str):
        self.table, self.style, self.regular, self.bold = table, style, regular, bold
        self.decimals = {column: self.widest_parts(column) for column in range(table.n_columns) if self.align(column) == "decimal"}
        self.widths = self.measure_widths()
        self.lines: list[list[Line]] = []
        self.heights = self.measure_heights()

    @property
    def width(self) -> float:
        return sum(self.widths)

    def height(self, begin: int = 0, end: int | None = None) -> float:
        return sum(self.heights[begin:end])

    def is_header(self, cell: Cell) -> bool:
        return cell.row < self.table.header_rows

    def is_vertical(self, cell: Cell) -> bool:
        return self.style.vertical_header and self.is_header(cell) and cell.column > 0

    def font(self, cell: Cell) -> str:
        return self.bold if self.style.bold_header and self.is_header(cell) else self.regular

    def breakable(self, cell: Cell) -> str:
        return cell.breakable if self.style.hyphenate and cell.breakable else cell.text

    def align(self, column: int) -> str:
        if self.style.align:
            return self.style.align[column % len(self.style.align)]
        return "right" if self.table.kinds[column] in NUMERIC else "left"

    def widest_parts(self, column: int) -> tuple[float, float]:
        """The widest part before the decimal mark, and the widest from it on, in the body of a column."""
        body = [cell for cell in self.table.cells if cell.column == column and not self.is_header(cell)]
        parts = [[width_of(part, self.regular, self.style.size) for part in split_decimal(cell.text)] for cell in body]
        return max(before for before, _ in parts), max(after for _, after in parts)

    def measure_widths(self) -> list[float]:
        size, padding = self.style.size, self.style.padding
        widths = [0.0] * self.table.n_columns
        for cell in self.table.cells:
            if cell.columns > 1:
                continue
            font = self.font(cell)
            if self.is_vertical(cell):
                width = size * 1.2
            else:
                # No column is narrower than its longest word.
                longest = max((width_of(word, font, size) for word in cell.text.split()), default=0)
                width = max(longest, min(self.style.wrap_at, width_of(cell.text, font, size)))
            widths[cell.column] = max(widths[cell.column], width + 2 * padding + 0.1)
        for column, parts in self.decimals.items():
            widths[column] = max(widths[column], sum(parts) + 2 * padding)
        for cell in self.table.cells:
            if cell.columns > 1:
                covered = range(cell.column, cell.column + cell.columns)
                missing = width_of(cell.text, self.font(cell), size) + 2 * padding - sum(widths[i] for i in covered)
                for i in covered:
                    widths[i] += max(0.0, missing) / cell.columns
        stretch = max(0.0, self.style.width - sum(widths)) / len(widths)
        return [width + stretch for width in widths]

    def measure_heights(self) -> list[float]:
        size, padding = self.style.size, self.style.padding
        around = 2 * padding * VERTICAL_PADDING
        heights = [size * LEADING + around] * self.table.n_rows
        for cell in self.table.cells:
            if self.is_vertical(cell):
                lines = [Line(cell.text)]
                needed = width_of(cell.text, self.font(cell), size) + 2 * padding
            else:
                room = sum(self.widths[cell.column : cell.column + cell.columns]) - 2 * padding
                lines = wrap(self.breakable(cell), self.font(cell), size, room, self.style.hyphenate)
                needed = len(lines) * size * LEADING + around
            self.lines.append(lines)
            if cell.rows == 1:
                heights[cell.row] = max(heights[cell.row], needed)
        return heights

    def draw(self, canvas: Canvas, x: float, y: float, begin: int = 0, end: int | None = None) -> None:
        """Draws the rows from `begin` up to `end` with the upper left corner at (x, y)."""
        end = self.table.n_rows if end is None else end
        lefts = [x + sum(self.widths[:i]) for i in range(self.table.n_columns + 1)]
        tops = {row: y - self.height(begin, row) for row in range(begin, end + 1)}
        self.draw_backgrounds(canvas, lefts, tops, begin, end)
        for cell, lines in zip(self.table.cells, self.lines):
            if begin <= cell.row < end:
                box = lefts[cell.column], tops[min(end, cell.row + cell.rows)], lefts[cell.column + cell.columns], tops[cell.row]
                self.draw_text(canvas, cell, lines, box)
        self.draw_rules(canvas, lefts, tops, begin, end)

    def draw_backgrounds(self, canvas: Canvas, lefts: list[float], tops: dict[int, float], begin: int, end: int) -> None:
        header_rows = self.table.header_rows
        shades = {}
        for row in range(begin, end):
            if row < header_rows and self.style.shaded_header:
                shades[row] = 0.85
            elif row >= header_rows and self.style.rules == "zebra" and (row - header_rows) % 2 == 0:
                shades[row] = 0.92
        for row, shade in shades.items():
            canvas.setFillGray(shade)
            canvas.rect(lefts[0], tops[row + 1], lefts[-1] - lefts[0], tops[row] - tops[row + 1], stroke=0, fill=1)
        canvas.setFillGray(0)

    def draw_text(self, canvas: Canvas, cell: Cell, lines: list[Line], box: tuple[float, float, float, float]) -> None:
        """The text of a cell in its box (left, bottom, right, top)."""
        left, bottom, right, top = box
        size, padding, font = self.style.size, self.style.padding, self.font(cell)
        canvas.setFont(font, size)
        if self.is_vertical(cell):
            canvas.saveState()
            canvas.translate((left + right) / 2 + size * 0.35, bottom + padding)
            canvas.rotate(90)
            canvas.drawString(0, 0, cell.text)
            canvas.restoreState()
            return
        text_height = len(lines) * size * LEADING
        if cell.rows > 1 and self.style.span_valign == "middle":
            baseline = (top + bottom + text_height) / 2 - size * ASCENT
        else:
            baseline = top - padding * VERTICAL_PADDING - size * ASCENT
        align = self.align(cell.column)
        if cell.columns > 1 and self.is_header(cell):
            align = "centre"
        for line in lines:
            if align == "decimal" and not self.is_header(cell):
                point = right - padding - self.decimals[cell.column][1]
                canvas.drawString(point - width_of(split_decimal(line.text)[0], font, size), baseline, line.text)
            elif align in ("right", "decimal"):
                canvas.drawRightString(right - padding, baseline, line.text)
            elif align == "centre":
                canvas.drawCentredString((left + right) / 2, baseline, line.text)
            else:
                canvas.drawString(left + padding, baseline, line.text)
            baseline -= size * LEADING

    def draw_rules(self, canvas: Canvas, lefts: list[float], tops: dict[int, float], begin: int, end: int) -> None:
        left, right, top, bottom = lefts[0], lefts[-1], tops[begin], tops[end]
        header_rows, rules = self.table.header_rows, self.style.rules
        canvas.setLineWidth(self.style.line_width)
        below_header = tops[header_rows] if begin < header_rows < end else None
        cells = [cell for cell in self.table.cells if begin <= cell.row < end]
        if rules == "grid":
            for cell in cells:
                low, cell_left = tops[min(end, cell.row + cell.rows)], lefts[cell.column]
                canvas.rect(cell_left, low, lefts[cell.column + cell.columns] - cell_left, tops[cell.row] - low, stroke=1, fill=0)
        elif rules == "horizontal":
            for row in range(begin, end + 1):
                crossed = {column for cell in cells if cell.row < row < cell.row + cell.rows for column in range(cell.column, cell.column + cell.columns)}
                if not crossed:
                    canvas.line(left, tops[row], right, tops[row])
                    continue
                for column in range(self.table.n_columns):
                    if column not in crossed:
                        canvas.line(lefts[column], tops[row], lefts[column + 1], tops[row])
        elif rules == "booktabs":
            canvas.setLineWidth(1.1)
            canvas.line(left, top, right, top)
            canvas.line(left, bottom, right, bottom)
            canvas.setLineWidth(0.5)
            if below_header is not None:
                canvas.line(left, below_header, right, below_header)
            for cell in cells:
                # A short rule below each group of the header, with a gap to the next.
                below = cell.row + cell.rows
                if cell.columns > 1 and below < header_rows:
                    canvas.line(lefts[cell.column] + 4, tops[below], lefts[cell.column + cell.columns] - 4, tops[below])
        elif rules == "frame":
            canvas.rect(left, bottom, right - left, top - bottom, stroke=1, fill=0)
            if below_header is not None:
                canvas.line(left, below_header, right, below_header)
