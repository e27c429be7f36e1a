"""A process that is forked from one that used reverie is told what to do, and does not wait for ever."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import pytest

import reverie
from workspace import settings

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def in_a_fork(work) -> str:
    """What a forked process says that does this; it has twenty seconds."""
    receiving, sending = multiprocessing.get_context("fork").Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        try:
            sending.send(f"gave {work()!r}")
        except BaseException as error:
            sending.send(f"{type(error).__name__}: {error}")
        finally:
            os._exit(0)
    try:
        assert receiving.poll(20), "the forked process waits for ever"
        return receiving.recv()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_after_its_first_use_a_forked_process_is_refused_with_the_way_out(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url, dataset=None, evaluate=None))
    experiment.run(progress=False)
    pipeline = experiment.pipeline("t01")
    for work in (
        lambda: pipeline.query("Which mill?"),
        experiment.plan,
        experiment.results,
        lambda: experiment.run(progress=False),
        lambda: reverie.Pipeline.load(experiment, "t01"),
    ):
        said = in_a_fork(work)
        assert said.startswith("RuntimeError: process ") and "spawn" in said, said
    assert pipeline.query("Which mill?").passages, "here it goes on"


def test_a_comparison_of_trials_is_refused_in_a_fork_too(small, provider):
    results = reverie.Experiment(settings(small, provider.url)).run(progress=False)
    assert results.compare("t01", "t02")
    assert "spawn" in in_a_fork(lambda: results.compare("t01", "t02"))


def test_stages_are_refused_in_a_fork_too():
    pyarrow = pytest.importorskip("pyarrow")
    batch = pyarrow.record_batch({"path": ["a.txt"], "text": ["Some oats."]})
    chunker = reverie.Chunker('{"sentence": {}}')
    chunker.chunk(batch)
    assert "spawn" in in_a_fork(lambda: chunker.chunk(batch))


def test_a_pool_that_spawns_works_and_one_that_forks_says_why_not(small, provider, tmp_path):
    program = tmp_path / "pool.py"
    program.write_text(
        f"""
import json, multiprocessing, sys
import reverie

settings = json.loads({__import__("json").dumps(settings(small, provider.url, dataset=None, evaluate=None))!r})

def ask(question):
    return len(reverie.Pipeline.load(settings, "t01").query(question).passages)

if __name__ == "__main__":
    reverie.Experiment(settings).run(progress=False)
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map_async(ask, ["Which mill?"]).get(timeout=60))
"""
    )

    def run(way):
        return subprocess.run([sys.executable, program, way], capture_output=True, text=True, timeout=120)

    spawned = run("spawn")
    assert spawned.stdout.split() == ["[1]"], spawned.stderr
    forked = run("fork")
    assert forked.returncode != 0 and "before it was forked" in forked.stderr and "spawn" in forked.stderr


def test_a_fork_before_the_first_use_is_fine(small, provider, tmp_path):
    text = __import__("json").dumps(settings(small, provider.url, dataset=None, evaluate=None))
    program = f"""
import json, os, reverie
experiment = reverie.Experiment(json.loads({text!r}))
experiment.trials()
pid = os.fork()
if pid == 0:
    os._exit(0 if experiment.run(progress=False).trials else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print(len(experiment.run(progress=False).trials))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["4"], done.stderr
