"""A Rust example that answers one line of JSON with another."""

import json
import subprocess


class Process:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # What its models say, where it asks one.
        self.chat = self.embed = None

    def ask(self, request):
        """The answer; an answer that is an error ends the program."""
        answer = self.ask_anything(request)
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"{self.process.args[0]}: {answer['error']}")
        return answer

    def ask_anything(self, request):
        self.write(request)
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"{self.process.args[0]} ended with {self.process.wait()}")
            answer = json.loads(line)
            if not (isinstance(answer, dict) and "asks" in answer):
                return answer
            ((kind, question),) = answer["asks"].items()
            self.write({"answer": self.chat(question) if kind == "chat" else self.embed(question)})

    def write(self, request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
