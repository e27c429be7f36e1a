"""Spreadsheets: XLSX, XLS, ODS, CSV and TSV of the same contents, each with what a person sees in every cell."""

from __future__ import annotations

import csv
import datetime
import io
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import openpyxl
import xlsxwriter
import xlwt
from odf import number as odf_number
from odf import opendocument, style, table, text

from archive import fix_archive
from grids import spanned_table
from words import Writer, plain

# The number formats, in the spelling of Excel.
FORMATS = {"integer": "#,##0", "decimal": "0.00", "percent": "0.0%", "date": "yyyy-mm-dd", "german_date": "dd.mm.yyyy", "euro": '#,##0.00 "€"'}
CREATED = datetime.datetime(2024, 1, 1)


@dataclass
class Value:
    """A cell: its kind (`text`, `bool`, `formula` or a key of `FORMATS`), its value, and how many places it covers."""

    kind: str
    value: object
    rows: int = 1
    columns: int = 1
    # Of a formula: the text, and the kind of its value.
    formula: str = ""
    result_kind: str = ""

    @property
    def shown_kind(self) -> str:
        return self.result_kind or self.kind

    def shown(self) -> str:
        """What a person sees."""
        value = self.value
        match self.shown_kind:
            case "integer":
                return f"{value:,}"
            case "decimal":
                return f"{value:.2f}"
            case "percent":
                return f"{value * 100:.1f}%"
            case "date":
                return value.isoformat()
            case "german_date":
                return value.strftime("%d.%m.%Y")
            case "euro":
                return f"{value:,.2f} €"
            case "bool":
                return "TRUE" if value else "FALSE"
            case _:
                return str(value)

    def also(self) -> list[str]:
        """The value without its format, which counts as right too."""
        match self.shown_kind:
            case "date" | "german_date":
                return [f"{self.value.isoformat()}", f"{self.value.isoformat()} 00:00:00", f"{self.value.isoformat()}T00:00:00"]
            case "bool":
                return [str(self.value), str(self.value).lower(), str(int(self.value))]
            case "text":
                return []
            case _:
                whole = [str(int(self.value))] if self.value == int(self.value) else []
                return list(dict.fromkeys([repr(self.value), repr(float(self.value)), *whole]))


@dataclass
class Area:
    """A table on a sheet: its first row and column, the row and column after its last, and its header rows."""

    top: int
    left: int
    bottom: int
    right: int
    header_rows: int = 1


@dataclass
class Sheet:
    name: str
    cells: dict[tuple[int, int], Value] = field(default_factory=dict)
    areas: list[Area] = field(default_factory=list)
    hidden: bool = False

    def add_table(self, top: int, left: int, rows: list[list[Value]], header_rows: int = 1) -> Area:
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                self.cells[top + i, left + j] = value
        area = Area(top, left, top + len(rows), left + len(rows[0]), header_rows)
        self.areas.append(area)
        return area

    def truth(self) -> dict:
        cells = []
        for (row, column), value in sorted(self.cells.items()):
            cell = {"row": row, "column": column, "rows": value.rows, "columns": value.columns, "text": value.shown()}
            if others := value.also():
                cell["also"] = others
            cells.append(cell)
        areas = [vars(area) for area in self.areas]
        return {"name": self.name, "hidden": self.hidden, "cells": cells, "tables": areas}


def random_value(writer: Writer, kind: str) -> Value:
    random = writer.random
    match kind:
        case "integer":
            return Value(kind, random.randint(1, 99_999))
        case "decimal":
            return Value(kind, round(random.uniform(-50, 900), 2))
        case "percent":
            return Value(kind, round(random.uniform(0.005, 1.2), 3))
        case "date" | "german_date":
            return Value(kind, datetime.date(random.randint(2012, 2025), random.randint(1, 12), random.randint(1, 28)))
        case "euro":
            return Value(kind, round(random.uniform(1, 20_000), 2))
        case "bool":
            return Value(kind, random.random() < 0.5)
        case _:
            return Value("text", plain(writer.word(kind)))


