"""LlamaIndex beside `crates/rag`: chunks, windows, rankings, fusion, merges.

Both sides count tokens with the same cl100k ranks and are given the same
vectors, made from hashes of words, so that no model is in question.
"""

import contextlib
import hashlib
import io
import itertools
import logging
import random
import re
import sys

import bm25s
import compare
import numpy as np
import regex
from llama_index.core import Document, Settings, StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
    TokenTextSplitter,
)
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, TextNode
from llama_index.core.utils import set_global_tokenizer
from llama_index.retrievers.bm25 import BM25Retriever
from outcome import Table
from pydantic import PrivateAttr

DIMENSIONS = 48
# No ranking that is asked for is longer.
LONGEST = 20
# Scores of ours have 32 bits.
TOLERANCE = 2e-6

EMPTY = "empty chunk"
METADATA = "metadata is counted"
SPACE = "joining spaces"
WINDOW_TWICE = "window twice"
NO_NEXT = "links to the next chunk"
TWO_TOKENS = "two tokens less"
MARKS = "runs of sentence marks"
WORDS = "combining marks"
ZEROS = "filled up with zeros"
TIES = "order of equal scores"
SAME_TEXT = "same text, one node"
DIFFERENCES = {
    EMPTY: "Of a text without a character LlamaIndex makes a node without text. Here it has no chunk: there is nothing to embed or to cite.",
    METADATA: "LlamaIndex counts a document's metadata as part of each chunk. Here the size is that of the text, so the same settings cut "
    "the same text alike whatever the file is called.",
    SPACE: "LlamaIndex joins the sentences of a window with one more space. Here a window is the text as it stands, so that a quote from "
    "it is found in the document.",
    WINDOW_TWICE: "Hits with the same window give it to the model once per hit there, and once here.",
    NO_NEXT: "LlamaIndex' hierarchical parser leaves out the link to the next chunk below the first level, so its merging retriever fills no "
    "gaps between found chunks. Here it does, as its own code means to and does once the links are there.",
    TWO_TOKENS: "LlamaIndex' token splitter keeps two tokens free for metadata, whether there is any or not. Here the size is the size.",
    MARKS: "Cut out of its surroundings, a run such as `!?.!?.` loses one mark to a sentence of its own each time; LlamaIndex goes on "
    "until it fits or Python's recursion ends. Here a piece is cut into sentences 32 times over at most, then into clauses.",
    WORDS: "A word is what Python's `\w` takes for one, which ends at each vowel sign of Hindi or Thai and each accent that is a character of "
    "its own. Here such words are whole. One of them changes the mean length and so all scores a little.",
    ZEROS: "LlamaIndex fills a BM25 result up to `top_k` with chunks that share no word with the question. Here they are no hits; in a "
    "fused list they would take ranks from real ones.",
    TIES: "Equal scores are ordered by place in the corpus here. LlamaIndex leaves them to NumPy's partition, to random node ids, or to "
    "the order of its retrievers, and cuts at `top_k` between equals.",
    SAME_TEXT: "LlamaIndex fuses two chunks with the same text into one. Here each keeps its own place in its own document, which a citation needs.",
}  # fmt: skip


def vector(text):
    """Words that two texts share make their vectors alike; equal texts are equal."""
    total = np.zeros(DIMENSIONS)
    words = text.lower().split()
    for word, weight in [(text, 0.5 + 0.1 * len(words)), *((word, 1.0) for word in words[:200])]:
        seed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
        total += weight * np.random.Generator(np.random.PCG64(seed)).standard_normal(DIMENSIONS)
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


class Given(BaseRetriever):
    """Finds what it is told."""

    def __init__(self, hits):
        super().__init__()
        self.hits = hits

    def _retrieve(self, _):
        return [NodeWithScore(node=node, score=score) for node, score in self.hits]


def same_ranking(ours, theirs):
    """Equal names in equal order, with scores that agree as far as 32 bits go."""
    return len(ours) == len(theirs) and all(
        a[0] == b[0] and abs(a[1] - b[1]) <= TOLERANCE * max(1, abs(b[1])) for a, b in zip(ours, theirs)
    )


