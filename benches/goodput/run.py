#!/usr/bin/env python3
"""Goodput beside peers: every contender in turn against every simulated limit.

    benches/goodput/run.py [--only SCENARIO]... [--contender NAME]... [--rounds 1]

Part of `benches/run goodput`, and of use alone while working on the limiter.
Needs `cargo build --release --workspace --examples --bin simulator`, and for
the peers the environment that `benches/run goodput` installs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
PYTHON = ROOT / ".tools" / "bench" / "bin" / "python"

TASKS = 600
TIMEOUT = 2  # Seconds after which every contender gives a request up; one in 10^9 answers takes longer.
TOKENS = 50  # Of each request with its answer: 18 of the prompt, 32 of the answer.
PATIENCE = 300  # Seconds after which a contender is stopped.
MOST_REFUSED = 0.01

LATENCY = {"latency": {"log_normal": {"median": 0.3, "sigma": 0.3}}, "seed": 7}


def rate(per_second):
    """A limit in requests per second, of which a quarter of a second may come at once."""
    return {"requests_per_minute": 60 * per_second, "request_burst": max(1, per_second // 4)}


# Name, settings of the simulator, and the share of the optimum that the project promised.
SCENARIOS = {
    "20 rps": (rate(20), 0.95),
    "20 rps, no headers": (rate(20) | {"rate_headers": False}, None),
    "200 rps": (rate(200), 0.95),
    "concurrency 8": ({"concurrency": 8}, 0.95),
    "1,000 tokens/s": ({"tokens_per_minute": 60_000, "token_burst": 250}, 0.95),
    "40, 20, 40 rps": (
        rate(40) | {"changes": [{"after_seconds": 5, "set": rate(20)}, {"after_seconds": 15, "set": rate(40)}]},
        0.95,
    ),
    "200 rps, 5% 500, 1% hang": (rate(200) | {"faults": {"server_error": 0.05, "hang": 0.01}}, 0.9),
}

# Name, and the command before the URL and the flags.
CONTENDERS = {
    "Reverie": [TARGET / "examples" / "goodput", "--hedge", 0.02],
    "Reverie, never a second attempt": [TARGET / "examples" / "goodput"],
    "Phoenix, 20 at once": [PYTHON, HERE / "phoenix_executor.py", "--concurrency", 20],
    "Phoenix, 128 at once": [PYTHON, HERE / "phoenix_executor.py", "--concurrency", 128],
    "retry loop, 64 at once": [PYTHON, HERE / "retry.py", "--concurrency", 64],
    "retry loop, no retry-after": [PYTHON, HERE / "retry.py", "--concurrency", 64, "--naive"],
}
OURS = "Reverie"


def say(text):
    print(text, file=sys.stderr, flush=True)


class Simulator:
    """A provider of its own for each run, so that all start alike."""

    def __init__(self, settings):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump(LATENCY | settings, self.file)
        self.file.flush()

    def command(self, *more):
        return [str(TARGET / "simulator"), self.file.name, *map(str, more)]

    def optimum(self):
        more = ("--optimum", TASKS, "--tokens", TOKENS, "--timeout", TIMEOUT)
        return json.loads(subprocess.run(self.command(*more), check=True, stdout=subprocess.PIPE).stdout)["seconds"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            sys.exit("the simulator did not start")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def stats(url):
    with urlopen(f"{url}/stats") as answer:
        return json.load(answer)


def measure(scenario, contender):
    """One run: what the contender reports, and its share of the optimum."""
    simulator = Simulator(SCENARIOS[scenario][0])
    with simulator:
        command = [*map(str, CONTENDERS[contender]), simulator.url, "--calls", str(TASKS), "--timeout", str(TIMEOUT)]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE)
            if done.returncode:
                sys.exit(f"{contender} failed on {scenario}")
            found = json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            seen = stats(simulator.url)
            late = seen["seconds"][5:]
            found = {
                "wall_seconds": PATIENCE,
                "completed": seen["unique_answered"],
                "failed": TASKS - seen["unique_answered"],
                "requests_after_5_s": sum(second["requests"] for second in late),
                "rejected_after_5_s": sum(second["rejected"] for second in late),
                "requests": seen["requests"],
            }
    optimum = simulator.optimum()
    late = found["requests_after_5_s"]
    found |= {
        "scenario": scenario,
        "contender": contender,
        "optimum_seconds": optimum,
        # Nobody is faster for having lost tasks.
        "share": found["completed"] / TASKS * optimum / max(found["wall_seconds"], optimum if found["failed"] else 0),
        "refused_after_5_s": found["rejected_after_5_s"] / late if late else None,
    }
    say(f"goodput: {scenario}: {contender}: {cells(found)[2]} of the optimum in {found['wall_seconds']:.1f} s")
    return found


def cells(run):
    refused = run["refused_after_5_s"]
    return [run["scenario"], run["contender"], f"{run['share']:.3f}", "–" if refused is None else f"{refused:.1%}",
            str(run["failed"]), f"{run['wall_seconds']:.1f}", f"{run['optimum_seconds']:.1f}", str(run["requests"])]  # fmt: skip


def table(runs):
    head = ["scenario", "contender", "of the optimum", "429s after 5 s", "lost", "wall s", "optimum s", "requests"]
    rows = [head, *map(cells, runs)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def rounds(scenario, contenders, n_rounds):
    """The run with the median share of each contender, and all shares of ours. Peers
    run once: a run is long, and latencies and faults are the same every time."""
    runs, shares = [], []
    for contender in contenders:
        turns = [measure(scenario, contender) for _ in range(n_rounds if contender == OURS else 1)]
        middle = statistics.median_low([turn["share"] for turn in turns])
        runs.append(next(turn for turn in turns if turn["share"] == middle))
        if contender == OURS:
            shares = [turn["share"] for turn in turns]
    return runs, shares


def rows(options, row):
    """For `benches/run`: a row per scenario, and the whole table as `options.tables`."""
    runs = []
    for scenario, (_, target) in SCENARIOS.items():
        found, shares = rounds(scenario, CONTENDERS, options.rounds)
        runs += found
        ours = found[0]
        peers = {run["contender"]: run["share"] for run in found if OURS not in run["contender"]}
        line = row(f"goodput, {scenario}", "of the optimum", shares, [1.0], "the optimum", target)
        # Too many refusals or a lost task are a miss, however fast it was.
        if target is not None and (ours["failed"] or (ours["refused_after_5_s"] or 0) > MOST_REFUSED):
            line["met"] = False
        yield line
        best = max(peers, key=peers.get)
        yield row(f"goodput, {scenario}", "of the optimum", shares, [peers[best]], f"best peer: {best}")
    options.tables["goodput"] = table(runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=SCENARIOS, metavar="SCENARIO", help=", ".join(SCENARIOS).replace("%", "%%"))
    parser.add_argument("--contender", action="append", choices=CONTENDERS, metavar="NAME", help=", ".join(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    runs = []
    for scenario in options.only or SCENARIOS:
        runs += rounds(scenario, options.contender or CONTENDERS, options.rounds)[0]
    print(table(runs))


if __name__ == "__main__":
    main()
