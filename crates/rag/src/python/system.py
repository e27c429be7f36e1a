# Calls a whole RAG system: a function, or an object that is queried or invoked, such as a query engine or a chat engine
# of LlamaIndex, or a runnable of LangChain. Objects of packages are recognised by their methods and attributes, so that no package is
# imported here. What the system returns is written in one form: answer, passages, usage, trace, version.
# For functions, this file and `driver.py` are one program. The Python package runs this file alone, for objects of the
# user's program.
import functools
import inspect
import json
import math
from collections.abc import Mapping

# The arguments that a function may have, besides the parameters of the trial.
KNOWN = ("question", "messages", "history", "seed", "id")
# The fields of an input in which a runnable expects the question, and the messages before it.
QUESTION_FIELDS = ("input", "question", "query", "user_input", "prompt")
HISTORY_FIELDS = ("chat_history", "history")
# The fields in which chains return passages and answers, and those in which they repeat their input.
PASSAGE_FIELDS = ("context", "source_documents", "documents", "contexts")
ANSWER_FIELDS = ("result", "output", "output_text", "response")
ECHO_FIELDS = (*QUESTION_FIELDS, *HISTORY_FIELDS)


class UnusableReply(Exception):
    """What the system returned is not in a form that can be read."""


def describe(value):
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:80] + '…'}, of type {type(value).__name__}"


# Where the system is.


def system_file(system, file):
    """The file in which errors are looked for, and the search path for what it imports."""
    import importlib.util
    import sys

    sys.path[:0] = [folder for folder in system["folders"] if folder not in sys.path]
    if not system["module"]:
        return file
    found = importlib.util.find_spec(system["module"])
    return (found and found.origin) or system["module"]


def load_system(system, name, run):
    """The function or object of this name, which may have dots; `run` runs the file in a module's namespace."""
    import importlib
    import sys
    import types

    if system["module"]:
        module, place = importlib.import_module(system["module"]), f"the module {system['module']}"
    else:
        module, place = types.ModuleType("reverie_system"), "the file"
        module.__file__ = system["path"]
        # Decorators such as `dataclass` look the module up.
        sys.modules[module.__name__] = module
        run(module.__dict__)
    target = module
    for part in name.split("."):
        if not hasattr(target, part):
            raise UnusableReply(f"{place} has no `{name}`: set `function`")
        target = getattr(target, part)
    return SystemTarget(target, name)


# How it is called.


class SystemTarget:
    """A function or an object, and how it gets a question."""

    def __init__(self, target, name):
        self.name = name
        if inspect.isclass(target):
            raise UnusableReply(f"`{name}` is a class: name an object of it, or a function")
        self.call, self.sync_call, self.is_async = None, None, False
        # Which of `messages`, `seed` and `id` it gets; and whether it can only get one question after the other.
        self.takes, self.is_serial = [], False
        is_function = inspect.isroutine(target) or isinstance(target, functools.partial)
        if not is_function and is_chat_engine(target):
            # It holds one conversation, which each call replaces.
            self.call, self.arguments, self.takes, self.is_serial = target.chat, self.chat, ["messages"], True
            return
        for methods, arguments in (("query", self.query), ("invoke", self.input_of(target))):
            sync_method = None if is_function else getattr(target, methods, None)
            async_method = None if is_function else getattr(target, f"a{methods}", None)
            if callable(sync_method) or callable(async_method):
                self.is_async = callable(async_method)
                self.call = async_method if self.is_async else sync_method
                self.sync_call = sync_method if self.is_async and callable(sync_method) else None
                self.arguments = arguments
                if methods == "invoke" and any(name in HISTORY_FIELDS for name in input_fields(target)):
                    self.takes = ["messages"]
                return
        if not callable(target):
            raise UnusableReply(
                f"`{name}` is {describe(target)}: it must be a function, or an object with `query` or `invoke`"
            )
        code = target if is_function else type(target).__call__
        self.is_async = any(check(each) for each in (target, code) for check in ASYNC_CHECKS)
        self.call, self.arguments = target, self.by_name(target)

    def query(self, request):
        self.without_parameters(request, "a query engine takes none")
        return [request["question"]], {}

    def chat(self, request):
        self.without_parameters(request, "a chat engine takes none")
        from llama_index.core.llms import ChatMessage

        history = known_arguments(request)["history"]
        messages = [ChatMessage(role=message["role"], content=message["content"]) for message in history]
        return [request["question"]], {"chat_history": messages}

    def without_parameters(self, request, reason):
        if request["parameters"]:
            names = ", ".join(f"`{name}`" for name in request["parameters"])
            raise UnusableReply(f"`{self.name}` cannot get {names}: {reason}; name a function that has them")

    def input_of(self, target):
        """The input of a runnable: the text, or the fields that its schema names."""

        def arguments(request):
            fields = input_fields(target)
            names = [name for name in fields if name in QUESTION_FIELDS] or fields[:1]
            if not names:
                self.without_parameters(request, "its input is a text")
                return [request["question"]], {}
            value = {names[0]: request["question"]}
            value.update({name: history_of(request) for name in fields if name in HISTORY_FIELDS})
            for name, parameter in request["parameters"].items():
                if name not in fields:
                    self.without_parameters(request, f"its input has {', '.join(fields)}")
                value[name] = parameter
            return [value], {}

        return arguments

    def by_name(self, function):
        """The arguments of a function: those that it has, by their names."""
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return self.query
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names = {each.name for each in parameters if each.kind in by_name}
        takes_more = any(each.kind == inspect.Parameter.VAR_KEYWORD for each in parameters)
        self.takes = [name for name in ("messages", "seed", "id") if name in names]
        if "history" in names and "messages" not in names:
            self.takes.insert(0, "messages")

        def arguments(request):
            values = {name: value for name, value in known_arguments(request).items() if name in names}
            for name, value in request["parameters"].items():
                if name not in names and not takes_more:
                    raise UnusableReply(f"`{self.name}` has no parameter `{name}`, which the experiment sets")
                values[name] = value
            if names.intersection(("question", "messages", "history")):
                return [], values
            # Its first argument has a name of its own.
            for each in parameters:
                if each.name not in values and each.kind not in (
                    inspect.Parameter.KEYWORD_ONLY,
                    inspect.Parameter.VAR_KEYWORD,
                    inspect.Parameter.VAR_POSITIONAL,
                ):
                    return [request["question"]], values
            if takes_more:
                return [], {"question": request["question"], **values}
            if any(each.kind == inspect.Parameter.VAR_POSITIONAL for each in parameters):
                return [request["question"]], values
            raise UnusableReply(f"`{self.name}` takes no question: give it the parameter `question`")

        return arguments


