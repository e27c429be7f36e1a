#!/usr/bin/env python3
"""What an executor adds to tasks of one millisecond: ours, Phoenix's, and plain asyncio workers on a queue.

    python benches/overhead/python.py [--items 20000] [--phoenix-items 300] [--rounds 5]

Needs `reverie` (`pip install .`) and, for its column, arize-phoenix-evals. Prints a table to the standard error stream
and JSON to the standard output. A task sleeps for one millisecond; all three run in the same process in turns.
"""

import argparse
import asyncio
import json
import platform
import statistics
import sys
import time
from importlib.util import find_spec

from reverie.executors import AsyncExecutor


async def task(value):
    await asyncio.sleep(0.001)
    return value


async def workers(items, concurrency):
    """What one would write by hand: nothing but a queue and the workers."""
    queue = asyncio.Queue()
    outputs = [None] * items
    for item in enumerate(range(items)):
        queue.put_nowait(item)

    async def work():
        while not queue.empty():
            index, value = queue.get_nowait()
            outputs[index] = await task(value)

    await asyncio.gather(*(work() for _ in range(concurrency)))
    return outputs


def plain(items, concurrency):
    return asyncio.run(workers(items, concurrency))


def ours(items, concurrency):
    return AsyncExecutor(task, concurrency=concurrency).run(range(items))[0]


def theirs(items, concurrency):
    from phoenix.evals.executors import AsyncExecutor as PhoenixExecutor

    return PhoenixExecutor(task, concurrency=concurrency).run(range(items))[0]


def rate(side, items, concurrency):
    started = time.perf_counter()
    assert side(items, concurrency) == list(range(items))
    return items / (time.perf_counter() - started)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=20_000, help="tasks for us and for plain workers")
    parser.add_argument("--phoenix-items", type=int, default=300, help="tasks for Phoenix, which is slow")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sides = {"ours": ours, "plain": plain}
    if find_spec("phoenix"):
        sides["phoenix"] = theirs
    else:
        print("arize-phoenix-evals is not installed: its column is left out", file=sys.stderr)

    results = []
    print(f"{'concurrency':>11} {'ours/s':>10} {'plain/s':>10} {'Phoenix/s':>10} {'to plain':>9} {'to Phoenix':>10}",
          file=sys.stderr)  # fmt: skip
    for concurrency in (3, 20):
        # Three at a time are slow by nature, so there are fewer.
        items = {name: options.items * concurrency // 20 for name in sides}
        items["phoenix"] = options.phoenix_items * concurrency // 20
        rates = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, side in sides.items():
                rates[name].append(rate(side, items[name], concurrency))
        median = {name: statistics.median(values) for name, values in rates.items()}
        ratios = {f"to_{name}": median["ours"] / median[name] for name in sides if name != "ours"}
        results.append({"concurrency": concurrency, "items": items, "per_second": rates, "median": median, **ratios})
        print(f"{concurrency:>11} {median['ours']:>10.0f} {median['plain']:>10.0f} {median.get('phoenix', 0):>10.0f} "
              f"{ratios['to_plain']:>9.2f} {ratios.get('to_phoenix', 0):>10.0f}", file=sys.stderr)  # fmt: skip
    print(json.dumps({"python": platform.python_version(), "task_seconds": 0.001, "results": results}, indent=2))


if __name__ == "__main__":
    main()
