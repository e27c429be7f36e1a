"""Asking a trial of an experiment."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from reverie import _core
from reverie._background import wait_in_ticks

if TYPE_CHECKING:
    from reverie.experiment import Experiment


class Pipeline:
    """A trial whose indexes are in the store, opened to be asked.

        pipeline = reverie.Pipeline.load("experiment.toml")
        print(pipeline.query("What is a virtual package?"))

    Several threads may ask one pipeline.
    """

    def __init__(self, core: _core.Pipeline, experiment: Experiment, budget_usd: float | None = None) -> None:
        self._core, self._experiment, self._budget_usd = core, experiment, budget_usd

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_pipeline, (self._experiment, self.trial, self.run, self._budget_usd)

    @classmethod
    def load(
        cls,
        experiment: str | os.PathLike[str] | Mapping[str, Any] | Experiment,
        trial: str | None = None,
        *,
        budget_usd: float | None = None,
    ) -> Pipeline:
        """Opens a trial of an experiment that was run.

        Args:
            experiment: The experiment, its file, or its dictionary.
            trial: A trial such as `t03`. Default: the winner of the last run, else the first of its leaderboard.
            budget_usd: What all questions to this pipeline may cost together, in US dollars. Default: no limit; the
                budget of the experiment was that of its run.

        Raises:
            ValueError: If the experiment has mistakes.
            RuntimeError: If it was not run yet, or there is no such trial.
        """
        return _to_experiment(experiment).pipeline(trial, budget_usd=budget_usd)

    @property
    def trial(self) -> str:
        """The trial's id."""
        return self._core.trial

    @property
    def run(self) -> str:
        """The id of the run that the trial belongs to. Its settings and documents are those of the run, whatever the
        experiment file says now."""
        return self._core.run

    @property
    def time_ms(self) -> int:
        """When that run finished, in milliseconds since 1970."""
        return self._core.time_ms

    @property
    def changed_since(self) -> list[str]:
        """What was no longer as in that run when this was opened, a line for each thing: components that were removed
        from the experiment file, documents that were added and are not searched."""
        return self._core.changed_since

    def query(self, question: str) -> Answer:
        """Answers a question, naming the sources. What a model answered once is not paid again.

        Raises:
            RuntimeError: If a model fails; `reverie.exceptions.FunctionError` if a function of your own does.
        """
        return Answer(self._core.query(question))

    async def aquery(self, question: str) -> Answer:
        """The same without blocking the event loop; many may be under way at once.

        Raises:
            RuntimeError: If a model fails.
        """
        answered = await _await_core(lambda done: self._core.aquery(question, done))
        return Answer(answered or "")

    @property
    def has_generator(self) -> bool:
        """Whether it writes answers, besides finding passages."""
        return self._core.has_generator

    def retrieve(self, question: str, *, top_k: int = 100) -> list[Passage]:
        """Finds passages for a question, best first, without an answer: no generator is asked.

        Args:
            question: What is asked.
            top_k: The most passages. Default: as many as the trial finds, up to 100.

        Raises:
            ValueError: If `top_k` is below 1.
            RuntimeError: If a model fails; `reverie.exceptions.FunctionError` if a function of your own does.
        """
        return _to_passages(self._core.retrieve(question, _check_top_k(top_k)))

    async def aretrieve(self, question: str, *, top_k: int = 100) -> list[Passage]:
        """The same as `retrieve` without blocking the event loop; many may be under way at once."""
        at_most = _check_top_k(top_k)
        found = await _await_core(lambda done: self._core.aretrieve(question, at_most, done))
        return _to_passages(found or "[]")

    def stream(self, question: str) -> Generator[Event, None, None]:
        """Answers a question, and yields events on the way.

            for event in pipeline.stream("What is a virtual package?"):
                print(event.text, end="", flush=True)

        First comes `found` with the passages, then a `piece` of the text at a time, at last `answer` with what `query`
        would have returned. The work begins with the first event that is asked for; it ends with the generator, also where
        that is closed early, and then the call of the model is cancelled.

        Raises:
            RuntimeError: If a model fails; `reverie.exceptions.FunctionError` if a function of your own does.
            KeyboardInterrupt: After Ctrl-C.
        """
        events = self._core.stream(question)
        try:
            while (events_json := events.next()) is not None:
                yield from map(_to_event, json.loads(events_json))
        finally:
            events.close()

    async def astream(self, question: str) -> AsyncGenerator[Event, None]:
        """The same as `stream` without blocking the event loop; many may be under way at once.

            async for event in pipeline.astream("What is a virtual package?"):
                await response.write(event.text)

        Where the generator is closed early (`aclose`, or the end of a task that was cancelled), the work ends.
        """
        events = self._core.stream(question)
        try:
            while (events_json := await _await_core(events.anext)) is not None:
                for event in json.loads(events_json):
                    yield _to_event(event)
        finally:
            events.close()

    def __repr__(self) -> str:
        return f"<pipeline {self.trial}>"


