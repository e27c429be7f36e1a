#!/usr/bin/env python3
"""Makes an experiment of the test set: do answers in table cells and scans depend on the parser?

    benches/parse/questions.py CORPUS FOLDER

writes into FOLDER the PDFs of which there is no scan and one scan (200 dpi) of each other one, 30 golden questions (15 of cells of
tables, 15 of cells of scanned tables), and `experiment.toml`. The evidence of a question is the text of the cell, which stands once
in its document. `reverie run -f FOLDER/experiment.toml` needs `pp-ocrv6-small`, `onnxruntime` and `pdfium`.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

EXPERIMENT = """name = "tables-and-scans"
store = "store"

[corpus]
source = "docs"
include = ["**/*.pdf", "**/*.jpg", "**/*.tiff", "**/*.webp"]

[dataset]
path = "golden.jsonl"

[space]
parse = ["text", "layout", { pdf = "ocr", "*.jpg" = "ocr", "*.tiff" = "ocr", "*.webp" = "ocr" }]
chunker = [{ sentence = { chunk_size = 128, chunk_overlap = 0 } }, { table = {} }]
enrich = ["none", "heading"]
retriever = [{ bm25 = { top_k = 5 } }]

[evaluate]
metrics = ["recall", "ndcg"]
"""


def cells(table: dict) -> dict[tuple[int, int], str]:
    """The text of each place; a cell that covers several stands in all of them."""
    return {
        (row, column): cell["text"]
        for cell in table["cells"]
        for row in range(cell["row"], cell["row"] + cell["rows"])
        for column in range(cell["column"], cell["column"] + cell["columns"])
    }


def questions(truth: dict, name: str, random: random.Random) -> list[dict]:
    """A question for each row of each table whose cell can be told from all other text of the document."""
    text, title = " ".join(truth["page_texts"]), truth["reading_order"][0]
    found = []
    for table in truth["tables"]:
        places = cells(table)
        rows, columns = (max(place[side] for place in places) + 1 for side in (0, 1))
        for row in range(table["header_rows"], rows if columns > 2 else 0):
            column = random.randrange(1, columns)
            value, label = places.get((row, column), ""), places.get((row, 0), "")
            head = " ".join(dict.fromkeys(places.get((row, column), "") for row in range(table["header_rows"])))
            is_number = 5 <= len(value) <= 16 and any(letter.isdigit() for letter in value)
            if label and head and is_number and text.count(value) == 1:
                question = f"In “{title}”, what is the {head} of {label}?"
                found.append({"question": question, "reference": value, "evidence": [{"document": name, "quote": value}]})
    return found


def main() -> None:
    corpus, folder = Path(sys.argv[1]), Path(sys.argv[2])
    choice = random.Random(3)
    truth = json.loads((corpus / "truth.json").read_text())
    by_file = {document["file"]: document for document in truth}
    scans: dict[str, list[dict]] = {}
    for scan in truth:
        if scan["part"] == "scan" and scan["dpi"] == 200:
            scans.setdefault(scan["source"], []).append(scan)
    own = [document for document in truth if document["part"] == "pdf" and document["file"] not in scans]
    chosen = [choice.choice(of_one) for of_one in scans.values()]
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    for document in own + chosen:
        shutil.copy(corpus / document["file"], folder / "docs")
    of_tables: list[dict] = []
    of_scans: list[dict] = []
    for document, asked, most in [(it, of_tables, 1) for it in own] + [(it, of_scans, 2) for it in chosen]:
        source = by_file[document.get("source", document["file"])]
        if source["language"] == "en":
            found = questions(source, Path(document["file"]).name, choice)
            asked.extend(choice.sample(found, min(most, len(found))))
    golden = [choice.sample(asked, 15) for asked in (of_tables, of_scans)]
    lines = [json.dumps({"id": f"q{number:02}", **question}) for number, question in enumerate(sum(golden, []), 1)]
    (folder / "golden.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "experiment.toml").write_text(EXPERIMENT)
    print(f"{len(own)} PDFs, {len(chosen)} scans, {len(lines)} questions")


if __name__ == "__main__":
    main()
