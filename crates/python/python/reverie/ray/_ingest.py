"""A corpus into an index, as a pipeline of Ray Data: read, parse, chunk, embed, write.

Each stage is an operator of its own, to be seen in Ray's dashboard, and does its work in Rust on Arrow blocks.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, Dataset
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from reverie import _core
from reverie._settings import Component
from reverie.ray._cluster import NAMESPACE
from reverie.ray._corpus import CorpusDatasource
from reverie.ray._environment import Secrets, driver_environment
from reverie.ray._sinks import WRITTEN, Index, Selector, Sink, Start

# Chunks that one call embeds: a large book is spread over the pool.
CHUNKS_PER_BLOCK = 256


class Stalled(RuntimeError):
    """The pipeline did nothing for too long. Its text says what to change."""


@dataclass(frozen=True)
class Rejected:
    """A file that gave no document."""

    path: str
    reason: str


@dataclass(frozen=True)
class Ingested:
    """What an ingest did."""

    documents: int
    chunks: int
    rejected: list[Rejected]
    seconds: float
    # What the sink reports: its files, or its entries.
    written: dict[str, Any] = field(default_factory=dict)
    # Documents of an earlier start that was interrupted: nothing of them was embedded again.
    reused: int = 0


def ingest(
    source: str,
    sink: str | Sink,
    *,
    chunker: Component | Mapping[str, Any] | str = "sentence",
    embedder: Mapping[str, Any] | str = "all-minilm-l6-v2",
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    limits: Mapping[str, Any] | None = None,
    actors: int | None = None,
    cpus_per_actor: float = 1,
    gpus_per_actor: float = 0,
    stalled_after: float = 600,
    address: str | None = None,
    environment: Iterable[str] = (),
) -> Ingested:
    """Parses, cuts and embeds a corpus on a Ray cluster, and writes it to a sink.

    An ingest into `Index` that was interrupted, also by `kill -9`, goes on when it is started again with the same
    settings: only files that are missing or have changed are read, and only chunks that are in no part are embedded.

    Args:
        source: a folder, a file, or `s3://…`; every node must see it.
        sink: an address for Reverie's own index, or `Index`, `Parquet` or `Chroma`.
        chunker: as in an experiment's `[space]`: a name, a name with its settings, or
            `reverie.chunker.Sentence(chunk_size=256)`.
        embedder: a local model's name, or the model as in `[models]`, such as
            `{"embedding": {"openai": {…}}}`.
        include, exclude: patterns as in `[corpus]`; files with known extensions if there are none.
        limits: as in `[corpus.limits]`.
        actors: how many embed; by default all that leave one CPU to the other stages.
        cpus_per_actor, gpus_per_actor: what each of them asks Ray for. It computes on that many cores. The local
            runtimes compute on CPUs; ask for GPUs only to be placed where they are.
        stalled_after: seconds without progress after which this gives up.
        address: the cluster, if this process has joined none; as `ray.init` takes it.
        environment: variables of this process that the workers need, such as `OPENAI_API_KEY`.

    Raises:
        ValueError: a wrong setting, no such source, a sink that cannot be written.
        Stalled: nothing moved for `stalled_after` seconds.
    """
    started = time.monotonic()
    target = Index(sink) if isinstance(sink, str) else sink
    # Mistakes are reported here, not by a worker.
    _core.Parser(limits)
    _core.Chunker(chunker)
    corpus = _core.Corpus(source, list(include), list(exclude), limits)
    target.prepare()
    if not ray.is_initialized():
        ray.init(address=address, namespace=NAMESPACE, logging_level="warning", log_to_driver=False)
    pool = _make_pool(actors, cpus_per_actor)
    secrets = driver_environment(environment)
    record = _record()
    run = functools.partial(_run_task, secrets, record, stalled_after, pool)
    start = Start(corpus, _core.settings(limits or {}), _core.settings(chunker), embedder, run)
    work = target.begin(start)
    if work.blocks:
        pipeline = _Stages(secrets, record, start).pipeline(work.blocks, target, pool, gpus_per_actor)
        for block in _run_watched(pipeline, record, stalled_after, pool):
            if block.num_rows:
                target.take(block)
    files, documents, rejected, reused = ray.get(record.parsed.remote())
    documents, rejected = documents + work.documents, {**work.rejected, **rejected}
    listed = sum(len(block) for block in work.blocks)
    if files != listed:
        raise RuntimeError(f"{listed} files were to be read, and {files} were parsed: some are lost")
    rejected.update(corpus.rejected)
    written = target.finish()
    ray.kill(record)
    return Ingested(
        documents=documents,
        chunks=written["chunks"] + written.get("left_out", 0),
        rejected=[Rejected(path, reason) for path, reason in sorted(rejected.items())],
        seconds=time.monotonic() - started,
        written=written,
        reused=reused + work.documents,
    )


@dataclass(frozen=True)
class _Pool:
    """The actors that embed, and the CPUs that are left for tasks."""

    size: int
    cpus_per_actor: float
    cpus_per_task: float
    cpus: float

    def strategy(self) -> ActorPoolStrategy:
        """All at once where there is room now; else what there is room for, and more when others have ended."""
        free = ray.available_resources().get("CPU", 0.0)
        if free >= self.size * self.cpus_per_actor + self.cpus_per_task:
            return ActorPoolStrategy(size=self.size)
        return ActorPoolStrategy(min_size=1, max_size=self.size)


def _make_pool(actors: int | None, cpus_per_actor: float) -> _Pool:
    cpus = ray.cluster_resources().get("CPU", 0.0)
    if cpus < 1:
        raise ValueError("the cluster has no CPU: start its nodes with --num-cpus")
    # On a single CPU, both sides get a half.
    share = 1.0 if cpus >= 2 else 0.5
    each = min(cpus_per_actor, share) if cpus < 2 else cpus_per_actor
    # An actor keeps its CPUs to the end: a pool on all of them would wait for ever for files, which no task could read.
    most = int((cpus - share) // each) if each else actors or 1
    if most < 1:
        raise ValueError(f"cpus_per_actor = {cpus_per_actor:g}, and the cluster has {cpus:g} CPUs of which one must be left to read files")
    if actors is not None and actors > most:
        raise ValueError(
            f"{actors} actors with {each:g} CPUs each leave none of the cluster's {cpus:g} to read, parse and chunk: "
            f"at most {most} actors"
        )
    return _Pool(actors or most, each, share, cpus)


@ray.remote(num_cpus=0)
class _Record:
    """What has happened. The documents of a task that Ray repeats are counted once: its block has a name."""

    def __init__(self) -> None:
        self._steps: dict[str, int] = {}
        self._files: dict[str, int] = {}
        self._documents: dict[str, int] = {}
        self._rejected: dict[str, str] = {}
        self._reused: dict[str, int] = {}

    def step(self, stage: str) -> None:
        self._steps[stage] = self._steps.get(stage, 0) + 1

    def steps(self) -> dict[str, int]:
        return self._steps

    def parse(self, block: str, files: int, documents: int, rejected: dict[str, str]) -> None:
        self.step("parse")
        self._files[block] = files
        self._documents[block] = documents
        self._rejected.update(rejected)

    def select(self, block: str, reused: int) -> None:
        self.step("chunk")
        # If Ray repeats a task, it finds parts of this start too.
        self._reused.setdefault(block, reused)

    def parsed(self) -> tuple[int, int, dict[str, str], int]:
        return sum(self._files.values()), sum(self._documents.values()), self._rejected, sum(self._reused.values())


def _record() -> Any:
    # On the driver's node, so that it is gone only when the driver is.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return _Record.options(scheduling_strategy=here).remote()


@dataclass(frozen=True)
class _Stages:
    secrets: Secrets
    record: Any
    start: Start

    def pipeline(self, blocks: Sequence[_core.Block], sink: Sink, pool: _Pool, gpus: float) -> Dataset:
        """The operators."""
        corpus = CorpusDatasource(blocks, self.secrets.set_missing)
        # Ray merges neighbouring operators that ask for the same resources. The smallest share of a CPU keeps them
        # apart, so that each is shown separately.
        ask = [{"num_cpus": pool.cpus_per_task - i / 10_000} for i in range(4)]
        whole: dict[str, Any] = {"batch_size": None, "batch_format": "pyarrow"}
        dataset = ray.data.read_datasource(corpus, override_num_blocks=max(1, len(corpus)), **ask[0])
        # Ray cuts blocks above 128 MiB between any two rows, but the mails of a large mailbox stay together until they are
        # chunks: what is known of a file says how many documents it has.
        dataset.context.target_max_block_size = None
        tasks = _Tasks(self.secrets, self.record, self.start.limits, self.start.chunker)
        chunk = functools.partial(tasks.chunk, sink.selector())
        dataset = dataset.map_batches(_rename("Parse", tasks.parse), **whole, **ask[1])
        dataset = dataset.map_batches(_rename("Chunk", chunk), **whole, **ask[2])
        if pool.cpus_per_task >= 1:
            # Ray's own operator, which asks for a whole CPU. It cuts blocks and joins none, so the borders of files and
            # parts depend on no order.
            dataset = dataset.repartition(target_num_rows_per_block=CHUNKS_PER_BLOCK)
        dataset = dataset.map_batches(
            Embed,
            fn_constructor_args=(self.secrets, self.record, self.start.embedder, max(1, int(pool.cpus_per_actor))),
            compute=pool.strategy(),
            num_cpus=pool.cpus_per_actor,
            num_gpus=gpus,
            **whole,
        )
        writer = sink.writer()
        if writer is not None:
            dataset = dataset.map_batches(_rename("Write", functools.partial(tasks.write, writer)), **whole, **ask[3])
        return dataset


@dataclass(frozen=True)
class _Tasks:
    """The stages that are tasks. They travel to the workers, so they hold no listing."""

    secrets: Secrets
    record: Any
    limits: str
    chunker: str

    def parse(self, table: pa.Table) -> pa.Table:
        """Files to documents; those that give none are recorded before anything goes on."""
        self.secrets.set_missing()
        batch = _to_batch(table)
        parsed, places = _parser(self.limits).parse_files(batch.select(["path", "bytes"]))
        documents = _to_batch(pa.Table.from_batches([parsed]))
        # A mail gives several documents: each has what is known of the file.
        files = batch.take(pa.array(places, pa.int64()))
        said = zip(files["failure"].to_pylist(), documents["rejected"].to_pylist())
        reasons = [failure or _core.rejection(reason or "null") for failure, reason in said]
        rejected = {path: reason for path, reason in zip(documents["path"].to_pylist(), reasons) if reason is not None}
        count = documents.num_rows - len(rejected)
        ray.get(self.record.parse.remote(batch["path"][0].as_py(), batch.num_rows, count, rejected))
        of_files = {"file": files["path"], "unread": files["unread"], "state": files["state"]}
        return pa.table({**{name: documents[name] for name in documents.schema.names}, "reason": pa.array(reasons, pa.string()), **of_files})

    def chunk(self, select: Selector | None, table: pa.Table) -> pa.Table:
        """Documents to chunks."""
        # Whatever else a document has would become its metadata.
        documents = _to_batch(table.drop_columns(["reason", "file", "unread", "state"]))
        chunks = pa.Table.from_batches([_chunker(self.chunker).chunk(documents)])
        if select is None or not table.num_rows:
            self.record.step.remote("chunk")
            return chunks
        self.secrets.set_missing()
        left, reused = select(table.select(["path", "content", "reason", "file", "unread", "state"]), chunks)
        ray.get(self.record.select.remote(table["file"][0].as_py(), reused))
        return left

    def write(self, writer: Callable[[pa.Table], pa.Table], table: pa.Table) -> pa.Table:
        """Chunks to a sink that is written on the cluster."""
        if not table.num_rows:
            return WRITTEN.empty_table()
        self.secrets.set_missing()
        written = writer(table)
        self.record.step.remote("write")
        return written


class Embed:
    """Chunks to chunks with vectors: an actor, since it holds a model."""

    def __init__(self, secrets: Secrets, record: Any, embedder: Mapping[str, Any] | str, cores: int) -> None:
        secrets.set_missing()
        self._record = record
        self._embedding = _core.Embedding(embedder, cores)

    def __call__(self, table: pa.Table) -> pa.Table:
        chunks = self._embedding.embed(_to_batch(table))
        self._record.step.remote("embed")
        return pa.Table.from_batches([chunks])


# Made where they run, after `set_missing`, because a parser looks for the PDF library.
@functools.lru_cache(maxsize=4)
def _parser(limits: str) -> Any:
    return _core.Parser(limits)


@functools.lru_cache(maxsize=4)
def _chunker(config: str) -> Any:
    return _core.Chunker(config)


def _to_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch, without Ray's marks in its schema."""
    batches = table.replace_schema_metadata(None).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema.remove_metadata())


