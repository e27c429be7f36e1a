"""BM25 of Reverie, bm25s and tantivy on BEIR's SciFact and FiQA: `benches/run bm25`.

One thread each, k1 1.5 and b 0.75, the 10 or 100 best hits for each of at most 1,000 questions. Every measurement
runs in a new process, after it has read the texts and imported its libraries.

- *tokens*: all sides get the same tokens. A token is written as a number, so that no side's rules can change it.
  bm25s gets lists of tokens; ours and tantivy cut the numbers apart at the spaces, which counts as indexing.
- *text*: from text to index and from question to hits. bm25s uses its own tokenizer, PyStemmer and its English stop
  words. PyStemmer 3.1 has a newer English stemmer than the one in Rust: of SciFact's 35,899 words 75 have other stems
  (`emergency`, `internal`, `added`), so some scores differ.

Our scores and those of bm25s are compared rank by rank: of *tokens* none may differ by more than a millionth of itself.
tantivy stores the length of a document in one byte and always uses k1 1.2, so its scores are different and are not
compared. Its queries are parsed before the clock starts.

With `--million` instead a million made-up documents of 1 kB (`million.py` says what they are) and 200 queries of 3 to 12
words. Each side writes its index to the disk in one process: ours 100,000 documents at a time, which are merged. Another
process opens it (bm25s with `mmap`) and searches one query after the other, the 10 best hits. A row is the median or the
95th percentile of the queries of one round.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import beir

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PYTHON = ROOT / ".tools" / "bench" / "bin" / "python"
PEER = Path(__file__).with_name("peer.py")
MILLION = Path(__file__).with_name("million.py")
QUESTIONS = 1000
CLOSE = 1e-6
# Both sides add up f32, in other orders.
CLOSE_OF_MILLION = 1e-5
SIDES = {"bm25s": "bm25s 0.3.16", "bm25s-numba": "bm25s 0.3.16 with numba", "tantivy": "tantivy 0.27.0 (Python)"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def numbers(texts, known):
    """Replaces each word of the texts by a number, the same number for the same word. `known` keeps the numbers."""
    words = lambda text: re.findall(r"\w\w+", text.lower())  # noqa: E731
    return [" ".join(str(known.setdefault(word, 1_000_000 + len(known))) for word in words(text)) for text in texts]


def write(path, texts):
    path.write_text("".join(json.dumps(text) + "\n" for text in texts))
    return path


def furthest(ours, theirs):
    """The largest relative difference between two scores of the same rank, over all questions. 1.0 if the two sides
    found different numbers of hits for a question."""
    pairs = []
    for mine, his in zip(ours, theirs, strict=True):
        his = [score for score in his if score > 0]
        if len(mine) != len(his):
            return 1.0
        pairs += zip(mine, his)
    return max((abs(a - b) / max(a, b) for a, b in pairs), default=0.0)


ONE_THREAD = dict.fromkeys(["RAYON_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"], 1)


def rows(options, row):
    from __main__ import Turns

    if getattr(options, "million", False):
        yield from million_rows(options, row)
        return

    def measure(*command, ready):
        with Turns(*command, ready=ready, **ONE_THREAD) as turns:
            return turns()

    binary = TARGET / "release" / "examples" / "bm25_search"
    for name, title in [("scifact", "SciFact"), ("fiqa", "FiQA")]:
        texts = [text for _, text in beir.documents(name)]
        questions = beir.queries(name)[:QUESTIONS]
        known = {}
        tokens = numbers(texts, known), numbers(questions, known)
        parts = [("tokens", "tokens", *tokens, 10), ("tokens, 100 best", "tokens", *tokens, 100), ("text", "text", texts, questions, 10)]
        with tempfile.TemporaryDirectory() as scratch:
            for part, kind, texts, questions, k in parts:
                files = write(Path(scratch) / "texts", texts), write(Path(scratch) / "queries", questions)
                sides = list(SIDES) if kind != "text" else ["bm25s", "bm25s-numba"]
                ours, theirs = [], {side: [] for side in sides}
                for _ in range(options.rounds):
                    ours.append(measure(binary, *files, k, ready=False))
                    for side in sides:
                        theirs[side].append(measure(PYTHON, PEER, side, kind, *files, k, ready=True))
                    say(f"bm25: {title}, {part}: ours {brief(ours[-1])}; " + "; ".join(f"{side} {brief(theirs[side][-1])}" for side in sides))
                far = max(furthest(one["scores"], other["scores"]) for one, other in zip(ours, theirs["bm25s"]))
                note = f"{title}, {part}: {len(texts):,} documents, {len(questions):,} questions; scores differ from bm25s' by at most {far:.1e} of themselves"
                if far > CLOSE and kind != "text":
                    say(f"bm25: the scores differ: {note}")
                    options.failed = True
                yield from table(row, title, part, ours, theirs, len(questions), note)


def million_rows(options, row):
    from __main__ import Turns

    binary = TARGET / "release" / "examples" / "bm25_search"
    environment = {**os.environ, **{name: str(value) for name, value in ONE_THREAD.items()}}

    def written(*command):
        output = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, env=environment).stdout
        return json.loads(output)

    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        subprocess.run([PYTHON, MILLION, "corpus", scratch, "1000000"], check=True)
        commands = {"ours": [binary, "--open", scratch / "ours", scratch / "queries", 10]}
        built = {"ours": written(binary, "--write", scratch / "ours", scratch / "texts")}
        for side in ["bm25s", "tantivy"]:
            built[side] = written(PYTHON, MILLION, side, "write", scratch)
            commands[side] = [PYTHON, MILLION, side, "open", scratch, 10]
        turns = {side: [] for side in commands}
        for _ in range(options.rounds):
            for side, command in commands.items():
                with Turns(*command, ready=side != "ours", **ONE_THREAD) as answers:
                    turns[side].append(answers())
            say("bm25: a million: " + "; ".join(f"{side} {1e3 * statistics.median(of[-1]['query_seconds']):.2f} ms" for side, of in turns.items()))
    far = max(furthest(one["scores"], other["scores"]) for one, other in zip(turns["ours"], turns["bm25s"]))
    note = f"a million: documents of 1 kB, 200 queries of 3 to 12 words, one thread; scores differ from bm25s' by at most {far:.1e} of themselves"
    if far > CLOSE_OF_MILLION:
        say(f"bm25: the scores differ: {note}")
        options.failed = True
    ours = turns.pop("ours")
    for side, theirs in turns.items():
        for part, unit, of_built in BUILT:
            yield row(f"bm25, a million, {part}", unit, [of_built(built["ours"])], [of_built(built[side])], SIDES[side], None, True, note)
        for part, unit, of_turn in SEARCHED:
            yield row(f"bm25, a million, {part}", unit, list(map(of_turn, ours)), list(map(of_turn, theirs)), SIDES[side], None, True, note)


def percentile(turn, share):
    seconds = sorted(turn["query_seconds"])
    return 1e3 * seconds[min(len(seconds) - 1, int(share * len(seconds)))]


BUILT = [
    ("index", "s", lambda built: built["index_seconds"]),
    ("most memory", "MB", lambda built: built["peak_bytes"] / 1e6),
    ("index on disk", "MB", lambda built: built["file_bytes"] / 1e6),
]
SEARCHED = [
    ("median query", "ms", lambda turn: percentile(turn, 0.5)),
    ("95th percentile", "ms", lambda turn: percentile(turn, 0.95)),
    ("memory after 200 queries", "MB", lambda turn: turn["resident_bytes"] / 1e6),
    ("of it not mapped", "MB", lambda turn: turn["own_bytes"] / 1e6),
]


def brief(turn):
    return f"index {turn['index_seconds']:.2f} s, search {turn['search_seconds']:.2f} s"


def table(row, title, part, ours, theirs, questions, note):
    for side, turns in theirs.items():
        target = 2 if side == "bm25s" else None
        index = lambda turns: [turn["index_seconds"] for turn in turns]  # noqa: E731
        rate = lambda turns: [questions / turn["search_seconds"] for turn in turns]  # noqa: E731
        memory = lambda turns: [turn["memory_bytes"] / 1e6 for turn in turns]  # noqa: E731
        yield row(f"bm25, {title}, {part}, index", "s", index(ours), index(turns), SIDES[side], target, True, note)
        yield row(f"bm25, {title}, {part}, search", "queries/s", rate(ours), rate(turns), SIDES[side], target, False, note)
        yield row(f"bm25, {title}, {part}, memory", "MB", memory(ours), memory(turns), SIDES[side], None, True, note)
