"""The same line in a script, a thread and a notebook: the factory picks the executor that works there.

The import below is all that changes from `phoenix.evals.executors`.
"""

import asyncio

from reverie.executors import get_executor_on_sync_context


def score(text: str) -> int:
    return len(text)


async def score_at_once(text: str) -> int:
    await asyncio.sleep(0.01)
    return len(text)


def evaluate(texts: list) -> None:
    executor = get_executor_on_sync_context(score, score_at_once, concurrency=10)
    print(type(executor).__name__, executor.run(texts)[0])


async def cell() -> None:
    evaluate(["in", "a", "notebook"])


evaluate(["in", "a", "script"])
asyncio.run(cell())
