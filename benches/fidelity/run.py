#!/usr/bin/env python3
"""Our code beside the real packages, in one run: is the outcome the same?

    benches/run fidelity
    benches/fidelity/run.py [--only llama|langchain|fusion|ragas|trec] [--corpus FOLDER]... [--no-build] [--dry]

Installs the pinned packages of `requirements.txt` into `.tools/fidelity`, builds
our examples `pipeline` and `score`, compares, prints a table for each peer, and writes
them into `benches/README.md` and `benches/results/fidelity.json`, which also
lists every case that differs. `--dry` writes neither, nor does a part of it, nor
a run with `--corpus`, which adds a folder of your own documents. Every
difference with both values in full is in `.tools/fidelity/differences.jsonl`.

Exit status 1 if a difference is not explained, or an explained one did not occur.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCHES, ROOT = HERE.parent, HERE.parents[1]
RESULTS = BENCHES / "results" / "fidelity.json"
ENVIRONMENT = ROOT / ".tools" / "fidelity"
PYTHON = ENVIRONMENT / "bin" / "python"
HOME = Path(os.environ.get("REVERIE_HOME", ROOT / ".reverie"))
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BEGIN, END = "<!-- fidelity -->", "<!-- end of fidelity -->"


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def install():
    wanted = (HERE / "requirements.txt").read_text()
    marker = ENVIRONMENT / "installed"
    if marker.exists() and marker.read_text() == wanted:
        return
    say(
        f"installing LlamaIndex, LangChain, Ragas and trec_eval into {ENVIRONMENT}: about 210 MB to download, 0.9 GB on disk"
    )
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    # Every package is listed, and AutoRAG alone would bring some fifty more, and another LangChain, which its formulas do not need.
    options = ["-q", "--progress-bar", "on", "--no-deps"]
    command = [PYTHON, "-m", "pip", "install", *options, "-r", HERE / "requirements.txt"]
    subprocess.run(command, check=True)
    marker.write_text(wanted)


def build():
    say("building the examples")
    # As the Makefile does: llama.cpp is compiled for this machine.
    cpu = Path("/proc/cpuinfo")
    flags = set(re.findall(r"avx512\w+", cpu.read_text())) if cpu.exists() else set()
    for name, flag in [("AVX512", "avx512bw"), ("AVX512_VNNI", "avx512_vnni"), ("AVX512_VBMI", "avx512_vbmi")]:
        os.environ.setdefault(f"GGML_{name}", "ON" if flag in flags else "OFF")
    subprocess.run("cargo build --release --workspace --examples".split(), check=True, cwd=ROOT)


def example(name):
    path = TARGET / "release" / "examples" / name
    if not path.exists():
        sys.exit(f"{path} is missing: run without --no-build")
    return str(path)


def tables(options):
    # Ragas reports to its makers what is scored.
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    # These need the packages, so they come after the installation.
    import chains
    import corpus
    import fusing
    import judged
    import llama
    import ranking
    from process import Process

    if options.only not in ("ragas", "trec"):
        manuals = HOME / "demo-manuals" / "corpus"
        folders = [*options.corpus, *([manuals] if manuals.is_dir() else [])]
        texts = corpus.documents(folders)
        n_real = sum(name.startswith("real/") for name in texts)
        say(
            f"{len(texts)} documents, {n_real} of them real, {sum(map(len, texts.values())) / 1e6:.1f} million characters"
        )
        with Process(example("pipeline")) as process:
            if options.only in (None, "llama"):
                yield llama.run(process, texts, say)
            if options.only in (None, "langchain"):
                yield chains.run(process, texts, say)
            if options.only in (None, "fusion"):
                say("AutoRAG and Qdrant")
                yield fusing.autorag(process, texts)
                yield fusing.qdrant(process, texts)
    if options.only in (None, "ragas"):
        say("Ragas")
        with Process(example("score")) as process:
            yield judged.run(process)
    if options.only in (None, "trec"):
        say("trec_eval")
        with Process(example("score")) as process:
            yield ranking.run(process)


def publish(found, text):
    wanted = (HERE / "requirements.txt").read_text()
    peers = [line for line in wanted.split("\n\n")[0].splitlines() if "==" in line]
    record = {"date": time.strftime("%Y-%m-%d"), "peers": peers, "tables": [table.record() for table in found]}
    # A line for each row and case: what changed between two runs can be seen.
    lines = re.sub(r"\n {5,}|\n {4}(?=[}\]])", " ", json.dumps(record, indent=1, ensure_ascii=False))
    RESULTS.write_text(lines + "\n")
    readme = BENCHES / "README.md"
    before, rest = readme.read_text().split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    readme.write_text(f"{before}{BEGIN}\n\n{time.strftime('%Y-%m-%d')}\n\n{text}\n\n{END}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", choices=["llama", "langchain", "fusion", "ragas", "trec"], help="only these tables; the results stay"
    )
    parser.add_argument("--corpus", action="append", default=[], metavar="FOLDER", help="documents of your own")
    parser.add_argument("--no-build", action="store_true", help="take the examples as they are")
    parser.add_argument("--dry", action="store_true", help="write no results")
    options = parser.parse_args()
    if Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
        install()
        if not options.no_build:
            build()
        os.execv(PYTHON, [str(PYTHON), *sys.argv, "--no-build"])
    start = time.monotonic()
    found = list(tables(options))
    text = "\n\n".join(table.markdown() for table in found)
    print(text)
    with open(ENVIRONMENT / "differences.jsonl", "w") as file:
        for table in found:
            for case in table.cases():
                file.write(json.dumps({"peer": table.title, **case}, ensure_ascii=False) + "\n")
    faults = [fault for table in found for fault in table.faults()]
    print("\n".join(["", *faults]) if faults else "\nno unexplained difference", flush=True)
    say(f"{time.monotonic() - start:.0f} s")
    # What a user's own documents are called is nobody's business.
    if not (options.dry or options.only or options.corpus):
        publish(found, text)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
