"""The cluster file is what Ray takes. What Kubernetes takes is checked by `make deploy-check`."""

from __future__ import annotations

from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[4]


def test_the_cluster_file_satisfies_rays_own_schema():
    pytest.importorskip("ray", reason="Ray is not installed: `make cluster` installs it")
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load((ROOT / "deploy" / "ray" / "cluster.yaml").read_text())
    validate_config(prepare_config(config))
    groups = config["available_node_types"]
    assert groups["gpu_worker"]["min_workers"] == 0 < groups["gpu_worker"]["max_workers"]
