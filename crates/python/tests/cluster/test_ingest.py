"""`reverie.ray.ingest`: the index of Ray Data is that of the local engine, and what cannot be done is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import servers
from conftest import Run, artifacts
from workspace import Provider, Workspace

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402
import ray  # noqa: E402

from reverie.ray import Chroma, Index, Parquet, Stalled, ingest  # noqa: E402

CHUNKER = {"sentence": {"chunk_size": 32, "chunk_overlap": 0}}
HOME = Path(os.environ.get("REVERIE_HOME", Path(__file__).parents[4] / ".reverie"))


@pytest.fixture
def joined(ray_cluster):
    """The tests' cluster, of which this process is a driver."""
    ray.init(address=ray_cluster.address, namespace="reverie", logging_level="warning", log_to_driver=False)
    yield ray_cluster
    ray.shutdown()


@pytest.fixture
def corpus(workspace):
    """Sixty documents, some in folders, with files that give none."""
    folder = workspace.folder / "docs"
    (folder / "part").mkdir()
    for i in range(5):
        shutil.move(folder / f"{i:02}.md", folder / "part" / f"{i:02}.md")
    (folder / "page.html").write_text("<html><body><h1>Bread</h1><p>Oats are ground in every mill.</p></body></html>")
    (folder / "empty.md").write_text("")
    (folder / "picture.pdf").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (folder / "unknown.xyz").write_text("not of the corpus")
    (folder / ".hidden.md").write_text("nor this")
    workspace.golden = "\n".join(line for line in workspace.golden.splitlines() if int(json.loads(line)["id"][1:]) >= 5)
    (workspace.folder / "golden.jsonl").write_text(workspace.golden)
    return folder


def embedder(url: str) -> dict:
    """A simulated provider's model."""
    return {"embedding": {"openai": {"model": "emb", "base_url": f"{url}/v1"}}}


def of_a_run(workspace, text: str) -> tuple[dict[str, set[bytes]], dict]:
    """The indexes that the local engine puts into a store, by their kind; and its results."""
    path = workspace.folder / "local.toml"
    path.write_text(text)
    results = Run("run", "-f", path, "--json").succeeds()
    found: dict[str, set[bytes]] = {"dense": set(), "bm25": set()}
    for name, content in artifacts(workspace.folder / "store").items():
        found.setdefault(name.rsplit(".", 1)[1], set()).add(content)
    return found, results


def experiment(workspace, model: str) -> str:
    """One trial, whose indexes are compared."""
    return f"""name = "mills"
store = "{workspace.folder / "store"}"
[corpus]
source = "{workspace.folder / "docs"}"
[dataset]
path = "golden.jsonl"
[models.emb]
{model}
[space]
chunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}]
embedder = ["emb"]
retriever = [{{ hybrid = {{ top_k = 2 }} }}]
[evaluate]
metrics = ["recall"]
"""


def test_the_index_is_byte_for_byte_that_of_the_local_engine(joined, workspace, corpus, provider, tmp_path):
    model = f'embedding.openai = {{ model = "emb", base_url = "{provider.url}/v1" }}'
    found, results = of_a_run(workspace, experiment(workspace, model))
    made = ingest(str(corpus), str(tmp_path / "index"), chunker=CHUNKER, embedder=embedder(provider.url))
    assert made.documents == results["documents"] == 61
    assert {(tmp_path / "index" / "index.dense").read_bytes()} == found["dense"]
    assert {(tmp_path / "index" / "index.bm25").read_bytes()} == found["bm25"]
    # What gave no document is told alike.
    assert [each.path for each in made.rejected] == sorted(each["path"] for each in results["rejected"]) == ["empty.md", "picture.pdf"]
    assert all(each.reason for each in made.rejected)
    chunks = pq.read_table(tmp_path / "index" / "chunks.parquet")
    assert chunks.num_rows == made.chunks > 61 * 5
    # An index is never changed.
    with pytest.raises(ValueError, match="there is an index already"):
        ingest(str(corpus), str(tmp_path / "index"), chunker=CHUNKER, embedder=embedder(provider.url))


