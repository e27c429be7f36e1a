"""The peer: the same as `llama_index_server.py`, as one replica on Ray Serve.

    python ray_server.py PORT
"""

import sys
import time

import ray
from ray import serve

import llama_index_server


@serve.deployment(num_replicas=1, max_ongoing_requests=100, ray_actor_options={"num_cpus": 1})
@serve.ingress(llama_index_server.app)
class Retrieval:
    """One replica."""


application = Retrieval.bind()

if __name__ == "__main__":
    ray.init(include_dashboard=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])}, logging_config={"enable_access_log": False})
    serve.run(application)
    while True:
        time.sleep(60)
