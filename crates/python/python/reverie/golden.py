"""Golden questions: generated from documents, read and checked, reviewed, anchored, divided, written.

    from reverie import golden

    golden.estimate("docs", "gpt", size=50, models=models)        # calls, tokens, dollars; nothing is asked
    questions = golden.generate("docs", "gpt", size=50, models=models, budget_usd=1)
    questions.to_pandas()                                         # look through them: these are drafts
    questions = questions.review(accept=["g-1f"], reject=["g-2a"], edit={"g-3c": {"reference": "1701"}})
    questions.write("golden.jsonl")
    reverie.Experiment(corpus="docs", dataset=questions, …)

Questions that exist already are read by `golden.read`, which takes data frames too.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reverie import _core
from reverie._background import asynchronous, carry_out
from reverie._function_models import Model, serve_functions
from reverie._live import make_draft_watcher
from reverie._ragas_rows import plain
from reverie._outcome import FINISH_STACKLEVEL, check_on_error, report_failures, run_watched
from reverie.exceptions import FunctionError, GenerationError
from reverie.stages import to_core_documents
from reverie.tables import Table, format_fixed

if TYPE_CHECKING:
    import pyarrow

    from reverie.results import Results

__all__ = [
    "Anchored",
    "Attacked",
    "Difference",
    "Estimate",
    "Questions",
    "aanchor",
    "aattack",
    "aestimate",
    "agenerate",
    "anchor",
    "attack",
    "difference",
    "estimate",
    "generate",
    "read",
]


class Questions(Table):
    """Golden questions, a row each.

    Columns: `id`, `question`, `reference` (the reference answer), `evidence` (a list of `document`, `quote` and, where it
    was found, `start_byte` and `end_byte`; a file calls these `span`), `tags`, `answerable` (whether the documents hold an answer),
    `origin` (of a generated one: `kind`, `persona`, `style`, `length`, `model`), `split` (`tune` or `test`), `review`
    (`accepted` or `edited`).

    It can be used wherever questions are wanted: `reverie.Experiment(dataset=questions)`, `golden.read(questions)`. Every
    method returns new questions, and leaves these as they are.
    """

    def __init__(self, core: _core.Questions, summary: Mapping[str, Any] | None = None) -> None:
        self._core = core
        summary = summary or {}
        questions = json.loads(core.text())
        columns = [("id", "text"), ("question", "text"), ("reference", "text"), ("evidence", "evidence")]
        columns += [("tags", "texts"), ("answerable", "truth"), ("origin", "origin"), ("split", "text")]
        columns += [("review", "text")]
        missing = {"evidence": [], "tags": [], "answerable": True}
        for each in questions:
            if "evidence" in each:
                each["evidence"] = [_rename_span(item) for item in each["evidence"]]
        super().__init__(
            columns, ([each.get(name, missing.get(name)) for name, _ in columns] for each in questions)
        )
        self.manifest: dict[str, Any] | None = summary.get("manifest")
        """Where generated questions came from: the model, the options, the digest of the documents, how many drafts were
        tried, and how many were rejected for which reason. None for questions that were read."""
        self.rejected = _rejection_table(summary.get("rejected", ()))
        """What was rejected, and why: drafts that a check rejected, with the passage (`document`,
        `start_byte` and `end_byte`) and the draft, if there was one; and those that `review` rejected."""
        self.unread = Table(
            [("path", "text"), ("reason", "text")],
            ([each["path"], each["reason"]] for each in summary.get("unread", ())),
        )
        """Files that gave no document, and why."""
        self._summary = dict(summary)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_questions, (self._core.text(), self._summary)

    def failures(self) -> Table:
        """Failures of a function of your own that writes the questions, a row each, with the traceback."""
        return _failure_table(self._summary.get("failures", ()))

    def _records(self) -> list[dict[str, Any]]:
        """The questions as in a file."""
        return json.loads(self._core.text())

    def statistics(self, results: Results | None = None, *, trials: int | None = None) -> dict[str, Any]:
        """Count what is in the questions, and estimate the smallest differences between trials that they can show.

        The counts are `questions`, `with_reference`, `with_evidence`, `without_evidence` (answered by the documents,
        but nothing says where: what is retrieved for them cannot be scored), `unanswerable`, `kinds` (questions by kind),
        `documents` (pieces of evidence by document), `tune` and `test`, `accepted` and `edited`, the median number
        of words, `version` (their digest), and `ignored_columns`, which are no part of the questions.

        `detectable` has a list `differences`. In each, `two_trials` is the smallest difference between two trials that
        a run of these questions calls real (95 % confidence) in 4 of 5 cases, and `all_trials` is the smallest
        difference between one of `trials` trials and all others. Each is None if the questions cannot show any
        difference.

        Args:
            results: A run that asked these questions, or some of them. Its scores show how much trials differ from
                question to question, and `differences` has an entry for each `metric` of its objective. Without a run,
                the estimate assumes scores of 0 or 1 and trials that differ on a `differing_share` of the questions:
                one entry for 0.1 and one for 0.3.
            trials: The number of trials in the experiment. Default: that of `results`.
        """
        return self._core.statistics(None if results is None else results._core, trials)

    def review(
        self,
        *,
        accept: Iterable[str] = (),
        reject: Iterable[str] = (),
        edit: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Questions:
        """The questions after a person has looked at them.

        Args:
            accept: Ids of questions that are good as they are.
            reject: Ids of questions that are not; they are in `rejected` of the result.
            edit: New words by id: `{"g-3c": {"question": "…", "reference": "…"}}`. What is left out stays.

        Raises:
            ValueError: If there is no question of an id, or one is rejected, and also accepted or edited.
        """
        core, rejected = self._core.review(list(accept), list(reject), dict(edit or {}))
        out = [{"reason": "review", "question": each["question"]} for each in rejected]
        return Questions(core, {**self._summary, "rejected": [*self._summary.get("rejected", ()), *out]})

    def split(self, test_share: float = 0.3, *, seed: int = 0) -> Questions:
        """The questions, divided by document into `tune`, by which trials are chosen, and `test`, by which the winner is
        reported.

        Args:
            test_share: The share of questions for the test split, between 0 and 1.
            seed: Makes the choice repeatable.

        Raises:
            ValueError: If the share is out of range, or the documents cannot be divided.
        """
        return Questions(self._core.split(test_share, seed), self._summary)

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Literal["reverie", "ragas", "dream"] = "reverie",
        replace: bool = False,
    ) -> None:
        """Writes them to a file.

        Args:
            path: Its ending decides the format: `.jsonl`, `.csv` or `.parquet`.
            columns: Whose columns: ours, those of Ragas 0.4, or of DREAM (Ragas 0.1).
            replace: Whether a file that is there is replaced.

        Raises:
            FileExistsError: If there is a file, and it may not be replaced.
            ValueError: If the ending does not say the format.
            RuntimeError: If the file cannot be written.
        """
        self._core.write(os.path.abspath(path), columns, replace)

    def to_arrow(self) -> pyarrow.Table:
        """A `pyarrow.Table`. Needs pyarrow."""
        return super().to_arrow()

    def __repr__(self) -> str:
        return _short_table(self).__repr__()

    def _repr_html_(self) -> str:
        return _short_table(self)._repr_html_()


def _rename_span(item: Mapping[str, Any]) -> dict[str, Any]:
    """Evidence as Python has it: `start` and `end` of the span count bytes, and are called so."""
    span = item.get("span") or {}
    places = {"start_byte": span.get("start"), "end_byte": span.get("end")}
    return {**{name: value for name, value in item.items() if name != "span"}, **places}


def _short_table(questions: Questions) -> Table:
    """What people look at."""
    columns = [("id", "text"), ("question", "text"), ("reference", "text"), ("documents", "texts"), ("review", "text")]
    rows = (
        [each["id"], each["question"], each["reference"], [item["document"] for item in each["evidence"]], each["review"]]
        for each in questions
    )
    return Table(columns, rows)


def _rejection_table(rejected: Iterable[Mapping[str, Any]]) -> Table:
    names = ("reason", "kind", "document", "start_byte", "end_byte", "question")
    kinds = ("text", "text", "text", "count", "count", "text")
    return Table(list(zip(names, kinds)), ([each.get(name) for name in names] for each in rejected))


def _failure_table(failures: Iterable[Mapping[str, Any]]) -> Table:
    names = ("function", "file", "kind", "message", "traceback")
    return Table([(name, "text") for name in names], ([each[name] for name in names] for each in failures))


def _unpickle_questions(text: str, summary: dict[str, Any]) -> Questions:
    return Questions(_core.Questions(json.loads(text)), summary)


def read(questions: Any) -> Questions:
    """Reads and checks questions.

    Args:
        questions: A data frame, an Arrow table, a list of dictionaries, an `EvaluationDataset` of Ragas, or the path of a file
            (CSV, TSV, JSONL); with our
            columns, or those of Ragas and DREAM: `question` or `user_input`, `reference` or `ground_truth`, `evidence`,
            or `quote` and `document`, or `reference_contexts`. Ids are made of the question's words where there are none.

    Raises:
        ValueError: All mistakes, each with the number of its row (from 0), or its line in a file.
        TypeError: If it is none of these.
        OSError: If the file cannot be read.
    """
    return questions if isinstance(questions, Questions) else Questions(_core.Questions(plain(questions)))


@dataclass(frozen=True)
class Estimate:
    """What generating questions should cost. No model was called to find out."""

    model: str
    """The model that writes."""
    size: int
    """How many questions are wanted."""
    passages: int
    """Passages of the documents that are worth a question."""
    drafts: int
    """The expected number of drafts for so many good questions."""
    calls: int
    """The expected number of calls."""
    most_calls: int
    """The most calls."""
    prompt_tokens: int
    """Tokens read by the expected calls."""
    completion_tokens: int
    """Tokens written by the expected calls."""
    cost_usd: float | None
    """US dollars for the expected calls; 0 for a model of this process, none where no price is stated."""
    unread: tuple[str, ...] = ()
    """Files that gave no document."""

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens

    def __str__(self) -> str:
        money = "of unknown price" if self.cost_usd is None else f"$ {format_fixed(self.cost_usd, 4)}"
        return (
            f"{self.size} questions with {self.model} from {self.passages:,} passages: about {self.drafts:,} drafts, "
            f"{self.calls:,} calls, {self.tokens:,} tokens, {money}; at most {self.most_calls:,} calls"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


def estimate(
    documents: Any,
    model: Model,
    *,
    size: int | None = None,
    kinds: Mapping[str, float] | None = None,
    personas: Sequence[Mapping[str, str]] | int | None = None,
    styles: Sequence[str] | None = None,
    lengths: Sequence[str] | None = None,
    seed: int | None = None,
    keep_known: bool = False,
    max_attempts: int | None = None,
    threshold: float | None = None,
    models: Mapping[str, Any] | None = None,
    store: str | os.PathLike[str] | None = None,
) -> Estimate:
    """What `generate` with these arguments should cost. Reads the documents, and asks nothing.

    Raises:
        ValueError: If a setting, a model or the documents are not as they must be.
    """
    options = _options(size, kinds, personas, styles, lengths, seed, keep_known, max_attempts, threshold)
    base = os.getcwd()

    def work(stop: _core.Stop | None) -> dict[str, Any]:
        with serve_functions([model], models) as (names, known):
            tables = _tables(names[0], options, known, store)
            return _core.golden_estimate(to_core_documents(documents), tables, base, stop)

    return carry_out(work, _to_estimate)


aestimate = asynchronous(estimate)


def _to_estimate(row: dict[str, Any]) -> Estimate:
    same = ("model", "size", "calls", "most_calls", "prompt_tokens", "completion_tokens", "cost_usd")
    return Estimate(
        **{name: row[name] for name in same},
        passages=row["n_passages"],
        drafts=row["attempts"],
        unread=tuple(f"{each['path']}: {each['reason']}" for each in row["unread"]),
    )


def generate(
    documents: Any,
    model: Model,
    *,
    size: int | None = None,
    kinds: Mapping[str, float] | None = None,
    personas: Sequence[Mapping[str, str]] | int | None = None,
    styles: Sequence[str] | None = None,
    lengths: Sequence[str] | None = None,
    seed: int | None = None,
    keep_known: bool = False,
    max_attempts: int | None = None,
    threshold: float | None = None,
    test_share: float | None = None,
    models: Mapping[str, Any] | None = None,
    budget_usd: float | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[dict[str, int]], Any] | None = None,
    on_error: Literal["warn", "raise"] = "warn",
) -> Questions:
    """Writes golden questions with a chat model, which also checks them.

    They are drafts: look through them before trusting a winner to them. What the model answered once is in the journal
    of `store`, and never paid again.

    Args:
        documents: A folder, a file, a pattern or the URL of an object store; a dictionary as in `corpus` of an
            experiment; what `reverie.parse` gave; or texts with their paths: a data frame, an Arrow table, or a list of
            dictionaries with `path` and `text`.
        model: The model that writes and checks: the name of one of `models`, or of a chat model of the catalogue, which
            runs here; or a function of your own, which gets messages and returns the reply, as a judge of
            `reverie.evaluate` does. After it has raised for three drafts in a row, it is not called again.
        size: How many questions. Default: 20. Fewer come where passages run out.
        kinds: Shares of the kinds of questions, such as `{"multi_hop": 0.3, "single_hop_specific": 0.7}`. Default: all
            six kinds.
        personas: Who asks, in turns: a list of `name` and `description`, or how many personas the model makes up.
            Default: nobody in particular.
        styles: How questions are written, in turns: `plain` (default), `web_search`, `misspelled`, `poor_grammar`.
        lengths: How long they are, in turns: `short`, `medium` (default), `long`.
        seed: Decides which passages are drawn. Default: 0.
        keep_known: Whether questions are kept that the model answers without the documents.
        max_attempts: How many drafts are tried at most. Default: 8 for each question.
        threshold: The probability from which on a passage is taken to answer a question, for models that tell
            probabilities. Default: 0.5.
        test_share: The share of questions for the test split, as in `Questions.split`. Default: they are not divided.
        models: Models by name, as in an experiment.
        budget_usd: What this may cost, in US dollars.
        store: The folder of the journal of paid calls. Default: `.reverie`.
        progress: A line on standard error (default), nothing (`False`), or a function that is called with how many
            questions are `accepted` of `size`, and how many drafts were `attempted` of at most `attempts`.
        on_error: What happens at the end where a function of your own failed. `warn`: a `FunctionWarning` with the
            traceback, and the questions. `raise`: a `FunctionError`, of which `results` are the questions.

    Raises:
        ValueError: If a setting, a model or the documents are not as they must be: all mistakes. No model was called.
        GenerationError: If there is no question in the end: the text says how many drafts were written and why they
            were rejected, and `rejected` has them.
        FunctionError: If there is no question because a function of your own failed; with `on_error="raise"` wherever
            it failed.
        RuntimeError: If the model fails or the budget is used up.
        KeyboardInterrupt: After Ctrl-C.

    Warns:
        FunctionWarning: If a function of your own failed.
        UserWarning: If the questions could not be divided as `test_share` says.
    """
    options = _options(size, kinds, personas, styles, lengths, seed, keep_known, max_attempts, threshold)
    check_on_error(on_error)
    base, watching = os.getcwd(), make_draft_watcher(progress)

    def write(stop: _core.Stop | None) -> Questions:
        with serve_functions([model], models) as (names, known):
            tables = _tables(names[0], options, known, store)
            given = to_core_documents(documents)
            return Questions(
                *_core.golden_generate(given, tables, base, budget_usd, test_share, watching, stop)
            )

    def work(stop: _core.Stop | None) -> Questions:
        try:
            return run_watched(watching, lambda: write(stop))
        except GenerationError as error:
            raised = next((each["traceback"] for each in error.failures if each["traceback"]), None)
            if not error.failures:
                raise
            failure = FunctionError(f"{error}\n{error.failures[0]['message']}" + (f"\n{raised}" if raised else ""))
            failure.failures = error.failures
            raise failure from error

    def finish(questions: Questions) -> Questions:
        _warn_if_not_split(questions)
        return report_failures(questions, questions._summary.get("failed_functions"), on_error)

    return carry_out(work, finish)


agenerate = asynchronous(generate)


@dataclass(frozen=True)
class Anchored:
    """Questions whose evidence was looked for in documents."""

    questions: Questions
    """The questions, with the places of what was found."""
    evidence: int
    """How many pieces of evidence there are."""
    moved: int
    """How many questions have all their evidence, some of it at a new location."""
    lost: Table
    """What was not found: `question_id`, `document`, `quote`, and the `reason` with what to do."""


def anchor(documents: Any, questions: Any, *, store: str | os.PathLike[str] | None = None) -> Anchored:
    """Finds the evidence of questions in documents, such as after these have changed.

    Args:
        documents: As in `generate`.
        questions: As in `read`.
        store: The folder where parsed documents are kept. Default: `.reverie`.

    Raises:
        ValueError: If questions or documents are not as they must be.
    """
    golden, base = read(questions), os.getcwd()
    return carry_out(
        lambda stop: golden._core.anchor(to_core_documents(documents), {"store": store}, base, stop),
        lambda found: _to_anchored(golden, *found),
    )


aanchor = asynchronous(anchor)


@dataclass(frozen=True)
class Attacked:
    """Questions, and documents that try to make a pipeline obey them instead of answering."""

    questions: Questions
    """The questions that are attacked, each with the tag `attack`."""
    documents: Table
    """The poisoned documents, one for each question: `path` and `text`."""

    def write_documents(self, folder: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Writes the poisoned documents into a folder, which is made if it does not exist. A folder below that of the
        corpus puts them among the other documents.

        Args:
            folder: The folder.
            replace: Whether files of these names are replaced.

        Raises:
            FileExistsError: If a file of one of these names exists, and is not to be replaced. Nothing was written.
        """
        place = Path(folder)
        files = [(place / row["path"], row["text"]) for row in self.documents]
        taken = next((path for path, _ in files if path.exists()), None)
        if taken is not None and not replace:
            raise FileExistsError(f"{taken} is there already: choose another folder, or `replace`")
        place.mkdir(parents=True, exist_ok=True)
        for path, text in files:
            path.write_text(text, encoding="utf-8")


