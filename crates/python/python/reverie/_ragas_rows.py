"""Datasets of Ragas as rows that `reverie.evaluate`, `golden.read` and experiments take, without importing Ragas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The roles of Ragas' messages, and ours.
_ROLES = {"human": "user", "ai": "assistant"}


def is_ragas(data: Any) -> bool:
    """Whether it is a dataset of Ragas."""
    return type(data).__module__.partition(".")[0] == "ragas" and hasattr(data, "samples")


def plain(data: Any) -> Any:
    """The rows of a dataset of Ragas that has conversations; anything else as it is."""
    has_conversations = is_ragas(data) and any(isinstance(sample.user_input, list) for sample in data.samples)
    return to_rows(data) if has_conversations else data


def to_rows(data: Any) -> list[dict[str, Any]]:
    """A row per sample, by the names of Ragas; of a conversation the last question, the answer to it, and `turns`, the
    messages before it.

    Raises:
        ValueError: If a conversation has no message of a person.
    """
    rows = []
    for number, sample in enumerate(data.samples):
        row = {name: value for name, value in sample.model_dump().items() if value is not None}
        if isinstance(sample.user_input, list):
            row.update(_conversation(sample.user_input, number))
        rows.append(row)
    return rows


def _conversation(messages: list[Any], number: int) -> Mapping[str, Any]:
    # What a tool said belongs to the answer that follows it.
    said = [(message.type, message.content) for message in messages if message.type in _ROLES and message.content]
    last = max((i for i, (kind, _) in enumerate(said) if kind == "human"), default=None)
    if last is None:
        raise ValueError(f"data, row {number} (from 0): the conversation has no message of a person")
    turns = [{"role": _ROLES[kind], "content": text} for kind, text in said[:last]]
    answers = [text for _, text in said[last + 1 :]]
    found: dict[str, Any] = {"user_input": said[last][1]}
    if turns:
        found["turns"] = turns
    if answers:
        found["response"] = answers[-1]
    return found
