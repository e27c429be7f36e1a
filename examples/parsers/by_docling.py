"""A document as Markdown, by Docling: `by_docling.py FILE`."""

import sys

from docling.document_converter import DocumentConverter

document = DocumentConverter().convert(sys.argv[1]).document
sys.stdout.write(document.export_to_markdown(page_break_placeholder="\f"))
