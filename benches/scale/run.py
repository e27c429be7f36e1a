#!/usr/bin/env python3
"""How time and memory grow with the corpus: 10,000, 100,000 and 1,000,000 documents of 1 kB on one machine.

    benches/scale/run.py [--sizes 10000 100000 1000000] [--reverie target/release/reverie] [--work FOLDER] [--json FILE]

For each size it writes the corpus of `corpus.py` (not measured), and runs an experiment on it: one chunk for each document,
`bm25` and `dense` with the static model of `static_model.py`, ten hits, 100 golden questions. Measured are the first run, a
second run with nothing changed, `plan`, `query` of each trial, a bundle of each trial (`promote`), the bundle behind
`serve` with 200 searches one after the other, and runs after 100 documents were changed, added, moved and removed. Those are undone at the end.

Memory in MB (10⁶ bytes): *anonymous* is the highest of samples every 50 ms (RssAnon), what the kernel cannot take away; *resident* is the
kernel's own peak, with the pages of mapped files. *Processor* is user and system time of all threads. The second table has for each step of the pipeline its
tasks, the sum of their times, the time from the start of the first to the end of the last, and the most anonymous memory in that time: steps overlap.

A command that takes longer than --limit seconds, or more memory than --memory, is stopped, and the commands that need its
result are left out. With --work the corpus stays, and is used again if nobody changed it; the store is always new.
The files were written before, so they are in the page cache: what a disk takes is not in the times.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import http.client
import json
import os
import platform
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import corpus
from process import SAMPLE_SECONDS, Usage, Watched, measure, status

ROOT = Path(__file__).resolve().parents[2]
SEED = 7
# How many documents are changed, added, moved and removed.
CHANGED = 100
# Files that were written just now are read again by the next run, because they may change within the same tick of the clock.
SETTLE_SECONDS = 3
STEPS = ["first", "second", "plan", "query", "promote", "serve", "changed", "added", "moved", "removed"]
RETRIEVERS = "{ bm25 = { top_k = 10 } }, { dense = { top_k = 10 } }"
EXPERIMENT = """name = "{name}"
store = "store"

[corpus]
source = "documents"
{metadata}
[dataset]
path = "golden.jsonl"

[models.words]
embedding.static = {{ model = "{model}" }}

[space]
chunker = [{{ sentence = {{ chunk_size = 1024, chunk_overlap = 0 }} }}]
embedder = ["words"]
{query}retriever = [{retrievers}]

