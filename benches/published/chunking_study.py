"""Chroma's study of chunking: five corpora, and 472 questions with the places of their evidence.

B. Smith, A. Troynikov, "Evaluating Chunking Strategies for Retrieval", 2024. Their chunkers (windows of tokens, and a
recursive splitter with their separators; both measure sizes in cl100k tokens) and ours cut the same texts. The same
embedder searches all chunks, and the first five hits count. They are scored by our metrics and by their formula. For
the values in their README, only as many hits count as chunks hold the evidence (`retrieve=-1`); those values are
computed here in the same way.
"""

import csv
import gzip
import json
from pathlib import Path

from study import MINILM, Row, Study, component, mean

BENCHES = Path(__file__).resolve().parents[1]
STUDY = "Chroma, chunking"
# `top_k` of the retriever, and how many of these hits are scored.
FOUND, COUNTED = 20, 5
# From their README: text-embedding-3-large, windows of 1,200 characters.
PUBLISHED = {"recall": 0.8091, "iou": 0.1772}
CHARACTERS = 1200
# For each of their chunkers: ours of the same kind and size, its settings, and why the results differ.
WORDS = "ours cuts between words, theirs anywhere"
RECURSIVE = "other separators: ours has `. ` for theirs `.`, `?` and `!`"
PAIRS = [
    ("fixed_200", "token", {"chunk_size": 200, "chunk_overlap": 0}, WORDS),
    ("fixed_400", "token", {"chunk_size": 400, "chunk_overlap": 0}, WORDS),
    ("fixed_800_400", "token", {"chunk_size": 800, "chunk_overlap": 400}, WORDS),
    ("recursive_200", "recursive", {"chunk_size": 200, "chunk_overlap": 0}, RECURSIVE),
    ("recursive_400", "recursive", {"chunk_size": 400, "chunk_overlap": 0}, RECURSIVE),
]
FORMULA = {"recall": "token_recall", "precision": "token_precision", "iou": "token_iou"}
SAME = {
    "recall": "our metric leaves white space out",
    "precision": "our metric leaves white space out",
    "iou": "our metric counts every place once; theirs counts text that two chunks hold twice in the denominator",
}


def union(ranges):
    merged = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def size(ranges):
    return sum(end - start for start, end in ranges)


def chroma_scores(found, wanted):
    """Recall, precision and IoU by their formula. `found` has the ranges that were found in the document of the
    evidence, and the total size of what was found in other documents. `wanted` has the ranges of the evidence."""
    here, elsewhere = found
    shared = union((max(a, c), min(b, d)) for a, b in here for c, d in wanted if max(a, c) < min(b, d))
    retrieved = size(here) + elsewhere
    missed = size(union(wanted)) - size(shared)
    return {
        "recall": size(shared) / size(wanted),
        "precision": size(shared) / retrieved if retrieved else 0.0,
        "iou": size(shared) / (retrieved + missed) if retrieved + missed else 0.0,
    }


class Characters:
    """Converts places in a text from bytes of UTF-8 to characters."""

    def __init__(self, text):
        self.places, at = {}, 0
        for number, character in enumerate(text):
            self.places[at] = number
            at += len(character.encode())
        self.places[at] = len(text)

    def __call__(self, span):
        return self.places[span["start"]], self.places[span["end"]]


