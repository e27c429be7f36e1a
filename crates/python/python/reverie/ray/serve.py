"""A bundle on Ray Serve: the HTTP API of `reverie serve`, with replicas that follow the load.

    serve run reverie.ray.serve:build bundle=s3://bucket/manuals-1
    serve run reverie.ray.serve:build bundle=s3://bucket/manuals-1 graph=true llm.max_replicas=8

or from Python, `serve.run(reverie.ray.serve.app("s3://bucket/manuals-1"))` and `serve.run(graph(…))`. In `app`, each
replica holds the whole pipeline; in `graph`, each part of it is a deployment with replicas of its own. Rust does the
work, and Python passes bytes on; a bundle on S3 is fetched once for each node. docs/production.md says when to
take which, and when to run several `reverie serve` behind a balancer instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ray import serve
from ray.exceptions import ActorUnavailableError, RayActorError, TaskCancelledError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

import reverie.serving
from reverie import _core
from reverie.ray._environment import Secrets

__all__ = ["Encoder", "Gateway", "LLM", "QA", "Reranker", "Retriever", "Scale", "Service", "VectorStore", "app", "build", "graph"]

_LOG = logging.getLogger("ray.serve")


@dataclass(frozen=True)
class Scale:
    """What the replicas of a deployment have, and how many there are.

    Attributes:
        replicas: The fewest and the most replicas.
        ongoing: How many requests at a time a replica should have; more replicas start above it.
        cpus: Cores of a replica.
        gpus: GPUs of a replica.
        down_after: For how many seconds fewer replicas must be enough before one ends.
    """

    replicas: tuple[int, int] = (1, 4)
    ongoing: float = 4.0
    cpus: float = 1.0
    gpus: float = 0.0
    down_after: float = 120.0

    def options(self) -> dict[str, Any]:
        """The same as options of a deployment."""
        least, most = self.replicas
        return {
            "autoscaling_config": {
                "min_replicas": least, "max_replicas": most, "target_ongoing_requests": self.ongoing,
                "upscale_delay_s": 5, "downscale_delay_s": self.down_after,
            },
            "max_ongoing_requests": max(int(self.ongoing * 4), 16),
            "ray_actor_options": {"num_cpus": self.cpus, "num_gpus": self.gpus},
            "graceful_shutdown_timeout_s": 30,
        }


# What passes requests on waits more than it computes.
_PASSES_ON = Scale(ongoing=16.0, cpus=0.25)
_SCALES = {
    "encoder": Scale(),
    "vector_store": Scale(),
    "retriever": _PASSES_ON,
    "reranker": Scale(),
    "llm": _PASSES_ON,
    "qa": _PASSES_ON,
    "gateway": _PASSES_ON,
}


def _set(environment: Secrets | None) -> None:
    if environment is not None:
        environment.set()


class _Routes:
    """Passes requests that Ray Serve gives a replica to the service that the replica made."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await reverie.serving.lifespan(receive, send)
            return
        replica = serve.get_replica_context().servable_object
        await replica.service(scope, receive, send)


@serve.deployment
@serve.ingress(_Routes())
class Service:
    """A replica: a whole pipeline. Its parameters are those of `reverie.Service`."""

    def __init__(self, bundle: str, environment: Secrets | None = None, **settings: Any) -> None:
        _set(environment)
        self.service = reverie.serving.Service(bundle, **settings)


