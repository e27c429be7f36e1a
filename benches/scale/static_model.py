#!/usr/bin/env python3
"""A static embedding model for the made-up corpus: a vector for each of its 32,768 most frequent words and for all planted words.

    benches/scale/static_model.py FOLDER [--seed 7] [--dimensions 384]

Writes model.safetensors and tokenizer.json in the format of model2vec, which `embedding.static` reads. A word's vector is
made from its hash. Frequent words weigh little, as in model2vec (a / (a + p), with a = 0.001 and the word's probability p), and planted words much, so that a part of the evidence is found.
"""

from __future__ import annotations

import argparse
import array
import hashlib
import json
from math import log
from pathlib import Path

import corpus

N_FREQUENT = 32_768
PART = 1_024
PLANTED_WEIGHT = 3.0


def write(folder: Path, seed: int = 7, dimensions: int = 384) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    words = corpus.words(seed)
    planted = [*words.names, *corpus.COLOURS, "mast", "locks", "key", "stamped", "which", "?", *(str(number) for _, _, number in corpus.facts(seed))]
    tokens = list(dict.fromkeys(["[UNK]", *words.by_rank[:N_FREQUENT], *(word.lower() for word in planted)]))
    probability = {word: 1 / ((rank + 1) * log(corpus.N_WORDS + 1)) for rank, word in enumerate(words.by_rank[:N_FREQUENT])}
    weights = array.array("f", (0.001 / (0.001 + probability[token]) if token in probability else PLANTED_WEIGHT for token in tokens))
    # A byte of the hash becomes a number from -1 to 1.
    as_float = [array.array("f", [(byte - 127.5) / 127.5]).tobytes() for byte in range(256)]
    n_table, n_weights = len(tokens) * dimensions * 4, len(tokens) * 4
    header = {
        "embeddings": {"dtype": "F32", "shape": [len(tokens), dimensions], "data_offsets": [0, n_table]},
        "weights": {"dtype": "F32", "shape": [len(tokens)], "data_offsets": [n_table, n_table + n_weights]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for first in range(0, len(tokens), PART):
            rows = b"".join(hashlib.shake_256(token.encode()).digest(dimensions) for token in tokens[first : first + PART])
            file.write(b"".join(map(as_float.__getitem__, rows)))
        file.write(weights.tobytes())
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {token: place for place, token in enumerate(tokens)}, "unk_token": "[UNK]"},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--dimensions", type=int, default=384)
    options = parser.parse_args()
    write(options.folder, options.seed, options.dimensions)


if __name__ == "__main__":
    main()
