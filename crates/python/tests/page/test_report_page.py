"""The report page as a reader uses it: with a mouse, with a keyboard, by its address, in the dark, on a telephone."""

from __future__ import annotations

import json
import re
import shutil

import pytest

import reverie
from reports import HOSTILE, changed

playwright = pytest.importorskip("playwright.sync_api")


def trials(opened) -> list[str]:
    return opened.texts("#board tbody tr[data-id] th")


def test_the_report_of_a_run_shows_every_trial_and_its_questions(opened, pages, ran):
    opened.go(pages["run"])
    assert opened.text("h1") == "mills" and ran["run"] in opened.text("#facts")
    assert trials(opened) == [trial["trial"]["id"] for trial in ran["trials"]]
    assert len(opened.texts("#questions tbody tr")) == 6
    assert not opened.page.locator("#plain").is_visible()
    assert opened.texts("#problems p") == []
    assert opened.requests[-1].startswith("file://") and len(opened.requests) <= 2, "the page is one file"


def test_groups_are_named_above_their_trials(opened, pages, ran):
    opened.go(pages["whole"])
    lines = opened.page.locator("#board tbody tr")
    ids = [trial["trial"]["id"] for trial in ran["trials"]]
    assert [line.locator("th").first.inner_text() for line in lines.all()] == [
        "Group 1: 3 trials, the best among them with 95 % confidence.", *ids[:3],
        "Group 2: 5 trials, worse than group 1.", *ids[3:],
    ]  # fmt: skip
    assert opened.texts("#board .badge.winner") == ["leads"] and opened.texts("#board .badge").count("tied") == 2
    opened.page.locator("#board thead button", has_text="ndcg").click()
    assert opened.texts("#board tr.group") == [], "sorted otherwise, there are no groups"


def test_each_trial_has_the_interval_of_its_difference_to_the_winner(opened, pages, ran):
    opened.go(pages["run"])
    assert opened.page.locator("#board svg.interval").count() == len(ran["trials"]) - 1
    heads = opened.texts("#board thead th")
    place = next(i for i, head in enumerate(heads) if head.startswith("difference to"))
    cells = [row.locator("th, td").nth(place).inner_text() for row in opened.page.locator("#board tbody tr[data-id]").all()]
    # A mean, and below it an interval around it.
    for cell in cells[1:]:
        mean, low, high = (float(number) for number in re.findall(r"[+-]?\d\.\d+", cell))
        assert low <= mean <= high
    assert cells[0] == "leads"


def test_a_click_and_a_key_on_a_heading_sort_and_say_so(opened, pages):
    opened.go(pages["run"])
    button = opened.page.locator("#board thead button", has_text="precision")
    button.click()
    head = opened.page.locator("#board thead th", has_text="precision")
    assert head.get_attribute("aria-sort") == "descending" and "sort=-metric.precision" in opened.page.url
    opened.page.locator("#board thead button", has_text="precision").focus()
    opened.page.keyboard.press("Enter")
    assert opened.page.locator("#board thead th", has_text="precision").get_attribute("aria-sort") == "ascending"
    place = next(i for i, head in enumerate(opened.texts("#board thead th")) if head.startswith("precision"))
    rows = opened.page.locator("#board tbody tr[data-id]").all()
    values = [float(row.locator("th, td").nth(place).inner_text().split()[0]) for row in rows]
    assert values == sorted(values)
    assert opened.page.evaluate("document.activeElement.textContent").startswith("precision"), "the focus stays"


def test_a_question_shows_its_quote_in_the_passages(opened, pages):
    opened.go(pages["run"]).page.locator("#questions tbody button", has_text="q1").click()
    opened.settle()
    assert opened.text("#question mark") == "The mill number 1 was built in 1701."
    assert "holds evidence" in opened.text("#question .card.covers .where")
    assert "q1" in opened.text("#question-heading")
    assert opened.page.evaluate("document.activeElement.id") == "question-heading", "the focus follows"


