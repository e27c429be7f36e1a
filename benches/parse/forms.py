"""Forms: labels with values on lines, in boxes, in a box for each character, ticked boxes, and fields that can be filled in."""

from __future__ import annotations

from layout import Layout, width_of
from words import Writer, plain

LABELS = {
    "en": ["Name", "Date of birth", "Town", "Order number", "Department", "Telephone", "Amount", "Valid until", "Contact person", "Share of costs"],
    "de": ["Name", "Geburtsdatum", "Wohnort", "Auftragsnummer", "Abteilung", "Telefon", "Betrag", "Gültig bis", "Ansprechperson", "Kostenanteil"],
}
QUESTIONS = {
    "en": [("Insured", ["yes", "no"]), ("Delivery", ["by post", "by courier", "collected"]), ("Contract", ["new", "renewed", "changed"])],
    "de": [("Versichert", ["ja", "nein"]), ("Lieferung", ["per Post", "per Bote", "Abholung"]), ("Vertrag", ["neu", "verlängert", "geändert"])],
}


def answers(writer: Writer) -> list[tuple[str, str]]:
    """A value for each label."""
    telephone = f"0{writer.random.randint(100, 999)} {writer.random.randint(10000, 99999)}"
    person = plain(writer.word("person"))
    other = plain(writer.word("person"))
    values = [person, writer.date(0), plain(writer.word("place")), writer.code(), plain(writer.word("topic")), telephone, writer.currency(),
              writer.date(1), other, writer.percent()]  # fmt: skip
    return list(zip(LABELS[writer.language], values))


def keep(layout: Layout, label: str, value: str, block: str = "") -> None:
    layout.fields[label] = value
    block = block or f"{label}: {value}"
    layout.blocks.append(block)
    layout.keep(block)


def on_lines(layout: Layout, fields: list[tuple[str, str]], label_width: float = 130, colon: bool = True) -> None:
    """Label, then the value on a line, one below the other."""
    canvas = layout.canvas
    for label, value in fields:
        layout.need(layout.leading * 1.6)
        layout.y -= layout.leading * 1.6
        canvas.setFont(layout.regular, layout.size)
        canvas.drawString(layout.x, layout.y + 3, f"{label}:" if colon else label)
        canvas.drawString(layout.x + label_width, layout.y + 3, value)
        canvas.setLineWidth(0.4)
        canvas.line(layout.x + label_width - 4, layout.y, layout.x + layout.frame_width, layout.y)
        keep(layout, label, value, f"{label}: {value}" if colon else f"{label} {value}")
    layout.space(0.8)


def in_boxes(layout: Layout, fields: list[tuple[str, str]], per_row: int = 2, gap: float = 14) -> None:
    """A small label at the top of a box, and the value below it; several boxes in a row."""
    canvas = layout.canvas
    width = (layout.frame_width - gap * (per_row - 1)) / per_row
    height = layout.size * 2.9
    for begin in range(0, len(fields), per_row):
        layout.need(height + 8)
        layout.y -= height + 8
        for i, (label, value) in enumerate(fields[begin : begin + per_row]):
            x = layout.x + i * (width + gap)
            canvas.setLineWidth(0.6)
            canvas.rect(x, layout.y, width, height, stroke=1, fill=0)
            canvas.setFont(layout.regular, layout.size * 0.7)
            canvas.drawString(x + 4, layout.y + height - layout.size * 0.9, label)
            canvas.setFont(layout.regular, layout.size)
            canvas.drawString(x + 6, layout.y + layout.size * 0.6, value)
            keep(layout, label, value, f"{label} {value}")
    layout.space(0.8)


def in_comb(layout: Layout, fields: list[tuple[str, str]], cell: float = 15) -> None:
    """A box for each character of the value. The value is one word to a person."""
    canvas = layout.canvas
    for label, value in fields:
        value = value.replace(" ", "")
        layout.need(cell + 12)
        layout.y -= cell + 8
        canvas.setFont(layout.regular, layout.size)
        canvas.drawString(layout.x, layout.y + 4, f"{label}:")
        x = layout.x + 130
        for character in value:
            canvas.setLineWidth(0.5)
            canvas.rect(x, layout.y, cell, cell, stroke=1, fill=0)
            canvas.drawCentredString(x + cell / 2, layout.y + 4, character)
            x += cell
        keep(layout, label, value)
    layout.space(0.8)


def with_ticks(layout: Layout, writer: Writer) -> None:
    """Questions with boxes, one of which is ticked. Boxes and ticks are drawn, they are not text."""
    canvas = layout.canvas
    for question, options in QUESTIONS[writer.language]:
        ticked = writer.random.randrange(len(options))
        layout.need(layout.leading * 1.6)
        layout.y -= layout.leading * 1.6
        canvas.setFont(layout.regular, layout.size)
        canvas.drawString(layout.x, layout.y + 3, f"{question}:")
        x = layout.x + 130
        for i, option in enumerate(options):
            side = layout.size * 0.85
            canvas.setLineWidth(0.7)
            canvas.rect(x, layout.y + 2.5, side, side, stroke=1, fill=0)
            if i == ticked:
                canvas.line(x, layout.y + 2.5, x + side, layout.y + 2.5 + side)
                canvas.line(x, layout.y + 2.5 + side, x + side, layout.y + 2.5)
            canvas.drawString(x + side + 4, layout.y + 3, option)
            x += side + 4 + width_of(option, layout.regular, layout.size) + 18
        keep(layout, question, options[ticked], f"{question}: {' '.join(options)}")
    layout.space(0.8)


def fillable(layout: Layout, fields: list[tuple[str, str]]) -> None:
    """Fields of a PDF form: the value is kept in the field, not in the page's text."""
    for label, value in fields:
        # reportlab writes such fields in Latin-1, which has no sign for the euro.
        value = " ".join(value.replace("€", " EUR ").split())
        layout.need(layout.leading * 1.9)
        layout.y -= layout.leading * 1.9
        layout.canvas.setFont(layout.regular, layout.size)
        layout.canvas.drawString(layout.x, layout.y + 4, f"{label}:")
        layout.canvas.acroForm.textfield(
            name=label.replace(" ", "_"), value=value, x=layout.x + 130, y=layout.y, width=220, height=layout.leading * 1.4,
            fontName="Helvetica", fontSize=layout.size - 1, borderWidth=0.5, forceBorder=True,
        )  # fmt: skip
        keep(layout, label, value)
    layout.space(0.8)
