"""Phoenix evaluates a data frame with our executors in the place of its own.

Needs arize-phoenix-evals. Nothing of the evaluation changes: two names are replaced, and everything goes faster.
"""

import asyncio
import time

import pandas
import phoenix.evals.evaluators
from phoenix.evals import async_evaluate_dataframe, create_evaluator

import reverie.executors


@create_evaluator(name="short")
async def short(text: str) -> bool:
    await asyncio.sleep(0.01)  # Stands for a judge.
    return len(text.split()) < 4


frame = pandas.DataFrame({"text": ["one", "two words", "three words here", "four words are here"] * 25})


def evaluate() -> tuple:
    started = time.perf_counter()
    result = asyncio.run(async_evaluate_dataframe(dataframe=frame, evaluators=[short], concurrency=20))
    seconds = time.perf_counter() - started
    statuses = [details["status"] for details in result["short_execution_details"]]
    return [score["score"] for score in result["short_score"]], statuses, seconds


scores, statuses, before = evaluate()
phoenix.evals.evaluators.AsyncExecutor = reverie.executors.AsyncExecutor
phoenix.evals.evaluators.SyncExecutor = reverie.executors.SyncExecutor
ours, our_statuses, after = evaluate()

print(scores[:4], statuses[:4])
print("alike:", (scores, statuses) == (ours, our_statuses))
print(f"Phoenix's executor {before:.2f} s, ours {after:.2f} s")
