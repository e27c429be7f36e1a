"""The servers of `make deploy-server` on this machine, and the functions that ask them.

Starts etcd, the API server and, where server.py's variables name their binaries, the controller manager and KubeRay's
operator. `Dashboard` answers in the place of Ray's dashboards, and `run_ray` reports running pods in the place of a
kubelet. `prepare` installs the custom kinds. `Report` collects the answers that were not as expected.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import check

PLURALS = {"EventBus": "eventbus"}
NAMESPACE = "reverie"
HERE = ("-n", NAMESPACE)


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


def run_ray(servers: Servers) -> None:
    """Says that Ray's pods run, as a kubelet would."""
    for number, each in enumerate(objects(servers, *HERE, "pods", "-l", "ray.io/is-ray-node=yes")):
        if each["status"].get("phase") != "Running":
            address = f"10.1.{secrets.randbelow(250)}.{number + 1}"
            conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]
            status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}}
            servers.kubectl(*HERE, "patch", "pod", each["metadata"]["name"], "--subresource=status", "--patch", json.dumps(status))


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


def commands(part: str) -> list[str]:
    """The commands of the documentation that have a part."""
    found = re.findall(r"`(kubectl [^`]+)`|^ *((?:for |kubectl ).*)$", check.DOCUMENTATION.read_text(), re.MULTILINE)
    return list(dict.fromkeys(inline or line.strip() for inline, line in found if part in inline + line))


def said(servers: Servers, report: Report, part: str) -> None:
    """Runs the command of the documentation that has a part."""
    for each in commands(part):
        report.expect(each, servers.run("sh", "-ec", f"cd {check.HERE.parent}; PATH={check.TOOLS}:$PATH; {each}"))


def versions(servers: Servers) -> str:
    """What was asked."""
    code, text = servers.kubectl("version", "-o", "json")
    return json.loads(text)["serverVersion"]["gitVersion"] if code == 0 else text.strip()
