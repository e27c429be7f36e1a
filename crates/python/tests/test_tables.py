"""Tables, and stages on Arrow batches: what other libraries make of them, and give back."""

from __future__ import annotations

import json
import pickle

import pytest

import reverie
from reverie import _core
from reverie.tables import Table, format_value

pyarrow = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")


def test_polars_takes_a_table_as_it_is():
    table = Table([("trial", "text"), ("recall", "real"), ("found", "texts")], [["t01", 0.5, ["a"]], ["t02", None, []]])
    frame = table.to_polars()
    assert frame.equals(polars.DataFrame(table)) and frame["recall"].to_list() == [0.5, None]
    assert frame.schema["found"] == polars.List(polars.String)


def test_tables_and_answers_show_markup_as_text():
    from reverie.answers import Answer

    table = Table([("a<b", "text"), ("n", "count")], [["<script>", 1], [None, None]])
    assert "<script>" not in table._repr_html_() and "&lt;script&gt;" in table._repr_html_()
    assert table.to_arrow().to_pylist() == [{"a<b": "<script>", "n": 1}, {"a<b": None, "n": None}]
    with pytest.raises(KeyError, match="a<b, n"):
        table["m"]
    passage = {
        "document": "<b>.md",
        "span": {"start": 0, "end": 3},
        "text": "<i>",
        "score": 1.0,
        "page": None,
        "book": None,
        "heading": None,
        "rows": [0],
    }
    answered = {"trial": {"id": "t01"}, "question": "<q>", "passages": [passage], "answer": None}
    page = Answer(json.dumps(answered))._repr_html_()
    assert not any(markup in page for markup in ("<b>.md", "<i>\n", "<q>"))


def test_stages_work_on_arrow_batches():
    files = {"one.md": b"# Mills\n\nA mill grinds oats. It has a wheel.", "empty.txt": b""}
    batch = pyarrow.record_batch(
        {
            "path": pyarrow.array(list(files), pyarrow.string()),
            "bytes": pyarrow.array(list(files.values()), pyarrow.binary()),
        }
    )
    documents = reverie.Parser().parse(batch).to_pylist()
    assert documents[0]["path"] == "one.md" and json.loads(documents[0]["rejected"]) is None
    assert json.loads(documents[1]["rejected"]) is not None
    chunks = reverie.Chunker('{"sentence_window": {"window_size": 1}}').chunk(reverie.Parser().parse(batch)).to_pylist()
    assert {chunk["document"] for chunk in chunks} == {"one.md"} and len(chunks) > 1
    with pytest.raises(ValueError):
        reverie.Chunker('{"sentense": {}}')


ROWS = [["t01", 0.5, ["a", "b"], True, 3], ["t02", None, [], None, None]]
COLUMNS = [("trial", "text"), ("recall", "real"), ("found", "texts"), ("winner", "truth"), ("needed", "count")]


def test_a_table_is_iterated_by_rows():
    table = Table(COLUMNS, ROWS)
    assert [row["trial"] for row in table] == ["t01", "t02"]
    assert list(table) == table.rows() == [dict(zip(table.columns, row)) for row in ROWS]
    assert {**next(iter(table))}["recall"] == 0.5
    with pytest.raises(TypeError, match="a column has a name"):
        table[0]


def test_pandas_takes_a_table_as_it_is():
    table = Table(COLUMNS, ROWS)
    frame = pandas.DataFrame(table)
    assert list(frame.columns) == table.columns and list(frame["trial"]) == ["t01", "t02"]
    assert frame["recall"].isna().tolist() == [False, True]
    assert frame["found"].tolist() == [["a", "b"], []]
    assert list(table.to_pandas().columns) == table.columns and len(table.to_pandas()) == 2
    assert list(Table(COLUMNS, []).to_pandas().columns) == table.columns


def test_there_is_no_minus_before_zero():
    assert [format_value(value) for value in (-0.0, -0.0001, 0.0, -0.5, 12.0)] == [
        "0.000",
        "0.000",
        "0.000",
        "-0.500",
        "12.000",
    ]


