"""Systems of an experiment that are written in Python: functions, and objects of other packages.

A self-contained function runs from its source in a process of its own, on a cluster too. Everything else, such as a query
engine of LlamaIndex, is called in this process by `reverie._live_systems` while the experiment is planned and run.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from reverie._live_systems import LiveSystem
from reverie.functions import TIMEOUT_SECONDS, Function, NotSelfContainedError, _check_seconds, _drop_none

_KINDS = ("http", "openai", "python", "command", "object", "answers")


class System:
    """A system of an experiment, with its settings. Made by `reverie.system`; a function can still be called."""

    def __init__(self, target: Any, settings: dict[str, Any], common: dict[str, Any], in_this_process: bool | None) -> None:
        self.target, self._common = target, common
        self._settings = settings
        self._function: Function | None = None
        if in_this_process is not True and isinstance(target, (FunctionType, functools.partial)):
            try:
                self._function = Function(target, settings, "system")
            except NotSelfContainedError:
                if in_this_process is False:
                    raise
        if self._function is None and in_this_process is False:
            raise NotSelfContainedError(f"{target!r} cannot run in a process of its own: only a function with a name can")
        if self._function is None and "interpreter" in settings:
            raise ValueError("interpreter: an object, or a function that uses names of its program, is called in this process")
        functools.update_wrapper(self, target, updated=())

    @property
    def is_live(self) -> bool:
        """Whether it is called in this process."""
        return self._function is None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.target(*arguments, **named)

    def setting(self) -> dict[str, Any]:
        """Its table in an experiment, without its name. Only a function that runs in a process of its own has one.

        Raises:
            ValueError: If it is called in this process: then only `reverie.Experiment` can write the table.
        """
        if self._function is None:
            raise ValueError(f"{self!r} is called in this process: give it to `reverie.Experiment(systems=…)`")
        return {**self._function.setting(), **self._common}

    def __repr__(self) -> str:
        place = "called in this process" if self.is_live else "in a process of its own"
        return f"<system {_title(self.target)}, {place}>"


def system(
    target: Any = None,
    *,
    version: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    price: float | Mapping[str, float] | None = None,
    seed: int | None = None,
    unanchored: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    concurrency: int | None = None,
    interpreter: str | None = None,
    in_this_process: bool | None = None,
) -> Any:
    """Makes a system of a function or an object, with settings. Both are systems without it, too.

        @reverie.system(parameters={"top_k": [3, 5]})
        def answer(question, top_k):
            import my_rag
            found = my_rag.search(question, top_k)
            return {"answer": my_rag.write(question, found), "passages": [{"text": hit.text, "document": hit.path} for hit in found]}

        reverie.Experiment(
            name="mine-and-theirs", corpus="docs", dataset="golden.jsonl",
            systems={"mine": answer, "theirs": query_engine, "new": reverie.system(chain, version="2", price=0.002)},
        )

    A function gets what its parameters name: `question`, `messages` (those before the question, oldest first, and the
    question), `history` (the same without the question), `seed`, `id` (of the question), and the parameters of the trial.
    A query engine or a chat engine of LlamaIndex, a runnable of LangChain and a `reverie.Pipeline` are asked by their own
    methods. The reply is a text, a dictionary with `answer`, `passages`, `usage` and `trace`, the answer and the
    passages as a pair, a response of LlamaIndex, a result of a chain of LangChain, or a generator of texts.

    A function that imports everything inside it runs from its source in a process of its own. Everything else is called
    in this process, in a thread beside yours, while `plan` and `run` go on: an `async` function, or an object with
    `aquery` or `ainvoke`, in one event loop, with 16 questions at once; others one question after the other. A chat
    engine holds one conversation, so it always gets one question after the other. Workers of a cluster cannot reach
    what is called here, so that engine is refused.

    The journal of the store keeps replies, and the same question is not asked twice. A function is asked again if its
    source changes, or a constant or a function of yours that it uses. The source of an object, or of a function that
    uses one, is not known: without `version`, its replies are kept for this program only.

    Args:
        target: The function or the object.
        version: Any text, shown on the leaderboard. If it changes, all questions are asked again.
        parameters: Values that a function gets by name, one or a list each. Every combination is a trial.
        price: US dollars for a call, or `{"input": …, "output": …}` for a million tokens. Default: what the replies say,
            else unknown.
        seed: The seed that a function gets. Default: 0.
        unanchored: How passages count that are in no document: `irrelevant` (default) or `unknown`.
        timeout_seconds: How long one reply may take.
        concurrency: How many questions it gets at once, 1 to 256. Default: 16 if it is asynchronous, else 1.
        interpreter: The program that runs a function in a process of its own. Default: this one, `sys.executable`.
        in_this_process: `True` calls a self-contained function here too; `False` refuses what is not self-contained.

    Raises:
        ValueError: If a setting is out of range, or with `in_this_process=False` the function uses a name from outside.
        TypeError: If it can neither be called, nor be queried or invoked.
    """
    if concurrency is not None and not 1 <= concurrency <= 256:
        raise ValueError(f"concurrency: how many questions it gets at once, 1 to 256, not {concurrency!r}")
    settings = {"timeout_seconds": _check_seconds(timeout_seconds), "concurrency": concurrency, "interpreter": interpreter}
    costs = {"call": float(price)} if isinstance(price, (int, float)) else None if price is None else dict(price)
    common: dict[str, Any] = {"version": version, "parameters": None if parameters is None else dict(parameters), "price": costs}
    common |= {"seed": seed, "unanchored": unanchored}

    def made(target: Any) -> System:
        if isinstance(target, System):
            raise TypeError(f"{target!r} has its settings already")
        LiveSystem.check(target)
        return System(target, _drop_none(settings), _drop_none(common), in_this_process)

    return made if target is None else made(target)


def split_systems(systems: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, LiveSystem]]:
    """The tables of systems, and those that are called in this process, by name.

    Raises:
        TypeError: If a value is neither a table nor a system.
        ValueError: If a system has no name.
    """
    if not isinstance(systems, Mapping):
        raise TypeError(f'systems: give each a name, such as {{"mine": query_engine}}, not {_title(systems)}')
    tables: dict[str, Any] = {}
    live: dict[str, LiveSystem] = {}
    for name, value in systems.items():
        if isinstance(value, Mapping):
            tables[name] = value
            continue
        if value is None:
            continue
        if isinstance(value, str):
            raise TypeError(f'systems: `{name}` is a text: write {{"http": {{"url": …}}}}, or another of {", ".join(_KINDS)}')
        made = value if isinstance(value, System) else _system_of(name, value)
        if not made.is_live:
            tables[name] = made.setting()
            continue
        live[name] = LiveSystem(name, made.target, made._settings, made._common.get("version"))
        tables[name] = {"object": live[name].settings(), **made._common}
    return tables, live


def _system_of(name: str, value: Any) -> System:
    try:
        made: System = system(value)
        return made
    except TypeError as error:
        raise TypeError(f"systems: `{name}`: {error}") from None


def _title(target: Any) -> str:
    plain: Callable[..., Any] = target.func if isinstance(target, functools.partial) else target
    named = getattr(plain, "__qualname__", None) if inspect.isroutine(plain) else None
    return named or type(target).__name__
