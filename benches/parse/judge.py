"""Compares the answer of a tool for a document with its truth, by the measures of `measures.py`."""

from __future__ import annotations

import re

import measures
from measures import true_grid
from output import Output, normalize, read_output

# A found table that is at least as similar as this to one of the truth is that table, and no text.
SAME_TABLE = 0.3
HEADER_LINE = re.compile(r"^\W*(From|To|Cc|Bcc|Subject|Date|Sent|Message-ID|Attachments?|Von|An|Betreff|Datum|Anlagen?)\W*:", re.IGNORECASE)


def score_document(truth: dict, answer: dict, by_file: dict[str, dict]) -> dict:
    """The scores of a document. `by_file` has the truths of all documents, for scans and attachments."""
    found = read_output(answer["text"])
    judge = JUDGES[truth["part"]]
    common = {key: truth[key] for key in ("file", "part", "kind", "language", "pages", "format", "dpi", "condition") if key in truth}
    common |= {key: answer[key] for key in ("seconds", "peak_mb", "error") if key in answer}
    return {**common, **judge(truth, found, by_file)}


def score_tables(truths: list[dict], found: Output) -> tuple[dict, set[int]]:
    """The scores of tables, and the numbers of the found tables that are one of them."""
    grids = [(true_grid(table["cells"]), table["header_rows"]) for table in truths]
    scores = measures.match_tables(grids, [table.grid for table in found.tables])
    same = {
        match
        for match, strict, near in zip(scores.matches, scores.strict, scores.neighbours)
        if match >= 0 and max(strict, near) >= SAME_TABLE
    }  # fmt: skip
    return {"strict": scores.strict, "neighbours": scores.neighbours, "extra_tables": len(found.tables) - len(same)}, same


def score_order(blocks: list[str], lines: list[str]) -> dict:
    share, tau = measures.block_order(blocks, lines)
    return {"order_error": measures.order_error(blocks, lines), "blocks_found": share, "tau": tau}


def table_texts(tables: list[dict]) -> list[str]:
    return [cell["text"] for table in tables for cell in table["cells"]]


def score_text(truth: dict, found: Output, by_file: dict[str, dict], left_out: list[str] | None = None) -> dict:
    """Tables, reading order, headings, running text: PDFs, documents and slides."""
    scores, same = score_tables(truth["tables"], found)
    running = [entry["text"] for entry in truth["running"]]
    footnotes = [note["text"] for note in truth["footnotes"]]
    others = [*table_texts(truth["tables"]), *running, *footnotes, *(left_out or [])]
    scores |= score_order(truth["reading_order"], measures.relevant_lines(found.lines(same), truth["reading_order"], others))
    if truth["headings"]:
        wanted = [(heading["level"], heading["text"]) for heading in truth["headings"]]
        scores["headings"], scores["levels"] = measures.compare_headings(wanted, found.headings)
    if running:
        scores["running_left"] = measures.running_left(truth["running"], found)
    if divided := truth.get("hyphenated"):
        scores["joined_words"] = measures.joined_words(divided, truth["reading_order"], found.lines())
    if footnotes:
        scores["footnotes"] = measures.found_share(footnotes, found.lines())
    return scores


def score_slide(truth: dict, found: Output, by_file: dict[str, dict]) -> dict:
    notes, hidden = ([entry["text"] for entry in truth[key]] for key in ("notes", "hidden"))
    scores = score_text(truth, found, by_file, left_out=[*notes, *hidden])
    return {**scores, "notes": measures.found_share(notes, found.lines()), "hidden_left": measures.found_share(hidden, found.lines())}


def score_scan(truth: dict, found: Output, by_file: dict[str, dict]) -> dict:
    wanted, got = "\n".join(truth["page_texts"]), "\n".join(found.lines())
    scores = {"character_error": measures.character_error(wanted, got), "word_f1": measures.word_f1(wanted, got)}
    tables = [table for table in by_file[truth["source"]]["tables"] if table["page"] <= truth["pages"]]
    return {**scores, **score_tables(tables, found)[0]}


