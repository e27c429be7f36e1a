"""Votes between two answers, and labels for judges, as people give them on the pages of `reverie ui`."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import zlib
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from pages import PROGRAM, answering, ask, experiment, run, served
from workspace import ROOT, Endpoint, Handler, Provider

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
KEYS = {"ArrowLeft": "left", "ArrowRight": "right", "=": "both_good", "b": "both_bad", "s": "skip"}


class Writer(Handler):
    """Answers as its model, but to questions about fur as all models do."""

    def do_GET(self) -> None:
        """Lists no models."""
        self.answer(200, {"data": []})

    def do_POST(self) -> None:
        """Writes an answer to a question."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked = body["messages"][-1]["content"]
        text = "In no direction." if "fur lie?" in asked else f"{body['model']} says {zlib.crc32(asked.encode())}."
        usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
        self.answer(
            200,
            {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}], "usage": usage},
        )


@pytest.fixture(scope="module")
def answered(tmp_path_factory) -> tuple[Path, dict]:
    """An experiment of three trials that answered eighteen questions: its file and its results."""
    endpoint = Endpoint(Writer)
    endpoint.start()
    models = ("amber", "birch", "cedar")
    space = (
        "chunker = [{ sentence = { chunk_size = 32, chunk_overlap = 0 } }]\nretriever = [{ bm25 = { top_k = 2 } }]\n"
        f"generator = [{', '.join(f'{{ compact = {{ model = {json.dumps(name)} }} }}' for name in models)}]"
    )
    rest = "".join(
        f'[models.{name}]\nchat.openai = {{ model = "{name}", base_url = "{endpoint.url}/v1" }}\n' for name in models
    )
    rest += '[evaluate]\nmetrics = ["recall", "token_f1"]\nobjective = ["token_f1"]'
    file = experiment(tmp_path_factory.mktemp("votes") / "votes", repeats=3, space=space, rest=rest)
    results = run(file)
    endpoint.shutdown()
    endpoint.server_close()
    return file, results


@pytest.fixture
def fresh(answered):
    """The same experiment without votes."""
    log = answered[0].parent / "votes.jsonl"
    log.unlink(missing_ok=True)
    return answered


def votes(file: Path) -> list[dict]:
    """The lines of the log."""
    log = file.parent / "votes.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines() if line] if log.exists() else []


def answers(results: dict) -> dict[str, dict[str, str]]:
    """By question: the text of each trial's answer."""
    texts: dict[str, dict[str, str]] = {}
    for trial in results["trials"]:
        for row in trial["questions"]:
            texts.setdefault(row["question"], {})[trial["trial"]["id"]] = row["answer"]["text"].strip()
    return texts


def name_yourself(page, name: str) -> None:
    """Says who votes, with the keyboard alone."""
    page.locator("#person-name").focus()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.locator("#left-answer")).to_be_visible()


def test_a_person_votes_with_the_keyboard_alone_and_sees_no_trial(visit, fresh):
    file, results = fresh
    with served(file) as url:
        page = visit(f"{url}/#/votes?run={results['run']}")
        expect(page.get_by_role("link", name="Votes")).to_have_attribute("aria-current", "page")
        name_yourself(page, "Ann")
        trials = [trial["trial"]["id"] for trial in results["trials"]]
        texts = answers(results)
        by_words = {question["question"]: question["id"] for question in results["questions"]}
        shown = []
        for number, (key, verdict) in enumerate(KEYS.items(), 1):
            question = by_words[page.locator("#vote-question").inner_text()]
            left, right = (page.locator(f"#{side}-answer").inner_text() for side in ("left", "right"))
            assert left != right
            section = page.locator("section", has=page.locator("#vote-heading")).inner_text()
            assert not any(trial in section for trial in trials), section
            shown.append((question, left, right))
            with page.expect_response("**/votes/next*"):
                page.keyboard.press(key)
            expect(page.locator("#vote-progress")).to_contain_text(f"{min(number, 4)} by you")
            line = votes(file)[-1]
            assert (line["number"], line["by"], line["question"], line["verdict"]) == (number, "Ann", question, verdict)
            on_left = line["trial_a"] if line["side_a"] == "left" else line["trial_b"]
            assert texts[question][on_left] == left.strip()
            assert line["trial_a"] != line["trial_b"] and line["seconds"] >= 0
        assert len(set(shown)) == 5, "nothing is asked twice"
        # The reference is folded, and the last pair can be voted on again.
        assert page.locator("details.reference").get_attribute("open") is None
        page.keyboard.press("z")
        expect(page.locator("#vote-question")).to_have_text(results_question(results, shown[-1][0]))
        page.locator("#reveal").check()
        with page.expect_response("**/votes/next*"):
            page.keyboard.press("ArrowLeft")
        expect(page.locator("#vote-note")).to_contain_text("Left was t0")
        last = votes(file)[-1]
        assert (last["question"], last["verdict"]) == (shown[-1][0], "left")
        assert ask(url, f"/api/runs/{results['run']}/votes")[1]["votes"] == 5, "the vote replaces the skip"


