#!/usr/bin/env python3
"""How right a parser's output is: cells of tables, reading order, characters, headings, running text.

    benches/parse/measures.py        # tests itself

All functions are pure. Texts are compared after NFKC, with white space collapsed and divided words joined.

Cells are measured in two ways, because each alone misleads:

- *strict* is F1 over (row, column, text). One line that a tool takes for the first row shifts all the others, and a table in
  which every value stands beside the right name then counts 0.
- *neighbours* is F1 over pairs of texts of which one stands next to the other, to the right or below, with empty cells
  skipped. It forgives shifts, and also an empty column in the middle; it cannot see where in the table a pair stands.

A merged cell may stand in each place that it covers, or only in the first. Rows and columns that are empty altogether are left
out, because Markdown has no table without a header and tools print an empty one. Header rows count as right as they stand, and
also when a tool joins them into one (`Planned` over `Units` becomes `Planned Units`), since Markdown knows only one.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from output import LIST_MARK, Grid, Output, normalize, read_output

# A block or note counts as found if its best place in the output is as similar as this (0 to 100).
FOUND = 85
SAME_HEADING = 90
SAME_LINE = 92


def f1(right: float, wanted: float, found: float) -> float:
    """1 if nothing was wanted and nothing was found."""
    return 2 * right / (wanted + found) if wanted + found else 1.0


# Tables.


@dataclass
class TrueGrid:
    """A table of the truth. Merged cells stand in all their places; `merged` names the places after the first."""

    texts: list[list[str]]
    merged: set[tuple[int, int]] = field(default_factory=set)
    # Other spellings of a text that count as right, each with the text.
    spellings: dict[str, str] = field(default_factory=dict)

    def first_places(self) -> Grid:
        return [["" if (i, j) in self.merged else text for j, text in enumerate(row)] for i, row in enumerate(self.texts)]


def true_grid(cells: list[dict], top: int = 0, left: int = 0) -> TrueGrid:
    """The grid of the cells of a truth, from the row `top` and the column `left` on."""
    n_rows = max(cell["row"] + cell["rows"] for cell in cells) - top
    n_columns = max(cell["column"] + cell["columns"] for cell in cells) - left
    texts = [[""] * n_columns for _ in range(n_rows)]
    merged, spellings = set(), {}
    for cell in cells:
        text = normalize(cell["text"])
        for other in cell.get("also", []):
            spellings.setdefault(normalize(other), text)
        for i in range(cell["row"] - top, cell["row"] - top + cell["rows"]):
            for j in range(cell["column"] - left, cell["column"] - left + cell["columns"]):
                texts[i][j] = text
                if (i, j) != (cell["row"] - top, cell["column"] - left):
                    merged.add((i, j))
    return without_empty(TrueGrid(texts, merged, spellings))


def without_empty(grid: TrueGrid) -> TrueGrid:
    """Without rows and columns that have no text. The rest of a merged cell is no text of its own."""
    own = np.array([[bool(text) and (i, j) not in grid.merged for j, text in enumerate(row)] for i, row in enumerate(grid.texts)])
    rows, columns = np.flatnonzero(own.any(axis=1)), np.flatnonzero(own.any(axis=0))
    texts = [[grid.texts[i][j] for j in columns] for i in rows]
    merged = {(new_i, new_j) for new_i, i in enumerate(rows) for new_j, j in enumerate(columns) if (i, j) in grid.merged}
    return TrueGrid(texts, merged, grid.spellings)


def with_joined_header(grid: TrueGrid, header_rows: int) -> TrueGrid:
    """The header rows as one: the texts of a column from top to bottom, each once."""
    header = [" ".join(dict.fromkeys(filter(None, (grid.texts[i][j] for i in range(header_rows))))) for j in range(len(grid.texts[0]))]
    merged = {(i - header_rows + 1, j) for i, j in grid.merged if i >= header_rows}
    return TrueGrid([header, *grid.texts[header_rows:]], merged, grid.spellings)


def same_header(text: str, found: str) -> bool:
    """Joined header texts are the same whatever stands between them."""
    return re.sub(r"[\W_]+", " ", text).split() == re.sub(r"[\W_]+", " ", found).split()


def respelled(grid: TrueGrid, found: Grid) -> Grid:
    """The found texts in the spelling of the truth, where it knows another one."""
    if not grid.spellings:
        return found
    own = {text for row in grid.texts for text in row}
    return [[text if text in own else grid.spellings.get(text, text) for text in row] for row in found]


def strict_cells(grid: TrueGrid, found: Grid, joined_header: bool = False) -> float:
    """F1 over (row, column, text)."""
    found = respelled(grid, found)
    right = wanted = 0
    counted = sum(bool(text) for row in found for text in row)
    for i, row in enumerate(grid.texts):
        for j, text in enumerate(row):
            if not text:
                continue
            wanted += 1
            here = found[i][j] if i < len(found) and j < len(found[i]) else ""
            if here == text or (joined_header and i == 0 and here and same_header(text, here)):
                right += 1
            elif not here and (i, j) in grid.merged and merged_text_is_first(grid, found, i, j):
                right += 1
                counted += 1
    return f1(right, wanted, counted)


def merged_text_is_first(grid: TrueGrid, found: Grid, i: int, j: int) -> bool:
    """Whether the first place of the merged cell at (i, j) has its text in the found table."""
    text = grid.texts[i][j]
    while i > 0 and (i, j) in grid.merged and grid.texts[i - 1][j] == text:
        i -= 1
    while j > 0 and (i, j) in grid.merged and grid.texts[i][j - 1] == text:
        j -= 1
    return i < len(found) and j < len(found[i]) and found[i][j] == text


def neighbours(grid: Grid) -> Counter:
    """Pairs of texts, one next to the other. A text beside itself is left out: it may be one merged cell."""
    pairs: Counter = Counter()
    for direction, lines in [("right", grid), ("below", list(zip(*grid)))]:
        for line in lines:
            texts = [text for text in line if text]
            pairs.update((a, b, direction) for a, b in pairwise(texts) if a != b)
    return pairs


def neighbour_cells(grid: TrueGrid, found: Grid) -> float:
    """F1 over pairs of neighbours, for merged cells in all places or only in the first, whichever fits better."""
    found_pairs = neighbours(respelled(grid, found))
    best = 0.0
    for texts in (grid.texts, grid.first_places()):
        pairs = neighbours(texts)
        best = max(best, f1((pairs & found_pairs).total(), pairs.total(), found_pairs.total()))
    return best


def table_score(grid: TrueGrid, header_rows: int, found: Grid) -> tuple[float, float]:
    """Strict and neighbours, with the header rows as they are or joined, whichever fits better."""
    strict, near = strict_cells(grid, found), neighbour_cells(grid, found)
    if header_rows > 1:
        joined = with_joined_header(grid, header_rows)
        # Neighbours compare whole texts, so the joined header is brought to one spelling.
        respelt = [[next((t for t in joined.texts[0] if same_header(t, text)), text) for text in found[0]], *found[1:]] if found else found
        strict = max(strict, strict_cells(joined, found, joined_header=True))
        near = max(near, neighbour_cells(joined, respelt))
    return strict, near


@dataclass
class TableScores:
    """For each table of the truth its two scores and the found table it was compared with (none: -1)."""

    strict: list[float]
    neighbours: list[float]
    matches: list[int]
    extra: int


def match_tables(truths: list[tuple[TrueGrid, int]], found: list[Grid]) -> TableScores:
    """Each table of the truth with the found one that fits it best; a found table is used once."""
    scores = [[table_score(grid, header_rows, other) for other in found] for grid, header_rows in truths]
    pairs = sorted(((sum(score), i, j) for i, row in enumerate(scores) for j, score in enumerate(row)), reverse=True)
    matches = [-1] * len(truths)
    taken: set[int] = set()
    for total, i, j in pairs:
        if total > 0 and matches[i] < 0 and j not in taken:
            matches[i] = j
            taken.add(j)
    chosen = [scores[i][j] if j >= 0 else (0.0, 0.0) for i, j in enumerate(matches)]
    return TableScores([score[0] for score in chosen], [score[1] for score in chosen], matches, len(found) - len(taken))


# Text.


def words(text: str) -> list[str]:
    return normalize(text).split()


def text_words(lines: list[str]) -> list[str]:
    """The words of lines, without the marks of lists."""
    return words("\n".join(LIST_MARK.sub("", line) for line in lines))


def relevant_lines(lines: list[str], wanted: list[str], left_out: list[str]) -> list[str]:
    """Drops the lines that belong to what is left out (tables, notes, running text) rather than to what is wanted.

    A tool that does not see a table prints its cells as text. That is counted with the tables, not once more here. A line goes
    if its words are words of what is left out, but not of what is wanted; and a line of at least 20 characters also if it stands
    in a text that is left out, and in none that is wanted.
    """
    wanted_words, other_words = set(words("\n".join(wanted))), set(words("\n".join(left_out)))
    wanted_text, other_text = (" | ".join(" ".join(text_words([text])) for text in texts) for texts in (wanted, left_out))
    kept = []
    for line in lines:
        own = text_words([re.sub(r"^[\s>]*\d{1,3}\s+(?=\D)", "", line)])
        text = " ".join(own)
        if own and sum(word in other_words for word in own) >= 0.9 * len(own) and sum(word in wanted_words for word in own) < 0.9 * len(own):
            continue
        if len(text) >= 20 and text not in wanted_text and (text in other_text or fuzz.partial_ratio(text, other_text) > SAME_LINE > fuzz.partial_ratio(text, wanted_text)):
            continue
        kept.append(line)
    return kept


def order_error(blocks: list[str], lines: list[str]) -> float:
    """Edit distance over words, divided by the longer of the two texts: 0 is right, 1 has nothing in common."""
    return Levenshtein.normalized_distance(text_words(blocks), text_words(lines))


def block_places(blocks: list[str], text: str) -> list[int]:
    """Where each block begins in the text; -1 if it is not there."""
    places = []
    for block in blocks:
        place = text.find(block)
        if place < 0 and text:
            alignment = fuzz.partial_ratio_alignment(block, text, score_cutoff=FOUND)
            # A block may be longer than the whole text.
            place = alignment.dest_start if alignment and len(block) <= len(text) else -1
        places.append(place)
    return places


def kendall(places: list[int]) -> float:
    """Kendall's tau of the places against their order: 1 in order, -1 reversed. 1 if fewer than two are found."""
    found = np.array([place for place in places if place >= 0])
    if len(found) < 2:
        return 1.0
    signs = np.sign(found[None, :] - found[:, None])[np.triu_indices(len(found), 1)]
    return float(signs.mean())


