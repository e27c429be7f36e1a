#!/usr/bin/env python3
"""Recall of `bm25`, `dense` and `hybrid` on manuals in eight languages, beside an independent BM25.

    benches/languages/corpora.py /tmp/manuals
    benches/languages/run.py /tmp/manuals [--languages de,ja] [--reverie target/release/reverie] [--embedders all-minilm-l6-v2,…]

For each language one experiment over its questions in `questions/`: chunks of 256 tokens, five passages. `english` is
what every version before this setting did. The independent BM25 is bm25s over the same chunks, read from the store's
Parquet: words with PyStemmer and NLTK's stop words where there is a stemmer, pairs of characters for Chinese, Japanese
and Korean, written here. Needs `pip install bm25s PyStemmer pyarrow`. Prints a table in Markdown.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import bm25s
import numpy as np
import pyarrow.parquet as parquet
import Stemmer

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOP = 5
STEMMERS = {"de": "german", "fr": "french", "es": "spanish", "ru": "russian", "ar": "arabic"}
WORD = re.compile(r"\w{2,}")
SPACELESS = re.compile(r"[\u3005-\u3007\u3031-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+|\w{2,}")
CHUNKER = {"sentence": {"chunk_size": 256, "chunk_overlap": 32}}


def experiment(language, corpus, store, embedders, k):
    words = [{"bm25": {"top_k": k} | settings} for settings in ({"language": "english"}, {}, {"tokens": "words"}, {"tokens": "ngrams"})]
    space = {"chunker": [CHUNKER], "retriever": words}
    if embedders:
        space["retriever"] += [{"dense": {"top_k": k}}, {"hybrid": {"top_k": k, "language": "english"}}, {"hybrid": {"top_k": k}}]
        space["embedder"] = embedders
    lines = [f'name = "{language}"', f'store = "{store}"', "[corpus]", f'source = "{corpus / language}"', "[dataset]",
             f'path = "{HERE / "questions" / language}.jsonl"', "[space]"]  # fmt: skip
    lines += [f"{axis} = {toml(values)}" for axis, values in space.items()]
    return "\n".join([*lines, "[evaluate]", 'metrics = ["recall", "mrr"]', ""])


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def ours(binary, file):
    subprocess.run([binary, "run", "--quiet", "--experiment", file], check=True, stdout=subprocess.DEVNULL)
    board = json.loads(subprocess.run([binary, "leaderboard", "--json", "--experiment", file], check=True, capture_output=True).stdout)
    column = next(i for i, column in enumerate(board["columns"]) if (column["kind"], column["name"]) == ("metric", "recall"))
    for row in board["rows"]:
        scores = row["cells"][column]
        yield row["settings"], scores


def chunks(store):
    """The chunks of the run: the tables of the store that have texts and places."""
    found = {}
    for file in Path(store).glob("artifacts/*/*.parquet"):
        table = parquet.read_table(file)
        if {"document", "number", "start", "end", "text", "searchable"} <= set(table.column_names):
            for row in table.to_pylist():
                if row["searchable"]:
                    found[row["document"], row["number"]] = row
    return [found[key] for key in sorted(found)]


def independent(language):
    """How the independent BM25 cuts texts."""
    english = Stemmer.Stemmer("english")

    def words(text):
        stemmer, stop = Stemmer.Stemmer(STEMMERS[language]), stop_words(language)
        found = WORD.findall(unicodedata.normalize("NFKC", text).lower())
        return [stemmer.stemWord(word) for word in found if word not in stop]

    def pairs(text):
        terms = []
        for run in SPACELESS.findall(unicodedata.normalize("NFKC", text).lower()):
            if run.isascii():
                terms.append(english.stemWord(run))
            else:
                terms += [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
        return terms

    return words if language in STEMMERS else pairs


def stop_words(language):
    # bm25s carries the lists of NLTK for German, French, Spanish and Russian.
    from bm25s import stopwords

    name = {"de": "STOPWORDS_GERMAN", "fr": "STOPWORDS_FRENCH", "es": "STOPWORDS_SPANISH", "ru": "STOPWORDS_RUSSIAN"}.get(language)
    return set(getattr(stopwords, name, ())) if name else set()


def theirs(language, store, questions):
    cut, rows = independent(language), chunks(store)
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index([cut(row["text"]) for row in rows], show_progress=False)
    recalls = []
    for question in questions:
        terms = [term for term in cut(question["question"]) if term in index.vocab_dict]
        scores = index.get_scores(terms) if terms else np.zeros(len(rows))
        best = [rows[i] for i in np.argsort(-scores, kind="stable")[:TOP] if scores[i] > 0]
        held = [any(holds(row, evidence) for row in best) for evidence in question["evidence"]]
        recalls.append(sum(held) / len(held))
    return float(np.mean(recalls))


def holds(row, evidence):
    """Whether a chunk holds at least half of a quote, white space aside."""
    if row["document"] != evidence["document"]:
        return False
    text, quote = ("".join(one.split()) for one in (row["text"], evidence["quote"]))
    half = -(-len(quote) // 2)
    return any(quote[at : at + half] in text for at in range(len(quote) - half + 1))


def name(settings):
    kind, values = next(iter(settings["retriever"].items()))
    cut = values.get("language", "auto") if values.get("language") == "english" else values.get("tokens", "auto")
    embedder = settings.get("embedder")
    return f"{kind}" + (f", {cut}" if kind != "dense" else "") + (f", {embedder}" if embedder else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--languages", default="de,fr,es,ru,zh,ja,ko,ar")
    parser.add_argument("--embedders", default="")
    parser.add_argument("--reverie", default=str(ROOT / "target/release/reverie"))
    options = parser.parse_args()
    embedders = [one for one in options.embedders.split(",") if one]
    table, columns = {}, []
    for language in options.languages.split(","):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "experiment.toml"
            file.write_text(experiment(language, options.corpora.resolve(), f"{folder}/store", embedders, TOP))
            questions = [json.loads(line) for line in (HERE / "questions" / f"{language}.jsonl").read_text().splitlines()]
            columns.append(f"{language} (n = {len(questions)})")
            found = {name(settings): scores["mean"] for settings, scores in ours(options.reverie, file)}
            found["bm25s beside it"] = theirs(language, f"{folder}/store", questions)
            for row, value in found.items():
                table.setdefault(row, []).append(value)
            print(f"{language}: done", file=sys.stderr)
    print("| recall@5 | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|")
    for row, values in sorted(table.items()):
        print(f"| {row} | " + " | ".join(f"{value:.3f}" for value in values) + " |")


if __name__ == "__main__":
    main()
