"""The code that all studies share: it runs an experiment in its own folder, and makes the rows of the table."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

MINILM = '[models.minilm]\nembedding.local = { model = "all-minilm-l6-v2" }\n'
WRITER = '[models.writer]\nchat.local = { model = "qwen2.5-coder-0.5b-instruct" }\n'


@dataclass
class Row:
    """A row of the table, which compares two values. `ours` is what Reverie measured. `published` is the value that the
    authors published, or that their own chunker or formula gives on this machine; None if there is no such value for
    these models. `reason` says why the two differ."""

    study: str
    what: str
    published: float | None
    ours: float
    reason: str = ""


def say(text):
    print(text, file=sys.stderr, flush=True)


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


class Study:
    """An experiment in a folder of its own. Its store is kept, so a second run repeats no work."""

    def __init__(self, options, name):
        self.name, self.options = name, options
        self.folder = options.work / name
        (self.folder / "corpus").mkdir(parents=True, exist_ok=True)

    def write_documents(self, documents):
        """Replaces the files of the corpus. `documents` are pairs of file name and text."""
        for path in (self.folder / "corpus").iterdir():
            path.unlink()
        for name, text in documents:
            (self.folder / "corpus" / name).write_text(text, encoding="utf-8", newline="")

    def run(self, questions, space, metrics, models):
        """Runs the experiment with these golden questions. Returns its results, with every passage.

        `space`, `metrics` and `models` are TOML."""
        write_lines(self.folder / "golden.jsonl", questions)
        text = f'name = "published-{self.name}"\nstore = "store"\n\n[corpus]\nsource = "corpus"\n\n[dataset]\npath = "golden.jsonl"\n\n'
        text += "".join(models) + f"\n[space]\n{space}\n\n[evaluate]\nmetrics = {metrics}\n"
        file = self.folder / "experiment.toml"
        file.write_text(text, encoding="utf-8")
        say(f"{self.name}: reverie run -f {file}")
        environment = {**os.environ, "VIRTUAL_ENV": str(self.options.python.parents[1])}
        command = [self.options.reverie, "run", "--json", "-f", file]
        ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, env=environment)
        if ended.returncode:
            sys.exit(f"{self.name}: reverie ended with exit code {ended.returncode}; the experiment is {file}")
        return json.loads(ended.stdout)


def component(trial, axis):
    """Name and settings of the component that a trial has on an axis."""
    ((name, settings),) = trial["trial"][axis].items()
    return name, settings


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def table(rows):
    """The rows as Markdown."""
    number = lambda value: "–" if value is None else f"{value:.4f}" if abs(value) < 2 else f"{value:.2f}"  # noqa: E731
    lines = ["| study | what | published, or their code | here | difference | reason |", "|---|---|---:|---:|---:|---|"]
    for row in rows:
        difference = None if row.published is None else row.ours - row.published
        signed = "–" if difference is None else f"{difference:+.4f}" if abs(row.ours) < 2 else f"{difference:+.2f}"
        lines.append(f"| {row.study} | {row.what} | {number(row.published)} | {number(row.ours)} | {signed} | {row.reason} |")
    return "\n".join(lines)