def by_row(ranking):
    """A ranking of (row, score), equal scores by row. Scores that differ by rounding alone count as equal."""
    groups = []
    for row, score in sorted(ranking, key=lambda hit: -hit[1]):
        if groups and groups[-1][-1][1] - score <= TOLERANCE * max(1, abs(score)):
            groups[-1].append((row, score))
        else:
            groups.append([(row, score)])
    return [hit for group in groups for hit in sorted(group)]


# Of so many marks in a row not each can be a sentence.
MARKS_IN_A_ROW = re.compile(r"[.!?]{33,}")


class Bounded(SentenceSplitter):
    """Cuts a piece into sentences 32 times over at most."""

    _depth: int = PrivateAttr(default=0)

    def _split(self, text, chunk_size):
        self._depth += 1
        try:
            return super()._split(text, chunk_size)
        finally:
            self._depth -= 1

    def _get_splits_by_fns(self, text):
        every = self._split_fns
        # The second is the one for sentences.
        self._split_fns = every if self._depth <= 32 else every[:1]
        try:
            return super()._get_splits_by_fns(text)
        finally:
            self._split_fns = every


def our_way(kind, settings):
    """A function that makes nodes as LlamaIndex would if it did as we do, and what the difference is called."""
    if kind == "token":
        splitter = TokenTextSplitter(**settings)
        return TWO_TOKENS, lambda text: [TextNode(text=part) for part in splitter.split_text(text)]
    if kind == "sentence":
        parser = Bounded(**settings)
    elif kind == "hierarchical":
        sizes = settings.get("chunk_sizes", [2048, 512, 128])
        known = {f"{size}": Bounded(chunk_size=size, chunk_overlap=settings.get("chunk_overlap", 20)) for size in sizes}
        parser = HierarchicalNodeParser.from_defaults(
            chunk_sizes=None, node_parser_ids=list(known), node_parser_map=known
        )
    else:
        return MARKS, None
    return (
        MARKS,
        lambda text: parser.get_nodes_from_documents([Document(text=text)]) if MARKS_IN_A_ROW.search(text) else None,
    )


def chunks(table, process, texts):
    """The four parsers, document by document."""
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    for kind, settings in [
        ("sentence", {"chunk_size": 1024, "chunk_overlap": 200}),
        ("sentence", {"chunk_size": 256, "chunk_overlap": 32}),
        ("sentence", {"chunk_size": 64, "chunk_overlap": 63}),
        ("sentence", {"chunk_size": 100, "chunk_overlap": 0, "paragraph_separator": "\n\n", "separator": "e"}),
        ("token", {"chunk_size": 128, "chunk_overlap": 20}),
        ("sentence_window", {"window_size": 3}),
        ("hierarchical", {}),
        ("hierarchical", {"chunk_sizes": [512, 96], "chunk_overlap": 0}),
    ]:
        parser = {"sentence": SentenceSplitter, "token": TokenTextSplitter, "sentence_window": SentenceWindowNodeParser.from_defaults,
                  "hierarchical": HierarchicalNodeParser.from_defaults}[kind](**settings)  # fmt: skip
        ours = {name: [] for name in texts}
        for chunk in process.ask({"chunk": {"chunker": {kind: settings}, "documents": listed}})["chunks"]:
            ours[chunk["document"]].append((chunk["level"], chunk["parent"], chunk["text"]))
        shown = ", ".join(repr(value) if isinstance(value, str) else str(value) for value in settings.values())
        row = table.row(f"{type(parser).__name__} {shown or '2048, 512, 128'}", "documents")
        name_of_change, change = our_way(kind, settings)
        for name, text in texts.items():
            theirs = levels(parser.get_nodes_from_documents([Document(text=text)]))
            changed = change(text) if change else None
            changed = theirs if changed is None else levels(changed)
            steps = [(name_of_change, changed), (EMPTY, [chunk for chunk in changed if chunk[2]])]
            row.compare(name, ours[name], theirs, steps)


def levels(nodes):
    """Level, number of the parent, and text of each node."""
    numbers, found = {}, []
    for number, node in enumerate(nodes):
        numbers[node.node_id] = number
        parent = numbers[node.parent_node.node_id] if node.parent_node else None
        found.append((0 if parent is None else found[parent][0] + 1, parent, node.text))
    return found


