"""LlamaIndex' retrievers beside ours, over the same chunks and vectors."""

import functools
import hashlib
import itertools
import random
import re
import sys

import bm25s
import numpy as np
import regex
from given import TOLERANCE, Given, retriever, same_ranking, same_stretched
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.retrievers.bm25 import BM25Retriever
from reasons_llama import SAME_TEXT, TIES, WORDS, ZEROS

DIMENSIONS = 48
# No ranking that is asked for is longer.
LONGEST = 20


@functools.lru_cache(1 << 16)
def direction(word):
    seed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
    return np.random.Generator(np.random.PCG64(seed)).standard_normal(DIMENSIONS)


def vector(text):
    """Words that two texts share make their vectors alike; equal texts are equal."""
    total = np.zeros(DIMENSIONS)
    words = text.lower().split()
    for word, weight in [(text, 0.5 + 0.1 * len(words)), *((word, 1.0) for word in words[:200])]:
        total += weight * direction(word)
    return (total / np.linalg.norm(total)).astype(np.float32).tolist()


def unit(numbers):
    return np.array(numbers) / np.linalg.norm(numbers)


class Known(BaseEmbedding):
    """The hash vectors as LlamaIndex wants them."""

    def _get_text_embedding(self, text):
        return vector(text)

    def _get_query_embedding(self, query):
        return vector(query)

    async def _aget_query_embedding(self, query):
        return vector(query)


def by_row(ranking, tolerance=1e-8):
    """A ranking of (row, score), equal scores by row. Scores that differ by rounding alone become equal."""
    groups = []
    for row, score in sorted(ranking, key=lambda hit: -hit[1]):
        if groups and groups[-1][-1][1] - score <= tolerance * max(1, abs(score)):
            groups[-1].append((row, score))
        else:
            groups.append([(row, score)])
    return [(row, group[0][1]) for group in groups for row, _ in sorted(group)]


def settled(ranking, mine, k):
    """The first k of `ranking`, with ties in the order of `mine`.

    Scores are tied if 32 bits cannot tell them apart. Ours are sums in 32 bits, so the order of tied rows depends on
    the order in which the weights of a long query were added. Rows of equal score in `mine` are ordered by row."""
    ours = dict(mine)
    place = {row: (-score, row) for row, score in ours.items()}
    groups = []
    for row, score in sorted(ranking, key=lambda hit: -hit[1]):
        if groups and groups[-1][-1][1] - score <= TOLERANCE * max(1, abs(score)):
            groups[-1].append((row, score))
        else:
            groups.append([(row, score)])
        if len(groups) > k:
            break
    last = (float("inf"), 0)
    ordered = ((row, group[0][1]) for group in groups for row, _ in sorted(group, key=lambda hit: place.get(hit[0], last)))
    return list(ordered)[:k]


def questions(texts, draw):
    """Stretches of the documents, single words, and what no document says."""
    found = [
        "the of and",
        "zzzyx qwrtp",
        "the zzzyx",
        "?!",
        "x",
        "running runs ran",
        "Größe straße",
        "東京タワー",
        "हिन्दी में एक वाक्य",
        "don't can't U.S.",
    ]
    names = [name for name, text in texts.items() if text.strip()]
    while len(found) < 200:
        words = texts[draw.choice(names)].split()
        start = draw.randrange(len(words))
        found.append(" ".join(words[start : start + draw.choice([1, 2, 5, 12, 40])]))
    return found


def our_words():
    """What is a word here, as a pattern for Python: with combining marks."""
    word = regex.compile(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]")
    members = [code for code in range(sys.maxunicode + 1) if word.match(chr(code))]
    runs = itertools.groupby(enumerate(members), lambda pair: pair[1] - pair[0])
    ranges = [[code for _, code in run] for _, run in runs]
    return "[" + "".join(f"\\U{run[0]:08x}-\\U{run[-1]:08x}" for run in ranges) + "]{2,}"


def rankings(table, process, texts):
    """Documents whose words both sides see alike; then all of them."""
    # Every kind, as not to wait: LlamaIndex compares with one vector after the other.
    kept = [name for i, name in enumerate(texts) if not name.startswith("real/") or i % 3 == 0]
    texts = {name: texts[name][:12_000] for name in kept}
    mine, theirs = re.compile(our_words()), re.compile(r"\b\w\w+\b")
    alike = {name: text for name, text in texts.items() if mine.findall(text.lower()) == theirs.findall(text.lower())}
    ranked(table, process, alike, "")
    ranked(table, process, texts, ", every script")


