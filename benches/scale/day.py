#!/usr/bin/env python3
"""A day in the life of a corpus: `watch` and `serve` while documents are edited, moved, removed and added.

    benches/scale/day.py [--documents 1000] [--changes 50] [--seconds 60] [--per-second 20] [--reverie target/release/reverie] [--work FOLDER]

Writes the corpus of `corpus.py` with a word of its own in each document, runs the experiment (one trial: `hybrid`), starts
`reverie watch` and `reverie serve`, and asks for words of random documents at a steady rate, with the next question sent
on time whether or not the one before was answered. Meanwhile documents change at random moments.
Told are: requests that failed; how long a change took until an answer knew it; answers that came from a document more
than five seconds after it was removed; and the work of the updates beside that of the first run (processor seconds).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import corpus
import static_model
from run import SEED, experiment, free_port

ROOT = Path(__file__).resolve().parents[2]
# An answer may come from a removed document for so long.
ALLOWED_SECONDS = 5.0


class Day:
    def __init__(self, options: argparse.Namespace, work: Path):
        self.options, self.work, self.dice = options, work, random.Random(SEED)
        self.lock = threading.Lock()
        # The word of each document that is there, by path; and when a document was removed.
        self.words: dict[str, str] = {}
        self.removed: dict[str, float] = {}
        # Words that no answer has known yet: when they were written, and in which document.
        self.waiting: dict[str, tuple[str, float, str]] = {}
        self.latency: dict[str, list[float]] = {"edited": [], "added": [], "moved": []}
        self.gone: list[float] = []
        self.failures: list[str] = []
        self.late: list[str] = []
        self.times: list[float] = []
        self.asked = self.versions = 0
        self.number = options.documents

    def document(self, path: str) -> Path:
        return self.work / "documents" / path

    def write(self, path: str, number: int) -> str:
        word = f"marker{self.dice.randrange(10**12):012}"
        text = corpus.text_of(number, SEED, corpus.planted(self.options.documents, SEED).get(number))
        self.document(path).parent.mkdir(parents=True, exist_ok=True)
        # A rename is seen as a whole; half a file would be read as a document of its own.
        draft = self.work / "draft"
        draft.write_text(f"{text.rstrip()} The word of this document is {word}.\n")
        draft.rename(self.document(path))
        return word

    def change(self) -> None:
        kind = self.dice.choice(["edited", "moved", "removed", "added"])
        with self.lock:
            planted = {corpus.path_of(number) for number in corpus.planted(self.options.documents, SEED)}
            path = self.dice.choice([path for path in self.words if path not in planted])
            now = time.monotonic()
            if kind in ("edited", "added"):
                if kind == "added":
                    path, self.number = corpus.path_of(self.number), self.number + 1
                self.words[path] = word = self.write(path, int(Path(path).stem[-7:]))
                self.waiting[word] = (kind, now, path)
            elif kind == "moved":
                place = f"moved/{Path(path).name}"
                self.document(place).parent.mkdir(exist_ok=True)
                self.document(path).rename(self.document(place))
                word = self.words.pop(path)
                self.words[place] = word
                self.removed[path] = now
                self.waiting[word] = (kind, now, place)
            else:
                self.document(path).unlink()
                self.words.pop(path)
                self.removed[path] = now

    def ask(self, url: str) -> None:
        with self.lock:
            waiting = list(self.waiting)
            word = self.dice.choice(waiting) if waiting and self.dice.random() < 0.5 else self.dice.choice(list(self.words.values()))
        begin = time.monotonic()
        try:
            with urllib.request.urlopen(f"{url}/rag/retrieve?query={urllib.parse.quote(f'the word of this document is {word}')}&top_k=10", timeout=60) as answer:
                found = json.load(answer)
        except Exception as error:  # noqa: BLE001
            self.failures.append(f"{type(error).__name__}: {error}")
            return
        now = time.monotonic()
        self.times.append(now - begin)
        with self.lock:
            for passage in found["passages"]:
                path = passage["file"]
                gone = self.removed.get(path)
                if gone is not None and begin - gone > 0:
                    self.gone.append(begin - gone)
                    if begin - gone > ALLOWED_SECONDS:
                        self.late.append(f"{path} {begin - gone:.1f} s after it was removed")
                if word in passage["text"] and (waited := self.waiting.get(word)) and waited[2] == path:
                    self.latency[waited[0]].append(now - waited[1])
                    del self.waiting[word]

    def run(self) -> dict:
        options, work = self.options, self.work
        for number in range(options.documents):
            path = corpus.path_of(number)
            self.words[path] = self.write(path, number)
        with open(work / "golden.jsonl", "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in corpus.golden(options.documents, SEED))
        static_model.write(work / "model", SEED)
        (work / "experiment.toml").write_text(experiment("day", work / "model", "{ hybrid = { top_k = 10 } }"))
        time.sleep(3)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        subprocess.run([options.reverie, "run", "--quiet", "--json"], cwd=work, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        first_run = time.monotonic() - begin
        first_processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        watch_out = open(work / "watch.out", "wb")
        watch = subprocess.Popen([options.reverie, "watch", "--output", "live", "--every", str(options.every), "--json"], cwd=work, stdout=watch_out, stderr=open(work / "watch.err", "wb"))
        while not (work / "live" / "current.json").exists():
            time.sleep(0.05)
        port = free_port()
        serve = subprocess.Popen([options.reverie, "serve", "live", "--listen", f"127.0.0.1:{port}", "--json"], cwd=work, stdout=subprocess.PIPE, stderr=open(work / "serve.err", "wb"))
        url = json.loads(serve.stdout.readline())["url"]
        idle = processor_seconds(watch.pid)
        moments = sorted(self.dice.uniform(1, options.seconds) for _ in range(options.changes))
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(max_workers=64) as pool:
            tick = 0
            while (elapsed := time.monotonic() - begin) < options.seconds + 10:
                while moments and moments[0] <= elapsed:
                    moments.pop(0)
                    self.change()
                pool.submit(self.ask, url)
                self.asked += 1
                tick += 1
                time.sleep(max(0.0, begin + tick / options.per_second - time.monotonic()))
        # Each word that is there is found in the end, and nothing else.
        missing = []
        for path, word in list(self.words.items()):
            with urllib.request.urlopen(f"{url}/rag/retrieve?query={word}&top_k=10") as answer:
                found = json.load(answer)["passages"]
            if not any(passage["file"] == path and word in passage["text"] for passage in found):
                missing.append(path)
        used = processor_seconds(watch.pid) - idle
        for process in (watch, serve):
            process.send_signal(signal.SIGTERM)
            process.wait()
        updates = [json.loads(line) for line in (work / "watch.out").read_text().splitlines()][1:]
        counted = {kind: sum(len(update["changes"][kind]) for update in updates) for kind in ("added", "edited", "moved", "removed")}
        times = sorted(self.times)
        return {
            "documents": options.documents,
            "changes": counted,
            "versions": len(updates),
            "asked": self.asked,
            "failed": len(self.failures),
            "failures": self.failures[:3],
            "answers_from_removed_documents_after_5_s": len(self.late),
            "last_answer_from_a_removed_document_s": round(max(self.gone, default=0.0), 2),
            "change_to_answer_s": {kind: [round(sorted(found)[int(len(found) * share)], 2) for share in (0.5, 0.99)] for kind, found in self.latency.items() if found},
            "not_served_in_the_end": len(missing),
            "search_ms_p50_p99": [round(1e3 * times[int(len(times) * share)], 1) for share in (0.5, 0.99)],
            "tasks_done": sum(update["executed"] for update in updates),
            "tasks_of_a_version": updates[0]["executed"] + updates[0]["reused"] if updates else None,
            "update_seconds_p50_max": [round(value, 2) for value in (sorted(update["seconds"] for update in updates)[len(updates) // 2], max(update["seconds"] for update in updates))] if updates else None,
            "first_run_s": round(first_run, 2),
            "first_run_processor_s": round(first_processor, 2),
            "watch_processor_s": round(used, 2),
            "watch_processor_s_for_each_version": round(used / max(1, len(updates)), 3),
        }


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--per-second", type=float, default=20)
    parser.add_argument("--every", type=float, default=0.5)
    parser.add_argument("--reverie", default=str(ROOT / "target" / "release" / "reverie"))
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    options.reverie = str(Path(options.reverie).resolve())
    work = options.work or Path(tempfile.mkdtemp(prefix="reverie-day-"))
    work = work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    result = Day(options, work).run()
    print(json.dumps(result, indent=2))
    if not options.work:
        shutil.rmtree(work)
    sys.exit(1 if result["failed"] or result["answers_from_removed_documents_after_5_s"] or result["not_served_in_the_end"] else 0)


if __name__ == "__main__":
    main()
