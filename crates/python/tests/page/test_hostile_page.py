"""The pages of `reverie ui` and the report with bad input: damaged stores, stores of other versions, hostile and very long
texts; without a mouse, without colours, on paper; two pages that steer against each other, and a server that goes away."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest

import reverie
from pages import PROGRAM, RETRIEVAL, SCORES, answering, ask, experiment, run, served
from reports import Opened, changed
from workspace import Provider

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

# Markup, a script's end, control characters, and marks that turn the direction of what follows.
EVIL = "</script><script>document.title='taken';alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)> \u202eevil\u2067 \x07\x1b[2J\u0085\ufffe"
MEGABYTES = 10_000_000
# Records what a page may never do. It runs before the page's own script, and no policy stops it.
WATCH = """window.bad = [];
document.addEventListener('securitypolicyviolation', event => bad.push(`${event.effectiveDirective} ${event.blockedURI}`));
for (const name of ['alert', 'confirm', 'prompt']) window[name] = () => bad.push(name);"""
# Playwright's limit for what takes long with 10 MB on a slow machine, in milliseconds.
PATIENCE = 60_000


@pytest.fixture(scope="module")
def zoo(tmp_path_factory) -> tuple[Path, dict]:
    """An experiment that has run, with thirty questions: its file and its results."""
    file = experiment(tmp_path_factory.mktemp("hostile") / "zoo", repeats=5, space=RETRIEVAL, rest=SCORES)
    return file, run(file)


@pytest.fixture(scope="module")
def url(zoo):
    with served(zoo[0]) as url:
        yield url


@pytest.fixture
def copy(zoo, tmp_path) -> Path:
    """The experiment in a folder of its own, which a test may damage."""
    return Path(shutil.copytree(zoo[0].parent, tmp_path / "zoo"))


def addresses(run_id: str, question: str = "bees", path: str = "owls.txt") -> dict[str, str]:
    """Every page, behind the `#`."""
    return {
        "runs": "#/",
        "run": f"#/runs/{run_id}?question={quote(question)}&with=t02",
        "live": f"#/runs/{run_id}/live",
        "beside": f"#/runs?beside={run_id},none-000000000000",
        "documents": "#/documents",
        "document": f"#/documents?path={quote(path)}&chunker=1",
        "golden": f"#/golden?id={quote(question)}",
    }


def settle(page) -> None:
    """Waits until nothing is being loaded."""
    # What an address begins to load shows after the next pictures.
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))")
    expect(page.locator("main").first).to_be_visible(timeout=PATIENCE)
    expect(page.locator("[aria-busy=true]")).to_have_count(0, timeout=PATIENCE)


def go(page, url: str, address: str):
    """Shows another address of the pages."""
    page.goto("about:blank")
    page.goto(f"{url}/{address}")
    settle(page)
    return page


def problems(page) -> str:
    """What the page says is wrong."""
    return " ".join(page.locator(".problem, #problems p").all_inner_texts())


def is_wider(page) -> bool:
    """Whether the page has to be scrolled sideways."""
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")


# ---- stores that are damaged, or of another version


def cut(path: Path) -> None:
    """Keeps the first half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path: Path) -> None:
    """Puts binary rubbish in place of a file."""
    path.write_bytes(bytes(range(256)) * 20)


def replace_by_folder(path: Path) -> None:
    """A file that cannot be read, also by an administrator."""
    path.unlink()
    path.mkdir()