def is_chat_engine(target):
    """Whether it is a chat engine of LlamaIndex: a conversation that goes on with each call."""
    return callable(getattr(target, "chat", None)) and hasattr(target, "chat_history") and hasattr(target, "reset")


ASYNC_CHECKS = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)


def known_arguments(request):
    messages = request.get("messages") or [{"role": "user", "content": request["question"]}]
    known = {"question": request["question"], "messages": messages, "history": messages[:-1]}
    known["seed"] = request.get("seed", 0)
    if "id" in request:
        known["id"] = request["id"]
    return known


def history_of(request):
    """The messages before the question as pairs of role and text, which runnables read."""
    return [(message["role"], message["content"]) for message in known_arguments(request)["history"]]


def input_fields(target):
    """The fields of a runnable's input; none if it is a text or not known."""
    keys = getattr(target, "input_keys", None)
    if isinstance(keys, (list, tuple)):
        return [str(key) for key in keys]
    try:
        schema = target.get_input_jsonschema() if hasattr(target, "get_input_jsonschema") else {}
        return list(schema.get("properties") or {}) if isinstance(schema, Mapping) else []
    except Exception:
        return []


# What it returns, in one form.


class ReplyPieces:
    """What a generator yields: texts, which are joined, and dictionaries with the rest."""

    def __init__(self):
        self.texts, self.rest = [], {}

    def add(self, item):
        if isinstance(item, Mapping):
            self.rest.update(item)
        elif isinstance(item, str) or hasattr(item, "content"):
            self.texts.append(text_of(item))
        else:
            raise UnusableReply(f"it yielded {describe(item)}: texts are wanted, and at the end a dictionary")

    def whole(self):
        return reply_of({"answer": "".join(self.texts), **self.rest} if self.texts or not self.rest else self.rest)


def is_iterator(value):
    return hasattr(value, "__next__")


async def reply_of_async(value):
    """The reply, after everything in it that must be awaited."""
    if hasattr(value, "__await__"):
        value = await value
    if not hasattr(value, "__aiter__"):
        return reply_of(await whole_response_async(value))
    pieces = ReplyPieces()
    async for item in value:
        pieces.add(item)
    return pieces.whole()


def is_streamed(value):
    """Whether it is a response of LlamaIndex whose text is still being written."""
    return hasattr(value, "source_nodes") and hasattr(value, "get_response") and not hasattr(value, "response")


async def whole_response_async(value):
    if is_streamed(value):
        value = value.get_response()
        if hasattr(value, "__await__"):
            value = await value
    return value


