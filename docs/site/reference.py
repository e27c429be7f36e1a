"""The reference pages, made from what the binary and the Python package say of themselves."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.request
from pathlib import Path

import experiment

MADE = "<!-- made by docs/site/build.py: do not edit -->\n\n"
# Kinds whose components are not called like the kind with an `s`.
TITLES = {"enrich": "Enrichers", "index": "Vector indexes", "parse": "Parsers", "query": "Queries", "refine": "Refiners"}
# What `reverie schema` says of each axis beside the axis itself.
COMPARED = " A value, or a list of values to compare."
SCORES = "How an answer, or what was retrieved, is scored. `1` is good unless the metric says otherwise."


def title_of(kind: str) -> str:
    """What the components of an axis, or the metrics, are called."""
    return TITLES.get(kind, f"{kind.capitalize()}s")


def cell(value: object) -> str:
    """A text in a cell of a table."""
    return str(value).replace("|", "\\|").replace("\n", " ")


def prose(text: str) -> str:
    """The words of a component as Markdown: lists need an empty line before them."""
    lines: list[str] = []
    for line in text.split("\n"):
        item = re.match(r"(- |\d+\. )", line)
        before = lines[-1] if lines else ""
        if item and before and not re.match(r"(- |\d+\. |  )", before):
            lines.append("")
        lines.append(("  " + line) if line.startswith("  ") else line)
    text = "\n".join(lines)
    return re.sub(r"^(Source|When to use it|Formula):", r"**\1:**", text, flags=re.M)


# Settings whose empty default the program refuses: what they are in an example.
NEEDED = {
    ("metric", "criteria", "criterion"): "The answer is polite.",
    ("metric", "rubric", "levels"): ["wrong", "right but thin", "right and complete"],
    ("query", "self_query", "fields"): {"year": "number", "author": "text"},
    ("retriever", "pgvector", "table"): "public.docs",
    ("retriever", "chroma", "collection"): "docs",
    ("retriever", "qdrant", "collection"): "docs",
    ("retriever", "milvus", "collection"): "docs",
    ("retriever", "elasticsearch", "index"): "docs",
    ("retriever", "http", "url"): "http://127.0.0.1:8000/search",
}
# A setting without which the component does nothing.
USEFUL = {("query", "filter", "where"): {"language": "en"}}
# The files of an example that are no function.
FILES = {("metric", "prompt"): "prompts/tone.txt", ("metric", "python"): "metrics/units.py"}


def required(component: dict, setting: dict) -> bool:
    """Whether it must be set: `reverie components NAME` goes by the same rule."""
    name = (component["kind"], component["name"], setting["name"])
    return name in NEEDED or (setting["default"] is None and "or nothing" not in setting["takes"])


def settings(component: dict) -> str:
    if not component["settings"]:
        return "It takes no settings.\n"
    rows = [
        f"| `{one['name']}` | {cell(one['takes'].removesuffix(' or nothing') if required(component, one) else one['takes'])} "
        f"| {cell(experiment.default(one['default'], one['description'], required(component, one)))} | {cell(one['description'])} |"
        for one in component["settings"]
    ]
    return "\n".join(["| setting | takes | default | what it does |", "|---|---|---|---|", *rows]) + "\n"


def inline(value: object) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {inline(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(inline(one) for one in value) + "]"
    # Numbers of 32 bits are printed as they were written.
    value = round(value, 6) if isinstance(value, float) else value
    return json.dumps(value, ensure_ascii=False)


def needed(component: dict) -> dict:
    """What must be set, with values for an example. The parts of a choice are needed only where it is chosen."""
    kind, name = component["kind"], component["name"]
    tables = {one["name"] for one in component["settings"] if one["takes"] == "a table"}
    found: dict = {}
    for one in component["settings"]:
        within, _, key = one["name"].rpartition(".")
        value = {**NEEDED, **USEFUL}.get((kind, name, one["name"]))
        if not (value or required(component, one)) or (within and within not in tables):
            continue
        if key == "model":
            value = "order" if "rerank model" in one["description"] else "gpt"
        elif key == "file":
            value = FILES.get((kind, name), f"{kind}.py")
        place = found
        for part in within.split(".") if within else []:
            place = place.setdefault(part, {})
        place[key] = value
    return found


def in_a_file(component: dict) -> str:
    """An example that the program takes: what must be set is in it, else the first setting."""
    kind, name = component["kind"], component["name"]
    axis, table = ("metrics", "evaluate") if kind == "metric" else (kind, "space")
    shown = needed(component)
    first = next(
        (
            one
            for one in component["settings"]
            if one["default"] not in (None, "") and not isinstance(one["default"], (dict, list))
        ),
        None,
    )
    if not shown and first and kind != "prompt":
        shown = {first["name"]: first["default"]}
    value = f"{{ {name} = {inline(shown)} }}" if shown else f'"{name}"'
    if (kind, name) == ("prompt", "file"):
        value = '"prompts/short.toml"'
    # What it asks is said in its words.
    words = " ".join(component["docs"].split())
    judged = kind == "metric" and re.search(r"\b(needs|and) a judge\b", words)
    models = 'judge = "gpt"             # a chat model under [models]\n' if judged else ""
    if kind == "metric":
        if re.search(r"\b(needs|and) an embedder\b", words):
            models += 'embedder = "small"        # an embedding model under [models]\n'
    elif name == "late_chunking":
        models += 'embedder = ["small"]      # an embedding model of this process, under [models]\n'
    elif re.search(r"needs an embedder|the trial's( own)? embedder", words):
        models += 'embedder = ["small"]      # an embedding model under [models]\n'
    said = ""
    for model, what in (("gpt", "a chat model"), ("order", "a rerank model")):
        if f'model = "{model}"' in value:
            said = f"   # `{model}`: {what} under [models]"
    fails = (
        "\n[If the judge fails](../guides/judges.md#if-the-judge-fails), the score is missing. "
        "What a judge costs: [how often it is asked](../guides/results.md#how-often-a-judge-is-asked).\n"
        if judged
        else ""
    )
    return f"```toml\n[{table}]\n{models}{axis} = [{value}]{said}\n```\n{fails}"


def components(every: list[dict], schema: dict) -> dict[str, str]:
    """A page for each kind."""
    pages = {}
    axes = schema["properties"]["space"]["anyOf"][0]["properties"]
    for kind in dict.fromkeys(one["kind"] for one in every):
        ones = [one for one in every if one["kind"] == kind]
        about = SCORES if kind == "metric" else axes[kind]["description"].removesuffix(COMPARED)
        page = f"{MADE}# {title_of(kind)}\n\n{about}\n`reverie explain NAME` prints the same in a terminal.\n\n"
        page += "| name | what it does |\n|---|---|\n"
        for one in ones:
            sentence = one["docs"].split("\n\n")[0].replace("\n", " ")
            sentence = re.sub(r"^`[\w ]+`: ", "", sentence)
            page += f"| [`{one['name']}`](#{one['name']}) | {cell(sentence)} |\n"
        for one in ones:
            page += (
                f"\n## {one['name']} {{ #{one['name']} }}\n\n{prose(one['docs'])}\n\n{settings(one)}\n{in_a_file(one)}"
            )
        pages[f"reference/{experiment.PAGES.get(kind, kind)}.md"] = page
    return pages


def help_of(reverie: Path, *verb: str) -> str:
    environment = {**os.environ, "COLUMNS": "110", "NO_COLOR": "1"}
    return subprocess.check_output([reverie, *verb, "--help"], text=True, env=environment)


def verbs(text: str) -> list[str]:
    """The verbs that a help lists, at the start of indented lines before the options."""
    head = text.split("\nOptions:")[0].split("<COMMAND>\n" if "<COMMAND>\n" in text else "Commands:\n", 1)
    return (
        [name for name in re.findall(r"^  ([a-z]+)  +\S", head[-1], re.M) if name != "help"] if len(head) == 2 else []
    )


# Other names of verbs, which `--help` does not list.
ALIASES = {"components": ["explain"]}


def commands(reverie: Path) -> dict[str, str]:
    """What every verb says with `--help`, and the exit codes."""
    whole = help_of(reverie)
    page = f"{MADE}# Command line\n\nWhat `reverie --help` and `reverie VERB --help` print.\n\n```text\n{whole.strip()}\n```\n"

    def one(*verb: str) -> None:
        nonlocal page
        text = help_of(reverie, *verb)
        # The same for all verbs, and above.
        text = re.sub(r"Options of every verb:\n.*?(?=\n\S|\Z)", "", text, flags=re.S)
        text = re.sub(r"\n  -h, --help\n? +Print help[^\n]*|\n  -V, --version\n? +Print version", "", text)
        text = re.sub(r"\n{3,}", "\n\n", text).strip()
        name = " ".join(verb)
        page += f"\n{'#' * (len(verb) + 1)} reverie {name} {{ #{'-'.join(verb)} }}\n\n```text\n{text}\n```\n"
        for sub in verbs(text):
            one(*verb, sub)

    for verb in verbs(whole):
        one(verb)
        for alias in ALIASES.get(verb, []):
            assert help_of(reverie, alias) == help_of(reverie, verb), f"`{alias}` is no other name of `{verb}`"
            page += f"\n## reverie {alias} {{ #{alias} }}\n\nAnother name of [`reverie {verb}`](#{verb}), with the same arguments.\n"
    codes = re.search(r"Exit codes:\n(.*?)\n\n", whole, re.S)
    assert codes, "`reverie --help` names no exit codes"
    rows = [re.match(r"\s*(\d+)\s+(.*)", line) for line in codes[1].split("\n")]
    table = "".join(f"| `{row[1]}` | {row[2]} |\n" for row in rows if row)
    return {
        "reference/commands.md": page,
        "reference/exit-codes.md": f"{MADE}# Exit codes\n\nEvery verb ends with one of these. With `--json` an error is one JSON object on standard error.\n\n"
        f"| code | meaning |\n|---|---|\n{table}\n"
        "A judge's reply that cannot be read is a missing score, and no reason for code `3`: [If the judge fails](../guides/judges.md#if-the-judge-fails).\n"
        "What a verb means by a code of its own (`check`, `golden diff`) stands in its `--help`: see the [command line](commands.md).\n"
        "The budget is code `4`. A script that repeats what failed should repeat after `3`, and not after `2`, `4` or `5`.\n",
    }


def experiment_file(printed: str, every: list[dict]) -> dict[str, str]:
    """The keys of an experiment file, and its schema."""
    axes = {one["kind"]: title_of(one["kind"]) for one in every if one["kind"] != "metric"}
    return {
        "reference/experiment.md": MADE + experiment.page(json.loads(printed), axes),
        "reference/experiment.schema.json": printed,
    }


def warnings(reverie: Path) -> dict[str, str]:
    """What each warning means, and what to do."""
    every = json.loads(subprocess.check_output([reverie, "warnings", "--json"], text=True))
    when = {
        "before": "before a run",
        "after": "after a run",
        "before_and_after": "before a run as an estimate, after a run in exact numbers",
    }
    page = f"""{MADE}# Warnings

