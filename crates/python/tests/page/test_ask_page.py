"""The ask page of `reverie serve` in a real browser: answers, sources, failures, feedback, keys, a narrow window."""

from __future__ import annotations

import json
import subprocess

import pytest

from reports import HOSTILE, Opened
from services import PROGRAM, ScriptedModel, serve
from workspace import Workspace, wait_until

playwright = pytest.importorskip("playwright.sync_api")

QUESTION = "Which limestone did the abbey use, and which slate covers the granary?"
FACTS = {
    "abbey.md": "The abbey used yellow limestone from the quarry at Hollen.",
    "granary.md": "The granary has been covered with blue slate from Corvell since 1804.",
}
# Playwright's limit for one condition, in milliseconds: far above what a busy machine needs.
PATIENCE = 120_000


@pytest.fixture(scope="module")
def scripted():
    """The chat model of all tests in this file: its address is in the bundle."""
    model = ScriptedModel()
    yield model
    model.shutdown()
    model.server_close()


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Two documents, each with one fact between unrelated sentences."""
    workspace = Workspace(tmp_path_factory.mktemp("asked"), documents=2)
    for name, fact in FACTS.items():
        lines = [f"Sentence {i} of {name} describes the weather on an ordinary day in the valley." for i in range(12)]
        lines.insert(6, fact)
        (workspace.folder / "docs" / name).write_text("\n\n".join(lines))
    return workspace


@pytest.fixture(scope="module")
def bundle(scripted, documents):
    """A promoted trial whose answers the scripted model writes."""
    if not PROGRAM.exists():
        pytest.skip(f"the program is not built ({PROGRAM}): `make build`")
    experiment = documents.writing("asked", scripted.url, "store")
    output = documents.folder / "bundle"
    scripted.script(["yes"])
    for verb in (["run", "-f", experiment, "--quiet"], ["promote", "-f", experiment, "--output", output]):
        subprocess.run([PROGRAM, *verb], check=True, capture_output=True)
    return output


@pytest.fixture(scope="module")
def service(bundle):
    """The address of a service without keys and without feedback."""
    with serve(bundle) as url:
        yield url


@pytest.fixture
def model(scripted):
    """The chat model, which lets go of a stream that still waits when the test ends."""
    yield scripted
    scripted.resume.set()


class AskPage(Opened):
    """The ask page in a browser."""

    def open(self, url: str) -> AskPage:
        """Opens the page of a service."""
        self.page.set_default_timeout(PATIENCE)
        self.page.goto(f"{url}/")
        return self

    def ask(self, question: str) -> None:
        """Types a question and clicks on Ask."""
        self.page.get_by_label("Your question").press_sequentially(question)
        self.page.get_by_role("button", name="Ask", exact=True).click()

    def wait_for_answer(self) -> None:
        """Waits until nothing more is written."""
        self.page.get_by_role("button", name="Stop", exact=True).wait_for(state="hidden")
        self.settle()

    def close_panel(self) -> None:
        """Closes the panel and waits until the focus is back at the marker that was clicked last."""
        self.page.get_by_role("button", name="Close").click()
        self.page.wait_for_function("marker => document.activeElement === marker", arg=self.clicked.element_handle())

    def open_source(self, marker) -> None:
        """Clicks on a marker and waits until the panel shows its passage."""
        self.clicked = marker
        marker.click()
        self.page.locator("#panel-title", has_text=marker.inner_text()).wait_for()
        self.page.locator("#panel mark").wait_for()

    @property
    def answer(self):
        """The last answer."""
        return self.page.locator(".answer").last

    def scripts_ran(self) -> bool:
        """Whether markup of a model or a document became elements or ran."""
        return (
            "taken" in self.page.title()
            or self.page.locator("#turns :is(img, script), #panel :is(img, script)").count() > 0
        )


def make_page(browser, width: int, height: int):
    """Yields a page in a window of this size; scripts must not fail, and nothing is loaded from another origin."""
    context = browser.new_context(viewport={"width": width, "height": height})
    opened = AskPage(context.new_page())
    yield opened
    origin = opened.page.evaluate("location.origin")
    context.close()
    # A browser also reports each status of 400 and above as an error; tests of failures expect some.
    assert [error for error in opened.errors if not error.startswith("Failed to load resource")] == []
    assert all(url.removeprefix("blob:").startswith(f"{origin}/") for url in opened.requests), opened.requests


@pytest.fixture
def asked(browser):
    """The page on a desk: it is not open yet."""
    yield from make_page(browser, 1200, 900)


@pytest.fixture
def narrow(browser):
    """The page on a telephone, 390 px wide: it is not open yet."""
    yield from make_page(browser, 390, 844)


def test_an_answer_appears_while_it_is_written(asked, service, model):
    model.script(["The abbey used limestone [1]. ", "The roof ", "is of slate [2]."], pause_after=2)
    asked.open(service).ask(QUESTION)
    asked.answer.get_by_text("The abbey used limestone").wait_for()
    assert "slate" not in asked.answer.inner_text() and asked.page.get_by_role("button", name="Stop").is_visible()
    assert QUESTION in asked.text(".asked") and QUESTION in model.questions[-1]
    model.resume.set()
    asked.wait_for_answer()
    assert asked.answer.inner_text() == "The abbey used limestone [1]. The roof is of slate [2]."
    assert asked.page.get_by_role("button", name="Ask", exact=True).is_visible()
    assert asked.errors == []


def test_enter_asks_and_the_conversation_goes_on(asked, service, model):
    model.script(["It is limestone [1]."])
    asked.open(service)
    box = asked.page.get_by_label("Your question")
    box.press_sequentially("What is the abbey made of?")
    box.press("Enter")
    asked.page.locator(".marker").wait_for()
    asked.wait_for_answer()
    model.script(["It is slate [1]."])
    asked.ask("And the granary?")
    asked.page.locator(".turn").nth(1).locator(".marker").wait_for()
    asked.wait_for_answer()
    assert asked.texts(".asked") == ["What is the abbey made of?", "And the granary?"]
    assert asked.texts(".answer") == ["It is limestone [1].", "It is slate [1]."]
    asked.page.get_by_role("button", name="New conversation").click()
    assert asked.page.locator(".turn").count() == 0


def test_an_answer_can_be_stopped(asked, service, model):
    model.script(["The abbey used limestone [1]. ", "And so on, ", "and so on."], pause_after=2)
    asked.open(service).ask(QUESTION)
    asked.answer.get_by_text("The abbey used limestone").wait_for()
    asked.page.get_by_role("button", name="Stop", exact=True).click()
    asked.wait_for_answer()
    assert asked.text(".said") == "Stopped before the end."


def test_a_marker_opens_its_passage_with_the_text_around_it(asked, service, documents, model):
    model.script(["Yellow limestone and blue slate [1][2]."])
    asked.open(service).ask(QUESTION)
    asked.page.locator(".marker").nth(1).wait_for()
    asked.wait_for_answer()
    opened = set()
    for number in (1, 2):
        asked.open_source(asked.page.locator(".answer .marker", has_text=f"[{number}]"))
        title = asked.text("#panel-title").removeprefix(f"[{number}] ")
        # The panel is filled anew for each source.
        asked.page.locator("#panel mark", has_text=FACTS[title]).wait_for()
        before, after = (node.text_content() for node in asked.page.locator("#passage .around").all())
        passage = asked.page.locator("#panel mark").text_content()
        assert before.strip() and after.strip()
        assert before + passage + after in (documents.folder / "docs" / title).read_text()
        assert asked.page.locator(".card.open").inner_text().startswith(f"[{number}] {title}")
        opened.add(title)
    assert opened == set(FACTS)
    asked.close_panel()
    assert not asked.page.locator("#panel").is_visible()


def test_a_number_without_a_passage_is_no_marker(asked, service, model):
    model.script(["It is 【7】 and 【99†source】 and `[1]`, as [1] says."])
    asked.open(service).ask(QUESTION)
    asked.page.locator(".marker").wait_for()
    asked.wait_for_answer()
    assert asked.texts(".answer .marker") == ["[1]"]
    # The service removes a citation of a passage that does not exist, but does not recognise `【99†source】` as one.
    assert asked.answer.inner_text() == "It is and 【99†source】 and [1], as [1] says."


def test_full_width_brackets_are_markers(asked, service, model):
    model.script(["Gold【1】, silver 【2†source】。", "Iron [1]."])
    asked.open(service).ask(QUESTION)
    asked.page.locator(".marker").nth(2).wait_for()
    asked.wait_for_answer()
    assert asked.answer.inner_text() == "Gold[1], silver [2]。Iron [1]."
    assert asked.texts("#turns h4") == ["2 sources, 2 cited"]
    asked.open_source(asked.page.locator(".marker", has_text="[2]"))


MARKDOWN = """# Roofs

