#!/usr/bin/env python3
"""Kills `run` and `watch` with SIGKILL at random moments. Afterwards the store must be that of a run that nobody killed.

    benches/scale/kills.py [--documents 100000] [--watched 1000] [--kills 100] [--reverie target/release/reverie] [--work FOLDER]

*run*: the experiment of `run.py` runs once without a kill. Then it starts with an empty store, is killed, and starts again, until all
kills are used up and the last start runs to its end. Both stores must hold the same artifacts with the same bytes, the results must
be equal, and `store verify` must find nothing. Drafts of files that the kills left are counted before and after `store gc`.

*watch*: documents are edited, added and removed while `watch` is killed and started again. After each kill `serve` must open the
version that `current.json` names, which compares each of its files with the manifest. In the end `watch --once` must make a version
that searches the same artifacts as a bundle of a new store.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import corpus
import static_model
from cluster import artifacts, digest
from run import RETRIEVERS, SEED, SETTLE_SECONDS, Documents, experiment, say

ROOT = Path(__file__).resolve().parents[2]


class Program:
    """The command in a folder."""

    def __init__(self, reverie: Path, folder: Path):
        self.reverie, self.folder = reverie, folder

    def run(self, *arguments: str) -> str:
        """Runs to its end, which must be a success."""
        ended = subprocess.run([self.reverie, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        if ended.returncode:
            sys.exit(f"{' '.join(arguments)} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
        return ended.stdout

    def kill_after(self, seconds: float, *arguments: str) -> bool:
        """Starts, and kills after so many seconds. Returns whether it was still running."""
        with open(self.folder / "killed.err", "ab") as errors:
            process = subprocess.Popen([self.reverie, *arguments], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return True
        return False


def without_times(results: dict) -> str:
    """What two runs must share."""
    trials = [{name: trial[name] for name in ("trial", "metrics", "questions")} for trial in results["trials"]]
    return json.dumps([trials, results["winner"]], sort_keys=True)


def kill_runs(options: argparse.Namespace, work: Path) -> dict:
    """*run*."""
    folder, dice = work / str(options.documents), random.Random(SEED)
    Documents(folder, options.documents, False)
    time.sleep(SETTLE_SECONDS)
    static_model.write(work / "model", SEED)
    (folder / "experiment.toml").write_text(experiment("scale", work / "model", RETRIEVERS))
    program, store = Program(options.reverie, folder), folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    begin = time.monotonic()
    whole = without_times(json.loads(program.run("run", "--json")))
    seconds = time.monotonic() - begin
    expected = artifacts(store)
    shutil.rmtree(store)
    say(f"{options.documents:,} documents: {seconds:.0f} s and {len(expected):,} artifacts without a kill")
    kills = early = 0
    while kills < options.kills:
        if program.kill_after(dice.uniform(0.05, options.longest), "run"):
            kills += 1
        else:
            # It had ended: from the beginning again.
            early += 1
            shutil.rmtree(store)
    begin = time.monotonic()
    found = without_times(json.loads(program.run("run", "--json")))
    last = time.monotonic() - begin
    program.run("store", "verify")
    drafts = len(list(store.glob("artifacts/*/*#*")))
    program.run("store", "gc", "--yes")
    left = len(list(store.glob("artifacts/*/*#*")))
    there = artifacts(store)
    return {
        "documents": options.documents, "kills": kills, "ends_before_a_kill": early, "last_run_seconds": round(last, 1),
        "artifacts": len(expected), "missing": len(expected.keys() - there.keys()), "others": sorted(there.keys() - expected.keys())[:3],
        "other_bytes": sum(there.get(name, content) != content for name, content in expected.items()), "equal_results": found == whole,
        "drafts": drafts, "drafts_after_gc": left,
    }  # fmt: skip


def opens(reverie: Path, bundle: Path) -> str | None:
    """Opens a bundle behind `serve`, which checks all its files. Returns what is wrong with it."""
    command = [reverie, "serve", bundle.name, "--listen", "127.0.0.1:0", "--json"]
    with open(bundle.parent.parent / "serve.err", "w+") as errors:
        process = subprocess.Popen(command, cwd=bundle.parent, stdout=subprocess.PIPE, stderr=errors, text=True)
        line = process.stdout.readline()
        process.terminate()
        process.wait()
        errors.seek(0)
        return None if line.startswith("{") else errors.read()[-500:]


def searched(bundle: Path) -> dict[str, str]:
    """The artifacts that a bundle searches, by name."""
    return {str(path.relative_to(bundle)): digest(path) for path in bundle.glob("store/artifacts/*/*")}


def kill_watch(options: argparse.Namespace, work: Path) -> dict:
    """*watch*."""
    folder, dice = work / "watched", random.Random(SEED + 1)
    shutil.rmtree(folder, ignore_errors=True)
    corpus.write(options.watched, folder, SEED)
    static_model.write(work / "model", SEED)
    (folder / "experiment.toml").write_text(experiment("watched", work / "model", "{ hybrid = { top_k = 10 } }"))
    time.sleep(SETTLE_SECONDS)
    program, planted = Program(options.reverie, folder), corpus.planted(options.watched, SEED)
    program.run("run")
    numbers = [number for number in range(options.watched) if number not in planted]
    next_number, versions, damaged = options.watched, set(), []
    for kill in range(options.kills):
        for _ in range(3):
            path = folder / "documents" / corpus.path_of(dice.choice(numbers))
            match dice.choice(["edit", "remove", "add"]):
                case "edit" if path.exists():
                    path.write_text(corpus.text_of(dice.choice(numbers), SEED + 2 + kill))
                case "remove":
                    path.unlink(missing_ok=True)
                case _:
                    added = folder / "documents" / corpus.path_of(next_number)
                    added.parent.mkdir(parents=True, exist_ok=True)
                    added.write_text(corpus.text_of(next_number, SEED))
                    next_number += 1
        if not program.kill_after(dice.uniform(0.05, options.longest), "watch", "--output", "live", "--every", "0.2"):
            sys.exit(f"watch ended by itself: {(folder / 'killed.err').read_text()[-2000:]}")
        current = folder / "live" / "current.json"
        if current.exists():
            version = json.loads(current.read_text())["version"]
            versions.add(version)
            if wrong := opens(options.reverie, folder / "live" / version):
                damaged.append(wrong)
    time.sleep(SETTLE_SECONDS)
    program.run("watch", "--output", "live", "--once")
    version = json.loads((folder / "live" / "current.json").read_text())["version"]
    left = [path.name for path in (folder / "live").iterdir() if path.name not in ("current.json",) and not (path / "manifest.json").exists()]
    mine = searched(folder / "live" / version)
    program.run("store", "verify")
    (folder / "experiment.toml").write_text((folder / "experiment.toml").read_text().replace('store = "store"', 'store = "new"'))
    program.run("run")
    program.run("promote", "--output", "new-bundle")
    anew = searched(folder / "new-bundle")
    return {
        "documents": options.watched, "kills": options.kills, "versions_that_were_current": len(versions), "damaged": damaged[:3], "left_over": left,
        "artifacts": len(anew), "equal_to_a_new_store": mine == anew,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", nargs="+", choices=["run", "watch"], default=["run", "watch"])
    parser.add_argument("--documents", type=int, default=100_000, help="of the run")
    parser.add_argument("--watched", type=int, default=1_000, help="documents that are watched")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--longest", type=float, default=5.0, help="the most seconds before a kill")
    parser.add_argument("--reverie", type=Path, default=ROOT / "target" / "release" / "reverie")
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    options.reverie = options.reverie.resolve()
    work = (options.work or Path(tempfile.mkdtemp(prefix="reverie-kills-"))).resolve()
    try:
        told = {}
        if "run" in options.of:
            told["run"] = kill_runs(options, work)
        if "watch" in options.of:
            told["watch"] = kill_watch(options, work)
        print(json.dumps(told, indent=2))
    finally:
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)
    wrong = [told[name] for name in told if told[name].get("missing") or told[name].get("others") or told[name].get("other_bytes") or told[name].get("damaged") or False in (told[name].get("equal_results"), told[name].get("equal_to_a_new_store"))]
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
