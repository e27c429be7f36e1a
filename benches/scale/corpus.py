#!/usr/bin/env python3
"""A made-up corpus of any size, with planted evidence: N documents of about 1 kB, each a file of its own.

    benches/scale/corpus.py N FOLDER [--metadata] [--seed 7]

Writes FOLDER/documents/0000/0000000.txt and so on (1,000 files in a folder, every fourth is Markdown), FOLDER/golden.jsonl
with 100 questions, and with --metadata FOLDER/metadata.csv with a year and a language for each document. The ranks of the
words are log-uniform (Zipf's law): the 100 most frequent words are English, the other 199,900 are made up and can be
pronounced. A document is made from the seed and its number alone, so a larger corpus begins with the same documents.
Only the 100 documents that hold a planted sentence differ, because these are spread over the whole corpus.
A million documents take about two minutes on two cores, and 4 GB on a disk with blocks of 4 kB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import time
from functools import lru_cache
from math import exp, log
from pathlib import Path

N_WORDS = 200_000
N_PLANTED = 100
FILES_IN_FOLDER = 1_000
COLOURS = "amber azure black bronze copper crimson emerald golden green indigo ivory lilac orange purple scarlet silver teal violet white yellow".split()
LANGUAGES = ["english", "english", "english", "german", "french"]
FREQUENT = (
    "the of and to a in is that for it as was with on be by at this are from or an have not which they had one but all were when we there can "
    "more if no out so said what up its about into than them only other new some could time these two may then do first any my now such like "
    "our over man me even most made after also did many before must through back years where much your way well down should because each just "
    "those people how too little state good very make"
).split()


class Words:
    """The vocabulary, by rank. The names are apart: only planted sentences have them."""

    def __init__(self, seed: int):
        dice = random.Random(f"{seed} words")
        self.names = []
        self.by_rank = FREQUENT[:100]
        known = set(FREQUENT) | set(COLOURS) | {"mast", "key", "locks", "stamped"}

        def new(syllables: int) -> str:
            while True:
                word = "".join(dice.choice("bdfghjklmnprstvwz") + dice.choice("aeiou") + dice.choice(["", "", "", "n", "r", "s", "l"]) for _ in range(syllables))
                if word not in known:
                    known.add(word)
                    return word

        self.names = [new(4).capitalize() for _ in range(N_PLANTED)]
        while len(self.by_rank) < N_WORDS:
            self.by_rank.append(new(2 if len(self.by_rank) < 5_000 else 3))


@lru_cache(maxsize=2)
def words(seed: int) -> Words:
    return Words(seed)


def path_of(number: int) -> str:
    """Where a document is, relative to the folder of all documents."""
    return f"{number // FILES_IN_FOLDER:04}/{number:07}.{'md' if number % 4 == 3 else 'txt'}"


def text_of(number: int, seed: int, planted: str | None = None) -> str:
    """The text of a document: 9 to 13 sentences of 8 to 22 words. The planted sentence is the fifth."""
    by_rank, dice = words(seed).by_rank, random.Random(f"{seed} {number}")
    scale, uniform = log(N_WORDS + 1), dice.random
    sentences = []
    for _ in range(9 + int(uniform() * 5)):
        drawn = [by_rank[int(exp(uniform() * scale)) - 1] for _ in range(8 + int(uniform() * 15))]
        drawn[0] = drawn[0].capitalize()
        sentences.append(" ".join(drawn) + ".")
    if planted:
        sentences.insert(4, planted)
    if number % 4 != 3:
        return " ".join(sentences) + "\n"
    title = " ".join(by_rank[100 + int(uniform() * 10_000)] for _ in range(3)).capitalize()
    return f"---\ntitle: {title}\n---\n# {title}\n\n{' '.join(sentences)}\n"


def facts(seed: int) -> list[tuple[str, str, int]]:
    """The planted facts: name, colour and number. No two have the same name or number."""
    dice = random.Random(f"{seed} facts")
    numbers = dice.sample(range(1_000, 10_000), N_PLANTED)
    return [(name, dice.choice(COLOURS), number) for name, number in zip(words(seed).names, numbers)]


def planted(count: int, seed: int) -> dict[int, str]:
    """The planted sentences by the number of their document."""
    sentence = "The {} mast locks with the {} key stamped {}."
    return {place * count // N_PLANTED: sentence.format(*fact) for place, fact in enumerate(facts(seed))}


def questions(seed: int) -> list[tuple[str, str, str]]:
    """Two questions on each fact: by its name, by its number; and the answer to the first."""
    return [
        (f"Which key locks the {name} mast?", f"Which mast locks with the {colour} key stamped {number}?", f"The {colour} key stamped {number}.")
        for name, colour, number in facts(seed)
    ]


def golden(count: int, seed: int) -> list[dict]:
    """The golden questions: every other one asks for the name, which stands in one document only, by the number."""
    rows = []
    for place, ((number, sentence), (by_name, by_number, key), fact) in enumerate(zip(planted(count, seed).items(), questions(seed), facts(seed))):
        asked, reference = (by_number, f"The {fact[0]} mast.") if place % 2 else (by_name, key)
        evidence = [{"document": path_of(number), "quote": sentence}]
        rows.append({"id": f"mast-{place:02}", "question": asked, "reference": reference, "evidence": evidence})
    return rows


def metadata(number: int, seed: int) -> tuple[int, str]:
    dice = random.Random(f"{seed} {number} metadata")
    return dice.randint(1990, 2025), dice.choice(LANGUAGES)


def write_folder(job: tuple[Path, int, int, int]) -> int:
    """Writes the documents of one folder, and returns their bytes."""
    folder, first, count, seed = job
    sentences, written = planted(count, seed), 0
    (folder / "documents" / path_of(first)).parent.mkdir(parents=True, exist_ok=True)
    for number in range(first, min(first + FILES_IN_FOLDER, count)):
        text = text_of(number, seed, sentences.get(number)).encode()
        with open(f"{folder}/documents/{path_of(number)}", "wb", buffering=0) as file:
            file.write(text)
        written += len(text)
    return written


def write(count: int, folder: Path, seed: int = 7, with_metadata: bool = False, processes: int | None = None) -> int:
    """Writes the corpus, and returns the bytes of its documents."""
    if count < N_PLANTED:
        raise SystemExit(f"{N_PLANTED} documents hold evidence, so {count} are too few")
    folder.mkdir(parents=True, exist_ok=True)
    words(seed)
    jobs = [(folder, first, count, seed) for first in range(0, count, FILES_IN_FOLDER)]
    # A fork has the words already.
    with multiprocessing.get_context("fork").Pool(processes or os.cpu_count()) as pool:
        written = sum(pool.imap_unordered(write_folder, jobs))
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in golden(count, seed)))
    if with_metadata:
        with open(folder / "metadata.csv", "w") as table:
            table.write("path,year,language\n")
            for number in range(count):
                year, language = metadata(number, seed)
                table.write(f"{path_of(number)},{year},{language}\n")
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--metadata", action="store_true", help="also write metadata.csv with a year and a language for each document")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    begin = time.monotonic()
    written = write(options.documents, options.folder, options.seed, options.metadata)
    print(f"{options.documents:,} documents, {written / 1e6:,.1f} MB of text, in {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
