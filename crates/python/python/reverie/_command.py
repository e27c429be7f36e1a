"""The command `reverie`: the same program as the binary, which in this package can also join a Ray cluster."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def _connect(address: str, environment: list[str]) -> Any:
    try:
        from reverie.ray._cluster import Cluster
    except ModuleNotFoundError as error:
        raise RuntimeError(f"the Ray engine needs Ray ({error}): pip install 'reverie[ray]'") from error
    return Cluster(address, environment)


def main() -> None:
    """Runs the command line of this process, and ends it."""
    from reverie import _core

    # Python's own handler would only note the signal while Rust works.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Standard output is for results, but Ray prints messages about its nodes there.
    sys.stdout = sys.stderr
    code = _core.main(["reverie", *sys.argv[1:]], _connect)
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()
    sys.stderr.flush()
    # Threads of in-process models may still compute something nobody waits for.
    os._exit(code)


if __name__ == "__main__":
    main()
