"""A service for the tests of the ask page, and the chat model that writes its answers."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from workspace import TARGET, Endpoint, Handler

PROGRAM = TARGET / "release" / "reverie"


class ScriptedModel(Endpoint):
    """An OpenAI chat endpoint that streams the reply a test sets.

    Attributes:
        reply: The pieces of the reply, in the order they are sent.
        finish: Its `finish_reason`.
        pause_after: How many pieces are sent before the stream waits for `resume`. None does not wait.
        resume: Lets a paused stream go on.
        break_after: How many pieces are sent before the connection breaks. None does not break it.
        status: The HTTP status of the response; every status other than 200 refuses the call.
        questions: The last message of each call.
    """

    def __init__(self) -> None:
        super().__init__(ScriptedModelHandler)
        self.questions: list[str] = []
        self.resume = threading.Event()
        self.script([])
        self.start()

    def script(
        self, reply: list[str], *, finish: str = "stop", pause_after: int | None = None, break_after: int | None = None,
        status: int = 200,
    ) -> None:  # fmt: skip
        """Sets the reply to the calls that follow."""
        self.reply, self.finish, self.status = reply, finish, status
        self.pause_after, self.break_after = pause_after, break_after
        self.resume.clear()


class ScriptedModelHandler(Handler):
    server: ScriptedModel

    def do_GET(self) -> None:
        """Lists no models."""
        self.answer(200, {"data": []})

    def do_POST(self) -> None:
        """Streams the reply, or refuses the call."""
        model = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model.questions.append(body["messages"][-1]["content"])
        if model.status != 200:
            self.answer(model.status, {"error": {"message": "the model was unloaded"}})
            return
        if not body.get("stream"):
            message = {"content": "".join(model.reply)}
            self.answer(200, {"choices": [{"message": message, "finish_reason": model.finish}]})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for sent, piece in enumerate(model.reply):
            if sent == model.break_after:
                return
            if sent == model.pause_after:
                model.resume.wait(120)
            self.send_event({"choices": [{"delta": {"content": piece}, "finish_reason": None}]})
        self.send_event({"choices": [{"delta": {}, "finish_reason": model.finish}]})
        self.wfile.write(b"data: [DONE]\n\n")

    def send_event(self, value: dict) -> None:
        """Sends one server-sent event."""
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()


@contextlib.contextmanager
def serve(bundle: Path, *options: str | Path) -> Iterator[str]:
    """Runs `reverie serve` with a bundle and gives its address."""
    command = [PROGRAM, "serve", bundle, "--listen", "127.0.0.1:0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        status = process.wait(300)
    assert status == 0, f"`reverie serve` ended with {status}"