class _OtherParts:
    """Passes the requests of a part on to the deployments of the other parts, in the replica's event loop."""

    def __init__(self, handles: Mapping[str, DeploymentHandle[Any]]) -> None:
        self._whole = {name: handle.ask for name, handle in handles.items()}
        self._streams = {name: handle.options(stream=True).stream for name, handle in handles.items()}
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def use_running_loop(self) -> None:
        """Requests are passed on in the loop that runs now."""
        self._loop = asyncio.get_running_loop()

    def call(self, number: int, part: str, streams: bool, request: bytes, replies: _core.ReplySink) -> None:
        """Begins a call, from any thread."""
        if self._loop is None:
            raise RuntimeError("this part has no event loop before its first request")
        self._loop.call_soon_threadsafe(self._begin, number, part, streams, request, replies)

    def cancel(self, number: int) -> None:
        """Ends a call, from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end, number)

    def _begin(self, number: int, part: str, streams: bool, request: bytes, replies: _core.ReplySink) -> None:
        if replies.is_wanted():
            call = asyncio.ensure_future(self._ask(part, streams, request, replies))
            self._calls[number] = call
            call.add_done_callback(lambda _: self._calls.pop(number, None))

    def _end(self, number: int) -> None:
        if call := self._calls.get(number):
            call.cancel()

    async def _ask(self, part: str, streams: bool, request: bytes, replies: _core.ReplySink) -> None:
        try:
            if part not in self._whole:
                raise LookupError("the bundle has no component for this part")
            if streams:
                response = self._streams[part].remote(request)
                with _cancelled_with(response):
                    async for reply in response:
                        replies.add(reply)
            else:
                whole = self._whole[part].remote(request)
                with _cancelled_with(whole):
                    replies.add(await whole)
            replies.end()
        except (ActorUnavailableError, RayActorError, TaskCancelledError) as error:
            replies.end("died", str(error))
        except (BackPressureError, DeploymentUnavailableError) as error:
            replies.end("busy", str(error))
        except Exception as error:
            replies.end("failed", f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _cancelled_with(response: Any) -> Any:
    """Cancels a response if the task that waits for it is cancelled."""
    try:
        yield
    except asyncio.CancelledError:
        response.cancel()
        raise


class _Part:
    """A replica of a part: it answers requests of the other parts."""

    part: str

    def __init__(self, bundle: str, environment: Secrets | None = None, **others: DeploymentHandle[Any]) -> None:
        _set(environment)
        self._others = _OtherParts(others)
        self._core = _core.Part(bundle, self.part, self._others)
        for note in self._core.notes:
            _LOG.warning(note)

    async def ask(self, request: bytes) -> bytes:
        """The reply to a request that has exactly one."""
        self._others.use_running_loop()
        replies = self._core.reply(request)
        try:
            reply = await reverie.serving.next_part(replies)
        finally:
            replies.close()
        if not isinstance(reply, bytes):
            raise RuntimeError(f"the {self.part} sent no reply")
        return reply

    async def stream(self, request: bytes) -> AsyncIterator[bytes]:
        """All replies to a request. The work ends when nobody waits for them."""
        self._others.use_running_loop()
        replies = self._core.reply(request)
        try:
            while isinstance(reply := await reverie.serving.next_part(replies), bytes):
                yield reply
        finally:
            replies.close()


@serve.deployment
class Encoder(_Part):
    """Makes vectors."""

    part = "encoder"


@serve.deployment
class VectorStore(_Part):
    """Holds chunks and indexes: searches them, and runs the stages after the search that look at chunks."""

    part = "vector_store"


@serve.deployment
class Retriever(_Part):
    """Finds passages for questions: writes queries, and runs all other stages after the search."""

    part = "retriever"


@serve.deployment
class Reranker(_Part):
    """Scores passages."""

    part = "reranker"


@serve.deployment
class LLM(_Part):
    """Writes text."""

    part = "llm"


@serve.deployment
class QA(_Part):
    """Answers questions from passages."""

    part = "qa"


class _GatewayService(reverie.serving.Service):
    """The service of a gateway, whose pipeline is elsewhere."""

    def __init__(self, bundle: str, others: _OtherParts, **settings: Any) -> None:
        self._others = others
        super().__init__(bundle, **settings)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._others.use_running_loop()
        await super().__call__(scope, receive, send)


@serve.deployment
@serve.ingress(_Routes())
class Gateway:
    """Serves clients: routes, keys, admission, deadlines, the breaker."""

    def __init__(
        self,
        bundle: str,
        environment: Secrets | None,
        others: dict[str, DeploymentHandle[Any]],
        settings: dict[str, Any],
    ) -> None:
        _set(environment)
        self.service = _GatewayService(bundle, _OtherParts(others), **settings)


def app(
    bundle: str,
    *,
    replicas: tuple[int, int] = (1, 4),
    ongoing: float = 4.0,
    down_after: float = 120.0,
    cpus: float = 1.0,
    gpus: float = 0.0,
    environment: dict[str, str] | None = None,
    **settings: Any,
) -> serve.Application:
    """The application of a bundle, whose replicas each hold the whole pipeline.

    Args:
        bundle: What `reverie promote` made, where every node can read it: `s3://bucket/manuals-1`.
        replicas: The fewest and the most replicas.
        ongoing: How many requests at a time a replica should have; more replicas start above it.
        down_after: For how many seconds fewer replicas must be enough before one ends.
        cpus: Cores of a replica.
        gpus: GPUs of a replica.
        environment: Variables of the replicas, such as keys for S3 and for models. Ray does not show them.
        settings: Parameters of `reverie.Service`.
    """
    scale = Scale(replicas=replicas, ongoing=ongoing, cpus=cpus, gpus=gpus, down_after=down_after)
    return Service.options(**scale.options()).bind(bundle, Secrets.of(environment), **settings)


def graph(
    bundle: str,
    *,
    encoder: Scale | None = None,
    vector_store: Scale | None = None,
    retriever: Scale | None = None,
    reranker: Scale | None = None,
    llm: Scale | None = None,
    qa: Scale | None = None,
    gateway: Scale | None = None,
    environment: dict[str, str] | None = None,
    **settings: Any,
) -> serve.Application:
    """The application of a bundle as a graph: each part of the pipeline is a deployment of its own.

    Parts that the bundle has nothing for, such as a reranker, are left out, unless the bundle cannot be read from here.
    The HTTP API and the answers are those of `app`.

    Args:
        bundle: What `reverie promote` made, where every node can read it: `s3://bucket/manuals-1`.
        encoder: What makes vectors.
        vector_store: What holds chunks and indexes; each replica has all of them in memory.
        retriever: What turns a question into passages.
        reranker: What scores passages.
        llm: What writes: a model in the replica, or the calls of an endpoint with their limits.
        qa: What writes an answer from passages, by the LLM.
        gateway: What clients ask.
        environment: Variables of the replicas, such as keys for S3 and for models. Ray does not show them.
        settings: Parameters of `reverie.Service`, except `fallback`, which would be a whole pipeline in the gateway.
    """
    given = {
        "encoder": encoder, "vector_store": vector_store, "retriever": retriever, "reranker": reranker, "llm": llm,
        "qa": qa, "gateway": gateway,
    }
    scales = {part: scale or _SCALES[part] for part, scale in given.items()}
    try:
        needed = _core.parts(bundle)
    except RuntimeError as error:
        _LOG.warning("%s cannot be read here (%s), so that all parts are deployed", bundle, error)
        needed = list(_SCALES)

    def made(deployment: serve.Deployment, part: str, *arguments: Any, **others: Any) -> serve.Application:
        return deployment.options(**scales[part].options()).bind(bundle, Secrets.of(environment), *arguments, **others)

    classes = {"encoder": Encoder, "reranker": Reranker, "llm": LLM}
    models = {part: made(deployment, part) for part, deployment in classes.items() if part in needed}
    parts = {**models, "vector_store": made(VectorStore, "vector_store", **models)}
    parts["retriever"] = made(Retriever, "retriever", **parts)
    if "qa" in needed:
        asks = {part: parts[part] for part in ("retriever", "llm") if part in parts}
        parts["qa"] = made(QA, "qa", **asks)
    return made(Gateway, "gateway", parts, settings)


def build(arguments: dict[str, str]) -> serve.Application:
    """`app` or `graph` for `serve run|build|deploy reverie.ray.serve:build` and for a RayService.

    `bundle=… min_replicas=1 max_replicas=4` is `app`; `bundle=… graph=true llm.max_replicas=4 encoder.gpus=1` is `graph`.
    """
    given: dict[str, Any] = dict(arguments)
    if "bundle" not in given:
        raise ValueError("name the bundle: serve run reverie.ray.serve:build bundle=s3://bucket/manuals-1")
    bundle, is_graph = given.pop("bundle"), str(given.pop("graph", "false")).lower() == "true"
    for name in ("deadline", "first_token"):
        if name in given:
            given[name] = float(given[name])
    for name in ("answers_at_once", "queue", "searches_at_once"):
        if name in given:
            given[name] = int(given[name])
    if not is_graph:
        scale = _scale(given, "", Scale())
        return app(
            bundle, replicas=scale.replicas, ongoing=scale.ongoing, down_after=scale.down_after, cpus=scale.cpus,
            gpus=scale.gpus, **given,
        )
    scales: dict[str, Any] = {part: _scale(given, f"{part}.", scale) for part, scale in _SCALES.items()}
    return graph(bundle, **scales, **given)


def _scale(given: dict[str, Any], prefix: str, scale: Scale) -> Scale:
    """Takes a deployment's scale out of the arguments."""
    least, most = scale.replicas
    least = int(given.pop(f"{prefix}min_replicas", least))
    most = max(int(given.pop(f"{prefix}max_replicas", most)), least)
    numbers = {
        name: float(given.pop(prefix + name)) for name in ("ongoing", "down_after", "cpus", "gpus") if prefix + name in given
    }
    return replace(scale, replicas=(least, most), **numbers)
