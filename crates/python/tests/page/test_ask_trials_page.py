"""The page Ask of `reverie ui`, and golden questions that people add: from an answer, from a file. Questions that are
reopened."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from pages import PROGRAM, RETRIEVAL, SCORES, answering, ask, experiment, run, served
from reports import HOSTILE
from services import ScriptedModel

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

QUESTION = "How many bees does a hive hold in summer?"
REPLY = "It holds about forty thousand bees [1]."
# Playwright's limit for an answer, in milliseconds: the first question to a trial opens its indexes.
PATIENCE = 120_000


@pytest.fixture(scope="module")
def hive(tmp_path_factory):
    """An experiment that has run, whose trials ask a chat model: its file, its results, and the address of its pages."""
    model = ScriptedModel()
    model.script([REPLY])
    space, rest = answering(model)
    file = experiment(tmp_path_factory.mktemp("hive") / "hive", space=space, rest=rest)
    results = run(file)
    with served(file) as url:
        yield file, results, url
    model.shutdown()
    model.server_close()


def review_log(file: Path) -> list[dict]:
    """The decisions of the log of reviews."""
    path = file.parent / "golden.reviews.jsonl"
    return [line for line in map(json.loads, filter(None, path.read_text().splitlines())) if "decision" in line]


def introduce(page, name: str) -> None:
    """Says who is at the browser."""
    page.locator("#person-name").fill(name)
    page.keyboard.press("Enter")


def post_file(url: str, name: str, content: bytes):
    """The status and the answer of an import that is not a browser's."""
    address = f"{url}/api/golden/import?{urllib.parse.urlencode({'name': name, 'by': 'Ann'})}"
    request = urllib.request.Request(address, content, {"content-type": "application/octet-stream"})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_two_trials_answer_next_to_each_other_with_the_keyboard_alone(visit, hive):
    _, results, url = hive
    page = visit(f"{url}/#/ask?run={results['run']}")
    expect(page.locator("#ask-question")).to_be_focused()
    page.locator("#add-trial").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".ask-trials select")).to_have_count(2)
    page.locator("#ask-question").focus()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    answers = page.locator("section.answer")
    expect(answers).to_have_count(2, timeout=PATIENCE)
    expect(page.locator("#ask-note")).to_have_text("2 answers.")
    for answer in answers.all():
        expect(answer).to_contain_text(REPLY)
        expect(answer.locator("li.card").first).to_contain_text("[1] bees.txt")
        expect(answer).to_contain_text("tokens read")
    assert answers.nth(0).bounding_box()["y"] == answers.nth(1).bounding_box()["y"]
    page.set_viewport_size({"width": 360, "height": 800})
    assert answers.nth(0).bounding_box()["x"] == answers.nth(1).bounding_box()["x"]
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 1
    answers.first.get_by_role("button", name="Go to passage 1").press("Enter")
    expect(answers.first.locator("li.card").first).to_be_focused()
    assert "trials=t" in page.url and "q=How" in page.url


def test_the_first_trial_is_that_which_answers_for_the_run(visit, hive):
    _, results, url = hive
    page = visit(f"{url}/#/ask")
    selected = page.locator(".ask-trials select")
    expect(selected).to_have_count(1)
    assert selected.input_value() in [trial["trial"]["id"] for trial in results["trials"]]
    page.goto(f"{url}/#/runs/{results['run']}?trial=t02&question=eggs")
    page.get_by_role("link", name="Ask this trial").first.click()
    expect(page.locator("#ask-question")).to_have_value("How many eggs does the queen lay in a day?")
    assert page.locator(".ask-trials select").input_value() == "t02"


def test_a_trial_that_fails_does_not_hide_the_others(hive):
    _, results, url = hive
    status, answers = ask(url, f"/api/runs/{results['run']}/ask", {"question": QUESTION, "trials": ["t01", "t99"]})
    assert status == 200
    assert answers[0]["answer"]["answer"]["text"] == REPLY and answers[0]["error"] is None
    assert answers[1]["answer"] is None and "t99" in answers[1]["error"]


