"""What the Python contenders share: the requests, and the line of JSON at the end.

Each is started as `NAME.py URL [--calls 600] [--timeout 2] [--concurrency N]`,
with URL that of a running simulator, and does the same calls as
`crates/models/examples/goodput.rs`.
"""

import argparse
import json
import time
from urllib.request import urlopen

LEARNED_AFTER = 5


def arguments(more=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--timeout", type=float, default=2)
    parser.add_argument("--concurrency", type=int, default=64)
    for flag in more:
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def request(number):
    question = f"Question {number:06}: what does the manual say about this?"
    return {"model": "simulated", "messages": [{"role": "user", "content": question}],
            "max_tokens": 64, "temperature": 0, "seed": 0}  # fmt: skip


def report(options, started, completed):
    """Prints what happened, as the provider and as the client saw it."""
    wall = time.perf_counter() - started
    with urlopen(f"{options.url}/stats") as answer:
        stats = json.load(answer)
    total = lambda first, name: sum(second[name] for second in stats["seconds"][first:])  # noqa: E731
    found = {
        "wall_seconds": wall,
        "completed": completed,
        "failed": options.calls - completed,
        "requests": total(0, "requests"),
        "rejected": total(0, "rejected"),
        "requests_after_5_s": total(LEARNED_AFTER, "requests"),
        "rejected_after_5_s": total(LEARNED_AFTER, "rejected"),
        "answered_twice": stats["answered_twice"],
    }
    print(json.dumps(found), flush=True)