def results_question(results: dict, name: str) -> str:
    """The words of a question."""
    return next(question["question"] for question in results["questions"] if question["id"] == name)


def test_a_key_that_is_held_and_text_that_is_typed_are_no_votes(visit, fresh):
    file, results = fresh
    with served(file) as url:
        page = visit(f"{url}/#/votes?run={results['run']}")
        page.locator("#person-name").focus()
        page.keyboard.type("bs=")
        assert votes(file) == []
        page.keyboard.press("Enter")
        expect(page.locator("#left-answer")).to_be_visible()
        held = "dispatchEvent(new KeyboardEvent('keydown', { key: 'b', bubbles: true, repeat: true }))"
        page.evaluate(f"for (let i = 0; i < 5; i++) document.body.{held}")
        page.get_by_label("Use single letters as commands").uncheck()
        page.locator("h1").click()
        page.keyboard.press("b")
        page.wait_for_timeout(300)
        assert votes(file) == []
        page.get_by_role("button", name="Both are bad").click()
        expect(page.locator("#vote-progress")).to_contain_text("1 by you")
        page.get_by_label("Use single letters as commands").check()


def vote_on_all(url: str, run_id: str, by: str, choose) -> int:
    """Votes by the API until nothing is left. `choose` gets the question and both texts."""
    number = 0
    while True:
        status, found = ask(url, f"/api/runs/{run_id}/votes/next?by={by}")
        assert status == 200, found
        ballot = found["ballot"]
        if ballot is None:
            assert found["progress"]["left"] == 0
            return number
        verdict = choose(ballot["question"]["id"], ballot["left"]["text"], ballot["right"]["text"])
        body = {"by": by, "question": ballot["question"]["id"], "verdict": verdict, "seconds": 1.5}
        body |= {side: ballot[side]["digest"] for side in ("left", "right")}
        status, recorded = ask(url, f"/api/runs/{run_id}/votes", body)
        assert status == 200, recorded
        number += 1


