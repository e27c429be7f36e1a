"""Stages by themselves: parse, chunk, index, search."""

from __future__ import annotations

import asyncio
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


YEARS = [
    {"path": "a.txt", "text": "The owl mill was built by the river.", "year": 1700, "tags": ["water", "old"], "raw": b"x"},
    {"path": "b.txt", "text": "The wind mill was built on the hill.", "year": 1800, "tags": ["wind"], "raw": b"y"},
    {"path": "c.txt", "text": "The steam mill was built in the town.", "year": None, "tags": [], "raw": b"z"},
]


def test_own_columns_are_metadata_that_hits_have_and_filters_name():
    index = reverie.index(reverie.chunk(YEARS))
    found = index.search("mill")
    by_document = dict(zip(found["document"], found["metadata"]))
    assert by_document == {"a.txt": {"tags": ["water", "old"], "year": 1700}, "b.txt": {"tags": ["wind"], "year": 1800}, "c.txt": {}}
    assert found["rank"] == [1, 2, 3] and set(found["question"]) == {"mill"} and found["number"] == [0, 0, 0]
    names = lambda filter: sorted(index.search("mill", filter=filter)["document"])  # noqa: E731
    assert names({"year": {"ge": 1750}}) == ["b.txt"] and names({"year": [1700, 1800]}) == ["a.txt", "b.txt"]
    assert names({"tags": "old"}) == ["a.txt"] and names({"path": {"glob": "[ac].txt"}}) == ["a.txt", "c.txt"]
    assert names({"year": 1900}) == []
    with pytest.raises(ValueError, match="no document has the field `yaer`; there are path, "):
        names({"yaer": 1700})
    with pytest.raises(ValueError, match="filter: year: unknown field `from`"):
        names({"year": {"from": 1700}})
    # A structure is metadata as it is, and pandas may have made numbers of it.
    nested = [{"path": row["path"], "text": row["text"], "metadata": {"year": row["year"]}} for row in YEARS]
    for given in (nested, pandas.DataFrame(nested), polars.DataFrame(nested)):
        again = reverie.index(reverie.chunk(given)).search("mill", filter={"year": {"lt": 1750}})
        assert again["document"] == ["a.txt"] and again["metadata"] == [{"year": 1700}]


def test_nested_columns_are_structures_and_every_form_has_the_same_columns(folder):
    (folder / "a.md").write_text("---\nyear: 1700\n---\n# Mühlen\n\n## Räder\n\nDas Rad dreht sich.", encoding="utf-8")
    docs = reverie.parse(folder)
    text = docs["text"][0]
    headings = docs["headings"][0]
    assert [(each["level"], each["title"]) for each in headings] == [(1, "Mühlen"), (2, "Räder")]
    assert text.encode()[headings[1]["start_byte"] :].decode().startswith("## Räder")
    assert docs["format"] == ["markdown", "markdown"] and docs["metadata"] == [{"year": 1700}, {}]
    chunks = reverie.chunk(docs)
    for table in (docs, chunks):
        forms = [list(table.to_pandas().columns), table.to_polars().columns, table.to_arrow().column_names]
        assert all(form == table.columns for form in forms)
        assert list(table.rows()[0]) == table.columns
    assert chunks.to_polars()["metadata"].struct.field("year").to_list()[0] == 1700
    wanted = chunks.rows()
    for given in (docs.to_pandas(), docs.to_polars(), docs.to_arrow()):
        assert reverie.chunk(given).rows() == wanted
    for given in (chunks.to_pandas(), chunks.to_polars(), chunks.to_arrow()):
        assert reverie.index(given).search("Rad", filter={"year": 1700})["metadata"][0] == {"year": 1700}


