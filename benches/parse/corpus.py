#!/usr/bin/env python3
"""Writes the test set for parsers: documents of many kinds, and the truth of what is in them.

    benches/parse/corpus.py FOLDER [--seed 1] [--large] [--only pdf sheet]

FOLDER/pdf, scan, sheet, slide, mail and document hold about 320 files (60 MB, a minute on one core); FOLDER/truth.json has an
object for each file. The same seed writes the same bytes, with the same versions of the packages in `requirements.txt`.
The words are drawn from lists (`words.py`), so the documents read like reports and mean nothing.

Every object of the truth has `file`, `part` (the folder), `kind`, `language` and `pages`. What else it has, by part:

pdf, slide, document
    `reading_order`: headings, paragraphs, list items, captions and form fields in the order a person reads them; no tables,
    no footnotes, and no marks of lists and footnotes. `tables`: `page`, `header_rows`, and `cells` with `row`, `column`,
    `rows`, `columns` (how many places a cell covers) and `text`; a table over several pages is one table, whose `parts`
    say which rows stand on which page. `headings` (`level`, `text`), `footnotes` (`mark`, `text`), and `running`: what is
    repeated at the head and foot of pages. PDFs have `hyphenated`, the words that are divided at ends of lines, and
    `page_texts`, all the text of each page; slides have `notes` and `hidden`.
scan
    `source` (the PDF), `dpi`, `condition` (clean, skewed, noisy), `format`, and `page_texts`.
sheet
    `sheets`: `name`, `hidden`, `cells` (as in tables; `text` is what a person sees, `also` the same value without its format)
    and `tables`, the areas that are tables: `top`, `left`, `bottom` and `right` (both exclusive), `header_rows`.
mail
    `messages`: `from`, `to`, `subject`, `date`, `body` and `quoted` (blocks of text), `attachments`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

import articles
import mails
import pdfs
import scans
import sheets
import slides

PARTS = ["pdf", "scan", "sheet", "slide", "mail", "document"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--large", action="store_true", help="also a spreadsheet of a million cells")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="only these parts; scans need pdf, mails need pdf and sheet")
    options = parser.parse_args()
    if options.folder.exists() and {path.name for path in options.folder.iterdir()} - {*PARTS, "truth.json"}:
        sys.exit(f"{options.folder} holds other files: name an empty folder")
    for part in PARTS:
        shutil.rmtree(options.folder / part, ignore_errors=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    truths = []
    for part in options.only:
        if part == "scan":
            truths += scans.write(options.folder, options.seed, [truth for truth in truths if truth["part"] == "pdf"])
        elif part == "sheet":
            truths += sheets.write(options.folder, options.seed, options.large)
        else:
            write = {"pdf": pdfs.write, "slide": slides.write, "mail": mails.write, "document": articles.write}[part]
            truths += write(options.folder, options.seed)
    lines = ",\n".join(json.dumps(truth, ensure_ascii=False) for truth in truths)
    (options.folder / "truth.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    counts = {part: sum(truth["part"] == part for truth in truths) for part in options.only}
    print(", ".join(f"{count} {part}" for part, count in counts.items()), f"in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