def rows_of(writer: Writer, kinds: list[str], count: int) -> list[list[Value]]:
    names = {"integer": "Units", "decimal": "Mean", "percent": "Share", "date": "Date", "german_date": "Datum", "euro": "Cost", "bool": "Paid",
             "item": "Item", "place": "Site", "person": "Contact", "state": "Status"}  # fmt: skip
    header = [Value("text", names[kind] if kind not in kinds[:i] else f"{names[kind]} {i + 1}") for i, kind in enumerate(kinds)]
    return [header, *([random_value(writer, kind) for kind in kinds] for _ in range(count))]


def column_name(column: int) -> str:
    return chr(ord("A") + column)


def with_totals(sheet: Sheet, area: Area, kinds: list[str], label: str) -> None:
    """A last row that sums up the columns of numbers by formulas, whose values are kept."""
    row = area.bottom
    sheet.cells[row, area.left] = Value("text", label)
    for i, kind in enumerate(kinds):
        column = area.left + i
        if kind in ("integer", "decimal", "euro"):
            values = [sheet.cells[other, column].value for other in range(area.top + area.header_rows, area.bottom)]
            name = column_name(column)
            formula = f"SUM({name}{area.top + area.header_rows + 1}:{name}{area.bottom})"
            sheet.cells[row, column] = Value("formula", round(sum(values), 2), formula=formula, result_kind=kind)
    area.bottom += 1


def plain_table(writer: Writer) -> list[Sheet]:
    sheet = Sheet("Data")
    sheet.add_table(0, 0, rows_of(writer, ["item", "integer", "decimal", "percent", "date", "bool"], 12))
    return [sheet]


def titled_table(writer: Writer) -> list[Sheet]:
    """Two title rows, the first of which is merged over the table, an empty row, then the table."""
    sheet = Sheet("Report")
    kinds = ["place", "integer", "euro", "percent", "date"]
    sheet.cells[0, 0] = Value("text", writer.title(), columns=len(kinds))
    sheet.cells[1, 0] = Value("text", plain(writer.sentence()))
    sheet.add_table(3, 0, rows_of(writer, kinds, 9))
    return [sheet]


def stacked_tables(writer: Writer) -> list[Sheet]:
    """Two tables, one below the other, with two empty rows between them."""
    sheet = Sheet("Both")
    sheet.add_table(0, 0, rows_of(writer, ["item", "integer", "state"], 6))
    sheet.add_table(9, 0, rows_of(writer, ["person", "date", "euro", "percent"], 5))
    return [sheet]


def tables_beside(writer: Writer) -> list[Sheet]:
    """Two tables side by side that begin at C4, with an empty column between them."""
    sheet = Sheet("Side by side")
    sheet.add_table(3, 2, rows_of(writer, ["item", "integer", "decimal"], 7))
    sheet.add_table(3, 6, rows_of(writer, ["place", "percent"], 5))
    return [sheet]


def merged_cells(writer: Writer) -> list[Sheet]:
    """Two header rows and categories over several rows."""
    sheet = Sheet("Merged")
    grid = spanned_table(writer, 3, 2, 2, total=True)
    for cell in grid.cells:
        sheet.cells[cell.row, cell.column] = Value("text", cell.text, cell.rows, cell.columns)
    sheet.areas.append(Area(0, 0, grid.n_rows, grid.n_columns, 2))
    return [sheet]


def several_sheets(writer: Writer) -> list[Sheet]:
    """Three sheets, the second of which is hidden."""
    sheets = []
    for name, hidden in [("First", False), ("Internal", True), ("Last", False)]:
        sheet = Sheet(name, hidden=hidden)
        sheet.add_table(0, 0, rows_of(writer, ["item", "integer", "date", "state"], 5))
        sheets.append(sheet)
    return sheets


