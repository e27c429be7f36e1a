"""The modules with the classes of components, and the names in `reverie` that have these classes.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reverie import (
        chunkers,
        enrichers,
        generators,
        metrics,
        parsers,
        queries,
        refiners,
        rerankers,
        retrievers,
        vector_indexes,
    )
    from reverie.enrichers import enrich
    from reverie.queries import query
    from reverie.refiners import refine
    from reverie.vector_indexes import vector_index

MODULES = (
    "chunkers",
    "enrichers",
    "generators",
    "metrics",
    "parsers",
    "queries",
    "refiners",
    "rerankers",
    "retrievers",
    "vector_indexes",
)

# The modules of names that are no decorator; decorators are in `reverie.functions`.
HOMES = {
    "enrich": "enrichers",
    "query": "queries",
    "refine": "refiners",
    "vector_index": "vector_indexes",
}

__all__ = [
    "chunkers",
    "enrich",
    "enrichers",
    "generators",
    "metrics",
    "parsers",
    "queries",
    "query",
    "refine",
    "refiners",
    "rerankers",
    "retrievers",
    "vector_index",
    "vector_indexes",
]
