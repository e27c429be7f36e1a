#!/usr/bin/env python3
"""Our chunkers beside LlamaIndex's, on the same texts: equal chunks, and how fast.

    python3 benches/chunks/compare.py FOLDER [--binary PATH] [--json FILE]

FOLDER holds the texts: .txt, .md, .html, .xhtml, .epub, .gz of these, or Debian
packages (.deb) of documentation. They are stripped to plain text once, and both
sides read the same files. Build ours first:

    cargo build --release -p rag --example chunk

LlamaIndex runs with the very token ranks that we compile in, so both count
alike and nothing is downloaded but Python packages: they go into
`.tools/venv-chunks`, made here at the first run. CHUNKS_HERE=1 uses the Python
that runs this instead.

Exit status 1 if any list of chunks differs.
"""

import argparse
import base64
import glob
import gzip
import html.parser
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ["llama-index-core==0.14.25", "nltk==3.10.4", "tiktoken"]
READ = (".txt", ".md", ".html", ".htm", ".xhtml")

CASES = [
    ("sentence", {"chunk_size": 1024, "chunk_overlap": 200}),
    ("sentence", {"chunk_size": 256, "chunk_overlap": 32}),
    ("sentence", {"chunk_size": 128, "chunk_overlap": 20}),
    ("token", {"chunk_size": 1024, "chunk_overlap": 20}),
    ("token", {"chunk_size": 128, "chunk_overlap": 20}),
    ("sentence_window", {}),
    ("hierarchical", {}),
]


