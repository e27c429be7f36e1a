"""The demo's experiment beyond one machine, with servers started for it here.

A Ray cluster of three nodes, corpus and store on S3, runs in MLflow on PostgreSQL; then it is compared with a run on
this machine alone: the same leaderboard, the same artifact keys.

    make cluster-demo                          # or: python examples/cluster/walk.py
    python examples/cluster/walk.py --kill     # a node killed at a third, the driver at two thirds

`--local STORE` names a folder in which the experiment was run already; else it is run here first.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import servers

REVERIE = Path(sys.executable).with_name("reverie")
BUCKET = "reverie"


def say(text: str) -> None:
    """A line, with the time."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def client(store: servers.S3):
    """An S3 client."""
    import boto3

    return boto3.client("s3", endpoint_url=store.url, aws_access_key_id=servers.ACCESS,
                        aws_secret_access_key=servers.SECRET, region_name="us-east-1")


def keys(store: servers.S3, prefix: str) -> set[str]:
    """The names below a prefix."""
    pages = client(store).get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return {entry["Key"].removeprefix(prefix) for page in pages for entry in page.get("Contents", [])}


def leaderboard(results: dict) -> list[tuple]:
    """What a leaderboard says, without the times of answers."""
    return [
        (trial["trial"]["id"], trial["group"], json.dumps(trial["objective"]), json.dumps(trial["metrics"]))
        for trial in results["trials"]
    ]


def artifacts(run: Path) -> set[str]:
    """The names of a run's artifacts."""
    return {name.removeprefix("artifacts/") for name in json.loads((run / "artifacts.json").read_text())["artifacts"]}


