"""The base classes of components with settings, such as those of `reverie.chunkers` and `reverie.metrics`."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any, ClassVar


class Part:
    """Settings that stand within a component's."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def setting(self) -> dict[str, Any]:
        """What stands for it in an experiment's dictionary: the settings that are not as they are by default."""
        values = ((field, getattr(self, field.name)) for field in fields(self))
        # `lambda` cannot be a name in Python, so such a setting has `_` at its end.
        return {field.name.removesuffix("_"): value for field, value in values if not _equal(value, field.default)}


class Component(Part):
    """A component with its settings. It stands wherever a dictionary like `{"sentence": {"chunk_size": 256}}` does."""

    _name: ClassVar[str]

    def setting(self) -> dict[str, Any]:
        """What stands for it in an experiment's dictionary: its name, and the settings that are not as they are by
        default."""
        return {self._name: super().setting()}


def _equal(value: Any, default: Any) -> bool:
    # What is of another type, such as an array, may compare in its own way.
    return type(value) is type(default) and bool(value == default)