def test_the_back_button_goes_back_and_an_address_can_be_sent(opened, pages):
    opened.go(pages["run"])
    first = opened.text("#questions-heading")
    other = trials(opened)[3]
    opened.page.locator("#board tbody button", has_text=other).click()
    opened.settle()
    opened.page.locator("#questions tbody button", has_text="q2").click()
    opened.settle()
    address = opened.page.url.split("#")[1]
    assert f"trial={other}" in address and "question=q2" in address
    opened.page.go_back()
    opened.settle()
    assert opened.text("#question-heading") == "One question" and opened.text("#questions-heading") == f"Questions of {other}"
    opened.page.go_back()
    opened.settle()
    assert opened.text("#questions-heading") == first
    opened.go(pages["run"], address)
    assert "q2" in opened.text("#question-heading") and other in opened.text("#questions-heading")
    opened.go(pages["run"], f"{other}/q3")
    assert "q3" in opened.text("#question-heading"), "addresses of earlier reports still work"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("trial=t99", "the trial “t99”"),
        ("question=nobody", "the question “nobody”"),
        ("t99/q1", "the trial “t99”"),
        ("%E0%A4%A/x", "“%E0%A4%A/x”"),
        ("keep.metric.recall=9~a", "“9~a”"),
        ("keep.metric.none=1~2", "keep.metric.none"),
        ("sort=metric.none", "the column “metric.none”"),
        ("scores=near+1+recall", "the filter “near 1 recall”"),
    ],
)
def test_an_address_that_names_what_is_not_there_is_said(opened, pages, address, said):
    opened.go(pages["run"], address)
    assert said in opened.text("#problems"), address
    assert len(trials(opened)) == 8, "the rest is shown"
    # What is chosen next takes the complaint away.
    opened.page.locator("#questions tbody button").first.click()
    assert opened.texts("#problems p") == []


def test_dragging_along_an_axis_keeps_trials_and_typing_does_the_same(opened, pages):
    opened.go(pages["run"])
    catch = opened.page.locator('#plot rect[data-brush="metric.ndcg"]').locator("xpath=preceding-sibling::*[contains(@class, 'catch')]")
    catch.scroll_into_view_if_needed()
    box = catch.bounding_box()
    x = box["x"] + box["width"] / 2
    opened.page.mouse.move(x, box["y"] + 2)
    opened.page.mouse.down()
    opened.page.mouse.move(x, box["y"] + 40, steps=4)
    opened.page.mouse.up()
    opened.page.locator("#brushed", has_text="kept").wait_for()
    opened.page.locator("#board tr.out").first.wait_for()
    dragged = opened.text("#brushed")
    out = opened.page.locator("#board tr.out").count()
    assert re.match(r"[1-7] of 8 trials are kept: ndcg from", dragged) and out > 0
    assert opened.page.locator("#plot path.trial.out").count() == out
    opened.page.go_back()
    opened.page.locator("#board tr.out").first.wait_for(state="detached")
    assert opened.text("#brushed") == ""

    # The same with keys alone.
    opened.page.locator("#brushes summary").focus()
    opened.page.keyboard.press("Enter")
    numbers = re.findall(r"\d\.\d+", dragged)
    for end, value in zip(("from", "to"), numbers):
        field = opened.page.locator(f'[data-keep="metric.ndcg"] [data-end={end}]')
        field.focus()
        opened.page.keyboard.press("Control+A")
        opened.page.keyboard.type(value if end == "from" else "1")
        opened.page.keyboard.press("Tab")
    assert opened.text("#brushed").startswith(dragged.split(" of ")[0])
    field = opened.page.locator('[data-keep="metric.ndcg"] [data-end=from]')
    assert "from" in field.locator("xpath=..").inner_text() and opened.page.locator('[data-keep="metric.ndcg"] legend').inner_text() == "ndcg"
    # Words are kept by boxes.
    opened.page.locator('[data-keep="axis.retriever"] input').first.focus()
    opened.page.keyboard.press("Space")
    assert "retriever is" in opened.text("#brushed") and "keep.axis.retriever=" in opened.page.url and "keep.metric.ndcg=" in opened.page.url


