"""Python functions as metrics and stages, and the components of Reverie.

`reverie.metric`, `reverie.parser`, `reverie.chunker`, `reverie.retriever`, `reverie.reranker` and `reverie.generator`
are decorators, and have the classes of `reverie.metrics`, `reverie.chunkers` and so on as attributes: `reverie.chunker.Sentence`.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import os
import textwrap
from collections.abc import Callable, Iterator
from itertools import chain, count
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, overload

from reverie import _core
from reverie.chunkers import Chunkers
from reverie.generators import Generators
from reverie.metrics import Metrics
from reverie.parsers import Parsers
from reverie.rerankers import Rerankers
from reverie.retrievers import Retrievers

# How long a call may take unless a decorator says something else, in seconds.
TIMEOUT_SECONDS = Metrics.Python.timeout_seconds


class NotSelfContainedError(ValueError):
    """A function that cannot be run from its source in another process."""


class Function:
    """A function for an experiment; it can still be called. Made by one of the decorators.

    Like every pickle, a pickled one runs code when it is loaded: load only what you trust.
    """

    def __init__(self, function: Callable[..., Any], settings: dict[str, Any], kind: str) -> None:
        self.function = function
        self._kind = kind
        source = _source(function, kind)
        _register_place(function, source)
        self.__name__, self.__doc__ = _name(function), getattr(function, "func", function).__doc__
        self._settings = {**settings, "function": self.__name__, "source": source}

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle would look up the function by its name, and find this object.
        return _unpickle_function, (self._settings, self._kind, self.__name__, self.__doc__)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    @property
    def name(self) -> str:
        """Its name, such as in the leaderboard."""
        return self._settings.get("name", self.__name__)

    def setting(self) -> dict[str, Any]:
        """Its form in a list of an experiment: `metrics`, or the axis of the stage."""
        return {"python": dict(self._settings)}

    def __repr__(self) -> str:
        return f"<{self._kind} {self.name}>"


def _unpickle_function(settings: dict[str, Any], kind: str, name: str, doc: str | None) -> Function:
    """A function that was pickled, from its source."""
    space: dict[str, Any] = {"__name__": "function"}
    exec(compile(settings["source"], f"<{name}>", "exec"), space)
    made = Function.__new__(Function)
    made.function, made._settings, made._kind = space[name], settings, kind
    made.__name__, made.__doc__ = name, doc
    return made


class _Metric(Metrics):
    """Makes a metric of a function: `@reverie.metric`. Holds Reverie's own, with settings:
    `reverie.metric.Faithfulness`."""

    @overload
    def __call__(self, function: Callable[..., Any]) -> Function: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = ...,
        range: tuple[float, float] = ...,
        higher_is_better: bool = ...,
        interpreter: str | None = ...,
        timeout_seconds: float = ...,
        concurrency: int | None = ...,
    ) -> Callable[[Callable[..., Any]], Function]: ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        range: tuple[float, float] = (0.0, 1.0),
        higher_is_better: bool = True,
        interpreter: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        concurrency: int | None = None,
    ) -> Any:
        """Makes a metric of a function.

        The function gets what its parameters name: `question`, `answer` (without citations), `reference`, `passages` (a
        list of texts; also by the column's name, `contexts`). It returns a number in `range`, a truth value, or `None`
        where the metric does not apply; or a pair of that and the reason as a text, which is in the score's detail. If
        it raises, there is no score. It may be an `async def`, have further parameters with defaults, or come from
        `functools.partial`. It is not called for rows that lack a value, unless the parameter has a default: with
        `reference=None` it is called for rows without a reference too.

            @reverie.metric
            def short(answer):
                return len(answer.split()) <= 40

            experiment["evaluate"]["metrics"] = ["recall", short]

        Its source goes into the experiment and is run by `interpreter` (default: this one) in a process of its own, on
        a cluster on each worker. So it imports what it needs inside, and uses no name from outside.

        Args:
            function: The function.
            name: The metric's name. Default: the function's.
            range: The lowest and the highest score.
            higher_is_better: Whether a higher score is better.
            interpreter: The program that runs it. Default: this one, `sys.executable`; on a cluster that of each
                worker.
            timeout_seconds: How long one call may take; after that it is ended, and there is no score.
            concurrency: How many calls of an `async def` run at once, 1 to 256. Default: 16. Other functions are called
                one at a time.

        Raises:
            ValueError: If the function uses a name from outside, or its source cannot be read.
        """
        settings = {
            "range": [float(end) for end in range],
            "higher_is_better": higher_is_better,
            "interpreter": interpreter,
            "concurrency": concurrency,
        }
        settings["timeout_seconds"] = _check_seconds(timeout_seconds)

        def made(function: Callable[..., Any]) -> Function:
            return Function(function, _drop_none({"name": name or _name(function), **settings}), "metric")

        return made if function is None else made(function)


metric = _Metric()


class _Parser(Parsers):
    """Makes a parser of a function: `@reverie.parser`. Holds Reverie's own, with settings: `reverie.parser.Command`."""

    @overload
    def __call__(self, function: Callable[..., Any]) -> Function: ...
    @overload
    def __call__(
        self, *, interpreter: str | None = ..., timeout_seconds: float = ...
    ) -> Callable[[Callable[..., Any]], Function]: ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        interpreter: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Any:
        """Makes a parser of a function.

        The function gets what its parameters name: `file` (the path of a copy of the file) and `path` (the name of the
        document). It returns Markdown: a string, a list of pages, or a dictionary with `text` or `pages`, `title` and
        `author`. Pages are strings, or dictionaries with `number` and `text`.

            @reverie.parser
            def layout(file):
                import pymupdf4llm
                return [page["text"] for page in pymupdf4llm.to_markdown(file, page_chunks=True)]

            experiment["space"]["parse"] = ["text", {"pdf": layout}]

        How its source is run: see `reverie.metric`.

        Args:
            function: The function.
            interpreter: The program that runs it. Default: this one, `sys.executable`.
            timeout_seconds: How long one call may take; after that it is ended, and has failed.

        Raises:
            ValueError: If the function uses a name from outside, or its source cannot be read.
        """
        return _decorate(function, {"interpreter": interpreter, "timeout_seconds": _check_seconds(timeout_seconds)}, "parser")


parser = _Parser()


class _Chunker(Chunkers):
    """Makes a chunker of a function: `@reverie.chunker`. Holds Reverie's own, with settings:
    `reverie.chunker.Sentence`."""

    @overload
    def __call__(self, function: Callable[..., Any]) -> Function: ...
    @overload
    def __call__(
        self, *, interpreter: str | None = ..., timeout_seconds: float = ...
    ) -> Callable[[Callable[..., Any]], Function]: ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        interpreter: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Any:
        """Makes a chunker of a function.

        The function gets what its parameters name: `text` (of a document), `path`, `title`. It returns parts of the
        text in their order: strings that the text holds, or pairs of start and end in characters. They may overlap, or
        leave something out.

            @reverie.chunker
            def paragraphs(text):
                return text.split("\\n\\n")

            experiment["space"]["chunker"] = ["sentence", paragraphs]

        How its source is run: see `reverie.metric`.

        Args:
            function: The function.
            interpreter: The program that runs it. Default: this one, `sys.executable`.
            timeout_seconds: How long one call may take; after that it is ended, and has failed.

        Raises:
            ValueError: If the function uses a name from outside, or its source cannot be read.
        """
        return _decorate(function, {"interpreter": interpreter, "timeout_seconds": _check_seconds(timeout_seconds)}, "chunker")


chunker = _Chunker()


class _Retriever(Retrievers):
    """Makes a retriever of a function: `@reverie.retriever`. Holds Reverie's own, with settings:
    `reverie.retriever.Hybrid`."""

    @overload
    def __call__(self, function: Callable[..., Any]) -> Function: ...
    @overload
    def __call__(
        self, *, top_k: int = ..., interpreter: str | None = ..., timeout_seconds: float = ...
    ) -> Callable[[Callable[..., Any]], Function]: ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        top_k: int = 5,
        interpreter: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Any:
        """Makes a retriever of a function.

        The function gets what its parameters name: `questions`, `chunks` (a list of texts), `documents` (their paths).
        It returns a list for each question: numbers of chunks, from 0, best first, or pairs of number and score, of
        which the best are kept. Every call gets all chunks: an experiment calls once for all questions, a pipeline once
        for each.

            @reverie.retriever(top_k=2)
            def shared_words(questions, chunks):
                words = [set(chunk.split()) for chunk in chunks]
                return [[(i, len(w & set(q.split()))) for i, w in enumerate(words)] for q in questions]

            experiment["space"]["retriever"] = ["bm25", shared_words]

        A search in an index of your own returns passages, as dictionaries: `text`, and optionally `document` (its path in
        the corpus), `start_byte` and `end_byte` (its place in the document's text), `score` (higher is better; without
        scores the order counts), `page`, `title` and `heading`. A passage without a place is looked for in its document,
        or in all documents, so that evidence is found in it. One that stands in no document is kept, and counted in the
        question's remarks.

            @reverie.retriever(top_k=5)
            def in_my_index(questions):
                import psycopg
                …
                return [[{"text": text, "document": path, "score": score} for text, path, score in rows] for rows in found]

        How its source is run: see `reverie.metric`.

        Args:
            function: The function.
            top_k: The most chunks or passages to return.
            interpreter: The program that runs it. Default: this one, `sys.executable`.
            timeout_seconds: How long one call may take; after that it is ended, and has failed.

        Raises:
            ValueError: If the function uses a name from outside, or its source cannot be read.
        """
        settings = {"top_k": top_k, "interpreter": interpreter, "timeout_seconds": _check_seconds(timeout_seconds)}
        return _decorate(function, settings, "retriever")


retriever = _Retriever()


class _Reranker(Rerankers):
    """Makes a reranker of a function: `@reverie.reranker`. Holds Reverie's own, with settings:
    `reverie.reranker.Listwise`."""

    @overload
    def __call__(self, function: Callable[..., Any]) -> Function: ...
    @overload
    def __call__(
        self, *, top_n: int = ..., interpreter: str | None = ..., timeout_seconds: float = ...
    ) -> Callable[[Callable[..., Any]], Function]: ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        top_n: int = 3,
        interpreter: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Any:
        """Makes a reranker of a function.

        The function gets what its parameters name: `question`, `passages` (a list of texts, best first), `documents`
        (their paths). It returns a score for each passage, higher is better; equal scores keep their order.

            @reverie.reranker(top_n=2)
            def shortest(passages):
                return [-len(passage) for passage in passages]

            experiment["space"]["reranker"] = ["none", shortest]

        How its source is run: see `reverie.metric`.

        Args:
            function: The function.
            top_n: The most passages to keep.
            interpreter: The program that runs it. Default: this one, `sys.executable`.
            timeout_seconds: How long one call may take; after that it is ended, and has failed.

        Raises:
            ValueError: If the function uses a name from outside, or its source cannot be read.
        """
        settings = {"top_n": top_n, "interpreter": interpreter, "timeout_seconds": _check_seconds(timeout_seconds)}
        return _decorate(function, settings, "reranker")


reranker = _Reranker()


class _Generator(Generators):
    """Makes a generator of a function: `@reverie.generator(model="gpt")`. Holds Reverie's own, with settings:
    `reverie.generator.Compact`."""

    @overload
    def __call__(self, function: Callable[..., Any]) -> Function: ...
    @overload
    def __call__(
        self,
        *,
        model: str | None = ...,
        max_tokens: int | None = ...,
        temperature: float | None = ...,
        seed: int | None = ...,
        citations: bool = ...,
        interpreter: str | None = ...,
        timeout_seconds: float = ...,
        concurrency: int | None = ...,
    ) -> Callable[[Callable[..., Any]], Function]: ...
    def __call__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        model: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        citations: bool = True,
        interpreter: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        concurrency: int | None = None,
    ) -> Any:
        r"""Makes a generator of a function that answers, or of one that writes what a model is asked.

        The function gets what its parameters name: `question`, `passages` (a list of texts, best first), `documents`
        (their paths). Without `model` it returns the answer: a text, or `None` if the passages do not answer the
        question. A number in brackets in the answer cites the passage of that number, from 1. Calls of models that it
        makes itself are in no limit, budget, journal or price of Reverie.

            @reverie.generator
            def first_sentence(passages):
                return passages[0].split(". ")[0] + " [1]"

        With `model` it returns a prompt: a text, or messages as `{"role": …, "content": …}`, the last of them of the
        user. Reverie makes the call, so that limits, budget and journal apply to it.

            @reverie.generator(model="gpt")
            def polite(question, passages):
                sources = "\n".join(f"[{i}] {passage}" for i, passage in enumerate(passages, 1))
                return f"{sources}\n\nPlease answer from the above, and cite like [1]: {question}"

            experiment["space"]["generator"] = [{"compact": {"model": "gpt"}}, polite, first_sentence]

        How its source is run: see `reverie.metric`.

        Args:
            function: The function.
            model: The name of the chat model in the experiment. Default: none, because the function answers.
            max_tokens: The longest reply of the model, in tokens. Default: 256.
            temperature: 0 always takes the likeliest word. Default: 0.
            seed: Makes answers repeatable at a temperature above 0, if the model supports it. Default: 0.
            citations: Whether answers name the passages that they are from.
            interpreter: The program that runs it. Default: this one, `sys.executable`.
            timeout_seconds: How long one call may take; after that it is ended, and has failed.
            concurrency: How many calls of an `async def` run at once, 1 to 256. Default: 16. Other functions are called
                one at a time.

        Raises:
            ValueError: If the function uses a name from outside, its source cannot be read, or a setting of the model is
                given without `model`.
        """
        sampling = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
        given = _drop_none(sampling)
        if model is None and given:
            raise ValueError(f"{', '.join(given)}: only a model has this: give `model`, or leave it out")
        defaults = {"max_tokens": 256, "temperature": 0.0, "seed": 0}
        settings = {"citations": citations} if model is None else {"model": model, **defaults, **given, "citations": citations}
        outside = {"interpreter": interpreter, "timeout_seconds": _check_seconds(timeout_seconds), "concurrency": concurrency}
        answers = {"answers": True} if model is None else {}
        return _decorate(function, {"settings": settings, **answers, **outside}, "generator")


