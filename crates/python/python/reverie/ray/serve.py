"""A bundle on Ray Serve: the HTTP API of `reverie serve`, with replicas that follow the load.

    serve run reverie.ray.serve:build bundle=s3://bucket/manuals-1

or from Python, `serve.run(reverie.ray.serve.app("s3://bucket/manuals-1"))`. Each replica holds the whole pipeline in
Rust; a bundle on S3 is fetched once for each node. Take N `reverie serve` behind a balancer where Ray is not there
anyway: it has no proxy of Python's in front (docs/http.md has the numbers).
"""

from __future__ import annotations

from typing import Any

from ray import serve

import reverie.serving


class _Routes:
    """What Ray Serve hands requests to, in a replica: the service that the replica made."""

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

    def __init__(self, bundle: str, **settings: Any) -> None:
        self.service = reverie.serving.Service(bundle, **settings)


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
    """The application of a bundle.

    Args:
        bundle: What `reverie promote` made, where every node can read it: `s3://bucket/manuals-1`.
        replicas: The fewest and the most replicas.
        ongoing: How many requests at a time a replica should have; more replicas start above it.
        down_after: For how many seconds fewer replicas must be enough before one ends.
        cpus: Cores of a replica.
        gpus: GPUs of a replica.
        environment: Variables of the replicas, such as keys for S3 and for models.
        settings: Parameters of `reverie.Service`.
    """
    least, most = replicas
    return Service.options(
        autoscaling_config={
            "min_replicas": least, "max_replicas": most, "target_ongoing_requests": ongoing,
            "upscale_delay_s": 5, "downscale_delay_s": down_after,
        },
        max_ongoing_requests=max(int(ongoing * 4), 16),
        ray_actor_options={"num_cpus": cpus, "num_gpus": gpus, "runtime_env": {"env_vars": environment or {}}},
        graceful_shutdown_timeout_s=30,
    ).bind(bundle, **settings)


def build(arguments: dict[str, str]) -> serve.Application:
    """The same for `serve run reverie.ray.serve:build bundle=… min_replicas=1 max_replicas=4` and for a RayService."""
    given: dict[str, Any] = dict(arguments)
    if "bundle" not in given:
        raise ValueError("name the bundle: serve run reverie.ray.serve:build bundle=s3://bucket/manuals-1")
    for name in ("ongoing", "down_after", "cpus", "gpus", "deadline", "first_token"):
        if name in given:
            given[name] = float(given[name])
    for name in ("answers_at_once", "queue"):
        if name in given:
            given[name] = int(given[name])
    replicas = int(given.pop("min_replicas", 1)), int(given.pop("max_replicas", 4))
    return app(given.pop("bundle"), replicas=replicas, **given)
