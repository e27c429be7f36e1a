"""The base classes of components with settings, such as those of `reverie.chunkers` and `reverie.metrics`."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any, ClassVar


class Part:
    """Base of the dataclasses of settings that are nested in a component; not a part of a bundle (`_core.Part`)."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def setting(self) -> dict[str, Any]:
        """Its form in an experiment's dictionary: the settings that differ from their defaults."""
        values = ((field, getattr(self, field.name)) for field in fields(self))
        # `lambda` cannot be a name in Python, so such a setting has `_` at its end.
        return {field.name.removesuffix("_"): value for field, value in values if not _equal(value, field.default)}


class Component(Part):
    """A component with its settings. It can be used wherever a dictionary like `{"sentence": {"chunk_size": 256}}` can."""

    _name: ClassVar[str]

    def setting(self) -> dict[str, Any]:
        """Its form in an experiment's dictionary: its name, and the settings that differ from their defaults."""
        return {self._name: super().setting()}


def _equal(value: Any, default: Any) -> bool:
    # Values of other types, such as arrays, may not compare to a truth value.
    return type(value) is type(default) and bool(value == default)
