"""The cluster files are what Ray and Kubernetes take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[4]
SCHEMAS = ROOT.parent / "shared" / "schemas"
MANIFESTS = sorted((ROOT / "deploy" / "kuberay").glob("*.yaml"))


def mistakes(value, schema, path="") -> list[str]:
    """What a custom resource's schema refuses: as Kubernetes checks it, defaults first, unknown keys refused."""
    if value is None and schema.get("nullable"):
        return []
    if schema.get("x-kubernetes-int-or-string"):
        return [] if isinstance(value, (int, str)) else [f"{path}: neither number nor text"]
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    kind = schema.get("type")
    if kind and (not isinstance(value, kinds[kind]) or (kind in ("integer", "number") and isinstance(value, bool))):
        return [f"{path}: expected {kind}, found {value!r}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{path}: {value!r} is none of {schema['enum']}"]
    found = []
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        given = {name: each["default"] for name, each in properties.items() if "default" in each} | value
        found += [f"{path}.{name}: missing" for name in schema.get("required", []) if name not in given]
        for name, each in given.items():
            if name in properties:
                found += mistakes(each, properties[name], f"{path}.{name}")
            elif isinstance(schema.get("additionalProperties"), dict):
                found += mistakes(each, schema["additionalProperties"], f"{path}.{name}")
            elif properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
                found.append(f"{path}.{name}: unknown")
    if isinstance(value, list):
        for i, each in enumerate(value):
            found += mistakes(each, schema.get("items", {}), f"{path}[{i}]")
    return found


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_of_kuberay_satisfies_its_published_schema(manifest):
    if not SCHEMAS.is_dir():
        pytest.skip("the published schemas are not beside this checkout")
    for document in yaml.safe_load_all(manifest.read_text()):
        group, version = document["apiVersion"].split("/")
        schema = json.loads((SCHEMAS / f"{group}_{version}_{document['kind']}.json").read_text())
        schema = {**schema, "properties": {**schema["properties"], "metadata": {}}}
        assert mistakes(document, schema, document["kind"]) == []
        broken = json.loads(json.dumps(document))
        broken["spec"]["rayVersoin"] = "2"
        assert mistakes(broken, schema), "a misspelt key is found"


def test_the_cluster_file_satisfies_rays_own_schema():
    pytest.importorskip("ray", reason="Ray is not installed: `make cluster` installs it")
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load((ROOT / "deploy" / "ray" / "cluster.yaml").read_text())
    validate_config(prepare_config(config))
    groups = config["available_node_types"]
    assert groups["gpu_worker"]["min_workers"] == 0 < groups["gpu_worker"]["max_workers"]