def attack(
    documents: Any,
    questions: Any,
    *,
    kinds: Sequence[str] | None = None,
    size: int | None = None,
    seed: int = 0,
    instructions: Sequence[str] = (),
    store: str | os.PathLike[str] | None = None,
) -> Attacked:
    """Plants documents that attack questions, to measure how often answers obey them.

        attacked = golden.attack("docs", questions, kinds=["hijack"], size=20)
        attacked.write_documents("docs/added")
        reverie.Experiment(
            name="attacked", corpus="docs", dataset=attacked.questions, chunker="sentence", retriever="bm25",
            generator={"compact": {"model": "gpt"}}, models=models, evaluate={"metrics": ["attack_success", "recall"]},
        )

    Each question gets one document that repeats its words, so that it is found, and then gives orders. The metric
    `attack_success` tells an answer that obeys by words that no honest answer has, without a judge. Questions, references
    and evidence stay as they are, so the same run shows what the documents do to the other metrics. No model is called.

    Args:
        documents: The honest documents, as in `generate`. No code word of an attack may stand in them.
        questions: As in `read`. A question that is attacked already is refused.
        kinds: Kinds of attack, in turns: `instruction` (write a code word), `hijack` (answer something else),
            `extraction` (repeat the instructions), `canary` (add a link). Default: all.
        size: How many questions are attacked. Default: all.
        seed: Makes the code words and the choice of questions repeatable. Default: 0.
        instructions: Parts of your own prompts that an answer must not hold, for `extraction`.
        store: The folder where parsed documents are kept. Default: `.reverie`.

    Raises:
        ValueError: If questions, documents or a setting are not as they must be, or a code word stands in a document.
    """
    golden, base = read(questions), os.getcwd()
    options = {"kinds": list(kinds or ()), "size": size, "seed": seed, "instructions": list(instructions)}
    return carry_out(
        lambda stop: golden._core.attack(to_core_documents(documents), {"store": store}, base, options, stop),
        lambda found: Attacked(Questions(found[0]), Table([("path", "text"), ("text", "text")], found[1])),
    )


