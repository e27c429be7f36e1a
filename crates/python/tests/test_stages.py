"""Stages by themselves: parse, chunk, index, search."""

from __future__ import annotations

import pickle

import pytest

import reverie
from reverie import _core

pyarrow = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

# Characters of one, two, three and four bytes.
MILLS = {
    "a.md": "# Mühlen\n\nDie Mühle mahlt Hafer. Ihr Rad hat zwölf Schaufeln — 風車 🌬 dreht sich.",
    "b/c.md": "# Wheels\n\nA wheel turns in the wind. The miller sleeps. " * 5,
    "empty.txt": "",
}


@pytest.fixture
def folder(tmp_path):
    """Files in folders, one of them without a text."""
    for name, text in MILLS.items():
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(text, encoding="utf-8")
    return tmp_path / "docs"


def test_three_lines_from_files_to_passages(folder):
    docs = reverie.parse(folder / "**/*")
    chunks = reverie.chunk(docs, reverie.chunker.Sentence(chunk_size=16, chunk_overlap=0))
    index = reverie.index(chunks)
    found = index.search("Who sleeps?", top_k=2)
    assert docs["path"] == ["a.md", "b/c.md"] and len(docs) == 2
    (rejected,) = docs.rejected
    assert rejected["path"] == "empty.txt" and rejected["reason"]
    assert len(found) == 2 and set(found["document"]) == {"b/c.md"} and "sleeps" in found["text"][0]
    assert found["score"] == sorted(found["score"], reverse=True)
    assert list(found.to_pandas().columns) == found.columns
    assert repr(index) == f"<index of {len(chunks)} chunks, without vectors>"
    assert "Mühle" in repr(chunks) and "<table>" in chunks._repr_html_() and "b/c.md" in repr(docs)


def test_places_count_characters_and_bytes_have_their_own_names(folder):
    docs = reverie.parse(str(folder))
    texts = dict(zip(docs["path"], docs["text"]))
    for chunker in (reverie.chunker.Sentence(chunk_size=16, chunk_overlap=4), "hierarchical", {"sentence_window": {}}):
        chunks = reverie.chunk(docs, chunker)
        assert len(chunks) > 2
        for row in chunks:
            text = texts[row["document"]]
            assert text[row["start"] : row["end"]] == row["text"]
            assert text.encode()[row["start_byte"] : row["end_byte"]].decode() == row["text"]
        assert any(row["end"] != row["end_byte"] for row in chunks)
        for row in reverie.index(chunks).search("Mühle Schaufeln"):
            assert texts[row["document"]][row["start"] : row["end"]] == row["text"]
            assert row["start_byte"] >= row["start"]


def test_texts_and_chunks_come_from_anywhere(folder):
    docs = reverie.parse(folder)
    wanted = reverie.chunk(docs).rows()
    rows = [{"path": row["path"], "text": row["text"], "title": row["title"]} for row in docs]
    for given in (docs.to_pandas(), docs.to_polars(), docs.to_arrow(), pickle.loads(pickle.dumps(docs))):
        assert reverie.chunk(given).rows() == wanted
    own = reverie.chunk(rows)
    assert [row["text"] for row in own] == [row["text"] for row in wanted]
    found = reverie.index(own).search("wind").rows()
    for given in (own.to_pandas(), own.to_polars(), own.to_arrow(), pickle.loads(pickle.dumps(own))):
        assert reverie.index(given).search("wind").rows() == found
    with pytest.raises(ValueError, match="the column `start_byte` is missing: `start` counts characters"):
        reverie.index(own.to_pandas().drop(columns=["start_byte"]))
    with pytest.raises(ValueError, match="the column `path` is missing"):
        reverie.chunk([{"text": "a"}])


def test_meanings_are_searched_where_there_is_an_embedder(folder, provider):
    chunks = reverie.chunk(reverie.parse(folder), reverie.chunker.Sentence(chunk_size=16, chunk_overlap=0))
    words = reverie.index(chunks)
    model = {"embedding": {"openai": {"model": "emb", "base_url": f"{provider.url}/v1"}}}
    both = reverie.index(chunks, embedder=model)
    assert "with vectors" in repr(both) and len(both) == len(words)
    for retriever in ("dense", reverie.retriever.Hybrid(candidates=20), reverie.retriever.Mmr(), {"bm25": {"top_k": 9}}):
        assert len(both.search("a wheel turns", top_k=3, retriever=retriever)) == 3
    assert both.search("sleeps", retriever="bm25").rows() == words.search("sleeps").rows()
    with pytest.raises(ValueError, match="this index has words only: give `embedder` to `reverie.index`"):
        words.search("Mühle", retriever=reverie.retriever.Hybrid())
    with pytest.raises(ValueError, match="top_k must be at least 1"):
        words.search("Mühle", top_k=0)
    with pytest.raises(ValueError, match="retriever: .*bm52"):
        words.search("Mühle", retriever="bm52")


def test_functions_are_stages_here_too(folder):
    @reverie.chunker
    def paragraphs(text):
        return [part for part in text.split("\n\n") if part]

    @reverie.retriever(top_k=1)
    def last(questions, chunks):
        return [[len(chunks) - 1] for _ in questions]

    chunks = reverie.chunk(reverie.parse(folder), paragraphs)
    (row,) = reverie.index(chunks).search("anything", retriever=last)
    assert row["text"] == chunks["text"][-1] and row["document"] == "b/c.md"


def test_what_is_wrong_is_told_at_once(tmp_path):
    with pytest.raises(ValueError, match="no such file or folder"):
        reverie.parse(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="limits: unknown field `bytes`"):
        reverie.parse(tmp_path, limits={"bytes": 1})
    with pytest.raises(ValueError, match="chunker: unknown variant `sentense`"):
        reverie.chunk([{"path": "a", "text": "b"}], "sentense")
    with pytest.raises(ValueError, match="there are no files"):
        reverie.parse(tmp_path)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ValueError, match="no file gave a document"):
        reverie.parse(tmp_path)
    (tmp_path / "a.txt").write_text("text")
    with pytest.warns(reverie.exceptions.ParseWarning, match="1 of 2 files"):
        some = reverie.parse(tmp_path)
    assert len(some) == 1 and some.rejected["path"] == ["empty.txt"] and len(reverie.chunk(some)) == 1


def test_an_index_that_is_written_has_bytes_as_engines_write_them(folder, tmp_path):
    chunks = reverie.chunk(reverie.parse(folder))
    table = chunks.to_arrow().append_column("vector", pyarrow.array([[1.0]] * len(chunks), pyarrow.list_(pyarrow.float32(), 1)))
    writer = _core.IndexWriter(str(tmp_path / "index"))
    writer.push(table)
    writer.finish()
    written = pandas.read_parquet(tmp_path / "index" / "chunks.parquet")
    assert list(written["start"]) == chunks["start_byte"] and "start_byte" not in written.columns