Two kinds are **known, `slate` too** [1]:

1. **Slate** [2]
   - blue
   - grey
     from Corvell
2. Tiles

3. Reed
- no number

### What else
1790. It burnt.
a * b * c, # no heading, #neither
---
```sh
# a comment
- not a list
```
The end [1].
"""


def test_headings_lists_bold_words_and_code_are_rendered(asked, service, model):
    model.script([MARKDOWN[at : at + 9] for at in range(0, len(MARKDOWN), 9)])
    asked.open(service).ask(QUESTION)
    asked.answer.get_by_text("The end").wait_for()
    asked.wait_for_answer()
    assert asked.texts(".answer :is(h4, h5, h6)") == ["Roofs", "What else"]
    assert asked.texts(".answer h4") == ["Roofs"] and asked.texts(".answer h6") == ["What else"]
    assert asked.texts(".answer > ol > li > .text") == ["Slate [2]", "Tiles", "Reed"]
    assert asked.texts(".answer > ol > li > ul > li") == ["blue", "grey\nfrom Corvell"]
    assert asked.texts(".answer > ul > li") == ["no number"]
    assert asked.texts(".answer strong") == ["known, slate too", "Slate"]
    assert asked.texts(".answer pre") == ["# a comment\n- not a list"]
    assert asked.texts(".answer .marker") == ["[1]", "[2]", "[1]"] and asked.page.locator(".answer hr").count() == 1
    assert asked.texts(".answer > .text") == [
        "Two kinds are known, slate too [1]:", "1790. It burnt.\na * b * c, # no heading, #neither", "The end [1].",
    ]  # fmt: skip


def test_markup_in_an_answer_stays_text(asked, service, model):
    parts = [
        f"# {HOSTILE}",
        f"- {HOSTILE}",
        f"1. `{HOSTILE}`",
        f"**{HOSTILE}**",
        f"{HOSTILE} [1].",
        f"```\n{HOSTILE}\n```",
    ]
    model.script(["\n".join(parts)])
    asked.open(service).ask(f"{QUESTION} {HOSTILE}")
    asked.page.locator(".marker").wait_for()
    asked.wait_for_answer()
    assert not asked.scripts_ran()
    assert asked.answer.inner_text().count(HOSTILE) == len(parts) and HOSTILE in asked.text(".asked")


def test_an_answer_that_was_cut_says_so(asked, service, model):
    model.script(["The abbey used limestone [1] and then"], finish="length")
    asked.open(service).ask(QUESTION)
    asked.page.locator(".said").wait_for()
    assert asked.text(".said") == "The answer was cut off: it reached the longest length that is allowed."
    assert asked.answer.inner_text() == "The abbey used limestone [1] and then"


def test_an_answer_that_was_not_cut_has_no_note(asked, service, model):
    model.script(["The abbey used limestone [1]."])
    asked.open(service).ask(QUESTION)
    asked.page.locator(".card").first.wait_for()
    assert asked.page.locator(".said").count() == 0


@pytest.mark.parametrize("failure", [{"status": 400}, {"break_after": 2}], ids=["refused", "broken off"])
def test_a_failed_model_is_said_in_words_and_can_be_asked_again(asked, service, model, failure):
    model.script(["The abbey used limestone [1]. ", "The roof ", "is of slate."], **failure)
    asked.open(service).ask(QUESTION)
    asked.page.locator(".trouble").wait_for()
    assert "failed" in asked.text(".trouble .problem") and "Try again" in asked.text(".trouble")
    assert asked.text("h1") == "mills" and asked.text(".asked") == QUESTION
    assert asked.page.locator(".waiting").count() == 0, "nothing seems to go on"
    model.script(["It is slate [1]."])
    asked.page.get_by_role("button", name="Try again").click()
    asked.page.locator(".marker").wait_for()
    asked.wait_for_answer()
    assert asked.answer.inner_text() == "It is slate [1]." and asked.page.locator(".trouble").count() == 0


def test_a_service_that_is_gone_is_said_in_words(asked, bundle, model):
    with serve(bundle) as url:
        asked.open(url)
        asked.page.locator("h1", has_text="mills").wait_for()
    asked.ask(QUESTION)
    asked.page.locator(".trouble").wait_for()
    assert asked.text(".trouble .problem") == "The service cannot be reached."


def test_thumbs_are_kept_in_the_file_of_feedback(asked, bundle, model, tmp_path):
    file = tmp_path / "feedback.jsonl"
    model.script(["The abbey used limestone [1]."])

    def verdicts() -> list[str]:
        return [json.loads(line)["verdict"] for line in file.read_text().splitlines()] if file.exists() else []

    with serve(bundle, "--feedback", file) as url:
        asked.open(url).ask(QUESTION)
        asked.page.get_by_role("button", name="Good answer").click()
        wait_until(lambda: verdicts() == ["up"], "no verdict is in the file")
        asked.page.get_by_text("Noted.").wait_for()
        pressed = asked.page.locator(".verdict [aria-pressed=true]")
        assert pressed.get_attribute("aria-label") == "Good answer"
        asked.page.get_by_role("button", name="Bad answer").click()
        wait_until(lambda: verdicts() == ["up", "down"], "no second verdict is in the file")
        asked.page.locator(".verdict .down[aria-pressed=true]").wait_for()
        assert pressed.count() == 1
    first, second = (json.loads(line) for line in file.read_text().splitlines())
    assert first["request_id"] == second["request_id"] != ""


def test_without_a_file_of_feedback_there_are_no_thumbs(asked, service, model):
    model.script(["The abbey used limestone [1]."])
    asked.open(service).ask(QUESTION)
    asked.page.locator(".card").first.wait_for()
    assert asked.page.get_by_role("button", name="Good answer").count() == 0
    assert asked.page.get_by_role("button", name="Bad answer").count() == 0
    assert not any("feedback" in url for url in asked.requests)


def test_a_service_with_keys_asks_for_one(asked, bundle, model, tmp_path):
    file = tmp_path / "keys.toml"
    command = [PROGRAM, "keys", "new", "alice", "--file", file]
    key = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    model.script(["The abbey used limestone [1]."])
    with serve(bundle, "--keys", file) as url:
        asked.open(url)
        asked.page.locator(".trouble", has_text="This service wants an API key.").wait_for()
        field = asked.page.get_by_label("API key")
        assert field.get_attribute("type") == "password"
        field.fill("wrong")
        asked.page.get_by_role("button", name="Use this key").click()
        asked.page.locator(".trouble", has_text="The API key was not accepted.").wait_for()
        field.fill(key)
        asked.page.get_by_role("button", name="Use this key").click()
        asked.page.locator("h1", has_text="mills").wait_for()
        assert asked.page.locator(".trouble").count() == 0
        asked.ask(QUESTION)
        asked.open_source(asked.page.locator(".marker"))
        asked.page.reload()
        asked.page.locator("h1", has_text="mills").wait_for()
        assert not any(key in url for url in asked.requests), "the key stands in no address"


def overflow(opened) -> list[str]:
    """What reaches over the right edge of the window, apart from the inside of boxes that scroll by themselves."""
    return opened.page.evaluate(
        """() => {
          const root = document.documentElement;
          if (root.scrollWidth > root.clientWidth) return [`the page is ${root.scrollWidth} px wide`];
          return [...document.querySelectorAll("body *")]
            .filter((node) => !node.closest("pre > *, .skip, .unseen"))
            .filter((node) => node.getBoundingClientRect().right > root.clientWidth + 0.5)
            .map((node) => node.outerHTML.slice(0, 80));
        }"""
    )


def test_a_window_of_390_px_does_not_scroll_sideways(narrow, service, model):
    long = "Donaudampfschifffahrtsgesellschaft" * 4
    model.script(
        [f"# {long}\n\n1. {long}\n   - {long} **{long}**\n\n`{long}` [1].\n\n```\n{long} {long}\n```\n{long} [2]."]
    )
    narrow.open(service)
    narrow.page.locator("h1", has_text="mills").wait_for()
    assert overflow(narrow) == []
    narrow.ask(f"{QUESTION} {long}")
    narrow.page.locator(".marker").nth(1).wait_for()
    narrow.wait_for_answer()
    assert overflow(narrow) == []
    narrow.open_source(narrow.page.locator(".marker").first)
    assert overflow(narrow) == []
    narrow.close_panel()
    model.script([], status=400)
    narrow.ask(QUESTION)
    narrow.page.locator(".trouble").wait_for()
    assert overflow(narrow) == []
    narrow.page.evaluate("scrollTo({ left: 300, behavior: 'instant' })")
    assert narrow.page.evaluate("scrollX") == 0


OWLS = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj
4 0 obj<</Length 68>>stream
BT /F 20 Tf 60 400 Td (Barn owls swallow voles and newts whole) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
trailer<</Root 1 0 R>>
%%EOF
"""