What puts a trial at a disadvantage, or makes a run say less than it seems to. `plan`, `run`, `leaderboard`, `check`, the report, Python (`results.warnings()`) and MLflow (the tag `reverie.warnings`) tell the same sentences, with a code in each. `reverie warnings CODE` prints what is below.
A warning changes no score. In the experiment file, `ignore` hides some, and `fail_check` lets [`reverie check`](../check.md) fail because of them; by default a check only tells them:

```toml
[warnings]
ignore = ["unread-types"]
fail_check = ["retrieves-nothing"]
```

| code | what it tells | found |
|---|---|---|
"""
    page += "".join(f"| [`{one['code']}`](#{one['code']}) | {cell(one['title'])} | {when[one['found']]} |\n" for one in every)
    page += "".join(
        f"\n## {one['code']} {{ #{one['code']} }}\n\n{prose(one['meaning'])}\n\n**What to do:** {one['action']}.\n" for one in every
    )
    return {"reference/warnings.md": page}


DOCUMENT = "The pump is in the cellar. It starts when the water is higher than the mark.\n"


def openapi(reverie: Path) -> dict:
    """The document that `reverie serve` gives, of a small pipeline that needs no model."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "docs").mkdir()
        (root / "docs" / "pump.md").write_text(DOCUMENT)
        (root / "experiment.toml").write_text(
            'name = "reference"\nstore = "store"\n[corpus]\nsource = "docs"\n[space]\nchunker = ["sentence"]\nretriever = ["bm25"]\n'
        )
        quiet = {"cwd": root, "check": True, "capture_output": True}
        subprocess.run([reverie, "run", "--quiet"], **quiet)
        server = subprocess.Popen(
            [reverie, "serve", "--json", "--quiet", "--listen", "127.0.0.1:0"],
            cwd=root,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            # Its one line comes when it is ready, and none comes if it ends before; what went wrong is on its stderr.
            line = server.stdout.readline()  # type: ignore[union-attr]
            if not line:
                raise SystemExit(f"`reverie serve` ended with exit code {server.wait()}")
            with urllib.request.urlopen(f"{json.loads(line)['url']}/openapi.json") as answer:
                return json.load(answer)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


def named(one: dict | bool) -> str:
    """The type of a JSON Schema in a few words."""
    if isinstance(one, bool):
        return "anything" if one else "nothing"
    if "$ref" in one:
        name = one["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in one:
            return " or ".join(dict.fromkeys(named(part) for part in one[word]))
    if "enum" in one or "const" in one:
        return ", ".join(f"`{value}`" for value in one.get("enum", [one.get("const")]))
    kind = one.get("type", "anything")
    kind = " or ".join(kind) if isinstance(kind, list) else kind
    return f"list of {named(one['items'])}" if kind == "array" and one.get("items") else kind


def fields(one: dict) -> str:
    required = one.get("required", [])
    rows = [
        f"| `{name}`{' (required)' if name in required else ''} | {cell(named(of))} | {cell('' if isinstance(of, bool) else of.get('description', ''))} |"
        for name, of in one.get("properties", {}).items()
    ]
    return "\n".join(["| field | type | |", "|---|---|---|", *rows]) + "\n" if rows else f"{named(one)}\n"


def http(document: dict) -> dict[str, str]:
    """The routes, from the OpenAPI document."""
    page = f"{MADE}# HTTP\n\nFrom the OpenAPI document of `reverie serve` (`/openapi.json`; `/docs` shows it in a browser). How to run the service: [The HTTP service](../http.md).\n\n"
    page += "| route | |\n|---|---|\n"
    body = ""
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            if method not in ("get", "post", "put", "delete", "patch"):
                continue
            title = f"{method.upper()} {path}"
            anchor = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
            page += f"| [`{title}`](#{anchor}) | {cell(one.get('summary', ''))} |\n"
            body += f"\n## {title} {{ #{anchor} }}\n\n{one.get('summary', '')}\n\n{one.get('description', '')}\n"
            if one.get("parameters"):
                body += "\n| parameter | in | type | |\n|---|---|---|---|\n" + "".join(
                    f"| `{p['name']}`{' (required)' if p.get('required') else ''} | {p['in']} | {cell(named(p.get('schema', {})))} | {cell(p.get('description', ''))} |\n"
                    for p in one["parameters"]
                    if "name" in p
                )
            for kind, content in one.get("requestBody", {}).get("content", {}).items():
                body += f"\nBody (`{kind}`): {named(content.get('schema', {}))}\n"
            body += "\n| status | |\n|---|---|\n" + "".join(
                f"| `{status}` | {cell(answer.get('description', ''))} |\n"
                for status, answer in one.get("responses", {}).items()
            )
    body += "\n## Types\n" + "".join(
        f"\n### {name}\n\n{one.get('description', '')}\n\n{fields(one)}"
        for name, one in document.get("components", {}).get("schemas", {}).items()
    )
    return {
        "reference/http.md": page + body,
        "reference/openapi.json": json.dumps(document, indent=1, ensure_ascii=False),
    }


def signature(one: ast.FunctionDef | ast.AsyncFunctionDef, without_self: bool) -> str:
    arguments = ast.unparse(one.args)
    if without_self:
        arguments = re.sub(r"^(self|cls)(, /)?(, |$)", "", arguments)
    returns = f" -> {ast.unparse(one.returns)}" if one.returns else ""
    return f"{'async ' if isinstance(one, ast.AsyncFunctionDef) else ''}{one.name}({arguments}){returns}"


def described(text: str | None) -> str:
    """A docstring as Markdown: what is indented is an example."""
    if not text:
        return ""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        indented = line.startswith("    ")
        if indented and not inside and lines and not lines[-1].strip():
            lines.append("```python")
            inside = True
        elif inside and line.strip() and not indented:
            while lines and not lines[-1].strip():
                lines.pop()
            lines += ["```", ""]
            inside = False
        lines.append(line[4:] if inside else line)
    if inside:
        lines.append("```")
    return sections("\n".join(lines))


def sections(text: str) -> str:
    """`Args:`, `Returns:` and `Raises:` of a docstring as lists."""
    lines: list[str] = []
    within = False
    for line in text.split("\n"):
        if line in ("Args:", "Attributes:", "Raises:", "Returns:", "Yields:", "```python"):
            within = line not in ("```python", "Returns:", "Yields:")
            lines.append(line if line == "```python" else f"**{line}**\n")
        elif within and (item := re.match(r"    (\w[\w., ]*): (.*)", line)):
            lines.append(f"- `{item[1]}`: {item[2]}")
        else:
            lines.append("  " + line.strip() if within and line.startswith("        ") else line)
    return "\n".join(lines)


def made_of(node: ast.ClassDef) -> str:
    """The attributes that a class sets when it is made, with the text below each."""
    made = next((one.body for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), [])
    lines = ""
    for one, after in zip(made, made[1:]):
        if (
            isinstance(one, ast.AnnAssign)
            and isinstance(one.target, ast.Attribute)
            and not one.target.attr.startswith("_")
        ):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                lines += f"- `{one.target.attr}: {ast.unparse(one.annotation)}`: {' '.join(str(after.value.value).split())}\n"
    return lines


def decorator(node: ast.Assign, tree: ast.Module) -> str:
    """A name that stands for the one object of a class, and is called."""
    name, made = node.targets[0].id, node.value.func.id  # type: ignore[attr-defined, union-attr]
    of = next((one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == made), None)
    calls = [one for one in of.body if isinstance(one, ast.FunctionDef) and one.name == "__call__"] if of else []
    if of is None or not calls:
        return (
            f"\n### reverie.{name}\n\nHas the classes of `reverie.{made.lower()}` as attributes. It is no decorator.\n"
        )
    words = [ast.get_docstring(of), *(ast.get_docstring(one) for one in calls)]
    shown = signature(calls[-1], True).replace("__call__", f"reverie.{name}")
    return (
        f"\n### reverie.{name}\n\n```python\n{shown}\n```\n\n"
        + "\n\n".join(described(one) for one in words if one)
        + "\n"
    )


class Asynchronous(ast.NodeTransformer):
    """Replaces `arun = asynchronous(run)` by the function that it stands for."""

    def __init__(self, tree: ast.Module) -> None:
        holders = [tree, *(one for one in tree.body if isinstance(one, ast.ClassDef))]
        self.functions = {one.name: one for holder in holders for one in holder.body if isinstance(one, ast.FunctionDef)}

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        match node:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("asynchronous"), [ast.Name(of)])):
                same = self.functions[of]
                words = (
                    f"The same as `{of}` without blocking the event loop.\n\nWhere the `await` is cancelled, calls of models "
                    "that have begun are finished and kept, and nothing more is asked."
                )
                return ast.AsyncFunctionDef(name, same.args, [ast.Expr(ast.Constant(words))], [], same.returns, lineno=node.lineno)
        return node


