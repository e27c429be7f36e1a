"""What a call costs in executors beyond itself: `benches/run overhead`.

In Rust: a million calls that do nothing through the limiter that every call of a
model passes, and the most memory for ten thousand to ten million of them. From
Python: items of a millisecond, 20 at once, through `reverie.executors`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PYTHON = ROOT / ".tools" / "bench" / "bin" / "python"

PROMISED = 1_000_000  # Calls per second.
SIZES = [10_000, 100_000, 1_000_000, 10_000_000]
# Phoenix takes 60 items a second; the others need more of them to be measured.
FEW, MANY = 300, 10_000


def say(text):
    print(text, file=sys.stderr, flush=True)


def output(*command):
    found = json.loads(subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE).stdout)
    say(f"overhead: {' '.join(map(str, command[1:]))}: {json.dumps(found)}")
    return found


def wheel():
    """Installs our wheel into the environment of the peers. False if there is none."""
    found = sorted((TARGET / "wheels").glob("reverie*.whl"), key=lambda path: path.stat().st_mtime)
    if found:
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--force-reinstall", "--no-deps", found[-1]], check=True)
    return not subprocess.run([PYTHON, "-c", "import reverie.executors"], stderr=subprocess.DEVNULL).returncode


def rows(options, row):
    binary = TARGET / "release" / "examples" / "overhead"
    speeds, memory = {"adaptive": [], "fixed": []}, {size: [] for size in SIZES}
    for _ in range(options.rounds):
        for size in SIZES:
            found = output(binary, size, 64, "adaptive")
            memory[size].append(found["peak_memory_bytes"] / 1e6)
            if size == 1_000_000:
                speeds["adaptive"].append(found["calls_per_second"])
        speeds["fixed"].append(output(binary, 1_000_000, 64, "fixed")["calls_per_second"])
    note = "peak memory of 10^4, 10^5, 10^6, 10^7 calls: " + ", ".join(f"{min(memory[s]):.1f}" for s in SIZES) + " MB"
    for kind, note in [("adaptive", note), ("fixed", "")]:
        yield row(f"overhead, Rust, {kind} limiter", "calls/s", speeds[kind], [PROMISED], "promised", 1, note=note)
    few, many = memory[SIZES[0]], memory[SIZES[-1]]
    yield row("memory of 10^7 calls", "MB", many, few, "memory of 10^4 calls", 0.8, True)

    has_wheel = wheel()
    if not has_wheel:
        say("overhead: there is no wheel of ours: the rows for Python show the peers alone")
    rates = {"phoenix": [], "workers": [], "reverie": []}
    for _ in range(options.rounds):
        for kind, items in [("phoenix", FEW), ("workers", MANY), ("reverie", MANY)]:
            if kind != "reverie" or has_wheel:
                rates[kind].append(output(PYTHON, HERE / "peers.py", kind, "--items", items)["items_per_second"])
    phoenix, workers = ("Phoenix AsyncExecutor", rates["phoenix"]), ("asyncio workers on a queue", rates["workers"])
    if has_wheel:
        for (name, theirs), target in [(phoenix, 20), (workers, 0.9)]:
            yield row("overhead, Python, 1 ms tasks, 20 at once", "items/s", rates["reverie"], theirs, name, target)
    else:
        yield row("plain asyncio workers (ours absent), 1 ms tasks, 20 at once", "items/s", workers[1], phoenix[1], phoenix[0])
