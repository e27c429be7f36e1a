"""Everything that a cluster would get, applied to a real kube-apiserver on this machine: `make deploy-server`.

check.py reads the manifests; a server also decides. It applies defaults, runs admission (the Pod Security Standard of the
namespace), and says whether a second apply conflicts with what others wrote in between. Nothing is downloaded; these
variables name the binaries:

    ETCD, KUBE_APISERVER          needed; without them everything is skipped
    KUBE_CONTROLLER_MANAGER       optional: makes accounts, ReplicaSets and pods
    KUBERAY_OPERATOR              optional: makes the Ray clusters' pods

Servers listen on 127.0.0.1 alone, at free ports, with certificates made for this run, in a temporary folder. They are
stopped by their process ids. There is no node: pods are admitted, and never run.

    KUBE_APISERVER=… ETCD=… .tools/deploy/bin/python deploy/server.py
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import check
import rules
from pods import Pod, made_of

PLURALS = {"EventBus": "eventbus"}
NAMESPACE = "reverie"
OVERLAYS = ("laptop", "production", "gpu", "events", "laptop")
# What others write while it runs, and how it is read again.
PROMOTED = "s3://reverie/bundles/promoted"
ANNOTATION = {"spec": {"template": {"metadata": {"annotations": {"reverie/bundle": PROMOTED}}}}}


def plural(kind: str) -> str:
    """The name of a custom kind in addresses."""
    return PLURALS.get(kind, f"{kind.lower()}s")


def definitions() -> list[dict]:
    """The custom kinds, from `deploy/schemas`."""
    found = []
    for path in sorted((check.HERE / "schemas").glob("*_*_*.json")):
        group, version, kind = path.stem.split("_")
        schema = json.loads(path.read_text())
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

    def start(self, name: str, binary: str, *flags: str) -> subprocess.Popen:
        """Starts a server, with its log in the folder."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [binary, *flags], stdout=log, stderr=subprocess.STDOUT, cwd=self.folder,
                env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
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
            [check.TOOLS / tool, *map(str, words)], input=given, capture_output=True, text=True, check=False,
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
        self.tried += 1
        if result[0] != 0:
            self.refused.append(f"{name}: {result[1].strip()[-1500:]}")

    def expect_value(self, name: str, result: tuple[int, str], value: str) -> None:
        """A command that has to print a value."""
        self.tried += 1
        if result[1].strip() != value:
            self.refused.append(f"{name}: {result[1].strip()[-300:]!r}, not {value!r}")