def formulas(writer: Writer) -> list[Sheet]:
    sheet = Sheet("Sums")
    kinds = ["item", "integer", "decimal", "euro"]
    with_totals(sheet, sheet.add_table(0, 0, rows_of(writer, kinds, 8)), kinds, "Total")
    return [sheet]


def gaps(writer: Writer) -> list[Sheet]:
    """Empty cells in the body, and an empty column in the middle of the sheet that parts nothing else."""
    sheet = Sheet("Lücken")
    area = sheet.add_table(1, 1, rows_of(writer, ["place", "integer", "german_date", "percent", "euro"], 10))
    body = [(row, column) for row in range(area.top + 1, area.bottom) for column in range(area.left + 1, area.right)]
    for place in writer.random.sample(body, 12):
        del sheet.cells[place]
    return [sheet]


BOOKS = {"plain": plain_table, "titled": titled_table, "stacked": stacked_tables, "beside": tables_beside, "merged": merged_cells, "several": several_sheets,
         "formulas": formulas, "gaps": gaps}  # fmt: skip


def write_xlsx(sheets: list[Sheet], path: Path) -> None:
    """Written by xlsxwriter, which can store the values of formulas."""
    book = xlsxwriter.Workbook(path)
    book.set_properties({"created": CREATED})
    formats = {kind: book.add_format({"num_format": code}) for kind, code in FORMATS.items()}
    for sheet in sheets:
        page = book.add_worksheet(sheet.name)
        if sheet.hidden:
            page.hide()
        for (row, column), value in sheet.cells.items():
            form = formats.get(value.shown_kind)
            if value.rows * value.columns > 1:
                page.merge_range(row, column, row + value.rows - 1, column + value.columns - 1, value.value)
            elif value.formula:
                page.write_formula(row, column, f"={value.formula}", form, value.value)
            elif value.shown_kind in ("date", "german_date"):
                page.write_datetime(row, column, datetime.datetime.combine(value.value, datetime.time()), form)
            else:
                page.write(row, column, value.value, form)
    book.close()