def test_effects_of_axes_are_differences_between_trials_that_are_equal_in_all_else(opened, pages, ran):
    trials = [(trial["trial"]["labels"], trial["objective"]["mean"]) for trial in ran["trials"]]
    opened.go(pages["run"])
    for axis in ("chunker", "retriever"):
        table = opened.page.locator(f'#effects [aria-label="The objective by {axis}"]')
        table.wait_for()
        assert table.locator("tbody tr").count() > 0
        for row in table.locator("tbody tr").all():
            value = row.locator("th").inner_text()
            cells = row.locator("td").all_inner_texts()
            pairs = [
                own - other
                for labels, own in trials
                for others, other in trials
                if labels[axis] == value and others[axis] == cells[0] and {**labels, axis: ""} == {**others, axis: ""}
            ]
            assert (float(cells[1]), int(cells[3])) == (pytest.approx(sum(pairs) / len(pairs), abs=6e-4), len(pairs))


def test_two_trials_are_compared_by_settings_wins_and_questions(opened, pages, ran):
    ids = [trial["trial"]["id"] for trial in ran["trials"]]
    opened.go(pages["run"], f"trial={ids[0]}&with={ids[-1]}")
    settings = opened.texts('#compare [aria-label="Settings that differ"] tbody th')
    assert settings and set(settings) <= {"retriever.bm25.top_k", "chunker.sentence.chunk_size"}
    scores = {t["trial"]["id"]: [q["scores"]["precision"]["score"]["value"] for q in t["questions"]] for t in ran["trials"]}
    pairs = list(zip(scores[ids[0]], scores[ids[-1]]))
    row = opened.page.locator('#compare [aria-label="Questions won, lost and tied"] tbody tr', has_text="precision").locator("td").all_inner_texts()
    assert [int(cell) for cell in row[:3]] == [sum(a > b for a, b in pairs), sum(a < b for a, b in pairs), sum(a == b for a, b in pairs)]
    differences = [abs(float(text)) for text in opened.texts("#differing tbody td:last-child")]
    assert differences and differences == sorted(differences, reverse=True) and 0 not in differences
    opened.page.locator("#differing tbody button").first.click()
    opened.settle()
    assert opened.page.locator("#question .column").count() == 2, "both trials' passages side by side"


def test_the_chosen_trial_has_its_place_what_it_lacks_and_its_settings(opened, ran, tmp_path):
    data = changed(ran)
    trial = data["trials"][1]
    trial["metrics"]["recall"].update(n_scored=5, n_failed=1, n_total=6)
    trial["questions"][2]["scores"]["recall"] = {"score": {"missing": {"reason": "provider_error", "detail": "down"}}, "detail": None}
    reverie.Results(json.dumps(data)).save_report(tmp_path / "page.html")
    opened.go(tmp_path / "page.html", f"trial={trial['trial']['id']}")
    said = opened.text("#trial p")
    assert trial["trial"]["labels"]["retriever"] in said and "in the group that holds the best trial" in said
    assert "recall: questions without a score: provider_error 1" in said
    opened.page.locator("#trial summary").focus()
    opened.page.keyboard.press("Enter")
    names = opened.texts("#trial dt")
    assert "retriever.bm25.top_k" in names
    top_k = opened.texts("#trial dd")[names.index("retriever.bm25.top_k")]
    assert top_k == str(trial["trial"]["retriever"]["bm25"]["top_k"])


def test_questions_are_found_and_filtered(opened, pages):
    opened.go(pages["whole"])
    ids = lambda: opened.texts("#questions tbody th")  # noqa: E731
    opened.page.locator("#find").press_sequentially("NUMBER 4")
    opened.settle()
    assert ids() == ["q4"] and opened.text("#filtered") == "1 of 6 questions."
    opened.page.go_back()
    opened.settle()
    assert len(ids()) == 6, "all that was typed is one step"
    opened.page.locator("#answers").select_option("failed")
    opened.settle()
    assert ids() == ["q5"]
    opened.page.locator("#filter button").click()
    opened.settle()
    assert len(ids()) == 6
    opened.page.locator("#score-metric").select_option("faithfulness")
    opened.page.locator("#score-value").press_sequentially("0.4")
    opened.settle()
    assert ids() == []
    opened.page.locator("#score-side").select_option("above")
    opened.settle()
    assert len(ids()) == 6 and "scores=above+0.4+faithfulness" in opened.page.url
    assert "find=" not in opened.page.url