def block_order(blocks: list[str], lines: list[str]) -> tuple[float, float]:
    """The share of blocks that are found in one piece, and Kendall's tau of their order. Blocks of few words may stand anywhere,
    so only those of at least five words count, unless there are fewer than three of them."""
    normal = [" ".join(text_words([block])) for block in blocks]
    long = [block for block in normal if len(block.split()) >= 5]
    chosen = long if len(long) >= 3 else normal
    places = block_places(chosen, " ".join(text_words(lines)))
    return sum(place >= 0 for place in places) / max(1, len(places)), kendall(places)


def character_error(truth: str, found: str) -> float:
    """Levenshtein distance divided by the length of the truth, at most 1."""
    truth, found = normalize(truth), normalize(found)
    return min(1.0, Levenshtein.distance(truth, found) / max(1, len(truth)))


def word_f1(truth: str, found: str) -> float:
    """F1 over words, whatever their order: what was recognized, apart from how it was arranged."""
    wanted, got = Counter(words(truth)), Counter(words(found))
    return f1((wanted & got).total(), wanted.total(), got.total())


def compare_headings(truth: list[tuple[int, str]], found: list[tuple[int, str]]) -> tuple[float, float]:
    """F1 over headings by their text, and the share of the right ones whose level is right.

    Levels count from the highest that occurs, since some tools begin with `##`.
    """
    left = list(found)
    top_truth, top_found = min((level for level, _ in truth), default=1), min((level for level, _ in found), default=1)
    right = level_right = 0
    for level, text in truth:
        best = max(left, key=lambda other: fuzz.ratio(normalize(text), other[1]), default=None)
        if best and fuzz.ratio(normalize(text), best[1]) >= SAME_HEADING:
            left.remove(best)
            right += 1
            level_right += level - top_truth == best[0] - top_found
    return f1(right, len(truth), len(found)), level_right / right if right else 0.0


