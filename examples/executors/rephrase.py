"""Generates text for every row, twenty rows at a time, with a progress bar.

The import below is all that changes from `phoenix.evals.executors`.
"""

import asyncio

from reverie.executors import AsyncExecutor

rows = [{"query": f"How do I cook dish {number}?"} for number in range(100)]


async def rephrase(row: dict) -> str:
    await asyncio.sleep(0.02)  # Stands for a call of a model.
    return row["query"].replace("How do I cook", "What is the best way to make")


executor = AsyncExecutor(
    generation_fn=rephrase,
    concurrency=20,
    tqdm_bar_format="rephrasing |{bar}| {n_fmt}/{total_fmt} ({percentage:.1f}%) [{elapsed}<{remaining}]",
)
rephrased, details = executor.run(rows)

print(rephrased[0])
print(len(rephrased), {detail.status.value for detail in details})
