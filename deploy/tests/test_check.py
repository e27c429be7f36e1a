"""Each kind of mistake is found, and what is in the project has none."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import check  # noqa: E402

EVERYTHING = check.rendered()


def one(kind: str, name: str | None = None) -> dict:
    """A copy of one of our own documents, to be spoilt."""
    for documents in EVERYTHING.values():
        for document in documents:
            if document["kind"] == kind and name in (None, document["metadata"]["name"]):
                return copy.deepcopy(document)
    raise AssertionError(f"there is no {kind} {name}")


def container(document: dict) -> dict:
    return document["spec"]["template"]["spec"]["containers"][0]


def test_nothing_is_wrong_and_nothing_is_left_out():
    assert len(EVERYTHING) >= 20
    for source, documents in EVERYTHING.items():
        assert check.together(documents, EVERYTHING[check.WORKFLOW]) == [], source
        for document in documents:
            assert check.problems(document) == [], source
    # Every file with a manifest is part of something that is rendered, or is read as it is.
    known = {(document["kind"], document["metadata"]["name"]) for documents in EVERYTHING.values() for document in documents}
    for path in (check.HERE / "kubernetes").rglob("*.yaml"):
        for document in check.documents(path.read_text()):
            if document["kind"] != "Kustomization":
                assert (document["kind"], document["metadata"]["name"]) in known, path
    # A merge key is resolved by some readers of YAML only: what is rendered has none.
    for overlay in ("laptop", "gpu", "production"):
        text = check.command(check.TOOLS / "kubectl", "kustomize", check.HERE / "kubernetes" / "overlays" / overlay)
        assert "<<:" not in text


def spoil(document: dict, *path, value) -> dict:
    """The document with another value at a place."""
    *parents, last = path
    place = document
    for each in parents:
        place = place[each]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


POD = ("spec", "template", "spec")
FIRST = (*POD, "containers", 0)
PLANTED = {
    "a built-in kind with a wrong type": ("Deployment", "reverie-serve", ("spec", "replicas"), "two", "schema"),
    "a built-in kind with an unknown key": ("Deployment", "reverie-serve", ("spec", "replcas"), 2, "schema"),
    "a built-in kind without a key it needs": ("Deployment", "reverie-serve", ("spec", "selector"), None, "schema"),
    "a kind that nobody knows": ("Deployment", "reverie-serve", ("kind",), "Deplyoment", "schema"),
    "a version that is no more": ("HorizontalPodAutoscaler", None, ("apiVersion",), "autoscaling/v2beta1", "schema"),
    "a custom kind without a schema": ("RayCluster", None, ("apiVersion",), "ray.io/v1alpha9", "schema"),
    "RayCluster, an unknown key": ("RayCluster", None, ("spec", "rayVersoin"), "2", "schema"),
    "RayJob, an unknown key far inside": ("RayJob", None, ("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containrs"), [], "schema"),
    "RayService, a wrong type": ("RayService", None, ("spec", "rayClusterConfig", "workerGroupSpecs", 0, "replicas"), "two", "schema"),
    "Application, a key that it needs": ("Application", None, ("spec", "destination"), None, "schema"),
    "AppProject, a wrong type": ("AppProject", None, ("spec", "sourceRepos"), "all", "schema"),
    "WorkflowTemplate, an unknown key": ("WorkflowTemplate", None, ("spec", "templates", 0, "stepz"), [], "schema"),
    "CronWorkflow, a wrong type": ("CronWorkflow", None, ("spec", "schedules"), "0 2 * * *", "schema"),
    "ServiceMonitor, an unknown key": ("ServiceMonitor", None, ("spec", "endpoints", 0, "intervall"), "1s", "schema"),
    "Sensor, an unknown key": ("Sensor", None, ("spec", "triggers", 0, "rateLimits"), {}, "schema"),
    "Sensor, an unknown key far inside": ("Sensor", None, ("spec", "dependencies", 0, "filters", "data", 0, "values"), [], "schema"),
    "Sensor, a key that it needs": ("Sensor", None, ("spec", "dependencies", 0, "eventName"), None, "schema"),
    "Sensor, a word that is none": ("Sensor", None, ("spec", "triggers", 0, "rateLimit", "unit"), "Day", "schema"),
    "EventSource, an unknown key": ("EventSource", None, ("spec", "webhook", "objects", "token"), {}, "schema"),
    "EventSource, a wrong type": ("EventSource", None, ("spec", "webhook", "objects", "port"), 12000, "schema"),
    "EventBus, an unknown key": ("EventBus", None, ("spec", "jetstream", "replica"), 3, "schema"),
    "a Sensor as root": ("Sensor", None, ("spec", "template", "securityContext"), {}, "root"),
    "a Sensor without limits": ("Sensor", None, ("spec", "template", "container", "resources", "limits"), None, "resources"),
    "an EventSource that can write": ("EventSource", None, ("spec", "template", "container", "securityContext", "readOnlyRootFilesystem"), None, "read-only"),
    "an EventSource of which nothing is said": ("EventSource", None, ("spec", "template"), None, "root"),
    "a container of the EventBus without limits": ("EventBus", None, ("spec", "jetstream", "metricsContainerTemplate"), None, "resources"),
    "no requests": ("Deployment", "reverie-serve", (*FIRST, "resources", "requests"), None, "resources"),
    "no limit of memory": ("StatefulSet", "storage", (*FIRST, "resources", "limits"), {"cpu": "1"}, "resources"),
    "root": ("Deployment", "mlflow", (*POD, "securityContext", "runAsNonRoot"), None, "root"),
    "root by number": ("Deployment", "mlflow", (*POD, "securityContext", "runAsUser"), 0, "root"),
    "a root filesystem that can be written": ("Deployment", "reverie-serve", (*FIRST, "securityContext", "readOnlyRootFilesystem"), False, "read-only"),
    "an init container that can write": ("Job", "reverie-run", (*POD, "initContainers", 0, "securityContext", "readOnlyRootFilesystem"), None, "read-only"),
    "more privileges": ("StatefulSet", "postgresql", (*FIRST, "securityContext", "allowPrivilegeEscalation"), None, "privileges"),
    "the network of the node": ("Deployment", "mlflow", (*POD, "hostNetwork"), True, "privileges"),
    "capabilities": ("StatefulSet", "notebook", (*FIRST, "securityContext", "capabilities"), {"drop": ["NET_RAW"]}, "capabilities"),
    "any system call": ("Deployment", "mlflow", (*POD, "securityContext", "seccompProfile"), None, "seccomp"),
    "latest": ("Deployment", "reverie-serve", (*FIRST, "image"), "reverie/reverie:latest", "image"),
    "no tag": ("Deployment", "reverie-serve", (*FIRST, "image"), "server:5000/reverie", "image"),
    "a secret in plain text": ("Deployment", "mlflow", (*FIRST, "env"), [{"name": "POSTGRES_PASSWORD", "value": "abc"}], "secret"),
    "no probe": ("Deployment", "reverie-serve", (*FIRST, "readinessProbe"), None, "probe"),
    "a Ray worker without limits": ("RayCluster", None, ("spec", "workerGroupSpecs", 0, "template", "spec", "containers", 0, "resources"), {}, "resources"),
    "a step of the workflow as root": ("WorkflowTemplate", None, ("spec", "securityContext"), {}, "root"),
}


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each)
def test_a_planted_mistake_is_found(planted):
    kind, name, path, value, expected = PLANTED[planted]
    document = one(kind, name)
    assert check.problems(document) == []
    found = check.problems(spoil(document, *path, value=value))
    assert any(each.startswith(f"{expected}:") for each in found), found


RESOURCE = ("spec", "triggers", 0, "template", "k8s", "source", "resource")
PARAMETERS = ("spec", "triggers", 0, "template", "k8s", "parameters")
FILTERS = ("spec", "dependencies", 0, "filters")
KEY = (*FILTERS, "data", 2, "value")
BETWEEN = {
    "a workflow that is not there": ("Sensor", (*RESOURCE, "spec", "workflowTemplateRef", "name"), "revery", "reference: there is no WorkflowTemplate revery"),
    "a parameter that the workflow does not have": ("Sensor", (*RESOURCE, "spec", "arguments", "parameters", 0, "name"), "buckets", "reference: the workflow has no parameter buckets"),
    "a place that is not in the Workflow": ("Sensor", (*PARAMETERS, 0, "dest"), "spec.arguments.parameters.3.value", "reference: the Workflow has no"),
    "a Workflow with an unknown key": ("Sensor", (*RESOURCE, "spec", "workflowTemplateReff"), {}, "schema"),
    "a trigger that makes something else": ("Sensor", (*RESOURCE, "kind"), "Job", "schema: a trigger makes something else"),
    "a parameter of an unknown dependency": ("Sensor", (*PARAMETERS, 1, "src", "dependencyName"), "objects", "reference: there is no dependency"),
    "an event that nobody sends": ("Sensor", ("spec", "dependencies", 0, "eventName"), "object", "reference: object is of"),
    "an EventSource that is not there": ("Sensor", ("spec", "dependencies", 0, "eventSourceName"), "objects", "reference: object is of"),
    "an EventBus that is not there": ("Sensor", ("spec", "eventBusName"), "default", "reference: there is no EventBus"),
    "a source on another EventBus": ("EventSource", ("spec", "eventBusName"), "default", "reference: object comes by another"),
    "an account that may nothing": ("Sensor", ("spec", "template", "serviceAccountName"), "reverie-serve", "rights"),
    "an account that may more": ("Sensor", ("spec", "template", "serviceAccountName"), "reverie-workflow", "rights"),
    "no token": ("EventSource", ("spec", "webhook", "objects", "authSecret"), None, "token"),
    "no filter": ("Sensor", FILTERS, None, "loop: the workflow writes store"),
    "no filter of keys": ("Sensor", (*FILTERS, "data", 2), None, "loop: the workflow writes store"),
    "a filter that lets the store through": ("Sensor", KEY, ["^documents(/|%2F)", "^store"], "loop: the workflow writes store"),
    "a filter that lets all bundles through": ("Sensor", KEY, ["^(documents|bundles)(/|%2F)"], "loop: the workflow writes bundles/x"),
    "a filter that matches anywhere": ("Sensor", KEY, ["documents(/|%2F)"], "loop: the workflow writes store/documents/a"),
    "a filter turned round": ("Sensor", (*FILTERS, "data", 2, "comparator"), "!=", "loop: the workflow writes store"),
    "a filter of a folder's beginning": ("Sensor", KEY, ["^documents"], "filter: documents-old/a.pdf is not below"),
    "a filter for one way to write a slash": ("Sensor", KEY, ["^documents/"], "filter: s3:ObjectCreated:Put of documents%2F"),
    "a filter that lets nothing through": ("Sensor", (*FILTERS, "data", 2, "path"), "Records.0.s3.object.key", "filter: s3:ObjectCreated:Put of documents"),
    "any bucket": ("Sensor", (*FILTERS, "data", 1), None, "filter: an object in the bucket"),
    "a bucket by its beginning": ("Sensor", (*FILTERS, "data", 1, "value"), ["^reverie"], "filter: an object in the bucket reverie-other"),
    "any event": ("Sensor", (*FILTERS, "data", 0), None, "filter: an object that was removed"),
    "one of the filters is enough": ("Sensor", (*FILTERS, "dataLogicalOperator"), "or", "filter: a kind of filter that is not understood"),
    "a script, which nobody reads here": ("Sensor", (*FILTERS, "script"), "return true", "filter: a kind of filter that is not understood"),
}


@pytest.mark.parametrize("source", ["kubernetes/base/events", "kubernetes/overlays/events"])
@pytest.mark.parametrize("planted", BETWEEN, ids=lambda each: each)
def test_a_planted_mistake_between_documents_is_found(planted, source):
    kind, path, value, expected = BETWEEN[planted]
    documents = copy.deepcopy(EVERYTHING[source])
    assert check.together(documents, EVERYTHING[check.WORKFLOW]) == []
    spoil(next(each for each in documents if each["kind"] == kind), *path, value=value)
    found = check.together(documents, EVERYTHING[check.WORKFLOW])
    assert any(each.startswith(expected) for each in found), found


def test_rights_beyond_making_workflows_are_found():
    documents = copy.deepcopy(EVERYTHING["kubernetes/base/events"])
    (role,) = [each for each in documents if each["kind"] == "Role"]
    role["rules"][0]["verbs"].append("delete")
    assert any(each.startswith("rights") for each in check.together(documents, EVERYTHING[check.WORKFLOW]))


def test_a_place_that_the_workflow_comes_to_write_is_found():
    """What the workflow writes is read from its steps: a new place in the documents' folder would start it for ever."""
    documents = copy.deepcopy(EVERYTHING["kubernetes/overlays/events"])
    (template,) = [each for each in documents if each["kind"] == "WorkflowTemplate"]
    assert check.written(template) == {"store", "golden/x.jsonl", "bundles/x"}
    step = next(each for each in template["spec"]["templates"] if each["name"] == "keep")
    step["container"]["args"][-1] = "s3://{{workflow.parameters.bucket}}/documents/golden.jsonl"
    assert any(each.startswith("loop: the workflow writes documents/golden.jsonl") for each in check.together(documents, []))


