"""DOCX, ODT, RTF and HTML of texts with headings, lists, and tables with merged cells."""

from __future__ import annotations

import datetime
import html
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import docx
from docx.table import Table as DocxTable
from odf import opendocument, style, table, text

from archive import fix_archive
from grids import Table, simple_table, spanned_table
from words import Writer, plain

CREATED = datetime.datetime(2024, 1, 1)


@dataclass
class Block:
    """A heading, paragraph or item of a list, with its level; or a table."""

    kind: str
    text: str = ""
    level: int = 0
    table: Table | None = None


@dataclass
class Article:
    language: str
    head: str
    foot: str
    blocks: list[Block] = field(default_factory=list)

    def truth(self) -> dict:
        return {
            "reading_order": [block.text for block in self.blocks if block.text],
            "headings": [{"level": block.level, "text": block.text} for block in self.blocks if block.kind == "heading"],
            "tables": [
                {"page": 1, "header_rows": block.table.header_rows, "cells": [cell.truth() for cell in block.table.cells]}
                for block in self.blocks
                if block.table
            ],
            "running": [{"page": 1, "text": text} for text in (self.head, self.foot) if text],
            "footnotes": [],
        }  # fmt: skip


def article(writer: Writer, variant: int) -> Article:
    made = Article(writer.language, plain(writer.word("topic")), f"{plain(writer.word('person'))}, {writer.date(0)}")
    blocks = made.blocks
    blocks += [Block("heading", writer.title(), 1), Block("paragraph", plain(writer.paragraph()))]
    for i, heading in enumerate(writer.headings(3)):
        blocks += [Block("heading", heading, 2), Block("paragraph", plain(writer.paragraph()))]
        if i == variant % 3:
            blocks.append(Block("table", table=spanned_table(writer, 2, 2 + variant % 2, 2, total=True)))
        elif i == (variant + 1) % 3:
            blocks += [Block("item", plain(writer.sentence()), level) for level in (0, 0, 1, 1, 0)]
        else:
            blocks.append(Block("table", table=simple_table(writer, ["item", "count", "date", "note"], 4)))
        blocks.append(Block("paragraph", plain(writer.paragraph(1, 2))))
    return made


def fill_docx_table(made: DocxTable, source: Table) -> None:
    for cell in source.cells:
        first = made.cell(cell.row, cell.column)
        if cell.rows * cell.columns > 1:
            first = first.merge(made.cell(cell.row + cell.rows - 1, cell.column + cell.columns - 1))
        first.text = cell.text


def write_docx(made: Article, path: Path) -> None:
    document = docx.Document()
    document.core_properties.created = document.core_properties.modified = CREATED
    document.sections[0].header.paragraphs[0].text = made.head
    document.sections[0].footer.paragraphs[0].text = made.foot
    for block in made.blocks:
        if block.table:
            fill_docx_table(document.add_table(block.table.n_rows, block.table.n_columns, style="Table Grid"), block.table)
        elif block.kind == "heading":
            document.add_heading(block.text, block.level)
        else:
            document.add_paragraph(block.text, {"paragraph": "Normal", "item": "List Bullet" if block.level == 0 else "List Bullet 2"}[block.kind])
    document.save(str(path))
    fix_archive(path)


def odf_table(source: Table, name: str) -> table.Table:
    """A table with merged cells, for texts and slides of OpenDocument."""
    made = table.Table(name=name)
    made.addElement(table.TableColumn(numbercolumnsrepeated=source.n_columns))
    for row in range(source.n_rows):
        line = table.TableRow()
        for column in range(source.n_columns):
            cell = source.at(row, column)
            if cell is None:
                line.addElement(table.CoveredTableCell())
                continue
            options = {"numberrowsspanned": cell.rows, "numbercolumnsspanned": cell.columns} if cell.rows * cell.columns > 1 else {}
            place = table.TableCell(valuetype="string", **options)
            place.addElement(text.P(text=cell.text))
            line.addElement(place)
        made.addElement(line)
    return made


def write_odt(made: Article, path: Path) -> None:
    document = opendocument.OpenDocumentText()
    layout = style.PageLayout(name="page")
    document.automaticstyles.addElement(layout)
    page = style.MasterPage(name="Standard", pagelayoutname=layout)
    document.masterstyles.addElement(page)
    for part, content in [(style.Header(), made.head), (style.Footer(), made.foot)]:
        part.addElement(text.P(text=content))
        page.addElement(part)
    items: list[Block] = []
    for i, block in enumerate([*made.blocks, Block("end")]):
        if block.kind == "item":
            items.append(block)
            continue
        if items:
            document.text.addElement(odf_list(items))
            items = []
        if block.table:
            document.text.addElement(odf_table(block.table, f"Table{i}"))
        elif block.kind == "heading":
            document.text.addElement(text.H(outlinelevel=block.level, text=block.text))
        elif block.kind == "paragraph":
            document.text.addElement(text.P(text=block.text))
    document.save(str(path))
    fix_archive(path)


def odf_list(items: list[Block]) -> text.List:
    """A list of one or two levels; deeper items belong to the item before them."""
    outer = text.List()
    inner = last = None
    for item in items:
        made = text.ListItem()
        made.addElement(text.P(text=item.text))
        if item.level and last is not None:
            if inner is None:
                inner = text.List()
                last.addElement(inner)
            inner.addElement(made)
        else:
            inner, last = None, made
            outer.addElement(made)
    return outer


