"""The pages of `reverie ui` as people use them: a finished run, a run that goes on and is steered, golden questions that
three people review, documents with their chunks."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from pages import PROGRAM, RETRIEVAL, SCORES, answering, ask, experiment, run, served
from workspace import ROOT, Provider

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def zoo(tmp_path_factory) -> tuple[Path, dict]:
    """An experiment that has run: its file and its results."""
    file = experiment(tmp_path_factory.mktemp("zoo") / "zoo", space=RETRIEVAL, rest=SCORES)
    return file, run(file)


@pytest.fixture(scope="module")
def url(zoo):
    with served(zoo[0]) as url:
        yield url


def test_runs_lead_to_their_leaderboard_which_says_what_the_results_say(visit, url, zoo):
    page = visit(url)
    page.get_by_role("link", name="zoo", exact=True).first.click()
    expect(page.locator("#board tbody tr[data-id]")).to_have_count(4)
    shown = page.locator("#board tbody tr[data-id]").evaluate_all("rows => rows.map(row => row.dataset.id)")
    assert shown == [trial["trial"]["id"] for trial in zoo[1]["trials"]]
    page.locator("#questions tbody button", has_text="largest").click()
    expect(page.locator("#question mark").first).to_contain_text("The eagle owl is the largest owl")
    page.go_back()
    expect(page.locator("#question-heading")).to_have_text("One question")


def test_a_tick_in_the_matrix_opens_that_trial_and_question(visit, url, zoo):
    page = visit(f"{url}/#/runs/{zoo[1]['run']}")
    page.locator("#matrix-heading").scroll_into_view_if_needed()
    matrix = page.locator("#matrix [role=application]")
    matrix.scroll_into_view_if_needed()
    matrix.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#question-heading")).not_to_have_text("One question")


def test_without_scripts_the_leaderboard_stands_there(visit, url, zoo):
    page = visit(url, java_script_enabled=False)
    assert page.locator("th[scope=row]").all_inner_texts() == [trial["trial"]["id"] for trial in zoo[1]["trials"]]


def test_pages_of_other_origins_and_names_that_leave_the_folder_are_refused(url, zoo):
    run_id = zoo[1]["run"]
    assert ask(url, "/api/runs", **{"origin": "https://evil.example"})[0] == 403
    assert ask(url, "/api/runs", **{"host": "evil.example"})[0] == 403
    assert ask(url, f"/api/runs/{run_id}/acts", {"act": "pause"}, **{"origin": "https://evil.example"})[0] == 403
    assert ask(url, "/api/golden/decisions", {}, **{"origin": "null"})[0] == 403
    assert ask(url, "/api/runs/..%2f..%2fetc/overview")[0] == 404
    assert ask(url, f"/api/runs/{run_id}/parts/..%2fresults")[0] == 404
    assert ask(url, "/api/documents/text?path=..%2Fexperiment.toml")[0] == 404
    status, said = ask(url, f"/api/runs/{run_id}/acts", {"act": "pause"})
    assert status == 409 and "no process is at work" in said
    assert ask(url, f"/api/runs/{run_id}/acts", {"act": "explode"})[0] in (400, 409)


def test_whoever_lacks_a_key_is_asked_for_one(visit, zoo, tmp_path):
    keys = tmp_path / "keys.toml"
    made = [
        json.loads(subprocess.run([PROGRAM, "keys", "new", name, "--scope", scope, "--file", keys, "--json"], capture_output=True, check=True).stdout)
        for name, scope in (("ann", "ask"), ("ben", "review"))
    ]  # fmt: skip
    with served(zoo[0], "--keys", keys) as url:
        assert ask(url, "/api/runs")[0] == 401
        page = visit(url)
        page.get_by_role("textbox", name="Key").fill(made[0]["key"])
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="zoo", exact=True).first).to_be_visible()
        bearer = {"authorization": f"Bearer {made[0]['key']}"}
        decision = {"id": "bees", "decision": {"decision": "comment", "text": "well"}}
        assert ask(url, "/api/golden/decisions", decision, **bearer)[0] == 403, "a key to look is none to decide"
        bearer = {"authorization": f"Bearer {made[1]['key']}"}
        status, line = ask(url, "/api/golden/decisions", {**decision, "by": "somebody else"}, **bearer)
        assert (status, line["by"]) == (200, "ben"), "the key says who decides"


@pytest.fixture
def slow(tmp_path):
    """A run that takes a while: its file, and the process that runs it."""
    provider = Provider(latency={"constant": {"seconds": 0.2}})
    space, rest = answering(provider)
    file = experiment(tmp_path / "slow", repeats=20, space=space, rest=rest)
    command = [PROGRAM, "run", "-f", file, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield file, process
    process.kill()
    process.communicate()
    provider.stop()


def test_a_run_is_watched_and_steered_while_it_goes_on(visit, slow):
    file, process = slow
    with served(file) as url:
        page = visit(url)
        live = page.get_by_role("link", name="zoo", exact=True).first
        expect(live).to_be_visible(timeout=20_000)
        run_id = ask(url, "/api/runs")[1]["runs"][0]["run"]
        page.goto(f"{url}/#/runs/{run_id}/live")
        expect(page.get_by_role("row", name="generate").first).to_be_visible(timeout=20_000)
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text("paused").first).to_be_visible()
        # Another browser sees the same, and says who acts.
        other = visit(f"{url}/#/runs/{run_id}/live")
        expect(other.get_by_text("paused").first).to_be_visible()
        assert ask(url, f"/api/runs/{run_id}/acts", {"act": "stop_trial", "trial": "t02", "by": "Ben"})[0] == 200
        expect(page.get_by_text("Ben").first).to_be_visible()
        expect(page.get_by_text("stopped").first).to_be_visible()
        assert ask(url, f"/api/runs/{run_id}/acts", {"act": "set_budget", "usd": 12})[0] == 200
        assert ask(url, f"/api/runs/{run_id}/acts", {"act": "set_limit", "model": "chat sim", "concurrency": 32})[0] == 200
        expect(other.get_by_text("$12.00").first).to_be_visible()
        page.get_by_role("button", name="Continue").click()
        results = json.loads(process.communicate(timeout=120)[0])
        expect(page.get_by_text("finished").first).to_be_visible(timeout=20_000)
    acts = [act["act"]["act"] for act in results["acts"]]
    assert acts == ["pause", "stop_trial", "set_budget", "set_limit", "continue"]
    assert {act["by"] for act in results["acts"]} >= {"Ben"}
    stopped = [trial for trial in results["trials"] if trial["stopped"]]
    assert all(trial["trial"]["id"] == "t02" and trial["group"] is None for trial in stopped)


def test_a_trial_is_added_on_the_page_which_follows_the_run(visit, slow):
    file, process = slow
    with served(file) as url:
        page = visit(url)
        expect(page.get_by_role("link", name="zoo", exact=True).first).to_be_visible(timeout=20_000)
        run_id = ask(url, "/api/runs")[1]["runs"][0]["run"]
        page.goto(f"{url}/#/runs/{run_id}/live")
        expect(page.locator("#copied-trial")).to_be_visible(timeout=20_000)
        page.locator("#copied-trial").select_option("t02")
        page.locator("#copied-setting").fill("retriever.bm25.top_k")
        expect(page.locator("#add-trial .hint")).to_have_text("t02 has 2.")
        page.locator("#copied-value").fill("5")
        page.keyboard.press("Enter")
        expect(page.locator("#acts")).to_contain_text("t04 is added", timeout=20_000)
        page.get_by_role("link", name="zoo-").click(timeout=60_000)
        expect(page.locator("#live-board tbody tr")).to_have_count(4)
        expect(page.locator("#live-board")).to_contain_text("t04")
        results = json.loads(process.communicate(timeout=120)[0])
    assert results["run"] != run_id
    added = next(trial for trial in results["trials"] if trial["trial"]["id"] == "t04")
    assert added["trial"]["retriever"]["bm25"]["top_k"] == 5


def test_a_run_that_was_killed_is_called_stalled_or_cut_off_and_not_running(slow):
    file, process = slow
    with served(file) as url:
        for _ in range(200):
            runs = ask(url, "/api/runs")[1]["runs"]
            if runs and runs[0]["state"] == "running":
                break
            time.sleep(0.1)
        assert runs[0]["state"] == "running"
        process.kill()
        for _ in range(400):
            state = ask(url, "/api/runs")[1]["runs"][0]["state"]
            if state != "running":
                break
            time.sleep(0.1)
        assert state == "stalled"
        assert ask(url, f"/api/runs/{runs[0]['run']}/acts", {"act": "pause"})[0] == 409


def begin_review(page, name: str):
    """Says who reviews, and opens the first question that waits."""
    page.locator("#person-name").fill(name)
    page.keyboard.press("Enter")
    page.locator("#start-review").click()
    expect(page.locator("#golden-heading")).not_to_have_text("No question is open")


def states(url: str) -> dict[str, str]:
    """How far the review of each question is."""
    return {question["id"]: question["state"] for question in ask(url, "/api/golden")[1]["questions"]}


def test_three_people_review_sixty_questions_and_one_is_killed(visit, tmp_path):
    file = experiment(tmp_path / "review", repeats=10, space=RETRIEVAL, rest=SCORES)
    with served(file) as url:
        pages = {name: visit(f"{url}/#/golden") for name in ("Ann", "Ben", "Cem")}
        begun, decided, turn = time.monotonic(), 0, 0
        for name, page in pages.items():
            begin_review(page, name)
        # Nobody keeps a question that somebody else has opened at the same moment.
        pages["Ann"].wait_for_timeout(2000)
        opened = [page.locator("#golden-heading").inner_text() for page in pages.values()]
        assert len(set(opened)) == 3, opened
        while any(state == "open" for state in states(url).values()):
            assert time.monotonic() - begun < 600
            name, page = list(pages.items())[turn % len(pages)]
            turn += 1
            heading = page.locator("#golden-heading")
            question = heading.inner_text()
            if states(url).get(question) != "open":
                # The rest is open at other pages, one of which is gone: its questions come back after a while.
                page.goto(f"{url}/#/golden")
                if page.locator("#start-review").is_visible():
                    page.locator("#start-review").click()
                page.wait_for_timeout(500)
                continue
            expect(page.get_by_role("button", name="Accept")).to_be_enabled()
            page.keyboard.press("r" if decided % 10 == 9 else "a")
            for _ in range(100):
                if states(url)[question] != "open":
                    break
                page.wait_for_timeout(50)
            decided += 1
            page.wait_for_timeout(100)
            if decided == 30:
                # Her browser dies in the middle of it.
                pages.pop("Cem").context.close()
        print(f"{decided} decisions in {time.monotonic() - begun:.0f} s")
    log = [json.loads(line) for line in (file.parent / "golden.reviews.jsonl").read_text().splitlines() if line]
    decisions = [line for line in log if "decision" in line]
    assert decided == 60 and len({line["question"] for line in decisions}) == 60, "each once, none lost"
    assert set(Counter(line["by"] for line in decisions)) == {"Ann", "Ben", "Cem"}
    kept = [json.loads(line) for line in (file.parent / "golden.jsonl").read_text().splitlines()]
    assert len(kept) == 54 and all(question["review"] == "accepted" for question in kept)
    # A second opinion of some, and the agreement.
    with served(file) as url:
        for number, question in enumerate(kept[:12]):
            verdict = "reject" if number < 2 else "accept"
            body = {"id": question["id"], "by": "Dan", "decision": {"decision": verdict}}
            assert ask(url, "/api/golden/decisions", body)[0] == 200
        agreement = ask(url, "/api/golden")[1]["agreement"]
        assert (agreement["questions"], len(agreement["conflicts"])) == (12, 2)
        assert agreement["agreement"]["observed"] == pytest.approx(10 / 12)
        page = visit(f"{url}/#/golden")
        expect(page.get_by_text("agreement 83 %").first).to_be_visible()


def test_a_question_is_free_again_when_the_browser_that_had_it_open_is_gone(visit, tmp_path):
    file = experiment(tmp_path / "gone", space=RETRIEVAL, rest=SCORES)
    with served(file) as url:
        first, *rest = [question["id"] for question in ask(url, "/api/golden")[1]["questions"]]
        for question in rest:
            assert ask(url, "/api/golden/decisions", {"id": question, "by": "Ben", "decision": {"decision": "accept"}})[0] == 200
        # A browser that says where it is, and then never anything again.
        assert ask(url, "/api/golden/present", {"by": "Cem", "id": first})[0] == 200
        page = visit(f"{url}/#/golden")
        page.locator("#person-name").fill("Ann")
        page.keyboard.press("Enter")
        page.locator("#start-review").click()
        expect(page.locator("#golden-note")).to_contain_text("Other people have the rest")
        expect(page.locator("#golden-heading")).to_have_text("No question is open")
        # The page is told when it is over, and the question is offered then.
        with page.expect_response("**/api/golden?*", timeout=40_000):
            pass
        page.locator("#start-review").click()
        expect(page.locator("#golden-heading")).to_have_text(first)


def test_ten_reviewers_at_once_lose_no_decision(tmp_path):
    file = experiment(tmp_path / "ten", repeats=40, space=RETRIEVAL, rest=SCORES)
    with served(file) as url:
        ids = [question["id"] for question in ask(url, "/api/golden")[1]["questions"]]
        times, failures = [], []

        def review(name: str, mine: list[str]) -> None:
            for question in mine:
                begun = time.perf_counter()
                status, said = ask(url, "/api/golden/decisions", {"id": question, "by": name, "seen": 0, "decision": {"decision": "accept"}})
                times.append(time.perf_counter() - begun)
                if status != 200:
                    failures.append(said)

        threads = [threading.Thread(target=review, args=(f"r{i}", ids[i::10])) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
    lines = [json.loads(line) for line in (file.parent / "golden.reviews.jsonl").read_text().splitlines() if line]
    assert len({line["question"] for line in lines if "decision" in line}) == 240
    assert (file.parent / "golden.jsonl").read_text().count('"accepted"') == 240


def test_a_document_shows_the_chunks_of_each_chunker(visit, url, zoo):
    page = visit(f"{url}/#/documents?path=owls.txt")
    expect(page.locator("mark", has_text="The eagle owl is the largest owl of Europe.")).to_be_visible()
    page.get_by_label("Chunks of").select_option(index=1)
    expect(page.get_by_role("button", name="First chunk")).to_be_visible()
    chunked = ask(url, f"/api/runs/{zoo[1]['run']}/document?path=owls.txt")[1]
    assert len(chunked["chunkers"]) == 2 and all(chunker["chunks"] for chunker in chunked["chunkers"])
    text = (zoo[0].parent / "documents" / "owls.txt").read_bytes()
    for chunker in chunked["chunkers"]:
        spans = [chunk["span"] for chunk in chunker["chunks"]]
        assert all(text[span["start"] : span["end"]].decode() for span in spans), "borders are at whole letters"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_no_page_has_a_serious_finding_of_axe(visit, url, zoo, scheme, width):
    if not AXE.exists():
        pytest.fail(f"{AXE} is not there: it comes with the packages of web/")
    run_id = zoo[1]["run"]
    for address in ("", f"#/runs/{run_id}", f"#/runs/{run_id}/live", f"#/ask?run={run_id}", "#/golden", "#/documents", "#/documents?path=owls.txt"):
        page = visit(f"{url}/{address}", color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True)
        expect(page.locator("main").first).to_be_visible()
        page.wait_for_load_state("networkidle") if "live" not in address and "golden" not in address else page.wait_for_timeout(1500)
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        bad = [f"{it['id']}: {it['nodes'][0]['html']}" for it in found["violations"] if it["impact"] in ("serious", "critical")]
        assert bad == [], address
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 1, f"{address} is wider than {width} pixels"
