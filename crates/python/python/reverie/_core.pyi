"""The part of `reverie` that is written in Rust."""

import os
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Protocol, final

import pyarrow

__all__ = [
    "Adaptive",
    "Aimd",
    "Attempt",
    "Block",
    "Chunker",
    "Corpus",
    "Done",
    "Embedding",
    "Events",
    "Experiment",
    "Folder",
    "Index",
    "IndexParts",
    "IndexWriter",
    "Limits",
    "Parser",
    "Part",
    "Pipeline",
    "Questions",
    "Reply",
    "ReplySink",
    "Results",
    "Scheduler",
    "ServedFunction",
    "Service",
    "Stop",
    "Worker",
    "axes",
    "compare_scores",
    "experiment_names",
    "explain",
    "golden_estimate",
    "golden_generate",
    "home",
    "index_settings",
    "main",
    "parts",
    "qualify",
    "register_function_place",
    "rejection",
    "runs",
    "score",
    "settings",
    "store_variable_prefixes",
    "system_code",
    "view_page",
]

_Connect = Callable[[str, list[str]], Any]

class _Arrays(Protocol):
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...

class _Stream(Protocol):
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class _Settings(Protocol):
    def setting(self) -> dict[str, Any]: ...

# A component: its name, a dictionary, an object of its class, or JSON of a dictionary.
_Component = str | Mapping[str, Any] | _Settings

# A record batch, or what streams some: a table, a data frame.
_Given = _Arrays | _Stream

@final
class Aimd:
    """Phoenix's AIMD rule for how many calls may be in flight."""

    def __new__(
        cls,
        max_concurrency: int,
        initial_target: float,
        window_seconds: float,
        increase_step: float,
        decrease_ratio: float,
        smoothing_factor: float,
        collapse_window_seconds: float,
        collapse_error_threshold: int,
    ) -> Aimd: ...
    @property
    def limit(self) -> int: ...
    @property
    def target(self) -> float: ...
    def set_target(self, target: float) -> None: ...
    @property
    def counts(self) -> tuple[int, int, int]: ...
    @property
    def smoothed_latency(self) -> float | None: ...
    def record_success(self, latency_seconds: float) -> None: ...
    def record_timeout(self) -> None: ...
    def record_error(self) -> None: ...

@final
class Adaptive:
    """The limit of the crate `executor`, which is learned."""

    def __new__(cls, maximum: int) -> Adaptive: ...
    @property
    def target_concurrency(self) -> int: ...

@final
class Attempt(Awaitable[bool | None]):
    """One attempt. Awaiting it gives nothing if its result was kept, and `False` if that was not wanted any more."""

    def __await__(self) -> Generator[Any, Any, bool | None]: ...
    def send(self, value: Any, /) -> Any: ...
    def throw(self, kind: Any, value: Any = None, traceback: Any = None, /) -> Any: ...
    def close(self) -> None: ...

@final
class Scheduler:
    """The state of one run: which task is next, and what becomes of it."""

    def __new__(
        cls,
        generate: Callable[[Any], Any],
        inputs: Iterator[Any],
        *,
        length: int | None,
        outputs: list[Any],
        fallback: Any,
        concurrency: int,
        max_retries: int,
        timeout: float,
        on_room: Callable[[], None],
    ) -> Scheduler: ...
    def set_controller(self, controller: Any | None) -> None: ...
    def hire(self) -> int | None: ...
    def take(self, worker: int) -> Attempt | None: ...
    def attempt_state(self, worker: int) -> str: ...
    def failed(
        self,
        worker: int,
        error: BaseException,
        retryable: bool,
        rate_limited: bool,
        retry_after: float | None = None,
    ) -> tuple[int, int, bool] | None: ...
    def timed_out(self, worker: int, error: BaseException) -> tuple[int, int, bool] | None: ...
    def let_go(self, worker: int) -> None: ...
    def cut_overdue(self) -> list[int]: ...
    def next_deadline(self) -> float: ...
    def next_start(self) -> float | None: ...
    def stop(self) -> list[int]: ...
    def wanting(self) -> bool: ...
    def finished(self) -> bool: ...
    def records(self) -> list[tuple[int, float, list[BaseException]]]: ...

