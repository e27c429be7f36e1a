"""A PDF as Markdown, by Marker: `by_marker.py FILE`."""

import re
import sys

from marker.converters.pdf import PdfConverter
from marker.models import create_model_dict
from marker.output import text_from_rendered

convert = PdfConverter(artifact_dict=create_model_dict(), config={"paginate_output": True})
text, _, _ = text_from_rendered(convert(sys.argv[1]))
# Marker begins each page with its number in braces and 48 dashes.
pages = re.split(r"\n*\{\d+\}-{48}\n*", text)
sys.stdout.write("\f".join(pages[1:] if not pages[0].strip() else pages))
