"""Reads what a parser printed: Markdown, with tables as pipes or as HTML, and pages divided by form feeds."""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass, field
from html.parser import HTMLParser

Grid = list[list[str]]

DELIMITER_ROW = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")
HTML_TABLE = re.compile(r"<table\b.*?</table\s*>", re.DOTALL | re.IGNORECASE)
HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
# One or more marks of a list or a quotation at the beginning of a line.
LIST_MARK = re.compile(r"^\s*(?:>\s*)*(?:(?:[-*+•◦▪‣–·]|\(?\d{1,2}[.)]|\(?[a-z]\))(?:\s+|$))*")
FOOTNOTE_MARK = re.compile(r"\[\^?\d{1,3}\]:?|<sup>.*?</sup>|\^\d{1,3}\^|[¹²³⁰-⁹]+", re.IGNORECASE)
TAG = re.compile(r"</?(?:b|i|u|s|em|strong|sup|sub|p|div|span|center|br|img|a|mark|code|pre|ul|ol|li|hr|h[1-6])\b[^>]*>", re.IGNORECASE)
# The boxes of a form, ticked or not: the truth has only the words behind them.
TICK = re.compile(r"\[[ xX]\](?=\s)|[☐☑☒✓✔✗✘]")
# What `plain` and `normalize` have anything to do with.
MARKUP = re.compile(r"[*_`\\<&\[!]")
SIMPLE = re.compile(r"[ -~]*\Z")
# A word that is divided at the end of a line.
DIVIDED = re.compile(r"(\w)[-\u00ad\ufffe]\s*\n\s*(?=[a-zäöüß])")


def normalize(text: str) -> str:
    """NFKC, no marks of footnotes, divided words joined, white space collapsed."""
    if SIMPLE.match(text) and "[" not in text and "<" not in text and "^" not in text:
        return " ".join(text.split())
    text = unicodedata.normalize("NFKC", FOOTNOTE_MARK.sub(" ", TICK.sub(" ", text)))
    text = DIVIDED.sub(r"\1", text).replace("\u00ad", "").replace("\ufffe", "")
    text = text.translate(str.maketrans({"−": "-", "‐": "-", "‑": "-", "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"'}))
    return " ".join(text.split())


def plain(text: str) -> str:
    """Without Markdown's emphasis, links, images, comments and escapes, and without tags."""
    if not MARKUP.search(text):
        return text
    text = re.sub(r"<!--.*?-->", " ", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]^]+)\]\([^)\s]*\)", r"\1", text)
    text = re.sub(r"<br\s*/?>", "\n", text, flags=re.IGNORECASE)
    text = re.sub(r"<sup>\s*\[?\d{1,3}\]?\s*</sup>", "", text, flags=re.IGNORECASE)
    text = html.unescape(TAG.sub("", text))
    text = re.sub(r"(\*\*\*|\*\*|___|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    text = re.sub(r"(?<![\w*_])([*_])(?=\S)([^*_\n]+?)(?<=\S)\1(?![\w*_])", r"\2", text)
    return re.sub(r"\\([\\`*_{}\[\]()#+\-.!|$~<>&])", r"\1", text)


class TableReader(HTMLParser):
    """The grid of an HTML table; a cell that covers several places stands in all of them."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.grid: dict[tuple[int, int], str] = {}
        self.row, self.depth = -1, 0
        self.cell: list[str] | None = None
        self.span = (1, 1)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.close()
            self.row += 1
        elif tag in ("td", "th"):
            self.close()
            values = dict(attributes)
            self.span = tuple(max(1, int(values[name])) if (values.get(name) or "").isdigit() else 1 for name in ("rowspan", "colspan"))
            self.cell = []
        elif tag in ("br", "p", "div", "li") and self.cell is not None:
            self.cell.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self.close()

    def handle_data(self, data: str) -> None:
        if self.cell is not None:
            self.cell.append(data)

    def close(self) -> None:
        if self.cell is None:
            return
        row, column = max(self.row, 0), 0
        while (row, column) in self.grid:
            column += 1
        for i in range(min(self.span[0], 1000)):
            for j in range(min(self.span[1], 1000)):
                self.grid[row + i, column + j] = "".join(self.cell)
        self.cell = None

    def rows(self) -> Grid:
        if not self.grid:
            return []
        n_rows, n_columns = (max(place[i] for place in self.grid) + 1 for i in (0, 1))
        return [[self.grid.get((row, column), "") for column in range(n_columns)] for row in range(n_rows)]


def html_grid(text: str) -> Grid:
    reader = TableReader()
    reader.feed(text)
    reader.close()
    return clean(reader.rows())


def split_row(line: str) -> list[str]:
    """The cells of a row of pipes; `\\|` is no border."""
    line = line.strip().removeprefix("|")
    line = line[:-1] if line.endswith("|") and not line.endswith("\\|") else line
    return [plain(cell) for cell in re.split(r"(?<!\\)\|", line)]


def clean(rows: Grid) -> Grid:
    """The normalized texts, without rows and columns that are empty altogether."""
    rows = [[normalize(cell) for cell in row] for row in rows]
    rows = [row for row in rows if any(row)]
    width = max(map(len, rows), default=0)
    rows = [row + [""] * (width - len(row)) for row in rows]
    filled = [column for column in range(width) if any(row[column] for row in rows)]
    return [[row[column] for column in filled] for row in rows]


@dataclass
class FoundTable:
    page: int
    grid: Grid


@dataclass
class Output:
    """The parts of a parser's output. `pages` are lines of text, in which a table is the number of its place in `tables`."""

    pages: list[list[str | int]] = field(default_factory=list)
    tables: list[FoundTable] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)

    def lines(self, without: set[int] = frozenset()) -> list[str]:
        """The lines of all pages. Tables become a line for each row, except those in `without`."""
        return [line for page in range(len(self.pages)) for line in self.page_lines(page, without)]

    def page_lines(self, page: int, without: set[int] = frozenset()) -> list[str]:
        lines = []
        for line in self.pages[page]:
            if isinstance(line, str):
                lines.append(line)
            elif line not in without:
                lines += [" ".join(filter(None, row)) for row in self.tables[line].grid]
        return lines


