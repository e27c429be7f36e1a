"""The pages of `reverie ui` for tests: experiments that really run, and the server."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from workspace import TARGET, Provider

PROGRAM = TARGET / "release" / "reverie"
TEXTS = {
    "bees.txt": "Bees visit flowers. A hive holds about forty thousand bees in summer. The queen lays two thousand eggs a day.",
    "owls.txt": "Owls hunt at night. The eagle owl is the largest owl of Europe. It lives for about sixty years in captivity. 🦉",
    "moles.txt": "Moles dig tunnels. A mole eats half of its weight in worms each day. Its fur lies in no direction.",
}
QUESTIONS = [
    ("bees", "bees.txt", "How many bees does a hive hold in summer?", "A hive holds about forty thousand bees in summer."),
    ("eggs", "bees.txt", "How many eggs does the queen lay in a day?", "The queen lays two thousand eggs a day."),
    ("largest", "owls.txt", "Which is the largest owl of Europe?", "The eagle owl is the largest owl of Europe."),
    ("years", "owls.txt", "For how long does it live in captivity?", "It lives for about sixty years in captivity."),
    ("worms", "moles.txt", "How much does a mole eat each day?", "A mole eats half of its weight in worms each day."),
    ("fur", "moles.txt", "In which direction does its fur lie?", "Its fur lies in no direction."),
]


def experiment(folder: Path, *, repeats: int = 1, space: str, rest: str = "") -> Path:
    """Writes documents, questions (each so many times) and an experiment file."""
    documents = folder / "documents"
    documents.mkdir(parents=True)
    for name, text in TEXTS.items():
        (documents / name).write_text(text, encoding="utf-8")
    lines = [
        json.dumps({
            "id": f"{name}{number or ''}", "question": question + (f" ({number})" if number else ""), "reference": quote,
            "evidence": [{"document": document, "quote": quote}],
        })
        for number in range(repeats)
        for name, document, question, quote in QUESTIONS
    ]  # fmt: skip
    (folder / "golden.jsonl").write_text("\n".join(lines) + "\n")
    file = folder / "experiment.toml"
    file.write_text(
        'name = "zoo"\nstore = "store"\n[corpus]\nsource = "documents"\n[dataset]\npath = "golden.jsonl"\n'
        f"[space]\n{space}\n{rest}\n"
    )
    return file


RETRIEVAL = (
    "chunker = [{ sentence = { chunk_size = 8, chunk_overlap = 0 } }, { sentence = { chunk_size = 32, chunk_overlap = 0 } }]\n"
    "retriever = [{ bm25 = { top_k = 1 } }, { bm25 = { top_k = 2 } }]"
)
SCORES = '[evaluate]\nmetrics = ["recall", "precision"]\nobjective = ["precision"]'


def answering(provider: Provider) -> tuple[str, str]:
    """A space whose trials ask a chat model, and the rest of the file."""
    space = (
        "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\n"
        "retriever = [{ bm25 = { top_k = 1 } }, { bm25 = { top_k = 2 } }, { bm25 = { top_k = 3 } }]\n"
        'generator = [{ compact = { model = "gpt", max_tokens = 16 } }]'
    )
    rest = (
        f'[models.gpt]\nchat.openai = {{ model = "sim", base_url = "{provider.url}/v1", concurrency = 4, '
        "price = { input = 4.0, output = 30.0 } }\n"
        '[evaluate]\nmetrics = ["recall", "token_f1"]\nobjective = ["token_f1"]\nbudget = { usd = 9.0 }'
    )
    return space, rest


def run(file: Path, *options: str) -> dict:
    """Runs an experiment to its end."""
    done = subprocess.run([PROGRAM, "run", "-f", file, "--json", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextlib.contextmanager
def served(file: Path, *options: str | Path) -> Iterator[str]:
    """Runs `reverie ui` and gives its address."""
    command = [PROGRAM, "ui", "-f", file, "--listen", "127.0.0.1:0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait(60)


def ask(url: str, path: str, body: dict | None = None, **headers: str):
    """The status and the answer of a request that is not a browser's."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data, {"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
