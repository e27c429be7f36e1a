"""What `reverie.langchain` and `reverie.llama_index` share: passages and answers of a pipeline, of an index, or of a service
at an address, in one form."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from reverie.answers import Answer, Passage, Pipeline
from reverie.stages import Index

# A service that answers takes at most so long, in seconds.
_SERVICE_SECONDS = 300.0


@dataclass(frozen=True)
class FoundPassage:
    """A passage with what is known of it."""

    text: str
    score: float
    id: str
    """The document and the bytes of its text: the same wherever the passage was found."""
    metadata: dict[str, Any]
    """`path`, `page` (from 1), `page_label` (the same as text), `book`, `heading`, `score`, `start_byte`, `end_byte`, and the
    metadata of the document where it is known; without what is missing."""
    cited: bool | None = None
    """Whether the answer cites it; none without an answer."""


@dataclass(frozen=True)
class FoundAnswer:
    """An answer with its passages, best first."""

    text: str
    passages: list[FoundPassage]


class PassageSource(Protocol):
    """Where passages are from."""

    def find(self, question: str) -> list[FoundPassage]: ...
    async def afind(self, question: str) -> list[FoundPassage]: ...
    def answer(self, question: str) -> FoundAnswer: ...
    async def aanswer(self, question: str) -> FoundAnswer: ...


def open_source(
    source: Any,
    *,
    top_k: int | None = None,
    search: Any = None,
    filter: Mapping[str, Any] | None = None,
    api_key: str | None = None,
) -> PassageSource:
    """The pipeline, the index, or the service at this address.

    Raises:
        TypeError: If it is none of these, or a setting does nothing for it.
        ValueError: If `top_k` is below 1.
    """
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k: the most passages, at least 1, not {top_k!r}")
    given = {"search": search, "filter": filter, "api_key": api_key}

    def refuse(kind: str, *taken: str) -> None:
        others = [name for name, value in given.items() if value is not None and name not in taken]
        if others:
            raise TypeError(f"{', '.join(others)}: {kind} does not take this; leave it out")

    if isinstance(source, Pipeline):
        refuse("a pipeline")
        return _PipelineSource(source, top_k)
    if isinstance(source, Index):
        refuse("an index", "search", "filter")
        return _IndexSource(source, top_k, search, filter)
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        refuse("a service", "api_key")
        return _ServiceSource(source.rstrip("/"), top_k, api_key)
    raise TypeError(
        f"expected a `reverie.Pipeline`, a `reverie.Index` or the address of a service such as http://127.0.0.1:8400, not "
        f"{source if isinstance(source, str) else type(source).__name__}"
    )


def check_answers(source: PassageSource) -> None:
    """Refuses a source that writes no answers.

    Raises:
        TypeError: If it only finds passages.
    """
    is_silent = isinstance(source, _PipelineSource) and not source.pipeline.has_generator
    if is_silent or isinstance(source, _IndexSource):
        what = "the trial of this pipeline has no generator" if is_silent else "an index writes no answers"
        raise TypeError(f"{what}: take the retriever")


def passage_of(row: Mapping[str, Any], own: Mapping[str, Any] | None = None, cited: bool | None = None) -> FoundPassage:
    """A passage from its fields; `own` is the metadata of its document."""
    page = row["page"]
    fields = {
        **(own or {}),
        "path": row["document"],
        "page": page,
        "page_label": None if page is None else str(page),
        "book": row["book"],
        "heading": row["heading"],
        "score": row["score"],
        "start_byte": row["start_byte"],
        "end_byte": row["end_byte"],
        "cited": cited,
    }
    metadata = {name: value for name, value in fields.items() if value is not None}
    place = f"{row['document']}:{row['start_byte']}-{row['end_byte']}"
    return FoundPassage(row["text"], row["score"], place, metadata, cited)


class _PipelineSource:
    def __init__(self, pipeline: Pipeline, top_k: int | None) -> None:
        self.pipeline, self.top_k = pipeline, top_k

    def find(self, question: str) -> list[FoundPassage]:
        return _of_passages(self.pipeline.retrieve(question, top_k=self.top_k or 100))

    async def afind(self, question: str) -> list[FoundPassage]:
        return _of_passages(await self.pipeline.aretrieve(question, top_k=self.top_k or 100))

    def answer(self, question: str) -> FoundAnswer:
        return _of_answer(self.pipeline.query(question))

    async def aanswer(self, question: str) -> FoundAnswer:
        return _of_answer(await self.pipeline.aquery(question))


class _IndexSource:
    def __init__(self, index: Index, top_k: int | None, search: Any, filter: Mapping[str, Any] | None) -> None:
        self.index, self.settings = index, {"top_k": top_k, "retriever": search, "filter": filter}

    def find(self, question: str) -> list[FoundPassage]:
        return [passage_of(row, row["metadata"]) for row in self.index.search(question, **self.settings)]

    async def afind(self, question: str) -> list[FoundPassage]:
        return [passage_of(row, row["metadata"]) for row in await self.index.asearch(question, **self.settings)]

    def answer(self, question: str) -> FoundAnswer:
        raise TypeError("an index writes no answers: take the retriever")

    async def aanswer(self, question: str) -> FoundAnswer:
        return self.answer(question)


class _ServiceSource:
    def __init__(self, address: str, top_k: int | None, api_key: str | None) -> None:
        self.address, self.top_k, self._api_key = address, top_k, api_key

    def find(self, question: str) -> list[FoundPassage]:
        found = self._ask("/rag/retrieve", {"query": question})
        return [self._passage(row, None) for row in found["passages"]]

    async def afind(self, question: str) -> list[FoundPassage]:
        return await asyncio.to_thread(self.find, question)

    def answer(self, question: str) -> FoundAnswer:
        answered = self._ask("/rag/answer", {"query": question, "include_sources": "text"})
        return FoundAnswer(answered["answer"], [self._passage(row, row["cited"]) for row in answered["sources"]])

    async def aanswer(self, question: str) -> FoundAnswer:
        return await asyncio.to_thread(self.answer, question)

    @staticmethod
    def _passage(row: Mapping[str, Any], cited: bool | None) -> FoundPassage:
        return passage_of({**row, "document": row["file"], "start_byte": row["start"], "end_byte": row["end"]}, None, cited)

    def _ask(self, path: str, query: dict[str, str]) -> Any:
        if self.top_k is not None:
            query["top_k"] = str(self.top_k)
        headers = {} if self._api_key is None else {"Authorization": f"Bearer {self._api_key}"}
        request = urllib.request.Request(f"{self.address}{path}?{urllib.parse.urlencode(query)}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=_SERVICE_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            said = error.read(400).decode("utf-8", "replace")
            raise RuntimeError(f"{self.address}{path} refused the question ({error.code}): {said}") from error
        except urllib.error.URLError as error:
            raise RuntimeError(f"{self.address}{path}: no reply ({error.reason}): does the service run?") from error


def _fields(passage: Passage) -> dict[str, Any]:
    names = ("document", "text", "score", "page", "book", "heading", "start_byte", "end_byte")
    return {name: getattr(passage, name) for name in names}


def _of_passages(passages: Sequence[Passage]) -> list[FoundPassage]:
    return [passage_of(_fields(passage)) for passage in passages]


def _of_answer(answer: Answer) -> FoundAnswer:
    if answer.text is None:
        raise TypeError("the trial of this pipeline has no generator: take the retriever")
    cited = set(answer.citations)
    passages = [passage_of(_fields(passage), None, number in cited) for number, passage in enumerate(answer.passages, 1)]
    return FoundAnswer(answer.text, passages)