def crafted(trial: str, text: str) -> dict:
    """An answer as the server sends it."""
    passage = {"document": "bees.txt", "span": {"start": 0, "end": len(text)}, "text": text, "score": 1.0, "page": None, "book": None, "heading": text[:200], "rows": []}
    usage = {"prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 1}
    answer = {"text": text, "citations": [1, 9], "dropped_passages": 0, "calls": 1, "usage": usage, "seconds": 0.5}
    whole = {"run": "r", "run_time_ms": 0, "trial": {"id": trial, "labels": {"retriever": text[:50]}}, "question": QUESTION, "passages": [passage], "answer": answer}
    return {"trial": trial, "answer": whole, "error": None, "seconds": 0.5}


def test_hostile_and_huge_texts_are_texts(visit, hive):
    _, results, url = hive
    page = visit(f"{url}/#/ask?run={results['run']}&trials=t01,t02,t03")
    failed = {"trial": "t03", "answer": None, "error": HOSTILE, "seconds": 0.0}
    body = json.dumps([crafted("t01", HOSTILE), crafted("t02", "word " * 200_000), failed])
    page.route("**/api/runs/*/ask", lambda route: route.fulfill(content_type="application/json", body=body))
    page.locator("#ask-question").fill(HOSTILE)
    page.locator("#ask-button").click()
    expect(page.locator("section.answer")).to_have_count(3)
    expect(page.locator("#ask-note")).to_have_text("2 answers; 1 trial failed.")
    expect(page.locator("section.answer").first).to_contain_text("</script>")
    expect(page.locator("section.answer").nth(2).locator(".problem")).to_contain_text("This trial gave no answer")
    expect(page.get_by_role("button", name="Show 500,000 more").first).to_be_visible()
    assert page.title() == "Reverie: ask" and page.locator("main img").count() == 0


def test_a_question_that_is_left_is_answered_meanwhile(visit, hive):
    _, results, url = hive
    page = visit(f"{url}/#/ask?run={results['run']}&trials=t01")
    held = []
    page.route("**/api/runs/*/ask", lambda route: held.append(route))
    page.locator("#ask-question").fill(QUESTION)
    page.keyboard.press("Enter")
    expect(page.locator("#ask-note")).to_have_text("Asking t01…")
    expect(page.locator("#ask-button")).to_be_disabled()
    page.get_by_role("link", name="Golden", exact=True).click()
    expect(page.get_by_role("heading", name="Golden questions")).to_be_visible()
    held[0].fulfill(content_type="application/json", body=json.dumps([crafted("t01", "Later.")]))
    page.get_by_role("link", name="Ask", exact=True).click()
    expect(page.locator("section.answer")).to_contain_text("Later.")
    expect(page.locator("#ask-question")).to_have_value(QUESTION)
    # Whoever does not want to wait can ask again at once.
    page.locator("#ask-button").click()
    page.locator("#stop-asking").click()
    expect(page.locator("#ask-note")).to_contain_text("stopped waiting")
    expect(page.locator("#ask-button")).to_be_enabled()


def test_an_answer_becomes_a_golden_question(visit, hive):
    file, results, url = hive
    page = visit(f"{url}/#/ask?run={results['run']}&trials=t03")
    page.locator("#ask-question").fill("How full is a hive?")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Make this a golden question").click(timeout=PATIENCE)
    form = page.locator("#new-question")
    expect(form.get_by_label("Question", exact=True)).to_have_value("How full is a hive?")
    expect(form.locator("#new-question-reference")).to_have_value("It holds about forty thousand bees.")
    boxes = form.locator("input[type=checkbox]")
    assert [box.is_checked() for box in boxes.all()] == [True] + [False] * (boxes.count() - 1), "what is cited"
    introduce(page, "Ann")
    # A quote is refused that stands in no document, and the form keeps what was typed.
    quote = form.locator("li textarea").first
    quote.fill("A hive holds no bees.")
    form.locator("#add-question").click()
    expect(form.locator("#new-question-problem")).to_contain_text("cannot be found in")
    form.get_by_role("button", name="Take the whole passage again").click()
    form.locator("#add-question").click()
    link = page.locator("section.answer a[href^='#/golden']")
    expect(link).to_be_visible()
    name = link.inner_text()
    link.click()
    expect(page.locator("#golden-heading")).to_have_text(name)
    expect(page.locator(".open-question")).to_contain_text("How full is a hive?")
    expect(page.locator(".open-question .badge").first).to_have_text("open")
    (line,) = [line for line in review_log(file) if line["decision"]["decision"] == "add"]
    assert (line["by"], line["question"]) == ("Ann", name)
    evidence = line["decision"]["question"]["evidence"]
    assert [item["document"] for item in evidence] == ["bees.txt"] and evidence[0]["span"]
    # The file follows, and the terminal offers the question.
    expect(page.locator("#queue-count")).to_contain_text("7 questions")
    reviewed = subprocess.run([PROGRAM, "golden", "review", "golden.jsonl"], input="q\n" * 9, capture_output=True, text=True, check=True, cwd=file.parent)
    assert "of 7" in reviewed.stdout
    assert "How full is a hive?" in (file.parent / "golden.jsonl").read_text()


def test_a_golden_question_is_added_once_and_checked(hive):
    _, _, url = hive
    new = {"by": "Ann", "question": "Are there owls?", "reference": "Yes.", "id": "owls"}
    assert ask(url, "/api/golden/questions", new)[0] == 200
    status, said = ask(url, "/api/golden/questions", new)
    assert status == 409 and "owls" in said
    evidence = [{"document": "owls.txt", "quote": "Owls hunt at night."}]
    for wrong in ({"question": " "}, {"answerable": False, "evidence": evidence}, {"evidence": [{"document": "no.txt", "quote": "x"}]}, {"colour": "red"}):
        assert ask(url, "/api/golden/questions", {**new, "id": "", **wrong})[0] in (400, 422), wrong
    decision = {"id": "owls", "by": "Ann", "decision": {"decision": "add", "question": {"id": "x", "question": "x"}}}
    assert ask(url, "/api/golden/decisions", decision)[0] == 400


def test_a_file_is_imported_and_its_bad_line_is_named(visit, tmp_path):
    file = experiment(tmp_path / "import", space=RETRIEVAL, rest=SCORES)
    known = (file.parent / "golden.jsonl").read_text().splitlines()[0]
    lines = [known, '{"id": "broken", "question":', '{"id": "voles", "question": "Are there voles?"}']
    with served(file) as url:
        page = visit(f"{url}/#/golden")
        introduce(page, "Ann")
        page.locator("#import summary").click()
        page.locator("#import-file").set_input_files({"name": "more.jsonl", "mimeType": "application/jsonl", "buffer": "\n".join(lines).encode()})
        page.locator("#import-button").click()
        outcome = page.locator("#import-outcome")
        expect(outcome).to_contain_text("1 question added; 1 skipped, because it is there already; 1 line refused.")
        expect(outcome.locator("li")).to_contain_text("line 2: is not JSON")
        expect(page.locator("#queue-count")).to_contain_text("7 questions")
        # A file of which nothing can be read adds nothing, and neither does one that is too large.
        for name, content, wanted in (("a.jsonl", b"[\n{}\n]", 400), ("a.csv", b"query\nWho?\n", 400), ("a.jsonl", b"\n" * (20 * 2**20 + 1), 413)):
            status, said = post_file(url, name, content)
            assert status == wanted and said["error"]["message"], name
        assert "20 MB" in said["error"]["message"]
        assert post_file(url, "b.csv", b"id,question\nnewts,Are there newts?\n")[1]["added"] == 1
        assert len(ask(url, "/api/golden")[1]["questions"]) == 8
    assert [line["question"] for line in review_log(file)] == ["voles", "newts"]
    assert len((file.parent / "golden.jsonl").read_text().splitlines()) == 8


def test_the_first_question_makes_the_file(visit, tmp_path):
    file = experiment(tmp_path / "first", space=RETRIEVAL, rest=SCORES)
    (file.parent / "golden.jsonl").unlink()
    with served(file) as url:
        page = visit(f"{url}/#/golden")
        expect(page.get_by_text("There are no golden questions in")).to_be_visible()
        assert not (file.parent / "golden.reviews.jsonl").exists(), "looking makes no file"
        evidence = [{"document": "owls.txt", "quote": "Owls  hunt at night."}]
        status, line = ask(url, "/api/golden/questions", {"by": "Ann", "question": "When do owls hunt?", "evidence": evidence})
        assert status == 200
        page.reload()
        expect(page.locator("#queue-count")).to_contain_text("1 question")
    (question,) = [json.loads(text) for text in (file.parent / "golden.jsonl").read_text().splitlines()]
    assert question["id"] == line["question"]
    assert question["evidence"] == [{"document": "owls.txt", "quote": "Owls hunt at night.", "span": {"start": 0, "end": 19}}]


def test_an_accepted_question_is_opened_again(visit, tmp_path):
    file = experiment(tmp_path / "reopen", space=RETRIEVAL, rest=SCORES)
    with served(file) as url:
        assert ask(url, "/api/golden/decisions", {"id": "bees", "by": "Ben", "decision": {"decision": "accept"}})[0] == 200
        page = visit(f"{url}/#/golden?id=bees")
        introduce(page, "Ann")
        expect(page.locator("#reopen")).to_be_visible()
        page.locator("#golden-heading").focus()
        page.keyboard.press("o")
        expect(page.locator("#golden-note")).to_have_text("You have reopened bees.")
        expect(page.locator(".open-question .badge").first).to_have_text("open")
        expect(page.locator("#reopen")).to_have_count(0)
        expect(page.locator(".history")).to_contain_text("Ann reopened it")
        # Undone, it is accepted again; and an accepted question that is undone is open again.
        page.keyboard.press("z")
        expect(page.locator("#reopen")).to_be_visible()
        page.locator("#reopen").click()
        expect(page.locator("#reopen")).to_have_count(0)
        page.keyboard.press("a")
        expect(page.locator("#golden-note")).to_contain_text("You have accepted bees.")
        page.keyboard.press("z")
        expect(page.locator("#golden-note")).to_contain_text("Undone")
        states = {question["id"]: question["state"] for question in ask(url, "/api/golden")[1]["questions"]}
        assert set(states.values()) == {"open"}
    decisions = [line["decision"]["decision"] for line in review_log(file)]
    assert decisions == ["accept", "reopen", "accept", "reopen", "accept", "reopen"]
    assert "accepted" not in (file.parent / "golden.jsonl").read_text()


def test_whoever_may_only_look_is_told_why_no_trial_answers(visit, hive, tmp_path):
    file, results, _ = hive
    keys = tmp_path / "keys.toml"
    command = [PROGRAM, "keys", "new", "ann", "--scope", "ask", "--file", keys, "--json"]
    key = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["key"]
    with served(file, "--keys", keys) as url:
        page = visit(f"{url}/#/ask?run={results['run']}&trials=t01")
        page.get_by_role("textbox", name="Key").fill(key)
        page.keyboard.press("Enter")
        page.locator("#ask-question").fill(QUESTION)
        page.keyboard.press("Enter")
        expect(page.locator("#ask-problem")).to_contain_text("scope “admin”")
        assert ask(url, f"/api/runs/{results['run']}/ask", {"question": QUESTION, "trials": ["t01"]})[0] == 401
        bearer = {"authorization": f"Bearer {key}"}
        assert ask(url, "/api/golden/questions", {"question": QUESTION}, **bearer)[0] == 403
