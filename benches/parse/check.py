#!/usr/bin/env python3
"""Checks the test set a second way: what other libraries read in the files is what the truth says.

    benches/parse/check.py CORPUS

- PDFs: the characters that PDFium reads on each page are those of the page's text in the truth (hyphens apart), and that text
  holds the blocks, cells, notes and running texts. No text stands outside its page.
- XLSX: openpyxl finds the same values, merged cells and hidden sheets. DOCX and PPTX: the same texts and tables.
- Mails: Python's `email` decodes the same subjects and bodies.

Exit status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import email
import email.policy
import json
import mailbox
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import docx
import openpyxl
import pptx
import pypdfium2

from output import normalize, plain


def characters(text: str) -> Counter:
    """Every character but white space and hyphens: PDFium has a sign of its own for the hyphen at the end of a line."""
    return Counter(re.sub(r"[\s\-\ufffe\u0002\u00ad]", "", text))


def words(text: str) -> Counter:
    return Counter(normalize(text).split())


def pdf_faults(truth: dict, path: Path) -> Iterator[str]:
    pdf = pypdfium2.PdfDocument(path)
    pdf.init_forms()
    for number, text in enumerate(truth["page_texts"], 1):
        page = pdf[number - 1]
        read = page.get_textpage()
        found, wanted = characters(read.get_text_range()), characters(text)
        if path.stem == "form-5":
            # The values of fields are not among the page's text.
            wanted -= characters("".join(truth["fields"].values()))
        if found != wanted:
            yield f"page {number} has {dict(found - wanted)} more and {dict(wanted - found)} less"
        width, height = page.get_size()
        if page.get_rotation() in (90, 270):
            width, height = height, width
        for i in range(read.count_chars()):
            left, bottom, right, top = read.get_charbox(i)
            if right > left and not (0 <= left and right <= width and 0 <= bottom and top <= height):
                yield f"page {number}: {read.get_text_range(i, 1)!r} stands outside the page"
                break
    parts = [*truth["reading_order"], *(entry["text"] for entry in truth["running"]), *(note["text"] for note in truth["footnotes"])]
    parts += [cell["text"] for table in truth["tables"] for cell in table["cells"]]
    missing = words("\n".join(parts)) - words("\n".join(truth["page_texts"]))
    if missing:
        yield f"the pages' text lacks {list(missing)[:5]}"


def xlsx_faults(truth: dict, path: Path) -> Iterator[str]:
    book = openpyxl.load_workbook(path, data_only=True)
    for one in truth["sheets"]:
        page = book[one["name"]]
        if (page.sheet_state == "hidden") != one["hidden"]:
            yield f"{one['name']} is {page.sheet_state}"
        found = {(cell.row - 1, cell.column - 1): cell.value for row in page.iter_rows() for cell in row if cell.value is not None}
        wanted = {(cell["row"], cell["column"]): {cell["text"], *cell.get("also", [])} for cell in one["cells"]}
        for place in found.keys() | wanted.keys():
            value = found.get(place)
            texts = {str(value), repr(value), str(float(value)) if isinstance(value, (int, float)) else ""}
            if not texts & wanted.get(place, set()):
                yield f"{one['name']} {place}: {value!r} is not {wanted.get(place)}"
        merged = {(area.min_row - 1, area.min_col - 1, area.size["rows"], area.size["columns"]) for area in page.merged_cells.ranges}
        if merged != {(cell["row"], cell["column"], cell["rows"], cell["columns"]) for cell in one["cells"] if cell["rows"] * cell["columns"] > 1}:
            yield f"{one['name']}: other merged cells"


def table_faults(truth: dict, tables: list) -> Iterator[str]:
    """Tables of python-docx or python-pptx: the text at the first place of each cell."""
    if len(tables) != len(truth["tables"]):
        yield f"{len(tables)} tables"
    for wanted, found in zip(truth["tables"], tables):
        for cell in wanted["cells"]:
            if found.cell(cell["row"], cell["column"]).text != cell["text"]:
                yield f"cell {cell['row']}, {cell['column']} is not {cell['text']!r}"


def docx_faults(truth: dict, path: Path) -> Iterator[str]:
    document = docx.Document(str(path))
    if [text for paragraph in document.paragraphs if (text := paragraph.text)] != truth["reading_order"]:
        yield "other paragraphs"
    yield from table_faults(truth, document.tables)


def pptx_faults(truth: dict, path: Path) -> Iterator[str]:
    slides = list(pptx.Presentation(str(path)).slides)
    shown = [slide for slide in slides if slide._element.get("show") != "0"]
    texts = [p.text for slide in shown for shape in slide.shapes if shape.has_text_frame for p in shape.text_frame.paragraphs if p.text]
    if texts != truth["reading_order"]:
        yield "other texts"
    yield from table_faults(truth, [shape.table for slide in shown for shape in slide.shapes if shape.has_table])


def mail_faults(truth: dict, path: Path) -> Iterator[str]:
    if path.suffix == ".mbox":
        messages = [email.message_from_bytes(bytes(one), policy=email.policy.default) for one in mailbox.mbox(path)]
    else:
        message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        messages = [message, *(part for part in message.iter_attachments() if part.get_content_type() == "message/rfc822")]
        messages = [part.get_content() if part.get_content_type() == "message/rfc822" else part for part in messages]
    if len(messages) != len(truth["messages"]):
        yield f"{len(messages)} messages"
    for wanted, message in zip(truth["messages"], messages):
        if message["subject"] != wanted["subject"] or not str(message["from"]).strip('"').startswith(wanted["from"]):
            yield f"subject {message['subject']!r} from {message['from']!r}"
        found = plain(re.sub(r"</?(p|blockquote)>", "\n", message.get_body(("plain", "html")).get_content()))
        missing = words("\n".join([*wanted["body"], *wanted["quoted"]])) - words(re.sub(r"(?m)^>+ ?", "", found))
        if missing:
            yield f"the body lacks {list(missing)[:5]}"
        names = [part.get_filename() for part in message.iter_attachments() if part.get_filename()]
        if names != [attachment["name"] for attachment in wanted["attachments"]]:
            yield f"attachments {names}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    options = parser.parse_args()
    checks = {".xlsx": xlsx_faults, ".docx": docx_faults, ".pptx": pptx_faults, ".eml": mail_faults, ".mbox": mail_faults}
    checked = n_faults = 0
    for truth in json.loads((options.corpus / "truth.json").read_text(encoding="utf-8")):
        path = options.corpus / truth["file"]
        check = pdf_faults if truth["part"] == "pdf" else checks.get(path.suffix)
        if check is None or truth["part"] in ("scan", "large"):
            continue
        checked += 1
        for fault in check(truth, path):
            n_faults += 1
            print(f"{truth['file']}: {fault}")
    print(f"{checked} files checked, {n_faults} differences")
    sys.exit(n_faults > 0)


if __name__ == "__main__":
    main()