def ranked(table, process, texts, label):
    """VectorIndexRetriever, BM25Retriever, and QueryFusionRetriever over both."""
    draw = random.Random(5)
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    chunker = {"sentence": {"chunk_size": 160, "chunk_overlap": 16}}
    found = process.ask({"chunk": {"chunker": chunker, "documents": listed}})["chunks"]
    process.ask({"index": {"vectors": [vector(chunk["text"]) for chunk in found]}})
    asked = questions(texts, draw)
    queries = [{"text": text, "vector": vector(text)} for text in asked]
    sides = Theirs([chunk["text"] for chunk in found])
    ours = lambda kind, **settings: [  # noqa: E731
        [(hit["row"], hit["score"]) for hit in hits]
        for hits in process.ask({"retrieve": {"retriever": retriever(kind, **settings), "queries": queries}})["hits"]
    ]
    for k in (5, 20):
        row = table.row(f"VectorIndexRetriever, top {k} of {len(found):,}{label}", "questions")
        for text, mine in zip(asked, ours("dense", top_k=k)):
            row.compare(text, mine, sides.dense(text, k), [(TIES, sides.in_order(text, k)[0])], same_ranking)
    for k in (5, 20):
        row = table.row(f"BM25Retriever, top {k} of {len(found):,}{label}", "questions")
        for text, mine in zip(asked, ours("bm25", top_k=k)):
            ties = settled(sides.all_bm25(text), mine, k)
            words = sides.bm25(text, k, our_words=True)
            row.compare(
                text, mine, sides.bm25(text, k), [(WORDS, words), (TIES, ties), (ZEROS, positive(ties))], same_ranking
            )
    for mode, weight, fusion in [("reciprocal_rerank", 0.5, {"rrf": {}}), ("relative_score", 0.5, {"weighted": {}}),
                                 ("relative_score", 0.8, {"weighted": {"dense_weight": 0.8}})]:  # fmt: skip
        k, candidates = 10, 20
        row = table.row(f"QueryFusionRetriever {mode}" + (f" {weight}" if weight != 0.5 else "") + label, "questions")
        for text, mine in zip(asked, ours("hybrid", top_k=k, candidates=candidates, fusion=fusion)):
            dense, bm25 = sides.dense(text, candidates), sides.bm25(text, candidates)
            real = sides.fused(mode, weight, dense, bm25, text, k)
            bm25 = sides.bm25(text, candidates, our_words=True)
            words = sides.fused(mode, weight, dense, bm25, text, k)
            zeros = sides.fused(mode, weight, dense, positive(bm25), text, k)
            dense, bm25 = sides.in_order(text, candidates)
            ties = by_row(sides.fused(mode, weight, dense, positive(bm25), text, len(found)))[:k]
            apart = by_row(sides.fused(mode, weight, dense, positive(bm25), text, len(found), marked=True))[:k]
            steps = [(WORDS, words), (ZEROS, zeros), (TIES, ties), (SAME_TEXT, apart)]
            row.compare(text, mine, real, steps, same_stretched if "weighted" in fusion else same_ranking)


def positive(ranking):
    return [(row, score) for row, score in ranking if score > 0]


class Theirs:
    """LlamaIndex' retrievers over the same chunks."""

    def __init__(self, texts):
        self.nodes = [TextNode(text=text, id_=f"{row}") for row, text in enumerate(texts)]
        # The same nodes, told apart by what is neither embedded nor read.
        hidden = {"excluded_embed_metadata_keys": ["row"], "excluded_llm_metadata_keys": ["row"]}
        self.marked = [
            TextNode(text=text, id_=f"{row}", metadata={"row": row}, **hidden) for row, text in enumerate(texts)
        ]
        self.index = VectorStoreIndex(self.nodes)
        self.matrix = np.array([unit(vector(text)) for text in texts])
        self.known = {}
        self.our_words = our_words()

    def dense_retriever(self, k):
        return self.index.as_retriever(similarity_top_k=k)

    def bm25_retriever(self, k, our_words=False):
        # It makes its index, so once for each k.
        if ("index", k, our_words) not in self.known:
            words = {"token_pattern": self.our_words} if our_words else {}
            self.known["index", k, our_words] = BM25Retriever.from_defaults(
                nodes=self.nodes, similarity_top_k=k, **words
            )
        return self.known["index", k, our_words]

    def dense(self, text, k):
        return self.retrieved("dense", text, k, lambda: self.dense_retriever(k))

    def bm25(self, text, k, our_words=False):
        return self.retrieved(f"bm25 {our_words}", text, k, lambda: self.bm25_retriever(k, our_words))

    def retrieved(self, name, text, k, retriever):
        if (name, text, k) not in self.known:
            self.known[name, text, k] = rows(retriever().retrieve(QueryBundle(text)))
        return self.known[name, text, k]

    def all_dense(self, text):
        """Every node's cosine: what the retriever would give without `top_k`, and faster."""
        return list(enumerate((self.matrix @ unit(vector(text))).tolist()))

    def all_bm25(self, text):
        """Every node's score in the index that the retriever made, words as ours."""
        retriever = self.bm25_retriever(LONGEST, our_words=True)
        words = bm25s.tokenize(
            text, stemmer=retriever.stemmer, token_pattern=self.our_words, return_ids=False, show_progress=False
        )[0]
        scores = map(float, retriever.bm25.get_scores(words)) if words else [0.0] * len(self.nodes)
        return list(enumerate(scores))

    def nodes_of(self, ranking, marked=False):
        nodes = self.marked if marked else self.nodes
        return [(nodes[row], score) for row, score in ranking]

    def in_order(self, text, k):
        """The first k of both lists as they are where equal scores are ordered by row."""
        if ("in order", text) not in self.known:
            # Weights that were added up in another order, with 32 bits.
            both = by_row(self.all_dense(text)), by_row(self.all_bm25(text), TOLERANCE)
            self.known["in order", text] = [ranking[:LONGEST] for ranking in both]
        dense, bm25 = self.known["in order", text]
        return dense[:k], bm25[:k]

    def fused(self, mode, weight, dense, bm25, text, k, marked=False):
        """The fusion of two lists that are given to it."""
        dense, bm25 = Given(self.nodes_of(dense, marked)), Given(self.nodes_of(bm25, marked))
        weights = [weight, 1 - weight]
        fusion = QueryFusionRetriever(
            [dense, bm25], mode=mode, retriever_weights=weights, similarity_top_k=k, num_queries=1, use_async=False
        )
        return rows(fusion.retrieve(text))


def rows(hits):
    return [(int(hit.node.node_id), hit.score) for hit in hits]
