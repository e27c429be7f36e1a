"""A command with its time and its memory, within limits."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

SAMPLE_SECONDS = 0.05


def status(pid: int) -> dict[str, int]:
    """What the kernel says of a process's memory, in kB; nothing if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith(("Vm", "Rss")) and line.endswith("kB")}


@dataclass
class Usage:
    """What a command took. Memory is in MB (10⁶ bytes).

    `resident` is the kernel's own peak, with the pages of mapped files that are in memory: those the kernel can take away.
    `anonymous` is the highest sample of what it cannot take away without swap.
    """

    seconds: float = 0.0
    processor_seconds: float = 0.0
    code: int | None = None
    resident: float = 0.0
    anonymous: float = 0.0
    mapped: float = 0.0
    stopped: str | None = None
    # Milliseconds since 1970, and the anonymous MB then.
    samples: list[tuple[float, float]] = field(default_factory=list)

    def as_dict(self) -> dict:
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in asdict(self).items() if name != "samples"}

    def anonymous_between(self, begin_ms: float, end_ms: float) -> float:
        """The highest sample of a time. A shorter time than between two samples may have none."""
        return round(max((anonymous for time_ms, anonymous in self.samples if begin_ms <= time_ms <= end_ms), default=0.0), 1)


class Watched:
    """A process whose memory is looked at until it ends."""

    def __init__(self, command: list, cwd: Path, log: Path, environment: dict[str, str] | None = None):
        self.usage, self.begin = Usage(), time.monotonic()
        with open(log.with_suffix(".out"), "wb") as out, open(log.with_suffix(".err"), "wb") as errors:
            self.process = subprocess.Popen(
                [str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=environment
            )

    def sample(self) -> None:
        memory = status(self.process.pid)
        usage, anonymous = self.usage, memory.get("RssAnon", 0) * 1024 / 1e6
        usage.samples.append((time.time() * 1e3, anonymous))
        usage.anonymous = max(usage.anonymous, anonymous)
        usage.mapped = max(usage.mapped, memory.get("RssFile", 0) * 1024 / 1e6)
        usage.resident = max(usage.resident, memory.get("VmHWM", 0) * 1024 / 1e6)

    def has_ended(self) -> bool:
        if self.process.returncode is not None:
            return True
        pid, ended, used = os.wait4(self.process.pid, os.WNOHANG)
        if not pid:
            return False
        self.process.returncode = self.usage.code = os.waitstatus_to_exitcode(ended)
        self.usage.seconds = time.monotonic() - self.begin
        self.usage.processor_seconds = used.ru_utime + used.ru_stime
        # What the kernel tells at the end is at least the peak of this process, from which the other one was made.
        if used.ru_maxrss > status(os.getpid())["VmHWM"]:
            self.usage.resident = max(self.usage.resident, used.ru_maxrss * 1024 / 1e6)
        return True

    def stop(self, signal: int = 15, patience: float = 30.0) -> None:
        """Stops it by its pid: with a signal, and with SIGKILL if it goes on."""
        if not self.has_ended():
            self.process.send_signal(signal)
        end = time.monotonic() + patience
        while not self.has_ended() and time.monotonic() < end:
            self.sample()
            time.sleep(SAMPLE_SECONDS)
        while not self.has_ended():
            self.process.kill()
            time.sleep(SAMPLE_SECONDS)


def measure(command: list, cwd: Path, log: Path, limit: float, most_memory: float, environment: dict[str, str] | None = None) -> Usage:
    """Runs a command to its end, or until it takes more than so many seconds or MB. Its output is in `log` with `.out` and `.err`."""
    watched = Watched(command, cwd, log, environment)
    usage = watched.usage
    try:
        while not watched.has_ended():
            watched.sample()
            elapsed = time.monotonic() - watched.begin
            if elapsed > limit:
                usage.stopped = f"after {limit:,.0f} s"
            elif usage.resident > most_memory:
                usage.stopped = f"at {usage.resident:,.0f} MB, after {elapsed:,.0f} s"
            if usage.stopped:
                watched.stop(patience=0.0)
                break
            # Short commands are looked at more often.
            time.sleep(min(SAMPLE_SECONDS, 0.002 + elapsed / 20))
    finally:
        watched.stop(patience=0.0)
    return usage