def reply_of(value):
    """The reply in the common form."""
    if is_iterator(value):
        pieces = ReplyPieces()
        for item in value:
            pieces.add(item)
        return pieces.whole()
    if is_streamed(value):
        value = value.get_response()
    if isinstance(value, str):
        return {"answer": value}
    if isinstance(value, Mapping):
        return reply_of_mapping(value)
    if isinstance(value, tuple) and len(value) == 2:
        return reply_of_mapping({"answer": value[0], "passages": value[1]})
    if hasattr(value, "source_nodes"):
        return {"answer": text_of(value), "passages": passages_of(value.source_nodes)}
    if hasattr(value, "content"):
        return {"answer": text_of(value), "usage": usage_of(getattr(value, "usage_metadata", None))}
    if hasattr(value, "text") and hasattr(value, "passages"):
        # An answer of Reverie, or of a class like it.
        return {"answer": value.text, "passages": passages_of(value.passages)}
    raise UnusableReply(
        f"it returned {describe(value)}: a text is wanted, a dictionary with `answer` and `passages`, or both as a pair"
    )


def reply_of_mapping(value):
    reply = dict(value)
    for field, others in (("passages", PASSAGE_FIELDS), ("answer", ANSWER_FIELDS)):
        for other in others:
            if field not in reply and other in reply:
                reply[field] = reply.pop(other)
    for echo in ECHO_FIELDS:
        reply.pop(echo, None)
    answer = reply.get("answer")
    if hasattr(answer, "source_nodes"):
        reply.setdefault("passages", answer.source_nodes)
    if answer is not None:
        reply["answer"] = text_of(answer)
        reply.setdefault("usage", getattr(answer, "usage_metadata", None))
    usage = usage_of(reply.pop("usage", None))
    if usage is not None:
        reply["usage"] = usage
    reply.update({name: str(reply[name]) for name in ("trace", "version") if reply.get(name) is not None})
    if reply.get("passages") is not None:
        reply["passages"] = passages_of(reply["passages"])
    return reply


def text_of(value):
    """The text of an answer: itself, that of a message, or that of a response."""
    if hasattr(value, "source_nodes"):
        return str(getattr(value, "response", value) or "")
    content = getattr(value, "content", value)
    if isinstance(content, list):
        parts = [part if isinstance(part, str) else part.get("text", "") for part in content]
        return "".join(part for part in parts if isinstance(part, str))
    if isinstance(content, str):
        return content
    raise UnusableReply(f"its answer is {describe(value)}: a text is wanted")


def passages_of(values):
    if isinstance(values, (str, Mapping)) or not hasattr(values, "__iter__"):
        raise UnusableReply(f"its passages are {describe(values)}: a list is wanted")
    return [passage_of(value, position) for position, value in enumerate(values)]


def passage_of(value, position):
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        passage = dict(value)
        passage["score"] = finite(passage.get("score"))
        return {name: field for name, field in passage.items() if field is not None}
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(value[0], str):
        # A search of LangChain with scores.
        return {**passage_of(value[0], position), "score": finite(value[1])}
    if hasattr(value, "page_content"):
        return passage_of_document(value)
    if hasattr(value, "node") or hasattr(value, "get_content"):
        return passage_of_node(value)
    if isinstance(getattr(value, "text", None), str):
        fields = {name: getattr(value, name, None) for name in ("text", "document", "page", "score")}
        return {name: field for name, field in {**fields, "score": finite(fields["score"])}.items() if field is not None}
    raise UnusableReply(f"passages[{position}] is {describe(value)}: a text is wanted, or a dictionary with `text`")


def passage_of_node(value):
    """A passage of LlamaIndex, with its score or without."""
    node = getattr(value, "node", value)
    metadata = getattr(node, "metadata", None) or {}
    text = node.get_content() if hasattr(node, "get_content") else node.text
    passage = {
        "text": text,
        "document": metadata.get("file_path") or metadata.get("file_name"),
        "page": page_number(metadata.get("page_label")),
        "id": getattr(node, "node_id", None),
        "score": finite(getattr(value, "score", None)),
    }
    return {name: field for name, field in passage.items() if field is not None}


def passage_of_document(value):
    """A passage of LangChain, whose loaders count `page` from 0, and `page_label` and `page_number` from 1."""
    metadata = getattr(value, "metadata", None) or {}
    page = page_number(metadata.get("page_label")) or page_number(metadata.get("page_number"))
    if page is None and isinstance(metadata.get("page"), int):
        page = metadata["page"] + 1
    passage = {
        "text": value.page_content,
        "document": metadata.get("source"),
        "page": page,
        "id": getattr(value, "id", None),
        "score": finite(metadata.get("score", metadata.get("relevance_score"))),
    }
    return {name: field for name, field in passage.items() if field is not None}


def page_number(label):
    """The number of a page from 1; none if its label is no such number, as in a preface."""
    try:
        number = int(label)
    except (TypeError, ValueError):
        return None
    return number if number > 0 else None


def finite(number):
    """The number, unless there is none or JSON cannot hold it."""
    try:
        return number if number is None or math.isfinite(number) else None
    except TypeError:
        return number


