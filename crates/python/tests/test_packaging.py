"""What is shipped: wheels for any machine, and a job that Kubernetes does not repeat for nothing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import textwrap

import pytest

from workspace import ROOT


@pytest.fixture
def build(tmp_path):
    """What llama.cpp's build is told where `pip` calls our backend with these variables."""
    pytest.importorskip("maturin")
    # Where there is no `.tools`, the backend asks this package where libclang is.
    (tmp_path / "clang").mkdir()
    (tmp_path / "clang" / "__init__.py").touch()

    def told(**given: str) -> dict[str, str]:
        code = "import backend, os, json; print(json.dumps(dict(os.environ)))"
        owned = ("GGML_", "REVERIE_", "CARGO_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(owned)}
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**clean, "PYTHONPATH": f"{ROOT / 'crates' / 'python'}:{tmp_path}", **given},
        )
        return json.loads(done.stdout)

    return told


def test_a_wheel_is_for_any_machine_whatever_the_shell_exports(build):
    told = build(GGML_AVX512="ON", GGML_AVX512_VNNI="ON", GGML_CPU_ARM_ARCH="armv9-a")
    instructions = {name: value for name, value in told.items() if name.startswith("GGML_")}
    assert instructions and set(instructions.values()) == {"OFF"}
    # A build that was told otherwise before would remember it.
    assert told["CARGO_TARGET_DIR"].endswith("portable")
    assert build(CARGO_TARGET_DIR="/tmp/built")["CARGO_TARGET_DIR"] == "/tmp/built/portable"


def test_a_wheel_for_this_machine_is_there_for_who_asks(build):
    told = build(GGML_AVX512="ON", REVERIE_NATIVE="1")
    assert told["GGML_AVX512"] == "ON" and "CARGO_TARGET_DIR" not in told


def test_pyarrow_is_installed_with_the_package_and_pandas_is_not():
    needed = importlib.metadata.requires("reverie")
    always = {re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in needed if "extra ==" not in each}
    assert always == {"pyarrow"}
    assert any(each.startswith("pandas") and "extra ==" in each for each in needed)


def test_the_package_is_imported_and_scores_dictionaries_where_there_is_no_pandas(tmp_path):
    code = """
        import json, sys

        class NoPandas:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "pandas":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, NoPandas())
        import reverie

        rows = [{"question": "Who?", "answer": "Owls hunt.", "reference": "Owls hunt."},
                {"question": "When?", "answer": "At noon.", "reference": "At night."}]
        scores = reverie.evaluate(rows, ["exact_match", "token_f1"], progress=False)
        table = scores.table().to_arrow()
        try:
            scores.to_pandas()
        except ImportError as error:
            raised = str(error)
        print(json.dumps([scores["exact_match"], table.column_names, table.num_rows, repr(scores), raised]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr
    matches, columns, n_rows, shown, raised = json.loads(done.stdout)
    assert matches == [1.0, 0.0] and n_rows == 2 and "exact_match" in columns
    assert "token_f1" in shown and "pandas" in raised


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 1), (2, 2), (3, 0), (4, 0), (5, 0), (130, 130)])
def test_a_job_that_ran_to_its_end_is_no_failure_to_kubernetes(tmp_path, code, ends):
    manifest = (ROOT / "deploy" / "kubernetes" / "base" / "ray" / "rayjob.yaml").read_text()
    lines = dict(
        line.strip().split(": ", 1) for line in manifest.splitlines() if line.startswith("  ") and ": " in line
    )
    assert lines["backoffLimit"] == "0", "each start has the budget anew"
    # The entry point as the cluster runs it, with folders of ours and a program that ends like this.
    experiment = tmp_path / "experiment"
    experiment.mkdir()
    (experiment / "experiment.toml").write_text("")
    (tmp_path / "python").write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
    (tmp_path / "python").chmod(0o755)
    entry = (
        lines["entrypoint"].replace("/tmp/experiment", f"{tmp_path}/run").replace(" /experiment/", f" {experiment}/")
    )
    done = subprocess.run(
        ["bash", "-c", entry],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == ends, done
    assert "run -f experiment.toml --engine ray --address auto" in done.stdout
    assert f"exit code {code}" in done.stdout
