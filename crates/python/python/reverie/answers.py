"""Asking a trial of an experiment."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from reverie import _core

if TYPE_CHECKING:
    from reverie.experiment import Experiment


class Pipeline:
    """A trial whose indexes are in the store, opened to be asked.

        pipeline = reverie.Pipeline.load("experiment.toml")
        print(pipeline.query("What is a virtual package?"))

    Several threads may ask one pipeline.
    """

    def __init__(self, core: _core.Pipeline, experiment: Experiment) -> None:
        self._core, self._experiment = core, experiment

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened_again, (self._experiment, self.trial, self.run)

    @classmethod
    def load(
        cls, experiment: str | os.PathLike[str] | Mapping[str, Any] | Experiment, trial: str | None = None
    ) -> Pipeline:
        """Opens a trial of an experiment that was run.

        Args:
            experiment: The experiment, its file, or its dictionary.
            trial: A trial such as `t03`. Default: the winner of the last run, else the first of its leaderboard.

        Raises:
            ValueError: If the experiment has mistakes.
            RuntimeError: If it was not run yet, or there is no such trial.
        """
        from reverie.experiment import Experiment

        opened = experiment if isinstance(experiment, Experiment) else Experiment(experiment)
        return opened.pipeline(trial)

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
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()

        def end(answered: str | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(answered or "")
            else:
                future.set_exception(error)

        def done(answered: str | None, error: BaseException | None) -> None:
            # If the loop is closed, nobody waits any more.
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, answered, error)

        self._core.aquery(question, done)
        return Answer(await future)

    def __repr__(self) -> str:
        return f"<pipeline {self.trial}>"


def _opened_again(experiment: Experiment, trial: str, run: str) -> Pipeline:
    """A pipeline that was pickled: another run since then would answer with something else."""
    pipeline = experiment.pipeline(trial)
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
    span: tuple[int, int] = field(default=(0, 0), repr=False)
    """Where it lies in the document's text, in bytes."""

    @property
    def source(self) -> str:
        """Where it is from, for people."""
        page = f"page {self.page}" if self.page is not None else None
        return " · ".join(part for part in (self.document, page, self.book, self.heading) if part)


class Answer:
    """What a pipeline found, and what it answered."""

    def __init__(self, text: str) -> None:
        answered = json.loads(text)
        answer = answered["answer"] or {}
        self.question: str = answered["question"]
        """The question."""
        self.trial: str = answered["trial"]["id"]
        """The trial that answered."""
        self.text: str | None = answer.get("text")
        """The answer, with citations such as `[1]`; none where the trial has no generator."""
        self.citations: list[int] = answer.get("citations", [])
        """The numbers of passages cited, from 1."""
        self.seconds: float | None = answer.get("seconds")
        """How long the generator took."""
        self.usage: dict[str, int] = answer.get("usage", {})
        """Tokens over all calls."""
        self.passages: list[Passage] = [
            Passage(
                **{name: passage[name] for name in ("document", "text", "score", "page", "book", "heading")},
                span=(passage["span"]["start"], passage["span"]["end"]),
            )
            for passage in answered["passages"]
        ]
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