def score_sheet(truth: dict, found: Output, by_file: dict[str, dict]) -> dict:
    """A workbook as grids of whole sheets, or as the tables that stand on them, whichever fits better."""
    shown = [one for one in truth["sheets"] if not one["hidden"]]
    whole = [(true_grid(one["cells"]), 1) for one in shown]
    areas = [
        (true_grid(inside(one["cells"], area), area["top"], area["left"]), area["header_rows"])
        for one in shown
        for area in one["tables"]
    ]  # fmt: skip
    grids = [table.grid for table in found.tables]
    by_sheet, by_area = measures.match_tables(whole, grids), measures.match_tables(areas, grids)
    best = max(by_sheet, by_area, key=lambda scores: sum(scores.strict + scores.neighbours) / len(scores.strict))
    scores = {"strict": best.strict, "neighbours": best.neighbours, "as_shown": as_shown(shown, found)}
    if any(len(one["tables"]) > 1 for one in shown):
        scores["split"] = sum(by_area.strict) / len(by_area.strict)
    hidden = [(true_grid(one["cells"]), 1) for one in truth["sheets"] if one["hidden"]]
    if hidden:
        near = measures.match_tables(hidden, grids).neighbours
        scores["hidden_left"] = sum(value > 0.5 for value in near) / len(near)
    return scores


def inside(cells: list[dict], area: dict) -> list[dict]:
    return [cell for cell in cells if area["top"] <= cell["row"] < area["bottom"] and area["left"] <= cell["column"] < area["right"]]


def as_shown(sheets: list[dict], found: Output) -> float | None:
    """The share of formatted values (dates, percent, amounts) that stand in the output as a person sees them."""
    texts = {cell for table in found.tables for row in table.grid for cell in row}
    wanted = [normalize(cell["text"]) for one in sheets for cell in one["cells"] if normalize(cell["text"]) not in map(normalize, cell.get("also", [])) and "also" in cell]
    return sum(value in texts for value in wanted) / len(wanted) if wanted else None


def score_mail(truth: dict, found: Output, by_file: dict[str, dict]) -> dict:
    messages = truth["messages"]
    headers = [message[key] for message in messages for key in ("from", "to", "subject")]
    attached = [attachment for message in messages for attachment in message["attachments"]]
    contents = [by_file[attachment["file"]] for attachment in attached]
    left_out = [attachment["name"] for attachment in attached]
    for content in contents:
        left_out += [*content.get("reading_order", []), *table_texts(content.get("tables", [])), *table_texts(content.get("sheets", []))]
    subjects = {normalize(message["subject"]) for message in messages}
    lines = found.lines()
    # The bodies of the set have no tables: those that are found are attachments or headers.
    body = [line for line in found.lines(set(range(len(found.tables)))) if not HEADER_LINE.match(line) and normalize(line) not in subjects]
    body = measures.relevant_lines(body, truth["reading_order"], left_out)
    scores = score_order(truth["reading_order"], body) | {"headers": measures.found_share(headers, lines)}
    if attached:
        whole = "\n".join(lines)
        scores["attachments"] = sum(attachment["name"] in whole for attachment in attached) / len(attached)
        samples = [text_sample(content) for content in contents]
        scores["attached_text"] = sum(measures.found_share(sample, lines) for sample in samples) / len(samples)
    return scores


def text_sample(content: dict) -> list[str]:
    """Texts by which an attachment is known again."""
    if "sheets" in content:
        return [cell["text"] for cell in content["sheets"][0]["cells"] if cell["row"] > 0][:20]
    return content["reading_order"]


def score_large(truth: dict, found: Output, by_file: dict[str, dict]) -> dict:
    grid = max((table.grid for table in found.tables), key=len, default=[])
    right = sum(
        cell["row"] < len(grid) and cell["column"] < len(grid[cell["row"]]) and grid[cell["row"]][cell["column"]] == cell["text"]
        for cell in truth["sample"]
    )  # fmt: skip
    return {"sample": right / len(truth["sample"])}


JUDGES = {
    "pdf": score_text,
    "document": score_text,
    "slide": score_slide,
    "scan": score_scan,
    "sheet": score_sheet,
    "mail": score_mail,
    "large": score_large,
}