def _rename(name: str, function: Callable[[pa.Table], pa.Table]) -> Callable[[pa.Table], pa.Table]:
    """A function that Ray shows under this name."""

    def stage(table: pa.Table) -> pa.Table:
        return function(table)

    stage.__name__ = stage.__qualname__ = name
    return stage


def _run_task(
    secrets: Secrets,
    record: Any,
    seconds: float,
    pool: _Pool,
    name: str,
    function: Callable[[], Any],
    cpus: float | None,
) -> Any:
    """What a function returns that runs as one task on the cluster; gives up if it does not begin for this long."""
    wanted = pool.cpus_per_task if cpus is None else cpus
    task = ray.remote(_run_one).options(num_cpus=wanted, name=name).remote(secrets, record, name, function)
    since = time.monotonic()
    while not ray.wait([task], timeout=min(1.0, seconds / 4))[0]:
        if time.monotonic() - since > seconds and name not in ray.get(record.steps.remote()):
            ray.cancel(task, force=True)
            raise Stalled(_advice(ray.get(record.steps.remote()), seconds, pool))
    return ray.get(task)


def _run_one(secrets: Secrets, record: Any, name: str, function: Callable[[], Any]) -> Any:
    secrets.set_missing()
    ray.get(record.step.remote(name))
    return function()