@final
class Experiment:
    """An experiment; `reverie.Experiment` makes tables and pages of what it gives."""

    def __new__(cls, experiment: str | Mapping[str, Any], base: str | os.PathLike[str]) -> Experiment:
        """Reads the text of an experiment file, or a dictionary with the same tables; relative paths start from `base`.
        `ValueError` holds all mistakes."""
    def __getnewargs__(self) -> tuple[str, Any]: ...
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str:
        """As TOML."""
    def plan(self, connect: _Connect) -> dict[str, Any]:
        """What would run, and what it costs."""
    def sample_plan(self, files: int) -> dict[str, Any]:
        """What a first run would cost, estimated from a sample of at most so many files."""
    def trials(self) -> list[dict[str, Any]]:
        """The combinations."""
    def run(
        self,
        connect: _Connect,
        engine: str | None = None,
        address: str | None = None,
        budget_usd: float | None = None,
        on_progress: Callable[[dict[str, Any]], Any] | None = None,
        stop: Stop | None = None,
    ) -> Results:
        """Does what is not done yet, and gives the results. Ctrl-C ends it; what is finished is kept."""
    def noise(
        self,
        trial: str,
        metric: str,
        questions: int,
        answers: int,
        judgements: int,
        budget_usd: float | None = None,
        stop: Stop | None = None,
    ) -> dict[str, Any]:
        """Where the noise of a metric of a trial of the last run comes from."""
    def results(self) -> Results:
        """The results of the last finished run; `RuntimeError` if there was none."""
    def report(self) -> str:
        """`report.html` of the last finished run."""
    def live(self, run: str | None = None) -> dict[str, Any]:
        """How the run is doing that goes on."""
    def live_run(self, run: str) -> dict[str, Any]:
        """How this run is doing, or was when it ended."""
    def steer(self, run: str, act: str) -> dict[str, Any]:
        """Posts an act, which is JSON, and waits for what the run does about it."""
    def promote(
        self,
        output: str,
        trial: str | None = None,
        run: str | None = None,
        into: str | None = None,
        alias: str | None = None,
    ) -> dict[str, Any]:
        """Makes a bundle of this trial, else of the winner; returns what its manifest says."""
    def pipeline(self, trial: str | None = None, budget_usd: float | None = None) -> Pipeline:
        """This trial, else the winner, else the first of the leaderboard."""

@final
class Pipeline:
    """A trial whose indexes are in the store."""

    @property
    def trial(self) -> str: ...
    @property
    def run(self) -> str: ...
    @property
    def time_ms(self) -> int: ...
    @property
    def changed_since(self) -> list[str]: ...
    @property
    def has_generator(self) -> bool:
        """Whether it writes answers, besides finding passages."""
    def query(self, question: str) -> str:
        """The answer with its passages, as JSON."""
    def retrieve(self, question: str, at_most: int) -> str:
        """Passages without an answer, as JSON."""
    def aretrieve(self, question: str, at_most: int, done: Callable[[str | None, BaseException | None], Any]) -> None:
        """The same without waiting: `done(passages, error)` is called from another thread."""
    def stream(self, question: str) -> Events:
        """What happens while a question is answered. The work begins now."""
    def aquery(self, question: str, done: Callable[[str | None, BaseException | None], Any]) -> None:
        """The same without waiting: `done(answer, error)` is called from another thread."""

@final
class Events:
    """What happens while a question is answered. The work ends when this is closed or dropped."""

    def next(self) -> str | None:
        """The next events as a JSON list; nothing after the last one."""
    def anext(self, done: Callable[[str | None, BaseException | None], Any]) -> None:
        """The same without waiting: `done(events, error)` is called from another thread."""
    def close(self) -> None:
        """Ends the work, unless it has ended."""

@final
class Service:
    """A bundle that is served; `reverie.Service` is the ASGI application over it."""

    def __new__(
        cls,
        bundle: str,
        fallback: str | None = None,
        keys: str | None = None,
        public_url: str | None = None,
        answers_at_once: int = 64,
        queue: int = 256,
        searches_at_once: int = 256,
        deadline: float = 120.0,
        first_token: float = 60.0,
        others: Any = None,
        open_to_all: bool = False,
        admin_without_key: bool = False,
    ) -> Service:
        """Opens a bundle and makes it ready. `keys` is the text of a file of keys; `others` passes requests on to the other
        parts of a graph, if this is its gateway."""
    @property
    def name(self) -> str:
        """The name that clients send as `model`."""
    @property
    def version(self) -> str:
        """The digest of the bundle."""
    def answer(
        self, method: str, target: str, headers: list[tuple[bytes, bytes]], body: bytes, client: str | None = None
    ) -> Reply:
        """Begins to answer a request; `target` is its path with its query, `client` the address of who sent it, if the server
        knows that."""