[evaluate]
metrics = ["ndcg", "recall"]
objective = ["ndcg", "recall"]
"""


def experiment(name: str, model: Path, retrievers: str, metadata: str = "", query: str = "") -> str:
    """An experiment file on the made-up corpus."""
    return EXPERIMENT.format(name=name, model=model, retrievers=retrievers, metadata=metadata, query=query)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def machine() -> dict:
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    memory = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    cores = len(os.sched_getaffinity(0))
    return {"processor": model, "cores": cores, "memory_gb": round(memory / 1e6, 1), "system": platform.release(), "load": round(os.getloadavg()[0], 1)}


def folder_size(folder: Path) -> dict:
    """Files and MB below a folder."""
    files = megabytes = 0
    for parent, _, names in os.walk(folder):
        files += len(names)
        megabytes += sum(os.stat(os.path.join(parent, name)).st_size for name in names) / 1e6
    return {"files": files, "mb": round(megabytes, 1)}


class Documents:
    """The corpus of one size in its folder, which can be changed and put back."""

    def __init__(self, folder: Path, count: int, with_metadata: bool):
        self.folder, self.count = folder, count
        self.planted = corpus.planted(count, SEED)
        self.dice = random.Random(f"{SEED} changes of {count}")
        self.mark = folder / "corpus.json"
        written = {"documents": count, "seed": SEED, "metadata": with_metadata, "made_by": hash_of(Path(corpus.__file__))}
        if not self.mark.exists() or json.loads(self.mark.read_text()) != written:
            shutil.rmtree(folder / "documents", ignore_errors=True)
            begin = time.monotonic()
            # In a process of its own, so that the memory of this one stays small.
            command = [sys.executable, corpus.__file__, str(count), str(folder), "--seed", str(SEED), *(["--metadata"] if with_metadata else [])]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            say(f"{count:,} documents: written in {time.monotonic() - begin:.0f} s")
            time.sleep(SETTLE_SECONDS)
        self.written = json.dumps(written)
        self.mark.write_text(self.written)
        self.undo: list = []

    def path(self, number: int) -> Path:
        return self.folder / "documents" / corpus.path_of(number)

    def some(self) -> list[int]:
        """Documents without planted evidence, others each time."""
        free = [number for number in self.dice.sample(range(self.count), min(self.count, 2 * CHANGED + 500)) if number not in self.planted]
        untouched = [number for number in free if self.path(number).exists()]
        return untouched[:CHANGED]

    def rewrite(self, number: int) -> None:
        self.path(number).write_text(corpus.text_of(number, SEED), newline="")

    def change(self) -> None:
        for number in self.some():
            self.undo.append(lambda number=number: self.rewrite(number))
            self.path(number).write_text(corpus.text_of(number, SEED + 1), newline="")

    def add(self) -> None:
        for number in range(self.count, self.count + CHANGED):
            self.undo.append(lambda number=number: self.path(number).unlink())
            self.path(number).parent.mkdir(exist_ok=True)
            self.path(number).write_text(corpus.text_of(number, SEED), newline="")

    def move(self) -> None:
        (self.folder / "documents" / "moved").mkdir(exist_ok=True)
        for number in self.some():
            place = self.folder / "documents" / "moved" / self.path(number).name
            self.undo.append(lambda number=number, place=place: place.rename(self.path(number)))
            self.path(number).rename(place)

    def remove(self) -> None:
        for number in self.some():
            self.undo.append(lambda number=number: self.rewrite(number))
            self.path(number).unlink()

    def put_back(self) -> None:
        while self.undo:
            self.undo.pop()()
        for folder in (self.folder / "documents" / "moved", self.path(self.count).parent):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        self.mark.write_text(self.written)

    def begin_changes(self) -> None:
        """Whoever finds the folder without the mark writes the corpus anew."""
        self.mark.unlink(missing_ok=True)


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def log_lines(store: Path, since_ms: float) -> list[dict]:
    """The events of a run, also those of loading, which have a log of their own, in their order."""
    events = []
    for log in store.glob("runs/*/events.jsonl"):
        if log.stat().st_mtime * 1e3 < since_ms:
            continue
        with open(log) as lines:
            # A line that a killed process left is not whole.
            read = (json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n"))
            events += [event for event in read if event["time_ms"] >= since_ms - 1]
    return sorted(events, key=lambda event: event["time_ms"])


def phases(store: Path, usage: Usage, since_ms: float, ended_ms: float) -> dict:
    """What the event log says of a run: seconds before the first line and after the last, and the tasks of each operator."""
    operators: dict[str, dict] = {}
    first = last = None
    tasks_first = tasks_last = None
    lines, reused = log_lines(store, since_ms), 0
    for event in lines:
        first, last = first or event["time_ms"], event["time_ms"]
        if event["kind"] == "tasks_reused":
            reused = event["count"]
        if event["kind"] not in ("task_started", "task_finished", "task_failed", "task_partial"):
            continue
        tasks_first, tasks_last = tasks_first or event["time_ms"], event["time_ms"]
        row = operators.setdefault(event["operator"], {"tasks": 0, "sum_seconds": 0.0, "begin": event["time_ms"], "end": 0, "rows": 0, "mb": 0.0, "failed": 0})
        if event["kind"] == "task_started":
            continue
        row["tasks"] += 1
        row["end"] = event["time_ms"]
        row["sum_seconds"] += event.get("seconds", 0.0)
        row["rows"] += event.get("rows", 0)
        row["mb"] += event.get("bytes", 0) / 1e6
        row["failed"] += event["kind"] == "task_failed"
    if first is None:
        return {}
    for row in operators.values():
        begin, end = row.pop("begin"), row.pop("end")
        row["anonymous"] = usage.anonymous_between(begin, end or ended_ms)
        row.update(sum_seconds=round(row["sum_seconds"], 2), mb=round(row["mb"], 1), from_s=round((begin - since_ms) / 1e3, 2), span_seconds=round(max(0, end - begin) / 1e3, 2))
    times = {"before_log": (first - since_ms) / 1e3, "log": (last - first) / 1e3, "after_log": (ended_ms - last) / 1e3}
    if tasks_first is not None:
        times |= {"before_tasks": (tasks_first - since_ms) / 1e3, "tasks": (tasks_last - tasks_first) / 1e3, "after_tasks": (ended_ms - tasks_last) / 1e3}
    memory = {"anonymous_before_tasks": usage.anonymous_between(0, tasks_first or last), "anonymous_after_tasks": usage.anonymous_between(tasks_last or last, ended_ms)}
    return {**{name: round(value, 2) for name, value in times.items()}, **memory, "events": len(lines), "reused": reused, "operators": operators}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Size:
    """The measurements with one corpus."""

    def __init__(self, count: int, options: argparse.Namespace, work: Path):
        self.count, self.options, self.results = count, options, {"documents": count, "commands": {}}
        self.folder = work / f"{count}{'-metadata' if options.metadata else ''}"
        self.documents = Documents(self.folder, count, options.metadata)
        self.store, self.logs = self.folder / "store", self.folder / "logs"
        for old in (self.store, self.logs, self.folder / "bundles"):
            shutil.rmtree(old, ignore_errors=True)
        self.logs.mkdir()
        query = 'query = ["none", { filter = { where = { year = { ge = 2008 } } } }]\n' if options.metadata else ""
        table = 'metadata = "metadata.csv"\n' if options.metadata else ""
        (self.folder / "experiment.toml").write_text(experiment("scale", work / "model", RETRIEVERS, table, query))

    def reverie(self, name: str, *arguments: str) -> dict | None:
        """Measures a command, and returns its JSON."""
        since = time.time() * 1e3
        command = [self.options.reverie, *arguments, "--json"]
        usage = measure(command, self.folder, self.logs / name.replace(" ", "-"), self.options.limit, self.options.memory)
        row = self.results["commands"][name] = usage.as_dict()
        if arguments[0] == "run":
            row["phases"] = phases(self.store, usage, since, time.time() * 1e3)
            row["store"] = folder_size(self.store)
        say(f"{self.count:,} documents: {name}: {usage.seconds:.1f} s, {usage.anonymous:,.0f} MB anonymous, {usage.resident:,.0f} MB resident{'; stopped ' + usage.stopped if usage.stopped else ''}")
        if usage.code:
            row["error"] = (self.logs / name.replace(" ", "-")).with_suffix(".err").read_text()[-1000:]
            say(row["error"])
            return None
        try:
            return json.loads((self.logs / name.replace(" ", "-")).with_suffix(".out").read_text())
        except ValueError:
            return {}

    def serve(self, name: str, bundle: str) -> None:
        port, row = free_port(), {}
        since = time.monotonic()
        served = Watched([self.options.reverie, "serve", bundle, "--listen", f"127.0.0.1:{port}"], self.folder, self.logs / name.replace(" ", "-"))
        try:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

            def ask(path: str) -> bytes:
                client.request("GET", path)
                answer = client.getresponse()
                text = answer.read()
                if answer.status != 200:
                    raise OSError(f"{path}: {answer.status} {text[:200]!r}")
                return text

            while True:
                served.sample()
                elapsed = time.monotonic() - since
                if served.has_ended() or elapsed > self.options.limit or served.usage.resident > self.options.memory:
                    row["error"] = f"not ready after {elapsed:.0f} s: {(self.logs / name.replace(' ', '-')).with_suffix('.err').read_text()[-500:]}"
                    return
                try:
                    ask("/health/ready")
                    break
                except (OSError, http.client.HTTPException):
                    client.close()
                    time.sleep(SAMPLE_SECONDS / 5)
            row["ready_seconds"] = round(time.monotonic() - since, 2)
            memory = status(served.process.pid)
            row["ready_anonymous"], row["ready_resident"] = (round(memory.get(field, 0) * 1024 / 1e6, 1) for field in ("RssAnon", "VmRSS"))
            times = []
            for question in (question for by_name, by_number, _ in corpus.questions(SEED) for question in (by_name, by_number)):
                path = f"/rag/retrieve?query={urllib.parse.quote(question)}"
                begin = time.monotonic()
                ask(path)
                times.append(time.monotonic() - begin)
                served.sample()
            # The longest are the first: those before a copy for fast search is made.
            row["first_ms"] = round(1e3 * times[0], 2)
            times.sort()
            row["p50_ms"], row["p99_ms"] = (round(1e3 * times[int(len(times) * share)], 2) for share in (0.5, 0.99))
            memory = status(served.process.pid)
            row["after_anonymous"], row["after_resident"] = (round(memory.get(field, 0) * 1024 / 1e6, 1) for field in ("RssAnon", "VmRSS"))
        except OSError as error:
            row["error"] = str(error)
        finally:
            served.stop(signal.SIGTERM)
            row |= {"anonymous": round(served.usage.anonymous, 1), "resident": round(served.usage.resident, 1), "mapped": round(served.usage.mapped, 1)}
            self.results["commands"][name] = row
            say(f"{self.count:,} documents: {name}: {row}")

    def measure(self) -> dict:
        steps = self.options.steps
        self.results["corpus"] = folder_size(self.folder / "documents")
        results = self.reverie("first run", "run") if "first" in steps else None
        if results:
            self.results["trials"] = {
                trial["trial"]["id"]: {
                    "labels": trial["trial"]["labels"], **{metric: round(value["mean"], 4) for metric, value in trial["metrics"].items()}
                } for trial in results["trials"]
            }  # fmt: skip
            trials = [(trial, values["labels"]["retriever"].split("(")[0]) for trial, values in sorted(self.results["trials"].items())][:2]
            if "second" in steps:
                self.reverie("second run", "run")
            if "plan" in steps:
                self.reverie("plan", "plan")
            for trial, retriever in trials:
                if "query" in steps:
                    self.reverie(f"query {retriever}", "query", "--trial", trial, corpus.questions(SEED)[0][0])
                if "promote" in steps:
                    self.reverie(f"promote {retriever}", "promote", trial, "--output", f"bundles/{trial}")
                    self.results.setdefault("bundles", {})[retriever] = folder_size(self.folder / "bundles" / trial)
                if "serve" in steps and (self.folder / "bundles" / trial).exists():
                    self.serve(f"serve {retriever}", f"bundles/{trial}")
            self.documents.begin_changes()
            try:
                changes = {"changed": self.documents.change, "added": self.documents.add, "moved": self.documents.move, "removed": self.documents.remove}
                for name, change in changes.items():
                    if name in steps:
                        change()
                        time.sleep(SETTLE_SECONDS)
                        if self.reverie(f"run after {CHANGED} {name}", "run") is None:
                            break
            finally:
                self.documents.put_back()
        self.results["store"] = folder_size(self.store)
        if not self.options.keep:
            for large in (self.store, self.folder / "bundles"):
                shutil.rmtree(large, ignore_errors=True)
        return self.results


def tables(measured: list[dict]) -> str:
    """The results as Markdown: a row for each command, and for each step of each run."""
    text = "| documents | command | seconds | processor s | anonymous MB | resident MB | |\n|---:|---|---:|---:|---:|---:|---|\n"
    for size in measured:
        for name, row in size["commands"].items():
            if name.startswith("serve"):
                note = row.get("error") or f"p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms, first {row['first_ms']} ms; {row['ready_anonymous']:,.0f} MB anonymous when ready, {row['after_anonymous']:,.0f} after 200 searches"
                text += f"| {size['documents']:,} | {name} | ready {row.get('ready_seconds', '')} | | {row['anonymous']:,.0f} | {row['resident']:,.0f} | {note} |\n"
                continue
            note = f"stopped {row['stopped']}" if row["stopped"] else "failed" if row["code"] else ""
            times = row.get("phases")
            if not note and times and "tasks" in times:
                parts = [f"{times['before_tasks']:.1f} s before the first task ({times['anonymous_before_tasks']:,.0f} MB)", f"{times['tasks']:.1f} s of tasks"]
                note = ", ".join([*parts, f"{times['after_tasks']:.1f} s after the last ({times['anonymous_after_tasks']:,.0f} MB)"])
            elif not note and times:
                note = "no task"
            text += f"| {size['documents']:,} | {name} | {row['seconds']:,.1f} | {row['processor_seconds']:,.1f} | {row['anonymous']:,.0f} | {row['resident']:,.0f} | {note} |\n"
    text += "\n| documents | run | step | tasks | sum of tasks, s | from, s | span, s | rows | written MB | anonymous MB |\n|---:|---|---|---:|---:|---:|---:|---:|---:|---:|\n"
    for size in measured:
        for name, row in size["commands"].items():
            for operator, step in row.get("phases", {}).get("operators", {}).items():
                text += f"| {size['documents']:,} | {name} | {operator} | {step['tasks']:,} | {step['sum_seconds']:,.1f} | {step['from_s']:,.1f} | {step['span_seconds']:,.1f} | {step['rows']:,} | {step['mb']:,.1f} | {step['anonymous']:,.0f} |\n"
    text += "\n| documents | corpus | store | trials |\n|---:|---|---|---|\n"
    for size in measured:
        trials = "; ".join(f"{values['labels']['retriever']}: ndcg {values.get('ndcg')}, recall {values.get('recall')}" for values in size.get("trials", {}).values())
        store = next((row["store"] for row in size["commands"].values() if "store" in row), size["store"])
        text += f"| {size['documents']:,} | {size['corpus']['mb']:,.1f} MB | {store['files']:,} files, {store['mb']:,.1f} MB after the first run | {trials} |\n"
    return text


def options_of_one_size(description: str) -> argparse.ArgumentParser:
    """The options that `bucket.py` and `cluster.py` have in common: each measures one size of the corpus."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--work", type=Path, help="a folder that keeps corpus and model; default: a new one that is removed")
    parser.add_argument("--limit", type=float, default=1_800, help="the most seconds of one run")
    parser.add_argument("--json", type=Path, help="where the results are written too")
    return parser


