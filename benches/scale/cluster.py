#!/usr/bin/env python3
"""The same experiment in one process and on a Ray cluster of three nodes on this machine.

    .tools/cluster/bin/python benches/scale/cluster.py [--documents 100000] [--work FOLDER] [--json FILE]

It needs the environment of `make cluster`, with the package in it. The corpus and the experiment are those of `run.py`. Both runs begin
with an empty store. Measured are wall time, the processor seconds of the whole machine in that time (so nothing else should run), the
memory of the driver and of the largest Ray worker, and whether both stores hold the same artifacts with the same bytes.

The nodes share the cores of this machine, so the wall time says nothing about more machines. What it shows is the work that Ray adds:
processor seconds on Ray divided by those of one process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples" / "cluster"), str(Path(__file__).parent)]

import servers  # noqa: E402
from process import measure, status  # noqa: E402
from run import RETRIEVERS, SETTLE_SECONDS, experiment, machine, options_of_one_size, prepared, say, tell  # noqa: E402

REVERIE = Path(sys.executable).with_name("reverie")


def machine_seconds() -> float:
    """The processor seconds of this machine since it started, without idle time and waiting for disks."""
    user, nice, system, _, _, interrupts, soft, *_ = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def digest(path: Path) -> str:
    """The BLAKE2 of a file."""
    hasher = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            hasher.update(block)
    return hasher.hexdigest()


def artifacts(store: Path) -> dict[str, str]:
    """The artifacts of a store, by name, without the drafts that killed writers left (`name#1`)."""
    return {str(path.relative_to(store)): digest(path) for path in store.glob("artifacts/*/*") if "#" not in path.name}


class WorkerMemory:
    """The most memory of one process of a Ray cluster, in MB, sampled twice a second."""

    def __init__(self, folder: Path):
        self.folder, self.most, self.ended = folder, {"anonymous": 0.0, "resident": 0.0}, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self) -> None:
        while not self.ended.wait(0.5):
            for pid in servers.processes_of(str(self.folder)):
                memory = status(pid)
                for name, field in (("anonymous", "RssAnon"), ("resident", "VmHWM")):
                    self.most[name] = max(self.most[name], round(memory.get(field, 0) * 1024 / 1e6, 1))

    def __enter__(self) -> "WorkerMemory":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        self.thread.join()


def run(name: str, folder: Path, arguments: list[str], limit: float, environment: dict[str, str] | None = None) -> dict:
    """One run with an empty store. Nobody should have removed many files in the last five minutes: ext4 does not use their inodes again so
    soon, and looks at them for each new file, which took ten processor seconds of a run."""
    (folder / "logs").mkdir(exist_ok=True)
    before = machine_seconds()
    usage = measure([REVERIE, "run", "--json", *arguments], folder, folder / "logs" / name, limit, 20_000, environment)
    if usage.code:
        sys.exit((folder / "logs" / name).with_suffix(".err").read_text()[-3000:])
    told = {"seconds": round(usage.seconds, 1), "machine_processor_seconds": round(machine_seconds() - before, 1), "driver_anonymous": round(usage.anonymous, 1), "driver_resident": round(usage.resident, 1)}
    say(f"{name}: {told}")
    return told


def main() -> None:
    parser = options_of_one_size(__doc__)
    parser.add_argument("--nodes", type=int, default=3)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        work, folder = stack.enter_context(prepared(options))
        if (folder / "store").exists():
            sys.exit(f"{folder / 'store'} is there already: remove it, and wait five minutes")
        stack.callback(shutil.rmtree, folder / "store", ignore_errors=True)
        stack.callback(shutil.rmtree, folder / "first-store", ignore_errors=True)
        time.sleep(SETTLE_SECONDS)
        (folder / "experiment.toml").write_text(experiment("scale", work / "model", RETRIEVERS))
        told = {"machine": machine(), "documents": options.documents, "one process": run("one-process", folder, [], options.limit)}
        here = artifacts(folder / "store")
        (folder / "store").rename(folder / "first-store")
        # Sockets of Ray have long names: its folder must have a short one.
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rv")))
        cluster = stack.enter_context(servers.ray(short / "ray", nodes=options.nodes))
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
        with WorkerMemory(short / "ray") as memory:
            told["ray"] = run("ray", folder, ["--engine", "ray", "--address", cluster.address], options.limit, environment)
        told["ray"]["largest_worker"] = memory.most
        there = artifacts(folder / "store")
        told["artifacts"] = {
            "one process": len(here), "ray": len(there), "in both": len(here.keys() & there.keys()),
            "same bytes": sum(there.get(name) == content for name, content in here.items()),
        }  # fmt: skip
        told["processor ratio"] = round(told["ray"]["machine_processor_seconds"] / told["one process"]["machine_processor_seconds"], 3)
    tell(told, options.json)


if __name__ == "__main__":
    main()
