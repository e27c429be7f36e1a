#!/usr/bin/env python3
"""A million made-up documents, and the peers that index and search them: what `benches/run bm25 --million` runs.

    million.py corpus FOLDER N               writes texts, queries and the words of a query as JSON lines
    million.py bm25s|tantivy write FOLDER    makes the index; prints one line of JSON
    million.py bm25s|tantivy open FOLDER K   for every line on standard input: opens it, searches, prints one line of JSON

A document has 120 to 180 words of a vocabulary of 200,000, whose frequencies follow Zipf's law: the most frequent word is
in nearly every document. A word is a number of six digits, so that no side's rules can change it. A query is 3 to 12
words of one document, as they follow each other in it. The same number of documents gives the same bytes.
"""

import json
import os
import sys
import time
from pathlib import Path

WORDS = 200_000
QUERIES = 200


def memory(name):
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) * 1024


def corpus(folder, n):
    import numpy

    random = numpy.random.Generator(numpy.random.PCG64(1))
    shares = 1 / numpy.arange(1, WORDS + 1)
    edges = numpy.cumsum(shares / shares.sum())
    # Numbers that say nothing about the rank.
    names = numpy.array([f"{100_000 + place:06}" for place in random.permutation(WORDS)], dtype=object)
    asked = dict(zip(random.choice(n, QUERIES, replace=False).tolist(), random.random((QUERIES, 2)).tolist()))
    with open(folder / "texts", "w") as texts, open(folder / "queries", "w") as queries:
        for start in range(0, n, 10_000):
            lengths = random.integers(120, 181, min(10_000, n - start))
            words = names[numpy.searchsorted(edges, random.random(lengths.sum())).clip(max=WORDS - 1)]
            for document, words in enumerate(numpy.split(words, numpy.cumsum(lengths)[:-1]), start):
                texts.write(f'"{" ".join(words)}"\n')
                if document in asked:
                    length = 3 + int(10 * asked[document][0])
                    first = int((len(words) - length) * asked[document][1])
                    queries.write(f'"{" ".join(words[first : first + length])}"\n')


def lines(path):
    return map(json.loads, open(path))


class Bm25s:
    def write(self, folder):
        import bm25s

        tokens = bm25s.tokenize(list(lines(folder / "texts")), stopwords=None, token_pattern=r"\S+", show_progress=False)
        made = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        made.index(tokens, show_progress=False)
        made.save(folder / "bm25s", show_progress=False)

    def open(self, folder):
        import bm25s

        self.made = bm25s.BM25.load(folder / "bm25s", mmap=True)

    def prepare(self, query):
        return [query.split()]

    def search(self, query, k):
        return self.made.retrieve(query, k=k, show_progress=False, n_threads=0).scores[0].tolist()


class Tantivy:
    def write(self, folder):
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_text_field("body", stored=False, tokenizer_name="whitespace", index_option="freq")
        (folder / "tantivy").mkdir(exist_ok=True)
        made = tantivy.Index(builder.build(), path=str(folder / "tantivy"), reuse=False)
        writer = made.writer(heap_size=512_000_000, num_threads=1)
        for text in lines(folder / "texts"):
            document = tantivy.Document()
            document.add_text("body", text)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()

    def open(self, folder):
        import tantivy

        self.made = tantivy.Index.open(str(folder / "tantivy"))
        self.searcher = self.made.searcher()

    def prepare(self, query):
        import tantivy

        terms = [tantivy.Query.term_query(self.made.schema, "body", word, "freq") for word in query.split()]
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])

    def search(self, query, k):
        return [score for score, _ in self.searcher.search(query, k).hits]


def main():
    if sys.argv[1] == "corpus":
        return corpus(Path(sys.argv[2]), int(sys.argv[3]))
    side = {"bm25s": Bm25s, "tantivy": Tantivy}[sys.argv[1]]()
    folder = Path(sys.argv[3])
    if sys.argv[2] == "write":
        start = time.perf_counter()
        side.write(folder)
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in (folder / sys.argv[1]).rglob("*") if path.is_file())
        return print(json.dumps({"index_seconds": seconds, "peak_bytes": memory("VmHWM"), "file_bytes": size}), flush=True)
    k = int(sys.argv[4])
    queries = list(lines(folder / "queries"))
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        side.open(folder)
        open_seconds = time.perf_counter() - start
        prepared = [side.prepare(query) for query in queries]
        seconds, scores = [], []
        for query in prepared:
            start = time.perf_counter()
            scores.append(side.search(query, k))
            seconds.append(time.perf_counter() - start)
        print(
            json.dumps(
                {
                    "open_seconds": open_seconds,
                    "query_seconds": seconds,
                    "resident_bytes": memory("VmRSS"),
                    "own_bytes": memory("RssAnon"),
                    "scores": scores,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