generator = _Generator()


def _name(function: Callable[..., Any]) -> str:
    plain = function.func if isinstance(function, functools.partial) else function
    return getattr(plain, "__name__", "function")


def to_metrics(given: Any, concurrency: int | None = None, in_this_process: bool = False) -> list[Any]:
    """One metric or several, as a list. Functions that are not decorated become metrics, with this many calls at once.
    With `in_this_process`, callables that are not self-contained become metrics too, and are called here."""
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    names: set[str] = set()

    def made(each: Any) -> Any:
        if not callable(each) or inspect.isclass(each) or hasattr(each, "setting"):
            return each
        plain = (functools.partial, FunctionType)
        if isinstance(each, plain) or not in_this_process:
            try:
                return metric(concurrency=concurrency)(each)
            except NotSelfContainedError:
                if not in_this_process:
                    raise
        from reverie._own_metrics import OwnMetric

        word = _name(each) if isinstance(each, (*plain, BuiltinFunctionType, MethodType)) else type(each).__name__
        word = word.strip("<>")
        candidates = chain([word], (f"{word}_{number}" for number in count(2)))
        name = next(candidate for candidate in candidates if candidate not in names)
        names.add(name)
        return OwnMetric(each, name, concurrency)

    return [made(each) for each in items]


def _decorate(function: Callable[..., Any] | None, settings: dict[str, Any], kind: str) -> Any:
    """A stage of this function; without one, a decorator."""

    def made(function: Callable[..., Any]) -> Function:
        return Function(function, _drop_none(settings), kind)

    return made if function is None else made(function)


