"""Parts of an index: written in any order and by anybody, also twice, they become the index that one process writes."""

from __future__ import annotations

import os
import random

import pytest

pyarrow = pytest.importorskip("pyarrow")

from reverie import _core  # noqa: E402

CHUNKER = '{"sentence": {"chunk_size": 16, "chunk_overlap": 0}}'
FILES = ["chunks.parquet", "index.bm25", "index.dense"]
SETTINGS = "some settings"


def write_corpus(folder, files=12, sentences=20):
    """Texts with and without headings, and a file that gives no document."""
    folder.mkdir()
    for i in range(files):
        lines = [f"Mill {i} grinds the oats of village {j} on day {(i * 7 + j) % 30} for {j % 11} bakers." for j in range(sentences)]
        # Several of each kind follow each other, so that long stretches have no heading.
        head = f"# Mill {i}\n\n" if i // 20 % 2 else ""
        (folder / f"{i:04}.{'md' if head else 'txt'}").write_text(head + " ".join(lines))
    (folder / "empty.md").write_text("")


def cut(block):
    """What became of a block's files, and their chunks."""
    read = block.read()
    documents, places = _core.Parser().parse_files(read.select(["path", "bytes"]))
    read = read.take(pyarrow.array(places))
    said = zip(read["failure"].to_pylist(), documents["rejected"].to_pylist())
    reasons = [failure or _core.rejection(rejected) for failure, rejected in said]
    files = {
        "path": documents["path"], "content": documents["content"], "reason": pyarrow.array(reasons, pyarrow.string()),
        "file": read["path"], "unread": read["unread"], "state": read["state"],
    }  # fmt: skip
    return pyarrow.table(files), _core.Chunker(CHUNKER).chunk(documents)


def embed(chunks):
    """The chunks with vectors of their texts."""
    vectors = [[float(len(text)), float(sum(map(ord, text)) % 97)] for text in chunks["text"].to_pylist()]
    column = pyarrow.array(vectors, pyarrow.list_(pyarrow.float32(), 2))
    return pyarrow.RecordBatch.from_arrays([*chunks.columns, column], names=[*chunks.schema.names, "vector"])


def write_parts(parts, blocks, rows=100, share=1.0):
    """Writes parts of blocks, the last first and some twice; returns how many documents had all of their parts."""
    reused, made = 0, []
    for block in blocks:
        left, held = parts.begin(*cut(block))
        reused += held
        made += [left.slice(first, rows) for first in range(0, left.num_rows, rows)]
    random.Random(7).shuffle(made)
    made = made[: max(1, int(len(made) * share))] if made else []
    for i, part in enumerate(made):
        for _ in range(1 + (i % 3 == 0)):
            assert sum(count for _, count in parts.write(embed(part))) == part.num_rows
    return reused


def written_by_one(corpus, folder):
    """The files that one process writes."""
    writer = _core.IndexWriter(str(folder))
    for block in corpus.blocks:
        writer.push(embed(cut(block)[1]))
    told = writer.finish()
    return told, read_files(folder)


def read_files(folder):
    """The files of an index; there is nothing else."""
    assert sorted(os.listdir(folder)) == FILES
    return {name: (folder / name).read_bytes() for name in FILES}


def test_parts_in_any_order_are_byte_for_byte_what_one_process_writes(tmp_path):
    # More than 20,480 chunks, because pages of Parquet end at other rows if all values of a column are null.
    write_corpus(tmp_path / "docs", files=150, sentences=160)
    corpus = _core.Corpus(str(tmp_path / "docs"))
    assert len(corpus.blocks) > 2
    parts = _core.IndexParts(str(tmp_path / "index"), SETTINGS)
    blocks, documents, rejected, _ = parts.plan(corpus, True)
    assert ([block.paths for block in blocks], documents, rejected) == ([block.paths for block in corpus.blocks], 0, [])
    assert write_parts(parts, reversed(blocks), rows=700) == 0
    missing, documents, rejected, order = parts.plan(corpus, False)
    assert (missing, documents, [path for path, _ in rejected]) == ([], 150, ["empty.md"])
    merged = parts.merge(order)
    parts.remove()
    told, wanted = written_by_one(corpus, tmp_path / "one")
    assert merged["chunks"] == told["chunks"] > 20_480
    assert {name: merged[name] for name in ("vectors", "dimensions", "files")} == {name: told[name] for name in ("vectors", "dimensions", "files")}
    found = read_files(tmp_path / "index")
    assert [name for name in FILES if found[name] != wanted[name]] == []


def test_a_corpus_without_chunks_is_an_empty_index(tmp_path):
    write_corpus(tmp_path / "docs", files=0)
    corpus = _core.Corpus(str(tmp_path / "docs"))
    parts = _core.IndexParts(str(tmp_path / "index"), SETTINGS)
    write_parts(parts, corpus.blocks)
    missing, documents, rejected, order = parts.plan(corpus, False)
    assert (missing, documents, len(rejected)) == ([], 0, 1)
    parts.merge(order)
    parts.remove()
    writer = _core.IndexWriter(str(tmp_path / "one"))
    writer.finish()
    assert read_files(tmp_path / "index") == read_files(tmp_path / "one")


