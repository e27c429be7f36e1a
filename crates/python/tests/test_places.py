"""Places of texts: characters and bytes have their own names, and a wrong unit is no score."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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
    with pytest.raises(ValueError, match="give the documents"):
        scored({"start": START, "end": end}, None)


def test_a_file_is_checked_against_the_documents(tmp_path):
    # The passage is ASCII and comes after a two-byte letter. Only the document shows that the unit is wrong.
    text = "Eulen steht hier viel."
    start = TEXT.index(text)
    first = len(TEXT[:start].encode())
    assert first == start + 1 and len(text) == len(text.encode())

    def score(place, documents=DOCUMENTS):
        context = {"document": "owls.txt", "text": text, **place}
        row = {"question": "Who?", "contexts": [context], "evidence": [{"document": "owls.txt", "quote": text}]}
        (tmp_path / "answers.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
        return reverie.evaluate("answers.jsonl", ["recall"], documents=documents, progress=False)["recall"]

    characters = {"start": start, "end": start + len(text)}
    with pytest.raises(ValueError, match=r"answers\.jsonl:1: `contexts` at 1: .*does not stand at bytes 5 to 27"):
        score({"span": characters})
    span = {"start": first, "end": first + len(text)}
    assert score({"span": span}) == [1.0]
    assert score({"start_byte": span["start"], "end_byte": span["end"]}) == [1.0]
    assert score(characters) == [1.0]
    with pytest.raises(ValueError, match=r"answers\.jsonl:1: `contexts` at 1: .*give the documents"):
        score(characters, None)


def test_places_of_the_passages_of_a_query_are_those_of_the_document_s_text(tmp_path):
    (tmp_path / "docs").mkdir()
    before = "Über der Mühle hängt Öl für die Flügel. " * 20
    (tmp_path / "docs" / "owls.txt").write_text(f"{before}{TEXT} {before}", encoding="utf-8")
    (tmp_path / "docs" / "owls.md").write_text(f"# Größe\n\n{before}\n\n## Höhlen\n\n{TEXT}\n", encoding="utf-8")
    texts = {row["path"]: row["text"] for row in reverie.parse(tmp_path / "docs")}
    experiment = reverie.Experiment(
        name="owls",
        corpus=str(tmp_path / "docs"),
        chunker=reverie.chunker.Sentence(chunk_size=24, chunk_overlap=4),
        retriever=reverie.retriever.Bm25(top_k=4),
    )
    experiment.run(progress=False)
    pipeline = experiment.pipeline("t01")
    answer = pipeline.query("Zehn Eulen wohnen am Bach")
    found = next(event for event in pipeline.stream("Zehn Eulen wohnen am Bach") if event.kind == "found")
    assert {passage.document for passage in answer.passages} == set(texts)
    for passage in (*answer.passages, *found.passages):
        text = texts[passage.document]
        assert text.encode()[passage.start_byte : passage.end_byte].decode() == passage.text
        # The same numbers as characters are another text.
        assert text[passage.start_byte : passage.end_byte] != passage.text
    assert any(QUOTE in passage.text for passage in answer.passages)


def test_a_note_names_the_function_that_finds_places_until_the_evidence_has_them():
    first, last = len(TEXT[:START].encode()), len(TEXT[: START + len(QUOTE)].encode())
    contexts = [{"document": "owls.txt", "text": QUOTE, "start_byte": first, "end_byte": last}]
    row = {"id": "owls", "question": "Who lives in the mill?", "answer": "Owls.", "reference": "owls", "contexts": contexts}
    evidence = [{"document": "owls.txt", "quote": QUOTE}]

    def score(evidence):
        return reverie.evaluate([{**row, "evidence": evidence}], ["ndcg", "recall", "token_f1"], progress=False)

    unplaced = score(evidence)
    assert (unplaced["ndcg"], unplaced["recall"], unplaced["token_f1"]) == ([None], [None], [1.0])
    notes = [
        f"`{metric}` has no scores, because the golden evidence has no place in a document: anchor the questions in the "
        "documents first"
        for metric in ("ndcg", "recall")
    ]
    notes.append("`reverie.golden.anchor(documents, questions).questions` has the locations of the evidence")
    assert unplaced.data["notes"] == notes
    assert repr(unplaced).splitlines()[-3:] == notes
    assert all(note in unplaced._repr_html_() for note in notes)

    questions = reverie.golden.anchor(DOCUMENTS, [{**row, "evidence": evidence}]).questions
    placed = score(questions.to_arrow()["evidence"].to_pylist()[0])
    assert (placed["ndcg"], placed["recall"], placed["token_f1"]) == ([1.0], [1.0], [1.0])
    notes = ["`ndcg`, `recall`: the places were not checked, and a place in characters instead of bytes gives a wrong score: give the documents"]
    assert placed.data["notes"] == notes and "anchor" not in repr(placed) + placed._repr_html_()
    checked = reverie.evaluate(
        [{**row, "evidence": questions.to_arrow()["evidence"].to_pylist()[0]}], ["ndcg"], documents=DOCUMENTS, progress=False
    )
    assert checked.data["notes"] == []

    # Anchored evidence does not help passages that say nothing of their place.
    bare = {**row, "contexts": ["Owls."], "evidence": questions.to_arrow()["evidence"].to_pylist()[0]}
    notes = reverie.evaluate([bare], ["ndcg"], progress=False).data["notes"]
    assert len(notes) == 1 and "`ndcg` has no scores, because the passages have no place" in notes[0]
    assert "`start_byte`" in notes[0] and "anchor" not in notes[0]


def test_files_without_a_document_warn_and_raise_if_there_is_no_other(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.epub").write_bytes(b"no epub")
    with pytest.raises(ValueError, match="no file gave a document\n1 of 1 files"):
        reverie.parse(str(tmp_path / "docs"))
    (tmp_path / "docs" / "b.txt").write_text("text")
    with pytest.warns(ParseWarning, match=r"(?s)1 of 2 files gave no document.*a\.epub"):
        documents = reverie.parse(str(tmp_path / "docs"))
    assert len(documents) == 1 and documents.rejected["path"] == ["a.epub"]


PARSE = """
import json, sys, warnings
import reverie

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    documents = reverie.parse(sys.argv[1])
told = [str(each.message) for each in caught if issubclass(each.category, reverie.exceptions.ParseWarning)]
print(json.dumps({"told": told, "paths": documents["path"], "rejected": documents.rejected.rows()}))
"""


def test_a_pdf_without_its_library_names_the_command_that_pulls_it(tmp_path):
    docs, home = tmp_path / "docs", tmp_path / "home"
    docs.mkdir()
    home.mkdir()
    (docs / "a.pdf").write_bytes(b"%PDF-1.7\n%%EOF\n")
    (docs / "b.txt").write_text("Owls hunt at night.")
    # A library that is loaded stays loaded, so it is another process that finds none.
    environment = {name: value for name, value in os.environ.items() if name != "REVERIE_LIBRARIES"}
    environment["REVERIE_HOME"] = str(home)
    command = [sys.executable, "-c", PARSE, str(docs)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)
    assert ended.returncode == 0, ended.stderr
    parsed = json.loads(ended.stdout)
    reason = "PDF needs libpdfium, which is not installed; run `reverie models pull pdfium`"
    assert parsed["paths"] == ["b.txt"]
    assert [(row["path"], row["reason"]) for row in parsed["rejected"]] == [("a.pdf", reason)]
    (told,) = parsed["told"]
    assert "1 of 2 files gave no document" in told and reason in told


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