def in_go(folder: Path, template: str, event: dict) -> str:
    """A template as Argo Events would fill it in: Go's, with the functions of sprig, both of which helm has as well."""
    (folder / "templates").mkdir(exist_ok=True)
    (folder / "Chart.yaml").write_text("{apiVersion: v2, name: template, version: 0.1.0}")
    (folder / "values.yaml").write_text(json.dumps({"text": template, "event": event}))
    (folder / "templates" / "one.yaml").write_text('made: {{ tpl .Values.text (dict "Input" .Values.event "Template" .Template) | quote }}')
    return check.documents(check.command(check.TOOLS / "helm", "template", "one", folder))[0]["made"]


SLASHES = ["documents/deep/a.pdf", "documents%2Fdeep%2Fa.pdf"]


@pytest.mark.parametrize("key", SLASHES)
def test_bucket_and_folder_are_those_of_the_notice(tmp_path, key):
    sensor = one("Sensor")
    event = check.notice("reverie", key)
    made = check.found_at(sensor, ".".join(map(str, RESOURCE)))
    given = {}
    for each in check.found_at(sensor, ".".join(map(str, PARAMETERS))):
        source = each["src"]
        value = in_go(tmp_path, source["dataTemplate"], event) if "dataTemplate" in source else check.found_at(event, source["dataKey"])
        given[each["dest"]] = value
    names = [each["name"] for each in made["spec"]["arguments"]["parameters"]]
    assert {names[int(dest.split(".")[3])]: value for dest, value in given.items() if dest.startswith("spec")} == {"bucket": "reverie", "documents": "documents"}
    assert re.fullmatch(r"reverie-[0-9a-f]{8}-[0-9]{11}", given["metadata.name"])


