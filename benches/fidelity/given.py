"""What retrievers found, given to both sides and compared."""

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore

# Scores of ours have 32 bits.
TOLERANCE = 2e-6


class Given(BaseRetriever):
    """Finds what it is told."""

    def __init__(self, hits):
        super().__init__()
        self.hits = hits

    def _retrieve(self, _):
        return [NodeWithScore(node=node, score=score) for node, score in self.hits]


def retriever(kind, **settings):
    """The settings of one of our retrievers, which cuts texts into words as LlamaIndex does in English."""
    return {kind: settings | ({"language": "english"} if kind in ("bm25", "hybrid") else {})}


def same_ranking(ours, theirs, tolerance=TOLERANCE):
    """Equal names in equal order, with scores that agree as far as 32 bits go."""
    return len(ours) == len(theirs) and all(
        a[0] == b[0] and abs(a[1] - b[1]) <= tolerance * max(1, abs(b[1])) for a, b in zip(ours, theirs)
    )


def same_stretched(ours, theirs):
    """As `same_ranking`; where a list's scores are stretched to 0..1, so is what they differ by."""
    return same_ranking(ours, theirs, 10 * TOLERANCE)
