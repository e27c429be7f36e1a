"""The page about the experiment file, from the JSON Schema that `reverie schema` prints."""

from __future__ import annotations

import json
import re

# Axes whose page is not called like the axis: `index.md` is the first page of a folder.
PAGES = {"index": "vector-index"}


def default(value: object, description: str, required: bool = False) -> str:
    """What holds where a key is left out, for the cell of a table."""
    if required:
        return "required"
    if value not in (None, "", [], {}):
        # Numbers of 32 bits are printed as they were written.
        value = round(value, 6) if isinstance(value, float) else value
        return f"`{json.dumps(value, ensure_ascii=False)}`"
    # A default that depends on something else is told in the description's words.
    said = re.search(r"Default:? (.+?)\.(?= |$)", description)
    said = said or re.search(r"(?:^|[;,.] )([^;,.]+?) if (?:left out|not set|empty)\b", description)
    if not said:
        return "nothing"
    return said[1] if len(said[1]) < 60 else "as described"


class Page:
    """The page while it is written."""

    def __init__(self, schema: dict) -> None:
        self.schema = schema
        self.text = ""
        self.seen: set[str] = set()

    def of(self, one: dict) -> dict:
        """A schema behind its reference, and without the case that there is none."""
        if "$ref" in one:
            return self.of(self.schema["$defs"][one["$ref"].removeprefix("#/$defs/")])
        for word in ("anyOf", "oneOf"):
            cases = [case for case in one.get(word, []) if case.get("type") != "null"]
            if len(cases) == 1:
                return self.of(cases[0])
        return one

    def cases(self, one: dict) -> dict[str, dict]:
        """Where a table has one of several keys: these keys with what they hold."""
        one = self.of(one)
        if "properties" in one and one.get("required") == list(one["properties"]):
            return one["properties"]
        found: dict[str, dict] = {}
        for case in one.get("oneOf", []) + one.get("anyOf", []):
            found.update(self.cases(case))
        return found

    def takes(self, one: dict) -> str:
        """What a key takes, in a few words."""
        one = self.of(one)
        if "const" in one:
            return f"`{json.dumps(one['const'])}`"
        if "enum" in one:
            return " or ".join(f"`{json.dumps(value)}`" for value in one["enum"] if value is not None)
        for word in ("anyOf", "oneOf"):
            if word in one:
                return " or ".join(dict.fromkeys(self.takes(case) for case in one[word] if case.get("type") != "null"))
        kinds = one.get("type", "anything")
        kinds = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
        words = {
            "string": "a text",
            "integer": "a whole number",
            "number": "a number",
            "boolean": "true or false",
            "object": "a table",
            "array": "a list",
        }
        said = " or ".join(words.get(kind, kind) for kind in kinds)
        items = one.get("items")
        return (
            f"{said} of: {self.takes(items)}"
            if "array" in kinds and isinstance(items, dict) and items.get("type") != "object"
            else said
        )

    def table(self, path: str, one: dict, level: int, anchor: str | None = None) -> None:
        """A section: its keys, then the tables in it."""
        one = self.of(one)
        heading = f"{'#' * level} {path}" + (f" {{ #{anchor} }}" if anchor else "")
        self.text += f"\n{heading}\n\n"
        if description := one.get("description"):
            self.text += description + "\n\n"
        if rows := one.get("properties"):
            self.keys(rows, one.get("required", []))
        inner = one.get("additionalProperties")
        if isinstance(inner, dict) and self.of(inner).get("properties"):
            self.table(f"{path}.NAME", inner, level + 1)
        for key, value in (rows or {}).items():
            within = self.of(value)
            if within.get("properties") or (
                isinstance(within.get("additionalProperties"), dict)
                and self.of(within["additionalProperties"]).get("properties")
            ):
                # `limits` and `price` are the same wherever they stand.
                if key in ("limits", "price") and key in self.seen:
                    continue
                own = key if key in ("limits", "price", "budget") and not path.startswith("corpus") else None
                self.seen.update([key] if own else [])
                self.table(f"{path}.{key}", value, min(level + 1, 4), own)

    def keys(self, rows: dict, required: list[str]) -> None:
        self.text += "| key | takes | default | what it does |\n|---|---|---|---|\n"
        for key, value in rows.items():
            within = {**self.of(value), **value}
            words = (within.get("description") or self.of(value).get("description") or "").split("\n\n")[0]
            shown = default(within.get("default"), " ".join(words.split()), key in required)
            if self.of(value).get("properties") and key not in required:
                shown = "see below"
            elif shown.startswith("`") and len(shown) >= 40:
                shown = "a table"
            cells = [f"`{key}`", self.takes(value), shown, words]
            self.text += "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |\n"
        self.text += "\n"


