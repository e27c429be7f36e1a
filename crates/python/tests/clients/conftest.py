"""A service whose models are a stub of this process: it writes words of the first source, and what tests ask for."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
REVERIE = TARGET / "release" / "reverie"

# What several clients ask, and what the stub answers to the first question.
QUESTION = "When is the mast raised?"
ANSWER = "Raise the mast before noon. [1][2]"
MORE = "And how is it taken down?"
PAUSE = "When is the mast raised after a PAUSE?"

DOCUMENTS = {
    "mast.md": "# Raising the mast\n\nRaise the mast before noon. Two people hold the rope.\n\nThe panel faces south. "
    "Tie the rope to the post.\n\n# Taking it down\n\nLower the mast slowly. Coil the rope and dry it.\n",
    "lights.md": "# Lights\n\nA red light means that the battery is empty. A green light means that it is full.\n",
}


class Stub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls = 0
    # A question with PAUSE: its stream waits for this after the first event. If it is not set, the stream breaks off.
    go_on = threading.Event()

    def log_message(self, *_):
        pass

    def reply(self, body: bytes, kind="application/json"):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(json.dumps({"object": "list", "data": []}).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.endswith("/embeddings"):
            data = [{"object": "embedding", "index": i, "embedding": vector(text)} for i, text in enumerate(body["input"])]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            return self.reply(json.dumps({"object": "list", "data": data, "model": body["model"], "usage": usage}).encode())
        Stub.calls += 1
        prompt = body["messages"][-1]["content"]
        is_cut = "CUT" in prompt
        text = "Because the" if is_cut else f"{' '.join(re.findall(r'[A-Z][^.#<>]+[.]', prompt)[:1])} [1][2]"
        finish = "length" if is_cut else "stop"
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        if not body.get("stream"):
            message = {"role": "assistant", "content": text}
            choices = [{"index": 0, "message": message, "finish_reason": finish}]
            return self.reply(json.dumps({"choices": choices, "usage": usage, "model": body["model"]}).encode())
        chunks = [{"delta": {"content": word}, "finish_reason": None} for word in re.findall(r"\S+\s*", text)]
        chunks.append({"delta": {}, "finish_reason": finish})
        lines = [{"choices": [{"index": 0, **chunk}], "model": body["model"]} for chunk in chunks]
        lines.append({"choices": [], "usage": usage, "model": body["model"]})
        events = [f"data: {json.dumps(line)}\n\n".encode() for line in lines] + [b"data: [DONE]\n\n"]
        if "PAUSE" in prompt:
            return self.pause(events)
        return self.reply(b"".join(events), "text/event-stream")

    def pause(self, events: list[bytes]):
        """Sends the first event, and the others once a test has received it."""
        Stub.go_on.clear()
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(events[0])
        if Stub.go_on.wait(120):
            self.wfile.write(b"".join(events[1:]))


def vector(text: str) -> list[float]:
    """A bag of words in 64 numbers."""
    numbers = [0.01] * 64
    for word in re.findall(r"\w+", text.lower()):
        numbers[hashlib.sha256(word.encode()).digest()[0] % 64] += 1.0
    return numbers


def unit_vector(text: str) -> list[float]:
    """The vector with length 1, as the service returns it."""
    numbers = vector(text)
    return [number / math.hypot(*numbers) for number in numbers]


@pytest.fixture(scope="session")
def stub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Stub, f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()


@pytest.fixture(scope="session")
def folder(tmp_path_factory, stub):
    """A folder with the bundle of the experiment `mast`."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "documents").mkdir()
    for name, text in DOCUMENTS.items():
        (folder / "documents" / name).write_text(text)
    (folder / "experiment.toml").write_text(
        f"""name = "mast"
[corpus]
source = "documents"
[models.gpt]
chat.openai = {{ model = "stub", base_url = "{stub[1]}" }}
[models.vectors]
embedding.openai = {{ model = "stub", base_url = "{stub[1]}" }}
[space]
chunker = [{{ sentence = {{ chunk_size = 16, chunk_overlap = 0 }} }}]
embedder = ["vectors"]
retriever = [{{ hybrid = {{ top_k = 4 }} }}]
query = ["join"]
generator = ["compact"]
"""
    )
    for verb in (["run", "--quiet"], ["promote", "--output", "bundle"]):
        reverie(folder, *verb)
    return folder


def environment(folder) -> dict[str, str]:
    return {**os.environ, "REVERIE_HOME": str(folder / "home")}


def reverie(folder, *arguments) -> str:
    """What the program prints."""
    done = subprocess.run([REVERIE, *arguments], cwd=folder, env=environment(folder), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def serve(folder, *options):
    """The address of a service of the bundle, until the block ends."""
    command = [REVERIE, "serve", "bundle", "--listen", "127.0.0.1:0", "--json", *options]
    process = subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        code = process.wait(60)
    assert code == 0


@pytest.fixture(scope="session")
def service(folder):
    """The address of a service that needs no key."""
    with serve(folder, "--admin-without-key") as url:
        yield url


@pytest.fixture(scope="session")
def locked(folder):
    """The address of a service that needs a key, and such a key."""
    key = reverie(folder, "keys", "new", "alice").strip()
    with serve(folder, "--keys", "keys.toml") as url:
        yield url, key