DAMAGES = {
    "results that were cut off": ("results.json", cut),
    "results that are a folder": ("results.json", replace_by_folder),
    "a summary of rubbish": ("summary.json", garble),
    "a report that was cut off": ("report.html", cut),
    "an event log of rubbish": ("events.jsonl", garble),
    "a description of rubbish": ("frozen.json", garble),
    "documents of rubbish": ("documents.jsonl", garble),
    "rows that are gone": ("trials", shutil.rmtree),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_said_in_words_and_every_page_stays_usable(visit, copy, zoo, damage):
    run_id = zoo[1]["run"]
    name, change = DAMAGES[damage]
    folder = copy / "store" / "runs" / run_id
    change(folder / name)
    if name == "trials":
        (folder / "report.html").unlink()
    with served(copy / "experiment.toml") as url:
        page = visit(url)
        settle(page)
        expect(page.locator("#runs tbody tr")).to_have_count(1)
        for page_name, address in addresses(run_id).items():
            if page_name == "beside":
                continue
            go(page, url, address)
            assert page.locator("main h1, main h2").count() > 0, page_name
            assert "script failed" not in page.inner_text("body"), page_name
            if page_name == "run" and name in ("results.json", "trials"):
                assert name.split(".")[0] in problems(page) or "damaged" in problems(page) or "row" in problems(page)
                expect(page.get_by_role("button", name="Try again").first).to_be_visible()
            if page_name == "document":
                expect(page.locator(".text-view")).to_contain_text("eagle owl")
            if page_name == "golden":
                expect(page.locator("#golden-heading")).to_have_text("bees")


def test_a_run_without_a_summary_is_listed_with_its_results(visit, copy, zoo):
    run_id = zoo[1]["run"]
    (copy / "store" / "runs" / run_id / "summary.json").unlink()
    # As in a store that another version wrote, nothing is known of how the run went.
    shutil.rmtree(copy / "store" / "scratch" / "live")
    with served(copy / "experiment.toml") as url:
        listed = ask(url, "/api/runs")[1]["runs"]
        assert [(one["run"], one["state"], one["has_results"]) for one in listed] == [(run_id, "finished", True)]
        page = visit(url)
        page.get_by_role("link", name="zoo", exact=True).click()
        expect(page.locator("#board tbody tr[data-id]")).to_have_count(4)


def test_a_report_of_another_version_is_not_read_and_the_results_are_shown(visit, copy, zoo):
    report = copy / "store" / "runs" / zoo[1]["run"] / "report.html"
    report.write_text(report.read_text().replace('"data_version":1', '"data_version":999', 1))
    with served(copy / "experiment.toml") as url:
        page = go(visit(url), url, addresses(zoo[1]["run"])["run"])
        expect(page.locator("#board tbody tr[data-id]")).to_have_count(4)
        expect(page.locator("#question .card").first).to_be_visible()


def test_an_overview_without_newer_fields_and_with_unknown_ones_is_drawn(visit, url, zoo):
    run_id = zoo[1]["run"]
    overview = ask(url, f"/api/runs/{run_id}/overview")[1]
    for name in ("loss_steps", "matrix", "pages", "stamp"):
        overview.pop(name, None)
    overview["future"] = {"of": ["this"]}
    for row in overview["board"]["rows"]:
        row.pop("losses", None)
        row.pop("front_share", None)
        row["standing"] = "levitating"
    page = visit("about:blank")
    body = json.dumps(overview)
    page.route("**/overview", lambda route: route.fulfill(body=body, content_type="application/json"))
    go(page, url, f"#/runs/{run_id}?question=bees")
    expect(page.locator("#board tbody tr[data-id]")).to_have_count(4)
    expect(page.locator("#question .card").first).to_be_visible()
    assert "could not be drawn" not in page.inner_text("body")


def live_file(copy: Path, run_id: str) -> Path:
    return copy / "store" / "scratch" / "live" / f"{run_id}.json"


def test_a_live_run_of_another_version_is_shown_as_far_as_it_is_known(visit, copy, zoo):
    run_id = zoo[1]["run"]
    path = live_file(copy, run_id)
    live = json.loads(path.read_text())
    common = {"time_ms": 1, "by": "Ann", "outcome": None, "refused": False}
    live["acts"] = [{"number": 1, "act": {"act": "teleport", "to": "Mars"}, **common}, {"number": 2, "act": {"act": "pause"}, **common}]
    live["operators"].append({**live["operators"][0], "operator": "levitate"})
    live["mood"] = ["fine"]
    for name in ("history", "warnings", "problems", "failures", "flow"):
        del live[name]
    path.write_text(json.dumps(live))
    with served(copy / "experiment.toml") as url:
        page = go(visit(url), url, addresses(run_id)["live"])
        expect(page.locator("#acts tbody tr")).to_have_count(1)
        expect(page.locator("#operators tbody tr")).to_have_count(len(live["operators"]) - 1)
        expect(page.locator("#live-board tbody tr")).to_have_count(4)
        assert "could not be drawn" not in page.inner_text("body")


@pytest.mark.parametrize("change", [cut, lambda path: path.write_text(path.read_text().replace('"state":"finished"', '"state":"dreaming"', 1))])
def test_a_live_run_that_cannot_be_read_leads_to_its_results(visit, copy, zoo, change):
    run_id = zoo[1]["run"]
    change(live_file(copy, run_id))
    with served(copy / "experiment.toml") as url:
        page = go(visit(url), url, addresses(run_id)["live"])
        expect(page.locator(".problem").first).to_contain_text("another version of reverie")
        page.get_by_role("link", name="See its results").click()
        expect(page.locator("#board tbody tr[data-id]")).to_have_count(4)


def test_words_of_the_server_that_this_page_does_not_know_are_shown_as_they_are(visit, url, zoo):
    run_id = zoo[1]["run"]
    live = json.loads(live_file(zoo[0].parent, run_id).read_text())
    live.update(state="dreaming", now_ms=live["written_ms"])
    live["acts"] = [{"number": 1, "act": {"act": "teleport"}, "time_ms": 1, "by": "Ann", "outcome": None, "refused": False}]
    live["trials"][0]["state"], live["operators"][0]["status"] = "levitating", "melting"
    page = visit("about:blank")
    body = f"data: {json.dumps(live)}\n\n"
    page.route("**/live", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
    page.route("**/api/runs", lambda route: route.fulfill(json={"store": "s", "can_steer": True, "runs": [{
        "run": run_id, "experiment": "zoo", "state": "dreaming", "started_ms": None, "finished_ms": None, "overrides": [],
        "trials": None, "headline": None, "has_results": False}]}))  # fmt: skip
    go(page, url, "#/")
    expect(page.locator("#runs tbody")).to_contain_text("dreaming")
    go(page, url, f"#/runs/{run_id}/live")
    for words in ("dreaming", "teleport", "levitating", "melting"):
        expect(page.locator("main")).to_contain_text(words)


def test_a_store_without_a_run_says_so_on_each_page(visit, copy, zoo):
    shutil.rmtree(copy / "store")
    with served(copy / "experiment.toml") as url:
        assert ask(url, f"/api/runs/{zoo[1]['run']}/overview")[0] == 404
        page = go(visit(url), url, "#/")
        expect(page.locator("main")).to_contain_text("There are no runs yet")
        go(page, url, addresses(zoo[1]["run"])["run"])
        assert "there are no results of a run" in problems(page)
        go(page, url, "#/documents")
        expect(page.locator("#no-documents")).to_be_visible()
        plain = go(visit(url), url, addresses(zoo[1]["run"])["document"])
        expect(plain.locator(".text-view")).to_contain_text("eagle owl")
        without = visit(url, java_script_enabled=False)
        assert "needs scripts" in without.inner_text("body")


def test_a_folder_of_runs_that_is_a_file_is_said(visit, copy):
    shutil.rmtree(copy / "store" / "runs")
    (copy / "store" / "runs").write_text("no folder")
    with served(copy / "experiment.toml") as url:
        page = go(visit(url), url, "#/")
        assert "The list of runs could not be loaded" in problems(page)
        go(page, url, "#/golden?id=bees")
        expect(page.locator("#golden-heading")).to_have_text("bees")


def test_a_log_of_reviews_with_half_lines_and_rubbish_loses_no_question(visit, copy):
    rubbish = b'{"number":1,"time_ms":1,"que\n\x00\xff\xfe\x80\n{"a":1}\n[]\nnull\n'
    unknown = b'{"number":2,"time_ms":5,"question":"bees","by":"x","decision":{"decision":"levitate"}}\n{"half'
    (copy / "golden.reviews.jsonl").write_bytes(rubbish + unknown)
    with served(copy / "experiment.toml") as url:
        page = go(visit(url), url, "#/golden?id=bees")
        expect(page.locator("#queue-count")).to_contain_text("30 questions")
        body = {"id": "bees", "by": "Ann", "decision": {"decision": "accept"}}
        assert ask(url, "/api/golden/decisions", body)[0] == 200
        expect(page.locator(".open-question .badge").first).to_have_text("accepted")


def test_one_run_that_cannot_be_shown_does_not_hide_the_others_beside_it(visit, url, zoo):
    page = go(visit(url), url, addresses(zoo[1]["run"])["beside"])
    assert "The run none-000000000000 cannot be shown" in problems(page)
    expect(page.locator("#verdicts-heading")).to_be_visible()
    expect(page.locator(".columns .card")).to_have_count(1)


def test_parts_of_new_results_are_never_mixed_with_what_is_shown(visit, copy, zoo):
    run_id = zoo[1]["run"]
    folder = copy / "store" / "runs" / run_id
    with served(copy / "experiment.toml") as url:
        page = go(visit(url), url, f"#/runs/{run_id}")
        stamp = ask(url, f"/api/runs/{run_id}/overview")[1]["stamp"]
        assert ask(url, f"/api/runs/{run_id}/parts/questions-0?stamp={stamp}")[0] == 200
        # The run goes on after its end, and writes other results: here the same with other references.
        other = json.loads(json.dumps(zoo[1]))
        other["questions"][0]["reference"] = "another reference"
        reverie.Results(json.dumps(other)).save_report(folder / "report.html")
        assert ask(url, f"/api/runs/{run_id}/parts/questions-0?stamp={stamp}")[0] == 409
        page.locator("#questions tbody button").first.click()
        expect(page.locator("#new-results")).to_be_visible()
        page.get_by_role("button", name="Show the new results").click()
        expect(page.locator("#question")).to_contain_text("another reference")
        expect(page.locator("#new-results")).to_have_count(0)
        assert problems(page) == ""


def test_pages_load_their_parts_while_the_run_goes_on_and_ends(visit, tmp_path):
    provider = Provider(latency={"constant": {"seconds": 0.05}})
    try:
        space, rest = answering(provider)
        file = experiment(tmp_path / "going", repeats=2, space=space, rest=rest)
        run_id = run(file)["run"]
        # The second start finds another question, so it is another run, which goes on while pages of both are open.
        questions = file.parent / "golden.jsonl"
        more = [json.dumps({**json.loads(line), "id": f"more{i}"}) for i, line in enumerate(questions.read_text().splitlines())]
        questions.write_text(questions.read_text() + "\n".join(more) + "\n")
        with served(file) as url, subprocess.Popen([PROGRAM, "run", "-f", file, "--quiet"]) as process:
            page = visit(url)
            opened = 0
            while process.poll() is None or opened < 6:
                known = ask(url, "/api/runs")[1]["runs"]
                address = list(addresses(known[opened % len(known)]["run"]).values())[opened % 7]
                go(page, url, address)
                assert "script failed" not in page.inner_text("body"), address
                opened += 1
            assert process.returncode == 0
            assert {one["state"] for one in ask(url, "/api/runs")[1]["runs"]} == {"finished"}
            go(page, url, f"#/runs/{run_id}?question=bees")
            expect(page.locator("#question .card").first).to_be_visible()
    finally:
        provider.stop()


# ---- texts


@pytest.fixture(scope="module")
def evil(tmp_path_factory) -> tuple[Path, dict]:
    """A run whose documents, questions, references, tags and ids hold markup, control characters and very long words."""
    folder = tmp_path_factory.mktemp("evil") / "zoo"
    file = experiment(folder, space=RETRIEVAL, rest=SCORES)
    word = "w" * 3000
    (folder / "documents" / "evil.txt").write_text(f"The evil begins. {EVIL} {word} The evil ends.")
    with (folder / "golden.jsonl").open("a") as golden:
        golden.write(json.dumps({
            "id": f"id {EVIL[:60]}", "question": f"What begins? {EVIL} {word}", "reference": f"It is {EVIL} {word}",
            "evidence": [{"document": "evil.txt", "quote": "The evil ends."}], "tags": [EVIL, word],
        }) + "\n")  # fmt: skip
    return file, run(file)


def test_hostile_texts_are_shown_on_every_page_and_never_run(visit, evil):
    question = evil[1]["questions"][-1]
    with served(evil[0]) as url:
        page = visit("about:blank", viewport={"width": 360, "height": 740})
        page.add_init_script(WATCH)
        for name, address in addresses(evil[1]["run"], question["id"], "evil.txt").items():
            go(page, url, address)
            assert page.evaluate("bad") == [], name
            assert "taken" not in page.title(), name
            assert page.locator("main :is(img, script, iframe, svg[onload])").count() == 0, name
            assert not is_wider(page), name
            if name in ("run", "golden", "document"):
                expect(page.locator("main")).to_contain_text("onerror=alert(1)")


# Texts with a mark of direction, which end in an element that does not close it off.
UNISOLATED = """() => {
    const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) {
        let node = walker.currentNode;
        if (!/[\\u202a-\\u202e\\u2066-\\u2068]/.test(node.data)) continue;
        for (node = node.parentElement; node; node = node.parentElement) {
            const { unicodeBidi, display } = getComputedStyle(node);
            if (/isolate|plaintext/.test(unicodeBidi) || node.localName === 'option') break;
            if (display !== 'inline') { if (node.childNodes.length > 1) found.push(node.outerHTML.slice(0, 120)); break; }
        }
    }
    return found;
}"""


def test_a_mark_of_writing_direction_ends_with_the_text_that_holds_it(visit, evil):
    question = evil[1]["questions"][-1]
    with served(evil[0]) as url:
        page = visit("about:blank")
        for name, address in addresses(evil[1]["run"], question["id"], "evil.txt").items():
            go(page, url, address)
            assert page.evaluate(UNISOLATED) == [], name


def test_half_a_character_in_the_file_of_questions_is_said_with_its_line(visit, copy):
    with (copy / "golden.jsonl").open("a") as golden:
        golden.write('{"id": "half", "question": "What is \\ud83d half?"}\n')
    with served(copy / "experiment.toml") as url:
        page = go(visit(url), url, "#/golden")
        assert "golden.jsonl:31" in problems(page)


@pytest.mark.parametrize("kind", ["one word", "words"])
def test_a_line_of_ten_megabytes_is_read_to_its_end(visit, zoo, tmp_path, kind):
    folder = Path(shutil.copytree(zoo[0].parent, tmp_path / "zoo", ignore=shutil.ignore_patterns("store")))
    text = "x" * MEGABYTES if kind == "one word" else "ab cd " * (MEGABYTES // 6)
    (folder / "documents" / "line.txt").write_text(f"It begins. {text} It ends.")
    with served(folder / "experiment.toml") as url:
        page = go(visit(url), url, "#/documents?path=line.txt")
        view = page.locator(".text-view")
        expect(view).to_contain_text("It begins.", timeout=PATIENCE)
        assert page.locator(".text-view .text-block:not(:empty)").count() < 20, "only what is near the view is drawn"
        page.get_by_label("Find in the text").fill("It ends.")
        expect(view).to_contain_text("It ends.", timeout=PATIENCE)
        assert not is_wider(page)


def test_questions_of_ten_megabytes_are_reviewed_without_freezing(visit, zoo, tmp_path):
    folder = Path(shutil.copytree(zoo[0].parent, tmp_path / "zoo", ignore=shutil.ignore_patterns("store")))
    with (folder / "golden.jsonl").open("a") as golden:
        golden.write(json.dumps({"id": "long", "question": f"What? {'x' * MEGABYTES}", "reference": "y" * MEGABYTES}) + "\n")
    with served(folder / "experiment.toml") as url:
        page = go(visit(url), url, "#/golden?id=long")
        expect(page.locator(".open-question")).to_contain_text("more of", timeout=PATIENCE)
        assert len(page.inner_text("body")) < 200_000, "the beginning is shown"
        page.keyboard.press("e")
        expect(page.locator(".edit")).to_contain_text("too long to be edited here", timeout=PATIENCE)
        expect(page.locator("#edit-question, #edit-reference")).to_have_count(0)
        assert page.evaluate("document.activeElement.closest('.edit') !== null"), "the focus is in the form"
        page.keyboard.press("Escape")
        expect(page.locator(".edit")).to_have_count(0)


def test_texts_of_ten_megabytes_in_a_report_begin_and_the_rest_can_be_had(browser, ran, tmp_path):
    data = changed(ran)
    data["questions"][0]["question"] = f"Which? {'x' * MEGABYTES}"
    for trial in data["trials"]:
        trial["questions"][0]["answer"]["text"] = "y" * MEGABYTES
    reverie.Results(json.dumps(data)).save_report(tmp_path / "page.html", one_file=True)
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    opened = Opened(context.new_page())
    page = opened.page
    page.add_init_script(WATCH)
    page.goto(f"file://{tmp_path / 'page.html'}#question=q0")
    expect(page.locator("#question .card").first).to_be_visible(timeout=PATIENCE)
    assert len(page.inner_text("body")) < 500_000, "the beginnings are shown"
    more = page.locator("#question .more-text").first
    before = len(page.inner_text("#question"))
    expect(more).to_contain_text("500,000 more of")
    more.click()
    page.wait_for_function("before => document.querySelector('#question').innerText.length > before + 400000", arg=before, timeout=PATIENCE)
    assert page.evaluate("bad") == [] and opened.errors == [] and not is_wider(page)
    context.close()


# ---- other ways to see


@pytest.mark.parametrize(
    "settings", [{"viewport": {"width": 360, "height": 740}}, {"viewport": {"width": 600, "height": 450}, "device_scale_factor": 2}], ids=["360 px", "200 %"]
)
def test_no_page_is_wider_than_a_telephone_or_an_enlarged_window(visit, url, zoo, settings):
    page = visit("about:blank", **settings)
    for name, address in addresses(zoo[1]["run"]).items():
        go(page, url, address)
        assert not is_wider(page), name


def test_with_the_colours_of_the_system_what_is_chosen_is_still_seen(visit, url, zoo):
    page = visit("about:blank", forced_colors="active")
    border = "node => getComputedStyle(node).borderBottomWidth"
    go(page, url, addresses(zoo[1]["run"])["run"])
    assert page.locator("#board tr.chosen th").evaluate(border) == "2px"
    # The page of the address is underlined, the others are not.
    lines = page.locator("nav.top a").evaluate_all(
        """links => links.map(link => [link.hasAttribute('aria-current'),
            getComputedStyle(link).borderBottomColor !== getComputedStyle(document.body).backgroundColor])"""
    )
    assert all(is_current == is_seen for is_current, is_seen in lines)
    go(page, url, addresses(zoo[1]["run"])["golden"])
    assert page.locator(".queue-line.chosen").evaluate(border) == "2px"
    go(page, url, addresses(zoo[1]["run"])["live"])
    colours = page.locator(".state .dot").first.evaluate("dot => [getComputedStyle(dot).backgroundColor, getComputedStyle(document.body).backgroundColor]")
    assert colours[0] != colours[1], "the mark of the state is seen"


def test_numbers_of_chunks_that_begin_on_one_line_do_not_cover_each_other(visit, url, zoo):
    page = go(visit(url), url, addresses(zoo[1]["run"])["document"])
    boxes = page.locator(".chunk-number").evaluate_all(
        "nodes => nodes.map(node => node.getBoundingClientRect()).map(({ left, right, top, bottom }) => [left, right, top, bottom])"
    )
    assert len(boxes) > 1
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:
            assert one[1] <= other[0] + 1 or other[1] <= one[0] + 1 or one[3] <= other[2] + 1 or other[3] <= one[2] + 1


# The width of A4 across without its margins, in CSS pixels.
PAPER = 1032
CUT_OFF = """[...document.querySelectorAll('body *')].filter(node => node.getClientRects().length && getComputedStyle(node).visibility !== 'hidden'
    && node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('.unseen, .skip')).map(node => node.outerHTML.slice(0, 80))"""
CONTROLS = """[...document.querySelectorAll('button, input, select, textarea, nav, .skip')].filter(node => node.getClientRects().length
    && !node.matches('th button, .open, .chunk-number')).map(node => node.outerHTML.slice(0, 80))"""
# The contrast of each text of the leaderboard with white paper.
PALE = """[...document.querySelectorAll('#board th, #board td, #board .range, #board .badge')].filter(node => {
    const [r, g, b] = getComputedStyle(node).color.match(/[\\d.]+/g).map(Number).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 1.05 / (0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05) < 4.5;
}).map(node => node.textContent)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_printed_page_has_no_controls_is_not_cut_off_and_is_read_in_black_and_white(visit, url, zoo, scheme):
    page = visit("about:blank", color_scheme=scheme, viewport={"width": PAPER, "height": 700})
    for name, address in addresses(zoo[1]["run"]).items():
        # The colours of paper do not depend on the page, so one page shows that the dark ones are left out.
        if scheme == "dark" and name != "run":
            continue
        go(page, url, address)
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        settle(page)
        assert page.evaluate(CONTROLS) == [], name
        assert page.evaluate(CUT_OFF) == [], name
        if name == "run":
            assert page.evaluate(PALE) == []
            sizes = [
                page.locator(selector).first.evaluate("node => parseFloat(getComputedStyle(node).fontSize)")
                for selector in ("#board td.number", "#board td .range")
            ]
            assert sizes[1] <= sizes[0], "an interval is not larger than its mean"
            expect(page.locator("#matrix canvas")).to_be_visible()
        assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
        page.emulate_media(media="screen")


# Where the focus is, whether it is seen there, and whether something else covers it.
FOCUS = """() => {
    const node = document.activeElement;
    if (!node || node === document.body) return null;
    window.passed ??= new Map();
    if (!passed.has(node)) passed.set(node, passed.size);
    const style = getComputedStyle(node), box = node.getBoundingClientRect(), ring = node.querySelector('.catch');
    const inside = (value, most) => Math.min(most - 2, Math.max(1, value));
    const at = document.elementFromPoint(
        inside((box.left + Math.min(box.right, box.left + 30)) / 2, innerWidth), inside((box.top + box.bottom) / 2, innerHeight));
    return {
        number: passed.get(node), role: node.getAttribute('role'),
        name: node.id || node.getAttribute('aria-label') || node.textContent.slice(0, 40) || node.outerHTML.slice(0, 60),
        is_seen: (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || (ring !== null && getComputedStyle(ring).stroke !== 'none'),
        is_in_view: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
        is_free: at !== null && (node.contains(at) || at.contains(node) || at.localName === 'label'),
    };
}"""


def walk(page, key: str = "Tab", most: int = 200) -> list[dict]:
    """Goes through the page with one key, until the focus leaves it or comes round."""
    stops: list[dict] = []
    for _ in range(most):
        page.keyboard.press(key)
        stop = page.evaluate(FOCUS)
        if stop is None or stop["number"] < len(stops):
            return stops
        stops.append(stop)
    raise AssertionError(f"the focus goes on after {most} stops")


@pytest.mark.parametrize(("width", "key"), [(1200, "Tab"), (700, "Shift+Tab"), (360, "Tab")])
def test_every_page_is_gone_through_with_the_tab_key_and_the_focus_is_always_seen(visit, url, zoo, width, key):
    page = visit("about:blank", viewport={"width": width, "height": 700}, reduced_motion="reduce")
    for name, address in addresses(zoo[1]["run"]).items():
        go(page, url, address)
        stops = walk(page, key)
        assert len(stops) > 7, name
        assert [stop for stop in stops if not (stop["is_seen"] and stop["is_in_view"])] == [], name
        # A telephone has no tab key; what stands still at its edge may be covered in part.
        assert width < 600 or [stop for stop in stops if not stop["is_free"]] == [], name
        # Each control of the page that is drawn and enabled is one of the stops.
        assert stops[0]["name"] == "skip" or key != "Tab"
        missed = page.evaluate(
            """() => [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [role=application], [role=button]')]
                .filter(node => node.checkVisibility() && !node.disabled && node.tabIndex >= 0 && !passed.has(node))
                .map(node => node.outerHTML.slice(0, 100))"""
        )
        assert missed == [], name
        # A box that cannot be scrolled is no stop.
        idle = page.evaluate(
            """() => [...passed.keys()].filter(node => ['group', 'list'].includes(node.getAttribute('role')) && node.scrollWidth <= node.clientWidth + 1
                && node.scrollHeight <= node.clientHeight + 1 && !node.classList.contains('text-view')).map(node => node.outerHTML.slice(0, 100))"""
        )
        assert idle == [], name


def test_a_quote_that_chunks_cut_is_one_stop_of_the_tab_key(visit, url, zoo):
    page = go(visit(url), url, addresses(zoo[1]["run"])["document"])
    links = page.locator(".text-view a.evidence")
    titles = links.evaluate_all("links => links.map(link => [link.title, link.tabIndex])")
    stops = [title for title, index in titles if index >= 0]
    assert len(titles) > len(stops) == len(set(title for title, _ in titles))


def test_a_question_is_opened_in_the_picture_with_keys_alone(visit, url, zoo):
    page = go(visit(url), url, f"#/runs/{zoo[1]['run']}")
    for _ in range(100):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUS)
        if stop["role"] == "application":
            break
        settle(page)
    assert stop["role"] == "application" and stop["is_seen"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#question-heading")).to_be_focused()
    expect(page.locator("#question .card").first).to_be_visible()


# ---- two pages that steer, a run that has ended, a server that goes away


@pytest.fixture
def slow(tmp_path):
    """A run that takes a while: its file, and the process that runs it."""
    provider = Provider(latency={"constant": {"seconds": 0.2}})
    space, rest = answering(provider)
    file = experiment(tmp_path / "slow", repeats=12, space=space, rest=rest)
    process = subprocess.Popen([PROGRAM, "run", "-f", file, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield file, process
    process.kill()
    process.communicate()
    provider.stop()


def first_run(url: str) -> str:
    """Waits until a run is at work."""
    for _ in range(300):
        runs = ask(url, "/api/runs")[1]["runs"]
        if runs and runs[0]["state"] == "running":
            return runs[0]["run"]
        time.sleep(0.1)
    raise AssertionError("no run is at work")


def acts_of(page) -> list[str]:
    return page.locator("#acts tbody tr").all_inner_texts()


def test_two_pages_steer_against_each_other_and_show_the_same_at_the_end(visit, slow):
    file, process = slow
    with served(file) as url:
        run_id = first_run(url)
        one, other = (visit(f"{url}/#/runs/{run_id}/live", reduced_motion=motion) for motion in ("no-preference", "reduce"))
        for page in (one, other):
            expect(page.get_by_role("button", name="Pause")).to_be_visible(timeout=20_000)
        assert other.locator(".dot.moving").count() > 0 and other.evaluate("document.getAnimations().length") == 0
        one.get_by_role("button", name="Pause").click()
        expect(other.get_by_role("button", name="Continue")).to_be_visible(timeout=20_000)
        # With keys alone: a trial is asked for, kept, and then stopped.
        stop = one.locator("#live-board tr", has_text="t01").get_by_role("button", name="Stop")
        stop.focus()
        one.keyboard.press("Enter")
        expect(one.get_by_role("button", name="Stop it")).to_be_focused()
        one.keyboard.press("Escape")
        expect(stop).to_be_focused()
        one.keyboard.press("Enter")
        one.keyboard.press("Enter")
        expect(other.locator("#acts")).to_contain_text("stop trial t01")
        # Both stop a trial, until one is left, which nobody can stop.
        for page, trial in ((other, "t02"), (one, "t03")):
            page.locator("#live-board tr", has_text=trial).get_by_role("button", name="Stop").click()
            page.get_by_role("button", name="Stop it").click()
            expect(page.locator("#acts")).to_contain_text(f"stop trial {trial}")
        expect(one.locator("#acts")).to_contain_text("t03 is the last trial")
        # Both set the budget within a moment, and one pauses while the other goes on.
        bodies = [{"act": "set_budget", "usd": 11}, {"act": "set_budget", "usd": 12}, {"act": "continue"}, {"act": "pause"}]
        threads = [threading.Thread(target=ask, args=(url, f"/api/runs/{run_id}/acts", body)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for page in (one, other):
            expect(page.locator("#acts tbody tr")).to_have_count(8)
            expect(page.locator("#acts .missing")).to_have_count(0, timeout=20_000)
        assert acts_of(one) == acts_of(other)
        assert one.locator("#spending tbody tr").first.inner_text().split()[2] == other.locator("#spending tbody tr").first.inner_text().split()[2]
        posted = ask(url, f"/api/runs/{run_id}/acts", {"act": "continue"})
        assert posted[0] == 200
        results = json.loads(process.communicate(timeout=120)[0])
        for page in (one, other):
            expect(page.get_by_text("finished").first).to_be_visible(timeout=20_000)
            expect(page.locator("#pause, #budget")).to_have_count(0)
        assert acts_of(one) == acts_of(other)
    numbers = [act["number"] for act in results["acts"]]
    assert numbers == list(range(1, 10)), "the run did all in one order"
    last_cap = next(act["act"]["usd"] for act in reversed(results["acts"]) if act["act"]["act"] == "set_budget")
    assert last_cap in (11, 12)
    # Trials that were stopped before their first score have no place in the results.
    assert [trial["trial"]["id"] for trial in results["trials"] if not trial["stopped"]] == ["t03"]
    assert [act["refused"] for act in results["acts"] if act["act"].get("trial") == "t03"] == [True]


def test_a_change_that_the_run_could_not_read_before_its_end_is_said(visit, zoo, url):
    run_id = zoo[1]["run"]
    live = json.loads(live_file(zoo[0].parent, run_id).read_text())
    live["now_ms"] = live["written_ms"]
    frames = [{**live, "state": "running"}]
    page = visit("about:blank")
    page.route("**/live", lambda route: route.fulfill(body=f"data: {json.dumps(frames[-1])}\n\n", content_type="text/event-stream"))
    page.route("**/acts", lambda route: route.fulfill(json={"number": 77}))
    go(page, url, f"#/runs/{run_id}/live")
    page.locator("#budget").fill("5")
    page.keyboard.press("Enter")
    expect(page.locator("#sent-acts")).to_contain_text("the run has not answered yet")
    frames.append(live)
    expect(page.locator("#sent-acts")).to_contain_text("the run ended before it read that", timeout=20_000)
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#sent-acts")).to_have_text("")
    assert ask(url, f"/api/runs/{run_id}/acts", {"act": "pause"})[0] == 409


def new_key(keys: Path, name: str, *scopes: str) -> str:
    flags = [flag for scope in scopes for flag in ("--scope", scope)]
    made = subprocess.run([PROGRAM, "keys", "new", name, *flags, "--file", keys, "--json"], capture_output=True, check=True)
    return json.loads(made.stdout)["key"]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def serve_at(file: Path, port: int, *options):
    """A server at a port, so that another one can take its place."""
    command = [PROGRAM, "ui", "-f", file, "--listen", f"127.0.0.1:{port}", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def test_pages_go_on_when_their_server_is_there_again_and_a_key_that_is_gone_is_asked_for(visit, zoo, tmp_path):
    keys, port = tmp_path / "keys.toml", free_port()
    only_look = new_key(keys, "ann", "ask")
    may_review = new_key(keys, "ben", "ask", "review")
    url = f"http://127.0.0.1:{port}"
    server = serve_at(zoo[0], port, "--keys", keys)
    try:
        pages = []
        for key in (only_look, may_review):
            page = visit(f"{url}/#/golden?id=bees")
            page.get_by_role("textbox", name="Key").fill(key)
            page.keyboard.press("Enter")
            expect(page.locator("#golden-heading")).to_have_text("bees")
            expect(page.get_by_role("button", name="Accept")).to_be_enabled()
            pages.append(page)
        looker, reviewer = pages
        # A key without the scope: the page says what is missing, and stays.
        looker.locator("#accept").click()
        expect(looker.locator(".open-question")).to_contain_text("lacks the scope `review`")
        server.terminate()
        server.wait(60)
        for page in pages:
            expect(page.locator("main")).to_contain_text("Decisions of others do not arrive at the moment", timeout=20_000)
        # It comes back without one of the keys.
        keys.write_text("".join(part for part in keys.read_text().replace("[[key]]", "\0[[key]]").split("\0") if 'name = "ben"' not in part))
        server = serve_at(zoo[0], port, "--keys", keys)
        expect(looker.locator("main")).not_to_contain_text("do not arrive", timeout=30_000)
        expect(reviewer.locator("form.key")).to_contain_text("The server did not accept this key", timeout=30_000)
        reviewer.get_by_role("textbox", name="Key").fill(only_look)
        reviewer.keyboard.press("Enter")
        expect(reviewer.locator("form.key")).to_have_count(0)
        expect(reviewer.locator("main")).not_to_contain_text("do not arrive", timeout=30_000)
    finally:
        server.terminate()
        server.wait(60)


def test_the_list_of_runs_says_that_it_may_be_old_and_is_new_again(visit, zoo):
    port = free_port()
    server = serve_at(zoo[0], port)
    try:
        page = visit(f"http://127.0.0.1:{port}/")
        expect(page.locator("#runs tbody tr")).to_have_count(1)
        server.terminate()
        server.wait(60)
        expect(page.locator(".problem")).to_contain_text("what you see may be old", timeout=20_000)
        expect(page.locator("#runs tbody tr")).to_have_count(1)
        server = serve_at(zoo[0], port)
        expect(page.locator(".problem")).to_have_count(0, timeout=20_000)
    finally:
        server.terminate()
        server.wait(60)