def write_openpyxl(sheets: list[Sheet], path: Path) -> None:
    """Written by openpyxl, for workbooks without formulas."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for sheet in sheets:
        page = book.create_sheet(sheet.name)
        page.sheet_state = "hidden" if sheet.hidden else "visible"
        for (row, column), value in sheet.cells.items():
            cell = page.cell(row + 1, column + 1, value.value)
            if value.kind in FORMATS:
                cell.number_format = FORMATS[value.kind]
            if value.rows * value.columns > 1:
                page.merge_cells(start_row=row + 1, start_column=column + 1, end_row=row + value.rows, end_column=column + value.columns)
    book.properties.created = book.properties.modified = CREATED
    book.save(path)


def write_xls(sheets: list[Sheet], path: Path) -> None:
    book = xlwt.Workbook()
    styles = {kind: xlwt.easyxf(num_format_str=code) for kind, code in FORMATS.items()}
    for sheet in sheets:
        page = book.add_sheet(sheet.name)
        page.visibility = int(sheet.hidden)
        for (row, column), value in sheet.cells.items():
            look = styles.get(value.shown_kind, xlwt.Style.default_style)
            if value.rows * value.columns > 1:
                page.write_merge(row, row + value.rows - 1, column, column + value.columns - 1, value.value, look)
            else:
                page.write(row, column, value.value, look)
    book.save(str(path))


def ods_styles(book: opendocument.OpenDocument) -> dict[str, style.Style]:
    """A cell style for each number format."""
    integer = odf_number.NumberStyle(name="integer-format")
    integer.addElement(odf_number.Number(minintegerdigits=1, decimalplaces=0, grouping="true"))
    decimal = odf_number.NumberStyle(name="decimal-format")
    decimal.addElement(odf_number.Number(minintegerdigits=1, decimalplaces=2))
    percent = odf_number.PercentageStyle(name="percent-format")
    percent.addElement(odf_number.Number(minintegerdigits=1, decimalplaces=1))
    percent.addElement(odf_number.Text(text="%"))
    euro = odf_number.CurrencyStyle(name="euro-format")
    euro.addElement(odf_number.Number(minintegerdigits=1, decimalplaces=2, grouping="true"))
    euro.addElement(odf_number.Text(text=" €"))
    dates = {}
    for kind, separator, order in [("date", "-", "ymd"), ("german_date", ".", "dmy")]:
        dates[kind] = odf_number.DateStyle(name=f"{kind}-format")
        for i, letter in enumerate(order):
            part = {"y": odf_number.Year, "m": odf_number.Month, "d": odf_number.Day}[letter]
            dates[kind].addElement(part(style="long"))
            if i < 2:
                dates[kind].addElement(odf_number.Text(text=separator))
    formats = {"integer": integer, "decimal": decimal, "percent": percent, "euro": euro, **dates}
    styles = {}
    for kind, data_style in formats.items():
        book.automaticstyles.addElement(data_style)
        styles[kind] = style.Style(name=kind, family="table-cell", datastylename=data_style)
        book.automaticstyles.addElement(styles[kind])
    return styles


def ods_cell(value: Value, styles: dict[str, style.Style]) -> table.TableCell:
    kind = value.shown_kind
    options = {"stylename": styles[kind]} if kind in styles else {}
    match kind:
        case "integer" | "decimal":
            options |= {"valuetype": "float", "value": value.value}
        case "euro":
            options |= {"valuetype": "currency", "currency": "EUR", "value": value.value}
        case "percent":
            options |= {"valuetype": "percentage", "value": value.value}
        case "date" | "german_date":
            options |= {"valuetype": "date", "datevalue": value.value.isoformat()}
        case "bool":
            options |= {"valuetype": "boolean", "booleanvalue": str(value.value).lower()}
        case _:
            options |= {"valuetype": "string"}
    if value.formula:
        options["formula"] = "of:=" + value.formula.replace("SUM(", "SUM([.").replace(":", ":.").replace(")", "])")
    if value.rows * value.columns > 1:
        options |= {"numberrowsspanned": value.rows, "numbercolumnsspanned": value.columns}
    cell = table.TableCell(**options)
    cell.addElement(text.P(text=value.shown()))
    return cell


def write_ods(sheets: list[Sheet], path: Path) -> None:
    book = opendocument.OpenDocumentSpreadsheet()
    styles = ods_styles(book)
    hidden = style.Style(name="hidden", family="table")
    hidden.addElement(style.TableProperties(display="false"))
    book.automaticstyles.addElement(hidden)
    for sheet in sheets:
        page = table.Table(name=sheet.name, **({"stylename": hidden} if sheet.hidden else {}))
        n_rows = max(row + value.rows for (row, _), value in sheet.cells.items())
        n_columns = max(column + value.columns for (_, column), value in sheet.cells.items())
        covered = {
            (row + i, column + j)
            for (row, column), value in sheet.cells.items()
            for i in range(value.rows)
            for j in range(value.columns)
            if i or j
        }  # fmt: skip
        page.addElement(table.TableColumn(numbercolumnsrepeated=n_columns))
        for row in range(n_rows):
            line = table.TableRow()
            for column in range(n_columns):
                if (row, column) in sheet.cells:
                    line.addElement(ods_cell(sheet.cells[row, column], styles))
                else:
                    line.addElement(table.CoveredTableCell() if (row, column) in covered else table.TableCell())
            page.addElement(line)
        book.spreadsheet.addElement(page)
    book.save(str(path))


def delimited(sheet: Sheet, delimiter: str) -> str:
    n_rows, n_columns = (max(place[i] for place in sheet.cells) + 1 for i in (0, 1))
    file = io.StringIO()
    rows = csv.writer(file, delimiter=delimiter, lineterminator="\r\n")
    for row in range(n_rows):
        rows.writerow([sheet.cells[row, column].shown() if (row, column) in sheet.cells else "" for column in range(n_columns)])
    return file.getvalue()


def write_delimited(folder: Path, seed: int) -> list[dict]:
    """Comma, semicolon and tab; UTF-8 with and without a byte order mark, and Windows-1252; one with line breaks in cells."""
    variants = [("comma-utf8.csv", ",", "utf-8", "en"), ("comma-bom.csv", ",", "utf-8-sig", "en"), ("comma-1252.csv", ",", "cp1252", "de"),
                ("semicolon-utf8.csv", ";", "utf-8", "de"), ("semicolon-1252.csv", ";", "cp1252", "de"), ("tab.tsv", "\t", "utf-8", "de")]  # fmt: skip
    truths = []
    for name, delimiter, encoding, language in variants:
        writer = Writer(Random(f"{seed} {name}"), language)
        sheet = Sheet(name)
        rows = rows_of(writer, ["item", "person", "euro", "german_date" if language == "de" else "date", "percent"], 14)
        for row in rows[1:4]:
            row[1] = Value("text", f"{row[1].value}{delimiter} {plain(writer.word('place'))}")
        if encoding == "utf-8-sig":
            rows[5][0] = Value("text", f"{rows[5][0].value}\n\"{rows[6][0].value}\"")
        sheet.add_table(0, 0, rows)
        (folder / "sheet" / name).write_bytes(delimited(sheet, delimiter).encode(encoding))
        truths.append({"file": f"sheet/{name}", "part": "sheet", "kind": "delimited", "language": language, "format": name.rsplit(".", 1)[1],
                       "pages": 1, "sheets": [sheet.truth()]})  # fmt: skip
    return truths


def write_large(folder: Path, seed: int) -> dict:
    """20,000 rows of 50 columns. The truth holds every thousandth row."""
    random = Random(f"{seed} large")
    name = "sheet/large.xlsx"
    book = xlsxwriter.Workbook(folder / name, {"constant_memory": True})
    book.set_properties({"created": CREATED})
    page = book.add_worksheet("Large")
    sample = []
    for row in range(20_000):
        for column in range(50):
            value = f"Column {column + 1}" if row == 0 else random.randint(0, 10**6) if column % 5 else f"R{row}C{column}"
            page.write(row, column, value)
            if row % 1000 == 0:
                sample.append({"row": row, "column": column, "rows": 1, "columns": 1, "text": str(value)})
    book.close()
    fix_archive(folder / name)
    return {"file": name, "part": "large", "kind": "large", "language": "en", "format": "xlsx", "pages": 1, "cells": 1_000_000, "sample": sample}


def write(folder: Path, seed: int, large: bool) -> list[dict]:
    (folder / "sheet").mkdir(exist_ok=True)
    truths = []
    for number, (kind, build) in enumerate(BOOKS.items()):
        for suffix in ("xlsx", "xls", "ods"):
            if kind == "formulas" and suffix == "xls":
                # xlwt cannot store the values of formulas.
                continue
            language = "de" if kind == "gaps" else "en"
            sheets = build(Writer(Random(f"{seed} {kind} {suffix}"), language))
            name = f"sheet/{kind}.{suffix}"
            write_book = {"xlsx": write_openpyxl if number % 2 and kind != "formulas" else write_xlsx, "xls": write_xls, "ods": write_ods}[suffix]
            write_book(sheets, folder / name)
            if suffix != "xls":
                fix_archive(folder / name)
            truths.append({"file": name, "part": "sheet", "kind": kind, "language": language, "format": suffix, "pages": len(sheets),
                           "sheets": [sheet.truth() for sheet in sheets]})  # fmt: skip
    truths += write_delimited(folder, seed)
    if large:
        truths.append(write_large(folder, seed))
    return truths
