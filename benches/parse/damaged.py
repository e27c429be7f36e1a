#!/usr/bin/env python3
"""Damages files of the test set of `corpus.py`, and runs the whole program over them: none may be lost, hang or end the run.

    benches/parse/damaged.py CORPUS --reverie target/release/reverie [--files 200] [--seed 1] [--parsers text layout]

For each ending it writes damaged files: cut off, with changed bytes, with pieces removed, doubled or exchanged with another file, or
with huge numbers. In archives it mostly damages a member and packs it again, so that the damage reaches the parser. Each parser reads
all files in a run with one question. The script prints how many files gave documents or were rejected, which were lost, the time, and
the peak memory of all processes. Exit status 1 if a file was lost or a run failed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

ARCHIVES = {"docx", "epub", "odp", "ods", "odt", "pptx", "xlsx"}
CLEAN = "The ferry to Moreton leaves at seven in the morning, and returns at nine in the evening."
EXPERIMENT = """name = "damaged"
store = "store"
[corpus]
source = "docs"
include = ["**/*"]
[dataset]
path = "golden.jsonl"
[space]
parse = "{parser}"
chunker = ["sentence"]
retriever = [{{ bm25 = {{ top_k = 5 }} }}]
[evaluate]
metrics = ["recall"]
"""


def damage(whole: bytes, other: bytes, dice: random.Random) -> bytes:
    """A file with one to three kinds of damage."""
    made = bytearray(whole)
    for _ in range(dice.randint(1, 3)):
        if not made:
            break
        start = dice.randrange(len(made))
        end = min(len(made), start + dice.choice([1, 4, 64, 1024, len(made) // 3 + 1]))
        kind = dice.randrange(7)
        if kind == 0:
            del made[start:]
        elif kind == 1:
            for _ in range(dice.choice([1, 8, 64])):
                made[dice.randrange(len(made))] = dice.randrange(256)
        elif kind == 2:
            del made[start:end]
        elif kind == 3:
            made[start:start] = bytes(made[start:end]) * dice.choice([1, 1, 20])
        elif kind == 4:
            at = dice.randrange(len(other))
            made[start:end] = other[at : at + (end - start)]
        elif kind == 5:
            numbers = list(re.finditer(rb"\d+", bytes(made)))
            if numbers:
                found = dice.choice(numbers)
                made[found.start() : found.end()] = dice.choice([b"-1", b"0", b"4294967296", b"999999999999999999999", b"1e308"])
        else:
            made[start:start] = bytes([dice.choice([0, 0x20, 0x3C, 0x7C, 0xFF])]) * dice.choice([10, 10_000])
    return bytes(made)


def damage_member(whole: bytes, other: bytes, dice: random.Random) -> bytes:
    """An archive, one member of which is damaged before it is packed."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as source, zipfile.ZipFile(io.BytesIO(other)) as another, zipfile.ZipFile(target, "w") as made:
        names = [name for name in source.namelist() if source.getinfo(name).file_size]
        chosen = dice.choice(names)
        for name in source.namelist():
            content = source.read(name)
            if name == chosen:
                content = damage(content, another.read(chosen) if chosen in another.namelist() else whole, dice)
            made.writestr(name, content, source.getinfo(name).compress_type)
    return target.getvalue()


def write_files(corpus: Path, docs: Path, count: int, dice: random.Random) -> list[str]:
    """Writes the damaged files: so many of each ending. Returns the endings."""
    of_ending = defaultdict(list)
    for path in sorted(corpus.rglob("*.*")):
        # Large pictures only take longer to read.
        if path.name != "truth.json" and 0 < path.stat().st_size < 400_000:
            of_ending[path.suffix[1:]].append(path.read_bytes())
    for ending, files in of_ending.items():
        for number in range(count):
            whole, other = dice.choice(files), dice.choice(files)
            inner = ending in ARCHIVES and dice.random() < 0.7
            (docs / f"{ending}-{number:04}.{ending}").write_bytes((damage_member if inner else damage)(whole, other, dice))
    return sorted(of_ending)


