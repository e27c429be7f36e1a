"""Calls of an endpoint whose limit nobody told us: it takes seven at once, and refuses the others.

`limiter="adaptive"` finds that out. Refused calls wait and are made again; they do not count as failed.
"""

import asyncio

from reverie.exceptions import RateLimitError
from reverie.executors import AsyncExecutor

running = 0


async def call(number):
    """Stands for a call over the network."""
    global running
    if running == 7:
        raise RateLimitError("429 Too Many Requests")
    running += 1
    try:
        await asyncio.sleep(0.02)
        return number * number
    finally:
        running -= 1


executor = AsyncExecutor(call, concurrency=256, max_retries=0, limiter="adaptive")
squares, details = executor.run(range(300))
print("all there:", squares == [number * number for number in range(300)])
print("failed:", sum(each.status.value == "FAILED" for each in details))
