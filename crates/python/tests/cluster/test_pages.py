"""What a notebook shows of an experiment, and its stop button."""

from __future__ import annotations

import json

import pytest

from workspace import Provider, settings, wait_until


@pytest.fixture
def small(tmp_path):
    """Six documents with a question each."""
    from workspace import Workspace

    return Workspace(tmp_path, documents=6)


def test_a_notebook_shows_one_table_that_is_drawn_anew_and_a_page_that_only_draws(small, provider):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    cells = [
        f"import json, reverie\nexperiment = reverie.Experiment(json.loads({json.dumps(settings(small, provider.url))!r}))",
        "experiment.plan()",
        "results = experiment.run()\nresults",
        "results.plot()",
        "experiment.compare('t01', 't02')",
        "experiment.pipeline().query('Which mill was built in 1703?')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=300, startup_timeout=300, kernel_name="python3").execute()
    pages = [
        [output["data"].get("text/html", "") for output in cell.outputs if "data" in output] for cell in notebook.cells
    ]
    assert len(pages[2]) <= 2, "at most the live table and the results"
    board, plot = pages[2][-1], pages[3][-1]
    assert "95 % interval" in board and 'sandbox="allow-scripts"' in plot
    assert "grinds oats" not in board + plot, "passages are not kept in the notebook's file"
    assert "t01 − t02" in pages[4][0] and "03.md" in pages[5][0]


def test_the_stop_button_of_a_notebook_ends_a_run(small):
    manager = pytest.importorskip("jupyter_client.manager")
    # The run needs more than a minute for its 24 answers, one at a time, so that it is stopped before its end.
    slow = Provider(latency={"constant": {"seconds": 5}}, concurrency=1)
    kernel, client = manager.start_new_kernel(startup_timeout=300, kernel_name="python3")
    try:
        text = json.dumps(settings(small, slow.url))
        asked = client.execute(f"import json, reverie\nreverie.Experiment(json.loads({text!r})).run()")
        wait_until(lambda: slow.statistics()["requests"] >= 3, "the run asks nothing", 300)
        kernel.interrupt_kernel()
        reply = client.get_shell_msg(timeout=300)
        while reply["parent_header"]["msg_id"] != asked:
            reply = client.get_shell_msg(timeout=300)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
        slow.stop()
    assert (reply["content"]["status"], reply["content"].get("ename")) == ("error", "KeyboardInterrupt")