def test_a_passage_of_a_pdf_is_shown_on_its_page(asked, model, tmp_path):
    workspace = Workspace(tmp_path / "owls", documents=1)
    (workspace.folder / "docs" / "owls.pdf").write_bytes(OWLS)
    experiment, output = workspace.writing("owls", model.url, "store"), workspace.folder / "bundle"
    for verb in (["run", "-f", experiment, "--quiet"], ["promote", "-f", experiment, "--output", output]):
        subprocess.run([PROGRAM, *verb], check=True, capture_output=True)
    with serve(output) as url:
        model.script(["They are swallowed whole [1]."])
        asked.open(url).ask("What do barn owls swallow?")
        asked.wait_for_answer()
        asked.open_source(asked.page.locator(".answer .marker"))
        forms = asked.page.get_by_role("group", name="Form of the passage").get_by_role("button")
        assert forms.all_inner_texts() == ["Text", "Page 1"]
        forms.nth(1).click()
        picture = asked.page.locator("#panel img")
        picture.wait_for()
        assert "Page 1 of owls.pdf. The passage is marked." in picture.get_attribute("alt")
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 917
        assert forms.nth(1).get_attribute("aria-pressed") == "true"
        forms.nth(0).click()
        asked.page.locator("#panel mark", has_text="Barn owls swallow voles").wait_for()
        # The document is gone: the page says so, and the text is still there.
        (workspace.folder / "docs" / "owls.pdf").unlink()
        forms.nth(1).click()
        asked.page.locator("#panel .problem").wait_for()
        forms.nth(0).click()
        asked.page.locator("#panel mark").wait_for()
