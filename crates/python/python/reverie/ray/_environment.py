"""The parts of the driver's environment that a worker on another node gets."""

from __future__ import annotations

import os
from typing import Iterable, Mapping

from reverie import _core


class Secrets:
    """Variables of the environment for a process of Ray. They go there as an argument, whose text shows no value:
    Ray shows `env_vars` to everybody who sees its dashboard, and may write the arguments of operators into its logs."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = dict(variables)

    @classmethod
    def of(cls, variables: Mapping[str, str] | None) -> Secrets | None:
        return cls(variables) if variables else None

    def __repr__(self) -> str:
        return f"<{len(self._variables)} variables>"

    def set(self) -> None:
        """Sets them in this process."""
        os.environ.update(self._variables)

    def set_missing(self) -> None:
        """Sets those variables that this process does not have."""
        for name, value in self._variables.items():
            if name != "REVERIE_HOME" or os.path.isdir(value):
                os.environ.setdefault(name, value)


def driver_environment(names: Iterable[str]) -> Secrets:
    """The driver's access to object stores, these variables, and its home."""
    prefixes = tuple(_core.store_variable_prefixes())
    given = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    given.update((name, os.environ[name]) for name in names if name in os.environ)
    return Secrets({**given, "REVERIE_HOME": _core.home()})