def test_only_chunks_that_are_in_no_part_are_left(tmp_path):
    write_corpus(tmp_path / "docs")
    corpus = _core.Corpus(str(tmp_path / "docs"))
    parts = _core.IndexParts(str(tmp_path / "index"), SETTINGS)
    write_parts(parts, corpus.blocks, rows=30, share=0.5)
    (block,), documents, _, _ = parts.plan(corpus, True)
    assert (len(block), documents) == (13, 0), "a block that was begun is cut again, so that its parts are found"
    files, chunks = cut(block)
    left, held = parts.begin(files, chunks)
    assert 0 < left.num_rows < chunks.num_rows and 0 < held < 12
    write_parts(parts, [block])
    missing, documents, _, order = parts.plan(corpus, False)
    assert (missing, documents) == ([], 12)
    parts.merge(order)
    parts.remove()
    assert read_files(tmp_path / "index") == written_by_one(corpus, tmp_path / "one")[1]


def test_a_merge_that_is_repeated_changes_nothing_and_another_index_is_refused(tmp_path):
    write_corpus(tmp_path / "docs")
    corpus = _core.Corpus(str(tmp_path / "docs"))
    parts = _core.IndexParts(str(tmp_path / "index"), SETTINGS)
    write_parts(parts, corpus.blocks)
    order = parts.plan(corpus, False)[3]
    # It was killed after two of the three files.
    assert parts.merge(order)["chunks"] > 0
    (tmp_path / "index" / "chunks.parquet").unlink()
    assert parts.merge(order) == parts.merge(order)
    assert not list((tmp_path / "index" / "index.parts").glob("merge-*"))
    other = _core.IndexParts(str(tmp_path / "index"), "other settings")
    with pytest.raises(ValueError, match="there is an index already"):
        other.merge("[]")
    (tmp_path / "index" / "chunks.parquet").unlink()
    with pytest.raises(ValueError, match="index.dense is there already, of another index"):
        other.merge("[]")


def test_a_finished_index_is_refused_and_what_is_left_of_its_parts_goes(tmp_path):
    write_corpus(tmp_path / "docs")
    corpus = _core.Corpus(str(tmp_path / "docs"))
    _core.IndexParts.check(str(tmp_path / "index"))
    parts = _core.IndexParts(str(tmp_path / "index"), SETTINGS)
    write_parts(parts, corpus.blocks)
    parts.merge(parts.plan(corpus, False)[3])
    with pytest.raises(ValueError, match="there is an index already, which is never changed"):
        _core.IndexParts.check(str(tmp_path / "index"))
    read_files(tmp_path / "index")


def test_a_damaged_part_is_removed_and_made_again(tmp_path):
    write_corpus(tmp_path / "docs")
    corpus = _core.Corpus(str(tmp_path / "docs"))
    parts = _core.IndexParts(str(tmp_path / "index"), SETTINGS)
    write_parts(parts, corpus.blocks)
    order = parts.plan(corpus, False)[3]
    part = sorted((tmp_path / "index").rglob("*.part"))[1]
    damaged = bytearray(part.read_bytes())
    damaged[-1] ^= 1
    part.write_bytes(damaged)
    with pytest.raises(RuntimeError, match="was damaged, and is removed: start the ingest again"):
        parts.merge(order)
    assert not part.exists() and not (tmp_path / "index" / "chunks.parquet").exists()
    write_parts(parts, parts.plan(corpus, True)[0])
    parts.merge(parts.plan(corpus, False)[3])
    parts.remove()
    assert read_files(tmp_path / "index") == written_by_one(corpus, tmp_path / "one")[1]


def test_parts_of_other_settings_are_not_found(tmp_path):
    write_corpus(tmp_path / "docs")
    corpus = _core.Corpus(str(tmp_path / "docs"))
    write_parts(_core.IndexParts(str(tmp_path / "index"), SETTINGS), corpus.blocks)
    blocks, documents, rejected, _ = _core.IndexParts(str(tmp_path / "index"), "other settings").plan(corpus, True)
    assert (sum(map(len, blocks)), documents, rejected) == (13, 0, [])


def test_settings_have_one_name_and_other_settings_another():
    def embedder(model):
        return {"embedding": {"openai": {"model": model, "base_url": "http://127.0.0.1:1/v1"}}}

    name = _core.index_settings({}, "sentence", embedder("emb"))
    assert name == _core.index_settings(None, '{"sentence": {}}', embedder("emb"))
    others = [
        _core.index_settings({"file_bytes": 7}, "sentence", embedder("emb")),
        _core.index_settings({}, '{"sentence": {"chunk_size": 77}}', embedder("emb")),
        _core.index_settings({}, "sentence", embedder("other")),
    ]
    assert len({name, *others}) == 4


def test_a_file_that_could_not_be_read_is_read_again_at_the_next_start(tmp_path):
    write_corpus(tmp_path / "docs")
    corpus = _core.Corpus(str(tmp_path / "docs"))
    text = (tmp_path / "docs" / "0003.txt").read_bytes()
    (tmp_path / "docs" / "0003.txt").unlink()
    parts = _core.IndexParts(str(tmp_path / "index"), SETTINGS)
    write_parts(parts, corpus.blocks)
    missing, documents, rejected, _ = parts.plan(corpus, False)
    assert (missing, documents, [path for path, _ in rejected]) == ([], 11, ["0003.txt", "empty.md"])
    (tmp_path / "docs" / "0003.txt").write_bytes(text)
    (block,), documents, rejected, _ = parts.plan(corpus, True)
    assert (block.paths, documents, [path for path, _ in rejected]) == (["0003.txt"], 11, ["empty.md"])
    write_parts(parts, [block])
    missing, documents, rejected, order = parts.plan(corpus, False)
    assert (missing, documents, [path for path, _ in rejected]) == ([], 12, ["empty.md"])
    parts.merge(order)
    parts.remove()
    assert read_files(tmp_path / "index") == written_by_one(corpus, tmp_path / "one")[1]
