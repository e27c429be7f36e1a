"""Reports in a real Chromium: the run whose report is looked at, and the browser."""

from __future__ import annotations

import json
import os
import shutil

import pytest

import reverie
from reports import Opened, changed
from workspace import NO_BROWSER, Workspace, settings


# Playwright keeps an event loop running, which tests of other modules must not find.
@pytest.fixture(scope="module")
def browser():
    """Chromium: the one that `REVERIE_TEST_CHROMIUM` names, else `chromium` of the system."""
    program = os.environ.get("REVERIE_TEST_CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip(f"{NO_BROWSER}: install `chromium`, or name one in REVERIE_TEST_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """A page of 1200 × 900; it must not have failed when the test ends."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened = Opened(context.new_page())
    yield opened
    context.close()
    assert opened.errors == []
    assert all(url.startswith(("file://", "about:")) for url in opened.requests), opened.requests


@pytest.fixture
def visit(browser):
    """Opens pages in browsers of their own; nothing may go wrong in any of them, and nothing is asked of another host."""
    contexts, errors, hosts = [], [], set()

    def open_page(address: str, **settings):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
    assert all(host.startswith("127.0.0.1") for host in hosts if host), hosts


@pytest.fixture(scope="session")
def ran(tmp_path_factory) -> dict:
    """The results of a small experiment that really ran: BM25, eight trials, six questions."""
    workspace = Workspace(tmp_path_factory.mktemp("mills"), documents=6)
    space = {
        "chunker": [{"sentence": {"chunk_size": 32, "chunk_overlap": 0}}, {"sentence": {"chunk_size": 64, "chunk_overlap": 0}}],
        "retriever": [{"bm25": {"top_k": k}} for k in (1, 2, 3, 4)],
    }
    evaluate = {"metrics": ["recall", "precision", "ndcg"], "objective": ["ndcg", "precision"]}
    experiment = reverie.Experiment(settings(workspace, "http://127.0.0.1:9", models={}, space=space, evaluate=evaluate))
    return experiment.run(progress=False).data


@pytest.fixture(scope="session")
def pages(ran, tmp_path_factory):
    """`run`: the report of the run, as it was. `whole`: with answers and hostile text, in one file."""
    folder = tmp_path_factory.mktemp("pages")
    made = {"run": folder / "run.html", "whole": folder / "whole.html"}
    reverie.Results(json.dumps(ran)).save_report(made["run"])
    reverie.Results(json.dumps(changed(ran))).save_report(made["whole"])
    return made


@pytest.fixture(scope="session")
def large(ran, tmp_path_factory):
    """`large.html` and `other.html`: reports with their parts in folders, of results that differ in a reference."""
    folder = tmp_path_factory.mktemp("large")
    reverie.Results(json.dumps(ran)).save_report(folder / "large.html", one_file=False)
    data = json.loads(json.dumps(ran))
    data["questions"][0]["reference"] = "another"
    reverie.Results(json.dumps(data)).save_report(folder / "other.html", one_file=False)
    return folder
