"""The documents that both sides chunk and search: generated ones that are hard
to cut, and real ones that are the same on every machine.

The real ones are what pip installed with the pinned packages (descriptions,
licences, source code), the demo's manuals where they are, and a folder of the
user's own if one is given.
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chunks"))
import compare  # noqa: E402, the reader of folders in benches/chunks

LONGEST = 12_000

WORDS = """retrieval passage index the of and a to in vector token sentence model answer question score engine filter pump
reader manual page light value system oil change file bridge winter garden copper lens signal harvest narrow bright
running runs ran generously nationalities relational vietnamization hopefulness goodness skies dying lying news inning
outing cannings herring earring proceed exceed succeed arsenal gently early only singly universe university organization
policies police operator operations hoping hopping falling failing controlling control agreed feed bled plastered
motoring sing conflated troubled sized tanned fizzed cats ponies caress ties conditional rational valency digitizer
conformably radically differently vilely analogously operator feudalism decisiveness callousness formality sensitivity
triplicate formative electrical revival allowance inference airliner gyroscopic adjustable defensible irritant
replacement adjustment dependent adoption communism activate angularity homologous effective bowdlerize probate rate
cease controller roll U.S. e.g. i.e. Dr. Mr. No. Fig. vs. etc. approx. Inc. 3.14 1,000 42 v2.0 x1 C++ C# .NET node.js
don't can't it's naïve café Größe straße über Ελλάδα Σίσυφος МОСКВА привет İstanbul ﬁnal ǅ ß ſ""".split()

RARE = """你好，世界。这是一个句子！是吗？检索增强生成 東京タワーは高い。日本語の文章です！ 한국어 문장입니다. หนึ่งสองสาม
हिन्दी में एक वाक्य। किताबें पढ़ना عَرَبِيّ نص عربي طويل؟ שלום עולם ไม่มีช่องว่าง 👩‍👩‍👧‍👦 🇩🇪 👍🏽 é ñ Å Ω ﷽ 𝒳𝒴𝒵 𠜎𠜱 ¿Qué? ¡Olé! «guillemets»
„Anführung“ “curly” ‘single’ — – … · • § ½ ² ™ <|endoftext|> <|fim_prefix|> </s> [INST] {{x}} \\n $x^2$ http://a.b/c?d=e&f#g
foo_bar __init__ a.b.c() x[0] /usr/share/doc/x-1.2.3 user@example.org 2024-01-31T12:00:00Z 192.168.0.1 0xDEADBEEF""".split()

BLANK = [" ", "  ", "\t", "\n", "\n\n", "\n\n\n", "\n\n\n\n\n", "\r\n", "\r\n\r\n", "\u00a0", "\u2003", "\u200b", "\u2028", "\x0b",
         "\x0c", "\x1c", "\x1f", "\x85", "\ufeff", "\u3000", " \n \n \n "]  # fmt: skip
ENDS = [".", "!", "?", "...", "?!", "。", "！", "？", ";", ":", '."', ".)", "!'", ".]", ".”", ". . .", "!?.!?.", ""]

CODE = '''def read(path):
    """Reads a file. Returns its text; fails loudly."""
    with open(path) as file:  # e.g. a.txt
        return file.read().strip()

class Reader:
    SIZES = {"a": 1, "b": [2, 3.5], "c": None}

    def each(self): yield from (x ** 2 for x in range(10) if x % 2 == 0)
'''
TABLE = """| name | size (MB) | licence |
|------|----------:|---------|
| a.b  | 1.5       | MIT     |
| c, d | 22,000.0  | Apache-2.0; see NOTICE. |
"""
LIST = """1. First item. It has two sentences.
2. Second item
   - nested, with a comma
   - nested. Ends.
a) Letter; b) letter. J. R. R. Tolkien wrote it.
"""


def prose(draw, n_sentences, blanks=(" ",), ends=(".",), words=WORDS):
    parts = []
    for _ in range(n_sentences):
        parts.append(" ".join(draw.choice(words) for _ in range(draw.randint(1, 28))))
        parts.append(draw.choice(ends) + draw.choice(blanks))
    return "".join(parts)


