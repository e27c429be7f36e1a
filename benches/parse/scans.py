"""Scans of some of the PDFs: pictures of their pages at three resolutions, clean, skewed and noisy."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import numpy as np
import pypdfium2
from PIL import Image, ImageFilter
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

SOURCES = [
    "ruled-1", "ruled-4", "ruled-8", "unruled-1", "unruled-4", "spans-1", "spans-4", "wrapped-1", "sparse-2", "numbers-2", "beside-2", "columns-1",
    "columns-4", "running-1", "running-3", "footnotes-1", "hyphens-1", "lists-1", "form-1", "form-2",
]  # fmt: skip
RESOLUTIONS = [100, 200, 300]
CONDITIONS = ["clean", "skewed", "noisy"]
# Half of the scans are PDFs. Only PDF and TIFF hold more than one page.
FORMATS = ["pdf", "png", "pdf", "jpg", "pdf", "tiff", "pdf", "webp"]
MAX_PAGES = 2
# Per square inch.
SPECKLES = 10


def pages_of(path: Path, dpi: int) -> list[Image.Image]:
    pdf = pypdfium2.PdfDocument(path)
    pages = [pdf[i].render(scale=dpi / 72, grayscale=True).to_pil().convert("L") for i in range(min(MAX_PAGES, len(pdf)))]
    pdf.close()
    return pages


def skewed(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Turned by 0.7 to 1.5 degrees, to the left or to the right."""
    degrees = random.uniform(0.7, 1.5) * random.choice([-1, 1])
    return image.rotate(degrees, resample=Image.Resampling.BICUBIC, fillcolor=255)


def noisy(image: Image.Image, random: np.random.Generator, dpi: int) -> Image.Image:
    """Grey paper with a shadow, blurred letters, speckles, noise of the sensor, and the artefacts of JPEG."""
    image = image.filter(ImageFilter.GaussianBlur(0.45 * dpi / 150))
    pixels = np.asarray(image, dtype=np.float32)
    height, width = pixels.shape
    paper = random.uniform(195, 225)
    shadow = np.linspace(0, random.uniform(10, 30), width, dtype=np.float32)
    # Ink is not quite black.
    pixels = 45 + pixels / 255 * (paper - 45) - shadow
    pixels += random.normal(0, 7, pixels.shape).astype(np.float32)
    radius = max(1, dpi // 150)
    for _ in range(int(height * width / dpi**2 * SPECKLES)):
        y, x = random.integers(0, height - radius), random.integers(0, width - radius)
        pixels[y : y + radius, x : x + radius] = random.choice([40, 90, 245])
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    return Image.open(io.BytesIO(jpeg(image, int(random.integers(28, 50)))))


def jpeg(image: Image.Image, quality: int) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def save(images: list[Image.Image], path: Path, dpi: int, condition: str) -> None:
    if path.suffix == ".pdf":
        canvas = Canvas(str(path), invariant=True, pageCompression=1)
        for image in images:
            width, height = image.width / dpi * 72, image.height / dpi * 72
            canvas.setPageSize((width, height))
            # reportlab embeds a JPEG as it is, and other pictures without loss.
            picture = io.BytesIO(jpeg(image, 60)) if condition == "noisy" else image
            canvas.drawImage(ImageReader(picture), 0, 0, width, height)
            canvas.showPage()
        canvas.save()
    elif path.suffix == ".tiff":
        images[0].save(path, save_all=True, append_images=images[1:], compression="jpeg" if condition == "noisy" else "tiff_lzw", dpi=(dpi, dpi))
    else:
        options = {".jpg": {"quality": 75}, ".png": {}, ".webp": {"quality": 75}}[path.suffix]
        images[0].save(path, dpi=(dpi, dpi), **options)


def write(folder: Path, seed: int, pdfs: list[dict]) -> list[dict]:
    (folder / "scan").mkdir(exist_ok=True)
    by_name = {Path(truth["file"]).stem: truth for truth in pdfs}
    truths = []
    for number, source in enumerate(SOURCES):
        original = by_name[source]
        for i, dpi in enumerate(RESOLUTIONS):
            pages = pages_of(folder / original["file"], dpi)
            for j, condition in enumerate(CONDITIONS):
                suffix = FORMATS[(number + 3 * i + 5 * j) % len(FORMATS)]
                random = np.random.default_rng([seed, zlib.crc32(source.encode()), dpi, j])
                images = pages if suffix in ("pdf", "tiff") else pages[:1]
                if condition == "skewed":
                    images = [skewed(image, random) for image in images]
                elif condition == "noisy":
                    images = [noisy(image, random, dpi) for image in images]
                name = f"scan/{source}-{dpi}-{condition}.{suffix}"
                save(images, folder / name, dpi, condition)
                truths.append({"file": name, "part": "scan", "kind": original["kind"], "language": original["language"], "source": original["file"],
                               "dpi": dpi, "condition": condition, "format": suffix, "pages": len(images),
                               "page_texts": original["page_texts"][: len(images)]})  # fmt: skip
    return truths
