"""The parts of the driver's environment that a worker on another node gets."""

from __future__ import annotations

import os
from typing import Iterable

from reverie import _core


def surroundings(names: Iterable[str]) -> dict[str, str]:
    """The driver's access to object stores, these variables, and its home."""
    prefixes = tuple(_core.store_variables())
    given = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    given.update((name, os.environ[name]) for name in names if name in os.environ)
    return {**given, "REVERIE_HOME": _core.home()}


def settle(given: dict[str, str]) -> None:
    """Sets them in this process, where it has none of its own."""
    for name, value in given.items():
        if name != "REVERIE_HOME" or os.path.isdir(value):
            os.environ.setdefault(name, value)
