"""The steps of the workflow, one after another on this machine: from a bucket to an answer over HTTP.

The commands are read from the files that a cluster would get: each step's from `kubernetes/base/workflow/workflow.yaml`,
the service's from `kubernetes/base/serve/serve.yaml`, with the bundle that the step `serve` puts there. S3 (SeaweedFS)
and MLflow on PostgreSQL are real servers, started here. What Argo and Kubernetes do is done by a few lines: parameters
are filled in, folders are mounted, exit codes decide. That Argo itself understands the file is shown by its schema
alone (`make deploy-check`).

    make services build && .tools/services/bin/python deploy/walk.py --questions 4 FOLDER
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "examples" / "cluster"))
import servers  # noqa: E402

BASE = HERE / "kubernetes" / "base"


def say(text: str) -> None:
    """A line, with the time."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


class Workflow:
    """A WorkflowTemplate, with parameters as somebody would fill in the form."""

    def __init__(self, given: dict[str, str], name: str) -> None:
        self.spec = next(iter(yaml.safe_load_all((BASE / "workflow" / "workflow.yaml").read_text())))["spec"]
        known = {each["name"]: each["value"] for each in self.spec["arguments"]["parameters"]}
        if unknown := set(given) - set(known):
            raise SystemExit(f"the workflow has no parameter {', '.join(sorted(unknown))}")
        values = {f"workflow.parameters.{key}": value for key, value in (known | given).items()}
        self.values = {**values, "workflow.name": name}
        self.templates = {each["name"]: each for each in self.spec["templates"]}

    def filled(self, value):
        """A part of the file, with its `{{…}}` filled in."""
        if isinstance(value, dict):
            return {key: self.filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.filled(each) for each in value]
        if isinstance(value, str):
            return re.sub(r"\{\{(.*?)\}\}", lambda found: self.values[found[1].strip()], value)
        return value

    def steps(self):
        """Each step with its template, in their order, without those whose condition does not hold."""
        for group in self.templates[self.spec["entrypoint"]]["steps"]:
            for step in group:
                left, compared, right = (self.filled(step.get("when", "a == a")).split(maxsplit=2) + ["", ""])[:3]
                if compared not in ("==", "!="):
                    raise SystemExit(f"a condition that is not understood here: {step['when']}")
                if (left == right) == (compared == "=="):
                    yield step["name"], self.filled(self.templates[step["template"]])


