"""The plain binary submits a run as a job of a Ray cluster, follows it, stops it, and goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

from conftest import ROOT, Provider, Run, servers

BINARY = ROOT / "target" / "release" / "reverie"


@pytest.fixture(scope="module")
def cluster():
    """Two nodes whose dashboard takes jobs."""
    if not BINARY.exists():
        pytest.skip("the binary is not built: `make build`")
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "RAY_JOB_STOP_WAIT_TIME_S": "5"}
    with tempfile.TemporaryDirectory(prefix="rv") as folder:
        try:
            with servers.ray(Path(folder), nodes=2, octet=252, environment=environment) as made:
                yield made
        except servers.NotStarted as error:
            pytest.skip(f"Ray did not come up on this machine: {error}")


def wheel() -> Path:
    """The wheel that `make cluster` has packed, or the newest other one of this checkout."""
    folder = ROOT / "target" / "wheels"
    found = [*folder.glob("packed/reverie-*.whl"), *folder.glob("reverie-*.whl")]
    wheels = sorted(found, key=lambda path: path.stat().st_mtime)
    if not wheels:
        pytest.skip("there is no wheel: `make cluster` or `make wheel`")
    return wheels[-1]


def jobs(cluster) -> list[dict]:
    """What the cluster says of its jobs."""
    with urllib.request.urlopen(f"{cluster.dashboard}/api/jobs/") as response:
        return json.load(response)


def test_a_job_is_followed_stopped_by_ctrl_c_and_resumed_by_submitting_again(cluster, workspace):
    slow = Provider(latency={"constant": {"seconds": 0.5}}, concurrency=4)
    try:
        rest = f'[engine]\nray = {{ address = "{cluster.dashboard}", wheel = "{wheel()}" }}'
        experiment = workspace.experiment("job", slow.url, rest=rest)
        first = Run("run", "-f", experiment, program=BINARY)
        deadline = time.monotonic() + 600
        while slow.statistics()["answered"] < 60:
            assert first.process.poll() is None, first.end().err
            assert time.monotonic() < deadline, "no calls were made"
            time.sleep(0.2)
        first.process.send_signal(signal.SIGINT)
        first.end()
        assert first.code == 130, first.err
        assert "job reverie-mills-" in first.err
        assert "interrupted" in first.err
        paid = slow.statistics()["answered"]
        assert [job["status"] for job in jobs(cluster) if job["type"] == "SUBMISSION"] == ["STOPPED"]

        second = Run("run", "-f", experiment, "--json", program=BINARY).end()
        assert second.code == 0, second.err + second.out
        results = json.loads(second.out)
        assert len(results["trials"]) == 4
        assert results["reused"] > 0, "what the stopped job finished is not done again"
        statistics = slow.statistics()
        assert statistics["answered"] - statistics["unique_answered"] <= 8, "only calls in flight are paid twice"
        assert statistics["answered"] > paid
        # What the job found is in the shared store: this machine shows it.
        shown = subprocess.run([BINARY, "leaderboard", "-f", experiment, "--json"], capture_output=True, text=True, check=True)
        assert [row["id"] for row in json.loads(shown.stdout)["rows"]] == [trial["trial"]["id"] for trial in results["trials"]]
    finally:
        slow.stop()


def test_a_job_keeps_the_budget_of_the_file_and_that_of_the_command_line(cluster, workspace, provider):
    rest = f'budget = {{ calls = 60 }}\n[engine]\nray = {{ address = "{cluster.dashboard}", wheel = "{wheel()}" }}'
    experiment = workspace.experiment("capped", provider.url, rest=rest)
    capped = Run("run", "-f", experiment, program=BINARY).end()
    assert capped.code == 4, capped.err + capped.out
    assert "PARTIAL" in capped.out
    assert provider.statistics()["requests"] == 60
    # Dollars without prices are refused, by the job as on this machine.
    priceless = Run("run", "-f", experiment, "--budget-usd", "0.5", program=BINARY).end()
    assert priceless.code == 2, priceless.err + priceless.out
    assert "models.gpt" in priceless.err and "$0.50" in priceless.err
    assert provider.statistics()["requests"] == 60


def test_what_a_job_cannot_reach_is_told_before_anything_is_submitted(cluster, workspace, provider):
    before = len(jobs(cluster))
    rest = f'[engine]\nray = {{ address = "{cluster.dashboard}" }}'
    experiment = workspace.experiment("relative", provider.url, store="./here", source="docs", rest=rest)
    run = Run("run", "-f", experiment, program=BINARY).end()
    assert run.code == 2
    assert "store: `./here` is a folder of this machine" in run.err
    assert "corpus.source: `docs`" in run.err
    assert len(jobs(cluster)) == before


def test_a_dashboard_that_is_not_there_is_named(workspace, provider):
    address = f"http://127.0.0.1:{servers.free_port()}"
    experiment = workspace.experiment("gone", provider.url, rest=f'[engine]\nray = {{ address = "{address}" }}')
    run = Run("run", "-f", experiment, program=BINARY).end()
    assert run.code == 1
    assert address in run.err and "dashboard" in run.err


def test_a_cluster_with_tokens_is_joined_with_one_and_refuses_without(workspace, provider):
    token = "a" * 40
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    with tempfile.TemporaryDirectory(prefix="rv") as folder:
        try:
            with servers.ray(Path(folder), nodes=1, octet=253, environment=environment) as guarded:
                rest = f'[engine]\nray = {{ address = "{guarded.dashboard}", wheel = "{wheel()}" }}'
                experiment = workspace.experiment("guarded", provider.url, rest=rest)
                without = Run("run", "-f", experiment, program=BINARY).end()
                assert without.code == 1
                assert "asks for a token" in without.err and "token_env" in without.err
                given = Run("run", "-f", experiment, program=BINARY, environment=environment).end()
                assert given.code == 0, given.err + given.out
        except servers.NotStarted as error:
            pytest.skip(f"Ray did not come up on this machine: {error}")