def _run_watched(pipeline: Dataset, record: Any, seconds: float, pool: _Pool) -> Iterator[pa.Table]:
    """The blocks of a pipeline; gives up if none of its stages finishes anything for this long."""
    results: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=4)
    over = threading.Event()
    executors = _executors(pipeline)

    def tell(kind: str, value: Any) -> None:
        while not over.is_set():
            try:
                return results.put((kind, value), timeout=1)
            except queue.Full:
                continue

    def run() -> None:
        try:
            for block in pipeline.iter_batches(batch_size=None, batch_format="pyarrow"):
                tell("block", block)
                if over.is_set():
                    return
            tell("end", None)
        except BaseException as error:  # noqa: BLE001: it is raised in the caller's thread
            tell("error", error)

    threading.Thread(target=run, name="reverie-ingest", daemon=True).start()
    seen: dict[str, int] = {}
    since = time.monotonic()
    try:
        while True:
            try:
                kind, value = results.get(timeout=min(1.0, seconds / 4))
            except queue.Empty:
                now = ray.get(record.steps.remote())
                if now != seen:
                    seen, since = now, time.monotonic()
                elif time.monotonic() - since > seconds:
                    raise Stalled(_advice(seen, seconds, pool)) from None
                continue
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
            since = time.monotonic()
    finally:
        over.set()
        for executor in executors:
            executor.shutdown(force=True)


