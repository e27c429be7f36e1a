"""The engine `ray` beside the engine `local`: the same sweep, on the same machine, in turns.

    make wheel && .tools/cluster/bin/python benches/engine/contest.py [--rounds 2]

Four trials with 160 questions against the simulated provider, which takes 6 calls of 0.6 s at once: about 65 s that no
engine can avoid. Ray has two nodes with a CPU each; starting them is not counted, starting its workers is.
Prints wall time, the processor time and peak memory of the driver, and its processor time per task.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples" / "cluster"), str(ROOT / "crates" / "python" / "tests" / "cluster")]
import servers
from conftest import REVERIE, Provider, Workspace

QUESTIONS = 160


def measured(command: list, environment: dict[str, str]) -> dict:
    """Runs a command to its end."""
    started = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env={**os.environ, **environment})
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{command} failed: {out[-2000:]}")
    results = json.loads(out)
    return {"seconds": time.monotonic() - started, "cpu": usage.ru_utime + usage.ru_stime,
            "mebibytes": usage.ru_maxrss / 1024, "tasks": results["executed"], "best": results["trials"][0]["objective"]}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    rounds = parser.parse_args().rounds
    rows = []
    with tempfile.TemporaryDirectory(prefix="rv") as short, servers.ray(Path(short), nodes=2, octet=249) as cluster:
        for round_ in range(rounds):
            for engine in ("local", "ray") if round_ % 2 == 0 else ("ray", "local"):
                with tempfile.TemporaryDirectory() as folder:
                    provider = Provider(latency={"constant": {"seconds": 0.6}}, concurrency=6)
                    experiment = Workspace(Path(folder) / "w", QUESTIONS).experiment("sweep", provider.url)
                    flags = ["--engine", engine] + (["--address", cluster.address] if engine == "ray" else [])
                    environment = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
                    row = measured([REVERIE, "run", "-f", experiment, "--json", *flags], environment) | {"engine": engine}
                    provider.stop()
                rows.append(row)
                print(f"{engine:6} {row['seconds']:7.1f} s  driver {row['cpu']:5.1f} s of a core, "
                      f"{1000 * row['cpu'] / row['tasks']:5.1f} ms a task, {row['mebibytes']:5.0f} MiB, {row['tasks']} tasks",
                      flush=True)
    best = {engine: min(row["seconds"] for row in rows if row["engine"] == engine) for engine in ("local", "ray")}
    print(f"ray takes {best['ray'] / best['local']:.2f} times as long as local (fastest of {rounds}); load {os.getloadavg()}")


if __name__ == "__main__":
    main()