async def _await_core(begin: Callable[[Callable[[str | None, BaseException | None], None]], None]) -> str | None:
    """The result of work in another thread. `begin` starts it with the callback that gets the result or the error."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[str | None] = loop.create_future()

    def end(text: str | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(text)
        else:
            future.set_exception(error)

    def done(text: str | None, error: BaseException | None) -> None:
        # If the loop is closed, nobody waits any more.
        if not loop.is_closed():
            loop.call_soon_threadsafe(end, text, error)

    begin(done)
    return await wait_in_ticks(future)


def _to_experiment(experiment: str | os.PathLike[str] | Mapping[str, Any] | Experiment) -> Experiment:
    """The experiment itself, or that of a file or a dictionary."""
    from reverie.experiment import Experiment

    return experiment if isinstance(experiment, Experiment) else Experiment(experiment)


def _unpickle_pipeline(experiment: Experiment, trial: str, run: str, budget_usd: float | None) -> Pipeline:
    """Opens a pickled pipeline again, unless another run has finished since then."""
    pipeline = experiment.pipeline(trial, budget_usd=budget_usd)
    if pipeline.run != run:
        raise RuntimeError(
            f"the pipeline is of run {run}, and the last run of {experiment.name} is {pipeline.run} now: open it anew "
            "with `experiment.pipeline()`"
        )
    return pipeline


@dataclass(frozen=True)
class Passage:
    """A text that was found."""

    document: str
    """The document's path."""
    text: str
    """The text."""
    score: float
    """Higher is better; the scale is that of the last stage that ranked."""
    page: int | None = None
    """The page on which it starts."""
    book: str | None = None
    """The document's title."""
    heading: str | None = None
    """The headings above it."""
    start_byte: int = field(default=0, repr=False)
    """Where it begins in the document's text, in bytes of its UTF-8: `text.encode()[start_byte:end_byte]`."""
    end_byte: int = field(default=0, repr=False)
    """Where it ends, in bytes."""

    @property
    def source(self) -> str:
        """Where it is from, for people."""
        page = f"page {self.page}" if self.page is not None else None
        return " · ".join(part for part in (self.document, page, self.book, self.heading) if part)


@dataclass(frozen=True)
class Event:
    """An event while a question is answered."""

    kind: Literal["found", "piece", "restart", "answer"]
    """`found`: the passages are there. `piece`: more of the answer's text. `restart`: the text so far is void, and begins
    anew, as when a model failed on the way. `answer`: the end, with everything."""
    text: str = ""
    """The next part of the text, of a `piece`; empty for the others."""
    passages: tuple[Passage, ...] = ()
    """What was found, best first, of `found`; empty for the others."""
    answer: Answer | None = None
    """The whole answer, of `answer`; none for the others. Its text is that of the pieces since the last `restart`."""


def _to_event(row: dict[str, Any]) -> Event:
    kind = row["kind"]
    if kind == "answer":
        return Event("answer", answer=Answer(row["answered"]))
    return Event(kind, row.get("text", ""), tuple(map(_to_passage, row.get("passages", ()))))


def _check_top_k(top_k: int) -> int:
    if top_k < 1:
        raise ValueError(f"top_k: the most passages, at least 1, not {top_k!r}")
    return top_k


def _to_passages(found: str) -> list[Passage]:
    return [_to_passage(row) for row in json.loads(found)]


def _to_passage(row: dict[str, Any]) -> Passage:
    names = ("document", "text", "score", "page", "book", "heading")
    return Passage(**{name: row[name] for name in names}, start_byte=row["span"]["start"], end_byte=row["span"]["end"])


class Answer:
    """What a pipeline found, and what it answered."""

    def __init__(self, answered: str | dict[str, Any]) -> None:
        row: dict[str, Any] = json.loads(answered) if isinstance(answered, str) else answered
        answer = row["answer"] or {}
        self.question: str = row["question"]
        """The question."""
        self.trial: str = row["trial"]["id"]
        """The trial that answered."""
        self.text: str | None = answer.get("text")
        """The answer, with citations such as `[1]`; none where the trial has no generator."""
        self.citations: list[int] = answer.get("citations", [])
        """The numbers of passages cited, from 1."""
        self.seconds: float | None = answer.get("seconds")
        """How long the generator took."""
        self.usage: dict[str, int] = answer.get("usage", {})
        """Tokens over all calls."""
        self.passages: list[Passage] = [_to_passage(passage) for passage in row["passages"]]
        """What was found, best first."""

    def sources(self) -> list[Passage]:
        """The passages that the answer cites; all where it cites none."""
        cited = [self.passages[number - 1] for number in self.citations if 0 < number <= len(self.passages)]
        return cited or list(self.passages)

    def __str__(self) -> str:
        lines = [self.text or "(this trial has no generator: these passages were found)", ""]
        lines += [f"[{number}] {passage.source}" for number, passage in enumerate(self.passages, 1)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<answer of {self.trial}: {self.text!r}, {len(self.passages)} passages>"

    def _repr_html_(self) -> str:
        said = escape(self.text) if self.text else "<i>This trial has no generator: these passages were found.</i>"
        sources = "".join(
            f"<details{' open' if number in self.citations[:1] else ''}><summary>[{number}] {escape(passage.source)} "
            f'<span style="opacity:.6">{passage.score:.3f}</span></summary>'
            f'<blockquote style="white-space:pre-wrap">{escape(passage.text)}</blockquote></details>'
            for number, passage in enumerate(self.passages, 1)
        )
        return (
            f'<p><b>{escape(self.question)}</b></p><p style="white-space:pre-wrap">{said}</p>{sources}'
            f'<p style="opacity:.6">by {escape(self.trial)}</p>'
        )
