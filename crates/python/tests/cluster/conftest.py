"""Real servers for the tests beyond one machine: a Ray cluster of three nodes, S3, a simulated provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
sys.path[:0] = [str(ROOT / "examples" / "cluster"), str(ROOT / "crates" / "python" / "tests")]

from workspace import Provider, Workspace  # noqa: E402

servers = pytest.importorskip("servers")
pytest.importorskip("ray", reason="Ray is not installed: `make cluster` installs it")
REVERIE = Path(sys.executable).with_name("reverie")


@pytest.fixture(scope="session")
def ray_cluster():
    """Three nodes with one CPU each, shared by the tests that do not harm it."""
    # Sockets of Ray have long names: its folder must have a short one.
    with tempfile.TemporaryDirectory(prefix="rv") as folder:
        try:
            with servers.ray(Path(folder), nodes=3) as cluster:
                yield cluster
        except servers.NotStarted as error:
            pytest.skip(f"Ray did not come up on this machine: {error}")


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """A real S3 server with an empty bucket."""
    with servers.s3(tmp_path_factory.mktemp("s3"), "reverie") as server:
        yield server


@pytest.fixture
def provider():
    """A provider that answers after a tenth of a second."""
    made = Provider(latency={"constant": {"seconds": 0.1}})
    yield made
    made.stop()


@pytest.fixture
def workspace(tmp_path):
    """A folder with documents and golden questions."""
    return Workspace(tmp_path)


class Run:
    """The command `reverie` in a process of its own."""

    def __init__(self, *arguments, program: Path = REVERIE, environment: dict | None = None, folder: Path | None = None):
        folder = folder or Path(str(arguments[1])).parent
        self.process = subprocess.Popen(
            [program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", **(environment or {})},
        )

    def end(self, timeout: float = 300) -> "Run":
        """Waits for its end."""
        try:
            self.out, self.err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.out, self.err = self.process.communicate()
            raise AssertionError(f"no end after {timeout} s:\n{self.out}\n{self.err}") from None
        self.code = self.process.returncode
        return self

    def succeeds(self, timeout: float = 300) -> dict:
        """Its results, given `--json`."""
        self.end(timeout)
        assert self.code == 0, f"exit {self.code}\n{self.out}\n{self.err}"
        return json.loads(self.out)


def without_times(results: dict) -> dict:
    """Results without what two runs never share: times, and which of them did the work."""
    results = json.loads(json.dumps(results))
    for name in ("run", "time_ms", "executed", "reused", "repeated", "spending"):
        results.pop(name, None)
    for trial in results["trials"]:
        trial.pop("latency_p50")
        trial.pop("latency_p95")
        trial.pop("usage")  # it holds the seconds of calls
        trial.pop("front")  # the front of quality, cost and latency
        for question in trial["questions"]:
            if question["answer"]:
                question["answer"].pop("seconds")
    return results


def artifacts(store: Path) -> dict[str, bytes]:
    """All artifacts of a store in a folder, by name."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.glob("artifacts/*/*"))}


def differences(one, other, path: str = "") -> list[str]:
    """Where two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(one.keys() | other.keys())
        return [found for name in names for found in differences(one.get(name), other.get(name), f"{path}.{name}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [found for i, pair in enumerate(zip(one, other)) for found in differences(*pair, f"{path}[{i}]")]
    return [] if one == other else [f"{path}: {one!r} and {other!r}"[:300]]
