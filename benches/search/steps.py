"""How long each step of a search takes: 200 trials, 1,000 questions, 20 steps of 50 questions.

    python benches/search/steps.py [BINARY] [TRIALS] [QUESTIONS] [BLOCK]

Trials search five small documents by words, so that what is measured is what Reverie does beside the work: planning,
looking into the store, gathering scores. The race stops nobody (`share = 1`, an error rate of 1e-300), so that every
step asks every trial. Times are those between the lines `search_step` of the event log.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

binary = sys.argv[1] if len(sys.argv) > 1 else "target/release/reverie"
trials, questions, block = (int(argument) for argument in (sys.argv[2:5] or ("200", "1000", "50")))

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "docs").mkdir()
    sentences = [f"The {animal} number {i} lives in valley {i * 7 % 50}." for i in range(40) for animal in ("owl", "otter", "whale")]
    for i in range(5):
        (folder / "docs" / f"{i}.txt").write_text(" ".join(sentences[i::5]))
    golden = []
    for i in range(questions):
        quote = sentences[i % len(sentences)]
        evidence = [{"document": f"{i % len(sentences) % 5}.txt", "quote": quote}]
        golden.append(json.dumps({"id": f"q{i}", "question": f"{i}: where is {quote[4:20]}?", "reference": quote, "evidence": evidence}))
    (folder / "golden.jsonl").write_text("\n".join(golden))
    chunkers = ", ".join(f"{{ sentence = {{ chunk_size = {size}, chunk_overlap = 0 }} }}" for size in range(16, 16 + trials // 10))
    retrievers = ", ".join(f"{{ bm25 = {{ top_k = {k} }} }}" for k in range(1, 11))
    (folder / "experiment.toml").write_text(f"""name = "steps"
[corpus]
source = "docs"
[dataset]
path = "golden.jsonl"
[space]
chunker = [{chunkers}]
retriever = [{retrievers}]
[search]
race = {{ share = 1.0, error_rate = 1e-300, block = {block} }}
[evaluate]
metrics = ["recall", "ndcg", "precision"]
""")
    began = time.time()
    run = subprocess.run([Path(binary).absolute(), "run", "--quiet"], cwd=folder, capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stdout + run.stderr)
    total = time.time() - began
    (log,) = (path for path in (folder / ".reverie" / "runs").glob("*/events.jsonl") if path.parent.name != "loading")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    marks = [event["time_ms"] for event in events if event["kind"] in ("search_step", "run_finished")]
    steps = [(after - before) / 1000 for before, after in zip(marks, marks[1:])]
    middle = sorted(steps[1:-1])[len(steps[1:-1]) // 2]
    print(f"{trials} trials, {questions} questions: {len(steps)} steps, {total:.1f} s in all")
    print("seconds of each step:", " ".join(f"{step:.2f}" for step in steps))
    print(f"the first {steps[0]:.2f}, the median of the others {middle:.2f}, the last (with the results) {steps[-1]:.2f}")