def _check_seconds(seconds: float) -> float:
    if not 0 < seconds <= 1e6:
        raise ValueError(f"timeout_seconds must be above 0 and at most 1,000,000, not {seconds!r}")
    return float(seconds)


def _drop_none(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _source(function: Callable[..., Any], kind: str) -> str:
    """The function's source, without decorators; arguments that `functools.partial` bound are written out."""
    bound = function if isinstance(function, functools.partial) else None
    plain = bound.func if bound is not None else function
    plain = plain.function if isinstance(plain, Function) else plain
    if not inspect.isfunction(plain) or plain.__name__ == "<lambda>":
        raise NotSelfContainedError(f"a {kind} is a function with a name, made by `def`: not {function!r}")
    try:
        source = textwrap.dedent(inspect.getsource(plain))
    except (OSError, TypeError) as error:
        raise NotSelfContainedError(
            f"the source of `{plain.__name__}` cannot be read ({error}): "
            'put it into a file, and write {"python": {"file": "own.py", "function": …}}'
        ) from error
    names = {*plain.__code__.co_freevars, *_globals(plain.__code__)} - {plain.__name__, *dir(builtins)}
    # pytest puts names like `@py_builtins` into what it loads; they are not in the source.
    around = sorted(name for name in names if name.isidentifier())
    if around:
        raise NotSelfContainedError(
            f"the {kind} `{plain.__name__}` uses {', '.join(around)} from outside of it: it runs in a process of its "
            "own, so import and define everything inside the function, or give it as the default of a parameter; "
            "`reverie.evaluate` also takes it without a decorator, and calls it in this process"
        )
    source = _add_defaults(plain, source)
    node = ast.parse(source).body[0]
    lines = source.splitlines()[node.lineno - 1 :]
    if bound is not None:
        lines += _binding(bound, plain)
    # Annotations may name things that do not exist there.
    return "\n".join(["from __future__ import annotations", "", *lines, ""])


def _register_place(function: Callable[..., Any], source: str) -> None:
    """Lets failures name the user's own file and its lines, and not those of the source that is run."""
    plain = function.func if isinstance(function, functools.partial) else function
    plain = plain.function if isinstance(plain, Function) else plain
    file = inspect.getsourcefile(plain)
    lines, first = inspect.getsourcelines(plain)
    written = ast.parse(textwrap.dedent("".join(lines))).body[0].lineno
    run = next(node.lineno for node in ast.parse(source).body if not isinstance(node, ast.ImportFrom))
    if file is not None:
        _core.register_function_place(source, os.path.abspath(file) if os.path.exists(file) else file, first + written - 1 - run)


def _add_defaults(function: FunctionType, source: str) -> str:
    """The source, with values in place of defaults that are names: names do not exist where it runs."""
    node = ast.parse(source).body[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    arguments = node.args
    ordered = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(ordered[len(ordered) - len(arguments.defaults) :], arguments.defaults))
    pairs += [(each, value) for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults) if value is not None]
    values = inspect.signature(function).parameters
    lines = source.encode().splitlines(keepends=True)
    for argument, written in sorted(pairs, key=lambda pair: (pair[1].lineno, pair[1].col_offset), reverse=True):
        if _is_literal(ast.unparse(written)):
            continue
        literal = _literal(values[argument.arg].default, f"the default of `{argument.arg}` of `{function.__name__}`")
        first, last = written.lineno - 1, (written.end_lineno or written.lineno) - 1
        after = lines[last][written.end_col_offset :]
        lines[first : last + 1] = [lines[first][: written.col_offset] + literal.encode() + after]
    return b"".join(lines).decode()


