#!/usr/bin/env python3
"""The tools that people parse documents with today, each in an environment and a process of its own.

    benches/parse/peers.py --tools FOLDER [NAME ...]     # installs them, and says what can be used here

`FOLDER/NAME` is the environment of a tool, with the pinned packages of `TOOLS`; all of them take about 3.4 GB. With the
single argument `--serve NAME` this file is the tool's process: it reads the path of a document on each line and answers with a
line of JSON: `text`, `seconds`, `peak_mb`, or `error`. Loading the tool and its models is not in the seconds. Memory is the
highest resident size while the document was parsed, and includes the models.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

PAGE_END = "\f"


@dataclass
class Tool:
    """How a tool is installed, and the endings of the files that it says it reads."""

    packages: list[str]
    endings: set[str]
    # Packages whose dependencies are left out, because they are large and not needed.
    alone: list[str] = field(default_factory=list)
    # A command that must be there.
    command: str = ""


IMAGES = {"png", "jpg", "tiff", "webp"}
# PDFs with text, and PDFs that hold pictures, are different tasks: an OCR tool gets only the second.
TOOLS = {
    # PyMuPDF 2 holds what was pymupdf4llm. It recognizes scans with RapidOCR if that is there.
    "pymupdf4llm": Tool(["PyMuPDF==2.0", "rapidocr==3.10.0", "onnxruntime==1.32.0"], {"pdf", "scan"}),
    "pdfplumber": Tool(["pdfplumber==0.11.10"], {"pdf"}),
    "markitdown": Tool(["markitdown[pdf,docx,pptx,xlsx,xls]==0.1.9"], {"pdf", "docx", "pptx", "xlsx", "xls", "csv", "html"}),
    # Its layout models belong to another strategy, and bring 3 GB of torch. spaCy's English model tells titles from
    # paragraphs. It is in no package registry: without it in the tool's environment the tool is left out, and named.
    "unstructured": Tool(
        ["unstructured[docx,pptx,xlsx,odt,rtf,csv,tsv]==0.27.35", "pdfminer.six==20260107", "pi-heif==1.4.0", "pypdf==6.21.4", "pikepdf==10.18.0",
         "pdf2image==1.17.0", "onnx==1.23.2", "onnxruntime==1.32.0", "opencv-python-headless==5.0.0.93", "scipy==1.17.1", "matplotlib==3.11.2",
         "huggingface_hub==2.4.0"],
        {"pdf", "docx", "pptx", "odt", "rtf", "html", "xlsx", "xls", "csv", "tsv", "eml"},
        alone=["unstructured-inference==1.6.14"],
    ),
    # Without PDF: its layout models are not in its packages, and torch comes with CUDA. The last version that starts without torch.
    "docling": Tool(
        ["docling-slim[format-office,format-opendocument,format-html,format-email,format-markdown,convert-core]==2.133.0", "pypdfium2==5.15.2"],
        {"docx", "pptx", "xlsx", "odt", "ods", "odp", "html", "csv", "eml"},
    ),
    "rapidocr": Tool(["rapidocr==3.10.0", "onnxruntime==1.32.0", "pypdfium2==5.15.2"], {"scan", *IMAGES}),
    "tesseract": Tool(["pypdfium2==5.15.2", "pillow==13.0.0"], {"scan", *IMAGES}, command="tesseract"),
}  # fmt: skip


# The tools. Each function imports its tool and gives the function that turns a path into Markdown.


def pymupdf4llm() -> Callable[[Path], str]:
    """With its layout analysis; what it takes for running heads and feet is left out."""
    import pymupdf4llm

    def convert(path: Path) -> str:
        pages = pymupdf4llm.to_markdown(str(path), page_chunks=True, show_progress=False, header=False, footer=False)
        return PAGE_END.join(page["text"] for page in pages)

    return convert


def pipe_table(rows: list[list[str | None]]) -> str:
    texts = [[(cell or "").replace("|", "\\|").replace("\n", "<br>") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in texts]
    return "\n".join([lines[0], "|" + "---|" * len(texts[0]), *lines[1:]])


def pdfplumber() -> Callable[[Path], str]:
    """Its tables with the default settings, then the text outside them, as its documentation shows."""
    import pdfplumber

    def page_text(page) -> str:
        found = page.find_tables()
        outside = page
        for table in found:
            outside = outside.outside_bbox(table.bbox, strict=False)
        return "\n\n".join([outside.extract_text(), *(pipe_table(table.extract()) for table in found)])

    def convert(path: Path) -> str:
        with pdfplumber.open(path) as pdf:
            return PAGE_END.join(page_text(page) for page in pdf.pages)

    return convert


def markitdown() -> Callable[[Path], str]:
    from markitdown import MarkItDown

    converter = MarkItDown()
    return lambda path: converter.convert(str(path)).text_content


def unstructured() -> Callable[[Path], str]:
    """The strategy `fast`. Elements that it calls header or footer are left out, as a user would do."""
    import en_core_web_sm  # noqa: F401
    from unstructured.partition.auto import partition

    def convert(path: Path) -> str:
        pages: dict[int, list[str]] = {}
        for element in partition(str(path), strategy="fast"):
            lines = pages.setdefault(element.metadata.page_number or 1, [])
            if element.category == "Title":
                lines.append(f"# {element.text}")
            elif element.category == "Table":
                lines.append(element.metadata.text_as_html or element.text)
            elif element.category == "ListItem":
                lines.append(f"- {element.text}")
            elif element.category not in ("Header", "Footer", "PageBreak", "PageNumber"):
                lines.append(element.text)
        return PAGE_END.join("\n\n".join(pages.get(number, [])) for number in range(1, max(pages, default=1) + 1))

    return convert


def docling() -> Callable[[Path], str]:
    from docling.document_converter import DocumentConverter

    converter = DocumentConverter()
    return lambda path: converter.convert(path).document.export_to_markdown(page_break_placeholder=PAGE_END)


def pictures(path: Path) -> list:
    """The pages of a scan, as they are in the file: a PDF of pictures is not drawn anew."""
    import pypdfium2
    from PIL import Image, ImageSequence

    if path.suffix != ".pdf":
        with Image.open(path) as image:
            return [frame.convert("RGB") for frame in ImageSequence.Iterator(image)]
    pages = []
    with pypdfium2.PdfDocument(path) as pdf:
        for page in pdf:
            found = list(page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]))
            bitmap = found[0].get_bitmap() if len(found) == 1 else page.render(scale=300 / 72)
            pages.append(bitmap.to_pil().convert("RGB"))
    return pages


def rapidocr() -> Callable[[Path], str]:
    import logging

    import numpy as np
    from rapidocr import RapidOCR

    logging.disable(logging.INFO)
    engine = RapidOCR()
    return lambda path: PAGE_END.join("\n".join(engine(np.asarray(page)[:, :, ::-1]).txts or ()) for page in pictures(path))


def tesseract() -> Callable[[Path], str]:
    import io

    languages = subprocess.run(["tesseract", "--list-langs"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    chosen = "+".join(language for language in ("eng", "deu") if language in languages)

    def convert_page(page) -> str:
        file = io.BytesIO()
        page.save(file, "PNG")
        command = ["tesseract", "-", "-", "-l", chosen]
        # With a thread for each core it waits more than it works as soon as the machine does anything else.
        environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
        run = subprocess.run(command, check=True, input=file.getvalue(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        return run.stdout.decode().replace("\f", "")

    return lambda path: PAGE_END.join(map(convert_page, pictures(path)))


# A tool's own process.


def serve(name: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # What libraries print must not get between the answers.
    os.dup2(2, 1)
    # The files beside this one are not the packages that a tool may want by the same name.
    sys.path.remove(str(Path(__file__).resolve().parent))
    convert = globals()[name]()
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        forget_peak()
        begin = time.perf_counter()
        try:
            answer = {"text": convert(Path(line.rstrip("\n")))}
        except Exception as error:  # noqa: BLE001
            answer = {"text": "", "error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps({**answer, "seconds": time.perf_counter() - begin, "peak_mb": peak_mb()}), file=answers)


def forget_peak() -> None:
    """From now on the kernel's highest resident size counts anew."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def peak_mb() -> float:
    """MB (10⁶ bytes) at most, of this process or of the largest of its finished children."""
    status = Path("/proc/self/status").read_text()
    own = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(own, children) * 1024 / 1e6