def prepare(servers: Servers, report: Report) -> None:
    """Custom kinds, the namespace, and secrets with the names of the documentation."""
    for each in definitions():
        report.expect(each["metadata"]["name"], servers.kubectl("create", "-f", "-", given=json.dumps(each)))
    report.expect("custom kinds", servers.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"))
    report.expect("namespace", servers.kubectl("create", "namespace", NAMESPACE))
    names = {each.partition(".")[0] for each in rules.SECRETS} | rules.OTHER_SECRETS
    for name in sorted(names):
        report.expect(f"secret {name}", servers.kubectl("-n", NAMESPACE, "create", "secret", "generic", name, "--from-literal=auth_token=x"))


def apply_all(servers: Servers, report: Report) -> None:
    """Each overlay after the other, the bases and what is applied by itself: all of it twice."""
    apply = ("apply", "--server-side", "--validate=strict")
    for overlay in OVERLAYS:
        folder = check.HERE / "kubernetes" / "overlays" / overlay
        for time_ in ("first", "second"):
            report.expect(f"overlay {overlay}, {time_} apply", servers.kubectl(*apply, "-k", folder))
    for base in ("run", "nightly"):
        report.expect(f"base {base}", servers.kubectl(*apply, "-n", NAMESPACE, "-k", check.BASE / base))
    for name in ("rayjob.yaml", "rayservice.yaml"):
        report.expect(name, servers.kubectl(*apply, "-n", NAMESPACE, "-f", check.BASE / "ray" / name))
    report.expect("namespace argocd", servers.kubectl("create", "namespace", "argocd"))
    report.expect("argocd", servers.kubectl(*apply, "-R", "-f", check.HERE / "argocd"))


def admit_all(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """Every pod, as the operator would send it: admission decides, and nothing is stored."""
    seen, number = set(), 0
    for documents in everything.values():
        for document in documents:
            for pod in made_of(document):
                number += 1
                made = as_object(pod, number)
                known = json.dumps([pod.labels, made["spec"]], sort_keys=True)
                if known not in seen:
                    seen.add(known)
                    report.expect(f"pod {pod.name} of {document['kind']} {document['metadata']['name']}", servers.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", given=json.dumps(made)))


def keep_what_others_wrote(servers: Servers, report: Report) -> None:
    """The bundle and the replicas that others set are there after another apply, the server's way and the client's."""
    folder = check.HERE / "kubernetes" / "overlays" / "laptop"
    here = ("-n", NAMESPACE)
    report.expect("promote", servers.kubectl(*here, "patch", "deployment", "reverie-serve", "--patch", json.dumps(ANNOTATION)))
    report.expect("scale", servers.kubectl(*here, "scale", "deployment", "reverie-serve", "--replicas=4"))
    workers = json.dumps([{"op": "add", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}])
    for name, flags in (("server-side", ["--server-side"]), ("client-side", []), ("server-side again", ["--server-side", "--force-conflicts"])):
        if name != "server-side":
            # The list of groups is one value: after this, only the client's way and --force-conflicts write it.
            report.expect("scale Ray", servers.kubectl(*here, "patch", "raycluster", "reverie", "--type=json", "--patch", workers))
        report.expect(f"apply {name}", servers.kubectl("apply", *flags, "-k", folder))
        bundle = "jsonpath={.spec.template.metadata.annotations.reverie/bundle}"
        report.expect_value(f"bundle after apply {name}", servers.kubectl(*here, "get", "deployment", "reverie-serve", "-o", bundle), PROMOTED)
        report.expect_value(f"replicas after apply {name}", servers.kubectl(*here, "get", "deployment", "reverie-serve", "-o", "jsonpath={.spec.replicas}"), "4")


def upgrade(servers: Servers, report: Report) -> None:
    """Two releases in a namespace; an upgrade keeps the bundle and makes no Job."""
    report.expect("namespace helm", servers.kubectl("create", "namespace", "helm"))
    values = ("--namespace", "helm", "--values", check.HERE / "chart" / "values-production.yaml", "--set", "run.enabled=true")
    for release in ("one", "two"):
        report.expect(f"helm install {release}", servers.run("helm", "install", release, check.HERE / "chart", *values))
    report.expect("promote", servers.kubectl("-n", "helm", "patch", "deployment", "one-serve", "--patch", json.dumps(ANNOTATION)))
    report.expect("helm upgrade", servers.run("helm", "upgrade", "one", check.HERE / "chart", *values, "--set", "drain=40,image.tag=0.1.1"))
    bundle = "jsonpath={.spec.template.metadata.annotations.reverie/bundle}"
    report.expect_value("bundle after helm upgrade", servers.kubectl("-n", "helm", "get", "deployment", "one-serve", "-o", bundle), PROMOTED)
    report.expect_value("jobs after helm upgrade", servers.kubectl("-n", "helm", "get", "jobs", "-o", "name"), "")


def rights(servers: Servers, report: Report) -> None:
    """What the accounts may do, and what they may not."""
    questions = {
        "reverie-workflow": {("patch", "deployments.apps/reverie-serve"): "yes", ("patch", "deployments.apps/mlflow"): "no", ("get", "secrets"): "no", ("create", "pods"): "no"},
        "reverie-start": {("create", "workflows.argoproj.io"): "yes", ("get", "workflows.argoproj.io"): "no", ("get", "secrets"): "no"},
    }
    for account, asked in questions.items():
        for (verb, what), answer in asked.items():
            result = servers.kubectl("-n", NAMESPACE, "auth", "can-i", verb, what, "--as", f"system:serviceaccount:{NAMESPACE}:{account}")
            report.expect_value(f"{account}: {verb} {what}", result, answer)


def ray_pods(servers: Servers, report: Report) -> None:
    """The real operator makes a head for each of the three Ray objects."""
    operator = servers.start("kuberay-operator", os.environ["KUBERAY_OPERATOR"], f"--metrics-addr=127.0.0.1:{free_port()}", f"--health-probe-bind-address=127.0.0.1:{free_port()}", "--enable-leader-election=false")
    heads = ("-n", NAMESPACE, "get", "pods", "-l", "ray.io/node-type=head", "-o", "jsonpath={.items[*].metadata.labels.ray\\.io/cluster}")

    def all_there() -> bool:
        clusters = servers.kubectl(*heads)[1].split()
        return "reverie" in clusters and all(any(each.startswith(name) for each in clusters) for name in ("reverie-experiment", "reverie-graph"))

    with contextlib.suppress(SystemExit):
        servers.wait("kuberay-operator", operator, all_there, 120)
    report.expect_value("Ray's heads are made", (0, "yes" if all_there() else servers.kubectl("-n", NAMESPACE, "get", "events", "--field-selector=type=Warning")[1]), "yes")


def main() -> int:
    """See the module."""
    missing = [name for name in ("ETCD", "KUBE_APISERVER") if not os.environ.get(name)]
    if missing:
        print(f"deploy-server is skipped: {' and '.join(missing)} must name the binaries of the servers (deploy/server.py)")
        return 0
    everything, report = check.rendered(), Report()
    with tempfile.TemporaryDirectory(prefix="reverie-server-") as folder:
        servers = Servers(Path(folder))
        try:
            servers.control_plane()
            prepare(servers, report)
            apply_all(servers, report)
            if os.environ.get("KUBE_CONTROLLER_MANAGER"):
                # Pods name the account `default`, which the controller manager makes.
                until = time.monotonic() + 60
                while servers.kubectl("-n", NAMESPACE, "get", "serviceaccount", "default")[0] and time.monotonic() < until:
                    time.sleep(0.5)
            admit_all(servers, report, everything)
            keep_what_others_wrote(servers, report)
            upgrade(servers, report)
            rights(servers, report)
            if os.environ.get("KUBERAY_OPERATOR"):
                ray_pods(servers, report)
        finally:
            servers.stop()
    print("\n\n".join(report.refused), end="\n" if report.refused else "")
    print(f"{report.tried} requests to a real kube-apiserver: {len(report.refused)} refused or not as expected")
    return 1 if report.refused else 0


if __name__ == "__main__":
    sys.exit(main())
