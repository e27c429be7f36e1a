"""What tests of experiments start from: a simulated provider, documents with questions, settings."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Why tests of pages are skipped.
NO_BROWSER = "there is no Chromium"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


class Provider:
    """A simulated provider over HTTP, as a process."""

    def __init__(self, **settings) -> None:
        program = TARGET / "release" / "simulator"
        if not program.exists():
            pytest.skip(f"the simulated provider is not built ({program}): `make build`")
        flags = [f"--{name.replace('_', '-')}={json.dumps(value)}" for name, value in settings.items()]
        flags = [part for flag in flags for part in flag.split("=", 1)]
        self.process = subprocess.Popen([program, *flags], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def statistics(self) -> dict:
        """What it was asked."""
        import urllib.request

        with urllib.request.urlopen(f"{self.url}/stats") as response:
            return json.load(response)

    def stop(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.wait()


class Handler(http.server.BaseHTTPRequestHandler):
    """Handles requests of tests at an endpoint of their own."""

    def answer(self, status: int, value: dict) -> None:
        """Sends JSON at once."""
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        """Nobody reads a log."""


class Endpoint(http.server.ThreadingHTTPServer):
    """An endpoint of a test in a thread, which answers from `start` on."""

    daemon_threads = True

    def __init__(self, handler: type[Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    def start(self) -> None:
        """Begins to answer."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address) -> None:
        """Stays silent: tests end answers early, which breaks connections."""


class Slow(Endpoint):
    """An endpoint that streams a word every twentieth of a second, and notes whether somebody reads to the end.

    Attributes:
        held_after: After so many words a stream waits for `go_on`.
        go_on: Set unless a test clears it: streams and whole answers wait for it.
        endless: Whether a stream goes on until its reader leaves (ten minutes at most).
        in_flight: How many calls wait for `go_on` now.
    """

    words = [f"word{i} " for i in range(40)]
    held_after = 10

    def __init__(self) -> None:
        super().__init__(SlowHandler)
        self.sent, self.broken_off, self.fails, self.status = 0, threading.Event(), False, 400
        self.go_on, self.endless, self.in_flight, self.lock = threading.Event(), False, 0, threading.Lock()
        self.go_on.set()
        self.start()

    def hold(self) -> None:
        """Waits until a test sets `go_on`, but not for ever, so that a hang becomes a failure."""
        with self.lock:
            self.in_flight += 1
        self.go_on.wait(120)
        with self.lock:
            self.in_flight -= 1


class SlowHandler(Handler):
    server: Slow

    def do_GET(self) -> None:
        """Lists no models."""
        self.answer(200, {"data": []})

    def do_POST(self) -> None:
        """Streams, or refuses: for good, or with the status that is set."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.server.fails:
            self.answer(self.server.status, {"error": {"message": "the model has left"}})
            return
        if not body.get("stream"):
            self.server.hold()
            self.answer(200, {"choices": [{"message": {"content": "".join(self.server.words)}, "finish_reason": "stop"}]})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            words = self.server.words * (300 if self.server.endless else 1)
            for index, word in enumerate(words):
                if index == self.server.held_after:
                    self.server.hold()
                self.event({"choices": [{"delta": {"content": word}, "finish_reason": None}]})
                self.server.sent += 1
                time.sleep(0.05)
            self.event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            self.server.broken_off.set()

    def event(self, value: dict) -> None:
        """Sends a part of the answer."""
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()


class Gate:
    """Holds calls until so many run at once, and counts how many do.

    Attributes:
        most: The most calls that ran at once.
    """

    def __init__(self, wanted: int) -> None:
        self.wanted, self.running, self.most = wanted, 0, 0
        self.lock, self.is_full = threading.Lock(), threading.Event()

    def __enter__(self) -> None:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
            if self.running >= self.wanted:
                self.is_full.set()
        if not self.is_full.wait(60):
            # The test fails soon: the calls after this one are not held.
            self.is_full.set()
        # Gives a call above the limit the time to begin.
        time.sleep(0.05)

    def __exit__(self, *_) -> None:
        with self.lock:
            self.running -= 1


@contextlib.contextmanager
def run_handler(handler: type[Handler]):
    """Runs an endpoint in a thread, and gives its address."""
    with Endpoint(handler) as server:
        server.start()
        try:
            yield server.url
        finally:
            server.shutdown()


@contextlib.contextmanager
def run_failing_endpoint():
    """Runs an endpoint that refuses every call of a model, and gives its address and the paths of the calls."""
    asked = []

    class Failing(Handler):
        def do_GET(self):
            """Lists no models."""
            self.answer(200, {"data": []})

        def do_POST(self):
            """Has a fault that lasts."""
            self.rfile.read(int(self.headers["content-length"]))
            asked.append(self.path)
            self.answer(500, {"error": {"message": "out of order"}})

    with run_handler(Failing) as url:
        yield f"{url}/v1", asked


@contextlib.contextmanager
def run_server(application):
    """Runs uvicorn with an ASGI application in a thread, as its users do, and gives its address."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(application, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "uvicorn does not start")
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(120)
    assert not thread.is_alive(), "uvicorn does not end"


