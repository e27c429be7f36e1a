"""Places of texts: characters and bytes have their own names, and a wrong unit is no score."""

from __future__ import annotations

import pytest

import reverie
from reverie import golden
from reverie.exceptions import ParseWarning

TEXT = "Über Eulen steht hier viel. Zehn Eulen wohnen in der Mühle am Bach."
QUOTE = "Zehn Eulen wohnen in der Mühle"
START = TEXT.index(QUOTE)
DOCUMENTS = [{"path": "owls.txt", "text": TEXT}]


@pytest.fixture(autouse=True)
def there(tmp_path, monkeypatch):
    """The journal is in the current folder."""
    monkeypatch.chdir(tmp_path)


def scored(place, documents=DOCUMENTS, evidence=None):
    row = {"question": "Who?", "contexts": [{"document": "owls.txt", "text": QUOTE, **place}]}
    row["evidence"] = evidence or [{"document": "owls.txt", "quote": QUOTE}]
    return reverie.evaluate([row], ["recall"], documents=documents, progress=False)["recall"]


def test_characters_and_bytes_give_the_same_score():
    end = START + len(QUOTE)
    first, last = len(TEXT[:START].encode()), len(TEXT[:end].encode())
    assert scored({"start": START, "end": end}) == scored({"span": {"start": START, "end": end}}) == [1.0]
    assert scored({"start_byte": first, "end_byte": last}) == [1.0]
    questions = golden.anchor(
        DOCUMENTS, golden.read([{"question": "Who?", "evidence": [{"document": "owls.txt", "quote": QUOTE}]}])
    ).questions
    evidence = questions.to_arrow()["evidence"].to_pylist()[0]
    assert evidence == [{"document": "owls.txt", "quote": QUOTE, "start_byte": first, "end_byte": last}]
    assert scored({"start_byte": first, "end_byte": last}, None, evidence) == [1.0]


def test_a_wrong_unit_is_an_error_with_its_row():
    end = START + len(QUOTE)
    with pytest.raises(ValueError, match=r"row 0 \(from 0\): `contexts` at 1: .*does not stand at bytes"):
        scored({"start_byte": START, "end_byte": end})
    with pytest.raises(ValueError, match="counts characters"):
        scored({"start_byte": START, "end_byte": end}, None)
    with pytest.raises(ValueError, match="give `documents`"):
        scored({"start": START, "end": end}, None)


def test_files_without_a_document_warn_and_raise_if_there_is_no_other(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.epub").write_bytes(b"no epub")
    with pytest.raises(ValueError, match="no file gave a document\n1 of 1 files"):
        reverie.parse(str(tmp_path / "docs"))
    (tmp_path / "docs" / "b.txt").write_text("text")
    with pytest.warns(ParseWarning, match=r"(?s)1 of 2 files gave no document.*a\.epub"):
        documents = reverie.parse(str(tmp_path / "docs"))
    assert len(documents) == 1 and documents.rejected["path"] == ["a.epub"]


def test_the_index_of_a_filtered_frame_is_no_column():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([{"question": f"q{i}", "reference": "a"} for i in range(4)])
    text = golden.read(frame[frame.index > 1]).to_arrow().to_pylist()
    again = golden.read(frame[frame.index > 1].reset_index(drop=True)).to_arrow().to_pylist()
    assert text == again
    experiment = reverie.Experiment(
        name="x", corpus=".", dataset=frame[frame.index > 1], chunker="sentence", retriever="bm25"
    )
    assert "__index_level_0__" not in experiment.text
