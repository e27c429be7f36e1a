"""Words, sentences, numbers and names that the test documents are made of, in English and German.

Long words carry soft hyphens (U+00AD) where they may be divided; `plain` removes them.
"""

from __future__ import annotations

import re
from random import Random

SOFT_HYPHEN = "\u00ad"


def listed(text: str) -> list[str]:
    """Words divided by spaces; `|` marks a place for a hyphen, `_` a space inside a name."""
    return [word.replace("|", SOFT_HYPHEN).replace("_", " ") for word in text.split()]


def plain(text: str) -> str:
    """The text without soft hyphens."""
    return text.replace(SOFT_HYPHEN, "")


WORDS = {
    "en": {
        "noun": listed(
            "main|te|nance in|spec|tion pump valve tur|bine res|er|voir pipe|line cat|a|logue har|bour ware|house work|shop con|tract "
            "in|voice de|liv|ery sup|pli|er cus|tom|er meas|ure|ment tem|per|a|ture pres|sure lab|o|ra|tory sam|ple sur|vey com|mit|tee "
            "ad|min|is|tra|tion de|part|ment de|ci|sion re|port bal|ance budget trans|for|ma|tion in|stal|la|tion bridge tun|nel rail|way "
            "sta|tion time|ta|ble pas|sen|ger freight green|house har|vest orchard irri|ga|tion fer|til|izer ex|per|i|ment ob|ser|va|tion "
            "tele|scope in|stru|ment cal|i|bra|tion doc|u|men|ta|tion train|ing ap|pren|tice in|sur|ance reg|u|la|tion cer|tif|i|cate"
        ),
        "adjective": listed(
            "annual quar|ter|ly north|ern south|ern pro|vi|sional ad|di|tional re|li|able ex|pen|sive tech|ni|cal mu|nic|i|pal in|de|pen|dent "
            "com|plete narrow recent ear|li|er reg|u|lar un|ex|pected in|ter|na|tional ex|ter|nal ex|per|i|men|tal pre|ven|tive long-term "
            "well-known part-time sea|sonal mod|ern his|tor|i|cal sub|stan|tial mod|er|ate"
        ),
        "verb": listed(
            "im|proved re|placed ex|ceeded con|firmed re|duced sup|ported de|layed ap|proved re|viewed doc|u|mented in|spected ex|tended "
            "fi|nanced sim|pli|fied com|pared in|ter|rupted pre|pared re|jected"
        ),
        "adverb": listed("after|wards grad|u|al|ly in|de|pen|dently con|sid|er|ably in|i|tially again un|for|tu|nate|ly im|me|di|ately"),
        "unit": listed("hours kilo|metres tonnes visitors mega|watt|hours litres em|ploy|ees cubic_metres samples"),
        "month": listed("January February March April May June July August September October November December"),
        "place": listed("Ashford Brackley Corwen Dunmore Elgin Fairhaven Grantham Holyhead Inverness Kendal Ludlow Moreton Northwick Oakham Penrith"),
        "person": listed(
            "Alice_Morgan Daniel_Okafor Ruth_Bennett Samuel_Price Helen_Novak Peter_Lindqvist Grace_Adeyemi Thomas_Whitlock Irene_Castellano "
            "Victor_Hale Noor_Rahman Margaret_Doyle Oliver_Tamm Beatrix_Sousa"
        ),
        "item": listed(
            "Bearing_housing Safety_valve Control_cabinet Water_meter Cable_drum Filter_cartridge Drive_belt Ladder_rack Heat_exchanger "
            "Signal_lamp Hydraulic_hose Mounting_kit Spare_key Glass_panel Roof_bracket Pump_seal Flow_sensor Gear_box Oil_cooler Test_probe"
        ),
        "state": listed("open closed planned delayed approved rejected shipped returned active paused"),
        "topic": listed(
            "Water_supply Road_works Energy_use School_meals Field_trials Library_loans Ferry_traffic Staff_training Waste_collection "
            "Housing_repairs Forest_survey Museum_visits Harbour_dues Tram_extension Clinic_capacity Seed_storage"
        ),
        "heading": listed(
            "Summary Background Methods Findings Costs Schedule Open_questions Recommendations Scope Responsibilities Material Results "
            "Next_steps Risks Conclusion Terms"
        ),
    },
    "de": {
        "noun": listed(
            "War|tung Prü|fung Pum|pe Rohr|lei|tung Spei|cher|be|cken La|ger|hal|le Werk|statt Rech|nung Lie|fe|rung Kun|din Mes|sung "
            "Tem|pe|ra|tur Stich|pro|be Er|he|bung Ver|wal|tung Ab|tei|lung Ent|schei|dung Haus|halts|pla|nung Um|ge|stal|tung Brü|cke "
            "Hal|te|stel|le Ge|wächs|haus|tech|nik Be|wäs|se|rung Ver|suchs|an|ord|nung Be|ob|ach|tung Ka|li|brie|rung Aus|bil|dung "
            "Ver|si|che|rung Ver|ord|nung Be|schei|ni|gung Über|prü|fung Grün|flä|che Lösch|was|ser|ver|sor|gung"
        ),
        "adjective": listed(
            "jähr|liche vier|tel|jähr|liche nörd|liche süd|liche vor|läu|fige zu|sätz|liche zu|ver|läs|sige tech|ni|sche städ|ti|sche "
            "un|ab|hän|gige voll|stän|dige re|gel|mä|ßige un|er|war|te|te ex|ter|ne vor|beu|gen|de lang|fris|ti|ge größ|te"
        ),
        "verb": listed("ver|bes|ser|te er|setz|te über|traf be|stä|tig|te ver|rin|ger|te un|ter|stütz|te ver|zö|ger|te ge|neh|mig|te prüf|te er|gänz|te"),
        "adverb": listed("an|schlie|ßend all|mäh|lich un|ab|hän|gig er|heb|lich zu|nächst er|neut lei|der un|ver|züg|lich"),
        "unit": listed("Stunden Kilo|me|ter Tonnen Be|su|cher Mega|watt|stun|den Liter Be|schäf|tig|te Kubik|me|ter Proben"),
        "month": listed("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
        "place": listed("Aalen Bückeburg Coswig Dürmentingen Eßlingen Füssen Göttingen Höxter Jülich Köthen Lübeck Münster Nördlingen Öhringen Plön"),
        "person": listed(
            "Jürgen_Möller Käthe_Schröder Anja_Weiß Björn_Großmann Sören_Krüger Heike_Bäumler Rüdiger_Voß Ursula_Jäger Lukas_Thoma "
            "Grete_Hörmann Emil_Süß Dörte_Lange"
        ),
        "item": listed(
            "Lagergehäuse Sicherheitsventil Schaltschrank Wasserzähler Kabeltrommel Filtereinsatz Antriebsriemen Wärmetauscher Meldeleuchte "
            "Hydraulikschlauch Befestigungssatz Ersatzschlüssel Glasscheibe Dachhalter Pumpendichtung Durchflussfühler Getriebe Ölkühler"
        ),
        "state": listed("offen erledigt geplant verzögert genehmigt abgelehnt versandt zurück gültig ruht"),
        "topic": listed(
            "Wasserversorgung Straßenbau Energieverbrauch Schulverpflegung Feldversuche Büchereiausleihe Fährverkehr Fortbildung Müllabfuhr "
            "Gebäudepflege Waldzählung Museumsbesuche Hafengebühren Klinikplätze"
        ),
        "heading": listed(
            "Überblick Hintergrund Vorgehen Ergebnisse Kosten Zeitplan Offene_Fragen Empfehlungen Geltungsbereich Zuständigkeit Material "
            "Nächste_Schritte Risiken Schluss"
        ),
    },
}  # fmt: skip

SENTENCES = {
    "en": [
        "The {adjective} {noun} of {place} {verb} the {noun} in {month} {year}.",
        "In {place}, the {adjective} {noun} {adverb} {verb} {number} {unit}.",
        "{person} {verb} the {noun} after the {adjective} {noun} had {verb} the {adjective} {noun}.",
        "About {percent} of the {noun} came from the {adjective} {noun} near {place}.",
        "The {noun} {verb} the {noun}, and the {adjective} {noun} {adverb} {verb} the {noun}.",
        "Since {month} {year}, every {noun} needs a {adjective} {noun} and a {adjective} {noun}.",
        "A {adjective} {noun} costs {currency}, which is more than the {noun} of {year}.",
        "According to {person}, the {noun} {verb} the {adjective} {noun} twice before {date}.",
        "Neither the {noun} nor the {adjective} {noun} {verb} the {noun} of {place}.",
        "The {noun} between {place} and {place} {verb} {number} {unit} per week.",
    ],
    "de": [
        "Die {adjective} {noun} in {place} {verb} die {noun} im {month} {year}.",
        "In {place} {verb} die {adjective} {noun} {adverb} {number} {unit}.",
        "{person} {verb} die {noun}, nachdem die {adjective} {noun} fertig war.",
        "Etwa {percent} der Mittel flossen in die {adjective} {noun} bei {place}.",
        "Die {noun} {verb} die {noun}, und die {adjective} {noun} {verb} {adverb} die {noun}.",
        "Seit {month} {year} braucht jede {noun} eine {adjective} {noun}.",
        "Die {adjective} {noun} kostet {currency} und damit mehr als die {noun} von {year}.",
        "Laut {person} {verb} die {noun} die {adjective} {noun} schon vor dem {date}.",
        "Die {noun} zwischen {place} und {place} {verb} wöchentlich {number} {unit}.",
    ],
}


# Notes in cells and items of lists.
PHRASES = {
    "en": [
        "{adjective} {noun} near {place}",
        "{noun} and {adjective} {noun}",
        "{noun} checked by {person}",
        "{number} {unit} until {month}",
        "no {noun} without a {adjective} {noun}",
        "{adjective} {noun}, {percent} of the {noun}",
    ],
    "de": [
        "{adjective} {noun} bei {place}",
        "{noun} und {adjective} {noun}",
        "{noun}, geprüft von {person}",
        "{number} {unit} bis {month}",
        "keine {noun} ohne {adjective} {noun}",
        "{adjective} {noun}, {percent} der {noun}",
    ],
}


class Writer:
    """Draws words, numbers and sentences of one language."""

    def __init__(self, random: Random, language: str):
        self.random, self.language = random, language
        self.lists = WORDS[language]

    def word(self, kind: str) -> str:
        return self.random.choice(self.lists[kind])

    def words(self, kind: str, count: int) -> list[str]:
        """`count` different words, without soft hyphens."""
        return [plain(word) for word in self.random.sample(self.lists[kind], count)]

    def number(self, low: int = 2, high: int = 9999) -> str:
        text = f"{self.random.randint(low, high):,}"
        return text if self.language == "en" else text.replace(",", ".")

    def decimal(self, low: float = 0, high: float = 2000, digits: int | None = None) -> str:
        digits = self.random.choice([1, 2, 2, 3]) if digits is None else digits
        text = f"{self.random.uniform(low, high):,.{digits}f}"
        return text if self.language == "en" else text.translate(str.maketrans(",.", ".,"))

    def currency(self) -> str:
        amount = self.decimal(3, 9000, 2)
        return f"{amount} €" if self.language == "de" else self.random.choice("$£") + amount

    def percent(self) -> str:
        text = self.decimal(0.5, 99, 1)
        return f"{text} %" if self.language == "de" else f"{text}%"

    def year(self) -> str:
        return str(self.random.randint(2009, 2025))

    def date(self, style: int | None = None) -> str:
        day, month, year = self.random.randint(1, 28), self.random.randint(1, 12), self.random.randint(2012, 2025)
        style = self.random.randrange(2) if style is None else style
        if self.language == "de":
            return f"{day:02}.{month:02}.{year}" if style == 0 else f"{day}. {self.lists['month'][month - 1]} {year}"
        return f"{year}-{month:02}-{day:02}" if style == 0 else f"{day} {self.lists['month'][month - 1]} {year}"

    def code(self) -> str:
        letters = "".join(self.random.choice("ABCDEFGHKLMNPRSTUVWXYZ") for _ in range(2))
        return f"{letters}-{self.random.randint(1000, 9999)}"

    def fill(self, template: str) -> str:
        """The template with a new word for each slot."""
        text = ""
        for part in template.split("{"):
            slot, _, rest = part.partition("}") if "}" in part else ("", "", part)
            if slot in ("number", "currency", "percent", "year", "date"):
                text += getattr(self, slot)()
            elif slot:
                text += self.word(slot)
            text += rest
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text) if self.language == "en" else text

    def sentence(self) -> str:
        return self.fill(self.random.choice(SENTENCES[self.language]))

    def paragraph(self, low: int = 2, high: int = 5) -> str:
        return " ".join(self.sentence() for _ in range(self.random.randint(low, high)))

    def phrase(self, parts: int = 1) -> str:
        """A note of `parts` noun phrases, for cells and items of lists, with soft hyphens."""
        text = "; ".join(self.fill(template) for template in self.random.sample(PHRASES[self.language], parts))
        return text[0].upper() + text[1:]

    def title(self) -> str:
        if self.language == "de":
            return f"{plain(self.word('topic'))} {plain(self.word('place'))} {self.year()}"
        return f"{plain(self.word('topic'))} in {plain(self.word('place'))}, {self.year()}"

    def headings(self, count: int) -> list[str]:
        return self.words("heading", count)