def write_model(work: Path) -> None:
    """Writes the static embedder into a work folder, in a process of its own, so that the memory of this one stays small."""
    subprocess.run([sys.executable, ROOT / "benches" / "scale" / "static_model.py", work / "model", "--seed", str(SEED)], check=True)


@contextlib.contextmanager
def prepared(options: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """The work folder with the model, and the folder of the corpus in it."""
    with contextlib.ExitStack() as stack:
        work = (options.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))).resolve()
        write_model(work)
        folder = work / str(options.documents)
        Documents(folder, options.documents, False)
        yield work, folder


def tell(told: dict, place: Path | None) -> None:
    """Prints results as JSON, and writes them there."""
    text = json.dumps(told, indent=1)
    print(text)
    if place:
        place.write_text(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--reverie", type=Path, default=ROOT / "target" / "release" / "reverie")
    parser.add_argument("--work", type=Path, help="a folder that keeps corpus and model; default: a new one that is removed")
    parser.add_argument("--limit", type=float, default=1_800, help="the most seconds of one command")
    parser.add_argument("--memory", type=float, default=20_000, help="the most MB of one command")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS, help="what to measure; all but `first` need it")
    parser.add_argument("--metadata", action="store_true", help="with a table of metadata, and trials that search by year too")
    parser.add_argument("--keep", action="store_true", help="with --work: keep stores and bundles too")
    parser.add_argument("--json", type=Path, help="where the results are written; default: results.json in the work folder, if one is given")
    options = parser.parse_args()
    options.reverie = options.reverie.resolve()
    work = (options.work or Path(tempfile.mkdtemp())).resolve()
    place = options.json or (options.work and work / "results.json")
    try:
        write_model(work)
        told = {"machine": machine(), "date": datetime.date.today().isoformat(), "reverie": hash_of(options.reverie), "sizes": []}
        for count in options.sizes:
            told["sizes"].append(Size(count, options, work).measure())
            if place:
                place.write_text(json.dumps(told, indent=1) + "\n")
        print(tables(told["sizes"]))
    finally:
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
