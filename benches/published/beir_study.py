"""BEIR's SciFact and FiQA: nDCG@10 of BM25, of all-MiniLM-L6-v2, and of three ways to join the two.

Each document is one line of a file and one chunk. A file has 2,000 lines, so 57,638 documents are 29 files.
nDCG@10 is computed as trec_eval does for judgements of 0 and 1.
"""

import csv
import math
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import beir
from study import MINILM, Row, Study, mean, say

LINES = 2000
# The number of hits of BM25, and of MiniLM, that are joined.
DEPTH = 100
# BM25: Anserini's regression results for BEIR 1.0.0 (flat index, k1 0.9, b 0.4). Dense: MTEB's all-MiniLM-L6-v2.
PUBLISHED = {"scifact": {"bm25": 0.6789}, "fiqa": {"bm25": 0.2361, "dense": 0.36867}}
TITLES = {"scifact": "BEIR SciFact", "fiqa": "BEIR FiQA"}
BM25_REASON = "Snowball's English stemmer (Porter's second) and exact lengths; Anserini has Porter's first and lengths in one byte"
DENSE_REASON = "the model as it is shipped, in int8"
FUSION_REASON = f"published for bge-base and 1,000 hits of each side (SciFact 0.7420, 0.7472, 0.6806; FiQA 0.3671, 0.3942, 0.2470); here MiniLM and {DEPTH}: compare the order"


def corpus(name, options):
    """The corpus as three dictionaries: the text of each file, the place (file, start, end) of each document in bytes,
    and the text of each document."""
    files, places, texts = {}, {}, {}
    documents = [(document, text) for document, text in beir.documents(name, options.corpora) if text]
    for first in range(0, len(documents), LINES):
        file, at, lines = f"{first // LINES:03}.txt", 0, []
        for document, text in documents[first : first + LINES]:
            size = len(text.encode())
            places[document], texts[document] = (file, at, at + size), text
            lines.append(text)
            at += size + 1
        files[file] = "\n".join(lines)
    return files, places, texts


def questions(name, options, places, texts):
    """The official test questions with their relevant documents as evidence, and for each question the ids of all
    documents that are judged relevant."""
    judged = {}
    for line in (options.data / "beir" / f"{name}.test.qrels").read_text().splitlines():
        question, _, document, gain = line.split()
        if int(gain) > 0:
            judged.setdefault(question, set()).add(document)
    with open(options.data / "beir" / f"{name}.test.tsv", encoding="utf-8", newline="") as lines:
        words = dict(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = []
    for question, documents in judged.items():
        found = sorted(document for document in documents if document in places)
        evidence = [
            {"document": places[document][0], "quote": texts[document], "span": {"start": places[document][1], "end": places[document][2]}}
            for document in found
        ]
        if evidence:
            rows.append({"id": question, "question": words[question], "evidence": evidence})
    if missing := len(judged) - len(rows):
        say(f"{name}: {missing} questions without a relevant document in the corpus are left out")
    return rows, judged


def ndcg(ranking, relevant, k=10):
    gained = sum(1 / math.log2(rank + 2) for rank, document in enumerate(ranking[:k]) if document in relevant)
    return gained / sum(1 / math.log2(rank + 2) for rank in range(min(k, len(relevant))))


def hits(trial, places):
    """For each question, the documents that the trial found with their scores, best first."""
    documents = {(file, start): document for document, (file, start, _) in places.items()}
    found = {}
    for question in trial["questions"]:
        passages = question["passages"]
        found[question["question"]] = [(documents[each["document"], each["span"]["start"]], each["score"]) for each in passages]
    return found


def fuse(lists, score):
    """The documents of all lists, highest sum first. `score` gives each document of a list its share of the sum."""
    sums = {}
    for each in lists:
        for document, value in score(each):
            sums[document] = sums.get(document, 0) + value
    return sorted(sums, key=lambda document: (-sums[document], document))


def reciprocal(each):
    return [(document, 1 / (60 + rank)) for rank, (document, _) in enumerate(each, 1)]


def min_max(each):
    values = [score for _, score in each]
    least, most = (min(values), max(values)) if values else (0, 0)
    return [(document, (score - least) / (most - least) if most > least else 1.0) for document, score in each]


WAYS = {"ranks (RRF, k 60)": reciprocal, "scores, normalised (min-max)": min_max, "scores, raw": lambda each: each}


def rows(options):
    for name in ("scifact", "fiqa"):
        study, title, published = Study(options, name), TITLES[name], PUBLISHED[name]
        files, places, texts = corpus(name, options)
        study.write_documents(files.items())
        asked, judged = questions(name, options, places, texts)
        (study.folder / "lines.py").write_text(LINE_CHUNKER)
        settings = "" if options.bm25_defaults else ", k1 = 0.9, b = 0.4"
        models, dense = [], ""
        if not options.no_models:
            models, dense = [MINILM], f'\nembedder = ["minilm"]\nretriever = [{{ bm25 = {{ top_k = {DEPTH}{settings} }} }}, {{ dense = {{ top_k = {DEPTH} }} }}]'
        space = 'chunker = [{ python = { file = "lines.py", timeout_seconds = 600 } }]'
        space += dense or f"\nretriever = [{{ bm25 = {{ top_k = {DEPTH}{settings} }} }}]"
        results = study.run(asked, space, '[{ ndcg = { k = 10, name = "ndcg_10" } }]', models)
        rankings = {}
        for trial in results["trials"]:
            retriever = re.match(r"\w+", trial["trial"]["labels"]["retriever"])[0]
            rankings[retriever] = hits(trial, places)
            own = trial["metrics"]["ndcg_10"]["mean"]
            by_trec = mean(ndcg([document for document, _ in found], judged[question]) for question, found in rankings[retriever].items())
            if abs(own - by_trec) > 1e-9:
                say(f"{name}, {retriever}: the metric says {own:.6f}, the formula of trec_eval {by_trec:.6f}")
            what = "BM25, k1 0.9, b 0.4" if retriever == "bm25" else "all-MiniLM-L6-v2"
            if retriever == "bm25" and options.bm25_defaults:
                what, known = "BM25, default k1 and b", None
            else:
                known = published.get(retriever)
            yield Row(title, f"{what}: nDCG@10", known, by_trec, BM25_REASON if retriever == "bm25" else DENSE_REASON)
        if len(rankings) == 2:
            for way, score in WAYS.items():
                fused = {question: fuse([side[question] for side in rankings.values()], score) for question in judged if question in rankings["bm25"]}
                value = mean(ndcg(found, judged[question]) for question, found in fused.items())
                yield Row(title, f"BM25 and MiniLM joined by {way}: nDCG@10", None, value, FUSION_REASON)


LINE_CHUNKER = '''"""Every line is a document."""


def chunk(text):
    parts, at = [], 0
    for line in text.split("\\n"):
        parts.append((at, at + len(line)))
        at += len(line) + 1
    return parts
'''
