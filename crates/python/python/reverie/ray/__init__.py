"""Reverie on Ray. Needs `reverie[ray]`.

- The engine `ray` (`reverie run --engine ray`) needs nothing from here.
- `ingest`: a corpus into an index, Parquet or Chroma, as a pipeline of Ray Data.
- `tunable` and `space`: an experiment's trials for Ray Tune's searchers and schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reverie.ray._ingest import Ingested, Rejected, Stalled, ingest
    from reverie.ray._sinks import Chroma, Index, Parquet, Sink
    from reverie.ray._tune import space, tunable

# Found when they are asked for: the engine's workers need neither Ray Data nor Tune.
_PLACES = {
    "_ingest": ("Ingested", "Rejected", "Stalled", "ingest"),
    "_sinks": ("Chroma", "Index", "Parquet", "Sink"),
    "_tune": ("space", "tunable"),
}
__all__ = ["Chroma", "Index", "Ingested", "Parquet", "Rejected", "Sink", "Stalled", "ingest", "space", "tunable"]


def __getattr__(name: str) -> Any:
    import importlib

    for module, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
