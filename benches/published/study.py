"""What the studies share: a folder with an experiment, its run, its results, and rows of the table."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

MINILM = '[models.minilm]\nembedding.local = { model = "all-minilm-l6-v2" }\n'
WRITER = '[models.writer]\nchat.local = { model = "qwen2.5-coder-0.5b-instruct" }\n'


@dataclass
class Row:
    """A line of the table: a value that was published, or that the authors' own code gives here, and ours. `published` is None where
    nobody has published one for these models."""

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
    """An experiment in a folder of its own. What was run before is taken from its store."""

    def __init__(self, options, name):
        self.name, self.options = name, options
        self.folder = options.work / name
        (self.folder / "corpus").mkdir(parents=True, exist_ok=True)

    def write_documents(self, documents):
        """Writes the corpus anew: pairs of name and text."""
        for path in (self.folder / "corpus").iterdir():
            path.unlink()
        for name, text in documents:
            (self.folder / "corpus" / name).write_text(text, encoding="utf-8", newline="")

    def run(self, questions, space, metrics, models):
        """Runs the experiment; gives its results with every passage."""
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
        board = json.loads(ended.stdout)
        return json.loads((self.folder / "store" / "runs" / board["run"] / "results.json").read_text(encoding="utf-8"))


def label(trial):
    """The chunker, enricher and retriever of a trial, without what all trials share."""
    labels = trial["trial"]["labels"]
    return " ".join(labels[axis] for axis in ("chunker", "enrich", "retriever") if labels[axis] != "none")


def component(trial, axis):
    """Name and settings of a trial's component."""
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
