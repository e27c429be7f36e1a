"""Everything that a cluster would get, applied to a real kube-apiserver on this machine: `make deploy-server`.

check.py reads the manifests; a server also decides. It applies defaults, runs admission (the Pod Security Standard of the
namespace), and says whether a second apply conflicts with what others wrote in between. Nothing is downloaded; these
variables name the binaries:

    ETCD, KUBE_APISERVER          needed; without them everything is skipped
    KUBE_CONTROLLER_MANAGER       optional: makes accounts, ReplicaSets and pods, and deletes namespaces
    KUBERAY_OPERATOR              optional: makes the Ray clusters' pods
    OPERATORS                     optional: a folder with kuberay, argo-workflows and argo-events at the tags of
                                  docs/kubernetes.md, whose commands are run on these copies
    DEFINITIONS                   optional: a folder with more CustomResourceDefinitions of others; what it does not
                                  have is made from deploy/schemas

Servers listen on 127.0.0.1 alone, at free ports, with certificates made for this run, in a temporary folder. They are
stopped by their process ids. There is no node: pods are admitted, and never run. Argo's pods are written as its
controller would write them. What KubeRay's operator asks of Ray's dashboards is answered here.

    KUBE_APISERVER=… ETCD=… .tools/deploy/bin/python deploy/server.py
"""

from __future__ import annotations

import copy
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

import check
import network
import rules
from pods import Pod, made_of

PLURALS = {"EventBus": "eventbus"}
NAMESPACE = "reverie"
HERE = ("-n", NAMESPACE)
OVERLAYS = ("laptop", "production", "gpu", "events")
STRICT = ("apply", "--server-side", "--validate=strict")
ADMIT = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
# What others write while it runs, and how it is read again.
PROMOTED = "s3://reverie/bundles/promoted"
ANNOTATION = {"spec": {"template": {"metadata": {"annotations": {"reverie/bundle": PROMOTED}}}}}


def plural(kind: str) -> str:
    """The name of a custom kind in addresses."""
    return PLURALS.get(kind, f"{kind.lower()}s")


