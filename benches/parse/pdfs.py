"""The PDFs of the test set: fifteen kinds of pages, at least five variants of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import forms
from drawing import Style
from fonts import FONTS
from grids import Table, choose_kinds, simple_table, spanned_table, with_gaps
from layout import Layout, Running
from words import Writer, plain

New = Callable[..., Layout]
CAPTION = {"en": "Table {n}: {text}", "de": "Tabelle {n}: {text}"}


def make_caption(layout: Layout, writer: Writer, number: int = 1) -> str:
    return CAPTION[writer.language].format(n=number, text=f"{plain(writer.word('topic'))}, {plain(writer.word('place'))}")


def add_opening(layout: Layout, writer: Writer) -> None:
    layout.add_heading(writer.title(), 1)
    layout.add_paragraph(writer.paragraph())


def make_fitting(layout: Layout, writer: Writer, style: Style, n_columns: int, n_rows: int, width: float = 0, **options) -> Table:
    """A simple table that is no wider than the frame: a try with other columns, then with one column less."""
    for attempt in range(200):
        kinds = choose_kinds(writer.random, max(2, n_columns - attempt // 40))
        table = simple_table(writer, kinds, n_rows, **options)
        if layout.measure(table, style).width <= (width or layout.frame_width):
            return table
    raise ValueError("no table fits")


def draw_ruled(new: New, writer: Writer, variant: int) -> Layout:
    """Full grid, only horizontal rules, booktabs: three of each."""
    layout = new()
    add_opening(layout, writer)
    rules = ["grid", "horizontal", "booktabs"][variant // 3]
    style = Style(rules, shaded_header=variant in (1, 3), size=[9, 8, 10][variant % 3], padding=[5, 4, 6][variant % 3],
                  width=layout.frame_width if variant % 2 else 0, align=["left"] if variant == 2 else [])  # fmt: skip
    if variant != 0:
        layout.add_caption(make_caption(layout, writer))
    layout.add_table(make_fitting(layout, writer, style, 4 + variant % 3, 5 + variant), style, centred=variant % 2 == 0)
    layout.add_paragraph(writer.paragraph())
    if variant % 3 == 2:
        layout.add_heading(writer.headings(1)[0], 2)
        layout.add_table(make_fitting(layout, writer, style, 3, 4), style)
        layout.add_paragraph(writer.paragraph(1, 2))
    return layout


def draw_unruled(new: New, writer: Writer, variant: int) -> Layout:
    """Columns that only gaps divide. One has no header, one stripes, one a frame around it."""
    layout = new()
    add_opening(layout, writer)
    rules = ["none", "none", "none", "zebra", "frame", "none"][variant]
    style = Style(rules, padding=[8, 12, 10, 6, 7, 9][variant], bold_header=variant not in (1, 5), size=[9, 9, 10, 9, 9, 8][variant])
    layout.add_table(make_fitting(layout, writer, style, 4 + variant % 2, 6 + 2 * variant, header=variant != 2), style)
    layout.add_paragraph(writer.paragraph())
    return layout


def draw_spans(new: New, writer: Writer, variant: int) -> Layout:
    """Two header rows, groups over columns, categories over rows."""
    layout = new(landscape=variant == 5)
    add_opening(layout, writer)
    rules = ["grid", "grid", "horizontal", "booktabs", "booktabs", "none"][variant]
    style = Style(rules, size=8.5, padding=5, span_valign=["middle", "top"][variant % 2], shaded_header=variant == 1)
    table = spanned_table(writer, 2 + variant % 2, 2 + variant % 3, 2 if variant != 3 else 1, total=variant % 2 == 0)
    layout.add_caption(make_caption(layout, writer))
    layout.add_table(table, style)
    layout.add_paragraph(writer.paragraph())
    return layout


def draw_long(new: New, writer: Writer, variant: int) -> Layout:
    """Tables over two or three pages; the header is repeated in the first three."""
    running = Running(head=(plain(writer.word("topic")), ""), foot_centre="{n}") if variant in (1, 4) else None
    layout = new(running=running)
    add_opening(layout, writer)
    style = Style(["grid", "booktabs", "none", "grid", "horizontal", "none"][variant], padding=[5, 5, 9, 4, 5, 8][variant])
    # Two to three pages.
    layout.add_table(make_fitting_codes(layout, writer, style, 4 + variant % 2, [62, 90, 55, 75, 50, 100][variant]), style, repeat_header=variant < 3, divided=True)
    layout.add_paragraph(writer.paragraph())
    return layout


def make_fitting_codes(layout: Layout, writer: Writer, style: Style, n_columns: int, n_rows: int) -> Table:
    """A table of many rows that begin with codes, of which there are enough."""
    for attempt in range(200):
        kinds = choose_kinds(writer.random, n_columns, "code")
        table = simple_table(writer, kinds, n_rows)
        if kinds.count("code") == 1 and layout.measure(table, style).width <= layout.frame_width:
            return table
    raise ValueError("no table fits")


def draw_rotated(new: New, writer: Writer, variant: int) -> Layout:
    """Pages that are turned by /Rotate (90, 270, 180), tables that lie on the side of an upright page, upright headers."""
    layout = new(rotation=[90, 270, 180, 0, 0, 0][variant])
    add_opening(layout, writer)
    style = Style(["grid", "booktabs", "none", "grid", "horizontal", "grid"][variant], padding=6)
    if variant < 3:
        layout.add_table(make_fitting(layout, writer, style, 5 + (variant < 2), 8), style)
    elif variant < 5:
        table = make_fitting(layout, writer, style, 6, 9, width=560)
        layout.add_turned_table(table, style, 90 if variant == 3 else 270)
    else:
        style.vertical_header = True
        layout.add_table(simple_table(writer, ["item", "count", "percent", "count", "decimal"], 8), style)
    layout.add_paragraph(writer.paragraph(1, 3))
    return layout


def draw_wrapped(new: New, writer: Writer, variant: int) -> Layout:
    """Cells of several lines."""
    layout = new()
    add_opening(layout, writer)
    style = Style(["grid", "horizontal", "booktabs", "none", "grid"][variant], wrap_at=[130, 150, 140, 150, 90][variant], padding=[5, 5, 5, 8, 4][variant],
                  hyphenate=variant == 4, size=[9, 9, 8.5, 9, 8][variant])  # fmt: skip
    kinds = [["item", "note", "count"], ["code", "note", "date"], ["place", "note", "note"], ["item", "note", "currency"], ["person", "note", "state", "note"]][variant]
    layout.add_table(simple_table(writer, kinds, 5 + variant % 3), style)
    layout.add_paragraph(writer.paragraph())
    return layout


def draw_sparse(new: New, writer: Writer, variant: int) -> Layout:
    """Tables with empty cells."""
    layout = new()
    add_opening(layout, writer)
    style = Style(["grid", "horizontal", "booktabs", "none", "zebra"][variant], padding=[5, 5, 6, 10, 6][variant])
    table = with_gaps(make_fitting(layout, writer, style, 5 + variant % 2, 9), writer.random, [0.2, 0.3, 0.4, 0.3, 0.35][variant])
    layout.add_table(table, style)
    layout.add_paragraph(writer.paragraph())
    return layout


def draw_numbers(new: New, writer: Writer, variant: int) -> Layout:
    """Numbers that end at the right edge, or stand below each other at the decimal mark."""
    layout = new()
    add_opening(layout, writer)
    align = "decimal" if variant in (1, 2, 4) else "right"
    style = Style(["none", "none", "booktabs", "horizontal", "grid"][variant], padding=[9, 10, 6, 5, 5][variant], align=["left", align, align, align, align])
    kinds = [["place", "count", "decimal", "percent"], ["item", "decimal", "decimal", "decimal"], ["place", "decimal", "currency", "decimal"],
             ["item", "currency", "currency", "percent"], ["code", "decimal", "decimal", "decimal", "decimal"]][variant]  # fmt: skip
    table = simple_table(writer, kinds, 8 + variant)
    # Some numbers are below zero.
    for cell in table.cells:
        if cell.row > 0 and kinds[cell.column] in ("decimal", "percent") and writer.random.random() < 0.25:
            cell.text = f"-{cell.text}"
    layout.add_table(table, style)
    layout.add_paragraph(writer.paragraph())
    return layout


def draw_beside(new: New, writer: Writer, variant: int) -> Layout:
    """Two tables side by side."""
    layout = new(landscape=variant == 4)
    add_opening(layout, writer)
    style = Style(["grid", "booktabs", "horizontal", "none", "grid"][variant], size=8, padding=4)
    tables = []
    for number, n_rows in [(1, 6 + variant % 3), (2, 6 + variant % 3 + (variant % 2) * 2)]:
        room = (layout.frame_width - 26) / 2
        tables.append((make_caption(layout, writer, number), make_fitting(layout, writer, style, 3 + (variant == 4), n_rows, width=room)))
    layout.add_tables_beside(tables, style)
    layout.add_paragraph(writer.paragraph())
    return layout


def draw_columns(new: New, writer: Writer, variant: int) -> Layout:
    """Text in two or three columns: with headings, with a title over all of them, with a table in a column or across the page."""
    layout = new(columns=1, size=9.5)
    layout.add_heading(writer.title(), 1)
    if variant != 1:
        layout.add_paragraph(writer.paragraph(2, 3))
    if variant == 4:
        style = Style("grid", size=9)
        layout.add_table(make_fitting(layout, writer, style, 5, 5), style)
    layout.start_columns([2, 2, 3, 2, 3][variant])
    justify, hyphenate = variant in (1, 2), variant in (2, 4)
    for i, heading in enumerate(writer.headings(4 + (variant == 1) * 2)):
        layout.add_heading(heading, 2)
        for _ in range(2 + (i + variant) % 2):
            layout.add_paragraph(writer.paragraph(3, 5), justify=justify, hyphenate=hyphenate)
        if variant == 3 and i == 1:
            style = Style("booktabs", size=8, padding=4)
            layout.add_table(make_fitting(layout, writer, style, 3, 6), style)
    return layout


def draw_running(new: New, writer: Writer, variant: int) -> Layout:
    """Several pages with headers, footers and page numbers, and an outline."""
    topic, place, person = (plain(writer.word(kind)) for kind in ("topic", "place", "person"))
    page = {"en": "Page", "de": "Seite"}[writer.language]
    of = {"en": "of", "de": "von"}[writer.language]
    settings = [
        Running(head=(f"{topic}: {place}", ""), foot_centre="{n}"),
        Running(head=(topic, f"{page} {{n}}"), foot=(person, writer.code()), ruled=True),
        Running(foot=(f"{place}, {writer.date(0)}", f"{page} {{n}} {of} {{total}}"), ruled=True),
        Running(head=(topic, "{n}"), mirrored=True),
        Running(head=(person, place), foot=(f"© {writer.year()} {topic}", "- {n} -")),
    ]
    layout = new(running=settings[variant], outline=True)
    layout.add_heading(writer.title(), 1)
    numbered = variant in (1, 2)
    for i, heading in enumerate(writer.headings(6), 1):
        layout.add_heading(f"{i}. {heading}" if numbered else heading, 2)
        for j in range(3):
            if j == 1 and i % 2:
                sub = plain(writer.word("topic"))
                layout.add_heading(f"{i}.1 {sub}" if numbered else sub, 3)
            layout.add_paragraph(writer.paragraph(4, 7), justify=variant == 3, hyphenate=variant == 3)
        if variant == 4 and i == 2:
            style = Style("horizontal")
            layout.add_table(make_fitting(layout, writer, style, 4, 5), style)
    return layout


def draw_footnotes(new: New, writer: Writer, variant: int) -> Layout:
    """Marks in the text and notes at the foot of the page."""
    layout = new(size=10.5, running=Running(foot_centre="{n}") if variant in (1, 3) else None)
    layout.add_heading(writer.title(), 1)
    for heading in writer.headings(3 + variant % 3):
        layout.add_heading(heading, 2)
        layout.add_paragraph(writer.paragraph(3, 5))
        layout.add_paragraph(writer.paragraph(3, 5), notes=[plain(writer.sentence()) for _ in range(1 + (variant in (2, 4)))])
        if variant > 2:
            layout.add_paragraph(writer.paragraph(2, 4), notes=[f"{plain(writer.word('person'))}: {writer.title()}, {writer.date(1)}"])
    return layout


def draw_hyphens(new: New, writer: Writer, variant: int) -> Layout:
    """Narrow text whose words are divided at the ends of lines."""
    layout = new(size=10)
    layout.add_heading(writer.title(), 1)
    layout.start_columns([2, 3, 2, 3, 2][variant])
    for heading in writer.headings(3):
        layout.add_heading(heading, 2)
        for _ in range(3 if variant in (1, 3) else 2):
            layout.add_paragraph(writer.paragraph(4, 6), hyphenate=True, justify=variant != 2)
    return layout


def draw_lists(new: New, writer: Writer, variant: int) -> Layout:
    """Bulleted and numbered lists, some with a second level."""
    layout = new(outline=variant == 2)
    add_opening(layout, writer)
    for marker, heading in zip([["•", "1."], ["–", "1)"], ["•", "a)"], ["1.", "•"], ["*", "1."]][variant], writer.headings(2)):
        layout.add_heading(heading, 2)
        layout.add_paragraph(writer.paragraph(1, 1))
        texts = []
        for i in range(5):
            texts.append((0, plain(writer.sentence()) if i % 2 else plain(writer.phrase())))
            if i in (1, 3) and variant % 2 == 0 and marker in ("•", "1."):
                texts += [(1, plain(writer.phrase())), (1, plain(writer.sentence()))]
        layout.add_list(texts, marker)
    layout.add_paragraph(writer.paragraph(1, 2))
    return layout


def draw_form(new: New, writer: Writer, variant: int) -> Layout:
    """Forms: labels and values."""
    layout = new()
    layout.add_heading(writer.title(), 1)
    fields = forms.answers(writer)
    layout.add_paragraph(writer.paragraph(1, 2))
    if variant == 0:
        forms.on_lines(layout, fields)
        forms.with_ticks(layout, writer)
    elif variant == 1:
        forms.in_boxes(layout, fields, 2)
        forms.with_ticks(layout, writer)
    elif variant == 2:
        forms.in_boxes(layout, fields[:9], 3)
        forms.on_lines(layout, fields[9:], colon=False)
    elif variant == 3:
        forms.on_lines(layout, fields[:3])
        forms.in_comb(layout, fields[3:6])
        forms.with_ticks(layout, writer)
    else:
        forms.fillable(layout, fields)
    layout.add_paragraph(writer.paragraph(1, 2))
    return layout


KINDS: dict[str, tuple[Callable[[New, Writer, int], Layout], int]] = {
    "ruled": (draw_ruled, 9),
    "unruled": (draw_unruled, 6),
    "spans": (draw_spans, 6),
    "long": (draw_long, 6),
    "rotated": (draw_rotated, 6),
    "wrapped": (draw_wrapped, 5),
    "sparse": (draw_sparse, 5),
    "numbers": (draw_numbers, 5),
    "beside": (draw_beside, 5),
    "columns": (draw_columns, 5),
    "running": (draw_running, 5),
    "footnotes": (draw_footnotes, 5),
    "hyphens": (draw_hyphens, 5),
    "lists": (draw_lists, 5),
    "form": (draw_form, 5),
}


def new_layout(path: Path, defaults: dict, **options) -> Layout:
    return Layout(path, **{**defaults, **options})


def write(folder: Path, seed: int) -> list[dict]:
    """Writes every PDF into `folder`/pdf, and gives the truth of each."""
    (folder / "pdf").mkdir(parents=True, exist_ok=True)
    truths, number = [], 0
    for kind, (build, count) in KINDS.items():
        for variant in range(count):
            name = f"pdf/{kind}-{variant + 1}.pdf"
            language = "de" if number % 3 == 2 else "en"
            font, size = list(FONTS)[number % 3 if number % 5 else 0], [10, 9.5, 11][number % 3]
            number += 1
            options = {"font": font, "size": size}
            # The second time the number of pages is known.
            for _ in range(2):
                writer = Writer(Random(f"{seed} {kind} {variant}"), language)
                layout = build(partial(new_layout, folder / name, options), writer, variant)
                truth = layout.finish()
                options["total"] = truth["pages"]
            truths.append({"file": name, "part": "pdf", "kind": kind, "language": language, "outline": layout.outline, "fields": layout.fields, **truth})
    return truths