def rows(options):
    study = Study(options, "chunking")
    folder = options.data / "chunking"
    with open(folder / "questions_df.csv", encoding="utf-8", newline="") as lines:
        asked = [{**row, "references": json.loads(row["references"])} for row in csv.DictReader(lines)]
    texts = {name: gzip.decompress((folder / f"{name}.md.gz").read_bytes()).decode() for name in sorted({row["corpus_id"] for row in asked})}
    study.write_documents((f"{name}.txt", text) for name, text in texts.items())
    bytes_before = lambda name, at: len(texts[name][:at].encode())  # noqa: E731
    golden = []
    for number, row in enumerate(asked):
        name = row["corpus_id"]
        places = [(each["content"], bytes_before(name, each["start_index"]), bytes_before(name, each["end_index"])) for each in row["references"]]
        evidence = [{"document": f"{name}.txt", "quote": quote, "span": {"start": start, "end": end}} for quote, start, end in places]
        golden.append({"id": f"q{number:03}", "question": row["question"], "evidence": evidence})
    (study.folder / "chunkers.py").write_text(f"BENCHES = {str(BENCHES)!r}\n" + Path(__file__).with_name("chunkers.py").read_text())
    chunkers = [f'{{ python = {{ file = "chunkers.py", function = "{name}", timeout_seconds = 600 }} }}' for name in ["characters_1200", *(pair[0] for pair in PAIRS)]]
    chunkers += [f"{{ {name} = {{ {', '.join(f'{key} = {value}' for key, value in settings.items())} }} }}" for _, name, settings, _ in PAIRS]
    retriever = f"bm25 = {{ top_k = {FOUND} }}" if options.no_models else f"dense = {{ top_k = {FOUND} }}"
    space = f"chunker = [{', '.join(chunkers)}]\nretriever = [{{ {retriever} }}]" + ("" if options.no_models else '\nembedder = ["minilm"]')
    metrics = [f"{{ {metric} = {{ k = {COUNTED} }} }}" for metric in FORMULA.values()]
    results = study.run(golden, space, f"[{', '.join(metrics)}]", [] if options.no_models else [MINILM])
    characters = {f"{name}.txt": Characters(text) for name, text in texts.items()}
    by_id = {question["id"]: row for question, row in zip(golden, asked)}
    trials = {chunker_name(trial): (trial, found_spans(trial, by_id, characters)) for trial in results["trials"]}
    yield from as_published(trials["characters_1200"][1], options)
    five = {name: means(spans, lambda _: COUNTED) for name, (_, spans) in trials.items()}
    for theirs, name, settings, reason in PAIRS:
        mine = five[f"{name} {settings['chunk_size']} {settings['chunk_overlap']}"]
        for metric in FORMULA:
            what = f"their {theirs}, our {name} {settings['chunk_size']} with overlap {settings['chunk_overlap']}: {metric}, their formula"
            yield Row(STUDY, what, five[theirs][metric], mine[metric], reason)
    for metric, own in FORMULA.items():
        values = [(five[name][metric], own_mean(trial, own)) for name, (trial, _) in trials.items()]
        theirs, mine = max(values, key=lambda pair: abs(pair[0] - pair[1]))
        yield Row(STUDY, f"their formula and our `{own}`, where they differ most of {len(values)} chunkers", theirs, mine, SAME[metric])


def own_mean(trial, metric):
    """The mean of a metric, whose name may be followed by its `k`."""
    return next(found["mean"] for name, found in trial["metrics"].items() if name.split("@")[0] == metric)


def chunker_name(trial):
    name, settings = component(trial, "chunker")
    return settings["function"] if name == "python" else f"{name} {settings['chunk_size']} {settings['chunk_overlap']}"


def found_spans(trial, by_id, characters):
    """For each question its row, its document, and the places that were found, best first. A place is a pair of a
    document and (start, end) in characters."""
    found = []
    for question in trial["questions"]:
        row = by_id[question["question"]]
        spans = [(each["document"], characters[each["document"]](each["span"])) for each in question["passages"]]
        found.append((row, f"{row['corpus_id']}.txt", spans))
    return found


def means(found, counted):
    """The mean of each score over all questions. `counted` gives the number of hits that count for a question."""
    scores = []
    for row, document, spans in found:
        spans = spans[: counted(row)]
        here = [span for name, span in spans if name == document]
        elsewhere = size(span for name, span in spans if name != document)
        scores.append(chroma_scores((here, elsewhere), evidence_places(row)))
    return {metric: mean(score[metric] for score in scores) for metric in FORMULA}


def evidence_places(row):
    return [(each["start_index"], each["end_index"]) for each in row["references"]]


def as_published(found, options):
    """The rows that repeat their README: for each question, as many hits count as windows hold its evidence."""
    holding = lambda row: len({part for start, end in evidence_places(row) for part in range(start // CHARACTERS, (end - 1) // CHARACTERS + 1)})  # noqa: E731
    values = means(found, holding)
    here = "BM25" if options.no_models else "all-MiniLM-L6-v2, which reads 256 tokens"
    reason = f"published for text-embedding-3-large, here {here}"
    for metric, published in PUBLISHED.items():
        yield Row(STUDY, f"windows of {CHARACTERS:,} characters, as many as hold the evidence: {metric}", published, values[metric], reason)
