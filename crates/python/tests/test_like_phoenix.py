"""The same as `phoenix.evals.executors` 3.9: signatures, whole runs, and in the place of the original."""

import asyncio
import contextlib
import inspect
from collections import Counter

import pytest
import scenarios

from reverie import executors as reverie
from reverie.exceptions import is_permanent, is_rate_limit


def shape(callable_):
    parameters = inspect.signature(callable_).parameters.values()
    return [
        (p.name, p.kind, "unset" if type(p.default).__name__ == "Unset" else p.default)
        for p in parameters
        if p.name != "self"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "AsyncExecutor",
        "AsyncExecutor.run",
        "AsyncExecutor.execute",
        "SyncExecutor",
        "SyncExecutor.run",
        "ConcurrencyController",
        "ConcurrencyController.record_success",
        "ConcurrencyController.record_timeout",
        "ConcurrencyController.record_error",
        "ExecutionDetails",
        "ExecutionDetails.fail",
        "ExecutionDetails.complete",
        "ExecutionDetails.log_exception",
        "ExecutionDetails.log_runtime",
        "Executor.run",
        "Unset",
        "get_executor_on_sync_context",
    ],
)
def test_signatures_and_defaults_are_the_same(phoenix, name):
    def find(module):
        found = module
        for part in name.split("."):
            found = getattr(found, part)
        return found

    ours = [parameter for parameter in shape(find(reverie)) if parameter[0] != "limiter"]
    assert ours == shape(find(phoenix)), "what is new must be named by the caller, and has a default"


def test_statuses_are_the_same(phoenix):
    def members(module):
        return [(status.name, status.value) for status in module.ExecutionStatus]

    assert members(reverie) == members(phoenix)


def test_public_attributes_are_the_same(phoenix):
    async def task(value):
        pass

    for make in (
        lambda module: module.AsyncExecutor(task),
        lambda module: module.SyncExecutor(print),
        lambda module: module.ExecutionDetails(),
        lambda module: module.ConcurrencyController(max_concurrency=3, initial_target=2),
    ):
        theirs = {name: value for name, value in vars(make(phoenix)).items() if not name.startswith("_")}
        ours = make(reverie)
        for name, value in theirs.items():
            mine = getattr(ours, name)
            if type(value).__name__ not in ("Unset", "ExecutionStatus"):
                assert mine == value, name


@pytest.fixture(scope="module")
def their_runs():
    """All of Phoenix's runs at once: each takes a second at least."""
    executors = pytest.importorskip("phoenix.evals.executors")

    async def run(scenario):
        # On a busy machine the only worker that may work can have given up, and the run never ends (see scenarios.py).
        for _ in range(2):
            with contextlib.suppress(asyncio.TimeoutError):
                return await asyncio.wait_for(scenario(executors), 60)
        return await asyncio.wait_for(scenario(executors), 60)

    async def together():
        runs = [run(scenario) for scenario in scenarios.ASYNCHRONOUS.values()]
        return dict(zip(scenarios.ASYNCHRONOUS, await asyncio.gather(*runs, return_exceptions=True)))

    return asyncio.run(together())


@pytest.mark.parametrize("name", scenarios.ASYNCHRONOUS)
def test_asynchronous_runs_end_alike(their_runs, name):
    ours = asyncio.run(scenarios.ASYNCHRONOUS[name](reverie))
    assert ours == their_runs[name]


@pytest.mark.parametrize("name", scenarios.SYNCHRONOUS)
def test_synchronous_runs_end_alike(phoenix, name):
    assert scenarios.SYNCHRONOUS[name](reverie) == scenarios.SYNCHRONOUS[name](phoenix)


def test_exceptions_of_phoenix_are_known_for_what_they_are(phoenix):
    from phoenix.evals import exceptions
    from phoenix.evals.rate_limiters import RateLimitError, UnavailableTokensError

    assert is_permanent(exceptions.PhoenixTemplateMappingError())
    assert is_permanent(UnavailableTokensError())
    assert is_rate_limit(RateLimitError("")) and not is_permanent(RateLimitError(""))
    assert not is_permanent(ValueError()) and not is_rate_limit(ValueError())

    class RateLimitError(Exception):
        """Of somebody else."""

    assert not is_rate_limit(RateLimitError())


def test_the_names_of_phoenix_exceptions_are_here_too(phoenix):
    from phoenix.evals import exceptions as theirs

    from reverie import exceptions as ours

    for name, kind in vars(theirs).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert issubclass(getattr(ours, name), ours.PhoenixException), name


def frame_results(evaluate):
    """What a data frame says after an evaluation, less the times."""
    import pandas

    frame = pandas.DataFrame({"text": ["a b", "c", "boom", "d e f"], "limit": [2, 2, 2, 2]})
    result = evaluate(frame)
    rows = []
    for _, row in result.iterrows():
        details, score = row["words_execution_details"], row["words_score"]
        rows.append((details["status"], len(details["exceptions"]), score["score"] if score else None))
    return rows


def evaluators():
    from phoenix.evals import create_evaluator

    calls = Counter()

    @create_evaluator(name="words")
    def words(text: str, limit: int) -> bool:
        calls[text] += 1
        if text == "boom" or (text == "c" and calls[text] == 1):
            raise ValueError(text)
        return len(text.split()) <= limit

    return [words]


def test_phoenix_evaluates_data_frames_with_our_executors_in_the_place_of_its_own(phoenix, monkeypatch):
    from phoenix.evals import async_evaluate_dataframe, evaluate_dataframe
    from phoenix.evals import evaluators as module

    def both():
        options = {"exit_on_error": False, "max_retries": 2}
        return (
            frame_results(lambda frame: evaluate_dataframe(dataframe=frame, evaluators=evaluators(), **options)),
            frame_results(
                lambda frame: asyncio.run(async_evaluate_dataframe(dataframe=frame, evaluators=evaluators(), **options))
            ),
        )

    theirs = both()
    used = []
    for name in ("AsyncExecutor", "SyncExecutor"):
        kind = getattr(reverie, name)
        assert hasattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, kind=kind, **k: used.append(kind) or kind(*a, **k))
    assert both() == theirs
    assert used == [reverie.SyncExecutor, reverie.AsyncExecutor]
    assert [row[0] for row in theirs[0]] == ["COMPLETED", "COMPLETED WITH RETRIES", "FAILED", "COMPLETED"]
