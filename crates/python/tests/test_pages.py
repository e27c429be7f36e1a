"""Mails and pages from Python: attachments are rows of their own, and a page shows where a text stands."""

from __future__ import annotations

import json
import struct
import zlib

import pytest

pyarrow = pytest.importorskip("pyarrow")

import reverie  # noqa: E402

MAIL = (
    b"From: Ada <ada@example.org>\nSubject: Badgers\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n"
    b"Badgers dig setts.\n--b\nContent-Disposition: attachment; filename=setts.csv\n\nsett,badgers\nquarry,17\n--b--\n"
)


def test_a_mail_gives_a_row_for_itself_and_for_each_attachment():
    batch = pyarrow.record_batch({"path": ["a.txt", "inbox/a.eml"], "bytes": [b"Owls hunt.", MAIL]})
    documents, files = reverie.Parser().parse_files(batch)
    assert (documents["path"].to_pylist(), files) == (["a.txt", "inbox/a.eml", "inbox/a.eml/setts.csv"], [0, 1, 1])
    assert json.loads(documents["metadata"].to_pylist()[1])["from"] == "Ada <ada@example.org>"
    assert "| quarry | 17 |" in documents["text"].to_pylist()[2]


def test_the_documents_of_a_folder_are_those_of_its_mails_too(tmp_path):
    (tmp_path / "a.eml").write_bytes(MAIL)
    parsed = reverie.parse(tmp_path)
    assert parsed["path"] == ["a.eml", "a.eml/setts.csv"]


def png(width: int, height: int) -> bytes:
    """A white picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = (b"\0" + b"\xff" * width) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj
4 0 obj<</Length 52>>stream
BT /F 20 Tf 60 400 Td (Barn owls swallow voles) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
trailer<</Root 1 0 R>>
%%EOF
"""


def test_a_page_shows_where_a_text_stands(tmp_path):
    (tmp_path / "owls.pdf").write_bytes(PDF)
    view = reverie.view_page(tmp_path / "owls.pdf", 1, ["swallow voles", "no such words on it"])
    [[left, top, right, bottom]], missing = view.boxes
    assert missing == [] and view.page == 1 and (view.width, view.height) == (917, 1223)
    assert 0.2 < left < right < 0.6 and 0.46 < top < bottom < 0.54
    assert view._repr_png_().startswith(b"\x89PNG") and "png" not in repr(view)


def test_a_picture_is_its_page_and_other_files_have_none(tmp_path):
    (tmp_path / "white.png").write_bytes(png(40, 30))
    view = reverie.view_page(tmp_path / "white.png")
    assert (view.width, view.height, view.boxes, view.lines) == (40, 30, [], [])
    (tmp_path / "a.txt").write_text("words")
    with pytest.raises(ValueError, match="only pages of PDFs and pictures"):
        reverie.view_page(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="cannot be read"):
        reverie.view_page(tmp_path / "missing.pdf")
    (tmp_path / "broken.png").write_bytes(png(40, 30)[:40])
    with pytest.raises(ValueError, match="page 1"):
        reverie.view_page(tmp_path / "broken.png")
