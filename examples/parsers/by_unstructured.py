"""A document as Markdown, by Unstructured: `by_unstructured.py FILE [STRATEGY]`. Tables become HTML, as Unstructured gives them."""

import sys

from unstructured.partition.auto import partition

strategy = sys.argv[2] if len(sys.argv) > 2 else "fast"
page = 1
for element in partition(filename=sys.argv[1], strategy=strategy):
    number = element.metadata.page_number or page
    # A page without text is there too, so that numbers stay right.
    sys.stdout.write("\f" * (number - page))
    page = max(page, number)
    text = element.metadata.text_as_html if element.category == "Table" else None
    mark = {"Title": "# ", "ListItem": "- "}.get(element.category, "")
    sys.stdout.write(f"{mark}{text or element.text}\n\n")