def with_metadata(table, process, texts):
    settings = {"chunk_size": 128, "chunk_overlap": 20}
    row = table.row("SentenceSplitter 128, 20, documents with metadata", "documents")
    texts = {name: text for name, text in texts.items() if name.startswith(("prose/", "mixed/"))}
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    ours = {name: [] for name in texts}
    for chunk in process.ask({"chunk": {"chunker": {"sentence": settings}, "documents": listed}})["chunks"]:
        ours[chunk["document"]].append(chunk["text"])
    splitter = SentenceSplitter(**settings)
    for name, text in texts.items():
        metadata = {"file_path": f"/corpus/{name}.txt", "creation_date": "2026-01-31"}
        theirs, plain = (
            [node.text for node in splitter.get_nodes_from_documents([Document(text=text, metadata=m)])]
            for m in (metadata, {})
        )
        row.compare(name, ours[name], theirs, [(METADATA, plain)])


def windows(table, process, texts):
    """Windows of found sentences after MetadataReplacementPostProcessor."""
    texts = {name: text for name, text in texts.items() if text.strip()}
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    draw = random.Random(3)
    for size in (3, 1):
        parser = SentenceWindowNodeParser.from_defaults(window_size=size)
        replace = MetadataReplacementPostProcessor(target_metadata_key="window")
        rows = {}
        for number, chunk in enumerate(
            process.ask({"chunk": {"chunker": {"sentence_window": {"window_size": size}}, "documents": listed}})[
                "chunks"
            ]
        ):
            rows.setdefault(chunk["document"], []).append(number)
        row = table.row(f"MetadataReplacementPostProcessor, window {size}", "lists of hits")
        asked, expected = [], []
        for name, text in texts.items():
            nodes = parser.get_nodes_from_documents([Document(text=text)])
            for _ in range(3):
                picked = draw.sample(range(len(nodes)), min(len(nodes), draw.randint(1, 6)))
                scores = sorted((np.float32(draw.random()).item() for _ in picked), reverse=True)
                asked.append([{"row": rows[name][i], "score": score} for i, score in zip(picked, scores)])
                found = replace.postprocess_nodes(
                    [NodeWithScore(node=nodes[i].model_copy(), score=s) for i, s in zip(picked, scores)]
                )
                theirs = [(node.text, node.score) for node in found]
                # As the text stands: the sentences hold the white space after them.
                reach = [(max(0, i - size), i + size + 1) for i in picked]
                sentences = [node.metadata["original_text"] for node in nodes]
                assert [" ".join(sentences[a:b]) for a, b in reach] == [text for text, _ in theirs]
                plain = [("".join(sentences[a:b]).strip(), score) for (a, b), (_, score) in zip(reach, theirs)]
                once = [pair for at, pair in zip(first_of(reach, len(nodes)), plain) if at]
                expected.append((name, theirs, plain, once))
        answers = process.ask({"context": {"hits": asked}})["passages"]
        for answer, (name, theirs, plain, once) in zip(answers, expected):
            ours = [(passage["text"], passage["score"]) for passage in answer]
            row.compare(name, ours, theirs, [(SPACE, plain), (WINDOW_TWICE, once)], same_ranking)


def first_of(reach, n):
    """Whether each window is the first of its kind."""
    known = set()
    for a, b in reach:
        window = (a, min(b, n))
        yield window not in known
        known.add(window)


