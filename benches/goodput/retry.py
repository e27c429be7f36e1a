#!/usr/bin/env python3
"""What people write by hand: a semaphore, and each call in a loop that tries
again after full-jitter exponential back-off. It first waits for as long as the
provider says, where it does; with --naive it does not listen."""

import asyncio
import random
import time

import aiohttp
from contender import arguments, report, request

OPTIONS = arguments(["--naive"])
ATTEMPTS = 10
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0


def asked_for(headers):
    """The wait that the provider asked for, in seconds."""
    if "retry-after-ms" in headers:
        return float(headers["retry-after-ms"]) / 1000
    return float(headers.get("retry-after", 0))


async def call(session, semaphore, jitter, body):
    for attempt in range(ATTEMPTS):
        wait = 0
        try:
            async with semaphore, session.post("/v1/chat/completions", json=body) as answer:
                if answer.status == 200:
                    await answer.json()
                    return True
                if answer.status != 429 and answer.status < 500:
                    return False
                wait = 0 if OPTIONS.naive else asked_for(answer.headers)
        except (aiohttp.ClientError, asyncio.TimeoutError, ValueError):
            pass
        # Without the jitter, all that were told the same come back together and lose again.
        await asyncio.sleep(wait + jitter.uniform(0, min(LONGEST_WAIT, FIRST_WAIT * 2**attempt)))
    return False


async def run():
    semaphore, jitter = asyncio.Semaphore(OPTIONS.concurrency), random.Random(1)
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=OPTIONS.timeout)
    async with aiohttp.ClientSession(OPTIONS.url, connector=connector, timeout=timeout) as session:
        bodies = [request(number) for number in range(OPTIONS.calls)]
        started = time.perf_counter()
        done = await asyncio.gather(*(call(session, semaphore, jitter, body) for body in bodies))
    report(OPTIONS, started, sum(done))


asyncio.run(run())