def test_many_questions_are_searched_at_once_and_in_an_event_loop(folder, provider):
    model = {"embedding": {"openai": {"model": "emb", "base_url": f"{provider.url}/v1"}}}
    index = reverie.index(reverie.chunk(reverie.parse(folder), reverie.chunker.Sentence(chunk_size=16, chunk_overlap=0)), model)
    questions = ["Who sleeps?", "Was dreht sich?", "Who sleeps?"]
    before = provider.statistics()["requests"]
    found = index.search(questions, top_k=2)
    assert provider.statistics()["requests"] == before + 1
    assert found["question"] == [question for question in questions for _ in range(2)] and found["rank"] == [1, 2] * 3
    alone = [row for question in questions for row in index.search(question, top_k=2)]
    same = lambda rows: [{**row, "score": pytest.approx(row["score"])} for row in rows]  # noqa: E731
    assert found.rows() == same(alone)
    assert len(index.search([])) == 0 and index.search(pandas.Series(questions), top_k=2).rows() == same(alone)

    async def at_once():
        return await asyncio.gather(*(index.asearch(question, top_k=2) for question in questions))

    assert [row for table in asyncio.run(at_once()) for row in table] == alone


def test_vectors_go_out_and_come_back_without_another_embedding(folder, provider, tmp_path):
    model = {"embedding": {"openai": {"model": "emb", "base_url": f"{provider.url}/v1"}}}
    chunks = reverie.chunk(reverie.parse(folder), reverie.chunker.Sentence(chunk_size=16, chunk_overlap=0))
    index = reverie.index(chunks, model)
    wanted = index.search("sleeps").rows()
    vectors = reverie.embed(chunks, model)
    assert vectors.columns == [*chunks.columns, "vector"] and vectors["vector"] == index.chunks["vector"]
    assert "vector" not in reverie.index(chunks).chunks.columns and index.chunks["text"] == chunks["text"]
    vectors.to_polars().write_parquet(tmp_path / "vectors.parquet")
    for given in (vectors, vectors.to_pandas(), polars.read_parquet(tmp_path / "vectors.parquet")):
        assert reverie.index(given, model).search("sleeps").rows() == wanted
    with pytest.raises(ValueError, match="name the embedder that made them"):
        reverie.index(vectors)
    table = vectors.to_arrow()
    turned = [[-number for number in vector] for vector in table["vector"].to_pylist()]
    wrong = table.set_column(table.column_names.index("vector"), "vector", pyarrow.array(turned, table["vector"].type))
    with pytest.raises(ValueError, match="not those of the embedder: the cosine of the first one with its own is -1.000"):
        reverie.index(wrong, model)
    short = table.set_column(table.column_names.index("vector"), "vector", pyarrow.array([[1.0, 0.0]] * len(table)))
    with pytest.raises(ValueError, match="they have 2 numbers"):
        reverie.index(short, model)


def test_an_index_is_saved_and_opened_again(folder, provider, tmp_path):
    model = {"embedding": {"openai": {"model": "emb", "base_url": f"{provider.url}/v1"}}}
    chunks = reverie.chunk(reverie.parse(folder), {"sentence_window": {"window_size": 1}})
    index = reverie.index(chunks, model)
    index.save(tmp_path / "both")
    again = reverie.Index.load(tmp_path / "both", embedder=model)
    assert again.search(["sleeps", "Mühle"]).rows() == index.search(["sleeps", "Mühle"]).rows() and len(again) == len(index)
    assert again.chunks.rows() == index.chunks.rows()
    with pytest.raises(ValueError, match="give `embedder`, the model emb of "):
        reverie.Index.load(tmp_path / "both")
    with pytest.raises(FileExistsError, match="has an index already"):
        index.save(tmp_path / "both")
    words = reverie.index(chunks)
    words.save(tmp_path / "both", replace=True)
    opened = reverie.Index.load(tmp_path / "both")
    assert "without vectors" in repr(opened) and opened.search("wind").rows() == words.search("wind").rows()
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == ["chunks.parquet", "index.json"]
    with pytest.raises(FileNotFoundError):
        reverie.Index.load(tmp_path / "nothing")


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