def test_the_front_is_drawn_and_its_points_are_reached_with_keys(opened, pages, ran):
    opened.go(pages["whole"])
    assert opened.page.locator("#front .point").count() == 8 and opened.page.locator("#front .front-line").count() == 1
    on_front = opened.page.locator("#front .point.on-front")
    names = [re.match(r"t\d+", label)[0] for label in on_front.evaluate_all("nodes => nodes.map(node => node.getAttribute('aria-label'))")]
    trials = {t["trial"]["id"]: (t["objective"]["mean"], 3.0 - 0.3 * place) for place, t in enumerate(ran["trials"])}
    beaten = {one for one, (q, s) in trials.items() if any(q2 >= q and s2 <= s and (q2, s2) != (q, s) for q2, s2 in trials.values())}
    assert set(names) == set(trials) - beaten
    point = opened.page.locator("#front .point").nth(2)
    point.focus()
    opened.page.keyboard.press("Enter")
    opened.settle()
    chosen = re.match(r"t\d+", point.get_attribute("aria-label"))[0]
    assert opened.text("#questions-heading") == f"Questions of {chosen}"
    opened.page.locator("#front-fields select").select_option(label="tokens read and written for a question")
    assert "against=tokens.tokens" in opened.page.url and opened.page.locator("#front .point").count() == 8


def test_verdicts_are_in_words_and_hold_no_json(opened, pages):
    opened.go(pages["whole"], "question=q1")
    detail = opened.page.locator(".verdicts dd", has=opened.page.locator("details")).last
    detail.locator("summary").first.click()
    detail.locator("details details summary").click()
    text = detail.inner_text()
    assert "yes, probability of yes 75 %: It was built." in text and "Reason: so it says" in text
    assert "no: It grinds rye." in text and "no verdict that could be read: It is red." in text
    assert "The judges agreed in 75 % of their votes." in text and "1 call to a judge" in text and "Is it so?" in text
    assert '"verdict"' not in text and "{" not in text.replace(HOSTILE, "")
    opened.page.locator(".verdicts summary").first.click()
    assert "Evidence in 01.md" in opened.text(".verdicts dd details[open]")


def test_text_of_documents_questions_answers_and_judges_is_never_markup(opened, pages):
    opened.go(pages["whole"], "question=q0")
    for summary in opened.page.locator("#question summary").all():
        if summary.is_visible():
            summary.click()
    opened.go(pages["whole"], "question=q5")
    opened.go(pages["whole"], "question=q0")
    assert opened.page.title().startswith("Reverie: mills") and HOSTILE in opened.page.title()
    assert opened.page.locator("img, main b:not(li > b), iframe").count() == 0
    assert HOSTILE in opened.text("#question .card .body >> nth=-1") or HOSTILE in opened.text("#question")
    assert HOSTILE in opened.text("h1")
    assert opened.page.locator("script:not([type])").count() == 1


