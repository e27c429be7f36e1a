#!/usr/bin/env python3
"""Judges parsers on the test set of `corpus.py`: tables, reading order, scans, spreadsheets, slides, mails.

    benches/parse/run.py CORPUS [--ours COMMAND] [--peers pdfplumber,docling] [--tools FOLDER] [--parts pdf scan] [--json FILE]

Ours is a command with `{path}` in place of the document, for example --ours "target/release/reverie document {path}". It must
print Markdown in UTF-8 on its standard output, and a form feed (U+000C) between two pages, slides or sheets. Tables are tables
of pipes or HTML tables; headings begin with `#`. Exit status 0, or the document counts as failed. `--peers` takes names of
`peers.py`, or `none`; without it all of them run that can be used here. Those that cannot are named with the reason.

A tool is judged on the kinds of files that it says it reads, so a column may stand for fewer files than its neighbour. A file on
which a tool fails counts as an empty output. With --cache, outputs are kept in a folder and used again, so that only the judging
is done anew; failures are tried again. Run it on an idle machine: the tools run one after the other, each with the threads that
it takes by default.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import judge
import peers

PARTS = ["pdf", "scan", "sheet", "slide", "mail", "document", "large"]
LIMIT_SECONDS = {"large": 600}
OURS = "ours"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def reads(name: str, truth: dict) -> bool:
    return name == OURS or peers.ending(truth) in peers.TOOLS[name].endings


def parse_all(name: str, options: argparse.Namespace, truths: list[dict]) -> list[dict]:
    """The answers of a tool for the documents that it reads, in their order."""
    peer = peers.Peer(name, options.tools) if name != OURS else None
    command = shlex.split(options.ours) if name == OURS else []
    version = options.ours if name == OURS else " ".join(peers.TOOLS[name].packages)
    answers: list[dict] = []
    part = ""
    for number, truth in enumerate(truths, 1):
        if peer and truth["part"] != part:
            # A new process for each part: what a large file leaves behind is not in the memory of others.
            peer.stop()
            part = truth["part"]
        path = options.corpus / truth["file"]
        key = hashlib.sha256(version.encode() + path.read_bytes()).hexdigest()[:24]
        kept = options.cache / name / f"{key}.json" if options.cache else None
        if kept and kept.exists():
            answers.append(json.loads(kept.read_text(encoding="utf-8")))
            continue
        limit = LIMIT_SECONDS.get(truth["part"], 120)
        answer = peer.parse(path, limit) if peer else peers.parse_with_command(command, path, limit)
        answers.append(answer)
        if kept and "error" not in answer:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(answer, ensure_ascii=False), encoding="utf-8")
        if number % 50 == 0:
            say(f"{name}: {number} of {len(truths)} documents")
    if peer:
        peer.stop()
    return answers


# Tables of results.


def mean(values: list[float]) -> float:
    return statistics.fmean(values) if values else float("nan")


def share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in [head, *rows]]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


Scores = list[dict]


def cells(scores: Scores) -> str:
    """The mean over tables of strict and of neighbours."""
    strict = [value for score in scores for value in score.get("strict", [])]
    near = [value for score in scores for value in score.get("neighbours", [])]
    return f"{mean(strict):.3f} / {mean(near):.3f}" if strict else "–"


def average(key: str) -> Callable[[Scores], str]:
    return lambda scores: share(mean([score[key] for score in scores if score.get(key) is not None]))


def by_group(title: str, tools: dict[str, Scores], group: Callable[[dict], str], value: Callable[[Scores], str]) -> str:
    """A row for each group of documents, a column for each tool."""
    groups = sorted({group(score) for scores in tools.values() for score in scores})
    rows = [[name, *(value([score for score in scores if group(score) == name]) for scores in tools.values())] for name in groups]
    rows.append(["all", *(value(scores) for scores in tools.values())])
    return f"### {title}\n\n" + markdown(["", *tools], rows)


def by_tool(title: str, tools: dict[str, Scores], columns: dict[str, Callable[[Scores], str]]) -> str:
    """A row for each tool, a column for each measure."""
    rows = [[name, *(value(scores) for value in columns.values())] for name, scores in tools.items()]
    return f"### {title}\n\n" + markdown(["", *columns], rows)


def per_page(scores: Scores) -> str:
    pages = sum(score["pages"] for score in scores)
    return f"{1000 * sum(score['seconds'] for score in scores) / pages:.0f} ms" if pages else "–"


def memory(scores: Scores) -> str:
    return f"{max((score['peak_mb'] for score in scores), default=0):.0f} MB"


def failed(scores: Scores) -> str:
    return f"{sum('error' in score for score in scores)} of {len(scores)}"


def extra(scores: Scores) -> str:
    return str(sum(score["extra_tables"] for score in scores))


COSTS = {"per page": per_page, "peak memory": memory, "failed": failed}


def report(part: str, tools: dict[str, Scores]) -> list[str]:
    """The tables of a part."""
    if part == "pdf":
        with_tables = {name: [score for score in scores if score["strict"]] for name, scores in tools.items()}
        return [
            by_group("Tables of PDFs by kind: cells, strict / neighbours", with_tables, lambda score: score["kind"], cells),
            by_group("Reading order of PDFs by kind: word errors, less is better", tools, lambda score: score["kind"], average("order_error")),
            by_tool("PDFs in all", tools, {
                "word errors": average("order_error"), "blocks found": average("blocks_found"), "their order (tau)": average("tau"),
                "headings F1": average("headings"), "levels right": average("levels"), "running text left": average("running_left"),
                "divided words joined": average("joined_words"), "footnotes found": average("footnotes"), "extra tables": extra, **COSTS,
            }),
        ]  # fmt: skip
    if part == "scan":

        def errors(scores: Scores) -> str:
            return f"{average('character_error')(scores)} / {average('word_f1')(scores)}"

        return [
            by_group("Scans: character errors / words F1", tools, lambda score: f"{score['dpi']} dpi, {score['condition']}", errors),
            by_group("Scans by kind: character errors / words F1", tools, lambda score: score["kind"], errors),
            by_group("Scans by language: words F1", tools, lambda score: score["language"], average("word_f1")),
            by_group("Scans by format: character errors / words F1", tools, lambda score: score["format"], errors),
            by_tool("Scans in all", tools, {"tables: cells, strict / neighbours": cells, **COSTS}),
        ]
    if part == "sheet":
        return [
            by_group("Spreadsheets by kind: cells, strict / neighbours", tools, lambda score: score["kind"], cells),
            by_group("Spreadsheets by format: cells, strict / neighbours", tools, lambda score: score["format"], cells),
            by_tool("Spreadsheets in all", tools, {
                "shown as a person sees them": average("as_shown"), "each table by itself": average("split"), "hidden sheets shown": average("hidden_left"), **COSTS,
            }),
        ]  # fmt: skip
    if part in ("slide", "document"):
        name = {"slide": "Slides", "document": "Documents"}[part]
        columns = {"word errors": average("order_error"), "headings F1": average("headings"), "levels right": average("levels")}
        if part == "slide":
            columns |= {"notes found": average("notes"), "hidden slides shown": average("hidden_left")}
        else:
            columns |= {"running text left": average("running_left")}
        return [
            by_group(f"{name} by format: cells, strict / neighbours", tools, lambda score: score["format"], cells),
            by_tool(f"{name} in all", tools, {**columns, **COSTS}),
        ]
    if part == "mail":
        return [
            by_group("Mails by kind: word errors, less is better", tools, lambda score: score["kind"], average("order_error")),
            by_tool("Mails in all", tools, {"headers found": average("headers"), "attachments named": average("attachments"),
                                            "attachments' text found": average("attached_text"), **COSTS}),
        ]  # fmt: skip
    return [by_tool("A million cells", tools, {"cells right (sample)": average("sample"), **COSTS})]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="a folder that corpus.py wrote")
    parser.add_argument("--ours", metavar="COMMAND", help="a command with {path} in it")
    parser.add_argument("--peers", default=",".join(peers.TOOLS), help="names divided by commas, or none")
    parser.add_argument("--tools", type=Path, default=Path(tempfile.gettempdir()) / "reverie-parsers", help="where the peers are installed")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keeps the outputs, and uses them again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes every score")
    options = parser.parse_args()
    if not (options.corpus / "truth.json").exists():
        sys.exit(f"{options.corpus} holds no test set; write one:\n{Path(__file__).with_name('corpus.py')} {options.corpus}")
    if options.ours and "{path}" not in options.ours:
        sys.exit("--ours needs {path} where the document's path belongs")
    names = [] if options.peers == "none" else options.peers.split(",")
    if unknown := set(names) - set(peers.TOOLS):
        sys.exit(f"no peer {', '.join(sorted(unknown))}; there are {', '.join(peers.TOOLS)}")
    by_file = {truth["file"]: truth for truth in json.loads((options.corpus / "truth.json").read_text(encoding="utf-8"))}
    truths = sorted((truth for truth in by_file.values() if truth["part"] in options.parts), key=lambda truth: PARTS.index(truth["part"]))

    results: dict[str, Scores] = {}
    for name in [*([OURS] if options.ours else []), *names]:
        mine = [truth for truth in truths if reads(name, truth)]
        if not mine:
            continue
        if name != OURS and (reason := peers.install(name, options.tools)):
            say(f"{name} is left out: {reason}")
            continue
        try:
            answers = parse_all(name, options, mine)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            say(f"{name} is left out: {error}")
            continue
        results[name] = [judge.score_document(truth, answer, by_file) for truth, answer in zip(mine, answers)]
        say(f"{name}: {len(mine)} documents, {sum(answer['seconds'] for answer in answers):.0f} s")
    for part in options.parts:
        tools = {name: found for name, scores in results.items() if (found := [score for score in scores if score["part"] == part])}
        if tools:
            print("\n\n".join(report(part, tools)), end="\n\n")
    for name, scores in results.items():
        for score in scores:
            if "error" in score:
                say(f"{name} failed on {score['file']}: {score['error'][:160]}")
    if options.json:
        options.json.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
