#!/usr/bin/env python3
"""Phoenix's AsyncExecutor, used as its documentation shows it: an asynchronous
function of one input that raises `RateLimitError` on 429, so that the executor
lowers its concurrency; every other failure is an exception, which it retries."""

import asyncio
import time

import aiohttp
from contender import arguments, report, request
from phoenix.evals.executors import AsyncExecutor, ExecutionStatus
from phoenix.evals.rate_limiters import RateLimitError

OPTIONS = arguments()


async def run():
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(OPTIONS.url, connector=connector) as session:

        async def generate(body):
            async with session.post("/v1/chat/completions", json=body) as answer:
                if answer.status == 429:
                    raise RateLimitError()
                answer.raise_for_status()
                return (await answer.json())["choices"][0]["message"]["content"]

        executor = AsyncExecutor(
            generate,
            concurrency=OPTIONS.concurrency,
            exit_on_error=False,
            fallback_return_value=None,
            timeout=OPTIONS.timeout,
        )
        started = time.perf_counter()
        _, details = await executor.execute([request(number) for number in range(OPTIONS.calls)])
    done = {ExecutionStatus.COMPLETED, ExecutionStatus.COMPLETED_WITH_RETRIES}
    report(OPTIONS, started, sum(one.status in done for one in details))


asyncio.run(run())
