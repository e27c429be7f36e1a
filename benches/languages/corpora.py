#!/usr/bin/env python3
"""Fetches the corpora that `run.py` searches: Debian's manuals in eight languages, one folder for each language.

    benches/languages/corpora.py FOLDER

Downloads packages with `apt-get download` (50 MB; needs Debian or Ubuntu; nothing is installed), unpacks them and
copies their HTML pages. Parts of the handbook are not translated: most of the Korean one and half of the Arabic one
are in English, so these corpora are mixed.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# For each language, its code in the packages of the FAQ, the reference, the maintainers' guide and the handbook. None
# where there is no translation.
LANGUAGES = {
    "de": ("de", "de", "de", "de-DE"),
    "fr": ("fr", "fr", "fr", "fr-FR"),
    "es": (None, "es", "es", "es-ES"),
    "ru": ("ru", None, "ru", "ru-RU"),
    "zh": ("zh-cn", "zh-cn", "zh-cn", "zh-CN"),
    "ja": ("ja", "ja", "ja", "ja-JP"),
    "ko": ("ko", None, None, "ko-KR"),
    "ar": (None, None, None, "ar-MA"),
}


def packages():
    names = ["debian-handbook"]
    for faq, reference, guide, _ in LANGUAGES.values():
        names += [f"debian-faq-{faq}"] * bool(faq)
        names += [f"debian-reference-{reference}"] * bool(reference)
        names += [f"maint-guide-{guide}"] * bool(guide)
    return names


def copy(pages, folder):
    folder.mkdir(parents=True)
    for page in sorted(pages):
        shutil.copy(page, folder)


def main():
    target = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["apt-get", "download", "--quiet", *packages()], cwd=scratch, check=True)
        for package in Path(scratch).glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, f"{scratch}/files"], check=True)
        share = Path(scratch) / "files" / "usr" / "share"
        for name, (faq, reference, guide, handbook) in LANGUAGES.items():
            folder = target / name
            if folder.exists():
                continue
            if faq:
                copy((share / "doc/debian/FAQ" / faq).glob("*.html"), folder / "faq")
            if reference:
                copy((share / "debian-reference").glob(f"*.{reference}.html"), folder / "reference")
            if guide:
                copy((share / f"doc/maint-guide-{guide}/html").glob("*.html"), folder / "guide")
            copy((share / "doc/debian-handbook/html" / handbook).glob("*.html"), folder / "handbook")
    print(f"{len(LANGUAGES)} languages in {target}")


if __name__ == "__main__":
    main()