def python(package: Path) -> dict[str, str]:
    """The public names of the package, with signatures and docstrings, without importing it."""
    first = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    page = f"{MADE}# Python\n\n{described(ast.get_docstring(first))}\n"
    home = next(
        ast.literal_eval(node.value)
        for node in first.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "_HOME"
    )
    written = "Written from the Rust source by `make classes`"
    generated = {one.stem for one in package.glob("[a-z]*s.py") if written in one.read_text(encoding="utf-8")}
    modules = [
        "experiment",
        *sorted(set(home.values()) - {"_core"}),
        "golden",
        "executors",
        "exceptions",
        *sorted(generated),
        "ray",
        "ray.serve",
        "_core",
    ]
    for module in dict.fromkeys(modules):
        # What `reverie.ray` exports stands in the files beside it.
        serve = package / "ray" / "serve.py"
        files = {
            "ray": [
                package / "ray" / "__init__.py",
                *sorted(one for one in (package / "ray").glob("_*.py") if one.stem != "__init__"),
            ],
            "ray.serve": [serve],
            "_core": [package / "_core.pyi"],
        }.get(module, [package / f"{module}.py"])
        parsed = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
        trees = [Asynchronous(tree).visit(tree) for tree in parsed]
        title, anchor = ("Stages on Arrow batches", "arrow") if module == "_core" else (f"reverie.{module}", module)
        page += f"\n## {title} {{ #{anchor} }}\n\n{described(ast.get_docstring(trees[0]))}\n"
        if module in generated:
            kind = next((one for one in TITLES if title_of(one).lower().replace(" ", "_") == module), module.removesuffix("s"))
            names = [
                node.name for node in trees[0].body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
            ]
            page += (
                f"\nA class for each component, with the settings of [{title_of(kind).lower()}]({experiment.PAGES.get(kind, kind)}.md): "
                + ", ".join(f"`{name}`" for name in names)
                + ".\n"
            )
            page += "".join(decorator(node, trees[0]) for node in trees[0].body if isinstance(node, ast.Assign))
            continue
        public = {name for name, place in home.items() if place == module}
        exported = next(
            (
                set(ast.literal_eval(node.value))
                for node in trees[0].body
                if isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id == "__all__"
            ),
            None,
        )
        for node in (node for tree in trees for node in tree.body):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and getattr(node.targets[0], "id", "") in public
            ):
                page += decorator(node, trees[0])
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) or node.name.startswith("_"):
                continue
            # Helpers of the package are none of its names; classes without a name there are what calls return.
            if (module == "_core" or (public and not isinstance(node, ast.ClassDef))) and node.name not in public:
                continue
            if exported is not None and node.name not in exported:
                continue
            full = f"reverie.{node.name}" if node.name in public else f"reverie.{module}.{node.name}"
            if isinstance(node, ast.ClassDef):
                page += f"\n### {full}\n\n{described(ast.get_docstring(node))}\n"
                attributes = [
                    one
                    for one in node.body
                    if isinstance(one, ast.AnnAssign)
                    and isinstance(one.target, ast.Name)
                    and not one.target.id.startswith("_")
                ]
                page += "\n" + "".join(f"- `{one.target.id}: {ast.unparse(one.annotation)}`\n" for one in attributes)  # type: ignore[union-attr]
                page += "\n" + made_of(node)
                for inner in node.body:
                    if not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        continue
                    decorators = [ast.unparse(one) for one in inner.decorator_list]
                    words = ast.get_docstring(inner)
                    if (
                        (inner.name.startswith("_") and inner.name != "__init__")
                        or "overload" in decorators
                        or not words
                    ):
                        continue
                    shown = (
                        f"{inner.name}: {ast.unparse(inner.returns)}"
                        if "property" in decorators and inner.returns
                        else signature(inner, "staticmethod" not in decorators)
                    )
                    shown = re.sub(r"^__init__(.*) -> None$", rf"{node.name}\1", shown)
                    anchor = f"{node.name}-{inner.name.strip('_')}".lower()
                    page += f"\n#### {node.name}{'' if inner.name == '__init__' else '.' + inner.name} {{ #{anchor} }}\n\n```python\n{shown}\n```\n\n{described(words)}\n"
            elif ast.get_docstring(node):
                page += f"\n### {full}\n\n```python\n{signature(node, False)}\n```\n\n{described(ast.get_docstring(node))}\n"
    return {"reference/python.md": page}


def pages(reverie: Path, root: Path) -> dict[str, str]:
    """All reference pages, by their paths in the site."""
    every = json.loads(subprocess.check_output([reverie, "components", "--json"], text=True))
    schema = subprocess.check_output([reverie, "schema"], text=True)
    return {
        **components(every, json.loads(schema)),
        **commands(reverie),
        **experiment_file(schema, every),
        **warnings(reverie),
        **http(openapi(reverie)),
        **python(root / "crates" / "python" / "python" / "reverie"),
    }