def test_a_workflow_waits_as_long_as_its_name_lasts(tmp_path):
    """Notices with the same name start one workflow. It begins when no more of them can come."""
    sensor = one("Sensor")
    (name,) = [each["src"]["dataTemplate"] for each in check.found_at(sensor, ".".join(map(str, PARAMETERS))) if each["dest"] == "metadata.name"]
    assert name.count(" now ") == 1

    def at(time: str, bucket: str = "reverie", key: str = SLASHES[0]) -> str:
        text = name.replace(" now ", f' (toDate "2006-01-02T15:04:05" "2026-11-24T{time}") ')
        return in_go(tmp_path, text, check.notice(bucket, key))

    assert at("12:30:00") == at("12:39:59") == at("12:35:00", key=SLASHES[1]) == at("12:35:00", key="documents/b.pdf")
    assert len({at("12:29:59"), at("12:30:00"), at("12:40:00"), at("13:30:00"), at("12:30:00", bucket="other"), at("12:30:00", key="other/a.pdf")}) == 6
    given = {each["name"]: each["value"] for each in check.found_at(sensor, ".".join(map(str, RESOURCE)))["spec"]["arguments"]["parameters"]}
    assert int(given["settle"]) >= 600
    template = one("WorkflowTemplate")
    first = template["spec"]["templates"][0]["steps"][0]
    assert [each["name"] for each in first] == ["settle"]
    (settle,) = [each for each in template["spec"]["templates"] if each["name"] == first[0]["template"]]
    assert settle["suspend"]["duration"] == "{{workflow.parameters.settle}}"


