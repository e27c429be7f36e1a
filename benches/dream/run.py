#!/usr/bin/env python3
"""DREAM's own grid, ours and the way DREAM's notebook does it: `benches/run dream`.

    benches/dream/run.py [--small] [--once] [--rounds 1] [--sides theirs ray local written] [--provider JSON] [--json FILE]

Twelve trials, ten questions, six metrics, one simulated provider. Installs the pinned packages of `requirements.txt`
into `.tools/dream`, and our wheel. `--small` is one trial and two questions, to see that everything works.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import our_wheel
ROOT = HERE.parents[1]
HOME = Path(os.environ.get("REVERIE_HOME", ROOT / ".reverie"))
ENVIRONMENT = ROOT / ".tools" / "dream"
PYTHON = ENVIRONMENT / "bin" / "python"
# PDFs, as in DREAM, that both sides read quickly, and for which there are at least eleven golden questions. LlamaIndex
# makes a document of a PDF's page, and of a whole EPUB: its index then takes time with the square of the sentences.
FILES = ["debian-faq.pdf", "fhs.pdf", "maint-guide.pdf"]
GOLDEN = ROOT / "examples" / "debian-manuals" / "golden.jsonl"
QUESTIONS = 10
PROVIDER = {"chat_seconds": 0.6, "embedding_seconds": 0.2, "concurrency": 64, "requests_per_minute": 6000}
SIDES = {
    "theirs": "DREAM's way: LlamaIndex + Ragas on Ray Tune",
    "ray": "Reverie, engine ray",
    "local": "Reverie, engine local",
    "written": "Reverie, engine local, judge without probabilities",
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def install():
    """The peers, when their list changed; our wheel, always."""
    wanted, marker = (HERE / "requirements.txt").read_text(), ENVIRONMENT / "installed"
    if not marker.exists() or marker.read_text() != wanted:
        say(f"dream: installing LlamaIndex, Ragas and Ray into {ENVIRONMENT}: about 300 MB to download, 1.3 GB on disk")
        if not PYTHON.exists():
            subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--progress-bar", "on", "-r", HERE / "requirements.txt"], check=True)
        marker.write_text(wanted)
    our_wheel.install(PYTHON)


def check(run):
    """A side without scores, or that was not understood, would look fast and cheap."""
    if run["not_understood"]:
        sys.exit(f"dream: the provider did not understand {run['not_understood']} requests of {run['side']}")
    empty = [trial for trial in run["trials"] if len(trial["means"]) != 6 or None in trial["means"].values()]
    if empty or run["missing"] > 0.05 * run["values"]:
        sys.exit(f"dream: {run['side']} lacks {run['missing']} of {run['values']} scores: {empty[:1]}")


def contest(corpus, sides, rounds, settings, small=False, again=True):
    """All runs, as `contest.py` tells them."""
    named = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    golden = [question for question in named if {each["document"] for each in question["evidence"]} <= set(FILES)]
    with tempfile.TemporaryDirectory() as scratch:
        # At the same place each time, as LlamaIndex embeds a file's path with its text, and in no hidden folder, which it skips.
        folder, questions = Path(tempfile.gettempdir()) / "reverie-dream", Path(scratch) / "golden.jsonl"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in FILES:
            if not (Path(corpus) / name).exists():
                sys.exit(f"{Path(corpus) / name} is missing: `make demo-manuals` makes it")
            shutil.copyfile(Path(corpus) / name, folder / name)
        questions.write_text("\n".join(map(json.dumps, golden)) + "\n")
        command = [PYTHON, HERE / "contest.py", scratch, folder, questions, json.dumps(settings)]
        environment = {**os.environ, "REVERIE_HOME": str(HOME)}
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

        def turn(side, counts, small):
            process.stdin.write(json.dumps({"side": side, "questions": counts, "small": small}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                sys.exit(f"dream ended with {process.wait()}")
            return json.loads(line)

        runs = []
        if not small:
            # Unmeasured: Python's modules come from the disk.
            for side in {"theirs", "ray"} & set(sides):
                turn(side, [1], True)
        for round_ in range(rounds):
            for side in sides if round_ % 2 == 0 else sides[::-1]:
                counts = [2] if small else [QUESTIONS, QUESTIONS + 1][: 2 if again and round_ == 0 else 1]
                for run in turn(side, counts, small):
                    run["load"] = os.getloadavg()[0]
                    check(run)
                    say(f"dream: {SIDES[side]}, {run['questions']} questions: {run['seconds']:.1f} s, {run['chats']} chat requests "
                        f"({run['unique_chats']} unique), {run['dollars']:.3f} $, load {run['load']:.1f}")  # fmt: skip
                    runs.append(run)
        process.stdin.close()
        process.wait()
    return runs


CALLS = [
    ("wall s", lambda run: f"{run['seconds']:.1f}"),
    ("CPU s", lambda run: f"{run['cpu']:.1f}"),
    ("chat requests", lambda run: f"{run['chats']}"),
    ("unique", lambda run: f"{run['unique_chats']}"),
    ("repeated", lambda run: f"{run['chats'] - run['unique_chats']}"),
    ("embedding requests", lambda run: f"{run['embedding_requests']}"),
    ("texts", lambda run: f"{run['texts']:,}"),
    ("embedded before", lambda run: f"{run['texts'] - run['unique_texts']:,}"),
    ("scores missing", lambda run: f"{run['missing']} of {run['values']}"),
    ("429s", lambda run: f"{run['refused']}"),
]  # fmt: skip
MONEY = [
    ("prompt tokens", lambda run: f"{run['prompt_tokens']:,}"),
    ("of them for answers", lambda run: f"{run['answer_tokens']:,}"),
    ("completion tokens", lambda run: f"{run['completion_tokens']:,}"),
    ("embedding tokens", lambda run: f"{run['embedding_tokens']:,}"),
    ("answers $", lambda run: f"{run['answer_dollars']:.3f}"),
    ("judge $", lambda run: f"{run['judge_dollars']:.3f}"),
    ("embeddings $", lambda run: f"{run['embedding_dollars']:.3f}"),
    ("all $", lambda run: f"{run['dollars']:.3f}"),
    ("paid again $", lambda run: f"{run['dollars_again']:.3f}"),
]  # fmt: skip


def middle(runs):
    """The run whose wall time is the median."""
    wanted = statistics.median_low([run["seconds"] for run in runs])
    return next(run for run in runs if run["seconds"] == wanted)


def tables(runs):
    """A line per side and run; the calls of each kind; where the peer's time goes; the scores."""
    by = {}
    for run in runs:
        by.setdefault((run["questions"], run["side"]), []).append(run)
    shown = {key: middle(by[key]) for key in sorted(by, key=lambda key: (key[0], list(SIDES).index(key[1])))}
    least = min(count for count, _ in shown)

    def what(count):
        return f"{count} questions" if count == least else f"then {count - least} more"

    def markdown(head, rows):
        return "\n".join(["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]])

    parts = [markdown(["run", "side", *(name for name, _ in columns)],
                      [[what(count), SIDES[side], *(cell(run) for _, cell in columns)] for (count, side), run in shown.items()])
             for columns in (CALLS, MONEY)]  # fmt: skip
    first = {side: run for (count, side), run in shown.items() if count == least}
    kinds = sorted({kind for run in first.values() for kind in run["calls"]})
    parts.append(markdown(["chat requests by kind", *kinds],
                          [[SIDES[side], *(str(run["calls"].get(kind, 0)) for kind in kinds)] for side, run in first.items()]))  # fmt: skip
    metrics = sorted(next(iter(first.values()))["trials"][0]["means"])

    def mean(run, name):
        return statistics.mean(trial["means"][name] for trial in run["trials"])

    parts.append(markdown(["mean score of all trials", *metrics],
                          [[SIDES[side], *(f"{mean(run, name):.3f}" for name in metrics)] for side, run in first.items()]))  # fmt: skip
    if "theirs" in first:
        steps = {}
        for trial in first["theirs"]["trials"]:
            for name, seconds in trial["seconds"].items():
                steps[name] = steps.get(name, 0) + seconds / len(first["theirs"]["trials"])
        parts.append("A trial of the peer takes on average: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in steps.items()) + ".")
    worst = max(runs, key=lambda run: run["provider_cpu"] / run["seconds"])
    loads = ", ".join(f"{run['load']:.1f}" for run in runs)
    share = worst["provider_cpu"] / worst["seconds"]
    parts.append(f"The provider took at most {share:.0%} of a core during a run. Load when the runs ended: {loads}.")
    return "\n\n".join(parts)


def rows(options, row):
    """For `benches/run`."""
    if "REVERIE_BENCH_NO_INSTALL" not in os.environ:
        install()
    runs = contest(options.corpus, list(SIDES), options.rounds, PROVIDER)
    options.tables["dream"] = tables(runs)

    def of(side, name, questions=QUESTIONS):
        return [run[name] for run in runs if run["side"] == side and run["questions"] == questions]

    peer = "LlamaIndex + Ragas on Ray Tune"
    for side in ("ray", "local"):
        yield row(f"DREAM's grid, engine {side}", "s", of(side, "seconds"), of("theirs", "seconds"), peer, None, True)
    yield row("DREAM's grid, chat requests", "requests", of("ray", "chats"), of("theirs", "chats"), peer, None, True)
    yield row("DREAM's grid, cost", "$", of("ray", "dollars"), of("theirs", "dollars"), peer, None, True)
    mine, his = ([a + b for a, b in zip(of(side, "judge_dollars"), of(side, "embedding_dollars"))] for side in ("ray", "theirs"))
    yield row("DREAM's grid, cost without the answers", "$", mine, his, peer, None, True)
    more = QUESTIONS + 1
    yield row("DREAM's grid, one question more", "s", of("ray", "seconds", more), of("theirs", "seconds", more), peer, None, True)
    yield row("DREAM's grid, one question more, cost", "$", of("ray", "dollars", more), of("theirs", "dollars", more), peer, None, True)


def main():
    """One contest by itself, without a line in the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="one trial, two questions")
    parser.add_argument("--once", action="store_true", help="without the second run of each side")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sides", nargs="*", default=list(SIDES), choices=list(SIDES))
    parser.add_argument("--corpus", default=HOME / "demo-manuals" / "corpus")
    parser.add_argument("--provider", type=json.loads, default={}, help="settings of the provider to change")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    options = parser.parse_args()
    if "REVERIE_BENCH_NO_INSTALL" not in os.environ:
        install()
    runs = contest(options.corpus, options.sides, options.rounds, {**PROVIDER, **options.provider}, options.small, not options.once)
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1) + "\n")
    print(tables(runs))


if __name__ == "__main__":
    main()
