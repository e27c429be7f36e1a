"""How `pip install .` builds the wheel: by maturin, with what llama.cpp needs to be built.

CMake and libclang come from packages, into the environment that pip makes for the build. In a checkout where
`make` put them into `.tools` those are taken, so that nothing is compiled twice.
"""

import os
import shutil
import subprocess
from pathlib import Path

from maturin import *  # noqa: F403: the hooks of PEP 517 and PEP 660


def _offer_tools() -> None:
    if Path(".tools/ready").exists():
        return
    import clang

    cmake = shutil.which("cmake")
    if cmake is not None:
        os.environ.setdefault("CMAKE", cmake)
    os.environ.setdefault("LIBCLANG_PATH", str(Path(clang.__file__).parent / "native"))
    compiler = shutil.which("cc")
    if compiler is not None:
        answer = subprocess.run([compiler, "-print-file-name=include"], capture_output=True, text=True, check=False)
        os.environ.setdefault("C_INCLUDE_PATH", answer.stdout.strip())


_offer_tools()
