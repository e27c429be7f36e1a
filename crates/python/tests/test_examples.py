"""The examples run, and each says the same with the import changed back to Phoenix's."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "executors"


def output_of(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["rephrase.py", "failures.py", "notebook.py"])
def test_an_example_runs_the_same_with_the_import_changed(phoenix, name):
    code = (EXAMPLES / name).read_text()
    changed = code.replace("from reverie.exceptions import", "from phoenix.evals.rate_limiters import")
    changed = changed.replace("from reverie.executors import", "from phoenix.evals.executors import")
    assert changed != code
    # Phoenix writes its messages between the results.
    theirs = [
        line for line in output_of(changed).splitlines() if not re.match("(Exception|Requeuing|R[ae]t|Worker)", line)
    ]
    assert output_of(code).splitlines() == theirs


def test_the_data_frame_example_runs(phoenix):
    out = output_of((EXAMPLES / "dataframe.py").read_text())
    assert out.count("COMPLETED") == 4 and "alike: True" in out


def test_the_example_of_a_learned_limit_runs():
    assert output_of((EXAMPLES / "adaptive.py").read_text()).splitlines() == ["all there: True", "failed: 0"]