def test_ranks_before_reranking_come_from_the_trial_that_lacks_only_the_reranker(opened, ran, tmp_path):
    data = changed(ran)
    data["experiment"] = "mills"
    template = next(t for t in data["trials"] if len(t["questions"][1]["passages"]) >= 3)
    twin = json.loads(json.dumps(template))
    twin["trial"].update(id="t90", reranker={"cross_encoder": {"model": "small", "top_n": 2}})
    twin["trial"]["labels"]["reranker"] = "cross_encoder"
    for question in twin["questions"]:
        question["passages"].reverse()
    data["trials"].append(twin)
    alone = json.loads(json.dumps(twin))
    alone["trial"].update(id="t91", chunker={"sentence_window": {"window_size": 1}})
    data["trials"].append(alone)
    reverie.Results(json.dumps(data)).save_report(tmp_path / "reranked.html")
    opened.go(tmp_path / "reranked.html", "trial=t90&question=q1")
    count = len(template["questions"][1]["passages"])
    said = [re.search(r"before reranking \[(\d)\]", text)[1] for text in opened.texts("#question .card:has(+ .card) .where, #question .cards .card:last-child .where")]
    assert said == [str(rank) for rank in range(count, 0, -1)]
    assert f"those of {template['trial']['id']}" in opened.text("#question")
    opened.go(tmp_path / "reranked.html", "trial=t91&question=q1")
    assert "the ranks after reranking only" in opened.text("#question")


def test_parts_are_loaded_from_the_folder_only_when_they_are_looked_at(opened, large):
    page = large / "large.html"
    assert {path.name for path in (large / "large-parts").iterdir()} == {*(f"trial-{n}.js" for n in range(8)), "questions-0.js", "passages-0.js", "matrix.js"}
    opened.go(page)
    scripts = lambda: [url.rsplit("/", 1)[1] for url in opened.requests if url.endswith(".js")]  # noqa: E731
    assert scripts() == ["trial-0.js"], "the scores of the trial that is shown"
    opened.page.locator("#questions tbody button", has_text="q1").click()
    # The passages are asked for after the question.
    opened.page.locator("#question .card.covers mark").first.wait_for()
    opened.settle()
    loaded = scripts()
    assert sum(name.startswith("questions-") for name in loaded) == 1 and any(name.startswith("passages-") for name in loaded)
    opened.page.locator("#questions tbody button", has_text="q1").click()
    opened.settle()
    assert scripts() == loaded, "what was loaded once is kept"


def test_a_missing_folder_is_said_and_the_summaries_are_shown(opened, large, tmp_path):
    shutil.copy(large / "large.html", tmp_path)
    opened.go(tmp_path / "large.html", "question=q1")
    opened.page.locator("#problems p").wait_for()
    for place in ("#problems", "#question", "#questions"):
        assert "large-parts" in opened.text(place), place
    assert "Put that folder next to the page" in opened.text("#question")
    assert len(trials(opened)) == 8
    # The folder is found when it is there again.
    shutil.copytree(large / "large-parts", tmp_path / "large-parts")
    opened.page.locator("#board tbody button").nth(1).click()
    opened.settle()
    assert len(opened.texts("#questions tbody tr")) == 6
    assert opened.page.locator("#question .card").count() >= 1 and opened.texts("#problems p") == []
    opened.errors.clear()


def test_a_folder_of_another_report_is_refused_and_said(opened, large, tmp_path):
    shutil.copy(large / "large.html", tmp_path)
    shutil.copytree(large / "other-parts", tmp_path / "large-parts")
    opened.go(tmp_path / "large.html", "question=q1")
    assert "belongs to another run" in opened.text("#question") and "belongs to another run" in opened.text("#problems")
    assert opened.page.locator("#question .card").count() == 0


def test_a_damaged_part_is_said(opened, large, tmp_path):
    shutil.copy(large / "large.html", tmp_path)
    shutil.copytree(large / "large-parts", tmp_path / "large-parts")
    for part in (tmp_path / "large-parts").glob("questions-*.js"):
        part.write_text(part.read_text()[:100])
    opened.go(tmp_path / "large.html", "question=q1")
    assert "is damaged" in opened.text("#question")
    opened.errors.clear()


def test_without_scripts_there_is_a_table_and_a_sentence_on_what_is_missing(browser, pages, ran):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{pages['whole']}")
    text = page.locator("#plain").inner_text()
    assert "script, which did not run" in text and "results.json" in text and "Verdict:" in text
    assert page.locator("#plain tbody tr").count() == 8 and not page.locator("#page").is_visible()
    assert HOSTILE in text and page.locator("img").count() == 0
    context.close()