def test_a_plan_that_costs_nothing_says_so(small, provider):
    from workspace import settings

    free = {"model": "gpt", "base_url": f"{provider.url}/v1", "price": {"input": 0, "output": 0}}
    plan = reverie.Experiment(settings(small, provider.url, models={"gpt": {"chat": {"openai": free}}})).plan()
    assert "-0" not in repr(plan) and "-0" not in plan._repr_html_() and "$ 0.0000" in repr(plan)
    assert str(plan.cost["cost_usd"]) == "0.0"


def parsed(*texts: str) -> pyarrow.RecordBatch:
    """Documents of these texts."""
    files = {f"{i}.md": text.encode() for i, text in enumerate(texts)}
    batch = {"path": pyarrow.array(list(files)), "bytes": pyarrow.array(list(files.values()), pyarrow.binary())}
    return reverie.Parser().parse(pyarrow.record_batch(batch))


MILLS = ["# Mills\n\nA mill grinds oats. It has a wheel.", "Plain text. No heading.", ""]


def others(batch: pyarrow.RecordBatch) -> dict:
    """The same as other libraries write it."""
    coded = [column.dictionary_encode() if pyarrow.types.is_string(column.type) else column for column in batch.columns]
    viewed = [
        column.cast(pyarrow.string_view()) if pyarrow.types.is_string(column.type) else column
        for column in batch.columns
    ]
    frame = polars.DataFrame(pyarrow.Table.from_batches([batch]))
    return {
        "pandas": pyarrow.RecordBatch.from_pandas(batch.to_pandas()),
        "pandas, as a frame": batch.to_pandas(),
        "pandas, numbers as floats": pyarrow.RecordBatch.from_pandas(
            batch.to_pandas().astype(
                {
                    name: "float64"
                    for name in batch.schema.names
                    if pyarrow.types.is_integer(batch.schema.field(name).type)
                }
            )
        ),
        "polars": frame.to_arrow().combine_chunks().to_batches()[0],
        "polars, as a frame": frame,
        "dictionaries": pyarrow.RecordBatch.from_arrays(coded, names=batch.schema.names),
        "views": pyarrow.RecordBatch.from_arrays(viewed, names=batch.schema.names),
        "a table": pyarrow.Table.from_batches([batch.slice(0, 1), batch.slice(1)]),
    }


def test_documents_come_back_from_other_libraries():
    documents = parsed(*MILLS)
    chunker = reverie.Chunker('{"sentence_window": {"window_size": 1}}')
    wanted = chunker.chunk(documents)
    assert wanted.num_rows > 2
    for name, other in others(documents).items():
        assert chunker.chunk(other).equals(wanted), name


def test_chunks_come_back_from_other_libraries(tmp_path):
    chunks = reverie.Chunker('{"sentence_window": {"window_size": 1}}').chunk(parsed(*MILLS))
    vectors = [[float(i), 1.0] if searched else None for i, searched in enumerate(chunks["searchable"].to_pylist())]
    column = pyarrow.array(vectors, pyarrow.list_(pyarrow.float32(), 2))
    embedded = pyarrow.RecordBatch.from_arrays([*chunks.columns, column], names=[*chunks.schema.names, "vector"])
    given = {"ours": embedded, **others(embedded)}
    files = {}
    for i, (name, other) in enumerate(given.items()):
        writer = _core.IndexWriter(str(tmp_path / str(i)))
        writer.push(other)
        told = writer.finish()
        assert told["dimensions"] == 2 and told["chunks"] == chunks.num_rows, name
        files[name] = [(tmp_path / str(i) / file).read_bytes() for file in told["files"]]
    assert all(written == files["ours"] for written in files.values()), [
        name for name in files if files[name] != files["ours"]
    ]
    with pytest.raises(ValueError, match="there is an index already"):
        _core.IndexWriter(str(tmp_path / "0"))


