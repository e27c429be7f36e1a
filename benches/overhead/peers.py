#!/usr/bin/env python3
"""What an item costs in Python executors beyond itself.

    peers.py phoenix | reverie | workers [--items 300] [--seconds 0.001] [--concurrency 20]

Each item sleeps; prints one line of JSON. `workers` is the least that one can
write: workers of plain asyncio on a queue.
"""

import argparse
import asyncio
import importlib
import json
import time


async def item(seconds):
    await asyncio.sleep(seconds)
    return seconds


def executor(module, items, concurrency):
    """An AsyncExecutor of Phoenix or of our drop-in, which have the same signature."""
    made = importlib.import_module(module).AsyncExecutor(item, concurrency=concurrency)
    started = time.perf_counter()
    outputs, _ = made.run(items)
    return outputs, time.perf_counter() - started


async def workers(items, concurrency):
    queue, outputs = asyncio.Queue(), [None] * len(items)
    for entry in enumerate(items):
        queue.put_nowait(entry)

    async def work():
        while not queue.empty():
            index, payload = queue.get_nowait()
            outputs[index] = await item(payload)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return outputs, time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["phoenix", "reverie", "workers"])
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=0.001)
    parser.add_argument("--concurrency", type=int, default=20)
    options = parser.parse_args()
    items = [options.seconds] * options.items
    if options.kind == "workers":
        outputs, seconds = asyncio.run(workers(items, options.concurrency))
    else:
        module = {"phoenix": "phoenix.evals.executors", "reverie": "reverie.executors"}[options.kind]
        outputs, seconds = executor(module, items, options.concurrency)
    if outputs != items:
        raise SystemExit(f"{options.kind} lost items")
    print(json.dumps({"items": len(items), "seconds": seconds, "items_per_second": len(items) / seconds}))


if __name__ == "__main__":
    main()
