"""Our wheel in a benchmark's environment."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def install(python):
    """Installs the newest wheel for this interpreter, whatever it has of us."""
    found = sorted((TARGET / "wheels").glob("reverie*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        sys.exit(f"{TARGET / 'wheels'} holds no wheel of ours: run `make wheel`")
    subprocess.run([python, "-m", "pip", "install", "-q", "--force-reinstall", "--no-deps", found[-1]], check=True)