def test_nothing_but_the_pages_own_script_may_run(opened, pages):
    opened.go(pages["whole"])
    blocked = """() => new Promise(resolve => {
        document.addEventListener('securitypolicyviolation', event => resolve(event.effectiveDirective));
        const script = document.createElement('script');
        script.textContent = 'document.title = "taken"';
        document.body.append(script);
        setTimeout(() => resolve('nothing'), 2000);
    })"""
    assert opened.page.evaluate(blocked) == "script-src-elem"
    assert opened.page.title() != "taken"
    opened.errors.clear()


def test_a_telephone_shows_the_objective_beside_each_trial(browser, pages):
    context = browser.new_context(viewport={"width": 400, "height": 740})
    page = context.new_page()
    page.goto(f"file://{pages['run']}")
    page.locator("[aria-busy]").first.wait_for(state="detached")
    header = page.locator("#board thead th").all_inner_texts()
    assert header[0].startswith("trial") and header[1].startswith("objective") and header[2] == "standing"
    cell = page.locator("#board tbody tr[data-id] td").first.bounding_box()
    assert cell["x"] + cell["width"] <= 400, "it is seen without scrolling"
    assert page.locator("#board").bounding_box()["y"] < page.locator("#plot").bounding_box()["y"]
    page.set_viewport_size({"width": 1200, "height": 800})
    # The page hears of its new width a moment later. Its policy lets no text run as code, also none of a test that waits.
    playwright.expect(page.locator("#board thead th").nth(1)).to_have_text("standing")
    context.close()


@pytest.mark.parametrize("which", ["run", "whole"])
def test_a_telephone_shows_the_page_without_scrolling_sideways(browser, pages, which):
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page = context.new_page()
    page.goto(f"file://{pages[which]}#question=q1")
    page.locator("[aria-busy]").first.wait_for(state="detached")
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    wide = """[...document.querySelectorAll('#page *')].filter(node => node.getBoundingClientRect().right > 361
        && !node.closest('.scroll > *, #plot > *, #front > *')).map(node => node.outerHTML.slice(0, 80))"""
    assert page.evaluate(wide) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()


@pytest.mark.parametrize("width", [360, 700, 1200])
def test_labels_of_the_plot_do_not_overprint(browser, pages, ran, tmp_path, width):
    notebook = tmp_path / "plot.html"
    notebook.write_text(reverie.Results(json.dumps(changed(ran)))._core.plot())
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    for path in (pages["whole"], notebook):
        page.goto(f"file://{path}")
        page.wait_for_selector("#plot svg")
        overlaps = page.evaluate(
            """() => {
                const texts = [...document.querySelectorAll('#plot text')];
                const boxes = texts.map(text => text.getBBox());
                const found = [];
                for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
                    const [a, b] = [boxes[i], boxes[j]];
                    const [w, h] = [Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x), Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y)];
                    if (w > 1 && h > 4) found.push([texts[i].textContent, texts[j].textContent]);
                }
                return [texts.length, found];
            }"""
        )
        assert overlaps[0] > 10 and overlaps[1] == []
    assert page.locator("#board-heading").is_visible() is False, "the notebook's page is the plot alone"
    context.close()