# Their use from outside.


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def install(name: str, folder: Path) -> str:
    """Installs a tool unless it is there. Returns why it cannot be used, or an empty text."""
    tool, environment = TOOLS[name], folder / name
    if tool.command and not shutil.which(tool.command):
        return f"the command {tool.command} is not installed"
    wanted, marker = "\n".join([*tool.packages, "--", *tool.alone]), environment / "installed"
    if marker.exists() and marker.read_text() == wanted:
        return ""
    say(f"installing {name} into {environment}")
    shutil.rmtree(environment, ignore_errors=True)
    environment.parent.mkdir(parents=True, exist_ok=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", "--no-cache-dir"]
    commands = [[sys.executable, "-m", "venv", str(environment)], [*pip, *tool.packages]]
    if tool.alone:
        commands.append([*pip, "--no-deps", *tool.alone])
    for command in commands:
        run = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode:
            return "it cannot be installed: " + (run.stdout.strip().splitlines() or ["no reason given"])[-1]
    marker.write_text(wanted)
    return ""


def ending(truth: dict) -> str:
    """What a tool must read for a document of the set: a PDF of pictures is a `scan`."""
    suffix = truth["file"].rsplit(".", 1)[1]
    return "scan" if truth["part"] == "scan" and suffix == "pdf" else suffix


class Peer:
    """The process of a tool. It is started at the first document, and again after a document that took too long."""

    def __init__(self, name: str, folder: Path):
        self.name, self.python = name, folder / name / "bin" / "python"
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        command = [str(self.python), __file__, "--serve", self.name]
        # Their models are in their packages; nothing is asked of a hub.
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "UNSTRUCTURED_DISABLE_NOTICE": "1", "DO_NOT_TRACK": "true", "SCARF_NO_ANALYTICS": "true"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        if not self.process.stdout.readline():
            self.stop()
            raise RuntimeError(f"{self.name} does not start: see `echo | {' '.join(command)}`")

    def parse(self, path: Path, limit: float) -> dict:
        """The answer for a document, or an error after `limit` seconds."""
        if self.process is None:
            self.start()
        timer = threading.Timer(limit, self.process.kill)
        timer.start()
        begin = time.perf_counter()
        try:
            self.process.stdin.write(f"{path.resolve()}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            return json.loads(line)
        self.stop()
        seconds = time.perf_counter() - begin
        reason = f"stopped after {limit:.0f} s" if seconds >= limit else "the tool's process ended"
        return {"text": "", "error": reason, "seconds": seconds, "peak_mb": 0.0}

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def parse_with_command(command: list[str], path: Path, limit: float) -> dict:
    """One start of a command for a document; `{path}` stands for the document's path. Starting is in the seconds."""
    begin = time.perf_counter()
    arguments = [argument.replace("{path}", str(path.resolve())) for argument in command]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    errors: list[bytes] = []
    reader = threading.Thread(target=partial(read_all, process.stderr, errors))
    timer = threading.Timer(limit, process.kill)
    reader.start()
    timer.start()
    text = process.stdout.read()
    reader.join()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    answer = {"text": text.decode("utf-8", "replace"), "seconds": time.perf_counter() - begin, "peak_mb": usage.ru_maxrss * 1024 / 1e6}
    if process.returncode:
        answer |= {"text": "", "error": f"exit status {process.returncode}: {b''.join(errors).decode('utf-8', 'replace').strip()[-500:]}"}
    return answer


def read_all(stream, into: list[bytes]) -> None:
    into.append(stream.read())


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, required=True, help="the folder of the environments")
    parser.add_argument("names", nargs="*", default=list(TOOLS), metavar="NAME", help=", ".join(TOOLS))
    options = parser.parse_args()
    for name in options.names:
        reason = install(name, options.tools)
        print(f"{name}: {reason or 'ready'}")


if __name__ == "__main__":
    main()