@final
class Reply:
    """A response, part by part. The work ends when this is closed or dropped."""

    def anext(self, done: Callable[[tuple[int, list[tuple[bytes, bytes]]] | bytes | None, None], Any]) -> None:
        """Asks for the next part; `done(part, None)` is called from another thread, first with the status and the headers, then
        with bytes, at last with None."""
    def close(self) -> None:
        """Ends the work, unless it has ended."""

def parts(bundle: str) -> list[str]:
    """The parts for which the trial of a bundle has a component."""

@final
class Part:
    """One part of a bundle; `reverie.ray.serve` has a deployment for each."""

    def __new__(cls, bundle: str, part: str, others: Any) -> Part:
        """Opens a part and makes it ready. `others.call(number, part, streams, request, replies)` begins a call to another
        part and returns at once (`streams`: it may reply several times, not once), `others.cancel(number)` ends one; both
        are called from any thread."""
    @property
    def notes(self) -> list[str]:
        """What differs from the run that the bundle is of."""
    def reply(self, request: bytes) -> Reply:
        """Begins to reply to a request of another part."""

@final
class ReplySink:
    """Takes the replies to a call, from any thread."""

    def add(self, reply: bytes) -> None:
        """The next reply."""
    def is_wanted(self) -> bool:
        """Whether somebody waits for them."""
    def end(self, kind: str = "", reason: str = "") -> None:
        """There are no more. `kind` is empty, or `died`, `busy` or `failed` with the reason."""

@final
class Questions:
    """Golden questions; `reverie.golden` makes tables of them. Changes return new questions."""

    def __new__(cls, data: Any) -> Questions:
        """Reads and checks rows, or the file at a path; `ValueError` holds all mistakes."""
    def __len__(self) -> int: ...
    def text(self) -> str:
        """The questions, as a JSON list."""
    def statistics(self, results: Results | None = None, trials: int | None = None) -> dict[str, Any]:
        """Counts of questions, kinds and documents, columns that are not used, and the smallest differences between
        trials that the questions can show. `results` is a run that asked them."""
    def review(
        self, accept: list[str], reject: list[str], edit: Mapping[str, Mapping[str, str]]
    ) -> tuple[Questions, list[dict[str, Any]]]:
        """The questions after a review, and the rejected ones."""
    def split(self, test_share: float, seed: int) -> Questions:
        """The questions, split by document into `tune` and `test`."""
    def difference(self, older: Questions) -> dict[str, Any]:
        """What changed since an older version."""
    def anchor(
        self,
        documents: Any,
        tables: Mapping[str, Any],
        base: str | os.PathLike[str],
        stop: Stop | None = None,
    ) -> tuple[Questions, dict[str, Any]]:
        """The questions with the present locations of their evidence, and what was not found."""
    def attack(
        self,
        documents: Any,
        tables: Mapping[str, Any],
        base: str | os.PathLike[str],
        options: Mapping[str, Any],
        stop: Stop | None = None,
    ) -> tuple[Questions, list[tuple[str, str]]]:
        """The questions with an attack each, and the names and texts of the poisoned documents."""
    def write(self, path: str | os.PathLike[str], columns: str, replace: bool) -> None:
        """Writes a file, whose ending decides the format."""