def merges(table, process, texts):
    """AutoMergingRetriever on given hits of the leaves."""
    texts = {name: text for name, text in texts.items() if len(text) > 2000}
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    draw = random.Random(4)
    for settings, threshold in [({}, 0.5), ({"chunk_sizes": [512, 96], "chunk_overlap": 0}, 0.4),
                                ({"chunk_sizes": [1024, 256, 64, 32], "chunk_overlap": 8}, 0.25)]:  # fmt: skip
        chunker = {"hierarchical": {**settings, "merge_threshold": threshold}}
        ours = process.ask({"chunk": {"chunker": chunker, "documents": listed}})["chunks"]
        parser = HierarchicalNodeParser.from_defaults(**settings)
        nodes = [
            node for name, text in texts.items() for node in parser.get_nodes_from_documents([Document(text=text)])
        ]
        if [node.text for node in nodes if node.text] != [chunk["text"] for chunk in ours]:
            raise RuntimeError("the chunks differ: see the tables of the parsers")
        linked = with_links(nodes)
        storages = [StorageContext.from_defaults(), StorageContext.from_defaults()]
        for storage, kept in zip(storages, (nodes, linked)):
            storage.docstore.add_documents(kept)
        number = {node.node_id: i for i, node in enumerate(nodes)}
        leaves = [i for i, chunk in enumerate(ours) if chunk["searchable"]]
        asked, found = [], []
        for _ in range(400):
            # A stretch of neighbours with gaps, and a few from elsewhere.
            start = draw.randrange(len(leaves))
            stretch = leaves[start : start + draw.randint(2, 14)]
            picked = [i for i in stretch if draw.random() < draw.choice([0.5, 0.8, 1.0])] + draw.sample(
                leaves, draw.randint(0, 3)
            )
            picked = list(dict.fromkeys(picked))
            if draw.random() < 0.6:
                draw.shuffle(picked)
            scores = sorted(
                (draw.randint(1, 8) / 8 if draw.random() < 0.3 else np.float32(draw.random()).item() for _ in picked),
                reverse=True,
            )
            asked.append([{"row": i, "score": score} for i, score in zip(picked, scores)])
            both = []
            for storage, kept in zip(storages, (nodes, linked)):
                given = Given([(kept[i], score) for i, score in zip(picked, scores)])
                merging = AutoMergingRetriever(given, storage, simple_ratio_thresh=threshold)
                both.append([(number[hit.node.node_id], hit.score) for hit in merging.retrieve("?")])
            found.append(both)
        row = table.row(
            f"AutoMergingRetriever {threshold}, {settings.get('chunk_sizes', [2048, 512, 128])}", "lists of hits"
        )
        place = [(chunk["document"], chunk["span"]["start"], chunk["span"]["end"]) for chunk in ours]
        for case, (answer, both) in enumerate(zip(process.ask({"context": {"hits": asked}})["passages"], found)):
            mine = [((p["document"], p["span"]["start"], p["span"]["end"]), p["score"]) for p in answer]
            theirs, with_next = [[(place[i], score) for i, score in hits] for hits in both]
            row.compare(f"list {case}", mine, theirs, [(NO_NEXT, with_next)], same_ranking)


def with_links(nodes):
    """Copies of the nodes that know both neighbours among their parent's children."""
    families, copies = {}, {node.node_id: node.model_copy(deep=True) for node in nodes}
    for node in nodes:
        if node.parent_node:
            families.setdefault(node.parent_node.node_id, []).append(copies[node.node_id])
    for family in families.values():
        for node, following in itertools.pairwise(family):
            node.relationships[NodeRelationship.NEXT] = following.as_related_node_info()
            following.relationships[NodeRelationship.PREVIOUS] = node.as_related_node_info()
    return list(copies.values())


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
        for hits in process.ask({"retrieve": {"retriever": {kind: settings}, "queries": queries}})["hits"]
    ]
    for k in (5, 20):
        row = table.row(f"VectorIndexRetriever, top {k} of {len(found):,}{label}", "questions")
        for text, mine in zip(asked, ours("dense", top_k=k)):
            row.compare(text, mine, sides.dense(text, k), [(TIES, sides.in_order(text, k)[0])], same_ranking)
    for k in (5, 20):
        row = table.row(f"BM25Retriever, top {k} of {len(found):,}{label}", "questions")
        for text, mine in zip(asked, ours("bm25", top_k=k)):
            ties = sides.in_order(text, k)[1]
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
            row.compare(
                text, mine, real, [(WORDS, words), (ZEROS, zeros), (TIES, ties), (SAME_TEXT, apart)], same_ranking
            )


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
            both = by_row(self.all_dense(text)), by_row(self.all_bm25(text))
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


def run(process, texts, say):
    set_global_tokenizer(compare.tokenizer())
    Settings.embed_model, Settings.llm = Known(), MockLLM()
    logging.getLogger("llama_index").setLevel(logging.ERROR)
    logging.getLogger("bm25s").setLevel(logging.ERROR)
    table = Table("LlamaIndex 0.14.25", DIFFERENCES)
    for part in (chunks, with_metadata, windows, merges, rankings):
        say(f"LlamaIndex: {part.__name__}")
        # It prints a warning for every parser of small chunks.
        with contextlib.redirect_stdout(io.StringIO()):
            part(table, process, texts)
    return table