def test_runs_on_one_bucket_wait_for_each_other():
    mutexes = one("WorkflowTemplate")["spec"]["synchronization"]["mutexes"]
    assert [each["name"] for each in mutexes] == ["reverie-{{workflow.parameters.bucket}}"]


def test_filters_mean_to_go_what_they_mean_here(tmp_path):
    """Expressions of Go and Python are not the same: each filter, by helm's functions and by ours."""
    filters = one("Sensor")["spec"]["dependencies"][0]["filters"]["data"]
    keys = [*SLASHES, "store/a", "store%2Fdocuments%2Fa", "documents-old/a", "documents", "Documents/a", "x/documents/a"]
    for event in [check.notice(bucket, key, name) for key in keys for bucket in ("reverie", "reverie2") for name in ("s3:ObjectCreated:Put", "ObjectRemoved:Delete")]:
        tests = [f'(regexMatch {json.dumps(value)} {json.dumps(check.found_at(event, each["path"]))})' for each in filters for value in each["value"]]
        assert len(tests) == 3
        assert in_go(tmp_path, "{{ and " + " ".join(tests) + " }}", event) == str(check.passes({"data": filters}, event)).lower(), event


def test_a_secret_in_a_file_is_found():
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"key": "abc"}}
    assert any(each.startswith("secret:") for each in check.problems(secret))


