"""Both sides of `dream` in turns: for each line of JSON on standard input, one is answered.

    contest.py SCRATCH_FOLDER CORPUS_FOLDER GOLDEN_FILE PROVIDER_SETTINGS
    {"side": "theirs", "ray", "local" or "written", "questions": [10, 11], "small": false}

Each turn has a provider, a store and, where it needs one, a Ray cluster of its own: one node with as many CPUs as this
machine has cores, started before. Each number of `questions` is a run, one after the other on the same store.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import nullcontext
from pathlib import Path

import tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "examples" / "cluster")]
import servers

CORES = len(os.sched_getaffinity(0))
TICKS = os.sysconf("SC_CLK_TCK")
# What neither side shall send anywhere.
QUIET = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAGAS_DO_NOT_TRACK": "true", "ANONYMIZED_TELEMETRY": "false"}
# One trial of the grid, as an experiment and as the peer's axes.
SMALL = {"methods": ["basic"], "embedders": ["text-embedding-3-small"], "models": ["gpt-3.5-turbo"]}


class Processor:
    """The processor time of a process, of a cluster, and of all that they start.

    The processes are looked at twice a second: what one does after the last look before its end is not counted.
    """

    def __init__(self, marker):
        self.marker, self.root = marker, None
        self.before, self.seen = {}, {}
        self.ended = threading.Event()
        self.look()
        self.before = dict(self.seen)
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while not self.ended.wait(0.5):
            self.look()

    def look(self):
        known, parents = {}, {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    fields = Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                parents[int(entry)] = int(fields[1])
                known[int(entry)] = fields[19], (int(fields[11]) + int(fields[12])) / TICKS
        mine = set(servers.processes_of(self.marker)) if self.marker else set()
        mine |= {self.root} if self.root else set()
        while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
            mine |= more
        for pid in (mine & known.keys()) - {os.getpid()}:
            start, seconds = known[pid]
            self.seen[pid, start] = seconds

    def seconds(self):
        self.look()
        self.ended.set()
        self.thread.join()
        return sum(seconds - self.before.get(key, 0) for key, seconds in self.seen.items())


class Provider:
    """The simulated provider as a process."""

    def __init__(self, settings):
        self.process = subprocess.Popen([sys.executable, HERE / "provider.py", settings], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def stats(self):
        with urllib.request.urlopen(f"{self.url}/stats") as response:
            return json.load(response)

    def reset(self):
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/reset", method="POST")).close()


def run(command, environment, marker):
    """A command to its end: what it printed, how long it took, and the processor time."""
    processor = Processor(marker)
    began = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    processor.root = process.pid
    out = process.stdout.read()
    code = process.wait()
    seconds = time.monotonic() - began
    if code not in (0, 3) or not out.strip():
        sys.exit(f"{command[:3]} ended with {code}: {out[-2000:]}")
    return json.loads(out), seconds, processor.seconds()


def prices():
    """Dollars per million tokens, in and out, by the model's name at the provider."""
    found = {}
    for model in tomllib.loads((HERE / "experiment.toml").read_text())["models"].values():
        for kind, settings in ((kind, settings["openai"]) for kind, settings in model.items()):
            price = settings["price"]
            found[settings["model"]] = (price["input"], price["output"]) if kind == "chat" else (price, 0.0)
    return found


def paid(stats):
    """The provider's log in one line, with what it cost."""

    def of(name, rows):
        return sum(row.get(name, 0) for row in rows)

    chats = [row for row in stats["rows"] if row["kind"] != "embedding"]
    embeddings = [row for row in stats["rows"] if row["kind"] == "embedding"]
    table = prices()

    def dollars(suffix, rows):
        each = ((row, table[row["model"]]) for row in rows)
        return sum((row.get(f"prompt_tokens{suffix}", 0) * price[0] + row.get(f"completion_tokens{suffix}", 0) * price[1]) / 1e6
                   for row, price in each)  # fmt: skip

    judges = [row for row in chats if row["kind"] != "answer"]
    return {
        "chats": of("requests", chats), "unique_chats": of("unique", chats),
        "judge_calls": of("requests", judges), "unique_judge_calls": of("unique", judges),
        "embedding_requests": of("requests", embeddings), "texts": of("texts", embeddings),
        "unique_texts": of("unique_texts", embeddings),
        "prompt_tokens": of("prompt_tokens", chats), "completion_tokens": of("completion_tokens", chats),
        "embedding_tokens": of("prompt_tokens", embeddings),
        "dollars": dollars("", stats["rows"]), "dollars_again": dollars("_again", stats["rows"]),
        "answer_dollars": dollars("", [row for row in chats if row["kind"] == "answer"]),
        "judge_dollars": dollars("", judges), "embedding_dollars": dollars("", embeddings),
        "answer_tokens": of("prompt_tokens", [row for row in chats if row["kind"] == "answer"]),
        "calls": {row["kind"]: of("requests", [each for each in chats if each["kind"] == row["kind"]]) for row in chats},
        "refused": stats["refused"], "not_understood": stats["not_understood"], "abandoned": stats["abandoned"],
        "most_in_flight": stats["most_in_flight"], "provider_cpu": stats["cpu_seconds"],
        "provider_late": stats["latest_answer_seconds"],
    }  # fmt: skip


