"""Chunks of documents that both sides hold, with their vectors and hits on them."""

import functools

import numpy as np
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import NodeWithScore
from retrievers import by_row, direction, unit


@functools.lru_cache(1 << 16)
def meaning(text):
    """A vector that the words decide, and not what stands between them."""
    words = text.split()
    total = np.sum([direction(word) for word in words or [text]], axis=0)
    return (total / np.linalg.norm(total)).astype(np.float32).tolist()


def meanings(texts):
    return [meaning(text) for text in texts]


class Meaning(BaseEmbedding):
    """The same vectors as LlamaIndex wants them."""

    def _get_text_embedding(self, text):
        return meaning(text)

    def _get_query_embedding(self, query):
        return meaning(query)

    async def _aget_query_embedding(self, query):
        return meaning(query)


class Remembered(BaseRetriever):
    """A retriever of LlamaIndex that is asked each text once: it compares with one vector after the other."""

    def __init__(self, retriever):
        super().__init__()
        self.retriever, self.known = retriever, {}

    def _retrieve(self, bundle):
        if bundle.query_str not in self.known:
            self.known[bundle.query_str] = self.retriever.retrieve(bundle)
        return [NodeWithScore(node=hit.node, score=hit.score) for hit in self.known[bundle.query_str]]


class Searched:
    """The chunks of the documents whose every chunk has its own words, on both sides."""

    def __init__(self, process, texts, chunk_size, chunk_overlap=0, metadata=None):
        self.process, self.texts = process, texts
        process.embed = meanings
        sizes = {"chunk_size": chunk_size, "chunk_overlap": chunk_overlap}
        chunker = {"sentence": {**sizes, "language": "english"}}
        splitter = SentenceSplitter(**sizes)
        listed = [
            {"path": name, "text": text, "metadata": metadata(name) if metadata else {}} for name, text in texts.items()
        ]
        ours = {name: [] for name in texts}
        for chunk in process.ask({"chunk": {"chunker": chunker, "documents": listed}})["chunks"]:
            ours[chunk["document"]].append(chunk["text"])
        kept, known = [], set()
        self.nodes = []
        for document in listed:
            nodes = splitter.get_nodes_from_documents([Document(text=document["text"])])
            own = {tuple(sorted(node.text.split())) for node in nodes}
            # The few documents that the two cut in other ways are in the table of the parsers.
            if [node.text for node in nodes] == ours[document["path"]] and len(own) == len(nodes) and not own & known:
                known |= own
                kept.append(document)
                for node in nodes:
                    node.metadata = {"row": len(self.nodes), **document["metadata"]}
                    node.excluded_embed_metadata_keys = node.excluded_llm_metadata_keys = [*node.metadata]
                    self.nodes.append(node)
        self.chunks = process.ask({"chunk": {"chunker": chunker, "documents": kept}})["chunks"]

    def index(self):
        """Indexes the chunks, ours and LlamaIndex'."""
        vectors = meanings([chunk["text"] for chunk in self.chunks])
        self.process.ask({"index": {"vectors": vectors}})
        self.matrix = np.array([unit(vector) for vector in vectors])
        return VectorStoreIndex(self.nodes, embed_model=Meaning())

    def nearest(self, text, k):
        """Rows and cosines, best first, equal ones by row."""
        return by_row(list(enumerate((self.matrix @ unit(meaning(text))).tolist())))[:k]

    def draw(self, draw, most=8, distinct=True):
        """Rows and falling scores of 32 bits, a few of the rows side by side."""
        start = draw.randrange(len(self.chunks))
        near = range(max(0, start - 3), min(len(self.chunks), start + 4))
        rows = [*draw.sample(near, min(len(near), draw.randint(1, 4))), *draw.sample(range(len(self.chunks)), most)]
        rows = list(dict.fromkeys(rows))[: draw.randint(1, most)]
        draw.shuffle(rows)
        one = lambda: np.float32(draw.random()).item() if distinct else draw.randint(1, 6) / 8  # noqa: E731
        return list(zip(rows, sorted((one() for _ in rows), reverse=True)))

    def hits(self, pairs):
        """As LlamaIndex wants them."""
        return [NodeWithScore(node=self.nodes[row].model_copy(deep=True), score=score) for row, score in pairs]

    def refined(self, steps, lists, text="?"):
        return self.staged("refine", steps, lists, text)

    def staged(self, stage, config, lists, text="?"):
        """The passages that a stage of ours makes of each list of hits."""
        given = [{"text": text, "hits": [{"row": row, "score": score} for row, score in pairs]} for pairs in lists]
        key = {"refine": "refine", "rerank": "reranker"}[stage]
        return self.process.ask({stage: {key: config, "lists": given}})["passages"]


def row_of(node):
    return node.metadata["row"]


def rows(hits):
    """LlamaIndex' hits as pairs of row and score."""
    return [(row_of(hit.node), hit.score) for hit in hits]


def own_rows(passages):
    """Ours as pairs of row and score."""
    return [(passage["rows"][0], passage["score"]) for passage in passages]


def reciprocal(lists, k):
    """Reciprocal rank fusion with 60, ranks from 0, equal sums by row."""
    sums = {}
    for ranking in lists:
        for rank, (row, _) in enumerate(ranking):
            sums[row] = sums.get(row, 0) + 1 / (60 + rank)
    return by_row(list(sums.items()))[:k]
