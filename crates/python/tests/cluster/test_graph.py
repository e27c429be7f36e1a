"""A bundle as a graph on Ray Serve: the same answers as alone, whole and streamed; each part has replicas of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
import time
import urllib.parse
from pathlib import Path

import pytest
from conftest import REVERIE, ROOT, Run
from test_serve import HOME, PATIENT, actors_of, asked, until

import ray  # noqa: I001

serve = pytest.importorskip("ray.serve")
yaml = pytest.importorskip("yaml")
PORT = 8432
URL = f"http://127.0.0.1:{PORT}"


class Alone:
    """`reverie serve` of a bundle, as a process."""

    def __init__(self, bundle: str, environment: dict, folder: Path) -> None:
        command = [str(REVERIE), "serve", bundle, "--listen", "127.0.0.1:0", "--json", "--public-url", URL]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **environment}, cwd=folder)
        self.url = json.loads(self.process.stdout.readline())["url"]

    def stop(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def graph(ray_cluster, s3, workspace, provider):
    """Serves a bundle of an experiment as a graph, and gives its address on S3."""
    environment = {**s3.environment, "REVERIE_HOME": str(HOME)}
    ray.init(address=ray_cluster.address, namespace="serve", logging_level="warning", log_to_driver=False)
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)

    def start(url: str, embeds: bool = True, **settings) -> str:
        from reverie.ray.serve import Scale, graph

        experiment = workspace.experiment("graphs", url) if embeds else workspace.writing("words", url, "words")
        bundle = f"s3://reverie/bundles/{workspace.folder.name}"
        Run("run", "-f", experiment, "--quiet", environment=environment, folder=workspace.folder).end()
        made = Run("promote", *(["t04"] if embeds else []), "-f", experiment, "--output", bundle, environment=environment, folder=workspace.folder).end()
        assert made.code == 0, made.err
        start_proxy()
        small = Scale(replicas=(1, 1), cpus=0.1, ongoing=16)
        parts = {part: small for part in ("encoder", "vector_store", "retriever", "llm", "qa", "gateway")}
        given = graph(bundle, environment=environment, public_url=URL, **{**PATIENT, **parts, **settings})
        serve.run(given, name="mills", route_prefix="/")
        return bundle

    yield start
    serve.shutdown()
    ray.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def start_proxy() -> None:
    """Starts Ray Serve with a proxy on the head alone: all nodes are on this machine. A busy machine is late."""
    for left in (2, 1, 0):
        try:
            serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": PORT})
            return
        except TimeoutError:
            if not left:
                raise


def answer(question: str, url: str = URL) -> dict:
    status, body = asked(f"/rag/answer?query={urllib.parse.quote(question)}", url=url)
    assert status == 200, body
    return {name: value for name, value in json.loads(body).items() if name != "id"}


def streamed(question: str, url: str) -> tuple[str, list]:
    """The text of a streamed answer, and its sources."""
    body = {"model": "mills", "messages": [{"role": "user", "content": question}], "stream": True}
    status, sent = asked("/v1/chat/completions", body, url=url)
    assert status == 200 and sent.rstrip().endswith(b"data: [DONE]"), sent[-300:]
    chunks = [json.loads(line[6:]) for line in sent.decode().splitlines() if line.startswith("data: {")]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
    return text, next(chunk["sources"] for chunk in chunks if "sources" in chunk)


def replicas(part: str) -> int:
    """How many replicas of a part run."""
    return serve.status().applications["mills"].deployments[part].replica_states.get("RUNNING", 0)


def test_a_graph_answers_every_golden_question_as_one_process_does(graph, workspace, provider, s3):
    bundle = graph(provider.url)
    deployed = set(serve.status().applications["mills"].deployments)
    assert deployed == {"Encoder", "VectorStore", "Retriever", "LLM", "QA", "Gateway"}, "there is nothing to rerank"
    alone = Alone(bundle, {**s3.environment, "REVERIE_HOME": str(HOME)}, workspace.folder)
    try:
        for line in workspace.golden.splitlines():
            question = json.loads(line)["question"]
            assert answer(question) == answer(question, alone.url)
            assert streamed(question, URL) == streamed(question, alone.url)
        source = answer("When was the mill number 7 built?")["sources"][0]["id"]
        for path, body in (
            (f"/rag/sources/{source}", None),
            ("/v1/embeddings", {"model": "emb", "input": ["a mill", "oats"]}),
            ("/v1/models", None),
        ):
            assert asked(path, body, url=URL) == asked(path, body, url=alone.url), path
    finally:
        alone.stop()


def test_a_model_that_fails_is_told_as_such_and_opens_the_breaker(graph, slow):
    graph(slow.url, embeds=False)
    slow.fails, slow.status = True, 500
    failures = [asked(f"/rag/answer?query=Which+mill+is+{i}%3F", url=URL) for i in range(5)]
    assert [status for status, _ in failures] == [502] * 5, failures
    assert json.loads(failures[0][1])["error"]["code"] == "upstream_error"
    status, body = asked("/rag/answer?query=Which+mill+is+6%3F", url=URL)
    assert status == 503 and "several times in a row" in json.loads(body)["error"]["message"]


def test_a_client_that_leaves_ends_the_call_of_the_model(graph, slow):
    graph(slow.url, embeds=False)
    # The model writes until its reader leaves, so what is read comes while it is written.
    slow.endless = True
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=600)
    body = {"model": "mills", "messages": [{"role": "user", "content": "When was the mill number 7 built?"}], "stream": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200
    read = b""
    while b"word3" not in read:
        read += response.read1(4096)
    connection.close()
    response.close()
    assert slow.broken_off.wait(300), "the endpoint goes on for nobody"


def test_one_part_gets_replicas_alone_and_a_killed_one_fails_no_other_request(graph, provider):
    from reverie.ray.serve import Scale

    graph(provider.url, llm=Scale(replicas=(1, 2), cpus=0.1, ongoing=2, down_after=600), retriever=Scale(replicas=(2, 2), cpus=0.1, ongoing=16))
    stop, failed, done = threading.Event(), [], []

    def load(thread: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            began = time.monotonic()
            status, body = asked(f"/rag/answer?query=Which+mill+is+{thread}+and+{number}%3F", url=URL)
            if status != 200:
                failed.append((began, status, body[:200]))
            done.append(began)

    threads = [threading.Thread(target=load, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: replicas("LLM") == 2, 300, "a second LLM under load")
        assert {part: replicas(part) for part in ("Encoder", "VectorStore", "QA", "Gateway")} == {
            "Encoder": 1, "VectorStore": 1, "QA": 1, "Gateway": 1,
        }
        pid = actors_of("Retriever")[0]
        os.kill(pid, signal.SIGKILL)
        until(lambda: pid not in actors_of("Retriever") and replicas("Retriever") == 2, 300, "a new retriever")
        back = time.monotonic()
        until(lambda: sum(began > back for began in done) >= 40, 300, "more answers")
        late = [failure for failure in failed if failure[0] > back]
        assert late == [], "requests fail that began after the replica came back"
        # What was asked of it was asked of the other one.
        assert len(failed) <= 8, failed
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert all(status == 503 for _, status, _ in failed), failed


@pytest.mark.parametrize("arguments", [{}, {"graph": "true", "llm.max_replicas": "3", "encoder.gpus": "1"}])
def test_what_serve_build_writes_is_what_ray_deploys(ray_cluster, arguments, tmp_path):
    from ray.serve._private.deploy_utils import get_app_code_version  # noqa: F401: it is the version that was tried
    from ray.serve.schema import ServeDeploySchema

    from reverie.ray.serve import build

    with pytest.raises(ValueError, match="name the bundle"):
        build({})
    application = build({"bundle": str(tmp_path), **arguments})
    written = {
        "applications": [
            {"name": "manuals", "route_prefix": "/", "import_path": "reverie.ray.serve:build", "args": {"bundle": "b", **arguments}}
        ]
    }
    ServeDeploySchema.model_validate(written)
    deployment = application._bound_deployment
    assert deployment.name == ("Gateway" if arguments else "Service")


def test_the_rayservice_is_what_ray_and_the_builder_take():
    from ray.serve.schema import ServeDeploySchema

    from reverie.ray.serve import build

    manifest = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "base" / "ray" / "rayservice.yaml").read_text())
    config = ServeDeploySchema.model_validate(yaml.safe_load(manifest["spec"]["serveConfigV2"]))
    (application,) = config.applications
    assert application.import_path == "reverie.ray.serve:build"
    # The builder knows each argument: `reverie.Service` is not made here, so no bundle is needed.
    assert build(application.args)._bound_deployment.name == "Gateway"