def read_output(text: str) -> Output:
    found = Output()
    for number, page in enumerate(text.removesuffix("\f").split("\f"), 1):
        lines: list[str | int] = []
        end = 0
        for match in HTML_TABLE.finditer(page):
            read_lines(page[end : match.start()], number, lines, found)
            if grid := html_grid(match[0]):
                lines.append(len(found.tables))
                found.tables.append(FoundTable(number, grid))
            end = match.end()
        read_lines(page[end:], number, lines, found)
        found.pages.append(lines)
    return found


def read_lines(text: str, page: int, lines: list[str | int], found: Output) -> None:
    """Adds the lines of a piece without HTML tables, and takes out the tables of pipes."""
    source = text.split("\n")
    i = 0
    while i < len(source):
        begin = i
        bordered = source[i].lstrip().startswith("|")
        delimited = i + 1 < len(source) and "|" in source[i] and "|" in source[i + 1] and DELIMITER_ROW.match(source[i + 1])
        if bordered or delimited:
            while i < len(source) and ("|" in source[i] if delimited and not bordered else source[i].lstrip().startswith("|")):
                i += 1
        if i - begin >= 2 or (bordered and i > begin):
            # Only the row below the first divides header and body: another row of dashes is content.
            rows = [split_row(line) for n, line in enumerate(source[begin:i]) if not (n <= 1 and DELIMITER_ROW.match(line))]
            if grid := clean(rows):
                lines.append(len(found.tables))
                found.tables.append(FoundTable(page, grid))
            continue
        line = source[begin]
        i = begin + 1
        if match := HEADING.match(line):
            line = plain(match[2])
            if line.strip():
                found.headings.append((len(match[1]), normalize(line)))
        elif re.match(r"^\s*(```|---+\s*$|\*\*\*+\s*$|___+\s*$)", line):
            continue
        lines.append(plain(line))