def processes(session: int) -> list[int]:
    """The processes of a session: those that read PDFs have groups of their own."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if os.getsid(int(folder.name)) == session:
                    found.append(int(folder.name))
    return found


def memory_mb(session: int) -> float:
    """The resident memory of the processes of a session, now."""
    pages = 0
    for process in processes(session):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def run(command: list[str], folder: Path, limit: float) -> tuple[int | None, str, str, float, float]:
    """Runs a command. Returns its exit status (none at the time limit), output, errors, seconds and peak memory in MB."""
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        begun, peak = time.monotonic(), 0.0
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, start_new_session=True)
        while process.poll() is None and time.monotonic() - begun < limit:
            peak = max(peak, memory_mb(process.pid))
            time.sleep(0.1)
        status = process.poll()
        if status is None:
            for one in processes(process.pid):
                with contextlib.suppress(OSError):
                    os.kill(one, 9)
            process.wait()
    return status, (folder / "out").read_text(), (folder / "err").read_text(), time.monotonic() - begun, peak


def paths_in(table: Path) -> list[str]:
    """The paths of the documents in a table of a store; none of a table of another kind."""
    if "rejected" not in pq.read_schema(table).names:
        return []
    rows = pq.read_table(table, columns=["path", "rejected"]).to_pylist()
    return [row["path"] for row in rows if row["rejected"] == "null"]


def judge(parser: str, folder: Path, reverie: Path, limit: float) -> bool:
    """Whether a run with a parser accounts for every file."""
    (folder / "experiment.toml").write_text(EXPERIMENT.format(parser=parser))
    shutil.rmtree(folder / "store", ignore_errors=True)
    status, out, err, seconds, peak = run([str(reverie), "run", "--quiet", "--json"], folder, limit)
    if status != 0:
        what = "it took too long" if status is None else f"exit status {status}"
        print(f"{parser}: {what} after {seconds:.0f} s; see {folder}/err:\n{err[-2000:]}")
        return False
    results = json.loads(out)
    rejected = {each["path"]: each["reason"] for each in results["rejected"]}
    documents = {path for table in (folder / "store").rglob("*.parquet") for path in paths_in(table)}
    # A mailbox gives no document itself: its mails show that it was read.
    known = {path.split("/")[0] if ".mbox/" in path else path for path in documents | set(rejected)}
    written = {path.name for path in (folder / "docs").iterdir()}
    lost = sorted(written - known)
    print(
        f"{parser}: {len(written)} files gave {results['documents']} documents; {len(rejected)} files were "
        f"rejected, with those in mails; {len(lost)} were lost; {seconds:.0f} s, {peak:.0f} MB"
    )
    if lost or len(documents) != results["documents"]:
        print(f"    lost: {', '.join(lost[:20])}; {len(documents)} documents are in the store")
    reasons = defaultdict(int)
    for path, reason in rejected.items():
        kind, detail = next(iter(reason.items())) if isinstance(reason, dict) else (reason, "")
        reasons[path.rsplit(".", 1)[-1], f"{kind}: {detail}"[:90]] += 1
    for (ending, reason), count in sorted(reasons.items(), key=lambda each: -each[1])[:12]:
        print(f"    {count:5} .{ending}: {reason}")
    return not lost and len(documents) == results["documents"]


def main() -> int:
    """Damages the files, and runs the parsers over them."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("corpus", type=Path, help="a folder that corpus.py wrote")
    options.add_argument("--reverie", type=Path, required=True)
    options.add_argument("--files", type=int, default=200, help="damaged files of each ending")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--parsers", nargs="+", default=["text", "layout"])
    options.add_argument("--limit", type=float, default=3600, help="seconds for a run")
    options.add_argument("--folder", type=Path, help="where the files are written; else a temporary folder")
    given = options.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="damaged-"))
    (folder / "docs").mkdir(parents=True)
    endings = write_files(given.corpus, folder / "docs", given.files, random.Random(given.seed))
    print(f"{folder}: {given.files} damaged files of each ending: {', '.join(endings)}")
    (folder / "docs" / "clean.md").write_text(f"# Ferries\n\n{CLEAN}\n")
    question = {"id": "q1", "question": "When does the ferry leave?", "evidence": [{"document": "clean.md", "quote": CLEAN}]}
    (folder / "golden.jsonl").write_text(json.dumps(question) + "\n")
    return 0 if all([judge(parser, folder, given.reverie.resolve(), given.limit) for parser in given.parsers]) else 1


if __name__ == "__main__":
    sys.exit(main())