class Machine:
    """This machine in the place of a cluster: folders in the place of volumes."""

    def __init__(self, folder: Path, environment: dict[str, str], secrets: dict[str, str]) -> None:
        # What a container finds at these paths.
        self.mounts = {"/work": folder / "work", "/keys": folder / "keys"}
        for path in self.mounts.values():
            path.mkdir(parents=True, exist_ok=True)
        self.environment, self.secrets = environment, secrets
        # ConfigMaps with one value each, and the annotations of the service's pod.
        self.settings: dict[str, str] = {}
        self.annotations: dict[str, str] = {}

    def here(self, text: str) -> str:
        """A path of a container, on this machine."""
        for mount, folder in self.mounts.items():
            if text == mount or text.startswith(f"{mount}/"):
                return f"{folder}{text.removeprefix(mount)}"
        return text

    def variables(self, container: dict) -> dict[str, str]:
        """The environment of a container. REVERIE_HOME is this machine's: models are here already."""
        found = dict(self.environment)
        for each in container.get("env", []):
            if each["name"] == "REVERIE_HOME":
                continue
            source = each.get("valueFrom", {})
            if "value" in each:
                found[each["name"]] = self.here(each["value"])
            elif "secretKeyRef" in source:
                found[each["name"]] = self.secrets[source["secretKeyRef"]["name"]]
            elif "configMapKeyRef" in source:
                found[each["name"]] = self.settings[source["configMapKeyRef"]["name"]]
            else:
                # An annotation of the pod: metadata.annotations['…'].
                found[each["name"]] = self.annotations[source["fieldRef"]["fieldPath"].split("'")[1]]
        return found

    def command(self, container: dict, environment: dict[str, str]) -> list[str]:
        """A container's command, with `$(NAME)` as Kubernetes fills it in."""
        words = container["command"] + container.get("args", [])
        return [re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], word) for word in words]

    def run(self, template: dict) -> None:
        """A step that is a container, with its artifacts, and once more where its exit code asks for it."""
        for artifact in template.get("inputs", {}).get("artifacts", []):
            Path(self.here(artifact["path"])).write_text(artifact["raw"]["data"])
        container = template["container"]
        environment = self.variables(container)
        command = self.command(container, environment)
        retry = template.get("retryStrategy", {})
        tries = 1 + int(retry.get("limit", "0"))
        code_to_repeat = re.search(r"exitCode\) == (\d+)", retry.get("expression", ""))
        print("  $ " + shlex.join(command), flush=True)
        for number in range(tries):
            code = subprocess.run(command, env=environment, cwd=self.here(container["workingDir"]), check=False).returncode
            if code == 0:
                return
            print(f"  exit code {code}", flush=True)
            if number + 1 == tries or (code_to_repeat and code != int(code_to_repeat[1])):
                raise SystemExit(f"the step {template['name']} failed with exit code {code}")

    @contextlib.contextmanager
    def service(self, patch: str):
        """The Deployment of `reverie serve` with a patch of its pod's annotations, as a process that is ready."""
        deployment = next(iter(yaml.safe_load_all((BASE / "serve" / "serve.yaml").read_text())))
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        patched = yaml.safe_load(patch)
        assert patched["metadata"]["name"] == deployment["metadata"]["name"]
        assert patched["spec"] == {"template": {"metadata": {"annotations": patched["spec"]["template"]["metadata"]["annotations"]}}}
        self.annotations |= patched["spec"]["template"]["metadata"]["annotations"]
        # One thing is another than in a cluster: only this machine may ask, at a port that is free.
        port = servers.free_port()
        environment = {**self.variables(container), "LISTEN": f"127.0.0.1:{port}"}
        command = self.command(container, environment)
        print("  $ " + shlex.join(command), flush=True)
        process = subprocess.Popen(command, env=environment)
        try:
            ready = f"http://127.0.0.1:{port}{container['startupProbe']['httpGet']['path']}"

            def is_ready() -> bool:
                # A status that is an error raises one, which says "not yet".
                with urllib.request.urlopen(ready, timeout=5) as response:
                    return response.status == 200

            servers.wait_for("reverie serve", is_ready, 300, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            servers.stop(process, 60)
            say(f"SIGTERM: the service ended with exit code {process.returncode}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="documents, which are put into the bucket first")
    parser.add_argument("--reverie", type=Path, default=HERE.parent / "target" / "release" / "reverie")
    parser.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE", help="as in the form")
    parser.add_argument("--questions", default="4", help="how many golden questions")
    arguments = parser.parse_args()
    given = {"questions": arguments.questions, **dict(each.split("=", 1) for each in arguments.parameter)}
    os.environ["PATH"] = f"{arguments.reverie.resolve().parent}:{servers.BIN}:{os.environ['PATH']}"

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reverie-")))
        bucket = given.setdefault("bucket", "reverie")
        store = stack.enter_context(servers.s3(folder / "s3", bucket, "mlflow"))
        database = stack.enter_context(servers.postgresql(folder / "postgresql"))
        mlflow = stack.enter_context(servers.mlflow(folder / "mlflow", database, "s3://mlflow/artifacts", store))
        given["tracker"] = mlflow.url
        say(f"S3 {store.url}, MLflow {mlflow.url} on {database.split('://')[0]}")
        workflow = Workflow(given, f"{given.get('name', 'manuals')}-walk")

        import boto3

        client = boto3.client("s3", endpoint_url=store.url, aws_access_key_id=servers.ACCESS,
                              aws_secret_access_key=servers.SECRET, region_name="us-east-1")
        prefix = workflow.values["workflow.parameters.documents"]
        documents = [path for path in sorted(arguments.folder.rglob("*")) if path.is_file()]
        for path in documents:
            client.upload_file(str(path), bucket, f"{prefix}/{path.relative_to(arguments.folder)}")
        say(f"{len(documents)} documents in s3://{bucket}/{prefix}")

        environment = {**os.environ, **store.environment}
        machine = Machine(folder, environment, {})
        made = subprocess.run(["reverie", "keys", "new", "walk", "--json"], cwd=machine.mounts["/keys"], env=environment,
                              capture_output=True, text=True, check=True)
        machine.settings["reverie-servers"] = mlflow.url
        machine.secrets["reverie-ask"] = yaml.safe_load(made.stdout)["key"]

        for name, template in workflow.steps():
            started = time.monotonic()
            say(f"step {name}")
            if "container" in template:
                address = workflow.values["workflow.parameters.service"]
                if "--url" in template["container"].get("args", []) and not address.startswith("http://127."):
                    raise SystemExit("a step asks the service before it was started")
                machine.run(template)
            elif "suspend" in template:
                time.sleep(int(template["suspend"]["duration"]))
            else:
                url = stack.enter_context(machine.service(template["resource"]["manifest"]))
                workflow.values["workflow.parameters.service"] = url
            say(f"step {name} took {time.monotonic() - started:.1f} s")

        try:
            urllib.request.urlopen(f"{url}/rag/answer?query=hello", timeout=60)
            raise SystemExit("the service answered without a key")
        except urllib.error.HTTPError as refused:
            say(f"without a key: {refused.code}")
        with urllib.request.urlopen(f"{url}/health/live") as live:
            say(f"/health/live: {live.status}")
        say(f"MLflow: {tracked(mlflow, workflow.values['workflow.parameters.name'])}")
        tables = subprocess.run(["psql", database.replace("+psycopg2", ""), "-Atc", "select count(*) from runs"],
                                capture_output=True, text=True, check=False)
        say(f"PostgreSQL: {tables.stdout.strip() or tables.stderr.strip()} rows in its table `runs`")
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        names = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        kinds: dict[str, int] = {}
        for each in names:
            kinds[each.split("/")[0]] = kinds.get(each.split("/")[0], 0) + 1
        say(f"objects in the bucket: {kinds}")


def tracked(mlflow: servers.MLflow, experiment: str) -> str:
    """What MLflow knows of the experiment."""
    from mlflow import MlflowClient

    client = MlflowClient(mlflow.url)
    found = client.get_experiment_by_name(experiment)
    runs = client.search_runs([found.experiment_id])
    over = sum(run.info.status == "FINISHED" for run in runs)
    return f"{len(runs)} runs of `{experiment}`, {over} finished"


if __name__ == "__main__":
    main()
