"""Clients for Node against `reverie serve`: node/clients.mjs says what each must do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "node"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A folder with the clients of package.json."""
    if not shutil.which("npm"):
        pytest.skip("Node is not installed")
    folder = tmp_path_factory.mktemp("node")
    for program in PROGRAMS.iterdir():
        if program.is_file():
            shutil.copy(program, folder)
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True, timeout=600)
    return folder


CLIENTS = [
    "openai", "vercel", "vercelResponses", "vercelCompatible", "langchain", "mcp", "mcpRemote", "openapiTypescript",
]  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_node(service, node, client):
    done = subprocess.run(["node", "clients.mjs", service, "mast", client], cwd=node, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
