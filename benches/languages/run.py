#!/usr/bin/env python3
"""Recall of `bm25`, `dense` and `hybrid` on manuals in eight languages, next to an independent BM25.

    benches/languages/corpora.py /tmp/manuals
    benches/languages/run.py /tmp/manuals [--languages de,ja] [--reverie target/release/reverie] [--embedders all-minilm-l6-v2,…] [--write]

Each language is one experiment with its questions from `questions/`, chunks of 256 tokens and five passages. The rows
`english` show what all versions did before the setting `language` existed.

The independent BM25 is bm25s. It searches the same chunks, which are read from the Parquet files of the store. German,
French, Spanish, Russian and Arabic are cut into words, with PyStemmer and NLTK's stop words (bm25s has none for
Arabic). Chinese, Japanese and Korean are cut into pairs of characters by `pairs` below. Recall is computed as for ours:
a quote is found if the five passages together cover at least half of its bytes in the document.

Needs `pip install bm25s PyStemmer pyarrow`. Prints a table in Markdown; `--write` also puts it into
docs/guides/languages.md.
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
PAGE = ROOT / "docs" / "guides" / "languages.md"
BEGIN, END = "<!-- languages -->", "<!-- end of languages -->"
PEER = "bm25s beside it"
TOP = 5
# The share of a quote that passages must cover, as in our `recall`.
MIN_OVERLAP = 0.5
STEMMERS = {"de": "german", "fr": "french", "es": "spanish", "ru": "russian", "ar": "arabic"}
WORD = re.compile(r"\w{2,}")
PAIRED = r"[\u3005-\u3007\u3031-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
PAIRED_OR_WORD = re.compile(rf"({PAIRED}+)|(?:(?!{PAIRED})\w){{2,}}")
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
    """The searchable chunks of the run, sorted by document and number. They are read from all tables of the store that
    have the columns of chunks."""
    found = {}
    for file in Path(store).glob("artifacts/*/*.parquet"):
        table = parquet.read_table(file)
        if {"document", "number", "start", "end", "text", "searchable"} <= set(table.column_names):
            for row in table.to_pylist():
                if row["searchable"]:
                    found[row["document"], row["number"]] = row
    return [found[key] for key in sorted(found)]


def documents(store):
    """The texts of the run's documents by path. They are read from all tables of the store that have the columns of
    documents."""
    found = {}
    for file in Path(store).glob("artifacts/*/*.parquet"):
        names = set(parquet.read_schema(file).names)
        if {"path", "text", "content", "format"} <= names:
            for row in parquet.read_table(file, columns=["path", "text"]).to_pylist():
                if row["text"] is not None:
                    found[row["path"]] = row["text"]
    return found


class Places:
    """A text without its white space, and the bytes at which each remaining character starts and ends in the text."""

    def __init__(self, text):
        kept, self.starts, self.ends, at = [], [], [], 0
        for character in text:
            end = at + len(character.encode())
            if not character.isspace():
                kept.append(character)
                self.starts.append(at)
                self.ends.append(end)
            at = end
        self.text = "".join(kept)

    def span(self, quote):
        """Start and end, in bytes, of the first place with the quote; white space may differ. None if there is none."""
        quote = "".join(quote.split())
        at = self.text.find(quote)
        return (self.starts[at], self.ends[at + len(quote) - 1]) if quote and at >= 0 else None


def golden_spans(texts, questions):
    """For each question, a list with (document, first byte, end) of each quote."""
    places, spans = {}, []
    for question in questions:
        spans.append([])
        for evidence in question["evidence"]:
            name = evidence["document"]
            if name not in texts:
                sys.exit(f"{question['id']}: the store has no document {name}")
            if name not in places:
                places[name] = Places(texts[name])
            span = places[name].span(evidence["quote"])
            if span is None:
                sys.exit(f"{question['id']}: {name} does not hold the quote “{evidence['quote']}”")
            spans[-1].append((name, *span))
    return spans


def covered(rows, span):
    """The share of a span's bytes that the chunks cover together."""
    name, start, end = span
    bytes_covered, reached = 0, start
    for row in sorted((row for row in rows if row["document"] == name), key=lambda row: row["start"]):
        first, last = max(row["start"], reached), min(row["end"], end)
        bytes_covered += max(last - first, 0)
        reached = max(reached, last)
    return bytes_covered / (end - start)


def independent(language):
    """The function with which the independent BM25 cuts a text of this language into terms."""
    english = Stemmer.Stemmer("english")

    def words(text):
        stemmer, stop = Stemmer.Stemmer(STEMMERS[language]), stop_words(language)
        found = WORD.findall(unicodedata.normalize("NFKC", text).lower())
        return [stemmer.stemWord(word) for word in found if word not in stop]

    def pairs(text):
        terms = []
        for found in PAIRED_OR_WORD.finditer(unicodedata.normalize("NFKC", text).lower()):
            if run := found[1]:
                terms += [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
            else:
                terms.append(english.stemWord(found[0]))
        return terms

    return words if language in STEMMERS else pairs


def stop_words(language):
    # bm25s has NLTK's lists for German, French, Spanish and Russian, but none for Arabic.
    from bm25s import stopwords

    name = {"de": "STOPWORDS_GERMAN", "fr": "STOPWORDS_FRENCH", "es": "STOPWORDS_SPANISH", "ru": "STOPWORDS_RUSSIAN"}.get(language)
    return set(getattr(stopwords, name, ())) if name else set()


def theirs(language, store, questions):
    cut, rows = independent(language), chunks(store)
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index([cut(row["text"]) for row in rows], show_progress=False)
    recalls = []
    for question, spans in zip(questions, golden_spans(documents(store), questions), strict=True):
        terms = [term for term in cut(question["question"]) if term in index.vocab_dict]
        scores = index.get_scores(terms) if terms else np.zeros(len(rows))
        best = [rows[i] for i in np.argsort(-scores, kind="stable")[:TOP] if scores[i] > 0]
        held = [covered(best, span) >= MIN_OVERLAP for span in spans]
        recalls.append(sum(held) / len(held))
    return float(np.mean(recalls))


def name(settings):
    kind, values = next(iter(settings["retriever"].items()))
    cut = values.get("language", "auto") if values.get("language") == "english" else values.get("tokens", "auto")
    embedder = settings.get("embedder")
    return f"{kind}" + (f", {cut}" if kind != "dense" else "") + (f", {embedder}" if embedder else "")


def markdown(columns, table):
    """The table in Markdown, with the independent BM25 in the last row."""
    rows = sorted(table.items(), key=lambda row: (row[0] == PEER, row[0]))
    lines = ["| recall@5 | " + " | ".join(columns) + " |", "|---" + "|---" * len(columns) + "|"]
    lines += [f"| {row} | " + " | ".join(f"{value:.3f}" for value in values) + " |" for row, values in rows]
    return "\n".join(lines)


def publish(text):
    """Writes the table into docs/guides/languages.md, between its markers."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--languages", default="de,fr,es,ru,zh,ja,ko,ar")
    parser.add_argument("--embedders", default="")
    parser.add_argument("--reverie", default=str(ROOT / "target/release/reverie"))
    parser.add_argument("--write", action="store_true", help="put the table into docs/guides/languages.md")
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
            found[PEER] = theirs(language, f"{folder}/store", questions)
            for row, value in found.items():
                table.setdefault(row, []).append(value)
            print(f"{language}: done", file=sys.stderr)
    text = markdown(columns, table)
    print(text)
    if options.write:
        publish(text)


if __name__ == "__main__":
    main()
