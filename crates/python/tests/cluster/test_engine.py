"""The engine `ray` beside the engine `local`: the same keys, artifacts and results, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from pathlib import Path

from conftest import Provider, Run, artifacts, differences, servers, without_times


def same_artifacts(one, other):
    """Equal names; equal bytes of all that holds no times."""
    one, other = artifacts(one), artifacts(other)
    assert one.keys() == other.keys() and one
    # Passages, vectors, indexes, chunks, documents: what differs can only be answers.
    different = [name for name in one if one[name] != other[name]]
    return len(one), different


def test_ray_gives_the_same_artifacts_and_results_as_one_machine(ray_cluster, workspace, provider):
    local = Run("run", "-f", workspace.experiment("local", provider.url), "--json").succeeds()
    experiment = workspace.experiment("remote", provider.url)
    remote = Run("run", "-f", experiment, "--json", "--engine", "ray", "--address", ray_cluster.address).succeeds()
    # The chunks and indexes of a cluster are on other machines, so the warnings that need them are not looked for there.
    here, there = without_times(local), without_times(remote)
    need_chunks = set(here.pop("looked_for")) - set(there.pop("looked_for"))
    assert need_chunks == {"evidence-in-no-chunk", "no-shared-words"}
    here["warnings"] = [warning for warning in here["warnings"] if warning["code"] not in need_chunks]
    assert differences(here, there) == []
    count, different = same_artifacts(workspace.folder / "local", workspace.folder / "remote")
    assert count > 50 and all(name.endswith(".parquet") for name in different)
    assert len(different) <= 4 * 8, "only the answers of four trials hold times"
    # What the one made, the other finds.
    again = Run("run", "-f", experiment, "--json").succeeds()
    assert again["executed"] == 0
    assert again["reused"] > 0


def test_the_limit_of_a_model_holds_for_all_workers_together(ray_cluster, workspace, provider):
    # This provider takes any number of calls at once, so it shows how many the workers have in flight together.
    counting = Provider(latency={"constant": {"seconds": 0.2}})
    try:
        experiment = workspace.experiment("limited", counting.url)
        # Only the chat model is counted, because each model has a limit of its own.
        chat, embedding = f'model = "gpt", base_url = "{counting.url}', f'model = "emb", base_url = "{counting.url}'
        text = experiment.read_text()
        assert chat in text and embedding in text
        text = text.replace(embedding, f'model = "emb", base_url = "{provider.url}')
        experiment.write_text(text.replace(chat, chat.replace('"gpt",', '"gpt", concurrency = 4,')))
        results = Run("run", "-f", experiment, "--json", "--engine", "ray", "--address", ray_cluster.address).succeeds()
        assert results["provider_errors"] == 0
        statistics = counting.statistics()
    finally:
        counting.stop()
    print(f"{statistics['requests']} requests, at most {statistics['max_in_flight']} at once")
    assert statistics["requests"] >= 60 and statistics["answered"] == statistics["requests"], statistics
    assert 1 <= statistics["max_in_flight"] <= 4, statistics


def test_a_limit_that_nobody_states_is_learned_by_all_workers_and_no_row_is_lost(ray_cluster, workspace):
    strict = Provider(latency={"constant": {"seconds": 0.2}}, concurrency=4)
    try:
        experiment = workspace.experiment("hidden", strict.url)
        results = Run("run", "-f", experiment, "--json", "--engine", "ray", "--address", ray_cluster.address).succeeds()
        assert results["provider_errors"] == 0
        statistics = strict.statistics()
    finally:
        strict.stop()
    requests, refused = statistics["requests"], sum(statistics["rejected"].values())
    # The share depends on how fast the machines are; workers that learned nothing are refused again and again.
    print(f"{refused} of {requests} requests refused")
    assert statistics["answered"] > 120 and statistics["answered"] == statistics["unique_answered"], statistics
    assert refused < statistics["answered"], statistics


def test_a_budget_holds_for_all_workers_together(ray_cluster, workspace, provider):
    experiment = workspace.experiment("budget", provider.url, rest="budget = { calls = 100 }")
    arguments = ("run", "-f", experiment, "--json", "--engine", "ray", "--address", ray_cluster.address)
    stopped = Run(*arguments).end()
    assert stopped.code == 4, f"a budget that is reached ends a run with 4, not {stopped.code}: {stopped.err}"
    budget = json.loads(stopped.out)["budget"]
    asked = provider.statistics()["requests"]
    assert budget["reached"] == "calls"
    assert budget["spent"]["calls"] == asked == 100, (budget, asked)
    assert budget["calls_not_made"] > 0
    # A larger one goes on from there, and pays nothing twice.
    experiment.write_text(experiment.read_text().replace("calls = 100", "calls = 10000"))
    results = Run(*arguments).succeeds()
    assert results["budget"]["reached"] is None
    statistics = provider.statistics()
    assert results["budget"]["spent"]["calls"] == statistics["requests"] - 100
    assert statistics["answered"] == statistics["unique_answered"]


def test_a_store_that_is_away_for_a_while_is_waited_for(ray_cluster, workspace, provider, tmp_path):
    expected = Run("run", "-f", workspace.experiment("here", provider.url), "--json").succeeds()
    with servers.s3(tmp_path / "s3", "away") as store:
        experiment = workspace.experiment("far", provider.url, store="s3://away/store")
        run = Run("run", "-f", experiment, "--json", "--engine", "ray", "--address", ray_cluster.address,
                  environment=store.environment)
        deadline = time.monotonic() + 300
        asked = provider.statistics()["requests"]
        while provider.statistics()["requests"] < asked + 60:
            assert run.process.poll() is None, run.end().err
            assert time.monotonic() < deadline
            time.sleep(0.1)
        store.kill()
        time.sleep(20)
        store.start()
        results = run.succeeds()
    assert differences(without_times(results)["trials"], without_times(expected)["trials"]) == []
    assert all(trial["failures"] == [] for trial in results["trials"])


def test_a_wrong_address_is_told_before_anything_runs(workspace, provider):
    experiment = workspace.experiment("nowhere", provider.url)
    run = Run("run", "-f", experiment, "--engine", "ray", "--address", "127.0.0.1:1").end()
    assert run.code == 2, run.err
    assert "engine.ray" in run.err


def test_a_killed_node_and_a_killed_driver_change_nothing(workspace):
    slow = Provider(latency={"constant": {"seconds": 0.4}})
    expected = Run("run", "-f", workspace.experiment("quiet", slow.url), "--json").succeeds()
    asked = slow.statistics()["answered"]
    slow.stop()
    slow = Provider(latency={"constant": {"seconds": 0.4}}, concurrency=6)
    with tempfile.TemporaryDirectory(prefix="rv") as folder, servers.ray(Path(folder), nodes=3, octet=251) as cluster:
        experiment = workspace.experiment("killed", slow.url)
        arguments = ("run", "-f", experiment, "--json", "--engine", "ray", "--address", cluster.address)
        first = Run(*arguments)
        deadline = time.monotonic() + 600
        while slow.statistics()["answered"] < asked / 3:
            assert first.process.poll() is None, first.end().err
            assert time.monotonic() < deadline
            time.sleep(0.1)
        cluster.kill(2)
        while slow.statistics()["answered"] < asked * 2 / 3:
            assert first.process.poll() is None, first.end().err
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(first.process.pid, signal.SIGKILL)
        first.end()
        results = Run(*arguments).succeeds()
        assert differences(without_times(results)["trials"], without_times(expected)["trials"]) == []
        assert results["reused"] > 0
        statistics = slow.statistics()
        paid = statistics["answered"] - statistics["unique_answered"]
        # Each of the two deaths loses at most the six calls in flight.
        assert paid <= 2 * 6 + 2, (paid, statistics)
        print(f"{results['reused']} tasks found, {results['executed']} executed, {paid} calls paid twice")
    slow.stop()