def usage_of(usage):
    """The usage in the names of the common form, also from an object of a client library."""
    if usage is None:
        return None
    read = usage.get if isinstance(usage, Mapping) else lambda name: getattr(usage, name, None)
    names = {
        "prompt_tokens": ("prompt_tokens", "input_tokens"),
        "completion_tokens": ("completion_tokens", "output_tokens"),
        "cost_usd": ("cost_usd",),
    }
    found = {}
    for name, others in names.items():
        values = [finite(read(other)) for other in others]
        found.update({name: value for value in values if value is not None})
    return found or usage_left(usage)


def usage_left(usage):
    """A usage without any known name, as it is: its reader says which names there are."""
    return {str(name): None for name in usage} if isinstance(usage, Mapping) else None


# What it raises.


def system_error(error, report):
    """The report of an error, with what it says about another attempt."""
    if isinstance(error, UnusableReply):
        return {"error": str(error), "is_unusable": True}
    return {**report, **refusal_of(error)}


def refusal_of(error):
    """The HTTP status that an exception of a client library stands for, and how many seconds it asks to wait."""
    names = {base.__name__ for base in type(error).__mro__ if base.__module__.partition(".")[0] in ("phoenix", "reverie")}
    response = getattr(error, "response", None)
    status = None
    for holder in (error, response):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if status is None and isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
                status = value
    if "RateLimitError" in names:
        status = 429
    elif "PhoenixException" in names:
        status = None
    elif status is None and isinstance(error, (ConnectionError, TimeoutError)):
        status = 503
    wait = getattr(error, "retry_after", None)
    headers = getattr(response, "headers", None) or getattr(error, "headers", None)
    if wait is None and hasattr(headers, "get"):
        wait = headers.get("retry-after") or headers.get("Retry-After")
    try:
        wait = float(wait)
    except (TypeError, ValueError):
        wait = None
    return {"status": status, "retry_after": wait if wait is not None and 0 <= wait < float("inf") else None}


# How calls run.


async def call_system_async(target, request):
    positional, named = target.arguments(request)
    try:
        return await reply_of_async(target.call(*positional, **named))
    except NotImplementedError:
        if target.sync_call is None:
            raise
    # The object has the method only because a base class has it.
    import asyncio

    value = await asyncio.to_thread(target.sync_call, *positional, **named)
    return await asyncio.to_thread(reply_of, value)


class SystemThreads:
    """Threads that each make one call after the other. A call cannot be ended, so one that takes too long keeps its
    thread, and another thread takes its place, as long as fewer than half of the threads are lost."""

    def __init__(self, count, work, answer, failed):
        import queue
        import threading

        self.calls, self.work, self.answer, self.failed = queue.SimpleQueue(), work, answer, failed
        self.count, self.lost, self.running, self.lock = count, 0, set(), threading.Lock()
        self.threading = threading
        for _ in range(count):
            self.start()

    def start(self):
        self.threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            number, request = self.calls.get()
            with self.lock:
                self.running.add(number)
            try:
                outcome, reply = self.answer, self.work(request)
            except BaseException as error:
                outcome, reply = self.failed, error
            with self.lock:
                if number not in self.running:
                    # It was given up, and another thread is here.
                    self.lost -= 1
                    return
                self.running.remove(number)
                try:
                    outcome(number, reply)
                except BaseException as error:
                    self.failed(number, error)

    def cancel(self, number, reply):
        with self.lock:
            if number not in self.running:
                return
            self.running.remove(number)
            self.lost += 1
            if self.lost * 2 >= self.count:
                reply({"call": number, "is_stuck": True})
            else:
                reply({"call": number, "error": "cancelled"})
                self.start()


def serve_system(target, system, requests, reply, answer, failed):
    """Answers calls: in one event loop, on several threads, or one after the other on this thread."""
    import threading

    threads = 1 if target.is_serial else system["threads"] or 1
    # An event loop belongs to its thread.
    own = threading.local()
    reply({"call": 0, "is_async": target.is_async, "at_once": target.is_async or threads > 1})

    def work(request):
        positional, named = target.arguments(request)
        value = target.call(*positional, **named)
        if hasattr(value, "__await__") or hasattr(value, "__aiter__"):
            if not hasattr(own, "loop"):
                own.loop = Loop()
            return own.loop.result(reply_of_async(value))
        return reply_of(value)

    if target.is_async:

        async def call(**request):
            return await call_system_async(target, request)

        call_at_once(call, requests, answer, failed)
        return
    if threads > 1:
        pool = SystemThreads(threads, work, answer, failed)
        for line in requests:
            call = json.loads(line)
            if "cancel" in call:
                pool.cancel(call["cancel"], reply)
            else:
                pool.calls.put((call["call"], call["arguments"]))
        return
    for line in requests:
        call = json.loads(line)
        try:
            answer(call["call"], work(call["arguments"]))
        except BaseException as error:
            failed(call["call"], error)