def running_left(running: list[dict], output: Output) -> float:
    """The share of running heads, feet and page numbers that are still in the text.

    A short text, such as a page's number, counts only where a line holds nothing but running text of its page. If the output
    has no pages, all lines are searched, and a text that is on three pages is left as often as it is found, at most three times.
    """
    by_page: dict[int, list[str]] = {}
    for entry in running:
        by_page.setdefault(entry["page"], []).append(normalize(entry["text"]))
    has_pages = len(output.pages) > 1 or max(by_page, default=1) == 1
    left = 0
    used: Counter = Counter()
    for page, texts in by_page.items():
        if has_pages and page > len(output.pages):
            continue
        lines = [normalize(line) for line in (output.page_lines(page - 1) if has_pages else output.lines())]
        all_words = Counter(" ".join(texts).split())
        for text in texts:
            own = Counter(text.split())
            places = [
                i
                for i, line in enumerate(lines)
                if (len(text) >= 12 and text in line) or (line and own <= Counter(line.split()) and Counter(line.split()) <= all_words)
            ]  # fmt: skip
            if has_pages:
                left += bool(places)
            elif len(places) > used[text]:
                used[text] += 1
                left += 1
    return left / len(running) if running else 0.0


def joined_words(divided: list[str], blocks: list[str], lines: list[str]) -> float:
    """The share of words divided at ends of lines that the output has in one piece.

    A word that also stands undivided elsewhere is counted only as far as it is found more often than that.
    """
    if not divided:
        return 1.0

    def bare(text: str) -> list[str]:
        return [word.strip(".,;:()") for word in text.split()]

    total, found = Counter(bare("\n".join(blocks))), Counter(bare("\n".join(lines)))
    joined = 0
    for word, count in Counter(divided).items():
        joined += min(count, max(0, found[word] - (total[word] - count)))
    return joined / len(divided)