def test_texts_from_anywhere_are_documents():
    own = pyarrow.record_batch({"path": ["a", "b"], "text": ["One mill. Two mills.", "Three."]})
    chunks = reverie.Chunker('{"sentence": {"chunk_size": 16, "chunk_overlap": 0}}').chunk(own)
    assert set(chunks["document"].to_pylist()) == {"a", "b"}
    frame = pandas.DataFrame({"path": ["a"], "text": ["One mill."], "year": [1700]})
    assert reverie.Chunker('{"sentence": {}}').chunk(frame).num_rows == 1
    with pytest.raises(ValueError, match="the column `path` is missing; there are text"):
        reverie.Chunker('{"sentence": {}}').chunk(pyarrow.record_batch({"text": ["a"]}))
    with pytest.raises(ValueError, match="`text` is of the type Int64, and texts are wanted"):
        reverie.Chunker('{"sentence": {}}').chunk(pyarrow.record_batch({"path": ["a"], "text": [1]}))
    with pytest.raises(ValueError, match="`path` has no value in row 1"):
        reverie.Chunker('{"sentence": {}}').chunk(pyarrow.record_batch({"path": ["a", None], "text": ["a", "b"]}))


def test_results_of_a_stage_have_one_schema_whatever_is_in_them():
    chunker = reverie.Chunker('{"sentence": {}}')
    one, two, none = chunker.chunk(parsed(MILLS[0])), chunker.chunk(parsed(MILLS[1])), chunker.chunk(parsed())
    assert one.schema == two.schema == none.schema
    assert pyarrow.Table.from_batches([one, two, none]).num_rows == one.num_rows + two.num_rows
    assert pyarrow.concat_tables([pyarrow.Table.from_batches([each]) for each in (one, two)]).num_rows == 2
    assert parsed(MILLS[0]).schema == parsed("").schema


def test_a_file_that_is_gone_when_it_is_read_is_a_row_that_says_so(tmp_path):
    for name in ("gone.md", "here.md"):
        (tmp_path / name).write_text("# Mills")
    (block,) = _core.Corpus(str(tmp_path)).blocks
    (tmp_path / "gone.md").unlink()
    gone, here = pickle.loads(pickle.dumps(block)).read().to_pylist()
    assert (gone["path"], gone["bytes"], gone["unread"]) == ("gone.md", b"", True) and "cannot be read" in gone["failure"]
    assert here.pop("state") == gone["state"], "both were written a moment ago, so no later listing gives them this state"
    assert here == {"path": "here.md", "bytes": b"# Mills", "failure": None, "unread": False}


def test_patterns_and_limits_of_a_corpus_mean_what_they_mean_in_an_experiment(tmp_path):
    for name in ("a.epub", "x/y/B.EPUB", "x/c.pdf", ".x/d.epub", "e", "f.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")

    def found(include=(), exclude=()):
        corpus = _core.Corpus(str(tmp_path), list(include), list(exclude))
        return [path for block in corpus.blocks for path in block.paths]

    assert found() == ["a.epub", "x/c.pdf", "x/y/B.EPUB"]
    assert found(["**/*.epub"]) == ["a.epub", "x/y/B.EPUB"]
    assert found(["*.epub"]) == ["a.epub", "x/y/B.EPUB"], "without a slash: in any folder"
    assert found(["x/*"]) == ["x/c.pdf"]
    assert found(["x/"], ["*.pdf"]) == ["x/y/B.EPUB"]
    (block,) = _core.Corpus(str(tmp_path), ["*.pdf"], limits={"file_bytes": 3}).blocks
    assert block.read()["failure"].to_pylist() == ["over a limit: 4 bytes, and at most 3 are read"]
    with pytest.raises(ValueError, match="no such file or folder"):
        _core.Corpus(str(tmp_path / "nowhere"))


def test_a_link_that_leaves_the_corpus_is_no_file_of_it(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("text")
    (tmp_path / "secret.md").write_text("text")
    (tmp_path / "docs" / "link.md").symlink_to(tmp_path / "secret.md")
    corpus = _core.Corpus(str(tmp_path / "docs"))
    ((path, reason),) = corpus.rejected
    assert len(corpus) == 1 and path == "link.md" and "leaves the corpus" in reason


def test_files_of_many_writers_are_there_once(tmp_path):
    folder = _core.Folder(str(tmp_path / "new"))
    assert folder.put("a.parquet", b"1") and not folder.put("a.parquet", b"2")
    assert folder.names() == ["a.parquet"] and (tmp_path / "new" / "a.parquet").read_bytes() == b"1"
