"""Builds the documentation as a site: `make site`.

Pages are the Markdown below docs/, some files of the repository beside it, and references that are made from the binary
and the package. Nothing that is made here is committed, so a reference cannot say other things than the program does.
The site needs no network: no page loads anything from elsewhere, and that is checked, as every link is.
"""

from __future__ import annotations

import argparse
import html.parser
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, unquote

import tomli as tomllib

import reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Files of the repository that are pages too.
BESIDE = {
    "README.md": "readme.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benches/README.md": "measurements.md",
    "examples/executors/README.md": "examples/executors.md",
    "examples/notebooks/README.md": "examples/notebooks.md",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(((?:[^()\s]|\([^()\s]*\))+)\)")
# Looks for the one script from elsewhere that the theme asks for, and names ours instead.
SHIM = re.compile(r'<script src="https://unpkg.com/iframe-worker/shim"[^>]*>')


class Site:
    """The pages before they are laid out."""

    def __init__(self, output: Path) -> None:
        self.folder = output / "pages"
        self.mistakes: list[str] = []
        shutil.rmtree(output, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def add(self, source: Path, path: str) -> None:
        """A page from a file of the repository, with links that hold in the site."""
        here = source.relative_to(ROOT).as_posix()
        out: list[str] = []
        fenced = False
        for line in source.read_text(encoding="utf-8").split("\n"):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            out.append(line if fenced else LINK.sub(lambda found: self.link(found, here, path), line))
        self.write(path, "\n".join(out))

    def link(self, found: re.Match[str], here: str, path: str) -> str:
        """A link of a page: to a page of the site, or to a copy of the file."""
        mark, words, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        name, _, anchor = target.partition("#")
        file = unquote(posixpath.normpath(posixpath.join(posixpath.dirname(here), name)))
        if file in BESIDE:
            there = BESIDE[file]
        elif file.startswith("docs/") and not file.startswith("docs/site/"):
            there = file.removeprefix("docs/")
        elif (ROOT / file).is_file():
            there = f"files/{file}"
            copy = self.folder / there
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, copy)
        elif (ROOT / file).is_dir():
            # A folder has no page: it is named.
            return f"{words} (`{file}`)"
        else:
            self.mistakes.append(f"{here}: {target} is not there")
            return found[0]
        relative = quote(posixpath.relpath(there, posixpath.dirname(path) or "."), safe="/()")
        return f"{mark}[{words}]({relative}{'#' + anchor if anchor else ''})"


def entries(nav: list) -> list[str]:
    """The pages that a navigation names, in its order."""
    found: list[str] = []
    for entry in nav:
        value = entry if isinstance(entry, str) else next(iter(entry.values()))
        found += entries(value) if isinstance(value, list) else [value]
    return found


class Page(html.parser.HTMLParser):
    """What a page of HTML links to, and what can be linked to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if name := values.get("id") or values.get("name"):
            self.names.add(name)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        elif tag in ("script", "img", "iframe", "source"):
            self.loads.append(values.get("src") or "")
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "modulepreload", "preconnect"):
            self.loads.append(values.get("href") or "")


def check(html_folder: Path) -> tuple[list[str], int]:
    """Links that lead nowhere, and what is loaded from elsewhere."""
    pages: dict[str, Page] = {}
    for file in html_folder.rglob("*.html"):
        pages[file.relative_to(html_folder).as_posix()] = page = Page()
        page.feed(file.read_text(encoding="utf-8"))
    mistakes, count = [], 0
    for path, page in pages.items():
        mistakes += [f"{path}: loads {url}" for url in page.loads if re.match(r"(https?:)?//", url)]
        if path == "404.html":
            continue
        for url in page.loads:
            there = posixpath.normpath(posixpath.join(posixpath.dirname(path), url.partition("?")[0]))
            if url and not re.match(r"[a-z]+:|//", url) and not (html_folder / there).exists():
                mistakes.append(f"{path}: loads {url}, which is not there")
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            count += 1
            name, _, anchor = link.partition("#")
            there = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(name))) if name else path
            if there in pages:
                if anchor and anchor not in pages[there].names and not anchor.startswith("__"):
                    mistakes.append(f"{path}: {link}: there is no such place")
            elif not (html_folder / there).exists():
                mistakes.append(f"{path}: {link}: there is no such page")
    return mistakes, count


def first_words(text: str) -> tuple[str, str]:
    """A page's title, and its first sentence."""
    title = re.search(r"^# (.+)$", text, re.M)
    after = re.sub(r"^```.*?^```", "", text[title.end() :] if title else text, flags=re.S | re.M)
    paragraph = next((part for part in re.split(r"\n\s*\n", after) if re.match(r"[A-Z`*\[]", part.strip())), "")
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return (title[1] if title else ""), (re.match(r".*?\.(?= |$)", words) or [words])[0]


def llms(site: Site, nav: list[str], project: dict) -> None:
    """`llms.txt`: every page with a sentence; `llms-full.txt`: every page."""
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}", "", "## Pages", ""]
    whole = []
    for path in nav:
        text = (site.folder / path).read_text(encoding="utf-8")
        title, words = first_words(re.sub(r"<!--.*?-->", "", text, flags=re.S))
        lines.append(f"- [{title}]({path}): {words}")
        whole.append(text)
    # The README says the same as the first page.
    lines = [line for line in lines if "](readme.md)" not in line]
    site.write("llms.txt", "\n".join(lines) + "\n")
    site.write("llms-full.txt", "\n\n".join(whole))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--reverie", type=Path, default=ROOT / "target" / "release" / "reverie")
    arguments.add_argument("--output", type=Path, default=ROOT / "target" / "site")
    options = arguments.parse_args()
    output = options.output.resolve()
    site = Site(output)
    made = reference.pages(options.reverie.resolve(), ROOT)
    for path, text in made.items():
        site.write(path, text)
    for source in sorted(DOCS.rglob("*")):
        name = source.relative_to(DOCS).as_posix()
        if name.startswith("site/") or not source.is_file():
            continue
        if source.suffix == ".md":
            site.add(source, name)
        else:
            (site.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, site.folder / name)
    for source, name in BESIDE.items():
        site.add(ROOT / source, name)

    configuration = (DOCS / "site" / "zensical.toml").read_text(encoding="utf-8")
    for path in made:
        # A new axis has no line in the navigation yet: its page is added before the metrics.
        if path.endswith(".md") and f'"{path}"' not in configuration:
            metrics = '    { "Metrics: score answers"'
            line = f'    {{ "{reference.title_of(Path(path).stem)}" = "{path}" }},\n'
            configuration = configuration.replace(metrics, line + metrics)
    project = tomllib.loads(configuration)["project"]
    nav = entries(project["nav"])
    there = {file.relative_to(site.folder).as_posix() for file in site.folder.rglob("*.md")}
    copies = {name for name in there if name.startswith("files/")}
    site.mistakes += [f"docs/site/zensical.toml: {name} is not there" for name in nav if name not in there]
    site.mistakes += [
        f"{name} is not in the navigation of docs/site/zensical.toml" for name in sorted(there - set(nav) - copies)
    ]
    if site.mistakes:
        print("\n".join(site.mistakes), file=sys.stderr)
        return 1
    llms(site, nav, project)
    (output / "zensical.toml").write_text(configuration, encoding="utf-8")
    # Beside this Python, whatever the PATH says.
    run = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--clean"],
        cwd=output,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        print(run.stdout + run.stderr, file=sys.stderr)
        return 1
    folder = output / "html"
    shutil.copy(DOCS / "site" / "worker.js", folder / "assets" / "worker.js")
    for file in folder.rglob("*.html"):
        up = "../" * (len(file.relative_to(folder).parts) - 1)
        text = file.read_text(encoding="utf-8")
        file.write_text(SHIM.sub(f'<script src="{up}assets/worker.js">', text), encoding="utf-8")
    # Each page as it was written too, for whoever would rather read that.
    for name in nav:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(site.folder / name, folder / name)
    mistakes, links = check(folder)
    if mistakes:
        print("\n".join(mistakes), file=sys.stderr)
        return 1
    print(f"{len(nav)} pages, {links} links, all of them lead somewhere: {folder}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
