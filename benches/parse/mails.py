"""Mails: EML and MBOX with plain and HTML bodies, attachments, nested messages, quoted replies, encoded headers."""

from __future__ import annotations

import datetime
import email.policy
import html
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from random import Random

from words import Writer, plain

MOMENT = datetime.datetime(2024, 3, 5, 9, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
GREETING = {"en": ("Dear {name},", "Kind regards"), "de": ("Guten Tag, {name},", "Viele Grüße")}
QUOTE = {"en": "On {date}, {name} wrote:", "de": "Am {date} schrieb {name}:"}


@dataclass
class Letter:
    """What a mail says: the blocks of its body, and the blocks that it quotes."""

    sender: str
    receiver: str
    subject: str
    body: list[str]
    quoted: list[str] = field(default_factory=list)
    number: int = 1

    def truth(self, attachments: list[dict]) -> dict:
        return {
            "from": self.sender, "to": self.receiver, "subject": self.subject, "date": self.date.strftime("%Y-%m-%d"),
            "body": self.body, "quoted": self.quoted, "attachments": attachments,
        }  # fmt: skip

    @property
    def date(self) -> datetime.datetime:
        return MOMENT + datetime.timedelta(days=self.number)


def address(name: str) -> str:
    ascii_name = name.translate(str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ü": "Ue"}))
    return f"{ascii_name.lower().replace(' ', '.')}@example.org"


def letter(writer: Writer, number: int, quotes: bool = False) -> Letter:
    sender, receiver = writer.words("person", 2)
    greeting, regards = GREETING[writer.language]
    body = [greeting.format(name=receiver), *(plain(writer.paragraph(1, 3)) for _ in range(2)), regards, sender]
    made = Letter(sender, receiver, f"{writer.title()}: {plain(writer.word('noun'))}", body, number=number)
    if quotes:
        date = (made.date - datetime.timedelta(days=1)).strftime("%Y-%m-%d")
        body.append(QUOTE[writer.language].format(date=date, name=receiver))
        made.quoted = [plain(writer.paragraph(1, 2)) for _ in range(2)]
    return made


def plain_body(made: Letter) -> str:
    quoted = "\n>\n".join("\n".join(f"> {line}" for line in folded(block)) for block in made.quoted)
    return "\n\n".join(["\n".join(folded(block)) for block in made.body] + ([quoted] if quoted else [])) + "\n"


def folded(block: str, width: int = 72) -> list[str]:
    lines, line = [], ""
    for word in block.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]


def html_body(made: Letter) -> str:
    quoted = "".join(f"<p>{html.escape(block)}</p>" for block in made.quoted)
    quote = f"<blockquote>{quoted}</blockquote>" if quoted else ""
    return "<html><body>" + "".join(f"<p>{html.escape(block)}</p>" for block in made.body) + f"{quote}</body></html>"


def message(made: Letter, kind: str, encoding: str = "quoted-printable", charset: str = "utf-8") -> EmailMessage:
    mail = EmailMessage(policy=email.policy.SMTP)
    mail["From"] = f"{made.sender} <{address(made.sender)}>"
    mail["To"] = f"{made.receiver} <{address(made.receiver)}>"
    mail["Subject"] = made.subject
    mail["Date"] = format_datetime(made.date)
    mail["Message-ID"] = f"<{made.number}@example.org>"
    if kind == "html":
        mail.set_content(html_body(made), subtype="html", cte=encoding, charset=charset)
    else:
        mail.set_content(plain_body(made), cte=encoding, charset=charset)
        if kind == "alternative":
            mail.add_alternative(html_body(made), subtype="html", cte=encoding, charset=charset)
    return mail


def attach(mail: EmailMessage, folder: Path, files: list[str]) -> list[dict]:
    """Attaches files of the set, and gives what the truth says of them."""
    for file in files:
        kind = {".pdf": ("application", "pdf"), ".csv": ("text", "csv")}[Path(file).suffix]
        mail.add_attachment((folder / file).read_bytes(), maintype=kind[0], subtype=kind[1], filename=Path(file).name)
    return [{"name": Path(file).name, "file": file} for file in files]


def with_fixed_boundaries(mail: EmailMessage) -> bytes:
    """The bytes of a mail, whose boundaries are numbered and not drawn by chance."""
    for i, part in enumerate(mail.walk()):
        if part.is_multipart() and part.get_content_type() != "message/rfc822":
            part.set_boundary(f"=== part {i} ===")
    return mail.as_bytes()


def write(folder: Path, seed: int) -> list[dict]:
    (folder / "mail").mkdir(exist_ok=True)
    truths = []

    def keep(name: str, kind: str, language: str, content: bytes, messages: list[dict]) -> None:
        (folder / "mail" / name).write_bytes(content)
        # What is quoted stands below the body.
        order = [block for one in messages for block in [*one["body"], *one["quoted"]]]
        truths.append({"file": f"mail/{name}", "part": "mail", "kind": kind, "language": language, "format": name.rsplit(".", 1)[1], "pages": 1,
                       "messages": messages, "reading_order": order, "tables": [], "headings": [], "running": [], "footnotes": []})  # fmt: skip

    simple = [("plain", "en", "7bit", "utf-8", False), ("html", "de", "quoted-printable", "utf-8", False), ("alternative", "en", "base64", "utf-8", False),
              ("plain", "de", "quoted-printable", "iso-8859-1", False), ("plain", "de", "base64", "utf-8", True),
              ("alternative", "de", "quoted-printable", "iso-8859-1", True)]  # fmt: skip
    for number, (kind, language, encoding, charset, quotes) in enumerate(simple, 1):
        made = letter(Writer(Random(f"{seed} mail {number}"), language), number, quotes)
        if charset != "utf-8" or encoding == "7bit":
            # These encodings have no sign for the euro, and seven bits no sign for the pound.
            made.body = [block.replace("€", "EUR").replace("£", "$") for block in made.body]
            made.quoted = [block.replace("€", "EUR").replace("£", "$") for block in made.quoted]
        keep(f"{number}-{kind}.eml", "reply" if quotes else kind, language, with_fixed_boundaries(message(made, kind, encoding, charset)), [made.truth([])])

    made = letter(Writer(Random(f"{seed} attached"), "de"), 7)
    mail = message(made, "alternative")
    attachments = attach(mail, folder, ["pdf/ruled-1.pdf", "sheet/semicolon-1252.csv"])
    keep("7-attachments.eml", "attachments", "de", with_fixed_boundaries(mail), [made.truth(attachments)])

    inner = letter(Writer(Random(f"{seed} inner"), "en"), 8)
    outer = letter(Writer(Random(f"{seed} outer"), "en"), 9)
    mail = message(outer, "plain")
    mail.add_attachment(message(inner, "plain"))
    keep("8-nested.eml", "nested", "en", with_fixed_boundaries(mail), [outer.truth([]), inner.truth([])])

    for number, language in [(9, "en"), (10, "de")]:
        content, messages = b"", []
        for i in range(4):
            made = letter(Writer(Random(f"{seed} box {number} {i}"), language), 10 * number + i, quotes=i == 2)
            mail = message(made, ["plain", "html", "plain", "alternative"][i])
            lines = with_fixed_boundaries(mail).replace(b"\r\n", b"\n")
            # Lines that begin with From are escaped in a box.
            lines = b"\n".join(b">" + line if line.startswith(b"From ") else line for line in lines.split(b"\n"))
            content += f"From {address(made.sender)} {made.date.strftime('%a %b %d %H:%M:%S %Y')}\n".encode() + lines + b"\n\n"
            messages.append(made.truth([]))
        keep(f"{number}-box.mbox", "mbox", language, content, messages)
    return truths
