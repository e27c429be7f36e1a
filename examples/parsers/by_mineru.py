"""A PDF as Markdown, by MinerU: `by_mineru.py FILE`. It runs the program `mineru`, and reads its list of contents, which has pages."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    # What it says of its progress is no part of the text.
    subprocess.run(["mineru", "-p", sys.argv[1], "-o", folder, "-b", "pipeline"], check=True, stdout=sys.stderr)
    [contents] = Path(folder).rglob("*_content_list.json")
    blocks = json.loads(contents.read_text(encoding="utf-8"))

page = 0
for block in blocks:
    sys.stdout.write("\f" * (block["page_idx"] - page))
    page = max(page, block["page_idx"])
    if block["type"] == "table":
        text = "\n\n".join([*block.get("table_caption", []), block.get("table_body", ""), *block.get("table_footnote", [])])
    elif block["type"] == "list":
        text = "\n".join(f"- {item}" for item in block.get("list_items", []))
    elif block["type"] in ("header", "footer", "page_number"):
        continue
    else:
        text = "#" * block.get("text_level", 0) + " " + block.get("text", "")
    sys.stdout.write(f"{text.strip()}\n\n")
