# Runs one function of a user for the program that started this interpreter.
# It reads lines of JSON from its standard input: first the setup, then calls.
# It answers each with a line. Calls run one after the other; those of an
# `async def` run side by side, and each is answered as it ends. What the function
# prints, or a program that it starts, goes to standard error, so that it cannot
# pass for an answer.
import json
import os
import sys


def end_with(parent):
    """Makes this process, and all that it starts, end with the program, however that ends."""
    try:
        # A group of its own: Ctrl-C is for the program, which decides.
        os.setpgid(0, 0)
    except OSError:
        pass
    # A notebook's interrupt reaches every process that it started.
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = os.getpid()
    if os.fork() == 0:
        guard(worker)
    if sys.platform.startswith("linux"):
        try:
            import ctypes

            ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
        except (ImportError, OSError, AttributeError):
            pass
    if os.getppid() != parent:
        os._exit(1)


def guard(worker):
    """A process that computes nothing, so that it always notices: it ends the whole group as soon as the program
    closed its end of the pipe, or the worker ended."""
    import select
    import signal

    try:
        os.setpgid(0, 0)
    except OSError:
        pass
    for name in ("SIGINT", "SIGHUP", "SIGTERM"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    # Whoever waits for the end of the answers must not wait for this process.
    os.closerange(3, 64)
    poll = select.poll()
    poll.register(0, 0)
    while not poll.poll(500) and os.getppid() == worker:
        pass
    try:
        os.killpg(worker, signal.SIGKILL)
    except OSError:
        pass
    os._exit(0)


def plain(value):
    """Numbers and arrays of other packages as plain ones."""
    for method in ("tolist", "item", "__float__"):
        if hasattr(value, method):
            return getattr(value, method)()
    return list(value)


def error_report(error, name):
    """What was raised, where in the function's file, and the traceback below this program."""
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file_name__:
        trace = trace.tb_next
    line = None
    for frame in traceback.extract_tb(trace):
        if frame.filename == name:
            line = frame.lineno
    if isinstance(error, SyntaxError) and error.filename == name:
        line = error.lineno
    try:
        said = str(error)
    except Exception:
        said = "an error that cannot be written"
    text = "".join(traceback.format_exception(type(error), error, trace))
    if isinstance(error, ModuleNotFoundError):
        said += f" (it runs in {sys.executable}: install it there, or set `interpreter`)"
    return {"error": f"{type(error).__name__}: {said}".rstrip(": "), "line": line, "traceback": text[-20000:]}


class Loop:
    """Awaits what a plain `def` returned, if it can be awaited, every time in the same event loop: what the function
    keeps between calls, such as a client, belongs to that loop."""

    def __init__(self):
        self.loop = None

    def result(self, value):
        if not hasattr(value, "__await__"):
            return value
        import asyncio

        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)

        async def waited():
            return await value

        return self.loop.run_until_complete(waited())


def call_at_once(function, requests, answer, failed):
    """Calls an `async def`: all requests run side by side in one event loop."""
    import asyncio
    import threading

    tasks = {}

    async def run(call):
        number = call["call"]
        try:
            answer(number, await function(**call["arguments"]))
        except BaseException as error:
            failed(number, error)
        finally:
            tasks.pop(number, None)

    def begin(call):
        if "cancel" in call:
            # It took too long: the others go on.
            task = tasks.get(call["cancel"])
            if task is not None:
                task.cancel()
            return
        tasks[call["call"]] = asyncio.ensure_future(run(call))

    async def serve_all():
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def read():
            for line in requests:
                loop.call_soon_threadsafe(begin, json.loads(line))
            loop.call_soon_threadsafe(ended.set_result, None)

        # A thread reads, so that the loop never waits for the program.
        threading.Thread(target=read, daemon=True).start()
        await ended

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(serve_all())


def compiled(source, name, shift):
    """The source with the lines that it has in the user's own file."""
    import ast

    tree = ast.parse(source, name)
    for node in ast.walk(tree):
        for line in ("lineno", "end_lineno"):
            if getattr(node, line, None) is not None:
                # What was put before the function has no line there.
                setattr(node, line, max(1, getattr(node, line) + shift))
    return compile(tree, name, "exec")


def serve(requests, replies):
    import linecache

    setup = json.loads(requests.readline())
    end_with(setup["parent"])
    # The function may read its standard input: there is nothing in it.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    place = setup["place"] or {"file": setup["file"] or f"<{setup['function']}>", "shift": 0}
    source, name, shift = setup["source"], place["file"], place["shift"]
    lines = ["\n"] * shift + source.splitlines(True)[max(0, -shift) :]
    linecache.cache[name] = (len(source), None, lines, name)

    def reply(value, **arguments):
        # File names that are not UTF-8 hold halves of characters, which no JSON can.
        replies.write(json.dumps(value, ensure_ascii=False, **arguments).encode("utf-8", "replace") + b"\n")
        replies.flush()

    def answer(number, value):
        reply({"call": number, "value": value}, default=plain, allow_nan=False)

    def failed(number, error):
        report = error_report(error, name)
        reply({"call": number, **(system_error(error, report) if system else report)})

    space, system = {"__name__": "function", "__file__": setup["file"]}, setup.get("system")
    try:
        if system:
            name = system_file(system, name)
            run = lambda space: exec(compiled(source, name, shift), space)
            function = load_system(system, setup["function"], run)
        else:
            exec(compiled(source, name, shift), space)
            function = space[setup["function"]]
    except BaseException as error:
        failed(0, error)
        return
    if system:
        # What stands before this text: see system.py.
        serve_system(function, system, requests, reply, answer, failed)
        return
    reply({"call": 0})
    if setup["at_once"]:
        call_at_once(function, requests, answer, failed)
        return
    loop = Loop()
    for line in requests:
        call = json.loads(line)
        try:
            answer(call["call"], loop.result(function(**call["arguments"])))
        except BaseException as error:
            failed(call["call"], error)


__file_name__ = serve.__code__.co_filename
serve(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