def structural(schema):
    """A schema as a server takes it: one type, or none where a value may be of several."""
    if isinstance(schema, list):
        return [structural(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: structural(each) for key, each in schema.items()}
    if isinstance(made.get("type"), list):
        del made["type"]
        made["x-kubernetes-preserve-unknown-fields"] = True
    return made


def definitions() -> list[dict]:
    """The custom kinds, from `deploy/schemas`."""
    found, schemas = [], {path.stem: json.loads(path.read_text()) for path in sorted((check.HERE / "schemas").glob("*_*_*.json"))}
    # These kinds have no schema, because none of our files holds one.
    schemas |= {f"argoproj.io_v1alpha1_{kind}": {"type": "object", "x-kubernetes-preserve-unknown-fields": True} for kind in ("Workflow", "WorkflowTaskResult")}
    for name, given in schemas.items():
        group, version, kind = name.split("_")
        schema = structural(given)
        properties = schema.setdefault("properties", {})
        properties.update(apiVersion={"type": "string"}, kind={"type": "string"}, metadata={"type": "object"})
        properties.setdefault("status", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
        names = {"kind": kind, "listKind": f"{kind}List", "plural": plural(kind), "singular": kind.lower()}
        one = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
        found.append({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural(kind)}.{group}"},
            "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [one]},
        })
    return found


def as_object(pod: Pod, number: int) -> dict:
    """A pod as the operator would send it. Volumes that come from claims are folders here."""
    spec = {key: value for key, value in copy.deepcopy(pod.spec).items() if value is not None}
    there = {each["name"] for each in spec.get("volumes", [])}
    mounted = {mount["name"] for each in pod.containers() for mount in each.get("volumeMounts", [])}
    spec["volumes"] = [*spec.get("volumes", []), *[{"name": name, "emptyDir": {}} for name in sorted(mounted - there)]]
    metadata = {"name": f"{pod.name.replace('/', '-')}-{number}", "namespace": NAMESPACE, "labels": pod.labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def certificates(folder: Path) -> None:
    """A certificate authority, the server's certificate, and the key that signs the tokens of accounts."""
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc"
    (folder / "names").write_text(names)
    for words in (
        ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=reverie-test", "-keyout", "ca.key", "-out", "ca.crt"],
        ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kube-apiserver", "-keyout", "server.key", "-out", "server.csr"],
        ["x509", "-req", "-days", "1", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-out", "server.crt"],
        ["genrsa", "-out", "accounts.key", "2048"],
    ):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


class Servers:
    """The processes, which end with the `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen] = []
        self.kubeconfig = folder / "kubeconfig"

    def start(self, name: str, binary: str, *flags: str, environment: dict[str, str] | None = None) -> subprocess.Popen:
        """Starts a server, with its log in the folder."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [binary, *flags], stdout=log, stderr=subprocess.STDOUT, cwd=self.folder,
                env={**os.environ, "KUBECONFIG": str(self.kubeconfig), **(environment or {})},
            )
        self.started.append(process)
        return process

    def wait(self, name: str, process: subprocess.Popen, ready, seconds: int = 90) -> None:
        """Waits until a server answers; shows the end of its log if it does not."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and process.poll() is None:
            if ready():
                return
            time.sleep(0.5)
        tail = (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
        raise SystemExit(f"{name} did not start (exit code {process.poll()}):\n{tail}")

    def stop(self) -> None:
        """Ends the servers, the last one first, by their process ids."""
        for process in reversed(self.started):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def control_plane(self) -> None:
        """etcd, the API server, and the controller manager if there is one."""
        certificates(self.folder)
        client, peer, port = free_port(), free_port(), free_port()
        etcd = f"http://127.0.0.1:{client}"
        self.start("etcd", os.environ["ETCD"], "--data-dir", "etcd", "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
                   "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                   "--initial-cluster", f"default=http://127.0.0.1:{peer}")
        token = secrets.token_hex(16)
        (self.folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
        manager = os.environ.get("KUBE_CONTROLLER_MANAGER")
        server = self.start(
            "kube-apiserver", os.environ["KUBE_APISERVER"], f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={port}", "--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--client-ca-file=ca.crt",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=accounts.key",
            "--service-account-signing-key-file=accounts.key", "--authorization-mode=RBAC", "--token-auth-file=tokens.csv",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Nobody makes the accounts `default` without the controller manager.
            *([] if manager else ["--disable-admission-plugins=ServiceAccount"]),
        )
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(self.folder / "ca.crt")}}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }))
        self.kubeconfig.chmod(0o600)
        self.wait("kube-apiserver", server, lambda: self.kubectl("get", "--raw", "/readyz")[0] == 0)
        if manager:
            self.start("kube-controller-manager", manager, "--kubeconfig=kubeconfig", "--service-account-private-key-file=accounts.key",
                       "--root-ca-file=ca.crt", "--bind-address=127.0.0.1", f"--secure-port={free_port()}", "--use-service-account-credentials=false", "--leader-elect=false")

    def run(self, tool: str, *words: object, given: str | None = None) -> tuple[int, str]:
        """A tool's exit code, and all that it printed."""
        done = subprocess.run(
            [tool if tool == "sh" else check.TOOLS / tool, *map(str, words)], input=given, capture_output=True, text=True, check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HELM_CACHE_HOME": str(self.folder / "helm"), "HELM_CONFIG_HOME": str(self.folder / "helm"), "HELM_DATA_HOME": str(self.folder / "helm")},
        )
        return done.returncode, done.stdout + done.stderr

    def kubectl(self, *words: object, given: str | None = None) -> tuple[int, str]:
        """What kubectl says."""
        return self.run("kubectl", *words, given=given)


class Report:
    """What was tried, and what was refused."""

    def __init__(self) -> None:
        self.tried, self.refused = 0, []

    def expect(self, name: str, result: tuple[int, str]) -> None:
        """A command that has to succeed."""
        self.expect_value(name, "" if result[0] == 0 else result[1].strip()[-1500:] or f"exit code {result[0]}", "")

    def expect_value(self, name: str, found, value) -> None:
        """What has to be found."""
        self.tried += 1
        if found != value:
            text = str(found)[-1500:]
            self.refused.append(f"{name}: {text}" if value in ("", []) else f"{name}: {text}, not {value!r}")


class Dashboard(BaseHTTPRequestHandler):
    """Answers in the place of Ray's dashboards: the operator has this server as its proxy, so all that it asks of them
    comes here. An application of a graph is running, a job is there once it was sent."""

    asked: list[tuple[str, str, str, str | None]] = []
    jobs: set[str] = set()

    def do_GET(self) -> None:  # noqa: N802: the name is the library's
        self.reply()

    do_PUT = do_POST = do_GET  # noqa: N815

    def reply(self) -> None:
        """Records a request of the operator, and answers it."""
        host, _, path = self.path.removeprefix("http://").partition("/")
        path = path.partition("?")[0]
        given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append((self.command, host, path, self.headers.get("x-ray-authorization")))
        code, answer = 200, {}
        if path.startswith("api/serve/applications"):
            deployments = {"gateway": {"name": "gateway", "status": "HEALTHY"}}
            answer = {"applications": {"manuals": {"name": "manuals", "status": "RUNNING", "deployments": deployments}}}
        elif path.startswith("api/jobs") and self.command == "POST":
            answer = {"submission_id": json.loads(given)["submission_id"]}
            self.jobs.add(answer["submission_id"])
        elif path.startswith("api/jobs"):
            job = path.rstrip("/").rpartition("/")[2]
            found = {"submission_id": job, "status": "RUNNING", "type": "SUBMISSION", "entrypoint": ""}
            code, answer = (200, found) if job in self.jobs else (404, {})
        body = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def until(ready, seconds: int = 60) -> bool:
    """Waits until something is so, and says whether it is."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            return False
        time.sleep(1)
    return True


def objects(servers: Servers, *words: object) -> list[dict]:
    """The objects that `kubectl get` finds."""
    code, text = servers.kubectl("get", *words, "-o", "json")
    found = json.loads(text) if code == 0 else {}
    return found.get("items", [found] if found else [])


def names_of(found: list[dict]) -> list[str]:
    """The names of objects."""
    return sorted(each["metadata"]["name"] for each in found)


def lost(sent, stored, path: str = "") -> list[str]:
    """The paths of fields that the server stored with another value than was sent, or not at all."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return [each for key, value in sent.items() if value is not None for each in lost(value, stored.get(key), f"{path}.{key}")]
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        return [each for number, (one, other) in enumerate(zip(sent, stored, strict=True)) for each in lost(one, other, f"{path}[{number}]")]
    # An empty object or list says nothing.
    return [] if sent == stored or (sent in ({}, []) and not stored) else [path]


def prepare(servers: Servers, report: Report) -> None:
    """Custom kinds: by the operators' own installation if there are copies of them, else by our schemas."""
    if folder := os.environ.get("OPERATORS"):
        for command in commands('"github.com/'):
            local = re.sub(r'"github\.com/[^/]+/([^"?]+)\?ref=[^"]+"', rf'"{Path(folder).resolve()}/\1"', command)
            report.expect(command, servers.run("sh", "-ec", f"PATH={check.TOOLS}:$PATH; {local}"))
    if folder := os.environ.get("DEFINITIONS"):
        report.expect("DEFINITIONS", servers.kubectl("apply", "--server-side", "--force-conflicts", "-R", "-f", folder))
    there = {each["metadata"]["name"] for each in objects(servers, "crd")}
    for each in definitions():
        if each["metadata"]["name"] not in there:
            report.expect(each["metadata"]["name"], servers.kubectl("create", "-f", "-", given=json.dumps(each)))
    report.expect("custom kinds", servers.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"))


def by_argo_cd(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """The operators as Argo CD's applications would install them: the server takes all objects in the namespace that is said."""
    for each in (document for documents in everything.values() for document in documents if document["kind"] == "Application"):
        source, space = each["spec"]["source"], each["spec"]["destination"]["namespace"]
        folder = Path(os.environ["OPERATORS"]).resolve() / source["repoURL"].rpartition("/")[2].removesuffix(".git") / source["path"]
        if not folder.is_dir():
            continue
        made = servers.folder / each["metadata"]["name"]
        made.mkdir()
        said_there = {"namespace": source["kustomize"]["namespace"]} if "kustomize" in source else {}
        (made / "kustomization.yaml").write_text(json.dumps({"resources": [os.path.relpath(folder, made.resolve())], **said_there}))
        servers.kubectl("create", "namespace", space)
        code, text = servers.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-o", "json", "-k", made)
        report.expect(f"{each['metadata']['name']} by Argo CD", (code, text))
        if code == 0:
            spaces = {one["metadata"].get("namespace") for one in json.loads(text)["items"]} - {None}
            report.expect_value(f"{each['metadata']['name']} by Argo CD, namespaces", spaces, {space})


def start_operator(servers: Servers) -> None:
    """KubeRay's operator, as its own account if it was installed as the documentation says."""
    dashboards = ThreadingHTTPServer(("127.0.0.1", 0), Dashboard)
    threading.Thread(target=dashboards.serve_forever, daemon=True).start()
    config = servers.folder / "operator.kubeconfig"
    code, token = servers.kubectl("create", "token", "kuberay-operator", "-n", "default", "--duration=2h")
    made = json.loads(servers.kubeconfig.read_text())
    if code == 0:
        made["users"][0]["user"]["token"] = token.strip()
    config.write_text(json.dumps(made))
    config.chmod(0o600)
    servers.start(
        "kuberay-operator", os.environ["KUBERAY_OPERATOR"], f"--metrics-addr=127.0.0.1:{free_port()}", f"--health-probe-bind-address=127.0.0.1:{free_port()}", "--enable-leader-election=false",
        environment={"KUBECONFIG": str(config), "HTTP_PROXY": f"http://127.0.0.1:{dashboards.server_address[1]}", "NO_PROXY": ""},
    )


def namespace(servers: Servers, report: Report) -> None:
    """The namespace, and secrets with the names and keys of the documentation: both are made before an overlay."""
    report.expect("namespace", servers.kubectl("create", "namespace", NAMESPACE))
    keys = {each.partition(".")[0]: [] for each in rules.SECRETS} | {each: [] for each in rules.OTHER_SECRETS}
    for each in rules.SECRETS:
        name, _, key = each.partition(".")
        keys[name] += [key] if key else []
    for name, own in sorted(keys.items()):
        report.expect(f"secret {name}", servers.kubectl(*HERE, "create", "secret", "generic", name, *[f"--from-literal={key}=x-{key}" for key in own or ["key"]]))
    report.expect("files of an experiment", servers.kubectl(*HERE, "create", "configmap", "reverie-experiment", "--from-literal=experiment.toml=", "--from-literal=golden.jsonl="))


def remove(servers: Servers, report: Report, overlay: str) -> None:
    """Deletes an overlay with its namespace, as the documentation says."""
    report.expect(f"overlay {overlay}, delete", servers.kubectl("delete", "--timeout=180s", "-k", check.HERE / "kubernetes" / "overlays" / overlay))


def compare(servers: Servers, report: Report, name: str, documents: list[dict], space: str = NAMESPACE) -> None:
    """Everything that was sent is stored as it was sent."""
    for each in documents:
        kind = each["kind"].lower()
        group = each["apiVersion"].rpartition("/")[0]
        stored = objects(servers, "-n", each["metadata"].get("namespace", space), f"{kind}.{group}" if group else kind, each["metadata"]["name"])
        report.expect_value(f"{name}, {each['kind']} {each['metadata']['name']} is stored as sent", lost(each, stored[0]) if stored else ["it is not there"], [])


def workloads(servers: Servers, report: Report, name: str, space: str) -> None:
    """The controllers make at least one pod for each object that has some, and none is refused."""
    if not os.environ.get("KUBE_CONTROLLER_MANAGER"):
        return

    def without() -> list[str]:
        pods = objects(servers, "-n", space, "pods")
        return [
            f"{each['kind']} {each['metadata']['name']}"
            for each in objects(servers, "-n", space, "deployments,statefulsets,jobs")
            if not any(network.matches(each["spec"]["selector"], pod["metadata"]["labels"]) for pod in pods)
        ]

    until(lambda: not without(), 60)
    report.expect_value(f"{name}, objects without a pod", without(), [])
    failed = [each["message"] for each in objects(servers, "-n", space, "events") if each["reason"].startswith("Failed") and "forbidden" in each.get("message", "")]
    report.expect_value(f"{name}, pods that were refused", failed, [])


def contents(servers: Servers, folder: Path) -> dict[str, str]:
    """What an overlay's objects say, but for what the server and autoscalers write."""
    found = {}
    for each in objects(servers, "-k", folder):
        name = f"{each['kind']} {each['metadata']['name']}"
        each.pop("status", None)
        each.get("spec", {}).pop("replicas", None)
        each["metadata"] = {key: each["metadata"].get(key) for key in ("labels", "finalizers", "ownerReferences")}
        found[name] = json.dumps(each, sort_keys=True)
    return found


def each_overlay(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """Applies each overlay to an empty namespace, once with `--server-side` and once without, and again after others have
    changed it. Without the controller manager a namespace cannot be emptied, so only the first overlay is applied, once."""
    manager = bool(os.environ.get("KUBE_CONTROLLER_MANAGER"))
    ways = (("server-side", STRICT), ("client-side", ("apply", "--validate=strict")))
    for overlay in OVERLAYS if manager else OVERLAYS[:1]:
        folder = check.HERE / "kubernetes" / "overlays" / overlay
        for way, flags in ways if manager else ways[:1]:
            name = f"overlay {overlay}, {way}"
            namespace(servers, report)
            report.expect(f"{name}, first apply", servers.kubectl(*flags, "-k", folder))
            compare(servers, report, name, everything[f"kubernetes/overlays/{overlay}"])
            report.expect(f"{name}, second apply", servers.kubectl(*flags, "-k", folder))
            before = contents(servers, folder)
            report.expect(f"{name}, third apply", servers.kubectl(*flags, "-k", folder))
            after = contents(servers, folder)
            report.expect_value(f"{name}, objects", len(after), len(everything[f"kubernetes/overlays/{overlay}"]))
            report.expect_value(f"{name}, what the third apply changed", sorted(each for each in after if after[each] != before.get(each)), [])
            report.expect(f"{name}, what another apply would change", servers.kubectl("diff", *[each for each in flags if each == "--server-side"], "-k", folder))
            workloads(servers, report, name, NAMESPACE)
            if os.environ.get("KUBERAY_OPERATOR"):
                there = until(lambda: nodes(servers, "reverie") >= {"head", "worker"}, 60)
                report.expect_value(f"{name}, Ray's pods", there or warnings(servers), True)
            keep(servers, report, name, folder, way)
            if manager:
                remove(servers, report, overlay)


def annotation(servers: Servers, name: str, space: str = NAMESPACE) -> str:
    """The bundle that a Deployment serves."""
    return servers.kubectl("-n", space, "get", "deployment", name, "-o", "jsonpath={.spec.template.metadata.annotations.reverie/bundle}")[1]


CONFLICT = re.compile(r"conflicts? with .*")


def keep(servers: Servers, report: Report, name: str, folder: Path, first: str) -> None:
    """The bundle and the replicas that others set are there after another apply, the server's way and the client's."""
    report.expect(f"{name}, promote", servers.kubectl(*HERE, "patch", "deployment", "reverie-serve", "--patch", json.dumps(ANNOTATION)))
    # The laptop's autoscaler takes one pod, no more and no fewer.
    count = "1" if folder.name == "laptop" else "5"
    if os.environ.get("KUBE_CONTROLLER_MANAGER") and count != "1":
        # Once it has begun to set its smallest number, it insists on it.
        until(lambda: objects(servers, *HERE, "deployment", "reverie-serve")[0]["spec"]["replicas"] > 1)
    report.expect(f"{name}, scale", servers.kubectl(*HERE, "scale", "deployment", "reverie-serve", f"--replicas={count}"))
    workers = json.dumps([{"op": "add", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}])
    force = ["--server-side", "--force-conflicts"]
    # After an apply without `--server-side`, the first one with it needs `--force-conflicts`.
    for way, flags in (("server-side", force if first == "client-side" else ["--server-side"]), ("client-side", []), ("server-side by force", force)):
        if way != "server-side":
            # The list of groups is one value: after this, only the client's way and --force-conflicts write it.
            report.expect(f"{name}, scale Ray", servers.kubectl(*HERE, "patch", "raycluster", "reverie", "--type=json", "--patch", workers))
            running = not os.environ.get("KUBERAY_OPERATOR") or until(lambda: len(of_cluster(servers, "reverie", "worker")) >= 2, 60)
            report.expect_value(f"{name}, two workers", running, True)
            before = {each["metadata"]["name"] for each in of_cluster(servers, "reverie", "worker")}
        if way == "server-side by force" and first == "server-side":
            code, text = servers.kubectl("apply", "--server-side", "-k", folder)
            expected = (1, ['conflict with "kubectl-patch" using ray.io/v1: .spec.workerGroupSpecs'])
            report.expect_value(f"{name}, conflicts without --force-conflicts", (code, CONFLICT.findall(text)), expected)
        report.expect(f"{name}, then apply {way}", servers.kubectl("apply", *flags, "-k", folder))
        report.expect_value(f"{name}, bundle after apply {way}", annotation(servers, "reverie-serve"), PROMOTED)
        replicas = servers.kubectl(*HERE, "get", "deployment", "reverie-serve", "-o", "jsonpath={.spec.replicas}")[1]
        report.expect_value(f"{name}, replicas after apply {way}", replicas, count)
        if way != "server-side" and os.environ.get("KUBERAY_OPERATOR"):
            time.sleep(5)
            workers_now = of_cluster(servers, "reverie", "worker")
            after = {each["metadata"]["name"] for each in workers_now if "deletionTimestamp" not in each["metadata"]}
            report.expect_value(f"{name}, Ray's workers that apply {way} removed", sorted(before - after), [])


def commands(part: str) -> list[str]:
    """The commands of the documentation that have a part."""
    found = re.findall(r"`(kubectl [^`]+)`|^ *((?:for |kubectl ).*)$", check.DOCUMENTATION.read_text(), re.MULTILINE)
    return list(dict.fromkeys(inline or line.strip() for inline, line in found if part in inline + line))


def said(servers: Servers, report: Report, part: str) -> None:
    """Runs the command of the documentation that has a part."""
    for each in commands(part):
        report.expect(each, servers.run("sh", "-ec", f"cd {check.HERE.parent}; PATH={check.TOOLS}:$PATH; {each}"))


def everything_at_once(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """Applies one overlay after the other without deleting any, and then the manifests that belong to no overlay."""
    if os.environ.get("KUBE_CONTROLLER_MANAGER"):
        namespace(servers, report)
    for overlay in (*OVERLAYS, "laptop"):
        # Without the controller manager nothing was deleted, and Ray's list of groups was written by others.
        folder = check.HERE / "kubernetes" / "overlays" / overlay
        report.expect(f"switch to {overlay}", servers.kubectl(*STRICT, "--force-conflicts", "-k", folder))
        compare(servers, report, f"switch to {overlay}", everything[f"kubernetes/overlays/{overlay}"])
        if overlay == "production":
            said(servers, report, "delete statefulset")
            there = {each["metadata"]["name"] for each in objects(servers, *HERE, "statefulsets,services,networkpolicies,deployments")}
            report.expect_value("what is left of the laptop", sorted(there & {"notebook", "storage", "postgresql"}), [])
    for base in ("run", "nightly"):
        for time_ in ("first", "second"):
            report.expect(f"base {base}, {time_} apply", servers.kubectl(*STRICT, *HERE, "-k", check.BASE / base))
        compare(servers, report, f"base {base}", everything[f"kubernetes/base/{base}"])
    report.expect("suspend", servers.kubectl(*HERE, "patch", "cronworkflow", "reverie-nightly", "--type=merge", "--patch", '{"spec": {"suspend": true}}'))
    report.expect("base nightly, suspended", servers.kubectl(*STRICT, *HERE, "-k", check.BASE / "nightly"))
    report.expect_value("nightly stays suspended", servers.kubectl(*HERE, "get", "cronworkflow", "reverie-nightly", "-o", "jsonpath={.spec.suspend}")[1], "true")
    for name in ("rayjob.yaml", "rayservice.yaml"):
        report.expect(name, servers.kubectl(*STRICT, *HERE, "-f", check.BASE / "ray" / name))
        compare(servers, report, name, everything[f"kubernetes/base/ray/{name}"])
    report.expect("namespace argocd", servers.kubectl("create", "namespace", "argocd"))
    for time_ in ("first", "second"):
        report.expect(f"argocd, {time_} apply", servers.kubectl(*STRICT, "-R", "-f", check.HERE / "argocd"))
    for source, documents in everything.items():
        if source.startswith("argocd"):
            compare(servers, report, source, documents, "argocd")
    workloads(servers, report, "all at once", NAMESPACE)


def exit_codes(servers: Servers, report: Report) -> None:
    """What exit codes of a run mean to its Job: 3 is tried again, 4 ends it."""

    def waiting() -> list[str]:
        pods = objects(servers, *HERE, "pods", "-l", "job-name=reverie-run")
        return [each["metadata"]["name"] for each in pods if each["status"]["phase"] == "Pending"]

    for number, code in enumerate((3, 4)):
        report.expect_value(f"pod {number + 1} of the run", until(lambda: bool(waiting()), 60), True)
        for pod in waiting():
            state = {"terminated": {"exitCode": code, "reason": "Error"}}
            ended = {"name": "reverie", "image": "reverie", "imageID": "", "ready": False, "restartCount": 0, "state": state}
            status = json.dumps({"status": {"phase": "Failed", "containerStatuses": [ended]}})
            report.expect(f"the run ends with {code}", servers.kubectl(*HERE, "patch", "pod", pod, "--subresource=status", "--patch", status))

    def failed() -> list[str]:
        (job,) = objects(servers, *HERE, "job", "reverie-run")
        return [each["reason"] for each in job["status"].get("conditions", []) if each["type"] == "Failed"]

    until(lambda: bool(failed()), 60)
    report.expect_value("the end of the run", failed(), ["PodFailurePolicy"])


def admit_all(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """Every pod, as the operator would send it: admission decides, nothing is stored, and the server says which have the
    token of an account."""
    if os.environ.get("KUBE_CONTROLLER_MANAGER"):
        # Pods name the account `default`, which the controller manager makes.
        until(lambda: servers.kubectl(*HERE, "get", "serviceaccount", "default")[0] == 0)
    seen, number = set(), 0
    for documents in everything.values():
        for document in documents:
            for pod in made_of(document):
                number += 1
                made = as_object(pod, number)
                known = json.dumps([pod.labels, made["spec"]], sort_keys=True)
                if known in seen:
                    continue
                seen.add(known)
                name = f"pod {pod.name} of {document['kind']} {document['metadata']['name']}"
                code, text = servers.kubectl(*ADMIT, "-o", "json", given=json.dumps(made))
                report.expect(name, (code, text))
                if code == 0 and os.environ.get("KUBE_CONTROLLER_MANAGER"):
                    needs = pod.name.partition("/")[0] in rules.NEEDS_TOKEN
                    report.expect_value(f"{name}, has a token", has_token(json.loads(text)["spec"]), needs)
    for document in everything[check.WORKFLOW]:
        if document["kind"] == "WorkflowTemplate":
            patched(servers, report, document)


def patched(servers: Servers, report: Report, document: dict) -> None:
    """The steps' patches by kubectl's own strategic merge, which is Argo's: the pods are those of pods.py, and admitted."""
    bare = copy.deepcopy(document)
    patches = {each["name"]: each.pop("podSpecPatch", None) for each in bare["spec"]["templates"]}
    for before, after in zip(made_of(bare), made_of(document), strict=True):
        if patch := patches[before.name.partition("/")[2]]:
            file = servers.folder / "step.json"
            file.write_text(json.dumps(as_object(before, 0)))
            change = json.dumps({"spec": yaml.safe_load(patch)})
            code, text = servers.kubectl("patch", "--local", "-f", file, "--type=strategic", "--patch", change, "-o", "json")
            report.expect(f"{before.name}, patch", (code, text))
            made = json.loads(text) if code == 0 else {"spec": {}}
            ours = as_object(after, 0)
            for key in ("initContainers", "containers"):
                report.expect_value(f"{before.name}, {key} after the patch", by_name(made["spec"].get(key, [])), by_name(ours["spec"][key]))
            report.expect(f"{before.name}, as patched by kubectl", servers.kubectl(*ADMIT, given=text))


def by_name(containers: list[dict]) -> dict[str, dict]:
    """Containers, whatever their order."""
    return {each["name"]: each for each in containers}


def has_token(spec: dict) -> bool:
    """Whether the server gave a pod the token of its account."""
    return any(each["name"].startswith("kube-api-access-") for each in spec.get("volumes", []))


def of_cluster(servers: Servers, name: str, kind: str | None = None) -> list[dict]:
    """The pods of a Ray cluster, by its name or its beginning."""
    found = objects(servers, *HERE, "pods", "-l", "ray.io/is-ray-node=yes" + (f",ray.io/node-type={kind}" if kind else ""))
    clusters = {each["metadata"]["labels"]["ray.io/cluster"] for each in found}
    wanted = {name} if name in clusters else {each for each in clusters if each.startswith(f"{name}-")}
    return [each for each in found if each["metadata"]["labels"]["ray.io/cluster"] in wanted]


def nodes(servers: Servers, name: str) -> set[str]:
    """The kinds of pods that a Ray cluster has."""
    return {each["metadata"]["labels"]["ray.io/node-type"] for each in of_cluster(servers, name)}


def warnings(servers: Servers) -> str:
    """What the server and the operators complain of."""
    return servers.kubectl(*HERE, "get", "events", "--field-selector=type=Warning")[1][-1500:]


def real_and_foretold(report: Report, real: dict, pod: Pod, selectors: list[dict]) -> None:
    """A pod that the operator made, held against the one that check.py has in its place."""
    name, spec, labels = f"{pod.name} {real['metadata']['name']}", real["spec"], real["metadata"]["labels"]
    made = Pod(pod.name, labels, spec)
    report.expect_value(f"{name}, containers", sorted(each["name"] for each in made.containers()), sorted(each["name"] for each in pod.containers()))
    report.expect_value(f"{name}, secrets", sorted(set(rules.secrets_of(made))), sorted(set(rules.secrets_of(pod))))
    report.expect_value(f"{name}, has a token of Kubernetes' API", has_token(spec), pod.name in rules.NEEDS_TOKEN)
    for selector in selectors:
        report.expect_value(f"{name}, is selected by {selector}", network.matches(selector, labels), network.matches(selector, pod.labels))
    for each in made.containers():
        mode = [one.get("value") for one in each.get("env", []) if one["name"] == "RAY_AUTH_MODE"]
        report.expect_value(f"{name}, {each['name']} asks for a token", mode, ["token"])


def selectors_of(policies: list[dict]) -> list[dict]:
    """The selectors of pods in network policies."""
    found = [each["spec"]["podSelector"] for each in policies]
    for each in policies:
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            found += [peer["podSelector"] for rule in each["spec"].get(direction, []) for peer in rule.get(peers, []) if "podSelector" in peer]
    return [json.loads(each) for each in sorted({json.dumps(each, sort_keys=True) for each in found})]


def ray(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """The pods of the three Ray objects, by the real operator; then the graph and the job start."""
    documents = [
        next(each for each in everything["kubernetes/overlays/laptop"] if each["kind"] == "RayCluster"),
        *everything["kubernetes/base/ray/rayjob.yaml"], *everything["kubernetes/base/ray/rayservice.yaml"],
    ]
    selectors = selectors_of(objects(servers, *HERE, "networkpolicies"))
    for document in documents:
        name = document["metadata"]["name"]
        there = until(lambda name=name: nodes(servers, name) >= {"head", "worker"}, 120)
        report.expect_value(f"Ray's pods of {document['kind']} {name}", there or warnings(servers), True)
        foretold = {pod.name: pod for pod in made_of(document)}
        for real in of_cluster(servers, name):
            real_and_foretold(report, real, foretold[f"ray-{real['metadata']['labels']['ray.io/node-type']}"], selectors)
    run_ray(servers)
    names = {each["metadata"]["name"] for each in documents}

    def services() -> dict[str, dict]:
        return {each["metadata"]["name"]: each for each in objects(servers, *HERE, "services")}

    wanted = {"reverie-head-svc", "reverie-graph-head-svc", "reverie-graph-serve-svc"}
    there = until(lambda: (run_ray(servers), wanted <= services().keys())[1], 120)
    report.expect_value("the graph's services", there or warnings(servers), True)
    until(lambda: bool(Dashboard.jobs), 60)
    report.expect_value("the job was sent once", len(Dashboard.jobs), 1)
    time.sleep(10)
    # The service of the standing cluster is its own, before and after the graph has one.
    for name, owner in (("reverie", "RayCluster"), ("reverie-graph", "RayService")):
        head = services().get(f"{name}-head-svc", {"metadata": {}, "spec": {"selector": {"": ""}, "ports": []}})
        owners = [(each["kind"], each["name"]) for each in head["metadata"].get("ownerReferences", [])]
        report.expect_value(f"{name}-head-svc, owner", owners, [(owner, name)])
        pods = objects(servers, *HERE, "pods")
        chosen = [each for each in pods if head["spec"]["selector"].items() <= each["metadata"]["labels"].items()]
        report.expect_value(f"{name}-head-svc, pods", names_of(chosen), names_of(of_cluster(servers, name, "head")))
    graph(servers, report)
    client = [each["port"] for each in services().get("reverie-head-svc", {"spec": {"ports": []}})["spec"]["ports"] if each["name"] == "client"]
    report.expect_value("reverie-head-svc, Ray's client", client, [10001])
    # The operator shows the token of `reverie-ray`, and made no secret of its own.
    report.expect_value("the operator asks with the token", sorted({each[3] or "" for each in Dashboard.asked if each[2].startswith("api/")}), ["Bearer x-auth_token"])
    owners = {each["metadata"]["name"]: each["metadata"].get("ownerReferences", []) for each in objects(servers, *HERE, "secrets")}
    report.expect_value("secrets that would be deleted with their cluster", sorted(name for name, owner in owners.items() if owner or name in names), [])
    report.expect_value("pods that were refused", [each["message"] for each in objects(servers, *HERE, "events") if "forbidden" in each.get("message", "")], [])


def graph(servers: Servers, report: Report) -> None:
    """The graph stays as it is when its file is applied again, and takes another bundle without another cluster; then Ray's
    pods are made anew."""
    def updates() -> int:
        return len([each for each in Dashboard.asked if each[0] == "PUT"])

    def clusters() -> set[str]:
        return {each["metadata"]["labels"]["ray.io/cluster"] for each in of_cluster(servers, "reverie-graph")}

    file = check.BASE / "ray" / "rayservice.yaml"
    before = (clusters(), updates())
    for flags in ((), ("--server-side", "--force-conflicts")):
        report.expect("graph, second apply", servers.kubectl(*HERE, "apply", *flags, "-f", file))
    time.sleep(10)
    report.expect_value("graph, after the same file", (clusters(), updates()), before)
    other = file.read_text().replace("bundles/manuals-1", "bundles/manuals-2")
    report.expect("graph, another bundle", servers.kubectl(*HERE, "apply", "-f", "-", given=other))
    report.expect_value("graph, another bundle is sent to Ray", until(lambda: updates() > before[1], 60), True)
    report.expect_value("graph, its cluster after another bundle", clusters(), before[0])
    report.expect("job, second apply", servers.kubectl(*HERE, "apply", "-f", check.BASE / "ray" / "rayjob.yaml"))
    said(servers, report, "delete pod -l ray.io/cluster=reverie")
    until(lambda: nodes(servers, "reverie") >= {"head", "worker"}, 60)
    groups = {each["metadata"]["labels"]["ray.io/group"] for each in of_cluster(servers, "reverie") if "deletionTimestamp" not in each["metadata"]}
    report.expect_value("groups of the laptop's Ray cluster", groups, {"headgroup", "cpu"})


def run_ray(servers: Servers) -> None:
    """Says that Ray's pods run, as a kubelet would."""
    for number, each in enumerate(objects(servers, *HERE, "pods", "-l", "ray.io/is-ray-node=yes")):
        if each["status"].get("phase") != "Running":
            address = f"10.1.{secrets.randbelow(250)}.{number + 1}"
            conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]
            status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}}
            servers.kubectl(*HERE, "patch", "pod", each["metadata"]["name"], "--subresource=status", "--patch", json.dumps(status))


def real_pods(servers: Servers, report: Report) -> None:
    """All pods that there are: each has a policy of its own, and every policy and service that selects by label has one."""
    pods = objects(servers, *HERE, "pods")
    policies = objects(servers, *HERE, "networkpolicies")
    for pod in pods:
        labels = pod["metadata"]["labels"]
        own = any(each["spec"]["podSelector"] and network.matches(each["spec"]["podSelector"], labels) for each in policies)
        report.expect_value(f"{pod['metadata']['name']} has a policy of its own", own, True)
    # Of these there is no real pod: their operators did not run.
    others = {"reverie-workflow", "reverie-bus", "reverie-objects", "reverie-start"}
    for policy in policies:
        if policy["metadata"]["name"] not in others:
            selected = any(network.matches(policy["spec"]["podSelector"], pod["metadata"]["labels"]) for pod in pods)
            report.expect_value(f"policy {policy['metadata']['name']} selects a pod", selected, True)
    for service in objects(servers, *HERE, "services"):
        selector = service["spec"].get("selector", {})
        # The serve label of Ray's pods is the operator's, once an application answers.
        if not service["metadata"]["name"].endswith("serve-svc"):
            selected = any(selector.items() <= pod["metadata"]["labels"].items() for pod in pods)
            report.expect_value(f"service {service['metadata']['name']} selects a pod", selected, True)
    if os.environ.get("OPERATORS"):
        labels = [each["spec"]["template"]["metadata"]["labels"] for each in objects(servers, "-n", "default", "deployments")]
        named = [end.labels.items() for end in rules.STRANGERS if end.name == "operator in default"]
        report.expect_value("KubeRay's operator has the label that the policies name", [named[0] <= each.items() for each in labels], [True])


def releases(servers: Servers, report: Report) -> None:
    """Releases with either file of values in one namespace; an upgrade keeps the bundle and makes no Job."""
    report.expect("namespace helm", servers.kubectl("create", "namespace", "helm"))
    report.expect("namespace helm, restricted", servers.kubectl("label", "namespace", "helm", "pod-security.kubernetes.io/enforce=restricted"))
    production = ("--values", check.HERE / "chart" / "values-production.yaml")
    for release, values in {"plain": (), "one": (*production, "--set", "run.enabled=true"), "two": production}.items():
        here = (release, check.HERE / "chart", "--namespace", "helm", *values)
        report.expect(f"helm install {release}", servers.run("helm", "install", *here))
        compare(servers, report, f"release {release}", check.chart(*values, release=release), "helm")
        report.expect(f"release {release}, promote", servers.kubectl("-n", "helm", "patch", "deployment", f"{release}-serve", "--patch", json.dumps(ANNOTATION)))
        report.expect(f"helm upgrade {release}, nothing changed", servers.run("helm", "upgrade", *here))
        report.expect(f"helm upgrade {release}", servers.run("helm", "upgrade", *here, "--set", "drain=40,image.tag=0.1.1"))
        report.expect_value(f"release {release}, bundle after the upgrades", annotation(servers, f"{release}-serve", "helm"), PROMOTED)
    report.expect_value("jobs after the upgrades", servers.kubectl("-n", "helm", "get", "jobs", "-o", "name")[1].strip(), "")
    report.expect("a run by the pattern", servers.kubectl("-n", "helm", "create", "job", "one-run-1", "--from=cronjob/one-run"))
    upgrade = ("upgrade", "one", check.HERE / "chart", "--namespace", "helm", *production, "--set", "run.enabled=true,drain=50")
    report.expect("helm upgrade one, while a run is there", servers.run("helm", *upgrade))
    report.expect_value("jobs after that", servers.kubectl("-n", "helm", "get", "jobs", "-o", "name")[1].strip(), "job.batch/one-run-1")
    workloads(servers, report, "helm", "helm")
    for words in (("uninstall", "two"), ("install", "two", check.HERE / "chart", *production)):
        report.expect(f"helm {words[0]} two", servers.run("helm", *words, "--namespace", "helm"))


def started(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """What the Sensor and the workflow's step `serve` do, as their accounts: a Workflow of a name is made once, and the
    bundle alone is changed."""
    documents = everything["kubernetes/overlays/events"]
    (sensor,) = [each for each in documents if each["kind"] == "Sensor"]
    account = f"system:serviceaccount:{NAMESPACE}:"
    workflow = json.dumps(sensor["spec"]["triggers"][0]["template"]["k8s"]["source"]["resource"])
    create = (*HERE, "create", "--validate=strict", "--as", f"{account}reverie-start", "-f", "-")
    report.expect("the Sensor's Workflow", servers.kubectl(*create, given=workflow))
    report.expect_value("a second one of its name", "already exists" in servers.kubectl(*create, given=workflow)[1], True)
    (change,) = rules.patches(documents)
    report.expect("promote", servers.kubectl(*HERE, "patch", "deployment", "reverie-serve", "--patch", json.dumps(ANNOTATION)))
    before = objects(servers, *HERE, "deployment", "reverie-serve")[0]["spec"]
    report.expect("the step `serve`", servers.kubectl(*HERE, "patch", "deployment", "reverie-serve", "--type=strategic", "--patch", json.dumps(change), "--as", f"{account}reverie-workflow"))
    after = objects(servers, *HERE, "deployment", "reverie-serve")[0]["spec"]
    report.expect_value("what the step `serve` changed", lost(after, before), [".template.metadata.annotations.reverie/bundle"])
    if os.environ.get("KUBE_CONTROLLER_MANAGER"):
        # It keeps the history of a Deployment.
        said(servers, report, "rollout undo")
        report.expect_value("the bundle after that", annotation(servers, "reverie-serve"), PROMOTED)


def rights(servers: Servers, report: Report) -> None:
    """What the accounts may do, and what they may not."""
    questions = {
        "reverie-workflow": {("patch", "deployments.apps/reverie-serve"): "yes", ("patch", "deployments.apps/mlflow"): "no", ("get", "secrets"): "no", ("create", "pods"): "no", ("create", "workflowtaskresults.argoproj.io"): "yes"},
        "reverie-start": {("create", "workflows.argoproj.io"): "yes", ("get", "workflows.argoproj.io"): "no", ("delete", "workflows.argoproj.io"): "no", ("get", "secrets"): "no"},
        "reverie-objects": {("get", "secrets"): "no", ("create", "workflows.argoproj.io"): "no"},
        "reverie-serve": {("get", "secrets"): "no", ("get", "pods"): "no"},
    }
    if os.environ.get("KUBERAY_OPERATOR"):
        questions["reverie"] = {("patch", "pods"): "yes", ("patch", "rayclusters.ray.io"): "yes", ("get", "secrets"): "no", ("create", "pods"): "no", ("patch", "deployments.apps"): "no"}
    for account, asked in questions.items():
        for (verb, what), answer in asked.items():
            result = servers.kubectl(*HERE, "auth", "can-i", verb, what, "--as", f"system:serviceaccount:{NAMESPACE}:{account}")
            report.expect_value(f"{account}: {verb} {what}", result[1].strip(), answer)


def versions(servers: Servers) -> str:
    """What was asked."""
    code, text = servers.kubectl("version", "-o", "json")
    return json.loads(text)["serverVersion"]["gitVersion"] if code == 0 else text.strip()


def main() -> int:
    """See the module."""
    missing = [name for name in ("ETCD", "KUBE_APISERVER") if not os.environ.get(name)]
    if missing:
        print(f"deploy-server is skipped: {' and '.join(missing)} must name the binaries of the servers (deploy/server.py)")
        return 0
    everything, report, version = check.rendered(), Report(), "?"
    # SIGTERM runs the `finally` below too, so that no server is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="reverie-server-") as folder:
        servers = Servers(Path(folder))
        try:
            servers.control_plane()
            version = versions(servers)
            prepare(servers, report)
            if os.environ.get("KUBERAY_OPERATOR"):
                start_operator(servers)
            if os.environ.get("OPERATORS"):
                by_argo_cd(servers, report, everything)
            each_overlay(servers, report, everything)
            everything_at_once(servers, report, everything)
            admit_all(servers, report, everything)
            rights(servers, report)
            started(servers, report, everything)
            if os.environ.get("KUBERAY_OPERATOR"):
                ray(servers, report, everything)
            if os.environ.get("KUBE_CONTROLLER_MANAGER"):
                real_pods(servers, report)
                exit_codes(servers, report)
            releases(servers, report)
            said(servers, report, "for part in")
            report.expect_value("secrets after the parts were deleted", len(objects(servers, *HERE, "secret", "reverie-s3")), 1)
        finally:
            servers.stop()
    print("\n\n".join(report.refused), end="\n" if report.refused else "")
    print(f"{report.tried} questions to kube-apiserver {version}: {len(report.refused)} answers that were not as expected")
    return 1 if report.refused else 0


if __name__ == "__main__":
    sys.exit(main())