def _binding(bound: functools.partial[Any], function: FunctionType) -> list[str]:
    """A wrapper of the same name that passes on the bound arguments."""
    name = function.__name__
    given = inspect.signature(function).bind_partial(*bound.args, **bound.keywords)
    written = {key: _literal(value, f"what is bound to `{key}` of `{name}`") for key, value in given.arguments.items()}
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    every = inspect.signature(function).parameters.values()
    free = [each for each in every if each.name not in written and each.kind not in kinds]
    wanted, given_on = [], [f"{key}={value}" for key, value in written.items()]
    for each in sorted(free, key=lambda each: each.default is not inspect.Parameter.empty):
        default = ""
        if each.default is not inspect.Parameter.empty:
            default = "=" + _literal(each.default, f"the default of `{each.name}` of `{name}`")
        wanted.append(f"{each.name}{default}")
        given_on.append(f"{each.name}={each.name}")
    is_async = inspect.iscoroutinefunction(function)
    head, call = ("async def", "await _bound") if is_async else ("def", "_bound")
    return ["", f"_bound = {name}", "", f"{head} {name}({', '.join(wanted)}):", f"    return {call}({', '.join(given_on)})"]


def _literal(value: Any, what: str) -> str:
    """A value as source text."""
    text = repr(value)
    if not _is_literal(text) or ast.literal_eval(text) != value:
        raise ValueError(
            f"{what} is {value!r}: the function runs in a process of its own, so only texts, numbers, truth values, "
            "None, and lists and dictionaries of these can be given to it"
        )
    return text


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True


def _globals(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)
