"""What comparisons come to: equal, different for a known reason, or unexplained."""

import collections


def short(value, limit=160):
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"


class Row:
    """One line of a table: a component and its settings."""

    def __init__(self, table, name, unit):
        self.table, self.name, self.unit = table, name, unit
        self.compared = self.equal = 0
        self.different = collections.Counter()
        self.explained, self.unexplained = [], []

    def n_different(self):
        return len(self.explained) + len(self.unexplained)

    def compare(self, case, ours, theirs, steps=(), same=None):
        """Compares two values.

        Each step is the name of a declared difference and what their value
        becomes when they do it our way; the steps apply in their order. Ours has
        to be the last of these, so a difference that is expected and does not
        occur is as unexplained as one that nobody expected.
        """
        same = same or self.table.same
        self.compared += 1
        expected, names = theirs, []
        # Steps that change less than the tolerance. Added to what 32 bits leave out, it may be more.
        last, small = theirs, []
        for name, value in steps:
            assert name in self.table.differences, name
            if not same(value, expected):
                names.append(name)
                expected = value
            elif value != last:
                small.append(name)
            last = value
        if small and not same(ours, expected) and same(ours, last):
            expected, names = last, names + small[:1]
        if not same(ours, expected):
            why = f"expected, and did not occur: {', '.join(names)}" if names and same(ours, theirs) else ""
            self.unexplained.append((case, ours, theirs, why))
        elif names:
            self.different.update(names)
            self.explained.append((case, ours, theirs, names))
            self.table.seen.update(names)
        else:
            self.equal += 1


class Table:
    """The comparisons with one package."""

    def __init__(self, title, differences, same=lambda a, b: a == b):
        """`differences` maps the name of each declared difference to its reason."""
        self.title, self.differences, self.same = title, differences, same
        self.rows, self.seen = [], collections.Counter()

    def row(self, name, unit):
        self.rows.append(Row(self, name, unit))
        return self.rows[-1]

    def faults(self):
        """Everything that must not be: one line each."""
        for row in self.rows:
            for case, ours, theirs, why in row.unexplained:
                yield f"{self.title}, {row.name}, {case}: {why or 'unexplained'}\n  ours   {short(ours, 400)}\n  theirs {short(theirs, 400)}"
            if not row.compared:
                yield f"{self.title}, {row.name}: nothing was compared"
        for name in self.differences:
            if not self.seen[name]:
                yield f"{self.title}: the declared difference {name!r} never occurred"

    def cases(self):
        """Every single difference, with both values."""
        for row in self.rows:
            for case, ours, theirs, names in row.explained:
                yield {"what": row.name, "case": case, "because": names, "ours": ours, "theirs": theirs}
            for case, ours, theirs, why in row.unexplained:
                yield {"what": row.name, "case": case, "unexplained": why, "ours": ours, "theirs": theirs}

    def record(self):
        """What is kept of a run: the counts, and which cases differ for which reasons, the first of each with both values."""
        rows = []
        for row in self.rows:
            cases = {}
            for case, ours, theirs, names in row.explained:
                kept = cases.setdefault(" + ".join(names), {"ours": short(ours), "theirs": short(theirs), "cases": []})
                kept["cases"].append(short(case, 60))
            for case, ours, theirs, _ in row.unexplained:
                kept = cases.setdefault("unexplained", {"ours": short(ours), "theirs": short(theirs), "cases": []})
                kept["cases"].append(short(case, 60))
            counts = {"compared": row.compared, "unit": row.unit, "equal": row.equal, "different": row.n_different()}
            rows.append({"what": row.name, **counts, "unexplained": len(row.unexplained), "differences": cases})
        reasons = [
            {"difference": name, "times": self.seen[name], "reason": reason}
            for name, reason in self.differences.items()
        ]
        return {"peer": self.title, "rows": rows, "reasons": reasons}

    def markdown(self):
        lines = []
        for row in self.rows:
            reasons = [f"{name} {times:,}" for name, times in row.different.most_common()]
            if row.unexplained:
                reasons.insert(0, f"**unexplained {len(row.unexplained):,}**")
            counts = [f"{row.compared:,} {row.unit}", f"{row.equal:,}", f"{row.n_different():,}"]
            lines.append([row.name, *counts, ", ".join(reasons)])
        parts = [f"### {self.title}", grid(["what", "compared", "equal", "different", "reasons"], lines)]
        if self.differences:
            names = [[name, f"{self.seen[name]:,}", reason] for name, reason in self.differences.items()]
            parts.append(grid(["difference", "times", "reason"], names))
        return "\n\n".join(parts)


def grid(head, lines):
    rows = [head, *lines]
    widths = [max(len(line[i]) for line in rows) for i in range(len(head))]
    # The last column holds sentences: padding it would only make long lines.
    widths[-1] = len(head[-1])
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in rows]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)