def run(experiment: Path, *flags: str, environment: dict[str, str] | None = None) -> dict:
    """Runs an experiment to its end."""
    started = time.monotonic()
    command = [REVERIE, "run", "-f", experiment, "--json", *flags]
    ended = subprocess.run(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode not in (0, 3):
        raise SystemExit(f"`{' '.join(map(str, command))}` ended with {ended.returncode}")
    results = json.loads(ended.stdout)
    say(f"{results['executed']} tasks executed, {results['reused']} taken from the store, "
        f"{results['repeated']} repeated because a worker died: {time.monotonic() - started:.1f} s")
    return results


def finished(store: servers.S3) -> int:
    """How many artifacts there are."""
    return len(keys(store, "store/artifacts/"))


def killed(experiment: Path, flags: list[str], environment: dict, cluster: servers.Ray, store: servers.S3, total: int) -> None:
    """A run whose node dies at a third of its artifacts, and its driver at two thirds."""
    process = subprocess.Popen([REVERIE, "run", "-f", experiment, "--json", *flags], env={**os.environ, **environment},
                               stdout=subprocess.DEVNULL)
    for share, victim in ((1 / 3, "node"), (2 / 3, "driver")):
        while finished(store) < total * share:
            if process.poll() is not None:
                raise SystemExit(f"the run ended with {process.returncode} before its {victim} was killed")
            time.sleep(0.2)
        say(f"{finished(store)} of {total} artifacts are there: the {victim} is killed")
        if victim == "node":
            cluster.kill(2)
        else:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiment", type=Path, help="the demo's folder: experiment.toml, golden.jsonl, corpus")
    parser.add_argument("--local", type=Path, help="a store in which the experiment was run on this machine")
    parser.add_argument("--kill", action="store_true", help="kill a node at a third, the driver at two thirds")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="wait for Enter before the servers end")
    arguments = parser.parse_args()
    home = Path(os.environ.get("REVERIE_HOME", ".reverie")).resolve()
    os.environ["REVERIE_HOME"] = str(home)
    demo = (arguments.experiment or home / "demo-manuals").resolve()
    text = (demo / "experiment.toml").read_text()
    name = re.search(r'^name = "([^"]*)"', text, re.M)[1]

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reverie-")))
        if arguments.local is None:
            say("on this machine alone")
            local_experiment = demo / "local.toml"
            local_experiment.write_text(re.sub(r'^store = .*$', f'store = "{folder}/local"', text, flags=re.M))
            expected = run(local_experiment)
            local = folder / "local"
        else:
            local = arguments.local.resolve()
            expected = json.loads((local / "runs" / (local / "runs" / f"{name}.latest").read_text().strip() / "results.json").read_text())
        # The store may hold other experiments' artifacts too.
        names = artifacts(local / "runs" / expected["run"])

        say("servers: S3, PostgreSQL, MLflow, Ray")
        store = stack.enter_context(servers.s3(folder / "s3", BUCKET, "mlflow"))
        database = stack.enter_context(servers.postgresql(folder / "postgresql"))
        mlflow = stack.enter_context(servers.mlflow(folder / "mlflow", database, "s3://mlflow/artifacts", store))
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rv")))
        cluster = stack.enter_context(servers.ray(short, nodes=arguments.nodes))
        say(f"Ray {cluster.address}, dashboard {cluster.dashboard}; S3 {store.url}; MLflow {mlflow.url}")

        for path in sorted((demo / "corpus").rglob("*")):
            if path.is_file():
                client(store).upload_file(str(path), BUCKET, f"corpus/{path.relative_to(demo / 'corpus')}")
        client(store).upload_file(str(demo / "golden.jsonl"), BUCKET, "golden.jsonl")
        text = re.sub(r'^store = .*$', f'store = "s3://{BUCKET}/store"', text, flags=re.M)
        text = re.sub(r'^source = "corpus"', f'source = "s3://{BUCKET}/corpus"', text, flags=re.M)
        text = re.sub(r'^path = "golden.jsonl"', f'path = "s3://{BUCKET}/golden.jsonl"', text, flags=re.M)
        text += f'\n[track]\nmlflow = {{ uri = "{mlflow.url}" }}\n\n[engine]\nray = {{ address = "{cluster.address}" }}\n'
        far = folder / "far"
        far.mkdir()
        experiment = far / "experiment.toml"
        experiment.write_text(text)

        say(f"on a Ray cluster of {arguments.nodes} nodes")
        if arguments.kill:
            killed(experiment, [], store.environment, cluster, store, len(names))
            say("the same command again")
        results = run(experiment, environment=store.environment)

        made = keys(store, "store/artifacts/")
        same_keys, same_board = made == names, leaderboard(results) == leaderboard(expected)
        say(f"artifact keys: {len(made)} on S3, {len(names)} on this machine: {'the same' if same_keys else 'DIFFERENT'}")
        say(f"leaderboard: {'the same' if same_board else 'DIFFERENT'}; winner {results['winner']}")
        for trial in results["trials"][:5]:
            say(f"  {trial['trial']['id']}  {trial['objective']['mean']:.4f}  {trial['trial']['labels']}")
        say(f"MLflow: {tracked(mlflow, name)}")
        if arguments.keep:
            input(f"MLflow {mlflow.url}, Ray {cluster.dashboard}: Enter ends the servers ")
        if not (same_keys and same_board):
            missing, more = sorted(names - made)[:5], sorted(made - names)[:5]
            raise SystemExit(f"only on this machine: {missing}; only on S3: {more}")


def tracked(mlflow: servers.MLflow, experiment: str) -> str:
    """What MLflow knows of the experiment."""
    import urllib.request

    def ask(path: str, body: dict | None = None) -> dict:
        request = urllib.request.Request(f"{mlflow.url}/api/2.0/mlflow/{path}", json.dumps(body).encode() if body else None,
                                         {"content-type": "application/json"})
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    found = ask(f"experiments/get-by-name?experiment_name={experiment}")["experiment"]["experiment_id"]
    runs = ask("runs/search", {"experiment_ids": [found], "max_results": 1000}).get("runs", [])
    parents = [run for run in runs if not any(tag["key"] == "mlflow.parentRunId" for tag in run["data"].get("tags", []))]
    over = sum(run["info"]["status"] == "FINISHED" for run in runs)
    return f"{len(parents)} run(s) with {len(runs) - len(parents)} trials, {over} of {len(runs)} finished"


if __name__ == "__main__":
    main()
