"""A PDF as Markdown, by PyMuPDF4LLM: `by_pymupdf4llm.py FILE`."""

import os
import sys

# What it says of itself is no part of the text, so it goes to standard error.
output = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import pymupdf4llm  # noqa: E402

pages = pymupdf4llm.to_markdown(sys.argv[1], page_chunks=True, show_progress=False)
output.write("\f".join(page["text"] for page in pages))
