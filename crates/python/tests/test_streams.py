"""Answers that are read while they are written."""

from __future__ import annotations

import asyncio
import time

import pytest

import reverie
from workspace import settings


@pytest.fixture
def pipeline(small, slow):
    """A trial with a generator at the endpoint."""
    experiment = reverie.Experiment(settings(small, slow.url, dataset=None, evaluate=None))
    experiment.run(progress=False)
    return experiment.pipeline("t01")


def test_an_answer_comes_in_pieces_while_it_is_written(pipeline, slow):
    # The model writes the rest only when its first words were read.
    slow.go_on.clear()
    events = []
    for event in pipeline.stream("Which mill grinds oats?"):
        events.append(event)
        if event.kind == "piece" and not slow.go_on.is_set():
            assert slow.sent <= slow.held_after
            slow.go_on.set()
    assert events[0].kind == "found" and events[0].passages[0].document.endswith(".md")
    assert [event.kind for event in events[1:-1]] == ["piece"] * (len(events) - 2) and len(events) > 10
    answer = events[-1].answer
    assert events[-1].kind == "answer" and "".join(event.text for event in events) == answer.text
    assert list(events[0].passages) == answer.passages
    kept = pipeline.query("Which mill grinds oats?")
    assert kept.text == answer.text and slow.sent == 40, "a stream and a query are the same call"
    assert kept.passages == answer.passages, "with the same scores"


def test_streams_share_an_event_loop(pipeline, slow):
    async def read(question: str) -> tuple[str, str, int]:
        text, pieces = "", 0
        async for event in pipeline.astream(question):
            text, pieces = text + event.text, pieces + (event.kind == "piece")
        return text, event.answer.text, pieces

    async def go_on() -> None:
        while slow.in_flight < 4:
            await asyncio.sleep(0.01)
        slow.go_on.set()

    async def all_at_once() -> list[tuple[str, str, int]]:
        reading = asyncio.gather(*(read(f"What is ground for village {i}?") for i in range(4)))
        # Each stream is held until all four of them have begun.
        await asyncio.wait_for(go_on(), 100)
        return await reading

    slow.go_on.clear()
    for text, answer, pieces in asyncio.run(all_at_once()):
        assert text == answer and pieces > 10


@pytest.mark.parametrize("how", ["closed", "async closed", "cancelled"])
def test_a_stream_that_is_left_early_ends_the_call(pipeline, slow, how):
    slow.endless = True
    if how == "closed":
        stream = pipeline.stream("Which mill?")
        assert [next(stream).kind for _ in range(3)] == ["found", "piece", "piece"]
        stream.close()
    elif how == "async closed":

        async def look() -> None:
            stream = pipeline.astream("Which mill?")
            async for event in stream:
                if event.kind == "piece":
                    break
            await stream.aclose()

        asyncio.run(look())
    else:

        async def read(begun: asyncio.Event) -> None:
            async for event in pipeline.astream("Which mill?"):
                if event.kind == "piece":
                    begun.set()

        async def cancel() -> None:
            begun = asyncio.Event()
            reading = asyncio.create_task(read(begun))
            await asyncio.wait_for(begun.wait(), 120)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

        asyncio.run(cancel())
    assert slow.broken_off.wait(120), "the endpoint still writes"


def test_a_model_that_fails_ends_the_stream_with_its_reason(pipeline, slow):
    slow.fails = True
    stream = pipeline.stream("Which mill?")
    assert next(stream).kind == "found"
    with pytest.raises(RuntimeError, match="the model has left"):
        next(stream)

    async def read() -> None:
        async for _ in pipeline.astream("Which mill is it?"):
            pass

    with pytest.raises(RuntimeError, match="the model has left"):
        asyncio.run(read())


def test_a_stream_that_nobody_reads_asks_nothing(pipeline, slow):
    pipeline.stream("Which mill?")
    pipeline.astream("Which mill?")
    time.sleep(0.3)
    assert slow.sent == 0


def test_a_trial_without_a_generator_streams_its_passages(small, provider):
    experiment = settings(small, provider.url, dataset=None, evaluate=None)
    del experiment["space"]["generator"]
    opened = reverie.Experiment(experiment)
    opened.run(progress=False)
    kinds = [event.kind for event in opened.pipeline("t01").stream("Which mill?")]
    assert kinds == ["found", "answer"]
