#!/usr/bin/env python3
"""A rollout under load: two replicas of `reverie serve` behind nginx are replaced one after the other.

    python3 benches/serve/rollout.py BUNDLE [--rate 200] [--seconds 60] [--rollouts 2] [--lame-duck 3]

Needs nginx, and the binaries `reverie` and `open_loop` (`cargo build --release --workspace --bins --examples`).

A controller does what Kubernetes and an ingress do: it asks both replicas for `/health/ready` twice a second and
writes nginx's list of servers from those that are ready. A replica is told to stop (SIGTERM) only when the other one is
ready, and its successor starts when it has ended. nginx sends no request a second time, so that a refused connection is
a failed request. Load is open-loop: searches, each on its own connection to nginx. The exit code is 1 if one failed.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from table import TARGET, free_port

CONFIGURATION = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_timeout 0;
  upstream replicas {{ {servers} {keepalive} }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://replicas; proxy_set_header Host $http_host; proxy_next_upstream off;
      proxy_http_version 1.1; proxy_set_header Connection "";
    }}
  }}
}}
"""


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=1):
            return True
    except OSError:
        return False


class Rollout:
    def __init__(self, options: argparse.Namespace, folder: str) -> None:
        self.options, self.folder, self.port = options, folder, free_port()
        self.replicas: list[tuple[int, subprocess.Popen]] = []
        self.listed: list[int] = []
        self.is_over = False
        self.log: list[str] = []
        self.began = time.monotonic()

    def note(self, text: str) -> None:
        self.log.append(f"{time.monotonic() - self.began:6.1f} s  {text}")

    def start(self) -> None:
        port = free_port()
        command = [TARGET / "reverie", "serve", self.options.bundle, "--listen", f"127.0.0.1:{port}"]
        command += ["--lame-duck", str(self.options.lame_duck), "--public-url", f"http://127.0.0.1:{self.port}"]
        log = Path(self.folder, f"{port}.log").open("wb")
        self.replicas.append((port, subprocess.Popen(command, stdout=log, stderr=log)))
        self.note(f"replica {port} starts")

    def configure(self, ports: list[int]) -> None:
        servers = " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in ports)
        Path(self.folder, "nginx.conf").write_text(
            CONFIGURATION.format(
                folder=self.folder, servers=servers, port=self.port, keepalive="keepalive 32;" if self.options.keepalive else ""
            )
        )
        self.listed = ports

    def watch(self) -> None:
        """The controller."""
        while not self.is_over:
            ready = [port for port, _ in self.replicas if is_ready(port)]
            if ready and ready != self.listed:
                self.note(f"ready: {ready}")
                self.configure(ready)
                self.nginx.send_signal(signal.SIGHUP)
            time.sleep(0.5)

    def wait(self, holds, what: str) -> None:
        until = time.monotonic() + 60
        while not holds():
            if time.monotonic() > until:
                raise SystemExit(f"{what} did not come about\n" + "\n".join(self.log))
            time.sleep(0.05)

    def replace(self) -> None:
        port, process = self.replicas[0]
        process.terminate()
        self.note(f"replica {port} is told to stop")
        process.wait(60)
        self.note(f"replica {port} has ended with {process.returncode}")
        self.replicas.pop(0)
        self.start()
        self.wait(lambda: self.replicas[-1][0] in self.listed, "a new replica")

    def run(self) -> int:
        self.start()
        self.start()
        self.wait(lambda: all(is_ready(port) for port, _ in self.replicas), "two replicas")
        self.configure([port for port, _ in self.replicas])
        self.nginx = subprocess.Popen(["nginx", "-c", f"{self.folder}/nginx.conf", "-p", self.folder, "-e", f"{self.folder}/error.log"])
        self.wait(lambda: is_ready(self.port), "nginx")
        threading.Thread(target=self.watch, daemon=True).start()
        url = f"http://127.0.0.1:{self.port}/rag/retrieve?query=what+does+light+{{n}}+mean"
        command = [TARGET / "examples" / "open_loop", url, str(self.options.rate), str(self.options.seconds)]
        load = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
        time.sleep(3)
        for _ in range(2 * self.options.rollouts):
            self.replace()
        if load.poll() is not None:
            raise SystemExit("the load ended before the rollout: give it more --seconds")
        told = json.loads(load.communicate()[0])
        self.is_over = True
        for _, process in [*self.replicas, (0, self.nginx)]:
            process.terminate()
            process.wait(60)
        print("\n".join(self.log))
        print(json.dumps(told))
        failed = told["sent"] - told["ok"]
        print(f"{told['sent']} requests at {self.options.rate:g} a second, {2 * self.options.rollouts} replicas replaced, {failed} failed")
        return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rollouts", type=int, default=2)
    parser.add_argument("--keepalive", action="store_true", help="nginx keeps connections to the replicas open")
    parser.add_argument("--lame-duck", type=float, default=3)
    with tempfile.TemporaryDirectory() as folder:
        return Rollout(parser.parse_args(), folder).run()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
