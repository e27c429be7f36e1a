"""Databases on a cluster: workers fill and search a table, and ask a search service, as one machine does."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import databases
from conftest import Run, differences, without_times


@pytest.fixture
def postgres(tmp_path_factory):
    with databases.postgres(tmp_path_factory.mktemp("postgres")) as url:
        yield url


class Service(BaseHTTPRequestHandler):
    """Finds the mill that a question names."""

    asked = 0

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).asked += 1
        number = int(body["question"].split("number ")[1].split(" ")[0])
        passage = {"text": f"The mill number {number} was built in {1700 + number}.", "file": f"{number:02}.md"}
        reply = json.dumps({"passages": [passage]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


@contextmanager
def search_service():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/search"
    finally:
        server.shutdown()


def both(workspace, provider, ray_cluster, space: str, environment: dict):
    """The results of an experiment with this space here and on the cluster, and those of repeating the second."""
    results = []
    for name, arguments in (("here", []), ("there", ["--engine", "ray", "--address", ray_cluster.address])):
        path = workspace.experiment(name, provider.url)
        text = path.read_text()
        text = text[: text.index("[space]")] + space + text[text.index("[evaluate]") :]
        path.write_text(text.replace(', "token_f1"', ""))
        results.append(Run("run", "-f", path, "--json", *arguments, environment=environment).succeeds())
    results.append(Run("run", "-f", path, "--json", environment=environment).succeeds())
    return results


def test_workers_fill_and_search_a_table_as_one_machine_does(ray_cluster, workspace, provider, postgres):
    index = '["flat", { pgvector = {} }, { pgvector = { kind = "exact", precision = "f16" } }]'
    space = f"""[space]
chunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}]
embedder = ["emb"]
index = {index}
retriever = [{{ dense = {{ top_k = 2 }} }}]
"""
    here, there, again = both(workspace, provider, ray_cluster, space, {"DATABASE_URL": postgres})
    for results in (here, there):
        assert len(results["trials"]) == 3
        results.pop("looked_for")
        results.pop("warnings")
        for trial in results["trials"]:
            trial.pop("index_bytes", None)
    assert differences(without_times(here), without_times(there)) == []
    recalls = [trial["index_recall"]["mean"] for trial in there["trials"] if "index_recall" in trial]
    assert len(recalls) == 2 and min(recalls) > 0.9
    assert again["executed"] == 0


def test_workers_ask_a_search_service_as_one_machine_does(ray_cluster, workspace, provider):
    with search_service() as url:
        space = f"""[space]
retriever = [{{ http = {{ url = "{url}", passage = {{ document = "file" }}, version = "1", top_k = 2 }} }}]
"""
        here, there, again = both(workspace, provider, ray_cluster, space, {})
    for results in (here, there):
        results.pop("looked_for")
        results.pop("warnings")
        assert results["trials"][0]["metrics"]["recall"]["mean"] == 1.0
    assert differences(without_times(here), without_times(there)) == []
    assert Service.asked == 2 * 60, "each question once for each store"
    assert again["executed"] == 0