def test_in_a_notebook_the_plot_is_brushed_in_its_frame(opened, ran, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{reverie.Results(json.dumps(ran)).plot()._repr_html_()}")
    opened.page.goto(f"file://{tmp_path / 'notebook.html'}")
    frame = opened.page.frame_locator("iframe")
    frame.locator("#plot path.trial").first.wait_for(state="attached")
    area = frame.locator('#plot rect[data-brush="metric.ndcg"]').locator("xpath=preceding-sibling::*[contains(@class, 'catch')]")
    # The frame gets its size a moment later, and the plot is drawn anew for it.
    opened.page.wait_for_timeout(500)
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    opened.page.mouse.move(box["x"] + 9, box["y"] + 2)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + 9, box["y"] + 40, steps=4)
    opened.page.mouse.up()
    frame.locator("#brushed", has_text="of 8 trials are kept: ndcg from").wait_for()
    assert frame.locator("#plot path.trial.out").count() > 0
    assert not frame.locator("#board").is_visible() and not frame.locator("header").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(browser, pages, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.goto(f"file://{pages['whole']}#question=q1")
    page.locator("[aria-busy]").first.wait_for(state="detached")
    low = page.evaluate(
        """() => {
            const parse = text => text.match(/[\\d.]+/g).map(Number);
            const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
                .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
            const behind = node => { for (; node; node = node.parentElement) {
                const [r, g, b, a = 1] = parse(getComputedStyle(node).backgroundColor); if (a === 1) return [r, g, b]; } return [255, 255, 255]; };
            const low = [];
            for (const node of document.querySelectorAll('h1, h2, p, th, td, dt, dd, label, summary, .badge, .range, .where, mark')) {
                if (!node.textContent.trim() || !node.offsetParent) continue;
                const color = getComputedStyle(node).color;
                if (!color.startsWith('rgb')) continue;
                const [a, b] = [light(parse(color)), light(behind(node))];
                const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                if (ratio < 4.5) low.push([node.tagName, node.className, ratio]);
            }
            return low;
        }"""
    )
    assert low == []
    context.close()


def test_everything_that_can_be_done_has_a_name_and_can_be_reached_with_keys(opened, pages):
    opened.go(pages["whole"], "question=q1")
    unnamed = opened.page.evaluate(
        """() => [...document.querySelectorAll('button, select, input, summary, [role=button], [tabindex="0"]')]
            .filter(node => !(node.getAttribute('aria-label') || node.getAttribute('aria-labelledby') || node.textContent.trim() || node.closest('label')?.textContent.trim()))
            .map(node => node.outerHTML)"""
    )
    assert unnamed == []
    tables = opened.page.evaluate("[...document.querySelectorAll('#page table')].filter(t => !t.caption || [...t.querySelectorAll('th')].some(th => !th.scope)).length")
    assert tables == 0
    opened.page.evaluate("document.activeElement.blur()")
    opened.go(pages["whole"])
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.id") == "skip"
    opened.page.keyboard.press("Enter")
    assert opened.page.evaluate("document.activeElement.id") == "main"
    # From the leaderboard to a question's evidence, with keys alone.
    opened.page.locator("#board tbody button").nth(2).focus()
    opened.page.keyboard.press("Enter")
    opened.settle()
    opened.page.locator("#questions tbody button").nth(1).focus()
    style = opened.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid", "the focus is seen"
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert opened.page.evaluate("document.activeElement.id") == "question-heading"



def test_a_report_of_more_than_20_mb_has_a_folder_and_a_smaller_one_none(ran, tmp_path):
    data = json.loads(json.dumps(ran))
    reverie.Results(json.dumps(data)).save_report(tmp_path / "small.html")
    data["questions"][0]["reference"] = "x" * 20_000_001
    reverie.Results(json.dumps(data)).save_report(tmp_path / "large.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large-parts", "large.html", "small.html"]
    assert (tmp_path / "large.html").stat().st_size < 1_000_000
    reverie.Results(json.dumps(data)).save_report(tmp_path / "large.html", one_file=True)
    assert not (tmp_path / "large-parts").exists() and (tmp_path / "large.html").stat().st_size > 20_000_000


def test_a_report_as_one_file_takes_the_place_of_one_with_a_folder(large, ran, tmp_path):
    page, parts = tmp_path / "large.html", tmp_path / "large-parts"
    shutil.copy(large / "large.html", page)
    shutil.copytree(large / "large-parts", parts)
    (parts / "notes.txt").write_text("somebody's own")
    results = reverie.Results(json.dumps(ran))
    results.save_report(page)
    assert [path.name for path in parts.iterdir()] == ["notes.txt"], "what is not ours stays"
    assert "The mill number 1 was built in 1701." in page.read_text()
    assert results.report() == page.read_text()
    (parts / "notes.txt").unlink()
    results.save_report(page)
    assert not parts.exists()
    with pytest.raises(RuntimeError, match="nowhere"):
        results.save_report(tmp_path / "nowhere" / "page.html")
