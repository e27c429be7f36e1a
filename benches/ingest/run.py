"""Documents to vectors in Parquet on a Ray cluster: `benches/run ingest`.

`reverie.ray.ingest` beside the same pipeline written with LlamaIndex, sentence-transformers and Ray Data: the same
files, chunk size, model weights, sink, number of actors, and the same cluster of three nodes with one CPU each.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import our_wheel

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOME = Path(os.environ.get("REVERIE_HOME", ROOT / ".reverie"))
PYTHON = ROOT / ".tools" / "bench" / "bin" / "python"
MODEL = HOME / "models" / "all-minilm-l6-v2"
# A part of the demo's manuals that both sides read, so that a round of the peer takes a few minutes.
FILES = ["developers-reference.epub", "fhs.pdf", "maint-guide.pdf", "policy.epub"]
PEER = "LlamaIndex + sentence-transformers on Ray Data"


def say(text):
    print(text, file=sys.stderr, flush=True)


def rows(options, row):
    if not MODEL.is_dir():
        sys.exit(f"{MODEL} is missing: run `reverie models pull all-minilm-l6-v2 onnxruntime pdfium`")
    if "REVERIE_BENCH_NO_INSTALL" not in os.environ:
        our_wheel.install(PYTHON)
    folder = Path(options.corpus)
    paths = [folder / name for name in FILES if (folder / name).exists()] or sorted(path for path in folder.rglob("*") if path.is_file())
    with tempfile.TemporaryDirectory() as scratch:
        corpus = Path(scratch) / "corpus"
        corpus.mkdir()
        for path in paths:
            shutil.copyfile(path, corpus / path.name)
        yield from contest(options, row, scratch, corpus)


def contest(options, row, scratch, corpus):
    names = sorted(path.name for path in corpus.iterdir())
    command = [PYTHON, HERE / "contest.py", MODEL, scratch, corpus]
    environment = {**os.environ, "REVERIE_HOME": str(HOME), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def turn(side=None, files=names):
        if side:
            process.stdin.write(json.dumps({"side": side, "files": files}) + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            sys.exit(f"ingest ended with {process.wait()}")
        return json.loads(line)

    turn()
    # Unmeasured, with one small file: Python's modules and the models come from the disk.
    small = min(names, key=lambda name: (corpus / name).stat().st_size)
    turn("ours", [small]), turn("theirs", [small])
    found = {"ours": [], "theirs": []}
    for _ in range(options.rounds):
        for side, turns in found.items():
            turns.append(turn(side))
        say("ingest: " + "; ".join(f"{side} {turns[-1]['seconds']:.1f} s, {turns[-1]['chunks']} chunks" for side, turns in found.items()))
    process.stdin.close()
    process.wait()
    mine, his = found["ours"][-1], found["theirs"][-1]
    note = (
        f"{len(names)} files; ours {mine['chunks']} chunks, {mine['bytes'] / 1e6:.2f} MB with overlaps; "
        f"theirs {his['chunks']}, {his['bytes'] / 1e6:.2f} MB; starting the actors and loading the models is counted"
    )
    texts = [[turn["chunks"] / turn["seconds"] for turn in turns] for turns in found.values()]
    yield row("ingest on Ray Data", "chunks/s", *texts, PEER, 3, note=note)
    files = [[turn["seconds"] for turn in turns] for turns in found.values()]
    yield row("ingest on Ray Data, the same files", "s", *files, PEER, None, True, note)
