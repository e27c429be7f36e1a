"""The parts of Ray that the engine uses: nodes, actors, and bytes to and from them.

Rust decides which task goes where, what is tried again and when a worker is replaced
(`lab::engine::Remote`). An actor is one asynchronous object around one Rust worker.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any, Callable

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from reverie import _core
from reverie.ray._environment import Secrets, driver_environment

NAMESPACE = "reverie"
LIMITS = "reverie-limits"
# Units of tasks that one worker may hold at once; the engine sends far fewer.
UNITS = 1000

Done = Callable[[str, bytes], None]


class Cluster:
    """A cluster that this process has joined. Methods return at once; `done` is called at the end."""

    def __init__(self, address: str, environment: list[str]) -> None:
        if not ray.is_initialized():
            _check_reachable(address)
            ray.init(address=address, namespace=NAMESPACE, logging_level="warning", log_to_driver=False)
        self._actors: dict[int, Any] = {}
        self._given = driver_environment(environment)

    def nodes(self) -> str:
        """Nodes that are alive and have CPUs, as JSON."""
        alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
        return json.dumps(
            [
                {"id": node["NodeID"], "name": node["NodeManagerAddress"], "cpus": node["Resources"]["CPU"]}
                for node in alive
            ]
        )

    def start(self, worker: int, node: str | None, resources: str, setup: bytes, done: Done) -> None:
        """Starts an actor, on this node if one is named; reports the node.

        If the actor fits on no node, Ray's autoscaler starts one.
        """
        wanted = json.loads(resources)
        options: dict[str, Any] = {
            "num_cpus": wanted["cpus"],
            "num_gpus": wanted["gpus"],
            "resources": wanted["custom"],
            "max_concurrency": UNITS,
        }
        if wanted["memory"]:
            options["memory"] = wanted["memory"]
        if node is not None:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=False)
        actor = Worker.options(**options).remote(setup, self._given)
        self._actors[worker] = actor
        _tell(actor.ready.remote(), done)

    def call(self, worker: int, unit: bytes, done: Done) -> None:
        """Hands a unit to an actor."""
        _tell(self._actors[worker].run.remote(unit), done)

    def status(self, worker: int, orders: bytes, done: Done) -> None:
        """Asks an actor what it is doing, and tells it what people have changed."""
        _tell(self._actors[worker].status.remote(orders), done)

    def set_caps(self, budget: str, caps: str) -> None:
        """Replaces the caps of a run's budget, which the workers divide."""
        ray.get(limits().set_caps.remote(budget, caps), timeout=5)

    def stop(self, worker: int) -> None:
        """Ends an actor."""
        actor = self._actors.pop(worker, None)
        if actor is not None:
            ray.kill(actor)


@ray.remote
class Worker:
    """One Rust worker. `ready` reports what is wrong with its environment."""

    def __init__(self, setup: bytes, given: Secrets) -> None:
        given.set_missing()
        self._worker: Any = None
        self._error: Exception | None = None
        folder = os.path.join(ray.get_runtime_context().get_temp_dir(), "reverie")
        try:
            self._worker = _core.Worker(setup, folder, Lessor())
        except Exception as error:  # noqa: BLE001: whatever it is, the driver should hear it
            self._error = error

    async def ready(self) -> bytes:
        """The id of its node, or why this worker cannot work."""
        if self._error is not None:
            raise self._error
        return ray.get_runtime_context().get_node_id().encode()

    async def status(self, orders: bytes) -> bytes:
        """What it is doing. `orders` is what people have changed."""
        return self._worker.status(orders)

    async def run(self, unit: bytes) -> bytes:
        """Executes a unit of tasks."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()

        def end(reply: bytes | None, error: str | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(reply or b"")
            else:
                future.set_exception(RuntimeError(error))

        self._worker.run(unit, lambda reply, error: loop.call_soon_threadsafe(end, reply, error))
        return await future


class Lessor:
    """A worker's connection to the actor for limits; requests and answers are JSON.

    The first request starts the actor, so a run that calls no remote model starts none.
    """

    def __init__(self) -> None:
        self._limits: Any = None

    def _actor(self) -> Any:
        if self._limits is None:
            self._limits = limits()
        return self._limits

    def renew(self, request: str) -> str:
        """Asks for a lease."""
        return ray.get(self._actor().renew.remote(request), timeout=5)

    def allow(self, request: str) -> str:
        """Asks for an allowance."""
        return ray.get(self._actor().allow.remote(request), timeout=5)


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Limits:
    """The limits of all models that the cluster's workers call, and the budgets of all runs."""

    def __init__(self) -> None:
        self._limits = _core.Limits(ray.get_runtime_context().was_current_actor_reconstructed)

    def renew(self, request: str) -> str:
        """Gives a lease."""
        return self._limits.renew(request)

    def allow(self, request: str) -> str:
        """Gives an allowance of a run's budget."""
        return self._limits.allow(request)

    def set_caps(self, budget: str, caps: str) -> None:
        """Replaces the caps of a run's budget."""
        self._limits.set_caps(budget, caps)

    def targets(self) -> dict[str, int]:
        """Calls that may be in flight at each limit."""
        return self._limits.targets()


def _check_reachable(address: str) -> None:
    # If the head is not there, Ray itself waits two minutes and then ends the process.
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise RuntimeError(f"no Ray cluster answers at {address} ({error}): `ray start --head` tells its address") from error


def limits() -> Any:
    """The cluster's one actor for limits: it outlives runs, and a worker's death frees its share."""
    return Limits.options(name=LIMITS, namespace=NAMESPACE, lifetime="detached", get_if_exists=True).remote()


def _tell(reference: Any, done: Done) -> None:
    reference.future().add_done_callback(lambda future: done(*_outcome(future)))


def _outcome(future: Any) -> tuple[str, bytes]:
    error = future.exception()
    if error is None:
        return "ok", future.result()
    return _kind(error), _reason(error).encode()


def _kind(error: BaseException) -> str:
    if isinstance(error, exceptions.ActorUnavailableError):
        return "unavailable"
    lost = (exceptions.RayActorError, exceptions.ActorUnschedulableError, exceptions.NodeDiedError)
    if isinstance(error, lost) or isinstance(error, (exceptions.WorkerCrashedError, exceptions.ObjectLostError)):
        return "died"
    return "failed"


def _reason(error: BaseException) -> str:
    cause = getattr(error, "cause", None) or error
    # Ray's errors fill a screen; their first line says what happened.
    lines = [line for line in str(cause).strip().splitlines() if line.strip()]
    return (lines[0] if isinstance(error, exceptions.RayActorError) and lines else str(cause)) or repr(error)
