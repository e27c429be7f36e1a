#!/usr/bin/env python3
"""The peers of `benches/bm25/run.py`: peer.py bm25s|bm25s-numba|tantivy tokens|text TEXTS QUERIES K

For every line on standard input: indexes the texts, searches all queries, and prints one line of JSON with the times,
the memory and the scores.
"""

import json
import os
import sys
import time
from pathlib import Path


def resident_bytes():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def bm25s_side(kind, k, backend):
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")

    def tokens(texts):
        if kind == "text":
            return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
        return [text.split() for text in texts]

    def index(texts):
        made = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend=backend)
        made.index(texts if kind == "tokens" else tokens(texts), show_progress=False)
        return made

    def search(made, queries):
        found = queries if kind == "tokens" else tokens(queries)
        return made.retrieve(found, k=k, show_progress=False, n_threads=0).scores.tolist()

    # Numba compiles at the first search.
    words = [f"{1_000_000 + i} {1_000_001 + i} {1_000_002 + i}" for i in range(200)]
    warm = words if kind == "text" else [text.split() for text in words]
    search(index(warm), warm[:2])
    # `prepare` runs before the clock starts. With `tokens`, it cuts the texts into lists of tokens.
    prepare = (lambda texts: texts) if kind == "text" else tokens
    return prepare, index, search


def tantivy_side(k):
    import tantivy

    schema = tantivy.SchemaBuilder().add_text_field("body", stored=False, tokenizer_name="whitespace", index_option="freq").build()

    def index(texts):
        made = tantivy.Index(schema)
        writer = made.writer(heap_size=512_000_000, num_threads=1)
        for text in texts:
            document = tantivy.Document()
            document.add_text("body", text)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        made.reload()
        return made

    parsed = {}

    def search(made, queries):
        searcher = made.searcher()
        return [[score for score, _ in searcher.search(parsed[query], k).hits] for query in queries]

    def prepare(texts):
        terms = {text: [tantivy.Query.term_query(schema, "body", word, "freq") for word in text.split()] for text in texts}
        parsed.update((text, tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in each])) for text, each in terms.items())
        return texts

    return prepare, index, search


def main():
    side, kind, texts, queries, k = sys.argv[1:]
    texts, queries = ([json.loads(line) for line in open(path)] for path in (texts, queries))
    if side == "tantivy":
        prepare, index, search = tantivy_side(int(k))
    else:
        prepare, index, search = bm25s_side(kind, int(k), "numba" if side == "bm25s-numba" else "numpy")
        texts = prepare(texts)
    queries = prepare(queries)
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for _ in sys.stdin:
        before = resident_bytes()
        start = time.perf_counter()
        made = index(texts)
        index_seconds = time.perf_counter() - start
        memory = resident_bytes() - before
        start = time.perf_counter()
        scores = search(made, queries)
        search_seconds = time.perf_counter() - start
        print(
            json.dumps({"index_seconds": index_seconds, "search_seconds": search_seconds, "memory_bytes": memory, "scores": scores}),
            flush=True,
        )


if __name__ == "__main__":
    main()
