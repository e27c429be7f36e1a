#!/usr/bin/env python3
"""`reverie serve` under load, beside FastAPI with LlamaIndex, Ray Serve and LiteLLM's proxy.

    python3 benches/serve/table.py TEXTS PYTHON [--seconds 8] [--rounds 1] [--only NAME …] [--model MODEL]

TEXTS is a folder of text files. PYTHON is an interpreter with fastapi, uvicorn, uvloop, httptools, llama-index-core,
llama-index-retrievers-bm25, ray[serve] and litellm[proxy]. Build ours first:

    cargo build --release --workspace --bins --examples

- `retrieval`: 128-token chunks of TEXTS, BM25, three passages; Reverie, FastAPI + LlamaIndex with one worker of
  uvicorn, and the same application as one replica on Ray Serve.
- `chat`: an answer from three passages with a chat model that answers at once (the simulator); LiteLLM's proxy, which
  passes a chat on to the same model and finds nothing; and the model alone.
- `large`: 100,000 chunks with vectors (`--model`): from the start until it is ready, and searches at 50 a second
  beside the embedder alone.
- `streams`: 1,000 streamed answers at once, and the first word beside the model's.

Load is open-loop (crates/serve/examples/open_loop.rs) from a second process on the same machine. A rate counts as
served if 99 of 100 requests are answered and the median stays below 50 ms. Rates double until one is not served, and
three more are tried between the last two; then latencies are measured at half of the highest. Prints one line of
JSON for each measurement.
"""

import argparse
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "benches" / "serve"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
CHUNKS = 100_000
STREAMS = 1000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait(url: str, path: str, seconds: float = 300) -> None:
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            with urllib.request.urlopen(url + path, timeout=2):
                return
        except OSError:
            time.sleep(0.01)
    raise SystemExit(f"{url} did not get ready")


def below(process: int) -> list[int]:
    """A process and all that it started."""
    found = [process]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def memory_mb(process: int) -> int:
    total = 0
    for one in below(process):
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return total // 1024


