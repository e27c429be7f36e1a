"""Clients for Node against `reverie serve`: libraries, for which node/clients.mjs says what each must do, and programs."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ANSWER, QUESTION


def install(source: str, folder: Path, *options: str) -> Path:
    """The folder with what a package.json names."""
    if not shutil.which("npm"):
        pytest.skip("Node is not installed: npm is in the package `npm` of Debian and Ubuntu")
    for program in (Path(__file__).parent / source).iterdir():
        if program.is_file():
            shutil.copy(program, folder)
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *options]
    subprocess.run(command, cwd=folder, check=True, timeout=600)
    return folder


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A folder with the clients of node/package.json."""
    return install("node", tmp_path_factory.mktemp("node"))


CLIENTS = [
    "openai", "vercel", "vercelResponses", "vercelCompatible", "langchain", "mcp", "mcpRemote", "openapiTypescript",
]  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_node(service, node, client):
    done = subprocess.run(["node", "clients.mjs", service, "mast", client], cwd=node, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr


def inspector(node, url, *arguments, key="none"):
    """How the MCP Inspector ended, and the result or the error that it printed."""
    command = ["node", "node_modules/.bin/mcp-inspector", "--cli", f"{url}/mcp", "--transport", "http"]
    command += ["--header", f"Authorization: Bearer {key}", "--stored-auth-only", "--format", "json", "--quiet"]
    environment = {**os.environ, "HOME": str(node)}
    done = subprocess.run([*command, *arguments], cwd=node, env=environment, capture_output=True, text=True, timeout=180)
    return done.returncode, json.loads(done.stdout or done.stderr)


def test_the_inspector_approves_the_tools_and_calls_them(service, node):
    # `--strict` ends with an error if other clients could not use a schema.
    code, listed = inspector(node, service, "--method", "tools/list", "--strict")
    assert code == 0 and {tool["name"] for tool in listed["result"]["tools"]} == {"search", "fetch"}
    call = ["--method", "tools/call", "--tool-name"]
    code, found = inspector(node, service, *call, "search", "--tool-arg", "query=rope")
    first = found["result"]["structuredContent"]["results"][0]
    assert code == 0 and first["text"] == "Tie the rope to the post."
    code, fetched = inspector(node, service, *call, "fetch", "--tool-arg", f"id={first['id']}")
    assert code == 0 and first["text"] in fetched["result"]["structuredContent"]["text"]


def test_the_inspector_is_refused_with_a_wrong_key(locked, node):
    url, key = locked
    assert inspector(node, url, "--method", "tools/list", key=key)[0] == 0
    code, refused = inspector(node, url, "--method", "tools/list", key="wrong")
    assert code == 3 and refused["error"]["code"] == "auth_required"
    assert "the API key is not known here" in refused["error"]["message"]


@pytest.fixture(scope="module")
def promptfoo(tmp_path_factory):
    """A function that runs an eval of two questions with promptfoo. It returns the results, and what was printed."""
    # promptfoo's optional packages are 1.7 GB, for other models. It needs one of them: the library of its database.
    machine = {"x86_64": "linux-x64-gnu", "aarch64": "linux-arm64-gnu"}.get(platform.machine())
    if platform.system() != "Linux" or not machine:
        pytest.skip("promptfoo is tested on Linux with x86-64 or ARM only")
    folder = install("node-apart", tmp_path_factory.mktemp("node-apart"), "--omit=optional")
    version = json.loads((folder / "node_modules/libsql/package.json").read_text())["version"]
    install("node-apart", folder, "--omit=optional", "--no-save", f"@libsql/{machine}@{version}")
    programs = folder / "node_modules" / ".bin"
    environment = {
        **os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PROMPTFOO_CONFIG_DIR": str(folder / "settings"),
        "PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1",
    }  # fmt: skip

    def evaluate(*providers):
        tests = [
            {"vars": {"question": QUESTION}, "assert": [{"type": "contains", "value": ANSWER}]},
            {
                "vars": {"question": "What does a red light mean?"},
                "assert": [{"type": "contains", "value": "the battery is empty"}],
            },
        ]
        settings = {"prompts": ["{{question}}"], "providers": providers, "tests": tests}
        (folder / "settings.yaml").write_text(json.dumps(settings))
        command = ["promptfoo", "eval", "--config", "settings.yaml", "--output", "results.json"]
        command += ["--no-cache", "--no-table", "--no-progress-bar", "--no-share"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180)
        return json.loads((folder / "results.json").read_text())["results"], done.stdout + done.stderr

    yield evaluate
    shutil.rmtree(folder)


def test_promptfoo_evaluates_three_ways_to_ask(service, promptfoo):
    api = {"apiBaseUrl": f"{service}/v1", "apiKey": "none"}
    own = {"method": "GET", "queryParams": {"query": "{{prompt}}"}, "transformResponse": "json.answer"}
    results, printed = promptfoo(
        {"id": "openai:chat:mast", "config": api},
        {"id": "openai:responses:mast", "config": api},
        {"id": f"{service}/rag/answer", "config": own},
    )
    counts = {name: results["stats"][name] for name in ("successes", "failures", "errors")}
    assert counts == {"successes": 6, "failures": 0, "errors": 0}, printed
    assert sum(ANSWER in result["response"]["output"] for result in results["results"]) == 3


def test_promptfoo_is_refused_with_a_wrong_key(locked, promptfoo):
    url, key = locked
    for attempt, successes in ((key, 2), ("wrong", 0)):
        api = {"apiBaseUrl": f"{url}/v1", "apiKey": attempt}
        results, printed = promptfoo({"id": "openai:chat:mast", "config": api})
        assert results["stats"]["successes"] == successes, printed
    assert "HTTP 401" in printed
    assert all("the API key is not known here" in result["error"] for result in results["results"])
