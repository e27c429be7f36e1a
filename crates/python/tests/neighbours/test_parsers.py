"""The scripts of `examples/parsers` whose programs run without models from a hub."""

from __future__ import annotations

import shutil
import sys

import pytest
from conftest import trial
from workspace import ROOT

ROWS = [["bird", "weighs", "eats"], ["barn owl", "550 g", "four mice"], ["eagle owl", "2400 g", "a hare"]]
QUESTION = "What does the eagle owl eat?"
TESSERACT = pytest.mark.skipif(not (shutil.which("tesseract") and shutil.which("pdftoppm")), reason="tesseract and pdftoppm are not installed")


def table() -> bytes:
    """A PDF of one page with a table, drawn with lines."""
    words = "".join(f"BT /F 12 Tf {62 + 120 * x} {706 - 24 * y} Td ({word}) Tj ET\n" for y, row in enumerate(ROWS) for x, word in enumerate(row))
    level = "".join(f"56 {722 - 24 * y} m 416 {722 - 24 * y} l S\n" for y in range(4))
    upright = "".join(f"{56 + 120 * x} 722 m {56 + 120 * x} 650 l S\n" for x in range(4))
    content = words + level + upright
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        f"<</Length {len(content)}>>stream\n{content}endstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body = "".join(f"{number} 0 obj{value}endobj\n" for number, value in enumerate(objects, 1))
    return f"%PDF-1.4\n{body}trailer<</Root 1 0 R>>\n%%EOF\n".encode()


@pytest.mark.parametrize(
    ("program", "script"),
    [(sys.executable, "by_pymupdf4llm.py"), pytest.param("sh", "by_tesseract.sh", marks=TESSERACT)],
)
def test_a_table_is_found_that_the_script_has_read(small, program, script):
    (small.folder / "docs" / "owls.pdf").write_bytes(table())
    command = {"program": program, "args": [str(ROOT / "examples" / "parsers" / script), "{file}"], "version": "1"}
    space = {
        "parse": [{"pdf": {"command": command}, "default": "text"}],
        "chunker": [{"sentence": {"chunk_size": 64, "chunk_overlap": 0}}],
        "retriever": [{"bm25": {"top_k": 1}}],
    }
    experiment = trial(small, space=space, models={}, evaluate={"metrics": ["recall"], "objective": ["recall"]})
    experiment.run(progress=False)
    (passage,) = experiment.pipeline().retrieve(QUESTION)
    assert passage.document == "owls.pdf"
    for word in ("eagle owl", "2400 g", "a hare"):
        assert word in passage.text.replace("\n", " ")
