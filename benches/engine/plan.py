"""A plan of 100,000 tasks on the engine `ray`: what the driver needs for each, and whether its memory grows.

    make wheel && .tools/cluster/bin/python benches/engine/plan.py [--shards 200] [--chunkers 500]

A corpus of many small files (64 make a shard) is cut by many chunkers: a task for each pair, then two indexes' worth
of work and a score for each chunker. No model is called, tasks are as short as they get, so what is seen is the engine.
Ray has two nodes with a CPU each on this machine; driver, Ray's servers and workers share its cores, so the wall time is
not a cluster's. The driver's start (Python, Ray's client, reading the corpus, planning) is counted apart: it ends with
the first task.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples" / "cluster"), str(ROOT / "crates" / "python" / "tests" / "cluster")]
import servers
from conftest import REVERIE

FILES = 64  # per shard, as the planner cuts them


def corpus(folder: Path, shards: int) -> None:
    """Writes files of two sentences each."""
    folder.mkdir(parents=True)
    for i in range(shards * FILES):
        (folder / f"{i:06}.txt").write_text(
            f"The mill number {i} was built in {1000 + i % 1000} beside the river. It grinds oats for village {i} and rye for the rest."
        )


def experiment(folder: Path, chunkers: int) -> Path:
    """One trial for each size of chunk."""
    golden = [{"id": f"q{i}", "question": f"When was the mill number {i} built?", "reference": str(1000 + i),
               "evidence": [{"document": f"{i:06}.txt", "quote": f"The mill number {i} was built in {1000 + i}"}]} for i in range(4)]
    (folder / "golden.jsonl").write_text("\n".join(map(json.dumps, golden)))
    listed = ", ".join(f"{{ sentence = {{ chunk_size = {16 + i}, chunk_overlap = 0 }} }}" for i in range(chunkers))
    path = folder / "experiment.toml"
    path.write_text(f"""name = "many"
store = "{folder}/store"
[corpus]
source = "{folder}/docs"
[dataset]
path = "golden.jsonl"
[space]
chunker = [{listed}]
retriever = [{{ bm25 = {{ top_k = 2 }} }}]
[evaluate]
metrics = ["recall"]
""")
    return path


def status(pid: int) -> tuple[float, float]:
    """Processor seconds and resident MiB of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks, int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def ended(events: Path) -> int:
    """Tasks that ended so far."""
    return sum(b'"task_finished"' in line for line in events.open("rb"))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=200)
    parser.add_argument("--chunkers", type=int, default=500)
    parser.add_argument("--every", type=float, default=5, help="seconds between two looks at the driver")
    parser.add_argument("--local", action="store_true", help="the engine `local` instead, to compare")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rv") as short, tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        corpus(folder / "docs", arguments.shards)
        path = experiment(folder, arguments.chunkers)
        if arguments.local:
            contest(path, [], arguments.every)
            return
        with servers.ray(Path(short), nodes=2, octet=247) as cluster:
            contest(path, ["--engine", "ray", "--address", cluster.address], arguments.every)


def contest(path: Path, flags: list[str], every: float) -> None:
    """Runs the experiment and looks at its driver."""
    started = time.monotonic()
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen([REVERIE, "run", "-f", path, "--json", *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, env=environment)
    out: list[str] = []
    reader = threading.Thread(target=lambda: out.append(process.stdout.read()))
    reader.start()
    looks: list[tuple[float, int, float, float]] = []
    while process.poll() is None:
        try:
            cpu, resident = status(process.pid)
        except (OSError, IndexError):
            break
        logs = list((path.parent / "store" / "runs").glob("many-*/events.jsonl"))
        tasks = ended(logs[0]) if logs else 0
        if tasks or not looks:
            looks.append((time.monotonic() - started, tasks, cpu, resident))
            print(f"{looks[-1][0]:7.1f} s  {tasks:7,} tasks ended  driver {cpu:6.1f} s of a core, {resident:6.0f} MiB", flush=True)
        time.sleep(every if tasks else 0.5)
    _, code, usage = os.wait4(process.pid, 0) if process.returncode is None else (0, process.returncode, None)
    reader.join()
    results = json.loads(out[0])
    begun = next((look for look in looks if look[1] > 0), looks[0])
    last = looks[-1]
    tasks = last[1] - begun[1]
    quarter = [look for look in looks if look[1] >= results["executed"] / 4]
    print(f"exit {code}; {results['executed']:,} tasks in {time.monotonic() - started:.0f} s; start {begun[0]:.1f} s and {begun[2]:.1f} s of a core; "
          f"{1000 * (last[2] - begun[2]) / max(tasks, 1):.2f} ms of the driver per task after that; "
          f"resident {quarter[0][3] if quarter else 0:.0f} MiB at a quarter, {last[3]:.0f} at the end"
          + (f", {usage.ru_maxrss / 1024:.0f} at most" if usage else "") + f"; load {os.getloadavg()}")


if __name__ == "__main__":
    main()
