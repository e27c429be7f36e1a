"""Every code block of the documentation runs, or is marked with the reason why it cannot run here.

The blocks of a page run in their order, in one temporary folder, and share it, also where they `cd`: `sh` by bash with
the built binary, `python` in this process with one namespace for each page. A block with a `title` is the file of that name. A `text` block
after a `sh` block is what it prints: each of its lines, in their order, where `…` stands for anything. TOML that is no
file is held against the schema of an experiment; JSON is parsed. What comes before a block on a line of its own says more:

    <!-- not run: REASON -->      it cannot run here
    <!-- exit code: 4 -->         it ends with that
    <!-- background -->           it is a server, and runs until the page ends
    <!-- with: NAME -->           anywhere on the page: what its folder holds at the start
"""

from __future__ import annotations

import copy
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import reverie
from test_golden import BEES, MILLS, Writer
from test_judges import honest
from workspace import ROOT, TARGET, Provider, settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

jsonschema = pytest.importorskip("jsonschema")
pandas = pytest.importorskip("pandas")

BINARY = TARGET / "release" / "reverie"
PAGES = [
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "site" not in page.relative_to(ROOT / "docs").parts[:1]),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]
# A block of a page that takes longer hangs.
SECONDS = 600
# What became of the blocks, over all pages.
SEEN: Counter[str] = Counter()


@dataclass
class Block:
    """A fenced block, and what the comments before it say."""

    line: int
    language: str
    title: str | None
    text: str
    not_run: str | None = None
    exit_code: int = 0
    background: bool = False
    output: Block | None = field(default=None, repr=False)


def blocks(text: str) -> list[Block]:
    """The blocks of a page, with outputs put to what prints them."""
    found: list[Block] = []
    lines = text.split("\n")
    notes: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if note := re.fullmatch(r"\s*<!-- (not run|exit code|background)(?:: (.*?))? -->", line):
            notes[note[1]] = note[2] or ""
        elif fence := re.fullmatch(r"(\s*)(```+)(.*)", line):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == fence[2])
            language = fence[3].split()[0] if fence[3].split() else ""
            title = re.search(r'title="([^"]+)"', fence[3])
            inner = "\n".join(one.removeprefix(fence[1]) for one in lines[at + 1 : end])
            block = Block(
                at + 1,
                language,
                title[1] if title else None,
                inner,
                notes.get("not run"),
                int(notes.get("exit code", 0)),
                "background" in notes,
            )
            before = found[-1] if found else None
            if language == "text" and not title and before and before.language == "sh" and before.output is None:
                before.output = block
            else:
                found.append(block)
            notes, at = {}, end
        elif line.strip():
            notes = {}
        at += 1
    return found