def own_python():
    """Starts this script again in an environment that has LlamaIndex."""
    environment = ROOT / ".tools" / "venv-chunks"
    python = environment / "bin" / "python"
    if sys.prefix == str(environment) or os.environ.get("CHUNKS_HERE"):
        return
    if not python.exists():
        print(f"installing {', '.join(PACKAGES)} into {environment}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    os.execv(python, [str(python), *sys.argv])


class Stripper(html.parser.HTMLParser):
    """Text of a page, with a line end at every block."""

    blocks = {"p", "div", "li", "tr", "br", "pre", "table", "section", "dt", "dd", *(f"h{i}" for i in range(1, 7))}

    def __init__(self):
        super().__init__()
        self.parts, self.silent = [], 0

    def handle_starttag(self, tag, attributes):
        self.silent += tag in ("script", "style")
        if tag in self.blocks:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        self.silent -= tag in ("script", "style")
        if tag in self.blocks:
            self.parts.append("\n")

    def handle_data(self, data):
        if not self.silent:
            self.parts.append(data)


def strip(name, data):
    text = data.decode("utf-8", errors="replace")
    if name.lower().endswith((".html", ".htm", ".xhtml")):
        stripper = Stripper()
        stripper.feed(text)
        text = "".join(stripper.parts)
    return text


def texts(folder):
    """(name, text) of everything readable; the chapters of a book are one text."""
    for path in sorted(Path(folder).rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        name = path.name.lower()
        if name.endswith(".deb"):
            with tempfile.TemporaryDirectory() as unpacked:
                subprocess.run(["dpkg-deb", "-x", path, unpacked], check=True)
                for inner, text in texts(unpacked):
                    yield f"{path.name}/{inner}", text
        elif name.endswith(".epub"):
            with zipfile.ZipFile(path) as book:
                chapters = sorted(entry for entry in book.namelist() if entry.endswith(READ))
                yield name, "\n\n".join(strip(entry, book.read(entry)) for entry in chapters)
        elif name.endswith(".gz") and name[:-3].endswith(READ):
            yield name, strip(name[:-3], gzip.open(path).read())
        elif name.endswith(READ):
            yield name, strip(name, path.read_bytes())


def tokenizer():
    """cl100k_base from the ranks that tiktoken-rs carries."""
    import tiktoken
    from tiktoken_ext import openai_public

    home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    found = glob.glob(f"{home}/registry/src/*/tiktoken-rs-*/assets/cl100k_base.tiktoken")
    if not found:
        sys.exit("no cl100k_base.tiktoken in cargo's registry; run `cargo fetch` first")
    lines = Path(sorted(found)[-1]).read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    openai_public.load_tiktoken_bpe = lambda *_, **__: ranks
    encoding = tiktoken.Encoding(**openai_public.cl100k_base())
    return lambda text: encoding.encode(text, allowed_special="all")


def theirs(kind, settings):
    """A function from text to a list of chunks, each (level, text)."""
    from llama_index.core import Document
    from llama_index.core.node_parser import (
        HierarchicalNodeParser,
        SentenceSplitter,
        SentenceWindowNodeParser,
        TokenTextSplitter,
    )

    if kind == "sentence":
        splitter = SentenceSplitter(**settings)
        return lambda text: [(0, chunk) for chunk in splitter.split_text(text)]
    if kind == "token":
        splitter = TokenTextSplitter(**settings)
        return lambda text: [(0, chunk) for chunk in splitter.split_text(text)]
    if kind == "sentence_window":
        parser = SentenceWindowNodeParser.from_defaults()
        return lambda text: [(0, node.text) for node in parser.get_nodes_from_documents([Document(text=text)])]
    parser = HierarchicalNodeParser.from_defaults()

    def levels(text):
        depth, found = {}, []
        for node in parser.get_nodes_from_documents([Document(text=text)]):
            parent = node.parent_node
            depth[node.node_id] = depth[parent.node_id] + 1 if parent else 0
            found.append((depth[node.node_id], node.text))
        return found

    return levels


def ours(binary, kind, settings, paths, *options, threads=None):
    command = [binary, *options, json.dumps({kind: settings}), *paths]
    environment = {**os.environ, **({"RAYON_NUM_THREADS": str(threads)} if threads else {})}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    lines = output.decode().split("\n")
    return [json.loads(line) for line in lines if line]


def difference(name, mine, other):
    for i, (a, b) in enumerate(zip(mine, other)):
        if a != b:
            return f"{name}: chunk {i}:\n  ours   {a[1][:300]!r}\n  theirs {b[1][:300]!r}"
    return f"{name}: {len(mine)} chunks, theirs {len(other)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--binary", default=str(ROOT / "target/release/examples/chunk"))
    parser.add_argument("--json", help="also write the table here")
    options = parser.parse_args()
    own_python()

    from llama_index.core.utils import set_global_tokenizer

    set_global_tokenizer(tokenizer())
    table, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        corpus = {}
        for i, (name, text) in enumerate(texts(options.folder)):
            if text.strip():
                path = f"{folder}/{i:05}.txt"
                Path(path).write_bytes(text.encode())
                corpus[path] = (name, text)
        size = sum(os.path.getsize(path) for path in corpus)
        print(f"{len(corpus)} documents, {size / 1e6:.2f} MB of text", flush=True)
        for kind, settings in CASES:
            split = theirs(kind, settings)
            split("One. Two.")
            # Processor time: LlamaIndex has one thread, and other programs on
            # the machine do not count against it.
            start = time.process_time()
            other = {path: split(text) for path, (_, text) in corpus.items()}
            their_seconds = time.process_time() - start
            mine = {path: [] for path in corpus}
            # LlamaIndex cuts every text by its rules for English, so ours must too.
            own = settings if kind == "token" else {**settings, "language": "english"}
            for chunk in ours(options.binary, kind, own, list(corpus)):
                mine[chunk["document"]].append((chunk["level"], chunk["text"]))
            different = [path for path in corpus if mine[path] != other[path]]
            timing = ours(options.binary, kind, settings, list(corpus), "--time", "10")[0]
            single = ours(options.binary, kind, settings, list(corpus), "--time", "10", threads=1)[0]
            row = {
                "chunker": kind,
                "settings": settings,
                "documents": len(corpus),
                "chunks": sum(map(len, other.values())),
                "documents_that_differ": len(different),
                "their_documents_per_second": round(len(corpus) / their_seconds, 1),
                "our_documents_per_second": round(len(corpus) / timing["seconds"], 1),
                "times_faster": round(their_seconds / timing["seconds"], 1),
                "our_threads": timing["threads"],
                "times_faster_on_one_thread": round(their_seconds / single["seconds"], 1),
                "our_start_seconds": round(timing["build_seconds"], 3),
            }
            table.append(row)
            print(json.dumps(row), flush=True)
            for path in different[:3]:
                print(difference(corpus[path][0], mine[path], other[path]), flush=True)
            failed |= bool(different)
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