def experiment(side, folder, corpus, url, small):
    """Our file, for this provider."""
    text = (HERE / "experiment.toml").read_text().replace("http://127.0.0.1:1/v1", f"{url}/v1")
    text = text.replace('source = "corpus"', f"source = {json.dumps(str(corpus))}")
    if side == "written":
        text = text.replace('model = "gpt-4o-mini", base_url', 'model = "gpt-4o-mini", omit = ["logprobs", "top_logprobs"], base_url')
    if small:
        begin, end = text.index("[space]"), text.index("[evaluate]")
        text = text[:begin] + """[space]
chunker = [{ sentence = { chunk_size = 1024, chunk_overlap = 200 } }]
embedder = ["small"]
retriever = [{ dense = { top_k = 3 } }]
generator = [{ compact = { model = "gpt-35" } }]

""" + text[end:]  # fmt: skip
    path = folder / "dream.toml"
    path.write_text(text)
    return path


def ours(results):
    """Each trial's means, how many scores there are and how many are missing."""
    trials = [{
        **trial["trial"]["labels"], "embedder": trial["trial"]["embedder"], "model": trial["trial"]["generator"]["compact"]["model"],
        "means": {name: metric["mean"] for name, metric in trial["metrics"].items()},
        "missing": sum(metric["n_total"] - metric["n_scored"] for metric in trial["metrics"].values()),
        "values": sum(metric["n_total"] for metric in trial["metrics"].values()),
    } for trial in results["trials"]]  # fmt: skip
    return {**theirs(trials), "tasks": results["executed"], "tasks_reused": results["reused"]}


def theirs(trials):
    """The same of the peer."""
    return {"trials": trials, "missing": sum(trial["missing"] for trial in trials), "values": sum(trial["values"] for trial in trials)}


def turn(wanted, scratch, corpus, golden, settings):
    """One side's runs, one after the other."""
    side, small = wanted["side"], wanted.get("small", False)
    lines = Path(golden).read_text().splitlines()
    folder = Path(tempfile.mkdtemp(dir=scratch))
    provider = Provider(settings)
    runs = []
    needs_ray = side in ("theirs", "ray")
    try:
        # Sockets of Ray have long names: its folder must have a short one.
        with (tempfile.TemporaryDirectory(prefix="rv") as short,
              (servers.ray(Path(short), nodes=1, cpus=CORES, environment=QUIET) if needs_ray else nullcontext()) as cluster):  # fmt: skip
            marker = short if needs_ray else None
            for questions in wanted["questions"]:
                (folder / "golden.jsonl").write_text("\n".join(lines[:questions]) + "\n")
                provider.reset()
                if side == "theirs":
                    given = {"address": cluster.address, "url": f"{provider.url}/v1", "corpus": str(corpus),
                             "golden": str(folder / "golden.jsonl"), "results": str(folder / "results")} | (SMALL if small else {})  # fmt: skip
                    command, read = [sys.executable, HERE / "contender.py", json.dumps(given)], theirs
                else:
                    path = experiment(side, folder, corpus, provider.url, small)
                    command, read = [Path(sys.executable).with_name("reverie"), "run", "-f", path, "--json"], ours
                    command += ["--engine", "ray", "--address", cluster.address] if side == "ray" else ["--engine", "local"]
                out, seconds, cpu = run(command, QUIET, marker)
                runs.append({"side": side, "questions": questions, "seconds": seconds, "cpu": cpu, **paid(provider.stats()), **read(out)})
    finally:
        servers.stop(provider.process)
        shutil.rmtree(folder, ignore_errors=True)
    return runs


def main():
    """See the module."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    scratch, corpus, golden, settings = sys.argv[1:]
    for line in sys.stdin:
        print(json.dumps(turn(json.loads(line), scratch, corpus, golden, settings)), file=answers)


if __name__ == "__main__":
    main()