class Folder:
    """The folder of a page, with what its blocks need."""

    def __init__(self, path: Path) -> None:
        self.path, self.space, self.stops = path, {}, []
        # Where the last block left the shell.
        self.at = path
        self.replace: dict[str, str] = {}
        # Where its server listens, once there is one.
        self.server: str | None = None

    def documents(self) -> None:
        """The documents of the examples."""
        shutil.copytree(ROOT / "examples" / "notebooks" / "documents", self.path / "docs")

    def heron(self) -> None:
        """The same with questions, and an experiment that asks no model."""
        self.documents()
        shutil.copy(ROOT / "examples" / "notebooks" / "golden.jsonl", self.path)
        quickstart = blocks((ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8"))
        (self.path / "experiment.toml").write_text(next(b.text for b in quickstart if b.title == "experiment.toml"))

    def examples(self) -> None:
        """A checkout, as far as its examples go."""
        shutil.copytree(ROOT / "examples", self.path / "examples")

    def answers(self) -> None:
        """The same with a chat model and an embedder at a simulated provider, which answer."""
        self.heron()
        url = self.provider()
        path = self.path / "experiment.toml"
        models = (
            f'[models.gpt]\nchat.openai = {{ model = "gpt", base_url = "{url}/v1", price = {{ input = 1, output = 1 }} }}\n'
            f'[models.small]\nembedding.openai = {{ model = "small", base_url = "{url}/v1" }}\n\n[space]\n'
        )
        text = path.read_text().replace("[space]\n", models + 'generator = [{ compact = { model = "gpt" } }]\n')
        path.write_text(text.replace("metrics = [", 'metrics = ["token_f1", '))

    def bundle(self) -> None:
        """A run that answers."""
        self.answers()
        self.run(Block(0, "sh", None, "reverie run --quiet"))

    def provider(self) -> str:
        made = Provider(latency={"constant": {"seconds": 0.02}})
        self.stops.append(made.stop)
        return made.url

    openai: str | None = None

    def python(self) -> None:
        """What the page about Python has and a test has not, with what stands for it."""
        from workspace import Workspace

        small = Workspace(self.path, documents=6)
        url = self.provider()
        # The snippets name OpenAI's models without an address.
        self.openai = f"{url}/v1"
        (self.path / "prose").mkdir()
        for name, text in {"bees.txt": BEES, "mills.txt": MILLS}.items():
            (self.path / "prose" / name).write_text(text)
        (self.path / "experiment.toml").write_text(
            reverie.Experiment(settings(small, url, name="manuals", store=".reverie")).text
        )
        self.replace = {
            ', embedder="all-minilm-l6-v2"': "",
            "reverie.retriever.Hybrid()": "reverie.retriever.Bm25()",
            'golden.estimate("docs"': 'golden.estimate("prose"',
            'golden.generate("docs", ask, size=2, budget_usd=1': (
                'golden.generate("prose", ask, size=2, budget_usd=1, kinds={"single_hop_specific": 1.0}, progress=False'
            ),
            "reverie.judge(ask, golden=questions)": "reverie.judge(judge, golden=questions)",
            'reverie.explain(row, "faithfulness", ask)': 'reverie.explain(row, "faithfulness", judge)',
        }
        answers = {"question": ["Why?"], "answer": ["So."], "contexts": [["So it is."]], "reference": ["So."]}
        self.space.update(
            client=Client(),
            judge=honest,
            labels=[{"trial": "t01", "question": f"q{i}", "label": True} for i in range(3)],
            frame=pandas.DataFrame([json.loads(line) for line in small.golden.splitlines()]),
            answers=pandas.DataFrame(answers),
            other_answers=pandas.DataFrame({**answers, "answer": ["No."]}),
        )

    def executor(self) -> None:
        """Calls and inputs of somebody's own."""
        self.space.update(call=call, inputs=list(range(9)))

    def environment(self) -> dict[str, str]:
        binary = f"{BINARY.parent}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}"
        return {**os.environ, "PATH": binary + os.environ["PATH"], "NO_COLOR": "1", "HOME": str(self.path)}

    def here(self, text: str) -> str:
        """A text with the address of this page's server in the place of the usual one."""
        return re.sub(r"(127\.0\.0\.1|localhost):8080", self.server, text) if self.server else text

    def run(self, block: Block) -> str:
        """Runs commands; gives what they print."""
        command = ["bash", "-euo", "pipefail", "-c", self.here(block.text)]
        if block.background:
            # It finds a port of its own, and tells it when it is ready.
            listening = r"reverie \1 --json --listen 127.0.0.1:0 "
            command[-1] = re.sub(r"reverie (serve|ui) (--listen \S+ )?", listening, command[-1])
            log = self.path / "server.log"
            with open(log, "w") as errors:
                server = subprocess.Popen(
                    command,
                    cwd=self.at,
                    env=self.environment(),
                    start_new_session=True,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
            self.stops.append(lambda: (os.killpg(server.pid, signal.SIGTERM), server.wait(300), server.stdout.close()))
            line = server.stdout.readline()
            assert line, f"the server did not begin: {log.read_text()}"
            self.server = json.loads(line)["url"].removeprefix("http://")
            return ""
        left = self.path / "left.txt"
        command[-1] += f"\npwd > {left}"
        ended = subprocess.run(
            command,
            cwd=self.at,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert ended.returncode == block.exit_code, (
            f"exit code {ended.returncode}\n{block.text}\n{ended.stdout}{ended.stderr}"
        )
        if ended.returncode == 0:
            self.at = Path(left.read_text().strip())
            os.chdir(self.at)
        return ended.stdout + ended.stderr

    def stop(self) -> None:
        for stop in reversed(self.stops):
            stop()


class Client:
    """A client of somebody's own."""

    def __init__(self) -> None:
        self._writer = Writer()

    def chat(self, *, model: str, messages: list[dict[str, str]]) -> str:
        """The reply of a model."""
        assert model == "gpt-4o-mini"
        return self._writer(messages)


async def call(value: int) -> int:
    """A call of somebody's own."""
    return value + 1


def printed(expected: str, got: str) -> str | None:
    """The first line of an output that is not in what was printed, in order."""
    lines = iter([line.rstrip() for line in got.split("\n")])
    for line in expected.split("\n"):
        if not line.strip() or line.strip() == "…":
            continue
        pattern = ".*".join(re.escape(part) for part in line.rstrip().split("…"))
        if not any(re.fullmatch(pattern, one) for one in lines):
            return line
    return None


@functools.cache
def whole_schema() -> dict:
    """The schema of an experiment file, by the built binary."""
    return json.loads(subprocess.check_output([BINARY, "schema"], text=True))


@pytest.fixture(scope="session")
def schema() -> dict:
    """The same for fragments: no section is required, and no axis."""
    fragment = copy.deepcopy(whole_schema())
    del fragment["anyOf"]
    for table in (fragment, *fragment["properties"]["space"]["anyOf"]):
        table.get("items", table).pop("required", None)
    return fragment


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_page(page, tmp_path, monkeypatch, schema):
    if not BINARY.exists():
        pytest.fail(f"{BINARY} is not built: `make build`")
    text = page.read_text(encoding="utf-8")
    folder = Folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    # A home without models, so that a block that needs one fails here as it fails on a reader's machine.
    monkeypatch.setenv("REVERIE_HOME", str(tmp_path / "home"))
    try:
        for name in re.findall(r"<!-- with: (\w+) -->", text):
            getattr(folder, name)()
        if folder.openai:
            monkeypatch.setenv("OPENAI_BASE_URL", folder.openai)
            monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-test")
        used: set[str] = set()
        for block in blocks(text):
            place = f"{page.relative_to(ROOT)}:{block.line}"
            if block.not_run is not None:
                assert block.not_run.strip(), f"{place}: marked without a reason"
                SEEN["marked"] += 1
            elif block.title and not block.title.startswith("/"):
                file = folder.at / block.title
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text + "\n")
                if file.suffix == ".toml":
                    tomllib.loads(block.text)
                elif file.suffix == ".py":
                    compile(block.text, block.title, "exec")
                SEEN["files"] += 1
            elif block.language == "sh":
                out = folder.run(block)
                if block.output:
                    assert (missing := printed(block.output.text, out)) is None, (
                        f"{place} does not print\n{missing}\nbut\n{out}"
                    )
                    SEEN["outputs"] += 1
                SEEN["run"] += 1
            elif block.language == "python":
                source = folder.here(block.text)
                for there, ours in folder.replace.items():
                    if there in source:
                        used.add(there)
                        source = source.replace(there, ours)
                # The source of its functions has to stand somewhere.
                file = tmp_path / f"block_{block.line}.py"
                file.write_text(source)
                exec(compile(source, str(file), "exec"), folder.space)
                SEEN["run"] += 1
            elif block.language == "toml":
                fragment = tomllib.loads(block.text)
                mistakes = [
                    f"{list(one.path)}: {one.message[:300]}"
                    for one in jsonschema.Draft202012Validator(schema).iter_errors(fragment)
                ]
                assert not mistakes, f"{place}: {mistakes}"
                SEEN["checked"] += 1
            elif block.language in ("json", "jsonl"):
                for line in block.text.split("\n") if block.language == "jsonl" else [block.text]:
                    json.loads(line)
                SEEN["checked"] += 1
            else:
                pytest.fail(
                    f"{place}: a block of `{block.language or 'no language'}` runs nowhere: mark it, with the reason"
                )
        assert used == set(folder.replace), f"the page no longer has {set(folder.replace) - used}"
    finally:
        folder.stop()


def test_a_page_that_is_wrong_is_caught(tmp_path, schema):
    folder = Folder(tmp_path)
    with pytest.raises(AssertionError, match="exit code 7"):
        folder.run(Block(1, "sh", None, "exit 7"))
    assert printed("one … three\nfour", "one two three\nfour") is None
    assert printed("four\none", "one\nfour") == "one"
    wrong = tomllib.loads("[space]\nretriever = [{ bm25 = { top = 3 } }]")
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(wrong))
    found = blocks(
        '<!-- not run: why -->\n```sh\na\n```\n\nWords.\n\n```toml title="x.toml"\nb = 1\n```\n```sh\nc\n```\n\nIt prints\n\n```text\nd\n```\n'
    )
    assert [(one.language, one.title, one.not_run) for one in found] == [
        ("sh", None, "why"),
        ("toml", "x.toml", None),
        ("sh", None, None),
    ]
    assert found[2].output and found[2].output.text == "d"


def test_how_many_blocks_ran(capsys):
    """Says it, after the pages."""
    if not SEEN:
        pytest.skip("no page was tested")
    with capsys.disabled():
        print(
            f"\ndocumentation: {SEEN['run']} blocks run, {SEEN['outputs']} of them with the output that the page shows; "
            f"{SEEN['files']} files that they use; {SEEN['checked']} checked by schema or parser; {SEEN['marked']} marked as not run here"
        )
