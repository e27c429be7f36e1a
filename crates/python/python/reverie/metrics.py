"""Python functions as metrics."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, overload


class Metric:
    """A function that scores answers; it can still be called. Made by `reverie.metric`."""

    def __init__(self, function: Callable[..., Any], settings: dict[str, Any]) -> None:
        self.function = function
        self._settings = {"name": function.__name__, "function": function.__name__, **settings}
        self._settings["source"] = _source(function)
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    @property
    def name(self) -> str:
        """Its name in the leaderboard."""
        return self._settings["name"]

    def setting(self) -> dict[str, Any]:
        """What stands for it in the list `metrics` of an experiment."""
        return {"python": dict(self._settings)}

    def __repr__(self) -> str:
        return f"<metric {self.name}>"


@overload
def metric(function: Callable[..., Any]) -> Metric: ...
@overload
def metric(
    *,
    name: str | None = ...,
    range: tuple[float, float] = ...,
    higher_is_better: bool = ...,
    interpreter: str | None = ...,
) -> Callable[[Callable[..., Any]], Metric]: ...
def metric(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    range: tuple[float, float] = (0.0, 1.0),
    higher_is_better: bool = True,
    interpreter: str | None = None,
) -> Any:
    """Makes a metric of a function.

    The function names what it wants: `question`, `answer` (without citations), `reference`, `passages` (a list of
    texts). It returns a number in `range`, a truth value, or `None` where the metric does not apply. What it raises is
    no score, with the reason.

        @reverie.metric
        def short(answer):
            return len(answer.split()) <= 40

        experiment["evaluate"]["metrics"] = ["recall", short]

    Its source goes into the experiment and is run by `interpreter` (default `python3`) in a process of its own, on a
    cluster on each worker. So it imports what it needs inside, and uses no name from around it.

    Args:
        function: The function.
        name: The metric's name. Default: the function's.
        range: The lowest and the highest score.
        higher_is_better: Whether a higher score is better.
        interpreter: The program that runs it, such as `sys.executable` for the packages of this environment.

    Raises:
        ValueError: If the function uses a name from around it, or its source cannot be read.
    """
    settings: dict[str, Any] = {"range": [float(end) for end in range], "higher_is_better": higher_is_better}
    if name is not None:
        settings["name"] = name
    if interpreter is not None:
        settings["interpreter"] = interpreter
    if function is None:
        return lambda function: Metric(function, settings)
    return Metric(function, settings)


def _source(function: Callable[..., Any]) -> str:
    """The function by itself, without decorators."""
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        raise ValueError(f"a metric is a function with a name, made by `def`: not {function!r}")
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise ValueError(
            f"the source of `{function.__name__}` cannot be read ({error}): "
            'put it into a file, and write {"python": {"file": "metrics.py", "function": …}}'
        ) from error
    around = sorted(
        {*function.__code__.co_freevars, *_globals(function.__code__)} - {function.__name__, *dir(builtins)}
    )
    if around:
        raise ValueError(
            f"the metric `{function.__name__}` uses {', '.join(around)} from around it: it runs in a process of its "
            "own, so import and define everything inside the function"
        )
    node = ast.parse(source).body[0]
    lines = source.splitlines()[node.lineno - 1 :]
    # Annotations may name what is not there.
    return "\n".join(["from __future__ import annotations", "", *lines, ""])


def _globals(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)
