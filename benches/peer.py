#!/usr/bin/env python3
"""The peers of `benches/run`, each a process that waits its turn.

    peer.py load_chunk FOLDER | chunk FOLDER | embedding MODEL_FOLDER TEXTS TOKENS THREADS | dense ROWS DIMENSIONS

Does the work once for every line on standard input and answers with one line of
JSON, so that ours and the peer alternate and starting up costs neither anything.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "chunks"))

WORDS = "engine change the oil of file system with reader every manual page light when value under".split()


def llama_index():
    """LlamaIndex counting tokens with the ranks that we compile in."""
    import compare
    from llama_index.core.utils import set_global_tokenizer

    set_global_tokenizer(compare.tokenizer())


def load_chunk(folder):
    """LlamaIndex's own readers and splitter, from files to nodes."""
    llama_index()
    from llama_index.core import SimpleDirectoryReader
    from llama_index.core.node_parser import SentenceSplitter

    splitter = SentenceSplitter(chunk_size=1024, chunk_overlap=200)
    splitter.split_text("One. Two.")

    def work():
        start = time.perf_counter()
        documents = SimpleDirectoryReader(folder, recursive=True, exclude_hidden=False).load_data()
        loaded = time.perf_counter()
        nodes = splitter.get_nodes_from_documents(documents)
        seconds = time.perf_counter() - start
        return {
            "documents": len(files := sorted({document.metadata["file_path"] for document in documents})),
            "files": files,
            "text_bytes": sum(len(document.text.encode()) for document in documents),
            "chunks": len(nodes),
            "load_seconds": loaded - start,
            "seconds": seconds,
        }

    return work


def chunk(folder):
    """LlamaIndex's splitter alone; the first answer also brings the chunks."""
    llama_index()
    import compare

    split = compare.theirs("sentence", {"chunk_size": 1024, "chunk_overlap": 200})
    split("One. Two.")
    texts = {str(path): path.read_bytes().decode() for path in sorted(Path(folder).glob("*.txt"))}

    def work():
        start = time.perf_counter()
        chunks = {path: split(text) for path, text in texts.items()}
        seconds = time.perf_counter() - start
        return {"documents": len(texts), "seconds": seconds, "chunks": chunks}

    return work


def texts(n_texts, n_tokens):
    """The texts that `embedding_throughput` makes."""
    state, found = 7, []
    for _ in range(n_texts):
        words = []
        for _ in range(n_tokens):
            state = (state * 1_664_525 + 1_013_904_223) % 2**32
            words.append(WORDS[state >> 28])
        found.append(" ".join(words))
    return found


def sentence_transformer(folder, n_tokens):
    """all-MiniLM-L6-v2 from the pulled weights: mean of the token vectors, length 1."""
    import tempfile

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    # The pulled folder holds config.json, tokenizer.json and the weights; the
    # library also wants to be told the tokenizer's class.
    with tempfile.TemporaryDirectory() as complete:
        for path in Path(folder).resolve().iterdir():
            os.symlink(path, Path(complete) / path.name)
        settings = Path(complete) / "tokenizer_config.json"
        if not settings.exists():
            settings.write_text(json.dumps({"tokenizer_class": "BertTokenizerFast", "model_max_length": 512}))
        transformer = modules.Transformer(complete, max_seq_length=n_tokens)
        pooling = modules.Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
        return SentenceTransformer(modules=[transformer, pooling, modules.Normalize()], device="cpu")


def embedding(folder, n_texts, n_tokens, threads):
    """sentence-transformers with the same weights."""
    import torch

    torch.set_num_threads(int(threads))
    n_texts, n_tokens = int(n_texts), int(n_tokens)
    model = sentence_transformer(folder, n_tokens)
    lines = texts(n_texts, n_tokens)
    found = model.preprocess(lines[:1])["input_ids"].shape[1]
    if found != n_tokens:
        sys.exit(f"a text has {found} tokens instead of {n_tokens}: the tokenizer is not the model's")
    model.encode(lines[:4])

    def work():
        # The best of the library's usual batch size and of smaller batches,
        # which are kinder to the caches.
        best = {"seconds": float("inf")}
        for batch in (32, 8):
            start = time.perf_counter()
            vectors = model.encode(lines, batch_size=batch, show_progress_bar=False)
            seconds = time.perf_counter() - start
            if seconds < best["seconds"]:
                best = {"seconds": seconds, "batch": batch, "texts_per_second": n_texts / seconds}
        best["dimensions"] = int(vectors.shape[1])
        best["data_type"] = str(next(model.parameters()).dtype)
        best["threads"] = torch.get_num_threads()
        return best

    return work


def dense(rows, dimensions):
    """NumPy: one matrix product and the ten best, for one query and for 64."""
    import numpy as np

    rows, dimensions = int(rows), int(dimensions)
    random = np.random.default_rng(1)
    vectors = np.empty((rows, dimensions), dtype=np.float32)
    for first in range(0, rows, 10_000):
        part = random.random((min(10_000, rows - first), dimensions), dtype=np.float32) - np.float32(0.5)
        vectors[first : first + len(part)] = part / np.linalg.norm(part, axis=1, keepdims=True)
    queries = vectors[:64] + np.float32(0.01)

    def one():
        scores = vectors @ queries[0]
        best = np.argpartition(scores, -10)[-10:]
        return best[np.argsort(-scores[best])]

    def batch():
        scores = queries @ vectors.T
        best = np.argpartition(scores, -10, axis=1)[:, -10:]
        return np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1), axis=1)

    def shortest(search, repeats):
        seconds = float("inf")
        for _ in range(repeats):
            start = time.perf_counter()
            search()
            seconds = min(seconds, time.perf_counter() - start)
        return seconds

    # As many repeats as `dense_search` makes; the batch is seconds long.
    return lambda: {"one_ms": shortest(one, 9) * 1e3, "batch_ms": shortest(batch, 2) * 1e3}


def main():
    kind, *arguments = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # What libraries print must not get between the answers.
    work = {"load_chunk": load_chunk, "chunk": chunk, "embedding": embedding, "dense": dense}[kind](*arguments)
    print(json.dumps({"ready": True}), file=answers)
    for _ in sys.stdin:
        print(json.dumps(work()), file=answers)


if __name__ == "__main__":
    main()