def test_the_standing_is_the_same_on_the_page_and_in_the_terminal(visit, fresh, tmp_path):
    file, results = fresh
    run_id, texts = results["run"], answers(results)
    pairs = {
        name: {frozenset(two) for two in combinations(of.values(), 2) if len(set(two)) == 2}
        for name, of in texts.items()
    }
    equal = sum(one == other for of in texts.values() for one, other in combinations(of.values(), 2))
    assert equal == 9, "three pairs of trials, three questions about fur"

    def prefers_first(question: str, left: str, right: str) -> str:
        first = texts[question]["t01"]
        return "left" if left == first else "right" if right == first else "both_good"

    with served(file) as url:
        for by in ("Ann", "Ben"):
            assert vote_on_all(url, run_id, by, prefers_first) == sum(len(two) for two in pairs.values())
        standing = ask(url, f"/api/runs/{run_id}/votes")[1]
        assert standing["people"] == dict.fromkeys(("Ann", "Ben"), standing["votes"] // 2)
        assert standing["equal"] == equal
        best = standing["trials"][0]
        assert best["trial"] == "t01" and best["preference"]["share"] == 1.0
        assert best["preference"]["interval"]["low"] < 1.0
        differs = {(pair["first"], pair["second"]): pair["differs"] for pair in standing["pairs"]}
        assert differs == {("t01", "t02"): True, ("t01", "t03"): True, ("t02", "t03"): False}
        assert all(pair["equal"] == 3 for pair in standing["pairs"])
        assert standing["agreement"]["observed"] == 1.0 and standing["agreement"]["n"] == standing["votes"] // 2
        page = visit(f"{url}/#/votes?run={run_id}")
        page.locator("#person-name").fill("Ann")
        page.keyboard.press("Enter")
        expect(page.locator("#nothing-left")).to_contain_text("You have seen all pairs")
        page.get_by_text("Standing of the trials").click()
        expect(page.locator("#standing")).to_contain_text("t01 is preferred")
        expect(page.locator("#vote-agreement")).to_contain_text("voted alike in 100 %")
        expect(page.locator("#side-bias")).to_contain_text("left answer won")
    shown = subprocess.run([PROGRAM, "votes", "-f", file, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(shown.stdout) == standing
    table = subprocess.run(
        [PROGRAM, "votes", "-f", file, "--run", run_id], capture_output=True, text=True, check=True
    ).stdout
    assert "t01 is preferred" in table and "Ann" in table
    exported = tmp_path / "exported.jsonl"
    command = [PROGRAM, "votes", "-f", file, "--export", exported]
    subprocess.run(command, capture_output=True, check=True)
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert len(lines) == standing["votes"]
    assert set(lines[0]) == {"question", "answer_a", "answer_b", "winner", "by"}
    assert {line["winner"] for line in lines} <= {"a", "b", "tie"}
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 2 and "--yes" in again.stderr


def test_few_votes_give_no_number(visit, fresh):
    file, results = fresh
    with served(file) as url:
        page = visit(f"{url}/#/votes?run={results['run']}")
        name_yourself(page, "Ann")
        with page.expect_response("**/votes/next*"):
            page.keyboard.press("ArrowLeft")
        page.get_by_text("Standing of the trials").click()
        expect(page.locator("#standing table").first).to_contain_text("too few votes to tell")
        expect(page.locator("#side-bias")).to_contain_text("too few votes to tell")
    table = subprocess.run([PROGRAM, "votes", "-f", file], capture_output=True, text=True, check=True).stdout
    assert "too few votes to tell" in table


def test_two_servers_at_once_and_a_kill_lose_no_vote(fresh):
    file, results = fresh
    run_id = results["run"]
    command = [PROGRAM, "ui", "-f", file, "--listen", "127.0.0.1:0", "--json"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        urls = [json.loads(process.stdout.readline())["url"] for process in processes]
        confirmed = []

        def vote(url: str, by: str) -> None:
            for _ in range(12):
                ballot = ask(url, f"/api/runs/{run_id}/votes/next?by={by}")[1]["ballot"]
                body = {"by": by, "question": ballot["question"]["id"], "verdict": "left", "seconds": 1}
                body |= {side: ballot[side]["digest"] for side in ("left", "right")}
                confirmed.append(ask(url, f"/api/runs/{run_id}/votes", body)[1]["number"])

        threads = [threading.Thread(target=vote, args=(urls[i % 2], f"p{i}")) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert sorted(confirmed) == list(range(1, 49))
    assert sorted(line["number"] for line in votes(file)) == sorted(confirmed)
    with (file.parent / "votes.jsonl").open("a") as log:
        log.write('{"number": 99, "ti')
    with served(file) as url:
        assert ask(url, f"/api/runs/{run_id}/votes")[1]["votes"] == 48
        vote_on_all(url, run_id, "p9", lambda *_: "both_bad")
        by = Counter(line["by"] for line in map(parsed, (file.parent / "votes.jsonl").read_text().splitlines()) if line)
        assert by["p0"] == 12 and by["p9"] > 0


def parsed(line: str) -> dict | None:
    """A line of the log; none for half a line."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def test_requests_that_cannot_be_right_are_refused(fresh):
    file, results = fresh
    with served(file) as url:
        path = f"/api/runs/{results['run']}/votes"
        assert ask(url, f"{path}/next")[0] == 400
        assert ask(url, "/api/runs/..%2f../votes")[0] == 404
        ballot = ask(url, f"{path}/next?by=Ann")[1]["ballot"]
        body = {"by": "Ann", "question": ballot["question"]["id"], "verdict": "left", "seconds": 1}
        body |= {side: ballot[side]["digest"] for side in ("left", "right")}
        for change in ({"by": " "}, {"question": "none"}, {"left": body["right"]}, {"left": "0" * 64}, {"seconds": -1}):
            assert ask(url, path, body | change)[0] == 400, change
        assert ask(url, path, body | {"verdict": "best"})[0] in (400, 422)
        assert ask(url, path, body, origin="https://evil.example")[0] == 403
    assert votes(file) == []


def test_a_key_to_look_is_none_to_vote(fresh, tmp_path):
    file, results = fresh
    keys = tmp_path / "keys.toml"
    made = {
        name: json.loads(subprocess.run([PROGRAM, "keys", "new", name, *scopes, "--file", keys, "--json"], capture_output=True, check=True).stdout)["key"]
        for name, scopes in (("ann", ["--scope", "ask"]), ("ben", ["--scope", "ask", "--scope", "review"]))
    }  # fmt: skip
    path = f"/api/runs/{results['run']}/votes"
    with served(file, "--keys", keys) as url:
        bearer = {name: {"authorization": f"Bearer {key}"} for name, key in made.items()}
        ballot = ask(url, f"{path}/next", **bearer["ann"])[1]["ballot"]
        body = {"by": "somebody else", "question": ballot["question"]["id"], "verdict": "left", "seconds": 1}
        body |= {side: ballot[side]["digest"] for side in ("left", "right")}
        assert ask(url, path, body, **bearer["ann"])[0] == 403
        status, recorded = ask(url, path, body, **bearer["ben"])
        assert (status, recorded["by"]) == (200, "ben"), "the key says who votes"
        labels = f"/api/labels?run={results['run']}&question=bees"
        assert [ask(url, labels, **bearer[name])[0] for name in ("ann", "ben")] == [403, 200]


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> tuple[Path, dict]:
    """An experiment whose answers were judged: its file and its results."""
    provider = Provider()
    space, rest = answering(provider)
    rest = rest.replace(
        'metrics = ["recall", "token_f1"]',
        'judge = "gpt"\nmetrics = ["recall", "token_f1", "context_precision", "faithfulness"]',
    )
    file = experiment(tmp_path_factory.mktemp("judged") / "judged", space=space, rest=rest)
    results = run(file)
    provider.stop()
    return file, results


def test_a_verdict_that_a_person_labels_becomes_a_case_for_judges(visit, judged):
    file, results = judged
    trial = next(trial for trial in results["trials"] if trial["trial"]["id"] == "t03")
    rows = [
        row for row in trial["questions"] if (row["scores"]["context_precision"].get("detail") or {}).get("passages")
    ]
    row = next(
        row for row in rows if row["scores"]["context_precision"]["detail"]["passages"][0]["verdict"] is not None
    )
    items = row["scores"]["context_precision"]["detail"]["passages"]
    log = file.parent / "judge.labels.jsonl"
    with served(file) as url:
        page = visit(f"{url}/#/runs/{results['run']}?trial=t03&question={row['question']}")
        verdicts = page.locator("#question .verdicts")
        entry = verdicts.locator("dt", has_text=re.compile("context.precision")).locator(
            "xpath=following-sibling::dd[1]"
        )
        entry.locator("summary", has_text="how it came about").first.focus()
        page.keyboard.press("Enter")
        first = entry.get_by_role("group", name="passages 1")
        first.get_by_role("button", name="wrong").focus()
        page.keyboard.press("Enter")
        # The name is asked for once, and the label is sent with it.
        assert not log.exists()
        page.locator("#person-name").focus()
        page.keyboard.type("Ann")
        page.keyboard.press("Enter")
        expect(first.get_by_role("button", name="wrong")).to_have_attribute("aria-pressed", "true")
        expect(first).to_contain_text("1 wrong")
        line = json.loads(log.read_text().strip())
        case = line["case"]
        assert (line["by"], line["is_right"], case["kind"]) == ("Ann", False, "relevant")
        assert case["label"] is not items[0]["verdict"]
        assert case["item"] == row["passages"][0]["text"]
        assert case["against"] == next(
            question["reference"] for question in results["questions"] if question["id"] == row["question"]
        )
        # She thinks again.
        first.get_by_role("button", name="right").click()
        expect(first).to_contain_text("1 right")
        expect(page.locator("#judge-labels")).to_contain_text("gpt: people agree with 1 of 1 verdict (100 %)")
        # Another person sees the labels, and verdicts without a case have no buttons.
        place = {
            "run": results["run"],
            "question": row["question"],
            "trial": "t03",
            "metric": "context_precision",
            "list": "passages",
            "item": 0,
        }
        assert ask(url, "/api/labels", place | {"by": "Ben", "is_right": False})[0] == 200
        assert ask(url, "/api/labels", place | {"by": "Ben", "is_right": True, "item": 99})[0] == 400
        assert ask(url, "/api/labels", place | {"by": "Ben", "is_right": True, "metric": "recall"})[0] == 400
        found = ask(url, f"/api/labels?run={results['run']}&question={row['question']}")[1]
        assert {(label["by"], label["is_right"]) for label in found["labels"]} == {("Ann", True), ("Ben", False)}
        assert set(found["lists"]) == {"context_precision", "faithfulness"}
        # The label of most people counts: with one on each side, the case is left out; a third one decides.
        assert ask(url, "/api/labels", place | {"by": "Cem", "is_right": False})[0] == 200
    tried = subprocess.run(
        [PROGRAM, "judge", "-f", file, "--planted", "0", "--dry-run", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(tried.stdout)["cases"] == 1
    without = subprocess.run(
        [PROGRAM, "judge", "-f", file, "--planted", "0", "--no-labels", "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert without.returncode == 2 and "no cases" in without.stderr


def test_a_report_has_no_buttons_for_labels(visit, judged):
    file, results = judged
    report = next((file.parent / "store" / "runs" / results["run"]).glob("*.html"))
    page = visit(f"{report.as_uri()}#trial=t03&question=bees")
    expect(page.locator("#question-heading")).to_contain_text("bees")
    for summary in page.locator("#question .verdicts summary", has_text="how it came about").all():
        summary.click()
    assert page.locator(".labelling, #judge-labels").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_the_page_has_no_serious_finding_of_axe(visit, answered, judged, scheme, width):
    if not AXE.exists():
        pytest.fail(f"{AXE} is not there: it comes with the packages of web/")

    def check(page) -> None:
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        bad = [
            f"{it['id']}: {it['nodes'][0]['html']}"
            for it in found["violations"]
            if it["impact"] in ("serious", "critical")
        ]
        assert bad == []
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 1, f"it is wider than {width} pixels"

    settings = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "bypass_csp": True}
    file, results = answered
    with served(file) as url:
        page = visit(f"{url}/#/votes?run={results['run']}", **settings)
        expect(page.locator("#person-name")).to_be_visible()
        check(page)
        name_yourself(page, f"{scheme} {width}")
        with page.expect_response("**/votes/next*"):
            page.keyboard.press("ArrowRight")
        page.get_by_text("Standing of the trials").click()
        expect(page.locator("#side-bias")).to_be_visible()
        page.locator("details.reference summary").click()
        check(page)
    file, results = judged
    with served(file) as url:
        page = visit(f"{url}/#/runs/{results['run']}?trial=t03&question=bees", **settings)
        expect(page.locator("#question .verdicts summary").first).to_be_visible()
        for summary in page.locator("#question .verdicts summary", has_text="how it came about").all():
            summary.click()
        expect(page.locator(".labelling").first).to_be_visible()
        check(page)