def rtf_text(content: str) -> str:
    return "".join(c if ord(c) < 128 and c not in "\\{}" else f"\\{c}" if c in "\\{}" else f"\\u{ord(c)}?" for c in content)


def rtf_table(source: Table) -> str:
    """Rows in which merged cells are marked by \\clmgf and \\clmrg (columns), \\clvmgf and \\clvmrg (rows)."""
    rows = []
    for row in range(source.n_rows):
        definitions, contents = [], []
        for column in range(source.n_columns):
            cell = next(c for c in source.cells if c.row <= row < c.row + c.rows and c.column <= column < c.column + c.columns)
            marks = ""
            if cell.columns > 1:
                marks += "\\clmgf" if column == cell.column else "\\clmrg"
            if cell.rows > 1:
                marks += "\\clvmgf" if row == cell.row else "\\clvmrg"
            definitions.append(f"{marks}\\cellx{(column + 1) * 1500}")
            contents.append(f"{rtf_text(cell.text) if (row, column) == (cell.row, cell.column) else ''}\\cell")
        rows.append("\\trowd\\trgaph70" + "".join(definitions) + "\n\\pard\\intbl " + "\n".join(contents) + "\n\\row")
    return "\n".join(rows) + "\n\\pard\n"


def write_rtf(made: Article, path: Path) -> None:
    parts = ["{\\rtf1\\ansi\\ansicpg1252\\deff0{\\fonttbl{\\f0\\fswiss Helvetica;}}", "{\\info{\\title " + rtf_text(made.blocks[0].text) + "}}",
             "{\\stylesheet{\\s0 Normal;}{\\s1\\outlinelevel0 heading 1;}{\\s2\\outlinelevel1 heading 2;}}",
             "{\\header\\pard " + rtf_text(made.head) + "\\par}", "{\\footer\\pard " + rtf_text(made.foot) + "\\par}"]  # fmt: skip
    for block in made.blocks:
        if block.table:
            parts.append(rtf_table(block.table))
        elif block.kind == "heading":
            parts.append(f"\\pard\\s{block.level}\\outlinelevel{block.level - 1}\\b\\fs{36 - 6 * block.level} {rtf_text(block.text)}\\b0\\fs22\\par")
        elif block.kind == "item":
            parts.append(f"\\pard\\li{360 * (block.level + 1)}\\fi-200{{\\pntext\\bullet\\tab}} {rtf_text(block.text)}\\par")
        else:
            parts.append(f"\\pard {rtf_text(block.text)}\\par")
    path.write_text("\n".join(parts) + "\n}\n", encoding="ascii")


def html_table(source: Table) -> str:
    lines = ["<table>"]
    for row in range(source.n_rows):
        cells = []
        for cell in sorted((cell for cell in source.cells if cell.row == row), key=lambda cell: cell.column):
            tag = "th" if row < source.header_rows else "td"
            spans = (f' rowspan="{cell.rows}"' if cell.rows > 1 else "") + (f' colspan="{cell.columns}"' if cell.columns > 1 else "")
            cells.append(f"<{tag}{spans}>{html.escape(cell.text)}</{tag}>")
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*lines, "</table>"])


def write_html(made: Article, path: Path) -> None:
    """A page with what is no part of the text: navigation, style and script."""
    body, depth = [], 0
    for block in [*made.blocks, Block("end", level=-1)]:
        wanted = block.level + 1 if block.kind == "item" else 0
        while depth < wanted:
            body.append("<ul>")
            depth += 1
        while depth > wanted:
            body.append("</ul>")
            depth -= 1
        if block.table:
            body.append(html_table(block.table))
        elif block.kind == "heading":
            body.append(f"<h{block.level}>{html.escape(block.text)}</h{block.level}>")
        elif block.kind == "item":
            body.append(f"<li>{html.escape(block.text)}</li>")
        elif block.kind == "paragraph":
            body.append(f"<p>{html.escape(block.text)}</p>")
    page = f"""<!doctype html>
<html lang="{made.language}"><head><meta charset="utf-8"><title>{html.escape(made.blocks[0].text)}</title>
<style>td {{ padding: 2px }}</style><script>var hidden = "script text";</script></head>
<body><nav>{html.escape(made.head)}</nav>
<main>
{chr(10).join(body)}
</main>
<footer>{html.escape(made.foot)}</footer></body></html>
"""
    path.write_text(page, encoding="utf-8")


def write(folder: Path, seed: int) -> list[dict]:
    (folder / "document").mkdir(exist_ok=True)
    truths = []
    for suffix, write_document in [("docx", write_docx), ("odt", write_odt), ("rtf", write_rtf), ("html", write_html)]:
        for variant in range(3):
            language = "de" if variant == 2 else "en"
            made = article(Writer(Random(f"{seed} {suffix} {variant}"), language), variant)
            name = f"document/article-{variant + 1}.{suffix}"
            write_document(made, folder / name)
            truths.append({"file": name, "part": "document", "kind": suffix, "format": suffix, "language": language, "pages": 1, **made.truth()})
    return truths
