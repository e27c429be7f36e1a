"""The notebooks of examples/notebooks run from start to end: on a Ray cluster, against S3, and say what they should."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from conftest import ROOT, Provider, servers

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: `make cluster` installs it")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("boto3")
NOTEBOOKS = ROOT / "examples" / "notebooks"
HOME = Path(os.environ.get("REVERIE_HOME", ROOT / ".reverie"))


class Writer(http.server.BaseHTTPRequestHandler):
    """A chat model that asks about the second sentence of the passage it is shown, says yes to every check, and knows
    nothing by itself."""

    def do_GET(self) -> None:
        """Lists the models, which says that somebody is here."""
        self.reply({"object": "list", "data": [{"id": "gpt", "object": "model"}]})

    def do_POST(self) -> None:
        """Answers a chat request."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = request["messages"][-1]["content"]
        schema = request.get("response_format", {}).get("json_schema", {}).get("schema", {})
        fields = schema.get("properties", {})
        if "quote" in fields:
            passages = [part.split("\n</passage>")[0] for part in prompt.split("<passage>\n")[1:]]
            quotes = [passage.split(". ")[1].strip() for passage in passages]
            words = quotes[0].rstrip(".").split()
            reply = {"question": f"What follows {' '.join(words[:-3])}?", "answer": " ".join(words[-3:])}
            reply.update(zip(("quote", "second_quote"), quotes))
        elif "verdicts" in fields:
            reply = {"verdicts": [{"number": 1, "reason": "it does", "verdict": "Yes"}]}
        elif "question" in fields:
            reply = {"question": "Who paints the masts?"}
        else:
            reply = "unknown"
        content = reply if isinstance(reply, str) else json.dumps(reply)
        self.reply(
            {
                "choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 300, "completion_tokens": 40},
            }
        )

    def reply(self, value: dict) -> None:
        """Sends JSON."""
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        """Says nothing."""


@contextlib.contextmanager
def writer():
    """An endpoint with such a model."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Writer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def notebook(tmp_path, s3, monkeypatch):
    """Executes a notebook in a copy of its folder, and gives its cells' outputs as one text."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS, folder)

    def execute(name: str, **environment: str) -> str:
        opened = nbformat.read(folder / name, 4)
        assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in opened.cells), "kept outputs"
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        surroundings = {
            **os.environ,
            "PATH": programs,
            "REVERIE_HOME": str(HOME),
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            **environment,
        }
        client = nbclient.NotebookClient(
            opened, timeout=300, startup_timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
        )
        try:
            client.execute(env=surroundings)
        finally:
            outputs = [output for cell in opened.cells for output in cell.get("outputs", [])]
            shown = "\n".join(
                output.get("text") or "\n".join(map(str, output.get("data", {}).values())) for output in outputs
            )
            print(shown)  # pytest shows it where a test fails
        return shown

    execute.folder = folder
    return execute


@pytest.fixture
def tracking(tmp_path, s3):
    """The address of an MLflow server, where MLflow is installed."""
    if not (servers.BIN / "mlflow").exists():
        yield None
        return
    folder = tmp_path / "mlflow"
    with servers.mlflow(folder, f"sqlite:///{tmp_path}/mlflow.db", str(folder / "artifacts"), s3) as server:
        yield server.url


def tracked(url: str, experiment: str) -> list[dict]:
    """The runs that MLflow knows of an experiment."""

    def ask(path: str, body: dict | None = None) -> dict:
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{url}/api/2.0/mlflow/{path}", data, {"content-type": "application/json"})
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    found = ask(f"experiments/get-by-name?experiment_name={experiment}")["experiment"]["experiment_id"]
    return ask("runs/search", {"experiment_ids": [found], "max_results": 100})["runs"]


def bucket_of(s3):
    """The bucket's client."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=s3.url,
        aws_access_key_id=servers.ACCESS,
        aws_secret_access_key=servers.SECRET,
        region_name="us-east-1",
    )


def test_documents_are_put_into_s3_parsed_and_cut(notebook, s3):
    shown = notebook("1-documents.ipynb")
    assert "documents/messages.html" in shown
    assert "Installing a Heron weather station" in shown
    assert shown.count(" on average") == 4
    objects = bucket_of(s3).list_objects_v2(Bucket="reverie", Prefix="documents/")["Contents"]
    assert len(objects) == 4


def test_questions_are_generated_joined_and_exported(notebook, s3):
    upload_documents(s3)
    with writer() as url:
        shown = notebook("2-golden-dataset.ipynb", REVERIE_ENDPOINT=url, REVERIE_QUESTIONS="4")
    generated = (notebook.folder / "generated.jsonl").read_text().splitlines()
    assert generated and all("What follows" in line or "Who paints" in line for line in generated)
    assert f"{10 + len(generated)} questions at s3://reverie/golden/golden.jsonl" in shown
    objects = bucket_of(s3).list_objects_v2(Bucket="reverie", Prefix="golden/")["Contents"]
    assert [entry["Key"] for entry in objects] == ["golden/golden.jsonl", "golden/ragas.parquet"]


def test_an_experiment_runs_on_ray_is_tracked_and_its_pipelines_answer(notebook, s3, ray_cluster, provider, tracking):
    if not (HOME / "models" / "all-minilm-l6-v2").exists():
        pytest.skip("the embedding model is not there: `reverie models pull all-minilm-l6-v2 onnxruntime`")
    upload_documents(s3)
    bucket_of(s3).upload_file(str(NOTEBOOKS / "golden.jsonl"), "reverie", "golden/golden.jsonl")
    surroundings = {"REVERIE_ENDPOINT": f"{provider.url}/v1", "RAY_ADDRESS": ray_cluster.address}
    if tracking:
        surroundings["MLFLOW_TRACKING_URI"] = tracking
    shown = notebook("3-experiment.ipynb", **surroundings)
    for expected in (
        "embed",
        "sentence_window",
        "95 % interval",
        "Parallel coordinates",
        "top_k",
        "numbers",
        "Who built the first station?",
    ):
        assert expected in shown, expected
    assert "t06" in shown, "six trials"
    assert provider.statistics()["requests"] > 20
    page = (notebook.folder / "report.html").read_text()
    assert page.startswith("<!doctype html>") and "Ingrid Solheim" in page
    objects = bucket_of(s3).list_objects_v2(Bucket="reverie", Prefix="store/artifacts/")
    assert objects["KeyCount"] > 10
    if tracking:
        runs = tracked(tracking, "heron")
        assert [run["info"]["status"] for run in runs] == ["FINISHED"] * 7, "a run and its six trials"


def test_the_executor_makes_many_calls_and_does_so_on_ray_too(notebook, ray_cluster):
    strict = Provider(latency={"constant": {"seconds": 0.1}}, concurrency=8)
    try:
        shown = notebook("4-executor.ipynb", REVERIE_ENDPOINT=f"{strict.url}/v1", RAY_ADDRESS=ray_cluster.address)
        rejected = sum(strict.statistics()["rejected"].values())
    finally:
        strict.stop()
    assert "COMPLETED WITH RETRIES" in shown and "'FAILED': 1})" in shown, "all but the one without a question"
    assert "(59, 'of', 60)" in shown
    assert rejected > 0, "sixteen at once are more than eight"


def upload_documents(s3) -> None:
    """What the first notebook does."""
    for path in sorted((NOTEBOOKS / "documents").iterdir()):
        bucket_of(s3).upload_file(str(path), "reverie", f"documents/{path.name}")
