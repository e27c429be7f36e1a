"""Measures the report of a large run in Chromium; no test, since its numbers depend on the machine.

    cargo run --release -p app --example large_report -- FOLDER
    python crates/python/tests/page/large.py FOLDER/report.html

It prints sizes, the time until the page is painted and usable, the time until a trial and a question are open, and how
many pictures a second are drawn while an axis is brushed.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

# Counts the pictures that are drawn while a mouse goes up and down an axis; each of its positions is a new brush.
FRAMES = """async () => {
    const areas = [...document.querySelectorAll('#plot .axis .catch')];
    const target = areas[areas.length - 1];
    const box = target.getBoundingClientRect();
    const send = (type, y) => target.dispatchEvent(new PointerEvent(type, { clientX: box.x + 9, clientY: y, pointerId: 1, bubbles: true }));
    target.setPointerCapture = () => {};
    send('pointerdown', box.y + 2);
    const gaps = [];
    let last = performance.now();
    const begun = last;
    while (performance.now() - begun < 3000) {
        send('pointermove', box.y + 4 + (box.height - 8) * (0.5 + 0.5 * Math.sin((performance.now() - begun) / 300)));
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        gaps.push(now - last);
        last = now;
    }
    send('pointerup', box.y + box.height / 2);
    gaps.sort((a, b) => a - b);
    return { frames_per_second: gaps.length / ((last - begun) / 1000), slowest_ms: gaps[gaps.length - 1], p95_ms: gaps[Math.floor(gaps.length * 0.95)] };
}"""


def main(page_file: Path) -> None:
    folder = page_file.with_name(f"{page_file.stem}-parts")
    parts = list(folder.iterdir()) if folder.is_dir() else []
    print(f"page: {page_file.stat().st_size / 1e6:.2f} MB; parts: {len(parts)}, {sum(part.stat().st_size for part in parts) / 1e6:.0f} MB, "
          f"the largest {max((part.stat().st_size for part in parts), default=0) / 1e6:.2f} MB")  # fmt: skip
    program = os.environ.get("REVERIE_TEST_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for attempt in range(3):
            context = browser.new_context(viewport={"width": 1400, "height": 900})
            page = context.new_page()
            begun = time.perf_counter()
            page.goto(f"file://{page_file.resolve()}", wait_until="commit")
            page.wait_for_selector("html[data-ready]")
            page.locator("[aria-busy]").first.wait_for(state="detached")
            usable = time.perf_counter() - begun
            painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
            begun = time.perf_counter()
            page.locator("#board tbody button").nth(7).click()
            page.locator("[aria-busy]").first.wait_for(state="detached")
            trial = time.perf_counter() - begun
            begun = time.perf_counter()
            page.locator("#questions tbody button").nth(50).click()
            page.wait_for_selector("#question .card")
            question = time.perf_counter() - begun
            begun = time.perf_counter()
            page.locator("#compare-fields select").nth(1).select_option(index=9)
            page.wait_for_selector("#differing")
            compared = time.perf_counter() - begun
            page.locator("#plot").scroll_into_view_if_needed()
            frames = page.evaluate(FRAMES)
            print(f"first paint {painted:.0f} ms, usable {usable * 1000:.0f} ms; a trial {trial * 1000:.0f} ms, a question "
                  f"{question * 1000:.0f} ms, compared {compared * 1000:.0f} ms; brushing {frames['frames_per_second']:.0f} pictures/s, "
                  f"95 % within {frames['p95_ms']:.0f} ms, slowest {frames['slowest_ms']:.0f} ms")  # fmt: skip
            context.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
