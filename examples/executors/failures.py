"""A provider that limits, stalls and refuses: what is tried again, what is not, and what the details say.

The imports below are all that changes from `phoenix.evals`.
"""

import asyncio
from collections import Counter

from reverie.exceptions import RateLimitError
from reverie.executors import AsyncExecutor

attempts: Counter = Counter()


async def judge(question: str) -> str:
    attempts[question] += 1
    if question == "limited" and attempts[question] <= 2:
        raise RateLimitError("429")
    if question == "stalls" and attempts[question] == 1:
        await asyncio.sleep(60)
    if question == "broken":
        raise ValueError("the answer is no JSON")
    return "relevant"


executor = AsyncExecutor(
    judge, concurrency=4, max_retries=3, timeout=1, exit_on_error=False, fallback_return_value=None
)
questions = ["easy", "limited", "stalls", "broken"]
outputs, details = executor.run(questions)

for question, output, detail in zip(questions, outputs, details):
    errors = ", ".join(type(error).__name__ for error in detail.exceptions)
    print(f"{question:8} {output!s:10} {detail.status.value:24} {errors}")