INDEX = ["chunks.parquet", "index.bm25", "index.dense"]


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of an index; nothing else is left there."""
    assert sorted(path.name for path in folder.iterdir()) == INDEX
    return {name: (folder / name).read_bytes() for name in INDEX}


@pytest.fixture
def many(tmp_path):
    """Two hundred documents: several blocks, whose files are neighbours in none. They were written some time ago, because
    a file that was changed a moment before it is listed is read again by the next start."""
    workspace = Workspace(tmp_path / "many", documents=200)
    time.sleep(2.5)
    return workspace


class Interruption(Exception):
    """The end of a start before its parts become an index."""


class Interrupted(Index):
    """An index whose ingest ends when all parts are written."""

    def finish(self):
        """Ends it."""
        raise Interruption


def interrupt(source: Path, address: Path, **settings) -> None:
    """Leaves the parts of an ingest, and no index."""
    with pytest.raises(Interruption):
        ingest(str(source), Interrupted(str(address)), **settings)
    assert list(address.rglob("*.part")) and not (address / "chunks.parquet").exists()


def test_many_blocks_make_the_bytes_of_a_run_and_the_driver_sees_a_row_for_each_part(joined, many, provider, tmp_path):
    class Watched(Index):
        """Keeps what the driver gets."""

        def take(self, table):
            taken.append(table)
            super().take(table)

    taken: list = []
    model = f'embedding.openai = {{ model = "emb", base_url = "{provider.url}/v1" }}'
    found, _ = of_a_run(many, experiment(many, model))
    made = ingest(str(many.folder / "docs"), Watched(str(tmp_path / "index")), chunker=CHUNKER, embedder=embedder(provider.url))
    written = files_of(tmp_path / "index")
    assert {written["index.dense"]} == found["dense"]
    assert {written["index.bm25"]} == found["bm25"]
    # Whatever a chunk holds, the driver gets its part's name and length.
    assert {tuple(table.schema.names) for table in taken} == {("name", "rows", "left_out")}
    rows = [row for table in taken for row in table.to_pylist()]
    assert sum(row["rows"] for row in rows) == made.chunks
    assert len(rows) == made.written["parts"] > 3
    assert (made.documents, made.reused) == (200, 0)


def write_mails(folder: Path, mails: int) -> None:
    """A mail with a table attached, and a mailbox."""
    table = "grain,price\nrye,42\nspelt,57\n"
    (folder / "price.eml").write_text(
        "From: ada@example.org\nTo: bo@example.org\nSubject: Prices\nMIME-Version: 1.0\n"
        "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nThe table is attached.\n"
        f"--b\nContent-Type: text/csv\nContent-Disposition: attachment; filename=prices.csv\n\n{table}--b--\n"
    )
    words = "The miller writes of the water and of the wheel. " * 20
    (folder / "all.mbox").write_text(
        "".join(
            f"From ada@example.org Tue Mar  5 09:30:00 2024\nFrom: ada@example.org\nSubject: Letter {i}\n"
            f"Date: Tue, 5 Mar 2024 09:30:00 +0100\n\nLetter {i}. {words}\n\n"
            for i in range(mails)
        )
    )


def test_the_mails_of_a_mailbox_stay_together_however_ray_cuts_blocks(joined, workspace, corpus, provider, tmp_path, monkeypatch):
    write_mails(corpus, 600)
    model = f'embedding.openai = {{ model = "emb", base_url = "{provider.url}/v1" }}'
    found, results = of_a_run(workspace, experiment(workspace, model))
    # A cluster of large machines cuts at 128 MiB.
    monkeypatch.setattr(ray.data.DataContext.get_current(), "target_max_block_size", 50_000)
    settings = {"chunker": CHUNKER, "embedder": embedder(provider.url)}
    interrupt(corpus, tmp_path / "index", **settings)
    asked = provider.statistics()["requests"]
    made = ingest(str(corpus), str(tmp_path / "index"), **settings)
    assert made.documents == results["documents"] == 61 + 2 + 600
    assert provider.statistics()["requests"] == asked, "all chunks were in parts"
    written = files_of(tmp_path / "index")
    assert {written["index.dense"]} == found["dense"]
    assert {written["index.bm25"]} == found["bm25"]
    documents = pq.read_table(tmp_path / "index" / "chunks.parquet").column("document").to_pylist()
    assert "price.eml/prices.csv" in documents
    assert sum(path.startswith("all.mbox/") for path in set(documents)) == 600


DRIVER = """
import json, sys
import ray
from reverie.ray import ingest
source, sink, address, settings = sys.argv[1:]
ray.init(address=address, namespace="reverie", logging_level="warning", log_to_driver=False)
ingest(source, sink, **json.loads(settings))
"""


def test_after_kill_9_of_the_driver_the_next_start_embeds_only_what_is_missing(joined, many, tmp_path):
    slow = Provider(latency={"constant": {"seconds": 2}})
    try:
        settings = {"chunker": CHUNKER, "embedder": embedder(slow.url)}
        sink = tmp_path / "index"
        command = [sys.executable, "-c", DRIVER, many.folder / "docs", sink, joined.address, json.dumps(settings)]
        with open(tmp_path / "driver.log", "wb") as log:
            driver = subprocess.Popen(command, stdout=log, stderr=log)
            deadline = time.monotonic() + 300
            while not list(sink.rglob("*.part")):
                assert driver.poll() is None and time.monotonic() < deadline, (tmp_path / "driver.log").read_text()
                time.sleep(0.05)
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
        held = {path for path in sink.rglob("*.part") if "#" not in path.name}
        assert held and not (sink / "chunks.parquet").exists()
        made = ingest(str(many.folder / "docs"), str(sink), **settings)
        assert (made.documents, made.rejected) == (200, [])
        assert made.reused > 0
        asked = slow.statistics()["requests"]
        whole = ingest(str(many.folder / "docs"), str(tmp_path / "whole"), **settings)
        assert made.written["parts"] < whole.written["parts"], "parts of the first start were not written again"
        assert slow.statistics()["requests"] > asked
        assert files_of(sink) == files_of(tmp_path / "whole")
    finally:
        slow.stop()


def test_a_start_with_all_parts_asks_no_model_and_knows_what_was_rejected(joined, corpus, provider, tmp_path):
    time.sleep(2.5)
    settings = {"chunker": CHUNKER, "embedder": embedder(provider.url)}
    interrupt(corpus, tmp_path / "index", **settings)
    asked = provider.statistics()["requests"]
    made = ingest(str(corpus), str(tmp_path / "index"), **settings)
    assert provider.statistics()["requests"] == asked
    assert (made.documents, made.reused, made.written["parts"]) == (61, 61, 0)
    assert [each.path for each in made.rejected] == ["empty.md", "picture.pdf"]
    assert all(each.reason for each in made.rejected)
    whole = ingest(str(corpus), str(tmp_path / "whole"), **settings)
    assert (whole.documents, whole.reused, whole.rejected) == (61, 0, made.rejected)
    assert files_of(tmp_path / "index") == files_of(tmp_path / "whole")


def test_a_file_that_changed_between_two_starts_is_cut_again_and_a_removed_one_is_gone(joined, many, provider, tmp_path):
    settings = {"chunker": CHUNKER, "embedder": embedder(provider.url)}
    docs = many.folder / "docs"
    interrupt(docs, tmp_path / "index", **settings)
    (docs / "07.md").write_text("The mill is a museum now.")
    (docs / "08.md").unlink()
    (docs / "new.md").write_text("A mill was built this year.")
    made = ingest(str(docs), str(tmp_path / "index"), **settings)
    assert (made.documents, made.reused) == (200, 198)
    chunks = pq.read_table(tmp_path / "index" / "chunks.parquet", columns=["document", "text"]).to_pylist()
    texts = {name: [row["text"] for row in chunks if row["document"] == name] for name in ("07.md", "08.md", "new.md")}
    assert texts == {"07.md": ["The mill is a museum now."], "08.md": [], "new.md": ["A mill was built this year."]}
    ingest(str(docs), str(tmp_path / "whole"), **settings)
    assert files_of(tmp_path / "index") == files_of(tmp_path / "whole")


def test_parts_of_other_settings_are_not_taken(joined, many, provider, tmp_path):
    settings = {"chunker": CHUNKER, "embedder": embedder(provider.url)}
    docs = many.folder / "docs"
    interrupt(docs, tmp_path / "index", **settings)
    other = {**settings, "chunker": {"sentence": {"chunk_size": 64, "chunk_overlap": 0}}}
    made = ingest(str(docs), str(tmp_path / "index"), **other)
    assert (made.documents, made.reused) == (200, 0)
    ingest(str(docs), str(tmp_path / "whole"), **other)
    assert files_of(tmp_path / "index") == files_of(tmp_path / "whole"), "and nothing is left of the others"


def test_a_model_in_the_workers_gives_the_same_bytes_too(joined, workspace, corpus, tmp_path):
    if not (HOME / "models" / "all-minilm-l6-v2").is_dir():
        pytest.skip("the model is not here: reverie models pull all-minilm-l6-v2 onnxruntime")
    found, _ = of_a_run(workspace, experiment(workspace, 'embedding.local = { model = "all-minilm-l6-v2" }'))
    made = ingest(str(corpus), str(tmp_path / "index"), chunker=CHUNKER, embedder="all-minilm-l6-v2")
    assert made.written["dimensions"] == 384
    assert {(tmp_path / "index" / "index.dense").read_bytes()} == found["dense"]
    assert {(tmp_path / "index" / "index.bm25").read_bytes()} == found["bm25"]


def test_a_corpus_and_parquet_on_s3_hold_what_a_folder_holds(joined, corpus, provider, s3, tmp_path, monkeypatch):
    import boto3

    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=s3.url, region_name="us-east-1")
    for path in corpus.rglob("*"):
        if path.is_file():
            client.upload_file(str(path), "reverie", f"mills/{path.relative_to(corpus)}")
    settings = {"chunker": CHUNKER, "embedder": embedder(provider.url)}
    near = ingest(str(corpus), Parquet(str(tmp_path / "near")), **settings)
    far = ingest("s3://reverie/mills", Parquet("s3://reverie/made"), **settings)
    index = ingest("s3://reverie/mills", "s3://reverie/index", **settings)
    assert (near.documents, near.chunks, near.rejected) == (far.documents, far.chunks, far.rejected)
    assert index.chunks == far.chunks
    assert near.written["files"] == far.written["files"], "names depend on what is in the files"
    for name in far.written["files"]:
        body = client.get_object(Bucket="reverie", Key=f"made/{name}")["Body"].read()
        assert pq.read_table(pa.BufferReader(body)).equals(pq.read_table(tmp_path / "near" / name))
    names = {entry["Key"] for entry in client.list_objects_v2(Bucket="reverie", Prefix="index/")["Contents"]}
    assert names == {"index/chunks.parquet", "index/index.dense", "index/index.bm25"}
    with pytest.raises(ValueError, match="Parquet files already"):
        ingest(str(corpus), Parquet(str(tmp_path / "near")), **settings)


def test_chunks_go_to_a_chroma_server_and_are_found_there(joined, corpus, provider, tmp_path):
    chromadb = pytest.importorskip("chromadb", reason="Chroma is not installed: `make cluster` installs it")
    port = servers.free_port()
    program = Path(sys.executable).with_name("chroma")
    log = open(tmp_path / "chroma.log", "wb")  # noqa: SIM115: the server's
    command = [program, "run", "--path", tmp_path / "chroma", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "ANONYMIZED_TELEMETRY": "False"})
    try:
        servers.wait_for("Chroma", lambda: servers.answers(f"http://127.0.0.1:{port}/api/v2/heartbeat"), 120, server)
        sink = Chroma(f"http://127.0.0.1:{port}", "mills")
        made = ingest(str(corpus), sink, chunker=CHUNKER, embedder=embedder(provider.url))
        assert made.written["entries"] == made.chunks > 61 * 5
        collection = chromadb.HttpClient(host="127.0.0.1", port=port).get_collection("mills", embedding_function=None)
        one = collection.get(ids=["part/03.md#0"], include=["documents", "metadatas", "embeddings"])
        assert "Mill 3" in one["documents"][0]
        assert one["metadatas"][0]["document"] == "part/03.md"
        nearest = collection.query(query_embeddings=[one["embeddings"][0]], n_results=1)
        assert nearest["ids"][0] == ["part/03.md#0"]
        # The same again replaces what is there.
        again = ingest(str(corpus), Chroma(f"http://127.0.0.1:{port}", "mills"), chunker=CHUNKER, embedder=embedder(provider.url))
        assert again.written["entries"] == made.chunks
    finally:
        servers.stop(server)


def test_every_stage_is_an_operator_of_the_dashboard(joined, corpus, provider, tmp_path):
    ingest(str(corpus), Parquet(str(tmp_path / "made")), chunker=CHUNKER, embedder=embedder(provider.url))
    job = ray.get_runtime_context().get_job_id()
    deadline = time.monotonic() + 300
    while True:
        with urllib.request.urlopen(f"{joined.dashboard}/api/data/datasets/{job}") as response:
            datasets = json.load(response)["datasets"]
        if datasets and datasets[0]["state"] == "FINISHED" or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    names = " ".join(operator["name"] for operator in datasets[0]["operators"])
    for stage in ("ReadBinary", "MapBatches(Parse)", "MapBatches(Chunk)", "MapBatches(Embed)", "MapBatches(Write)"):
        assert stage in names
    assert "->" not in names, "no two are joined"


def test_a_file_over_the_limit_is_rejected_unread(joined, corpus, provider, tmp_path):
    (corpus / "large.md").write_text("word " * 20_000)
    limits = {"file_bytes": 50_000}
    made = ingest(str(corpus), str(tmp_path / "index"), chunker=CHUNKER, embedder=embedder(provider.url), limits=limits)
    reasons = {each.path: each.reason for each in made.rejected}
    assert reasons["large.md"] == "over a limit: 100000 bytes, and at most 50000 are read"
    assert made.documents == 61


def test_a_corpus_without_a_document_gives_an_empty_index_and_all_reasons(joined, provider, tmp_path):
    (tmp_path / "docs").mkdir()
    for name in ("a.md", "b.pdf"):
        (tmp_path / "docs" / name).write_text("")
    settings = {"chunker": CHUNKER, "embedder": embedder(provider.url)}
    for sink in (str(tmp_path / "index"), Parquet(str(tmp_path / "made"))):
        made = ingest(str(tmp_path / "docs"), sink, **settings)
        assert (made.documents, made.chunks, [each.path for each in made.rejected]) == (0, 0, ["a.md", "b.pdf"])


def test_a_pool_that_leaves_nothing_to_read_with_is_refused(joined, corpus, provider, tmp_path):
    with pytest.raises(ValueError, match="at most 2 actors"):
        ingest(str(corpus), str(tmp_path / "index"), chunker=CHUNKER, embedder=embedder(provider.url), actors=3)


def test_mistakes_are_told_before_anything_runs(tmp_path):
    (tmp_path / "a.md").write_text("Text.")
    with pytest.raises(ValueError, match="no such file or folder"):
        ingest(str(tmp_path / "nowhere"), str(tmp_path / "index"))
    with pytest.raises(ValueError, match="no file matches"):
        ingest(str(tmp_path), str(tmp_path / "index"), include=["*.pdf"])
    with pytest.raises(ValueError, match="chunk_sise"):
        ingest(str(tmp_path), str(tmp_path / "index"), chunker={"sentence": {"chunk_sise": 32}})
    with pytest.raises(ValueError, match="no Chroma server answers"):
        pytest.importorskip("chromadb")
        ingest(str(tmp_path), Chroma("http://127.0.0.1:1", "mills"))
    assert not ray.is_initialized()


@ray.remote(num_cpus=1)
class Occupant:
    """Something else that runs on the cluster."""

    def there(self) -> None:
        """Nothing."""


def test_a_pipeline_that_cannot_move_says_why_and_lets_go(joined, corpus, provider, tmp_path):
    occupants = [Occupant.remote() for _ in range(3)]
    ray.get([occupant.there.remote() for occupant in occupants])
    settings = {"chunker": CHUNKER, "embedder": embedder(provider.url)}
    with pytest.raises(Stalled, match="0 of the cluster's 3 CPUs are free.*fewer actors.*other jobs"):
        ingest(str(corpus), str(tmp_path / "index"), stalled_after=6, **settings)
    for occupant in occupants:
        ray.kill(occupant)
    # Its own tasks and actors are gone with it.
    assert ingest(str(corpus), str(tmp_path / "index"), stalled_after=600, **settings).documents == 61
