#!/usr/bin/env python3
"""Retrieval over HTTP: `reverie serve` beside FastAPI with LlamaIndex, on the same texts.

    python3 benches/serve/compare.py TEXTS PYTHON [--seconds 8] [--url NAME=URL …]

TEXTS is a folder of text files; PYTHON an interpreter with fastapi, uvicorn, llama-index-core and
llama-index-retrievers-bm25. `--url` adds a server that runs already, such as one of Ray Serve. Build ours first:

    cargo build --release --workspace --bin reverie --example open_loop

Both search 128-token chunks by BM25 and answer with three passages. Load is open-loop (crates/serve/examples), from a
second process on the same machine. A rate counts as served if 99 of 100 requests are answered and the median stays
below 50 ms. Rates double until one is not served; then latencies are measured at half of the highest.
"""

import argparse
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait(url: str, seconds: float = 120) -> float:
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            with urllib.request.urlopen(url + "/health/ready", timeout=2):
                return time.monotonic() - began
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"{url} did not get ready")


def load(url: str, rate: float, seconds: float) -> dict:
    target = url + "/rag/retrieve?query=how+do+i+install+the+package+number+{n}"
    done = subprocess.run([TARGET / "examples" / "open_loop", target, str(rate), str(seconds)], capture_output=True, text=True)
    return json.loads(done.stdout)


def is_served(told: dict) -> bool:
    return told["ok"] >= 0.99 * told["sent"] and told["ms"]["p50"] is not None and told["ms"]["p50"] < 50


def measure(name: str, url: str, seconds: float) -> dict:
    load(url, 20, 3)
    rate, highest = 25.0, 0.0
    while is_served(load(url, rate, seconds)):
        highest, rate = rate, rate * 2
    low, high = highest, rate
    for _ in range(3):
        middle = (low + high) / 2
        low, high = (middle, high) if is_served(load(url, middle, seconds)) else (low, middle)
    at_half = load(url, max(low / 2, 1), seconds)
    return {"name": name, "highest_per_s": round(low), "at_half_ms": at_half["ms"], "failed": at_half["others"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts")
    parser.add_argument("python")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--url", action="append", default=[], metavar="NAME=URL")
    arguments = parser.parse_args()
    texts = str(Path(arguments.texts).resolve())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        experiment = Path(folder, "experiment.toml")
        experiment.write_text(
            f'name = "bench"\nstore = "store"\n[corpus]\nsource = "{texts}"\n[space]\n'
            "chunker = [{ sentence = { chunk_size = 128, chunk_overlap = 0 } }]\nretriever = [{ bm25 = { top_k = 3 } }]\n"
        )
        for verb in (["run", "--quiet"], ["promote", "--output", "bundle"]):
            subprocess.run([TARGET / "reverie", *verb], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        servers = [
            ("reverie serve", [TARGET / "reverie", "serve", "bundle", "--listen", "127.0.0.1:{port}"]),
            (
                "FastAPI + LlamaIndex",
                [arguments.python, "-m", "uvicorn", "--app-dir", str(ROOT / "benches" / "serve"), "llama_index_server:app",
                 "--port", "{port}", "--log-level", "warning", "--no-access-log"],
            ),
        ]  # fmt: skip
        for name, command in servers:
            port = free_port()
            command = [str(part).replace("{port}", str(port)) for part in command]
            process = subprocess.Popen(command, cwd=folder, env={**os.environ, "TEXTS": texts}, stdout=subprocess.DEVNULL)
            try:
                url = f"http://127.0.0.1:{port}"
                ready = wait(url)
                row = measure(name, url, arguments.seconds)
                status = Path(f"/proc/{process.pid}/status").read_text()
                row["ready_s"] = round(ready, 2)
                row["memory_mb"] = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) // 1024
                rows.append(row)
                print(json.dumps(row), flush=True)
            finally:
                process.terminate()
                process.wait()
    for given in arguments.url:
        name, url = given.split("=", 1)
        rows.append(measure(name, url, arguments.seconds))
        print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    main()
