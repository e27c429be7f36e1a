#!/usr/bin/env python3
"""How long `reverie.evaluate` takes over many rows whose columns are dictionaries, by metrics that ask nobody.

    make python && .tools/python-test/bin/python benches/overhead/evaluate.py [ROWS]
"""

import sys
import tempfile
import time

import pandas as pd

import reverie


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    numbers = range(rows)
    frame = pd.DataFrame({
        "user_input": [f"What is item {i}?" for i in numbers],
        "response": pd.Categorical([f"item {i % 977} is made of wood and iron" for i in numbers]),
        "reference": pd.Categorical([f"item {i % 1013} is made of wood" for i in numbers]),
        "topic": pd.Categorical([f"t{i % 12}" for i in numbers]),
    })  # fmt: skip
    for metrics in (["exact_match"], ["exact_match", "token_f1", "rouge_l"]):
        with tempfile.TemporaryDirectory() as store:
            began, cpu = time.perf_counter(), time.process_time()
            scores = reverie.evaluate(frame, metrics, store=store, progress=False)
            wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        assert all(each["n_scored"] == rows for each in scores.data["metrics"])
        print(f"{rows} rows, {', '.join(metrics)}: {wall:.2f} s, {cpu:.2f} s of processor time")


if __name__ == "__main__":
    main()
