"""PPTX and ODP: titles, bullets of several levels, tables with merged cells, notes, a hidden slide."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pptx
from odf import draw, opendocument, presentation, style, text
from pptx.util import Cm

from archive import fix_archive
from articles import Block, odf_list, odf_table
from grids import Table, simple_table, spanned_table
from words import Writer, plain

CREATED = datetime.datetime(2024, 1, 1)


@dataclass
class Slide:
    title: str
    items: list[Block] = field(default_factory=list)
    table: Table | None = None
    notes: str = ""
    hidden: bool = False


def deck(writer: Writer) -> list[Slide]:
    """A title, bullets, a table with merged cells, a hidden slide, a plain table."""
    headings = writer.headings(4)

    def items(levels: list[int]) -> list[Block]:
        return [Block("item", plain(writer.sentence()) if level == 0 else plain(writer.phrase()), level) for level in levels]

    return [
        Slide(writer.title(), [Block("item", plain(writer.word("person")))]),
        Slide(headings[0], items([0, 1, 1, 0, 1]), notes=plain(writer.paragraph(1, 2))),
        Slide(headings[1], table=spanned_table(writer, 2, 2, 2, total=False), notes=plain(writer.sentence())),
        Slide(headings[2], items([0, 0]), hidden=True),
        Slide(headings[3], table=simple_table(writer, ["item", "count", "date"], 4)),
    ]


def truth_of(slides: list[Slide]) -> dict:
    shown = [(i, slide) for i, slide in enumerate(slides, 1) if not slide.hidden]
    return {
        "pages": len(slides),
        "reading_order": [text for _, slide in shown for text in [slide.title, *(item.text for item in slide.items)]],
        "headings": [{"level": 1, "text": slide.title} for _, slide in shown],
        "tables": [
            {"page": i, "header_rows": slide.table.header_rows, "cells": [cell.truth() for cell in slide.table.cells]} for i, slide in shown if slide.table
        ],
        "running": [],
        "footnotes": [],
        "notes": [{"page": i, "text": slide.notes} for i, slide in shown if slide.notes],
        "hidden": [{"page": i, "text": text} for i, slide in enumerate(slides, 1) if slide.hidden for text in [slide.title, *(x.text for x in slide.items)]],
    }  # fmt: skip


def write_pptx(slides: list[Slide], path: Path) -> None:
    made = pptx.Presentation()
    made.core_properties.created = made.core_properties.modified = CREATED
    layouts = {"title": made.slide_layouts[0], "content": made.slide_layouts[1], "title only": made.slide_layouts[5]}
    for i, source in enumerate(slides):
        page = made.slides.add_slide(layouts["title" if i == 0 else "title only" if source.table else "content"])
        page.shapes.title.text = source.title
        if source.items:
            frame = page.placeholders[1].text_frame
            for j, item in enumerate(source.items):
                paragraph = frame.paragraphs[0] if j == 0 else frame.add_paragraph()
                paragraph.text, paragraph.level = item.text, item.level
        if source.table:
            shape = page.shapes.add_table(source.table.n_rows, source.table.n_columns, Cm(1.5), Cm(4.5), Cm(22), Cm(1) * source.table.n_rows)
            for cell in source.table.cells:
                first = shape.table.cell(cell.row, cell.column)
                if cell.rows * cell.columns > 1:
                    first.merge(shape.table.cell(cell.row + cell.rows - 1, cell.column + cell.columns - 1))
                first.text = cell.text
        if source.notes:
            page.notes_slide.notes_text_frame.text = source.notes
        if source.hidden:
            page._element.set("show", "0")
    made.save(str(path))
    fix_archive(path)


def write_odp(slides: list[Slide], path: Path) -> None:
    made = opendocument.OpenDocumentPresentation()
    layout = style.PageLayout(name="page")
    layout.addElement(style.PageLayoutProperties(margin="0cm", pagewidth="28cm", pageheight="21cm", printorientation="landscape"))
    made.automaticstyles.addElement(layout)
    master = style.MasterPage(name="Default", pagelayoutname=layout)
    made.masterstyles.addElement(master)
    hidden = style.Style(name="hidden", family="drawing-page")
    hidden.addElement(style.DrawingPageProperties(visibility="hidden"))
    made.automaticstyles.addElement(hidden)
    for i, source in enumerate(slides, 1):
        page = draw.Page(name=f"page{i}", masterpagename=master, **({"stylename": hidden} if source.hidden else {}))
        made.presentation.addElement(page)
        title = draw.Frame(width="25cm", height="3cm", x="1.5cm", y="1cm", attributes={"class": "title"})
        box = draw.TextBox()
        box.addElement(text.P(text=source.title))
        title.addElement(box)
        page.addElement(title)
        if source.items:
            frame = draw.Frame(width="25cm", height="14cm", x="1.5cm", y="5cm", attributes={"class": "outline"})
            box = draw.TextBox()
            box.addElement(odf_list(source.items))
            frame.addElement(box)
            page.addElement(frame)
        if source.table:
            frame = draw.Frame(width="25cm", height="10cm", x="1.5cm", y="5cm")
            frame.addElement(odf_table(source.table, f"table{i}"))
            page.addElement(frame)
        if source.notes:
            notes = presentation.Notes()
            frame = draw.Frame(width="17cm", height="12cm", x="2cm", y="14cm", attributes={"class": "notes"})
            box = draw.TextBox()
            box.addElement(text.P(text=source.notes))
            frame.addElement(box)
            notes.addElement(frame)
            page.addElement(notes)
    made.save(str(path))
    fix_archive(path)


def write(folder: Path, seed: int) -> list[dict]:
    (folder / "slide").mkdir(exist_ok=True)
    truths = []
    for suffix, write_deck, count in [("pptx", write_pptx, 4), ("odp", write_odp, 3)]:
        for variant in range(count):
            language = "de" if variant == 2 else "en"
            slides = deck(Writer(Random(f"{seed} {suffix} {variant}"), language))
            name = f"slide/deck-{variant + 1}.{suffix}"
            write_deck(slides, folder / name)
            truths.append({"file": name, "part": "slide", "kind": suffix, "format": suffix, "language": language, **truth_of(slides)})
    return truths