@contextmanager
def running(command: list, folder: str, ready: str, environment: dict | None = None):
    """A server on a free port, until the end of the block."""
    port = free_port()
    command = [str(part).replace("{port}", str(port)) for part in command]
    began = time.monotonic()
    with Path(folder, f"{Path(command[0]).name}.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **(environment or {})}, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait(url, ready)
        yield url, process.pid, round(time.monotonic() - began, 2)
    finally:
        started = below(process.pid)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
        for left in started[1:]:
            try:
                os.kill(left, 9)
            except OSError:
                pass


def load(target: str, rate: float, seconds: float, body: Path | None = None, clients: int = 256) -> dict:
    command = [TARGET / "examples" / "open_loop", target, str(rate), str(seconds), *([body] if body else [])]
    environment = {**os.environ, "REVERIE_CLIENTS": str(clients)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def is_served(told: dict) -> bool:
    return told["ok"] >= 0.99 * told["sent"] and told["ms"]["p50"] is not None and told["ms"]["p50"] < 50


def measure(target: str, seconds: float, body: Path | None = None) -> dict:
    """The highest rate that is served, and the latencies at half of it."""
    load(target, 20, 3, body)
    rate, highest = 25.0, 0.0
    while is_served(load(target, rate, seconds, body)):
        highest, rate = rate, rate * 2
    low, high = highest, rate
    for _ in range(3):
        middle = (low + high) / 2
        low, high = (middle, high) if is_served(load(target, middle, seconds, body)) else (low, middle)
    half = load(target, max(low / 2, 1), 2 * seconds, body)
    return {"highest_per_s": round(low), "at_half_ms": half["ms"], "failed": half["others"], "late_ms": half["generator_late_ms"]}


def difference(ours: dict, bare: dict) -> dict:
    """By quantile, where both sides answered."""
    return {of: round(ours[of] - bare[of], 3) for of in ours if None not in (ours[of], bare[of])}


def overhead(url: str) -> dict[float, int]:
    """How many answers took at most so many seconds more than the model, by the service's own clock."""
    text = urllib.request.urlopen(url + "/metrics").read().decode()
    found = re.findall(r'reverie_overhead_seconds_bucket\{le="([^"]+)"\} (\d+)', text)
    return {float(bound): int(count) for bound, count in found}


def bounds(before: dict[float, int], after: dict[float, int]) -> dict:
    """Bounds of the quantiles of what was counted between, in milliseconds."""
    since = {bound: count - before.get(bound, 0) for bound, count in after.items()}
    total = max(since.values())
    least = lambda share: min(bound for bound, count in since.items() if count >= share * total)
    return {"p50_at_most": least(0.5) * 1000, "p99_at_most": least(0.99) * 1000}


def tell(row: dict) -> dict:
    row["load"] = os.getloadavg()[0]
    print(json.dumps(row), flush=True)
    return row


def bundle(folder: str, name: str, sections: str, corpus: str) -> None:
    text = f'name = "bench"\nstore = "store-{name}"\n[corpus]\nsource = "{corpus}"\n{sections}'
    Path(folder, f"{name}.toml").write_text(text)
    for verb in (["run", "--quiet"], ["promote", "--output", name]):
        subprocess.run([TARGET / "reverie", verb[0], "-f", f"{name}.toml", *verb[1:]], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def ours(name: str, *more: str) -> list:
    return [TARGET / "reverie", "serve", name, "--listen", "127.0.0.1:{port}", "--admin-without-key", *more]


BM25 = "[space]\nchunker = [{ sentence = { chunk_size = 128, chunk_overlap = 0 } }]\nretriever = [{ bm25 = { top_k = 3 } }]\n"
SEARCH = "/rag/retrieve?query=how+do+i+install+the+package+number+{n}"


def retrieval(folder: str, options: argparse.Namespace) -> None:
    bundle(folder, "search", BM25, options.texts)
    python = options.python
    uvicorn = [python, "-m", "uvicorn", "--app-dir", HERE, "llama_index_server:app", "--port", "{port}"]
    servers = {
        "Reverie": ours("search"),
        "FastAPI + LlamaIndex": [*uvicorn, "--log-level", "warning", "--no-access-log"],
        "Ray Serve + FastAPI + LlamaIndex": [python, HERE / "ray_server.py", "{port}"],
    }
    for name, command in servers.items():
        if options.peer and not any(peer in name for peer in [*options.peer, "Reverie"]):
            continue
        environment = {"TEXTS": options.texts, "PYTHONPATH": str(HERE), "RAY_SERVE_LOG_TO_STDERR": "0"}
        with running(command, folder, "/health/ready", environment) as (url, process, ready):
            row = measure(url + SEARCH, options.seconds)
            tell({"what": "retrieval", "name": name, **row, "ready_s": ready, "memory_mb": memory_mb(process)})


def at_once(folder: str, *settings: str):
    """A chat model that answers at once, unless settings say otherwise."""
    return running([TARGET / "simulator", "--port", "{port}", *settings], folder, "/v1/models")


def chat_model(url: str) -> str:
    return f'generator = [{{ compact = {{ model = "gpt" }} }}]\n[models.gpt]\nchat.openai = {{ model = "m", base_url = "{url}/v1", concurrency = 4096 }}\n'


def asked(folder: str, name: str, model: str, content: str, streams: bool) -> Path:
    body = {"model": model, "stream": streams, "messages": [{"role": "user", "content": content}]}
    path = Path(folder, name)
    path.write_text(json.dumps(body))
    return path


def chat(folder: str, options: argparse.Namespace) -> None:
    question = asked(folder, "ask.json", "bench", "How do I install the package number {n}?", False)
    # About as long as the prompt that Reverie writes from three passages.
    words = " ".join(["package"] * 400)
    straight = asked(folder, "straight.json", "m", words + " number {n}?", False)
    # Reverie reads the model's answer as a stream, whatever its client wants.
    streamed = asked(folder, "streamed.json", "m", words + " number {n}?", True)
    with at_once(folder) as (model, _, _):
        bundle(folder, "ask", BM25 + chat_model(model), options.texts)
        rates = {}
        with running(ours("ask", "--answers-at-once", "256"), folder, "/health/ready") as (url, process, ready):
            row = measure(url + "/v1/chat/completions", options.seconds, question)
            tell({"what": "chat", "name": "Reverie", **row, "ready_s": ready, "memory_mb": memory_mb(process)})
            rates["half of Reverie's highest"] = row["highest_per_s"] / 2
            rates["100 a second"] = 100
            for name, rate in rates.items():
                before = overhead(url)
                told = load(url + "/v1/chat/completions", rate, 2 * options.seconds, question)
                own = bounds(before, overhead(url))
                bare = load(model + "/v1/chat/completions", rate, 2 * options.seconds, streamed)
                whole = load(model + "/v1/chat/completions", rate, 2 * options.seconds, straight)
                over = difference(told["ms"], bare["ms"])
                tell({"what": "overhead", "name": name, "per_s": rate, "ms": told["ms"], "model_ms": bare["ms"],
                      "overhead_ms": over, "own_clock_ms": own, "model_not_streamed_ms": whole["ms"]})  # fmt: skip
        config = Path(folder, "litellm.yaml")
        config.write_text(
            f"model_list:\n  - model_name: m\n    litellm_params: {{ model: openai/m, api_base: {model}/v1, api_key: none }}\n"
            "general_settings: { dangerously_permit_weak_or_unset_master_key: true }\n"
        )
        litellm = Path(options.python).with_name("litellm")
        command = [litellm, "--config", config, "--host", "127.0.0.1", "--port", "{port}", "--num_workers", "1", "--telemetry", "False"]
        if litellm.exists():
            # Else it first asks the network for prices.
            local = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            with running(command, folder, "/health/liveliness", local) as (url, process, ready):
                row = measure(url + "/v1/chat/completions", options.seconds, straight)
                tell({"what": "chat", "name": "LiteLLM's proxy", **row, "ready_s": ready, "memory_mb": memory_mb(process)})
                bare = load(model + "/v1/chat/completions", max(row["highest_per_s"] / 2, 1), options.seconds, straight)
                over = difference(row["at_half_ms"], bare["ms"])
                tell({"what": "overhead", "name": "LiteLLM at half of its highest", "overhead_ms": over, "model_ms": bare["ms"]})


def large(folder: str, options: argparse.Namespace) -> None:
    """Chunks of words of TEXTS in a new order, each with a vector of its own."""
    draw = random.Random(1)
    words = [word for path in sorted(Path(options.texts).iterdir()) for word in re.findall(r"[a-z]{3,12}", path.read_text(errors="ignore").lower())]
    words = sorted(set(words))
    folder = options.keep or folder
    corpus = Path(folder, "many")
    corpus.mkdir(parents=True, exist_ok=True)
    for document in range(100):
        paragraphs = (" ".join(draw.choices(words, k=16)).capitalize() + "." for _ in range(CHUNKS // 100))
        Path(corpus, f"{document:03}.txt").write_text("\n\n".join(paragraphs))
    space = (
        '[space]\nchunker = [{ recursive = { chunk_size = 40, chunk_overlap = 0 } }]\n'
        f'embedder = ["{options.embedder}"]\nretriever = [{{ dense = {{ top_k = 3 }} }}]\n'
        f'[models.{options.embedder}]\nembedding.local = {{ model = "{options.model}" }}\n'
    )
    began = time.monotonic()
    if not Path(folder, "large").exists():
        bundle(folder, "large", space, str(corpus))
    tell({"what": "large", "name": "chunked, embedded, indexed and promoted", "seconds": round(time.monotonic() - began)})
    body = Path(folder, "embed.json")
    body.write_text(json.dumps({"model": options.embedder, "input": "how do i install the package number {n}", "input_type": "query"}))
    starts = []
    for _ in range(5):
        with running(ours("large"), folder, "/health/ready") as (_, process, ready):
            starts.append(ready)
            used = memory_mb(process)
    tell({"what": "large", "name": "start to ready", "seconds": sorted(starts), "median": statistics.median(starts), "memory_mb": used})
    with running(ours("large"), folder, "/health/ready") as (url, process, _):
        found = json.load(urllib.request.urlopen(url + "/rag/retrieve?query=package"))
        load(url + SEARCH, 50, 3)
        for rate in (20, 50):
            for _ in range(options.rounds):
                bare = load(url + "/v1/embeddings", rate, 2 * options.seconds, body)
                told = load(url + SEARCH, rate, 2 * options.seconds)
                ratio = round(told["ms"]["p99"] / bare["ms"]["p99"], 2)
                tell({"what": "large", "name": f"searches at {rate} a second", "ms": told["ms"], "embedding_ms": bare["ms"], "p99_ratio": ratio})
        row = measure(url + SEARCH, options.seconds)
        tell({"what": "large", "name": "searches", **row, "memory_mb": memory_mb(process), "passages": len(found["passages"])})
        row = measure(url + "/v1/embeddings", options.seconds, body)
        tell({"what": "large", "name": "the embedder alone", **row})


def streams(folder: str, options: argparse.Namespace) -> None:
    question = asked(folder, "stream.json", "bench", "How do I install the package number {n}?", True)
    straight = asked(folder, "straight-stream.json", "m", " ".join(["package"] * 400) + " number {n}?", True)
    slow = ["--latency", '{"constant": {"seconds": 20}}', "--answer-tokens", "100"]
    with at_once(folder, *slow) as (model, _, _):
        bundle(folder, "stream", BM25 + chat_model(model), options.texts)
        more = ["--answers-at-once", str(STREAMS), "--queue", str(STREAMS)]
        with running(ours("stream", *more), folder, "/health/ready") as (url, process, _):
            before = memory_mb(process)
            command = [TARGET / "examples" / "open_loop", url + "/v1/chat/completions", "250", str(STREAMS / 250), question]
            environment = {**os.environ, "REVERIE_CLIENTS": str(STREAMS)}
            asks = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True, env=environment)
            most, busiest = before, 0
            while asks.poll() is None:
                most = max(most, memory_mb(process))
                status = json.load(urllib.request.urlopen(url + "/admin/status"))
                busiest = max(busiest, status["answers"]["worked_on"])
                time.sleep(0.5)
            told = json.loads(asks.stdout.read())
            tell({"what": "streams", "name": "at once", "at_once": busiest, "ok": told["ok"], "others": told["others"],
                  "memory_before_mb": before, "memory_most_mb": most, "memory_after_mb": memory_mb(process)})  # fmt: skip
    quick = ["--latency", '{"constant": {"seconds": 0.2}}', "--answer-tokens", "20"]
    with at_once(folder, *quick) as (model, _, _):
        bundle(folder, "word", BM25 + chat_model(model), options.texts)
        with running(ours("word"), folder, "/health/ready") as (url, _, _):
            load(url + "/v1/chat/completions", 20, 2, question)
            for _ in range(options.rounds):
                bare = load(model + "/v1/chat/completions", 50, 2 * options.seconds, straight)
                told = load(url + "/v1/chat/completions", 50, 2 * options.seconds, question)
                late = difference(told["first_word_ms"], bare["first_word_ms"])
                tell({"what": "streams", "name": "first word at 50 a second", "ms": told["first_word_ms"],
                      "model_ms": bare["first_word_ms"], "late_ms": late})  # fmt: skip


PARTS = {part.__name__: part for part in (retrieval, chat, large, streams)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts")
    parser.add_argument("python", help="the peers' interpreter")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be given more than once")
    parser.add_argument("--peer", action="append", help="of retrieval: only peers with this in their name")
    parser.add_argument("--model", default="all-minilm-l6-v2", help="a pulled ONNX model that embeds the 100,000 chunks")
    parser.add_argument("--keep", help="a folder where `large` leaves its bundle, and finds it the next time")
    options = parser.parse_args()
    options.texts, options.embedder = str(Path(options.texts).resolve()), "embedder"
    if os.getloadavg()[0] > 1.5:
        print(f"warning: the machine is busy ({os.getloadavg()[0]:.1f})", file=sys.stderr)
    for name in options.only or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](folder, options)


if __name__ == "__main__":
    main()
