"""Makes a ZIP-based document the same at every writing: the times in it are fixed."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

MOMENT = "2024-01-01T00:00:00Z"
TIMES = re.compile(rb"(<(dcterms:created|dcterms:modified|meta:creation-date|dc:date)\b[^>]*>)[^<]*(</)")


def fix_archive(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = [(info.filename, info.compress_type, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w") as archive:
        for name, compression, content in parts:
            if name.endswith((".xml", ".rels")):
                content = TIMES.sub(rb"\g<1>" + MOMENT.encode() + rb"\g<3>", content)
            info = zipfile.ZipInfo(name, (2024, 1, 1, 0, 0, 0))
            info.compress_type = compression
            archive.writestr(info, content)