@final
class Results:
    """What a run found; `reverie.Results` makes tables and pages of it."""

    def __new__(cls, text: str, folder: str | os.PathLike[str] | None = None) -> Results:
        """Reads `results.json`, and the rows of its trials in `folder`; `ValueError` if the text is none, or if it lacks
        rows and no folder is given."""
    @staticmethod
    def of(name: str, store: str, base: str | os.PathLike[str], run: str | None = None) -> Results:
        """The results of an experiment's last run in a store, or of this run."""
    def text(self) -> str:
        """Everything, with the rows of all trials."""
    def head_text(self) -> str:
        """Everything but the rows of trials."""
    def trial_text(self, trial: str) -> str:
        """One trial with its rows."""
    def board(self) -> dict[str, Any]:
        """The leaderboard."""
    def compare(self, first: str, second: str) -> list[dict[str, Any]]:
        """Two trials, metric by metric; differences are first minus second."""
    def scores(self, trial: str) -> str:
        """The scores of a trial, as the JSON that `score` gives."""
    def finalists(self, best: int, more: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The first trials as spaces of an experiment; `more` replaces values on these axes."""
    def characters(self, trial: str | None = None) -> dict[str, dict[str, list[int]]]:
        """Where passages of a trial, or of all, begin and end in characters: by document, by `START-END` in bytes."""
    def calibrate(self, metric: str, labels: Any) -> dict[str, Any]:
        """A judged metric compared with people's labels."""
    def report(self) -> str:
        """The report page."""
    def save_report(self, page: str, one_file: bool | None) -> None:
        """Writes the report page, and the folder of its parts if it is not to be one file."""
    def plot(self) -> str:
        """A page with nothing but the report's plot, and no question or passage in it."""
    def function_failures(self) -> str | None:
        """The failures of the user's functions with their tracebacks, as text; none if nothing failed."""

@final
class Stop:
    """Ends the work that it was given to, from another thread."""

    def __new__(cls) -> Stop: ...
    def stop(self) -> None:
        """Calls that have begun are finished, and kept; nothing more begins."""
    def is_stopped(self) -> bool:
        """Whether it was told to stop. The work may have ended all the same."""

def runs(store: str, base: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The finished runs in a store on this machine, the last first."""

def compare_scores(first: dict[str, Any], second: dict[str, Any]) -> list[dict[str, Any]]:
    """Compares the scores of two systems' answers, both as in the JSON of `score`; a comparison for each metric.
    `ValueError` if they cannot be compared."""

def score(
    data: Any,
    tables: Mapping[str, Any],
    judges: Sequence[str],
    embedder: str | None,
    base: str | os.PathLike[str],
    budget_usd: float | None = None,
    on_progress: Callable[[dict[str, Any]], Any] | None = None,
    stop: Stop | None = None,
    documents: Any = None,
    attempts: int | None = None,
    deadline_seconds: float | None = None,
) -> str:
    """Scores answers: rows, or the file at a path; `tables` is what an experiment would say. Gives JSON. `ValueError`
    holds all mistakes. An exception has as `_partial` the JSON of what was scored before, if anything was."""

def explain(
    example: Any,
    tables: Mapping[str, Any],
    judges: Sequence[str],
    embedder: str | None,
    base: str | os.PathLike[str],
    budget_usd: float | None = None,
    stop: Stop | None = None,
) -> dict[str, Any]:
    """Scores one example by one metric; returns the score and every exchange with a judge."""

def qualify(
    judges: Sequence[str],
    cases: Any,
    golden: Questions | None,
    planted: int | None,
    tables: Mapping[str, Any],
    base: str | os.PathLike[str],
    budget_usd: float | None = None,
    stop: Stop | None = None,
) -> list[dict[str, Any]]:
    """Tries judges on labelled cases, and on cases planted from golden questions; returns how they did."""

def golden_estimate(
    documents: Any, tables: Mapping[str, Any], base: str | os.PathLike[str], stop: Stop | None = None
) -> dict[str, Any]:
    """What generating questions should cost."""

def golden_generate(
    documents: Any,
    tables: Mapping[str, Any],
    base: str | os.PathLike[str],
    budget_usd: float | None = None,
    test_share: float | None = None,
    on_progress: Callable[[dict[str, Any]], Any] | None = None,
    stop: Stop | None = None,
) -> tuple[Questions, dict[str, Any]]:
    """Generates questions; returns them, and where they came from and what was rejected."""

def settings(object: _Component) -> str:
    """What stands for a component in an experiment, as JSON."""

@final
class Parser:
    """Files to documents."""

    def __new__(cls, limits: Mapping[str, Any] | str | None = None) -> Parser:
        """`limits`: as in `[corpus.limits]`."""
    def __getnewargs__(self) -> tuple[str]: ...
    def parse(self, batch: _Given) -> pyarrow.RecordBatch:
        """From `path` (string) and `bytes` (binary), a row per file: `path`, `content`, `format`, `title`, `author`,
        `text`, `pages`, and `rejected`, the reason why there is no document. `format`, `pages` and `rejected` are JSON.
        A mail gives a row for itself and for each attachment, a mailbox one for each mail in it."""
    def parse_files(self, batch: _Given) -> tuple[pyarrow.RecordBatch, list[int]]:
        """The same rows, and for each the number of the file in the batch."""

    def parse_corpus(self, corpus: Corpus) -> pyarrow.RecordBatch:
        """The same for all files of a corpus, in their order."""

@final
class Chunker:
    """Documents to chunks."""

    def __new__(cls, config: _Component) -> Chunker:
        """`config`: such as `"sentence"`, `{"sentence": {"chunk_size": 256}}` or
        `reverie.chunker.Sentence(chunk_size=256)`."""
    def __getnewargs__(self) -> tuple[str]: ...
    def chunk(self, batch: _Given) -> pyarrow.RecordBatch:
        """From what `Parser.parse` gives, or texts with a `path`, a row per chunk: `document`, `number`, `start` and
        `end` in characters, `start_byte` and `end_byte`, `text`, `searchable`, `level`, `parent`, `previous`, `next`,
        `page`, `book`, `heading`."""

@final
class Embedding:
    """Chunks to vectors."""

    def __new__(cls, config: Mapping[str, Any] | str, cores: int | None = None) -> Embedding:
        """`config`: the name of a local model, or a model as in `[models]`, such as
        `{"embedding": {"openai": {…}}}`; `cores`: threads of a local model, all of the machine's if left out."""
    @property
    def dimensions(self) -> int:
        """The length of a vector; 0 while a remote model has not said."""
    @property
    def identity(self) -> str:
        """What decides the vectors, as JSON."""
    def vectors(self, texts: Sequence[str], are_questions: bool) -> list[list[float]]:
        """The vectors of texts, as questions or as documents."""
    def embed(self, batch: _Given) -> pyarrow.RecordBatch:
        """The batch with a column `vector` (a fixed-size list of float32), null where a chunk is not searched."""

@final
class Index:
    """An index of chunks in memory."""

    def __new__(cls, chunks: _Given, chunker: _Component, embedding: Embedding | None = None) -> Index:
        """Indexes the chunks that `Chunker.chunk` gave with these settings. If they have a column `vector`, nothing is
        embedded but the first, to compare."""
    def __len__(self) -> int:
        """How many chunks can be found."""
    @property
    def embedded(self) -> bool:
        """Whether there are vectors."""
    def with_vectors(self, chunks: _Given) -> pyarrow.RecordBatch:
        """The chunks of which it was made, with a column `vector` if there are vectors."""
    def search(
        self,
        questions: Sequence[str],
        retriever: _Component | None = None,
        top_k: int | None = None,
        filter: Mapping[str, Any] | None = None,
        stop: Stop | None = None,
    ) -> list[list[dict[str, Any]]]:
        """What a retriever finds for each question, best first, among the chunks that pass the filter."""

@final
class IndexWriter:
    """The index of a corpus at an address, written by one process from memory: `chunks.parquet`, `index.dense`,
    `index.bm25`, byte for byte what the engines make of the same rows in the same order."""

    def __new__(cls, address: str) -> IndexWriter:
        """A folder, or a URL of an object store."""
    def push(self, batch: _Given) -> None:
        """Adds what `Embedding.embed` gives, in the order of the corpus: by path, then by number."""
    def finish(self) -> dict[str, Any]:
        """Writes the index: `{"chunks": …, "vectors": …, "dimensions": …, "files": […]}`."""

def view_page(
    path: str, page: int, texts: list[str], dots_per_inch: int
) -> tuple[
    int,
    bytes,
    int,
    int,
    list[list[tuple[float, float, float, float]]],
    list[tuple[str, float, tuple[float, float, float, float]]],
]:
    """A page with the texts marked: its number, the PNG file, its width and height in pixels, for each text the left,
    top, right and bottom of its lines as parts of these, and the lines that were read on a picture, with their confidence."""

def index_settings(limits: Mapping[str, Any] | str | None, chunker: _Component, embedder: Mapping[str, Any] | str) -> str:
    """What decides the contents of an index' parts, apart from the files, as a name. It reads the files of a local
    embedder, and the PDF library, on this machine."""

@final
class IndexParts:
    """The parts of an index at an address that many processes write, made by the same settings."""

    def __new__(cls, address: str, settings: str) -> IndexParts:
        """A folder, or a URL of an object store; `settings` is what `index_settings` gives."""
    @staticmethod
    def check(address: str) -> None:
        """Raises `ValueError` if there is a complete index."""
    def plan(self, corpus: Corpus, is_start: bool) -> tuple[list[Block], int, list[tuple[str, str]], str]:
        """The files that are in no part, in blocks; how many documents are in parts; which files gave none, with the
        reasons; and what `merge` needs. At the start, files that could not be read the last time are to be read again."""
    def begin(self, documents: _Given, chunks: _Given) -> tuple[pyarrow.RecordBatch, int]:
        """Records what became of a block's files: `path`, `content`, `state`, `reason`, `unread`. Returns the chunks that
        are in no part, with the columns `block` and `row`, and how many documents have all of their chunks in parts."""
    def write(self, batch: _Given) -> list[tuple[str, int]]:
        """Writes chunks of `begin` with their vectors. Returns the names of the parts, and how many chunks each has."""
    def merge(self, order: str) -> dict[str, Any]:
        """Makes the index of the parts, in the order of `plan`: `{"chunks": …, "vectors": …, "dimensions": …, "files": […]}`."""
    def remove(self) -> None:
        """Removes the parts at the address, of all settings."""

@final
class Folder:
    """Files at an address, to which many writers add at once."""

    def __new__(cls, address: str) -> Folder:
        """A folder, which is made, or a URL of an object store."""
    def names(self) -> list[str]:
        """The names of the files."""
    def put(self, name: str, bytes: bytes) -> bool:
        """Writes a file, unless it is there. Returns whether it is new."""

@final
class Corpus:
    """The files of a corpus, listed."""

    def __new__(
        cls,
        source: str,
        include: Sequence[str] = ...,
        exclude: Sequence[str] = ...,
        limits: Mapping[str, Any] | str | None = None,
    ) -> Corpus:
        """Lists a folder, a file, a pattern or an object store; patterns and limits are those of `[corpus]`."""
    @property
    def blocks(self) -> list[Block]:
        """The files in order, in the blocks that an engine would make tasks of."""
    @property
    def rejected(self) -> list[tuple[str, str]]:
        """Links that leave the corpus or lead nowhere, unusable names, and what cannot be read, each with the reason."""
    def __len__(self) -> int:
        """How many files the blocks have."""

@final
class Block:
    """Files that one task reads; can be pickled."""

    def __new__(cls, text: str) -> Block: ...
    def __getnewargs__(self) -> tuple[str]: ...
    def __len__(self) -> int: ...
    @property
    def paths(self) -> list[str]:
        """The names of the files."""
    @property
    def bytes(self) -> int:
        """Their sizes together, when they were listed."""
    def read(self) -> pyarrow.RecordBatch:
        """Reads the files: `path`, `bytes`, and in `failure` why there are none; `unread` if a file may be read later, and
        `state`, by which a file that has not changed is known again."""

def rejection(rejected: str) -> str | None:
    """Why a file gave no document, for people: `rejected` of what `Parser.parse` gives."""

def experiment_names() -> list[list[str]]:
    """The names in an experiment: its sections, its axes, the keys of `evaluate`, the metrics."""

@final
class ServedFunction:
    """A function that is served as a model, or an object as a system, until this object is gone."""

    def __new__(cls, digest: str, model: str, address: str, file: str) -> ServedFunction: ...
    def withdraw(self) -> None:
        """No model is built for this address from now on."""
    def is_in_use(self) -> bool:
        """Whether a model, of this run or of another one, may still send calls to its address."""

def system_code() -> str:
    """The Python code that asks a whole system and reads what it returns."""

def register_function_place(source: str, file: str, shift: int) -> None:
    """Registers the file that a source is from, and how many lines precede it."""

def axes() -> list[str]:
    """The names of the axes of an experiment, in the order of the stages."""

def store_variable_prefixes() -> list[str]:
    """The prefixes of environment variables for access to object stores."""

@final
class Worker:
    """A worker of the engine `ray`."""

    def __new__(cls, setup: bytes, folder: str, lessor: Any = None) -> Worker: ...
    def status(self, orders: bytes) -> bytes:
        """What it is doing, for the driver's live tables. `orders` is what people have changed."""
    def run(self, unit: bytes, done: Callable[[bytes | None, str | None], Any]) -> None:
        """Starts a unit of tasks; `done(reply, error)` is called from another thread."""

@final
class Limits:
    """The limits of all models that a cluster's workers call, and the budgets of its runs."""

    def __new__(cls, restarted: bool) -> Limits: ...
    def renew(self, request: str) -> str:
        """Gives a lease, as JSON."""
    def allow(self, request: str) -> str:
        """Gives an allowance of a budget, as JSON."""
    def set_caps(self, budget: str, caps: str) -> None:
        """Replaces the caps of a budget, which are JSON."""
    def targets(self) -> dict[str, int]:
        """Calls that may be in flight at each limit."""

@final
class Done:
    """Called when a call to a worker has ended."""

    def __call__(self, kind: str, payload: bytes) -> None: ...

def home() -> str:
    """Where models are: `REVERIE_HOME`, or its default."""

def main(arguments: list[str], connect: _Connect) -> int:
    """The command line; gives the exit code."""
