"""The queries with their settings: `reverie.query.None_` and so on. Each says what it is for.

Written from the Rust source by `make classes`: change that, not this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reverie._settings import Component


@dataclass(frozen=True, kw_only=True)
class None_(Component):
    """`none`: the question is searched as it was asked.

    The baseline that every other way must beat to be worth its calls.
    """

    _name: ClassVar[str] = "none"


class Queries:
    """The queries by their names: `reverie.query` has them."""

    None_ = None_
