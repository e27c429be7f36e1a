"""Tables as cells with spans, and the generators of their contents."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from words import Writer, plain

HEADERS = {
    "en": {
        "item": ["Item", "Part", "Article"],
        "place": ["Site", "Town", "Branch"],
        "person": ["Contact", "Inspector", "Author"],
        "count": ["Units", "Visits", "Staff", "Orders", "Meters"],
        "decimal": ["Mean", "Depth in m", "Load in kN", "Flow in l/s", "Weight in kg"],
        "currency": ["Price", "Cost", "Budget", "Fee"],
        "percent": ["Share", "Change", "Yield", "Loss"],
        "date": ["Date", "Due", "Opened", "Checked on"],
        "code": ["Code", "Order no.", "Batch"],
        "state": ["Status", "State"],
        "note": ["Remark", "Description", "Finding"],
    },
    "de": {
        "item": ["Artikel", "Bauteil", "Gegenstand"],
        "place": ["Ort", "Standort", "Zweigstelle"],
        "person": ["Ansprechperson", "Prüferin", "Name"],
        "count": ["Stück", "Besuche", "Stellen", "Zähler", "Aufträge"],
        "decimal": ["Mittel", "Tiefe in m", "Last in kN", "Gewicht in kg"],
        "currency": ["Preis", "Kosten", "Gebühr"],
        "percent": ["Anteil", "Änderung", "Verlust"],
        "date": ["Datum", "Fällig", "Geprüft am"],
        "code": ["Nummer", "Charge", "Kennung"],
        "state": ["Stand", "Status"],
        "note": ["Bemerkung", "Beschreibung", "Befund"],
    },
}
GROUPS = {
    "en": ["First half", "Second half", "Planned", "Measured", "North", "South", "Before repair", "After repair"],
    "de": ["Erstes Halbjahr", "Zweites Halbjahr", "Geplant", "Gemessen", "Nord", "Süd", "Vor Umbau", "Nach Umbau"],
}
TOTAL = {"en": "Total", "de": "Summe"}
NUMERIC = {"count", "decimal", "currency", "percent"}


@dataclass
class Cell:
    """A text that covers `rows` × `columns` places, the first of which is (`row`, `column`)."""

    row: int
    column: int
    text: str
    rows: int = 1
    columns: int = 1
    # The text with soft hyphens.
    breakable: str = ""

    def truth(self) -> dict:
        return {"row": self.row, "column": self.column, "rows": self.rows, "columns": self.columns, "text": self.text}


@dataclass
class Table:
    """Cells, and for each column the kind of its contents (a key of `HEADERS`)."""

    cells: list[Cell]
    header_rows: int
    kinds: list[str]

    @property
    def n_rows(self) -> int:
        return max(cell.row + cell.rows for cell in self.cells)

    @property
    def n_columns(self) -> int:
        return len(self.kinds)

    def rows(self) -> list[list[str]]:
        """The grid of texts, with merged cells only at their first place."""
        grid = [[""] * self.n_columns for _ in range(self.n_rows)]
        for cell in self.cells:
            grid[cell.row][cell.column] = cell.text
        return grid

    def at(self, row: int, column: int) -> Cell | None:
        return next((cell for cell in self.cells if cell.row == row and cell.column == column), None)


def value(writer: Writer, kind: str) -> str:
    """A random text of a kind. Notes have soft hyphens."""
    match kind:
        case "count":
            return writer.number()
        case "decimal" | "currency" | "percent" | "code":
            return getattr(writer, kind)()
        case "date":
            return writer.date(0)
        case "note":
            return writer.phrase(writer.random.randint(1, 3))
        case _:
            return plain(writer.word(kind))


def simple_table(writer: Writer, kinds: list[str], n_rows: int, header: bool = True) -> Table:
    """One header row, and `n_rows` rows of contents whose first column does not repeat itself."""
    cells = []
    if header:
        taken: set[str] = set()
        for column, kind in enumerate(kinds):
            names = [name for name in HEADERS[writer.language][kind] if name not in taken]
            name = writer.random.choice(names) if names else f"{HEADERS[writer.language][kind][0]} {column}"
            taken.add(name)
            cells.append(Cell(0, column, name))
    first = int(header)
    seen: set[str] = set()
    for row in range(first, first + n_rows):
        for column, kind in enumerate(kinds):
            text = value(writer, kind)
            for _ in range(50):
                if column or text not in seen:
                    break
                text = value(writer, kind)
            if column == 0:
                seen.add(text)
            cells.append(Cell(row, column, plain(text), breakable=text))
    return Table(cells, first, list(kinds))


def choose_kinds(random: Random, count: int, first: str = "item") -> list[str]:
    """Kinds of columns: a name first, then a mix in which no kind comes more than twice."""
    others = ["place", "count", "decimal", "currency", "percent", "date", "code", "state", "count", "decimal"]
    return [first, *random.sample(others, count - 1)]


def with_gaps(table: Table, random: Random, share: float) -> Table:
    """Some cells of the body become empty, but neither a whole row nor a whole column."""
    body = [cell for cell in table.cells if cell.row >= table.header_rows and cell.column > 0]
    for cell in random.sample(body, int(share * len(body))):
        column = [other for other in table.cells if other.column == cell.column and other.row >= table.header_rows]
        row = [other for other in table.cells if other.row == cell.row and other.column > 0]
        if sum(bool(other.text) for other in column) > 2 and sum(bool(other.text) for other in row) > 1:
            cell.text = ""
    return table


def spanned_table(writer: Writer, categories: int, per_category: int, groups: int, total: bool) -> Table:
    """Two header rows with groups over pairs of columns, categories over several rows, and a total over two columns."""
    random, language = writer.random, writer.language
    pair = random.randrange(len(GROUPS[language]) // 2)
    group_names = GROUPS[language][2 * pair : 2 * pair + 2][:groups]
    kinds = ["place", "item", *["count", "percent"] * groups]
    heads = HEADERS[language]
    cells = [Cell(0, 0, random.choice(heads["place"]), rows=2), Cell(0, 1, random.choice(heads["item"]), rows=2)]
    count_name, percent_name = random.choice(heads["count"]), random.choice(heads["percent"])
    for i, name in enumerate(group_names):
        cells.append(Cell(0, 2 + 2 * i, name, columns=2))
        cells += [Cell(1, 2 + 2 * i, count_name), Cell(1, 3 + 2 * i, percent_name)]
    row = 2
    for place in writer.words("place", categories):
        cells.append(Cell(row, 0, place, rows=per_category))
        for item in writer.words("item", per_category):
            cells.append(Cell(row, 1, item))
            for column in range(2, len(kinds)):
                cells.append(Cell(row, column, value(writer, kinds[column])))
            row += 1
    if total:
        cells.append(Cell(row, 0, TOTAL[language], columns=2))
        cells += [Cell(row, column, value(writer, kinds[column])) for column in range(2, len(kinds))]
    return Table(cells, 2, kinds)