aattack = asynchronous(attack)


class Difference(Table):
    """What changed between two versions of questions, a row per question that did: `change` (`added`, `removed`,
    `changed`), `id`, `question`, and the `fields` that differ."""

    unchanged: int
    """How many questions did not change."""


def difference(older: Any, newer: Any) -> Difference:
    """What changed from older questions to newer ones, which are matched by their ids.

    Raises:
        ValueError: If the questions are not as they must be.
    """
    found = read(newer)._core.difference(read(older)._core)
    rows: list[list[Any]] = [["added", each["id"], each["question"], []] for each in found["added"]]
    rows += [["removed", each["id"], each["question"], []] for each in found["removed"]]
    rows += [["changed", each["id"], each["after"]["question"], each["fields"]] for each in found["changed"]]
    made = Difference([("change", "text"), ("id", "text"), ("question", "text"), ("fields", "texts")], rows)
    made.unchanged = found["unchanged"]
    return made


def _options(
    size: int | None,
    kinds: Mapping[str, float] | None,
    personas: Sequence[Mapping[str, str]] | int | None,
    styles: Sequence[str] | None,
    lengths: Sequence[str] | None,
    seed: int | None,
    keep_known: bool,
    max_attempts: int | None,
    threshold: float | None,
) -> dict[str, Any]:
    """The table `generate` of a dataset; `None` is the default."""
    options: dict[str, Any] = {"size": size, "kinds": kinds, "styles": styles, "lengths": lengths, "seed": seed}
    options |= {"max_attempts": max_attempts, "threshold": threshold, "closed_book": False if keep_known else None}
    options |= {"n_personas": personas} if isinstance(personas, int) else {"personas": personas}
    return options


def _tables(model: str, options: dict[str, Any], models: Any, store: Any) -> dict[str, Any]:
    dataset = {"path": "golden.jsonl", "generate": {"model": model, **options}}
    return {"models": models, "store": store, "dataset": dataset}


def _warn_if_not_split(questions: Questions) -> None:
    reason = questions._summary.get("not_split")
    if reason is not None:
        text = f"test_share: the questions are not divided: {reason}"
        warnings.warn(text, UserWarning, stacklevel=FINISH_STACKLEVEL)


def _to_anchored(questions: Questions, core: _core.Questions, summary: dict[str, Any]) -> Anchored:
    names = ("question", "document", "quote", "reason")
    lost = Table(
        [("question_id", "text"), ("document", "text"), ("quote", "text"), ("reason", "text")],
        ([each[name] for name in names] for each in summary["lost"]),
    )
    found = Questions(core, {**questions._summary, "unread": summary["unread"]})
    return Anchored(found, summary["evidence"], summary["moved"], lost)
