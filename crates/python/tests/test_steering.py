"""A run that goes on is looked at and steered from Python: `Experiment.live()`."""

from __future__ import annotations

import json
import threading
import time

import pytest

import reverie
from workspace import Provider

FACTS = {"bees": "A hive holds forty thousand bees.", "owls": "The eagle owl is the largest owl.", "moles": "A mole digs at night."}


def experiment(folder, url: str, depths: list[int]) -> reverie.Experiment:
    """An experiment whose trials differ in how many passages they retrieve, with sixty questions."""
    documents = folder / "documents"
    documents.mkdir(parents=True)
    for name, text in FACTS.items():
        (documents / f"{name}.txt").write_text(f"{text} It is well known.", encoding="utf-8")
    questions = [
        {"id": f"{name}{number}", "question": f"What about {name}? ({number})", "reference": text, "evidence": [{"document": f"{name}.txt", "quote": text}]}
        for number in range(20)
        for name, text in FACTS.items()
    ]  # fmt: skip
    (folder / "golden.jsonl").write_text("\n".join(json.dumps(question) for question in questions) + "\n", encoding="utf-8")
    price = {"input": 4.0, "output": 30.0}
    return reverie.Experiment(
        base=folder,
        name="facts",
        store="store",
        corpus="documents",
        dataset="golden.jsonl",
        models={"gpt": {"chat": {"openai": {"model": "sim", "base_url": f"{url}/v1", "concurrency": 3, "price": price}}}},
        chunker=[{"sentence": {"chunk_size": 8, "chunk_overlap": 0}}],
        retriever=[{"bm25": {"top_k": depth}} for depth in depths],
        generator=[{"compact": {"model": "gpt", "max_tokens": 16}}],
        evaluate={"metrics": ["recall", "token_f1"], "objective": ["token_f1"], "budget": {"usd": 9.0}},
    )


def wait_for_live(made: reverie.Experiment) -> reverie.LiveRun:
    """The run, as soon as it has written how it is doing."""
    for _ in range(200):
        try:
            return made.live()
        except RuntimeError:
            time.sleep(0.05)
    raise AssertionError("no run goes on")


def test_a_run_is_steered_from_another_thread_and_a_trial_is_added(tmp_path):
    provider = Provider(latency={"constant": {"seconds": 0.4}})
    try:
        made, ended = experiment(tmp_path / "steered", provider.url, [1, 2]), {}
        with pytest.raises(RuntimeError, match="no run of `facts` goes on"):
            made.live()
        thread = threading.Thread(target=lambda: ended.update(results=made.run(progress=False)))
        thread.start()
        live = wait_for_live(made)
        first = live.run
        live.pause()
        assert live.state == "paused" and "paused" in repr(live)
        with pytest.raises(ValueError, match="paused already"):
            live.pause()
        live.resume()
        assert live.set_budget(usd=12).startswith("the caps are $12.00")
        with pytest.raises(ValueError, match="there is no trial"):
            live.add_trial("t07", {"retriever.bm25.top_k": 3})
        with pytest.raises(ValueError, match="all its questions"):
            live.ask_questions(99)
        assert live.add_trial("t01", {"retriever.bm25.top_k": 3}).startswith("t03 is added")
        thread.join(120)
        results = ended["results"]
        live.refresh()
        assert (live.state, live.run, live.trials()["trial"]) == ("finished", results.run, ["t01", "t02", "t03"])
        assert results.run != first
        planned = experiment(tmp_path / "planned", provider.url, [1, 2, 3]).run(progress=False)
        assert planned.run == results.run, "it is the run in which the trial was planned"
        for one, other in zip(sorted(results.trials, key=lambda trial: trial.id), sorted(planned.trials, key=lambda trial: trial.id)):
            assert (one.id, one.metrics) == (other.id, other.metrics)
    finally:
        provider.stop()