def _executors(pipeline: Dataset) -> list[Any]:
    """The executors of a dataset, as soon as they exist. Ray shows them only after the first block, and a pipeline that
    stalls before that would keep its tasks and actors for as long as this process lives."""
    executors: list[Any] = []
    create = getattr(pipeline, "_create_executor", None)
    if create is not None:

        def capture(*arguments: Any, **settings: Any) -> Any:
            executors.append(create(*arguments, **settings))
            return executors[-1]

        pipeline._create_executor = capture
    return executors


def _advice(steps: dict[str, int], seconds: float, pool: _Pool) -> str:
    free = ray.available_resources().get("CPU", 0.0)
    done = ", ".join(f"{stage} {count}" for stage, count in sorted(steps.items())) or "nothing"
    text = f"no stage finished a block for {seconds:.0f} s (blocks done: {done}). "
    if free < pool.cpus_per_task:
        text += (
            f"{free:g} of the cluster's {pool.cpus:g} CPUs are free, and reading a block asks for {pool.cpus_per_task:g}: "
            f"use fewer actors than {pool.size}, add a node, or wait for the cluster's other jobs"
        )
    elif not steps.get("embed") and steps.get("chunk"):
        text += "the actors that embed have done nothing: see their logs in Ray's dashboard, or raise stalled_after if a model is being fetched"
    else:
        text += "see the tasks in Ray's dashboard, or raise stalled_after if one block may take that long"
    return text