def test_defaults_come_before_what_is_missing():
    """KubeRay's groups need `maxReplicas`, which has a default."""
    document = one("RayCluster")
    del document["spec"]["workerGroupSpecs"][0]["maxReplicas"]
    assert check.invalid(document) == []


def test_a_number_or_a_text_where_either_may_be():
    document = one("RayCluster")
    where = document["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    for value, fits in ((2, True), ("2", True), ([2], False)):
        where["cpu"] = value
        assert (check.invalid(document) == []) == fits, value


def test_a_patch_that_finds_nothing_is_an_error(tmp_path):
    shutil.copytree(check.HERE / "kubernetes", tmp_path / "kubernetes")
    path = tmp_path / "kubernetes" / "overlays" / "gpu" / "kustomization.yaml"
    path.write_text(path.read_text().replace("value: gpu", "value: cpu"))
    with pytest.raises(ValueError, match="test"):
        check.kustomized(path.parent)


def test_the_chart_refuses_what_could_never_be_drained():
    with pytest.raises(ValueError, match="minAvailable"):
        check.chart("--set", "minAvailable=2")


def test_the_chart_says_what_the_base_says():
    """Two ways to the same pods: what one has, the other has."""
    base = {(each["kind"], each["metadata"]["name"]): each for each in EVERYTHING["kubernetes/base/serve"]}
    made = {(each["kind"], each["metadata"]["name"]): each for each in EVERYTHING["chart values.yaml"]}
    assert base.keys() == made.keys()
    for key, document in base.items():
        spec, other = (copy.deepcopy(each.get("spec")) for each in (document, made[key]))
        if key[0] == "Deployment":
            for each in [*container_list(other)]:
                assert each.pop("imagePullPolicy") == "IfNotPresent"
        assert spec == other, key
    (job,) = EVERYTHING["kubernetes/base/run"]
    (other,) = [each for each in EVERYTHING["chart values-production.yaml"] if each["kind"] == "Job"]
    for each in container_list(other["spec"]):
        each.pop("imagePullPolicy", None)
    assert job["spec"]["podFailurePolicy"] == other["spec"]["podFailurePolicy"]
    assert job["spec"]["template"]["spec"] == other["spec"]["template"]["spec"]


def container_list(spec: dict) -> list[dict]:
    pod = spec["template"]["spec"]
    return [*pod["containers"], *pod.get("initContainers", [])]


def test_what_a_reached_budget_and_a_missing_answer_mean_to_the_job():
    rules = one("Job", "reverie-run")["spec"]["podFailurePolicy"]["rules"]
    means = {code: rule["action"] for rule in rules for code in rule.get("onExitCodes", {}).get("values", [])}
    assert means == {1: "Count", 2: "FailJob", 3: "Count", 4: "FailJob", 5: "FailJob"}


@pytest.mark.parametrize(("step", "code", "ends"), [("experiment", 0, 0), ("experiment", 4, 0), ("experiment", 3, 3), ("experiment", 1, 1), ("golden", 3, 0), ("golden", 1, 1)])
def test_a_step_ends_as_its_comment_says(tmp_path, step, code, ends):
    templates = {each["name"]: each for each in one("WorkflowTemplate")["spec"]["templates"]}
    step = templates[step]["container"]
    (tmp_path / "reverie").write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
    (tmp_path / "reverie").chmod(0o755)
    done = subprocess.run(step["command"] + step["args"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True)
    assert done.returncode == ends
    assert done.stdout.split() == " ".join(step["args"]).split(), "every argument arrives"


def test_every_parameter_of_the_workflow_is_told_and_used():
    template = one("WorkflowTemplate")
    text = json.dumps(template["spec"])
    for each in template["spec"]["arguments"]["parameters"]:
        assert each["description"] and "{{workflow.parameters.%s}}" % each["name"] in text, each["name"]


def test_argo_cd_leaves_to_others_what_they_change():
    """Of the fields that are ignored, each is there, and is written by an autoscaler or by the workflow."""
    application = one("Application", "reverie-parts")
    ignored = {each["kind"]: each for each in application["spec"]["ignoreDifferences"]}
    assert ".spec.workerGroupSpecs[].replicas" in ignored["RayCluster"]["jqPathExpressions"]
    assert ignored["Deployment"]["jsonPointers"] == ["/spec/replicas"]
    assert "RespectIgnoreDifferences=true" in application["spec"]["syncPolicy"]["syncOptions"]
    patch = next(each for each in one("WorkflowTemplate")["spec"]["templates"] if each["name"] == "serve")
    (changed,) = yaml.safe_load(patch["resource"]["manifest"])["spec"]["template"]["spec"]["containers"]
    served = {each["name"] for each in container(one("Deployment", "reverie-serve"))["env"]}
    assert [each["name"] for each in changed["env"]] == ["BUNDLE"] and "BUNDLE" in served
    assert '"BUNDLE"' in ignored["Deployment"]["jqPathExpressions"][0]


def test_paths_of_the_applications_exist():
    for document in [each for source, found in EVERYTHING.items() if source.startswith("argocd") for each in found]:
        source = document["spec"].get("source", {})
        if source.get("repoURL", "").startswith("https://git.example.com"):
            assert (check.HERE.parent / source["path"]).is_dir(), source["path"]


def test_a_dockerfile_with_a_mistake_is_found(tmp_path):
    path = tmp_path / "Dockerfile"
    path.write_text("FROM debian:latest\nRUN apt-get install gcc\n")
    done = subprocess.run([check.TOOLS / "hadolint", path], capture_output=True, text=True)
    assert done.returncode != 0 and "DL3007" in done.stdout


def test_images_run_as_somebody_and_are_pinned():
    for path in (check.HERE / "containers").glob("*.Dockerfile"):
        lines = path.read_text().splitlines()
        assert any(line == "USER 1000" for line in lines), path.name
        stages = {line.split(" AS ")[1] for line in lines if line.startswith("FROM") and " AS " in line}
        for line in lines:
            if line.startswith("FROM") and line.split()[1] not in stages:
                assert ":" in line.split()[1] and "latest" not in line, line


def test_compose_pins_its_images_and_holds_no_secret():
    compose = yaml.safe_load((check.HERE / "containers" / "compose.yaml").read_text())
    assert check.composed(compose) == []
    for place, key, value in (("serve", "imagee", "a"), ("serve", "ports", "8080"), ("mlflow", "depends_on", 3)):
        spoilt = copy.deepcopy(compose)
        spoilt["services"][place][key] = value
        assert check.composed(spoilt), key
    assert set(compose["services"]) == {"storage", "postgresql", "mlflow", "ray", "serve", "tool"}
    for name, service in compose["services"].items():
        tag = service["image"].rpartition(":")[2]
        assert tag[0].isdigit(), name
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        for key, value in service.get("environment", {}).items():
            if check.SECRET.search(key) and value:
                assert value.startswith("${"), f"{name}: {key}"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or source.startswith("${"), volume
        assert set(service.get("depends_on", {})) <= set(compose["services"]), name