def wait_until(holds, otherwise: str, seconds: float = 120) -> None:
    """Waits until a condition holds. The limit is far beyond what a busy machine needs, so that a hang becomes a failure."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{otherwise}: not after {seconds} s"
        time.sleep(0.05)


def wait_for_stopped_scores():
    """Waits until the calls in flight have ended, and returns the scores that the stopped evaluation has made."""
    import reverie

    for _ in range(1200):
        try:
            return reverie.stopped_scores()
        except RuntimeError:
            time.sleep(0.1)
    raise AssertionError("the calls do not end")


class Workspace:
    """A folder with documents, golden questions and an experiment."""

    def __init__(self, folder: Path, documents: int = 60) -> None:
        self.folder = folder
        (folder / "docs").mkdir(parents=True)
        golden = []
        for i in range(documents):
            fact = f"The mill number {i} was built in {1700 + i}."
            text = "\n\n".join(
                [f"# Mill {i}", *(f"{fact} It grinds oats for village {i} in part {j}." for j in range(12))]
            )
            (folder / "docs" / f"{i:02}.md").write_text(text)
            golden.append(
                {
                    "id": f"q{i}",
                    "question": f"When was the mill number {i} built?",
                    "reference": str(1700 + i),
                    "evidence": [{"document": f"{i:02}.md", "quote": fact}],
                }
            )
        self.golden = "\n".join(json.dumps(question) for question in golden)
        (folder / "golden.jsonl").write_text(self.golden)

    def experiment(
        self, name: str, url: str, *, store: str | None = None, source: str | None = None, rest: str = ""
    ) -> Path:
        """Writes an experiment whose models are at this provider."""
        path = self.folder / f"{name}.toml"
        path.write_text(
            f"""name = "mills"
store = "{store or self.folder / name}"
[corpus]
source = "{source or self.folder / "docs"}"
[dataset]
path = "golden.jsonl"
[models.gpt]
chat.openai = {{ model = "gpt", base_url = "{url}/v1" }}
[models.emb]
embedding.openai = {{ model = "emb", base_url = "{url}/v1" }}
[space]
chunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}, {{ sentence_window = {{ window_size = 1 }} }}]
embedder = ["emb"]
retriever = [{{ dense = {{ top_k = 2 }} }}, {{ hybrid = {{ top_k = 2 }} }}]
generator = [{{ compact = {{ model = "gpt" }} }}]
[evaluate]
metrics = ["recall", "ndcg", "token_f1"]
{rest}
"""
        )
        return path

    def writing(self, name: str, url: str, store: str) -> Path:
        """Writes an experiment whose endpoint at this address only writes; nothing is scored."""
        path = self.folder / f"{name}.toml"
        path.write_text(
            f"""name = "mills"
store = "{self.folder / store}"
[corpus]
source = "{self.folder / "docs"}"
[models.gpt]
chat.openai = {{ model = "gpt", base_url = "{url}/v1" }}
[space]
chunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}]
retriever = [{{ bm25 = {{ top_k = 2 }} }}]
generator = [{{ compact = {{ model = "gpt" }} }}]
"""
        )
        return path


def settings(workspace, url: str, **changes) -> dict:
    """An experiment on the mills, as a dictionary."""
    experiment = {
        "name": "mills",
        "store": str(workspace.folder / "store"),
        "corpus": {"source": str(workspace.folder / "docs")},
        "dataset": {"path": str(workspace.folder / "golden.jsonl")},
        "models": {"gpt": {"chat": {"openai": {"model": "gpt", "base_url": f"{url}/v1"}}}},
        "space": {
            "chunker": [{"sentence": {"chunk_size": 32, "chunk_overlap": 0}}, {"sentence_window": {"window_size": 1}}],
            "retriever": [{"bm25": {"top_k": 1}}, {"bm25": {"top_k": 3}}],
            "generator": [{"compact": {"model": "gpt"}}],
        },
        "evaluate": {"metrics": ["recall", "precision", "token_f1"], "objective": ["recall", "precision"]},
        "track": None,
    }
    return {**experiment, **changes}
