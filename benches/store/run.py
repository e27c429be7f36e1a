"""A store on S3, written and read: `benches/run store`.

`reverie store copy` beside `aws s3 cp --recursive`, in turns, on the same folders and the same
SeaweedFS server on 127.0.0.1 (`make services` installs it). Each copy is a process of its own and
begins with an empty target. Ours writes each name only once, and flushes what it downloads to the disk.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WEED = Path(os.environ.get("REVERIE_TEST_SERVICES", ROOT / ".tools" / "services")) / "bin" / "weed"
AWS = ROOT / ".tools" / "bench" / "bin" / "aws"
KEY, SECRET = "benchkey", "benchsecret"
PEER = "aws s3 cp --recursive"

MIB = 1 << 20
FOLDERS = {"1 object of 512 MiB": (1, 512 * MIB), "500 objects of 256 KiB": (500, MIB // 4)}


def say(text):
    print(text, file=sys.stderr, flush=True)


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Server:
    def __init__(self, folder):
        identity = {"name": "bench", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin", "Read", "Write", "List"]}
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        names = ["s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc",
                 "filer.port", "filer.port.grpc", "s3.port.lance"]  # fmt: skip
        ports = free_ports(len(names))
        command = [WEED, "server", "-dir=.", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-s3.config=s3.json",
                   "-s3.port.iceberg=0", "-master.telemetry=false", "-master.volumeSizeLimitMB=1024", "-volume.max=100",
                   f"-filer.localSocket={folder / 'filer.sock'}"]  # fmt: skip
        command += [f"-{name}={port}" for name, port in zip(names, ports)]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.endpoint = f"http://127.0.0.1:{ports[0]}"
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
                            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": self.endpoint,
                            "AWS_DEFAULT_REGION": "us-east-1", "AWS_REGION": "us-east-1"}  # fmt: skip

    def __enter__(self):
        for _ in range(300):
            try:
                urllib.request.urlopen(self.endpoint, timeout=5)
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.1)
        self.run(AWS, "s3", "mb", "s3://bench")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def run(self, *command):
        """Seconds of a command."""
        start = time.monotonic()
        subprocess.run(list(map(str, command)), check=True, env=self.environment, stdout=subprocess.DEVNULL)
        return time.monotonic() - start


def rows(options, row):
    if not WEED.exists():
        sys.exit(f"{WEED} is missing: run `make services`")
    reverie = TARGET / "release" / "reverie"
    if not reverie.exists():
        sys.exit(f"{reverie} is missing: run `make build`")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        (scratch / "server").mkdir()
        for kind, (n, size) in FOLDERS.items():
            for i in range(n):
                path = scratch / kind / "artifacts" / f"{i % 256:02x}" / f"{i:064x}.bin"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(os.urandom(size))
        with Server(scratch / "server") as server:
            for kind, (n, size) in FOLDERS.items():
                yield from one(options, row, server, reverie, scratch, kind, n * size / 1e6)


def one(options, row, server, reverie, scratch, kind, megabytes):
    rates = {(side, way): [] for side in ["ours", "theirs"] for way in ["up", "down"]}
    for turn in range(options.rounds):
        for side in ["ours", "theirs"]:
            folder, target = scratch / kind, scratch / "downloaded"
            url = f"s3://bench/{side}-{turn}-{megabytes:.0f}"
            ours = side == "ours"
            copy = [reverie, "store", "copy"] if ours else [AWS, "s3", "cp", "--recursive", "--only-show-errors"]
            for way, places in [("up", [folder, url]), ("down", [url, target])]:
                seconds = server.run(*copy, *places)
                rates[side, way].append(megabytes / seconds)
                say(f"store: {kind}, {side}, {way}: {seconds:.2f} s")
            same = subprocess.run(["diff", "-r", folder, target], stdout=subprocess.DEVNULL).returncode == 0
            if not same:
                sys.exit(f"store: {side}: what came back is not what was sent")
            shutil.rmtree(target)
            server.run(AWS, "s3", "rm", "--recursive", "--only-show-errors", url)
    for way, name in [("up", "upload"), ("down", "download")]:
        yield row(f"store, {name} {kind}", "MB/s", rates["ours", way], rates["theirs", way], PEER, 0.8)