def page(schema: dict, axes: dict[str, str]) -> str:
    """The Markdown of the page. `axes` are those that list components, which have pages of their own, with titles."""
    made = Page(schema)
    top = schema["properties"]
    made.text = """# The experiment file

An experiment is one file in TOML; the [quickstart](../quickstart.md#the-experiment) has a whole one, and `reverie init FOLDER` writes one with comments. This page lists every key.
All mistakes in a file are told at once, each with its line, its column and the keys that are known.

`reverie schema` prints a JSON Schema of the file, by which editors complete keys and mark mistakes ([here it is](experiment.schema.json)). Editors with Taplo or Even Better TOML take it from a first line:

```toml
#:schema ./experiment.schema.json
```

"""
    made.text += "| section | what it holds |\n|---|---|\n" + "".join(
        f"| {f'`{key}`' if key in ('name', 'store') else f'[`{key}`](#{key})'} | {' '.join((value.get('description') or made.of(value).get('description') or 'Which trials are asked which questions.').split())} |\n"
        for key, value in top.items()
    )
    for key in ("corpus", "dataset"):
        made.table(key, top[key], 2)
    made.text += "\n## models\n\n`[models.NAME]` has one of `chat`, `embedding`, `rerank`, and in it one provider with its settings.\n"
    for kind, providers in made.cases(top["models"]["additionalProperties"]).items():
        alike: dict[tuple[str, ...], list[tuple[str, dict]]] = {}
        for provider, value in made.cases(providers).items():
            alike.setdefault(tuple(made.of(value).get("properties", {})), []).append((provider, value))
        for ones in alike.values():
            name, value = ones[0]
            made.table(f"models.NAME.{kind}.{name}", {**made.of(value), "description": ""}, 3, f"{kind}-{name}")
            if others := [f"`{kind}.{other}`" for other, _ in ones[1:]]:
                made.text += (
                    f"The same keys: {', '.join(others)}, which know their address and the name of their key.\n"
                )
    made.text += "\n## space\n\nEach list is an axis; the trials are all combinations. A value is a component's name, or a table with its name and its settings.\nWith several tables `[[space]]`, the trials are the combinations of each table.\n\n| axis | lists |\n|---|---|\n"
    made.text += "| `embedder` | the names of embedding models under `[models]` |\n"
    made.text += "".join(f"| `{axis}` | [{title.lower()}]({PAGES.get(axis, axis)}.md) |\n" for axis, title in axes.items())
    system = made.of(top["systems"]["additionalProperties"])
    made.text += "\n## systems\n\nPipelines that are not ours: [what they are](../guides/systems.md). `[systems.NAME]` has one of the tables below, and these keys:\n\n"
    made.keys(system["properties"], [])
    for kind, value in made.cases({"anyOf": system["anyOf"]}).items():
        made.table(f"systems.NAME.{kind}", value, 3, f"system-{kind}")
    made.text += "\n## search\n\nWhich trials are asked which questions: one of these, by its name or as a table; without one, `grid`.\n"
    for name, value in made.cases(top["search"]).items():
        made.table(f"search.{name}", value, 3)
        if not made.of(value).get("properties"):
            made.text += "It takes no settings.\n"
    evaluate = {**top["evaluate"], "properties": {**top["evaluate"]["properties"]}}
    # Their names are a page of their own.
    evaluate["properties"]["metrics"] = {
        "type": "array",
        "description": "What is measured, in the order of the leaderboard: [metrics](metric.md).",
    }
    made.table("evaluate", evaluate, 2)
    for key in ("engine", "track", "warnings"):
        made.table(key, top[key], 2)
    return made.text