def found_share(texts: list[str], lines: list[str]) -> float:
    """The share of texts that are in the output, wherever."""
    text = " ".join(text_words(lines))
    places = block_places([" ".join(text_words([one])) for one in texts], text)
    return sum(place >= 0 for place in places) / len(texts) if texts else 1.0


def selftest() -> None:
    cells = [{"row": r, "column": c, "rows": 1, "columns": 1, "text": t} for r, row in enumerate(["ab", "12", "34"]) for c, t in enumerate(row)]
    grid = true_grid(cells)

    def pipes(text: str) -> Grid:
        return read_output(text).tables[0].grid

    right = pipes("| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | **4** |\n")
    assert table_score(grid, 1, right) == (1, 1)
    # An empty header row changes nothing; a caption as first row moves all cells but no neighbours.
    assert table_score(grid, 1, pipes("|  |  |\n|---|---|\n| a | b |\n| 1 | 2 |\n| 3 | 4 |")) == (1, 1)
    strict, near = table_score(grid, 1, pipes("| x |  |\n|---|---|\n| a | b |\n| 1 | 2 |\n| 3 | 4 |"))
    assert strict == 0
    assert near > 0.9
    # An escaped pipe is no border, and a tag for a line break is a space.
    assert pipes("| a \\| b | c<br>d |\n|---|---|\n| 1 | 2 |")[0] == ["a | b", "c d"]
    assert read_output("a | b\n--- | ---\n1 | 2\n\nText").tables[0].grid == [["a", "b"], ["1", "2"]]
    # A missing row: three of five cells of both sides on average.
    assert strict_cells(grid, right[:2]) == f1(4, 6, 4)

    span = [
        {"row": 0, "column": 0, "rows": 2, "columns": 1, "text": "Site"}, {"row": 0, "column": 1, "rows": 1, "columns": 2, "text": "Planned"},
        {"row": 1, "column": 1, "rows": 1, "columns": 1, "text": "Units"}, {"row": 1, "column": 2, "rows": 1, "columns": 1, "text": "Share"},
        {"row": 2, "column": 0, "rows": 2, "columns": 1, "text": "Kendal"}, {"row": 2, "column": 1, "rows": 1, "columns": 1, "text": "5"},
        {"row": 2, "column": 2, "rows": 1, "columns": 1, "text": "6 %"}, {"row": 3, "column": 1, "rows": 1, "columns": 1, "text": "7"},
        {"row": 3, "column": 2, "rows": 1, "columns": 1, "text": "8 %"},
    ]  # fmt: skip
    merged = true_grid(span)
    filled = [["Site", "Planned", "Planned"], ["Site", "Units", "Share"], ["Kendal", "5", "6 %"], ["Kendal", "7", "8 %"]]
    first = [["Site", "Planned", ""], ["", "Units", "Share"], ["Kendal", "5", "6 %"], ["", "7", "8 %"]]
    joined = [["Site", "Planned / Units", "Planned / Share"], ["Kendal", "5", "6 %"], ["", "7", "8 %"]]
    for found in (filled, first, joined):
        assert table_score(merged, 2, found) == (1, 1), found
    # The second row of a merged cell is not given for nothing.
    assert strict_cells(merged, [["Site", "Planned", ""], ["", "Units", "Share"], ["", "5", "6 %"], ["", "7", "8 %"]]) < 1
    table = '<table><tr><th rowspan="2">Site</th><th colspan=2>Planned</th></tr><tr><td>Units<td>Share</tr><tr><td rowspan=2>Kendal<td>5<td>6 %</tr>'
    found = read_output(f"Before\n{table}<tr><td>7<td>8&nbsp;%</table>\nAfter")
    assert found.tables[0].grid == filled
    assert list(filter(None, found.lines({0}))) == ["Before", "After"]

    # Two tables are matched each with its own, whatever their order.
    scores = match_tables([(merged, 2), (grid, 1)], [right, first, [["x", "y"]]])
    assert (scores.matches, scores.strict, scores.extra) == ([1, 0], [1, 1], 1)
    # Another spelling of a value counts.
    date = true_grid([{"row": 0, "column": 0, "rows": 1, "columns": 1, "text": "05.03.2024", "also": ["2024-03-05"]}])
    assert strict_cells(date, [["2024-03-05"]]) == 1

    blocks = ["One two three four five six.", "Seven eight nine ten eleven twelve.", "Red green blue white black grey."]
    assert order_error(blocks, ["1. One two three four", "five six.", *blocks[1:]]) == 0
    assert order_error(blocks, [blocks[2], blocks[0], blocks[1]]) > 0.3
    assert block_order(blocks, [blocks[2], blocks[0], blocks[1]]) == (1, -1 / 3)
    assert block_order(blocks, blocks) == (1, 1)
    assert relevant_lines(["Red green", "Kendal 5 6 %"], blocks, ["Kendal 5 6 % 7"]) == ["Red green"]
    notes = ["Eight nine ten, as eleven and four twelve."]
    assert relevant_lines(["> 1 Eight nine ten, as eleven", "and four", blocks[1]], [*blocks, "and as"], notes) == ["and four", blocks[1]]
    assert text_words(["- 1) one", "2.", "> a) two"]) == ["one", "two"]
    assert normalize("main-\ntenance of the part-time\nstaff[^1]") == "maintenance of the part-time staff"
    assert character_error("abcd", "abed") == 0.25
    assert character_error("a", "many more characters") == 1
    assert word_f1("a b c", "c b a") == 1
    assert compare_headings([(1, "Title"), (2, "Part one")], [(2, "Title"), (3, "Part one"), (3, "Table 1")]) == (0.8, 1)
    output = read_output("# Title\nWater supply 3\nThe 3 of us\n\fText\n4\n")
    assert output.headings == [(1, "Title")]
    running = [{"page": 1, "text": "Water supply"}, {"page": 1, "text": "3"}, {"page": 2, "text": "Water supply"}, {"page": 2, "text": "4"}]
    assert running_left(running, output) == 0.75
    assert joined_words(["maintenance"], ["maintenance is maintenance"], ["main- tenance is maintenance"]) == 0
    assert joined_words(["maintenance"], ["maintenance is maintenance"], ["maintenance is maintenance."]) == 1
    # A page of ten thousand words takes no minute.
    many = " ".join(f"w{i % 977}" for i in range(10_000))
    assert character_error(many, many[5:]) < 0.001
    print("measures: all tests pass")


if __name__ == "__main__":
    selftest()