def generated():
    """Pairs of a name and a text; equal in every run."""
    draw = random.Random(20)
    for i, text in enumerate(["", " ", "\n\n\n", "\t\u00a0\n", ".", "?", "...", "!?.!?." * 40, "a", "é", "\x00", "\ufeff", "。",
                              "One. Two.", " One.  Two. ", "One.\n\n\nTwo.\n\n\n\n\n\nThree."]):  # fmt: skip
        yield f"small/{i}", text
    for i in range(24):
        yield (
            f"prose/{i}",
            prose(draw, draw.choice([3, 20, 60, 120]), [" ", " ", "\n", "\n\n", "\n\n\n"], [".", ".", "?", "!"]),
        )
    for i in range(24):
        yield f"blanks/{i}", prose(draw, draw.choice([10, 40, 80]), BLANK, ENDS)
    for i in range(24):
        yield f"scripts/{i}", prose(draw, draw.choice([5, 40, 100]), [" ", "", "\n"], ENDS, WORDS[:20] + RARE * 2)
    for i in range(8):
        yield (
            f"no-spaces/{i}",
            "".join(draw.choice(["漢", "字", "和", "한", "ก", "a", "Z", "😀", "é"]) for _ in range(900 * (i + 1))),
        )
    for i in range(8):
        characters = "abcdefghijklmnop" if i % 2 else "ABCxyz0123456789-_/"
        long = ["".join(draw.choice(characters) for _ in range(draw.choice([50, 400, 3000]))) for _ in range(6)]
        yield f"long-words/{i}", (" " if i % 3 else ", ").join(long) + "."
    for i in range(16):
        parts = [
            CODE,
            TABLE,
            LIST,
            "```python\n" + CODE + "```\n",
            "# Heading\n\n",
            prose(draw, 6),
            "\n\n\n",
            "> quoted. text\n",
            "---\n",
        ]
        yield f"mixed/{i}", "".join(draw.choice(parts) for _ in range(draw.randint(4, 24)))
    for i in range(8):
        yield f"clauses/{i}", ", ".join(draw.choice(WORDS[:60]) for _ in range(700)) + draw.choice(["; ", ". ", ""])
    for i in range(8):
        alphabet = [chr(draw.choice([draw.randint(1, 0x2FF), draw.randint(0x300, 0xD7FF), draw.randint(0x1F300, 0x1F9FF)]))
                    for _ in range(60)]  # fmt: skip
        yield f"characters/{i}", "".join(draw.choice([*alphabet, " ", ". ", "\n"]) for _ in range(2500))
    for i in range(4):
        # The same text in two documents, and the same paragraph again and again.
        yield f"twice/{i}/a", (text := prose(draw, 30))
        yield f"twice/{i}/b", text
        yield f"again/{i}", "\n\n\n".join([prose(draw, 3)] * 20)


def real(folder=None):
    """Pairs of a name and a text, each text once, the ends of long ones cut off."""
    packages = Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    paths = [*packages.glob("*.dist-info/METADATA"), *packages.glob("*.dist-info/licenses/**/*")]
    paths += [*packages.glob("llama_index/core/node_parser/**/*.py"), *packages.glob("ragas/**/*.md")]
    paths += [path for path in packages.glob("nltk/*.py") if path.stat().st_size > 20_000]
    known = set()
    found = [
        (str(path.relative_to(packages)), path.read_bytes().decode(errors="replace"))
        for path in sorted(paths)
        if path.is_file()
    ]
    for other in [*folder] if folder else []:
        found += list(compare.texts(other))
    for name, text in found:
        if text not in known:
            known.add(text)
            yield f"real/{name}", text[:LONGEST]


def documents(folders=()):
    """Names and texts; a name stands once."""
    texts = dict(generated())
    for name, text in real(folders):
        while name in texts:
            name += "'"
        texts[name] = text
    return texts
