"""`reverie.Experiment` and `reverie.Pipeline`, on this machine, with a simulated provider for answers."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import reverie
from conftest import Provider

pyarrow = pytest.importorskip("pyarrow")


@reverie.metric
def names_the_year(answer, reference):
    """Whether the answer has the reference in it."""
    return reference in answer


@reverie.metric(name="words", range=(0, 1000), higher_is_better=False)
def count_words(answer: str) -> float:
    """How long it is."""
    import re

    def of(text):
        return len(re.findall(r"\w+", text))

    return of(answer)


def settings(workspace, url: str, **changes) -> dict:
    """An experiment on the mills, as a dictionary."""
    experiment = {
        "name": "mills",
        "store": str(workspace.folder / "store"),
        "corpus": {"source": str(workspace.folder / "docs")},
        "dataset": {"path": str(workspace.folder / "golden.jsonl")},
        "models": {"gpt": {"chat": {"openai": {"model": "gpt", "base_url": f"{url}/v1"}}}},
        "space": {
            "chunker": [{"sentence": {"chunk_size": 32, "chunk_overlap": 0}}, {"sentence_window": {"window_size": 1}}],
            "retriever": [{"bm25": {"top_k": 1}}, {"bm25": {"top_k": 3}}],
            "generator": [{"compact": {"model": "gpt"}}],
        },
        "evaluate": {"metrics": ["recall", "precision", "token_f1"], "objective": ["recall", "precision"]},
        "track": None,
    }
    return {**experiment, **changes}


@pytest.fixture
def small(tmp_path):
    """Six documents with a question each."""
    from conftest import Workspace

    return Workspace(tmp_path, documents=6)


def test_importing_the_package_imports_nothing_else():
    code = "import sys, reverie; print(sorted(name for name in sys.modules if name.startswith('reverie')), 'json' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(reverie.__file__).parents[1])},
        check=True,
    )
    assert done.stdout.split() == ["['reverie']", "False"]
    assert "Experiment" in dir(reverie)
    with pytest.raises(AttributeError, match="Experimnet"):
        reverie.Experimnet  # noqa: B018


def test_an_experiment_is_planned_run_compared_and_asked(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url))
    assert experiment.name == "mills"
    assert experiment.trials()["trial"] == ["t01", "t02", "t03", "t04"]
    plan = experiment.plan()
    chunks = next(row for row in plan.operators().rows() if row["operator"] == "chunk")
    assert plan.trials == 4 and chunks["planned"] > chunks["unique"] > chunks["stored"] == 0
    assert "4 trials" in repr(plan) and "<table>" in plan._repr_html_()
    with pytest.raises(RuntimeError):
        experiment.results()

    told = []
    results = experiment.run(progress=told.append)
    assert all({"operators", "models"} <= now.keys() for now in told)
    asked = provider.statistics()["requests"]
    assert asked > 6, "questions are answered"
    board = results.leaderboard()
    arrow = pyarrow.table(board)
    assert arrow.num_rows == 4 and arrow.schema.field("recall_low").type == pyarrow.float64()
    assert arrow.schema.field("questions_needed").type == pyarrow.int64()
    assert all(
        low <= mean <= high for low, mean, high in zip(board["recall_low"], board["recall"], board["recall_high"])
    )
    frame = board.to_pandas()
    assert list(frame["objective"]) == sorted(frame["objective"], reverse=True)
    questions = results.questions("t02")
    assert len(questions) == 6 and len(results.questions()) == 24
    first = questions.rows()[0]
    assert first["reference"] == "1700" and first["answer"] and len(first["retrieved"]) == 3

    best = experiment.best()
    assert best.id == board["trial"][0] and best.settings["retriever"]["bm25"]["top_k"] in (1, 3)
    assert best.is_winner == (results.winner is not None)
    last = board["trial"][-1]
    difference = results.compare(best.id, last)
    row = dict(zip(difference["metric"], difference.rows()))["precision"]
    assert row["difference"] == pytest.approx(frame["precision"].iloc[0] - frame["precision"].iloc[-1])
    assert row["low"] <= row["difference"] <= row["high"] and row["n_pairs"] == 6
    assert experiment.compare(best.id, last).rows() == difference.rows()
    with pytest.raises(LookupError, match="t01"):
        results.compare("t01", "t99")

    again = experiment.run(progress=False)
    assert again.data["executed"] == 0 and provider.statistics()["requests"] == asked
    assert experiment.results().leaderboard().rows() == again.leaderboard().rows()

    pipeline = experiment.pipeline("t02")
    answer = pipeline.query("Which mill was built in 1703?")
    assert answer.trial == pipeline.trial == "t02" and len(answer.passages) == 3
    assert answer.text and answer.passages[0].document == "03.md" and "03.md" in str(answer)
    assert "03.md" in answer._repr_html_()


def test_many_questions_are_asked_at_once_without_blocking_the_loop(small):
    slow = Provider(latency={"constant": {"seconds": 1.0}})
    try:
        experiment = reverie.Experiment(settings(small, slow.url, dataset=None, evaluate=None))
        experiment.run()
        pipeline = reverie.Pipeline.load(experiment, "t01")

        async def ask() -> tuple[list, int, float]:
            ticks, started = 0, time.monotonic()

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.05)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            answers = await asyncio.gather(*(pipeline.aquery(f"What is ground for village {i}?") for i in range(8)))
            ticking.cancel()
            return answers, ticks, time.monotonic() - started

        answers, ticks, seconds = asyncio.run(ask())
    finally:
        slow.stop()
    assert len({answer.question for answer in answers}) == 8 and all(answer.text for answer in answers)
    assert ticks >= 5, "the loop went on meanwhile"
    assert seconds < 6, "one after another they would take eight seconds"


class Refusing(http.server.BaseHTTPRequestHandler):
    """An endpoint that is there, and refuses every request for good."""

    def do_GET(self) -> None:
        """Lists no models."""
        self.answer(200, {"data": []})

    def do_POST(self) -> None:
        """Refuses."""
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(400, {"error": {"message": "the model has left"}})

    def answer(self, status: int, value: dict) -> None:
        """Sends JSON."""
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        """Says nothing."""


def test_what_fails_while_a_question_is_asked_is_raised(small):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        experiment = reverie.Experiment(settings(small, url, dataset=None, evaluate=None))
        with pytest.raises(RuntimeError):
            experiment.pipeline()
        experiment.run()
        pipeline = experiment.pipeline("t01")
        with pytest.raises(RuntimeError, match="the model has left"):
            asyncio.run(pipeline.aquery("Which mill grinds oats?"))
        with pytest.raises(RuntimeError, match="the model has left"):
            pipeline.query("Which mill grinds oats?")
        with pytest.raises(RuntimeError, match="t99"):
            experiment.pipeline("t99")
    finally:
        server.shutdown()
        server.server_close()


def test_a_function_is_a_metric(small, provider):
    evaluate = {"metrics": ["recall", names_the_year, count_words], "objective": ["recall"]}
    results = reverie.Experiment(settings(small, provider.url, evaluate=evaluate)).run()
    board = results.leaderboard()
    assert set(board["names_the_year"]) <= {0.0, 1.0}, "simulated answers hold no years"
    assert all(words > 1 for words in board["words"])
    assert results.questions("t01")["missing"] == [None] * 6
    assert names_the_year("in 1700", "1700") and count_words("two words") == 2


@reverie.chunker
def by_sentence(text, path):
    """Sentences, and the heading of the mill in each."""
    import re

    assert path.endswith(".md")
    return [(found.start(), found.end()) for found in re.finditer(r"[A-Z][^.#]*\.", text)]


@reverie.reranker(top_n=1)
def longest(passages, question):
    """The longest passage, whatever was asked."""
    return [len(passage) for passage in passages]


def test_functions_are_stages(small, provider):
    space = {"chunker": ["sentence", by_sentence], "retriever": [{"bm25": {"top_k": 3}}], "reranker": ["none", longest]}
    results = reverie.Experiment(settings(small, provider.url, space=space, evaluate={"metrics": ["recall"]})).run()
    labels = [(trial.labels["chunker"], trial.labels["reranker"]) for trial in results.trials]
    assert sorted(labels) == [("python", "none"), ("python", "python"), ("sentence", "none"), ("sentence", "python")]
    passages = {
        labels[i]: [[passage["text"] for passage in question["passages"]] for question in trial["questions"]]
        for i, trial in enumerate(results.data["trials"])
    }
    assert all(text.count(".") == 1 for texts in passages["python", "none"] for text in texts), "a sentence each"
    found, kept = passages["sentence", "none"], passages["sentence", "python"]
    assert kept == [[max(texts, key=len)] for texts in found]


@reverie.retriever(top_k=1)
def by_shared_words(questions, chunks):
    """The chunk that shares most words with the question."""
    words = [set(chunk.split()) for chunk in chunks]
    return [[(i, len(set(question.split()) & shared)) for i, shared in enumerate(words)] for question in questions]


@reverie.generator(model="gpt", max_tokens=16)
def shouted(question, passages, documents):
    """A prompt that nobody else has."""
    return [
        {"role": "system", "content": "SHOUT."},
        {"role": "user", "content": f"{documents[0]}: {passages[0]} {question.upper()}"},
    ]


def test_functions_retrieve_and_write_prompts(small, provider):
    space = {
        "chunker": ["sentence"], "retriever": [{"bm25": {"top_k": 1}}, by_shared_words],
        "generator": [{"compact": {"model": "gpt"}}, shouted],
    }
    before = provider.statistics()["requests"]
    results = reverie.Experiment(settings(small, provider.url, space=space, evaluate={"metrics": ["recall"]})).run()
    assert all(trial["failures"] == [] for trial in results.data["trials"])
    labels = sorted((trial.labels["retriever"], trial.labels["generator"]) for trial in results.trials)
    assert labels == [("bm25", "compact"), ("bm25", "python"), ("python", "compact"), ("python", "python")]
    answered = [question["answer"] for trial in results.data["trials"] for question in trial["questions"]]
    assert all(answered)
    assert provider.statistics()["requests"] > before


def test_a_stage_that_raises_names_the_document(small, provider):
    @reverie.chunker
    def broken(text):
        return [text[0] + "x"]

    space = {"chunker": ["sentence", broken], "retriever": [{"bm25": {"top_k": 3}}]}
    results = reverie.Experiment(settings(small, provider.url, space=space, evaluate={"metrics": ["recall"]})).run()
    failures = {trial["trial"]["labels"]["chunker"]: trial["failures"] for trial in results.data["trials"]}
    assert failures["sentence"] == [], "the rest goes on"
    assert all(".md: part 0 is not in the text" in failure for failure in failures["python"]), failures
    assert failures["python"]


def test_a_function_that_cannot_stand_alone_is_refused():
    limit = 3
    with pytest.raises(ValueError, match="uses limit from around it"):
        reverie.metric(lambda_free(limit))
    with pytest.raises(ValueError, match="uses json from around it"):

        @reverie.metric
        def structured(answer):
            return bool(json.loads(answer))

    with pytest.raises(ValueError, match="with a name"):
        reverie.metric(lambda answer: 1.0)
    with pytest.raises(ValueError, match="decorate it with `reverie.metric`, `reverie.chunker` or"):
        reverie.Experiment({"name": "x", "evaluate": {"metrics": [lambda_free]}})


def lambda_free(limit):
    """A function that needs what is around it."""

    def short(answer):
        return len(answer) < limit

    return short


def test_all_mistakes_are_told_at_once(small, provider):
    wrong = settings(small, provider.url, evaluate={"metrics": ["recal"]})
    wrong["space"]["retriever"] = [{"bm25": {"top": 1}}]
    with pytest.raises(ValueError) as told:
        reverie.Experiment(wrong)
    assert "recal" in str(told.value) and "top" in str(told.value)
    path = small.experiment("file", provider.url)
    path.write_text(path.read_text().replace('"recall"', '"recal"'))
    with pytest.raises(ValueError, match="recal"):
        reverie.Experiment(path)
    with pytest.raises(FileNotFoundError):
        reverie.Experiment(small.folder / "nowhere.toml")


def test_a_file_and_a_dictionary_are_the_same_experiment(small, provider):
    from_dictionary = reverie.Experiment(settings(small, provider.url))
    path = small.folder / "experiment.toml"
    path.write_text(from_dictionary.text)
    from_file = reverie.Experiment(path)
    assert from_file.trials().rows() == from_dictionary.trials().rows()
    assert from_dictionary.run().data["executed"] > 0
    assert from_file.run().data["executed"] == 0
    assert reverie.Pipeline.load(path).query("Which mill?").passages


def test_ctrl_c_ends_a_run_and_keeps_what_is_finished(small):
    slow = Provider(latency={"constant": {"seconds": 0.5}}, concurrency=2)
    # A shell starts what it runs in the background with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        experiment = reverie.Experiment(settings(small, slow.url))

        def interrupt() -> None:
            while slow.statistics()["requests"] < 8:
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            experiment.run()
        results = experiment.run()
        answered = slow.statistics()["requests"] - sum(slow.statistics()["rejected"].values())
    finally:
        signal.signal(signal.SIGINT, before)
        slow.stop()
    assert results.data["provider_errors"] == 0
    # 24 answers, and what was in flight when it was interrupted.
    assert answered <= 24 + 4 + 4, answered


def test_a_notebook_shows_one_table_that_is_drawn_anew_and_a_page_that_only_draws(small, provider):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    cells = [
        f"import json, reverie\nexperiment = reverie.Experiment(json.loads({json.dumps(settings(small, provider.url))!r}))",
        "experiment.plan()",
        "experiment.run()",
        "experiment.compare('t01', 't02')",
        "experiment.pipeline().query('Which mill was built in 1703?')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    pages = [
        [output["data"].get("text/html", "") for output in cell.outputs if "data" in output] for cell in notebook.cells
    ]
    assert len(pages[2]) <= 2, "at most the live table and the results"
    board = pages[2][-1]
    assert "95 % interval" in board and 'sandbox="allow-scripts"' in board
    assert "grinds oats" not in board, "passages are not kept in the notebook's file"
    assert "t01 − t02" in pages[3][0] and "03.md" in pages[4][0]


def test_the_stop_button_of_a_notebook_ends_a_run(small):
    manager = pytest.importorskip("jupyter_client.manager")
    slow = Provider(latency={"constant": {"seconds": 0.5}}, concurrency=1)
    kernel, client = manager.start_new_kernel(kernel_name="python3")
    try:
        text = json.dumps(settings(small, slow.url))
        asked = client.execute(f"import json, reverie\nreverie.Experiment(json.loads({text!r})).run()")
        deadline = time.monotonic() + 60
        while slow.statistics()["requests"] < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        kernel.interrupt_kernel()
        reply = client.get_shell_msg(timeout=60)
        while reply["parent_header"]["msg_id"] != asked:
            reply = client.get_shell_msg(timeout=60)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
        slow.stop()
    assert (reply["content"]["status"], reply["content"].get("ename")) == ("error", "KeyboardInterrupt")


def test_polars_takes_a_table_as_it_is():
    polars = pytest.importorskip("polars")
    from reverie.tables import Table

    table = Table([("trial", "text"), ("recall", "real"), ("found", "texts")], [["t01", 0.5, ["a"]], ["t02", None, []]])
    frame = table.to_polars()
    assert frame.equals(polars.DataFrame(table)) and frame["recall"].to_list() == [0.5, None]
    assert frame.schema["found"] == polars.List(polars.String)


def test_tables_and_answers_show_markup_as_text():
    from reverie.answers import Answer
    from reverie.tables import Table

    table = Table([("a<b", "text"), ("n", "count")], [["<script>", 1], [None, None]])
    assert "<script>" not in table._repr_html_() and "&lt;script&gt;" in table._repr_html_()
    assert table.to_arrow().to_pylist() == [{"a<b": "<script>", "n": 1}, {"a<b": None, "n": None}]
    with pytest.raises(KeyError, match="a<b, n"):
        table["m"]
    passage = {
        "document": "<b>.md",
        "span": {"start": 0, "end": 3},
        "text": "<i>",
        "score": 1.0,
        "page": None,
        "book": None,
        "heading": None,
        "rows": [0],
    }
    answered = {"trial": {"id": "t01"}, "question": "<q>", "passages": [passage], "answer": None}
    page = Answer(json.dumps(answered))._repr_html_()
    assert not any(markup in page for markup in ("<b>.md", "<i>\n", "<q>"))


def test_stages_work_on_arrow_batches():
    files = {"one.md": b"# Mills\n\nA mill grinds oats. It has a wheel.", "empty.txt": b""}
    batch = pyarrow.record_batch(
        {
            "path": pyarrow.array(list(files), pyarrow.string()),
            "bytes": pyarrow.array(list(files.values()), pyarrow.binary()),
        }
    )
    documents = reverie.Parser().parse(batch).to_pylist()
    assert documents[0]["path"] == "one.md" and json.loads(documents[0]["rejected"]) is None
    assert json.loads(documents[1]["rejected"]) is not None
    chunks = reverie.Chunker('{"sentence_window": {"window_size": 1}}').chunk(reverie.Parser().parse(batch)).to_pylist()
    assert {chunk["document"] for chunk in chunks} == {"one.md"} and len(chunks) > 1
    with pytest.raises(ValueError):
        reverie.Chunker('{"sentense": {}}')


def test_the_stubs_name_everything_that_there_is():
    from reverie import _core

    stubs = (Path(reverie.__file__).parent / "_core.pyi").read_text()
    missing = [
        name
        for name in dir(_core)
        if not name.startswith("_") and f"class {name}" not in stubs and f"def {name}(" not in stubs
    ]
    assert missing == []
    for kind in (_core.Experiment, _core.Pipeline, _core.Parser, _core.Chunker, _core.Embedding, _core.IndexWriter):
        body = stubs[stubs.index(f"class {kind.__name__}") :]
        for name in vars(kind):
            assert name.startswith("_") or f"def {name}(" in body, f"{kind.__name__}.{name}"
