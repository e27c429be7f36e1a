"""An embedding that is killed again and again, beside the same run left alone.

    python3 benches/interrupted/embedding.py target/release/reverie --seconds 20 --kills 5

Writes one large document, so that its embedding is one task, runs the experiment to its end, and then in another store
with `kill -9` after so many seconds of embedding each time. Prints both times: the killed one counts all its pieces.
Needs `all-minilm-l6-v2` and `onnxruntime` in reverie's home.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENT = """name = "interrupted"
store = "store"
[corpus]
source = "documents"
[models.minilm]
embedding.local = { model = "all-minilm-l6-v2" }
[space]
chunker = [{ sentence = { chunk_size = 128, chunk_overlap = 0 } }]
embedder = ["minilm"]
retriever = [{ dense = { top_k = 3 } }]
"""
WORDS = "archive binary build change control copy depend file install maintain manual package policy release section source system test user version".split()


def folder(parent: Path, name: str, sentences: int) -> Path:
    made = parent / name
    (made / "documents").mkdir(parents=True)
    (made / "experiment.toml").write_text(EXPERIMENT)
    dice = random.Random(5)
    text = " ".join(" ".join(dice.choices(WORDS, k=12)).capitalize() + f" {i}." for i in range(sentences))
    (made / "documents" / "large.txt").write_text(text)
    return made


def started(folder: Path) -> bool:
    """Whether the embedding of the document has begun in the run that goes on."""
    for log in folder.glob("store/runs/*/events.jsonl"):
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
        begun = [line for line in lines if line["kind"] in ("run_started", "task_started")]
        last = max((i for i, line in enumerate(begun) if line["kind"] == "run_started"), default=len(begun))
        if any(line.get("operator") == "embed" for line in begun[last:]):
            return True
    return False


def run(binary: str, folder: Path, seconds: float | None) -> float:
    begin = time.monotonic()
    process = subprocess.Popen([binary, "run"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if seconds is not None:
        while not started(folder) and process.poll() is None:
            time.sleep(0.05)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    code = process.wait()
    if code not in (0, -9):
        sys.exit(f"the run ended with {code}: try `{binary} run` in {folder}")
    print(f"  {'killed' if code else 'finished'} after {time.monotonic() - begin:.1f} s", flush=True)
    return time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=150_000)
    chosen = parser.parse_args()
    binary = os.path.abspath(chosen.binary)
    with tempfile.TemporaryDirectory() as parent:
        print("left alone:")
        whole = run(binary, folder(Path(parent), "whole", chosen.sentences), None)
        print(f"killed {chosen.kills} times:")
        killed = folder(Path(parent), "killed", chosen.sentences)
        pieces = sum(run(binary, killed, chosen.seconds) for _ in range(chosen.kills)) + run(binary, killed, None)
    print(f"{whole:.1f} s left alone, {pieces:.1f} s in pieces: {100 * (pieces / whole - 1):+.1f} %")


if __name__ == "__main__":
    main()
