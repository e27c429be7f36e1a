"""Tables that any data frame library can read.

A `Table` is a few named columns in Python lists. It becomes an Arrow table, and from there anything else, when
somebody asks for that: pyarrow, pandas and Polars are imported then, and not before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# What columns hold: `text`, `real`, `count`, `truth`, `texts` (a list of them), `evidence` and `origin` of golden
# questions, or `struct` (dictionaries with any
# fields, which become structures). Any value may be missing (`None`).
Columns = Sequence[tuple[str, str]]


class Table:
    """Rows and named columns.

    It is iterated by rows, as dictionaries: `for row in table`, `list(table)`, `pandas.DataFrame(table)`. Libraries
    that know Arrow's stream protocol take it as it is: `pyarrow.table(table)`, `polars.DataFrame(table)`.
    """

    def __init__(self, columns: Columns, rows: Iterable[Sequence[Any]]) -> None:
        self._kinds = dict(columns)
        self._rows = [tuple(row) for row in rows]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._kinds)

    def rows(self) -> list[dict[str, Any]]:
        """The rows, as dictionaries."""
        return list(self)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, as dictionaries."""
        return (dict(zip(self._kinds, row)) for row in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, column: str) -> list[Any]:
        """The values of a column."""
        if not isinstance(column, str):
            raise TypeError(f"a column has a name, not {column!r}; `list(table)` are the rows")
        if column not in self._kinds:
            raise KeyError(f"there is no column {column!r}; there are {', '.join(self._kinds)}")
        index = self.columns.index(column)
        return [row[index] for row in self._rows]

    def to_arrow(self) -> pyarrow.Table:
        """A `pyarrow.Table`. Needs pyarrow."""
        try:
            import pyarrow
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("tables need pyarrow: pip install pyarrow") from error
        kinds = {
            "text": pyarrow.string(),
            "real": pyarrow.float64(),
            "count": pyarrow.int64(),
            "truth": pyarrow.bool_(),
            "texts": pyarrow.list_(pyarrow.string()),
        }
        places = [("start_byte", pyarrow.int64()), ("end_byte", pyarrow.int64())]
        item = pyarrow.struct([("document", pyarrow.string()), ("quote", pyarrow.string()), *places])
        kinds["evidence"] = pyarrow.list_(item)
        parts = ("kind", "persona", "style", "length", "model")
        kinds["origin"] = pyarrow.struct([(part, pyarrow.string()) for part in parts])

        def column(name: str, kind: str) -> Any:
            return structures(self[name]) if kind == "struct" else pyarrow.array(self[name], kinds[kind])

        columns = {name: column(name, kind) for name, kind in self._kinds.items()}
        return pyarrow.table(columns)

    def to_pandas(self) -> pandas.DataFrame:
        """A `pandas.DataFrame`. Needs pandas and pyarrow."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """A `polars.DataFrame`. Needs Polars and pyarrow."""
        import polars

        return polars.DataFrame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        names = self.columns
        cells = [[format_value(value) for value in row] for row in self._rows]
        widths = [max(len(row[i]) for row in [names, *cells]) for i in range(len(names))]

        def line(row: Sequence[str]) -> str:
            aligned = (
                value.ljust(width) if self._kinds[name] in ("text", "texts") else value.rjust(width)
                for name, value, width in zip(names, row, widths)
            )
            return "  ".join(aligned).rstrip()

        return "\n".join(line(row) for row in [names, *cells])

    def _repr_html_(self) -> str:
        numbers = [kind not in ("text", "texts") for kind in self._kinds.values()]
        return html_table(
            self.columns, ([(format_value(value), number) for value, number in zip(row, numbers)] for row in self._rows)
        )


def struct_array(texts: pyarrow.Array, read: Callable[[Any], Any], kind: Any = None) -> pyarrow.Array:
    """A column of JSON texts as one of what they hold: of this type, or of structures with the fields of all rows."""
    import pyarrow

    values = [None if text is None else json.loads(text) for text in texts.to_pylist()]
    values = [None if value is None else read(value) for value in values]
    if kind is None and any(isinstance(value, dict) for value in values):
        return structures(values)
    return pyarrow.array(values, kind)


def structures(rows: Sequence[Any]) -> pyarrow.Array:
    """Dictionaries as structures with the fields of all of them. Values of several types are JSON texts: those of one field
    in its place, and all if some are no dictionaries. Without any field, nothing is there."""
    import pyarrow

    def texts(values: Iterable[Any]) -> pyarrow.Array:
        return pyarrow.array(
            [None if value is None else json.dumps(value, ensure_ascii=False) for value in values], pyarrow.string()
        )

    if not all(row is None or isinstance(row, dict) for row in rows):
        return texts(rows)
    names = list(dict.fromkeys(name for row in rows for name in row or ()))
    if not names:
        return pyarrow.nulls(len(rows))

    def field(name: str) -> Any:
        values = [(row or {}).get(name) for row in rows]
        try:
            return pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            return texts(values)

    missing = pyarrow.array([row is None for row in rows])
    return pyarrow.StructArray.from_arrays([field(name) for name in names], names, mask=missing)


def format_value(value: Any) -> str:
    """A value for people; a dash where there is none."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return format_fixed(value, 3)
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, dict):
        value = ", ".join(f"{name}: {each}" for name, each in value.items())
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def format_fixed(value: float, digits: int) -> str:
    """A number with so many digits, and no minus before zero."""
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if not text.strip("-0.") else text


def format_signed(value: float, digits: int) -> str:
    """The same with its sign; zero has a plus."""
    text = format_fixed(value, digits)
    return text if text.startswith("-") else f"+{text}"


def format_interval(low: float, high: float, digits: int) -> str:
    """The ends of an interval."""
    return f"[{format_fixed(low, digits)}, {format_fixed(high, digits)}]"


def warnings_table(warnings: Iterable[dict[str, Any]]) -> Table:
    """A table with a row per warning."""
    columns = [("code", "text"), ("trials", "texts"), ("count", "count"), ("total", "count")]
    columns += [("text", "text"), ("action", "text")]
    # The data has no entry for a count that is not known; the table then has None.
    return Table(columns, [[each.get(name) for name, _ in columns] for each in warnings])


def html_table(
    names: Iterable[str],
    rows: Iterable[Iterable[tuple[str, bool]]],
    bold: Callable[[int], bool] = lambda row: False,
) -> str:
    """A table of texts, each with whether it is a number."""
    head = "".join(
        f'<th style="text-align:left;vertical-align:bottom;padding:2px 8px">{escape(name)}</th>' for name in names
    )
    body = []
    for i, row in enumerate(rows):
        cells = "".join(
            f'<td style="vertical-align:top;padding:2px 8px;text-align:{"right;white-space:pre" if number else "left"}">{escape(text)}</td>'
            for text, number in row
        )
        body.append(f"<tr{' style=font-weight:600' if bold(i) else ''}>{cells}</tr>")
    return f'<div style="overflow-x:auto"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
