#!/usr/bin/env python3
"""Pages a second of parsers on PDFs of one's own, one tool after the other, each document once.

    benches/parse/speed.py FILE.pdf ... --ours "target/release/examples/parse LIBPDFIUM layout {path}" --tools FOLDER [--peers NAME,NAME]

A peer is started and has read the first document once before its time counts; ours is started anew for each document, and
starting is in its time. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import peers
import pypdfium2

LIMIT_SECONDS = 1800


def pages_of(path: Path) -> int:
    with pypdfium2.PdfDocument(path) as pdf:
        return len(pdf)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="+", type=Path)
    options.add_argument("--ours", action="append", default=[], help="a command; it may be given several times")
    options.add_argument("--peers", default="pymupdf4llm,pdfplumber,markitdown")
    options.add_argument("--tools", type=Path, required=True)
    given = options.parse_args()
    pages = sum(map(pages_of, given.files))
    print(f"{len(given.files)} documents, {pages} pages\n\n| | pages a second | peak memory, MB | failed |\n|---|---|---|---|")
    for command in given.ours:
        show(command, pages, [peers.parse_with_command(shlex.split(command), path, LIMIT_SECONDS) for path in given.files])
    for name in filter(None, given.peers.split(",")):
        if reason := peers.install(name, given.tools):
            print(f"{name}: {reason}", file=sys.stderr)
            continue
        peer = peers.Peer(name, given.tools)
        peer.parse(given.files[0], LIMIT_SECONDS)
        show(name, pages, [peer.parse(path, LIMIT_SECONDS) for path in given.files])
        peer.stop()


def show(name: str, pages: int, answers: list[dict]) -> None:
    failed = sum("error" in answer for answer in answers)
    seconds = sum(answer["seconds"] for answer in answers)
    memory = max(answer["peak_mb"] for answer in answers)
    print(f"| {name} | {pages / seconds:.1f} | {memory:.0f} | {failed} |", flush=True)


if __name__ == "__main__":
    main()
