"""The peer: the same as `llama_index_server.py`, behind Ray Serve.

    serve run ray_server:application
"""

from ray import serve

import llama_index_server


@serve.deployment(num_replicas=1, max_ongoing_requests=100, ray_actor_options={"num_cpus": 1})
@serve.ingress(llama_index_server.app)
class Retrieval:
    """One replica."""


application = Retrieval.bind()
