"""A bundle on Ray Serve: the same answers as anywhere, replicas that follow the load, and one that dies."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import Run

import ray  # noqa: I001

import reverie

serve = pytest.importorskip("ray.serve")
HOME = Path(os.environ.get("REVERIE_HOME", Path(__file__).parents[4] / ".reverie"))
PORT = 8431
URL = f"http://127.0.0.1:{PORT}"
# No answer is late on a busy machine.
PATIENT = {"deadline": 600, "first_token": 600}


@pytest.fixture
def served(ray_cluster, s3, workspace, provider):
    """The address of a bundle on S3 that Ray Serve serves, and the bundle."""
    experiment = workspace.experiment("served", provider.url)
    environment = {**s3.environment, "REVERIE_HOME": str(HOME)}
    bundle = f"s3://reverie/bundles/{workspace.folder.name}"
    Run("run", "-f", experiment, "--quiet", environment=environment, folder=workspace.folder).end()
    made = Run("promote", "t04", "-f", experiment, "--output", bundle, environment=environment, folder=workspace.folder).end()
    assert made.code == 0, made.err
    ray.init(address=ray_cluster.address, namespace="serve", logging_level="warning", log_to_driver=False)
    from reverie.ray.serve import app

    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    serve.run(
        app(bundle, replicas=(1, 2), ongoing=2, down_after=8, cpus=0.5, environment=environment, **PATIENT),
        name="mills", route_prefix="/",
    )
    os.environ.update(environment)
    yield bundle
    serve.shutdown()
    ray.shutdown()


def asked(path: str, body: dict | None = None, url: str = URL) -> tuple[int, bytes]:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url + path, data=data, headers={"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=600) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except (OSError, http.client.HTTPException):
        return 0, b""


def replicas() -> list[dict]:
    """The replicas that run."""
    status = serve.status().applications["mills"].deployments["Service"]
    return [name for name, count in status.replica_states.items() for _ in range(count) if name == "RUNNING"]


def of_here(bundle: str, target: str) -> dict:
    """What the same bundle answers in this process."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from test_serving import ask

    async def main() -> dict:
        _, _, parts = await ask(reverie.Service(bundle, public_url=URL), "GET", target)
        return json.loads(b"".join(parts))

    return asyncio.run(main())


def test_answers_are_those_of_a_service_alone_and_replicas_follow_the_load(served):
    target = "/rag/answer?query=When+was+the+mill+number+7+built%3F"
    status, body = asked(target)
    answered, here = json.loads(body), of_here(served, target)
    assert status == 200 and answered["answer"] == here["answer"]
    assert [source["id"] for source in answered["sources"]] == [source["id"] for source in here["sources"]]
    status, body = asked("/v1/chat/completions", {"model": "other", "messages": []})
    assert status == 404 and json.loads(body)["error"]["code"] == "model_not_found"

    assert len(replicas()) == 1
    stop, failed, done = threading.Event(), [], []

    def load(thread: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            began = time.monotonic()
            status, body = asked(f"/rag/answer?query=Which+mill+is+{thread}+and+{number}%3F")
            if status != 200:
                failed.append((began, status, body[:200]))
            done.append(began)

    threads = [threading.Thread(target=load, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(replicas()) == 2, 300, "a second replica under load")
        # A replica dies: what was in flight on it may fail, nothing else, and it comes back.
        assert failed == []
        pids = [actor["pid"] for actor in actors()]
        os.kill(pids[0], signal.SIGKILL)
        until(lambda: pids[0] not in [actor["pid"] for actor in actors()] and len(replicas()) == 2, 300, "a new replica")
        back = time.monotonic()
        until(lambda: sum(began > back for began in done) >= 36, 300, "more answers")
        late = [failure for failure in failed if failure[0] > back]
        assert late == [], "requests fail that began after the replica came back"
        assert len(failed) <= 12, failed
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    until(lambda: len(replicas()) == 1, 300, "one replica without load")


def actors() -> list[dict]:
    """The processes of the replicas."""
    from ray.util.state import list_actors

    found = list_actors(filters=[("state", "=", "ALIVE")], detail=True)
    return [{"pid": actor.pid} for actor in found if "ServeReplica" in actor.class_name]


def actors_of(deployment: str) -> list[int]:
    """The processes of a deployment's replicas."""
    from ray.util.state import list_actors

    found = list_actors(filters=[("state", "=", "ALIVE")], detail=True, limit=1000)
    return [actor.pid for actor in found if f"#{deployment}#" in (actor.name or "")]


def until(holds, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.5)
    raise AssertionError(f"{what}: not after {seconds} s")
