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
import helm  # noqa: E402
import network  # noqa: E402
import pods  # noqa: E402
import rules  # noqa: E402

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
        assert check.namespaced(source, EVERYTHING) == [], source
        for document in documents:
            assert check.problems(document) == [], source
    assert check.files() == []
    # Every file with a manifest is part of something that is rendered, or is read as it is.
    known = {(document["kind"], document["metadata"]["name"]) for documents in EVERYTHING.values() for document in documents}
    for path in (check.HERE / "kubernetes").rglob("*.yaml"):
        for document in check.documents(path.read_text()):
            if document.get("kind") not in ("Kustomization", "Component", None):
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
TEMPLATES = one("WorkflowTemplate")["spec"]["templates"]


def step(name: str) -> tuple:
    """Where a step of the workflow is."""
    return ("spec", "templates", [each["name"] for each in TEMPLATES].index(name))


STEP, CHECK, ASK = step("models"), step("check"), step("ask")
SAFE = "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"
INIT_ALONE = f"initContainers: [{{name: init, {SAFE}}}]"
WAIT_ALONE = f"containers: [{{name: wait, {SAFE}}}]"
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
    "containers of Argo that restricted refuses": ("WorkflowTemplate", None, (*STEP, "podSpecPatch"), None, "admission: workflow/models, container init"),
    "a patch for one of Argo's containers alone": ("WorkflowTemplate", None, (*STEP, "podSpecPatch"), INIT_ALONE, "admission: workflow/models, container wait"),
    "a patch for all steps, of which one has no container wait": ("WorkflowTemplate", None, ("spec", "podSpecPatch"), WAIT_ALONE, "admission: workflow/serve, container wait has no image"),
    "a kind of step whose pod cannot be told": ("WorkflowTemplate", None, (*STEP, "container"), None, "admission: the pods cannot be told"),
    "an autoscaler that restricted refuses, RayJob": ("RayJob", None, ("spec", "rayClusterSpec", "autoscalerOptions", "securityContext"), None, "admission: ray-head, container autoscaler"),
    "an autoscaler that restricted refuses, RayService": ("RayService", None, ("spec", "rayClusterConfig", "autoscalerOptions"), None, "admission: ray-head, container autoscaler"),
    "a folder of the node": ("Deployment", "mlflow", (*POD, "volumes", 0), {"name": "tmp", "hostPath": {"path": "/tmp"}}, "admission: mlflow has the volume tmp"),
    "a name that a schema takes and no server does": ("Deployment", "mlflow", (*FIRST, "name"), "mlFlow", "admission: mlflow, container mlFlow has a name"),
    "a strategy without its type": ("Deployment", "reverie-serve", ("spec", "strategy", "type"), None, "applied: the strategy has no type"),
    "a field of the pod without its version": ("Deployment", "reverie-serve", (*FIRST, "env", 0, "valueFrom", "fieldRef", "apiVersion"), None, "applied: BUNDLE of reverie has a fieldRef"),
    "a RayJob without a token": ("RayJob", None, ("spec", "rayClusterSpec", "authOptions"), None, "ray: whoever reaches port 8265"),
    "a RayService without a token": ("RayService", None, ("spec", "rayClusterConfig", "authOptions", "mode"), "disabled", "ray: whoever reaches port 8265"),
    "a token in a secret that the cluster takes with it": ("RayCluster", None, ("spec", "authOptions", "secretName"), None, "ray: authOptions has no secretName"),
    "a token in the secret of others": ("RayCluster", None, ("spec", "authOptions", "secretName"), "reverie-s3", "ray: ray-head gets the whole secret"),
    "keys of providers for MLflow": ("Deployment", "mlflow", (*FIRST, "envFrom"), [{"secretRef": {"name": "reverie-models"}}], "secret: mlflow gets reverie-models"),
    "keys of others for a worker": ("RayCluster", None, ("spec", "workerGroupSpecs", 0, "template", "spec", "containers", 0, "envFrom", 0, "secretRef", "name"), "reverie-trackers", "secret: ray-worker gets reverie-trackers"),
    "all keys for a step that needs none": ("WorkflowTemplate", None, (*STEP, "container", "envFrom"), [{"secretRef": {"name": "reverie-s3"}}], "secret: workflow/models gets reverie-s3"),
    "one key of a secret of others": ("StatefulSet", "postgresql", (*FIRST, "env", 3, "valueFrom", "secretKeyRef", "key"), "uri", "secret: postgresql gets mlflow.uri"),
    "a secret as files": ("StatefulSet", "storage", (*POD, "volumes", 0), {"name": "tmp", "secret": {"secretName": "reverie-keys"}}, "secret: storage gets reverie-keys"),
    "a secret that nobody knows": ("Deployment", "reverie-serve", (*FIRST, "envFrom", 0, "secretRef", "name"), "reverie", "secret: serve gets reverie,"),
    "a workflow that does not look at its parameters": ("WorkflowTemplate", None, ("spec", "templates", 0, "steps", 0), None, "parameter: the first step is not"),
    "a parameter that is not looked at": ("WorkflowTemplate", None, (*CHECK, "container", "args", 10), "", "parameter: settings is used"),
    "a parameter inside a script": ("WorkflowTemplate", None, (*CHECK, "container", "command", 2), "echo {{workflow.parameters.name}}", "parameter: the script"),
    "a parameter that could be a flag": ("WorkflowTemplate", None, (*ASK, "container", "args", 3), "--json", "parameter: question is used"),
    "a secret before the parameters are looked at": ("WorkflowTemplate", None, (*CHECK, "container", "envFrom"), [{"secretRef": {"name": "reverie-s3"}}], "secret: workflow/check gets reverie-s3"),
}


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each)
def test_a_planted_mistake_is_found(planted):
    kind, name, path, value, expected = PLANTED[planted]
    document = one(kind, name)
    assert check.problems(document) == []
    found = check.problems(spoil(document, *path, value=value))
    assert any(each.startswith(expected) for each in found), found


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
    "an account that gets a token for nothing": ("ServiceAccount", ("automountServiceAccountToken",), None, "token: "),
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
    order = [[each["name"] for each in group] for group in template["spec"]["templates"][0]["steps"]]
    assert order[:3] == [["check"], ["settle"], ["models"]]
    (settle,) = [each for each in template["spec"]["templates"] if each["name"] == "settle"]
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
    job, policy = EVERYTHING["kubernetes/base/run"]
    made = {each["kind"]: copy.deepcopy(each) for each in EVERYTHING["chart with a run"] if each["metadata"]["name"] == "reverie-run"}
    assert made["NetworkPolicy"]["spec"] == policy["spec"]
    other = made["CronJob"]["spec"]["jobTemplate"]["spec"]
    for each in container_list(other):
        each.pop("imagePullPolicy", None)
    assert job["spec"]["podFailurePolicy"] == other["podFailurePolicy"]
    assert job["spec"]["template"]["spec"] == other["template"]["spec"]


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


def test_a_sync_that_keeps_changes_from_the_cluster_is_found():
    project, application = one("AppProject"), one("Application", "reverie-parts")
    assert rules.applications([application], project) == []
    application["spec"]["syncPolicy"]["syncOptions"].append("RespectIgnoreDifferences=true")
    assert any(each.startswith("synced: reverie-parts takes a whole list") for each in rules.applications([application], project))
    del application["metadata"]["annotations"]["argocd.argoproj.io/compare-options"]
    assert any(each.startswith("synced: reverie-parts compares") for each in rules.applications([application], project))


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
        assert "RAY_AUTH_TOKEN" not in service.get("environment", {}) or name == "ray"


OVERLAYS = ["laptop", "production", "gpu", "events"]


def overlay(name: str) -> list[dict]:
    """A copy of an overlay, to be spoilt."""
    return copy.deepcopy(EVERYTHING[f"kubernetes/overlays/{name}"])


def later() -> list[dict]:
    return [copy.deepcopy(each) for name in check.LATER for each in EVERYTHING[name]]


def of(documents: list[dict], kind: str, name: str) -> dict:
    return next(each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name))


BUNDLE = [{"name": "BUNDLE", "value": "s3://reverie/bundles/manuals-1"}]
WRITTEN = {
    "the bundle that the workflow sets": ("Deployment", "reverie-serve", (*POD[:-1], "metadata", "annotations"), {"reverie/bundle": "s3://a"}, "written: Deployment reverie-serve sets spec.template.metadata.annotations.reverie/bundle"),
    "a bundle that the workflow does not set": ("Deployment", "reverie-serve", (*FIRST, "env"), BUNDLE, "written: the workflow writes the annotation reverie/bundle, and"),
    "replicas of an autoscaler": ("Deployment", "reverie-serve", ("spec", "replicas"), 3, "written: Deployment reverie-serve sets replicas"),
    "replicas of Ray's autoscaler, RayCluster": ("RayCluster", "reverie", ("spec", "workerGroupSpecs", 0, "replicas"), 2, "written: the group cpu of RayCluster reverie sets replicas"),
    "replicas of Ray's autoscaler, RayJob": ("RayJob", "reverie-experiment", ("spec", "rayClusterSpec", "workerGroupSpecs", 0, "replicas"), 2, "written: the group cpu of RayJob reverie-experiment sets replicas"),
    "replicas of Ray's autoscaler, RayService": ("RayService", "reverie-graph", ("spec", "rayClusterConfig", "workerGroupSpecs", 0, "replicas"), 2, "written: the group cpu of RayService reverie-graph sets replicas"),
}


@pytest.mark.parametrize("name", OVERLAYS)
@pytest.mark.parametrize("planted", WRITTEN, ids=lambda each: each)
def test_what_others_write_is_found(planted, name):
    kind, called, path, value, expected = WRITTEN[planted]
    documents = [*overlay(name), *later()]
    assert check.together(documents, []) == []
    spoil(of(documents, kind, called), *path, value=value)
    found = check.together(documents, [])
    assert any(each.startswith(expected) for each in found), found


@pytest.mark.parametrize(("kind", "place"), [("RayCluster", ()), ("RayJob", ("rayClusterSpec",)), ("RayService", ("rayClusterConfig",))])
def test_a_ray_cluster_without_an_autoscaler_may_set_replicas(kind, place):
    document = one(kind)
    spoil(document, "spec", *place, "workerGroupSpecs", 0, "replicas", value=2)
    spoil(document, "spec", *place, "enableInTreeAutoscaling", value=False)
    assert rules.overwritten([document], []) == []


def test_a_variable_that_the_workflow_patches_is_found():
    """As it was: the step replaces a variable that the Deployment sets."""
    documents = overlay("laptop")
    spoil(of(documents, "Deployment", "reverie-serve"), *FIRST, "env", value=BUNDLE)
    serve = next(each for each in of(documents, "WorkflowTemplate", "reverie")["spec"]["templates"] if each["name"] == "serve")
    patched = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "reverie-serve"}, "spec": {"template": {"spec": {"containers": [{"name": "reverie", "env": BUNDLE}]}}}}
    serve["resource"]["manifest"] = json.dumps(patched)
    assert any("sets spec.template.spec.containers.reverie.env.BUNDLE.value" in each for each in check.together(documents, []))


def test_a_switch_that_people_turn_is_found():
    documents = copy.deepcopy(EVERYTHING["kubernetes/base/nightly"])
    documents[0]["spec"]["suspend"] = True
    assert any(each.startswith("written: CronWorkflow") for each in check.together(documents, []))


@pytest.mark.parametrize(("release", "kind"), [("chart values.yaml", "Job"), ("chart with a run", "CronJob"), ("kubernetes/overlays/production", "CronWorkflow")])
def test_a_paid_run_that_starts_by_itself_is_found(release, kind):
    documents = {"Job": EVERYTHING["kubernetes/base/run"], "CronJob": EVERYTHING["chart with a run"], "CronWorkflow": EVERYTHING["kubernetes/base/nightly"]}[kind]
    document = copy.deepcopy(next(each for each in documents if each["kind"] == kind))
    document["spec"].pop("suspend", None)
    found = check.namespaced(release, {**EVERYTHING, release: [*EVERYTHING[release], document]})
    assert any(each.startswith(f"paid: {kind}") for each in found), found


def test_an_upgrade_of_the_chart_makes_no_run():
    """Whatever is set, there is no Job; a change of the service leaves the pattern of a run as it was."""
    flags = [[], ["--set", "run.enabled=true"], ["--set", "run.enabled=true,drain=60"], ["--set", "run.enabled=true,run.budget=7"]]
    made = [{each["kind"]: each for each in check.chart(*each)} for each in flags]
    assert not any("Job" in each for each in made)
    assert made[1]["CronJob"] == made[2]["CronJob"] != made[3]["CronJob"]
    assert all(each["CronJob"]["spec"]["suspend"] is True for each in made[1:])


def test_a_bundle_that_helm_decides():
    (serve,) = [each for each in check.chart("--set", "bundle=s3://a/b") if each["kind"] == "Deployment"]
    assert container(serve)["env"][0] == {"name": "BUNDLE", "value": "s3://a/b"}


def test_two_ray_objects_of_one_name_are_found():
    documents = overlay("laptop")
    service = one("RayService")
    assert rules.same_ray_names([*documents, service]) == []
    service["metadata"]["name"] = "reverie"
    assert any(each.startswith("ray: RayCluster and RayService are both called reverie") for each in rules.same_ray_names([*documents, service]))


def add(policy: dict, *rules: dict, direction: str = "ingress") -> dict:
    """A policy with more rules."""
    policy["spec"].setdefault(direction, []).extend(rules)
    return policy


def without(documents: list[dict], name: str) -> list[dict]:
    return [each for each in documents if (each["kind"], each["metadata"]["name"]) != ("NetworkPolicy", name)]


OPEN = {
    "nothing is refused by default": (lambda all: without(all, "default-deny"), "network: no policy refuses by default"),
    "MLflow without a policy": (lambda all: without(all, "mlflow"), "network: mlflow has no policy"),
    "Ray without a policy": (lambda all: without(all, "reverie-ray"), "network: ray has no policy"),
    "MLflow for everybody": (lambda all: (add(of(all, "NetworkPolicy", "mlflow"), {}), all)[1], "network: serve reaches mlflow at port 5000"),
    "the dashboard of Ray for everybody in the namespace": (lambda all: (add(of(all, "NetworkPolicy", "reverie-ray"), {"from": [{"podSelector": {}}], "ports": [{"port": 8265}]}), all)[1], "network: serve reaches ray at port 8265"),
    "Ray for other namespaces": (lambda all: (add(of(all, "NetworkPolicy", "reverie-ray"), {"from": [{"namespaceSelector": {}}]}), all)[1], "network: a pod of another namespace reaches ray"),
    "Ray for whoever says that he is the operator": (lambda all: (of(all, "NetworkPolicy", "reverie-ray")["spec"]["ingress"][2]["from"][0].update(namespaceSelector={}), all)[1], "network: a false operator reaches ray"),
    "Ray not for its operator": (lambda all: (of(all, "NetworkPolicy", "reverie-ray")["spec"]["ingress"].pop(2), all)[1], "network: operator in default does not reach ray"),
    "workers that do not reach each other": (lambda all: (of(all, "NetworkPolicy", "reverie-ray")["spec"]["ingress"].pop(0), all)[1], "network: ray does not reach ray"),
    "a graph of which every port is open": (lambda all: (of(all, "NetworkPolicy", "reverie-graph")["spec"]["ingress"][0].pop("ports"), all)[1], "network: ingress reaches ray at port 8265"),
    "a workflow that does not reach Kubernetes": (lambda all: (of(all, "NetworkPolicy", "reverie-workflow")["spec"]["egress"][0]["ports"].pop(), all)[1], "network: workflow does not reach outside at port 6443"),
    "a service that does not reach providers": (lambda all: (of(all, "NetworkPolicy", "reverie-serve")["spec"]["egress"][0]["ports"].pop(), all)[1], "network: serve does not reach outside at port 443"),
    "MLflow not for the workflow": (lambda all: (of(all, "NetworkPolicy", "mlflow")["spec"]["ingress"][0]["from"].pop(1), all)[1], "network: workflow does not reach mlflow"),
    "a policy that selects nobody": (lambda all: (of(all, "NetworkPolicy", "mlflow")["spec"]["podSelector"].update(matchLabels={"app": "mlflow"}), all)[1], "network: the policy mlflow selects no pod"),
}


@pytest.mark.parametrize("name", OVERLAYS)
@pytest.mark.parametrize("planted", OPEN, ids=lambda each: each)
def test_a_connection_that_is_open_or_closed_by_mistake_is_found(planted, name):
    change, expected = OPEN[planted]
    source = f"kubernetes/overlays/{name}"
    found = check.namespaced(source, {**EVERYTHING, source: change(overlay(name))})
    assert any(each.startswith(expected) for each in found), found


@pytest.mark.parametrize(("policy", "end"), [("postgresql", "postgresql"), ("storage", "storage")])
def test_a_database_that_calls_somebody_is_found(policy, end):
    documents = overlay("laptop")
    add(of(documents, "NetworkPolicy", policy), {"ports": [{"port": 443}]}, direction="egress")
    assert f"network: {end} reaches outside at port 443" in rules.connections(documents, later())


def test_what_network_policies_mean():
    """Directions, peers, namespaces and ports, as Kubernetes' documentation has them."""
    one, two = network.End("one", {"a": "1"}), network.End("two", {"a": "2"}, ports={"http": 80})
    stranger = network.End("stranger", {"a": "1"}, "other")

    def policy(selector: dict, **spec) -> dict:
        return {"kind": "NetworkPolicy", "spec": {"podSelector": selector, **spec}}

    deny = policy({}, policyTypes=["Ingress", "Egress"])
    out = policy({"matchLabels": {"a": "1"}}, policyTypes=["Egress"], egress=[{"to": [{"podSelector": {"matchLabels": {"a": "2"}}}]}])
    into = policy({"matchLabels": {"a": "2"}}, policyTypes=["Ingress"], ingress=[{"from": [{"podSelector": {"matchLabels": {"a": "1"}}}], "ports": [{"port": "http"}]}])
    assert network.allowed([], one, two, 80)
    assert not network.allowed([deny], one, two, 80)
    assert not network.allowed([deny, out], one, two, 80) and not network.allowed([deny, into], one, two, 80)
    assert network.allowed([deny, out, into], one, two, 80)
    assert not network.allowed([deny, out, into], one, two, 81) and not network.allowed([deny, out, into], two, one, 80)
    assert not network.allowed([deny, out, into], stranger, two, 80), "a pod selector means this namespace"
    into["spec"]["ingress"][0]["from"][0]["namespaceSelector"] = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["other"]}]}
    assert network.allowed([deny, into], stranger, two, 80) and not network.allowed([deny, out, into], one, two, 80)
    into["spec"]["ingress"][0]["ports"] = [{"port": 80, "protocol": "UDP"}]
    assert not network.allowed([deny, into], stranger, two, 80)


def test_a_pod_gets_a_token_only_if_it_needs_one():
    for kind, name, path in [("Deployment", "mlflow", POD), ("RayCluster", "reverie", ("spec", "workerGroupSpecs", 0, "template", "spec")), ("StatefulSet", "notebook", POD)]:
        document = one(kind, name)
        spoil(document, *path, "automountServiceAccountToken", value=None)
        assert any(each.startswith("token: ") for each in check.together([document], [])), kind


def test_a_service_that_is_asked_while_it_ends_is_found():
    for path, value in [((*FIRST, "lifecycle"), None), ((*POD, "terminationGracePeriodSeconds"), 45)]:
        documents = copy.deepcopy(EVERYTHING["kubernetes/base/serve"])
        spoil(documents[0] if documents[0]["kind"] == "Deployment" else of(documents, "Deployment", "reverie-serve"), *path, value=value)
        assert any(each.startswith("drain: ") for each in check.together(documents, [])), path


def test_an_operator_that_goes_to_another_namespace_is_found():
    project = one("AppProject")
    application = one("Application", "kuberay")
    assert rules.applications([application], project) == []
    del application["spec"]["source"]["kustomize"]
    assert any("`" not in each and "go to the namespace default, which the project does not permit" in each for each in rules.applications([application], project))
    application = one("Application", "argo-events")
    application["spec"]["destination"]["namespace"] = "events"
    assert any("go to the namespace events" in each for each in rules.applications([application], project))


def test_a_command_of_the_documentation_that_is_refused_is_found():
    text = check.DOCUMENTATION.read_text()
    assert rules.documented(text) == []
    spoilt = text.replace('kubectl create -k "github.com/ray-project', 'kubectl create namespace ray-system && kubectl create -n ray-system -k "github.com/ray-project')
    assert spoilt != text and any(each.startswith("operator: `kubectl create -n ray-system") for each in rules.documented(spoilt))
    spoilt = text.replace("secret generic mlflow-s3 ", "secret generic mlflow ")
    assert "secret: docs/kubernetes.md does not say how to make mlflow-s3" in rules.documented(spoilt)


def test_secrets_that_git_or_an_image_would_take_are_found():
    ignored = (check.HERE.parent / ".gitignore").read_text()
    name, text = "reverie.Dockerfile.dockerignore", (check.HERE / "containers" / "reverie.Dockerfile.dockerignore").read_text()
    assert rules.exposed(ignored, {name: text, "ray.Dockerfile.dockerignore": "*"}) == []
    for each in (".env", "keys.toml"):
        spoilt = [line for line in ignored.splitlines() if line != each]
        assert rules.exposed("\n".join(spoilt), {}) == [f"ignored: .gitignore does not have {each}"]
        spoilt = [line for line in text.splitlines() if line != f"**/{each}"]
        assert rules.exposed(ignored, {name: "\n".join(spoilt)}) == [f"ignored: {name} does not have **/{each}"]


def test_two_releases_of_the_chart_that_collide_are_found():
    first = check.chart(release="one")
    assert rules.collisions(first, check.chart(release="two")) == []
    found = rules.collisions(first, first)
    assert any(each.startswith("release: two releases both have Deployment one-serve") for each in found)
    assert any(each == "release: Service one-serve selects the pods of another release" for each in found)


def test_an_image_that_no_registry_changes_is_found(tmp_path):
    shutil.copytree(check.HERE / "kubernetes", tmp_path / "kubernetes")
    path = tmp_path / "kubernetes" / "images" / "kustomization.yaml"
    path.write_text(path.read_text().replace("configurations: [fields.yaml]\n", ""))
    found = check.fixed_images(tmp_path / "kubernetes")
    assert "registry: overlays/production takes reverie/reverie:0.1.0 whatever images/kustomization.yaml says" in found


def test_helm_with_another_checksum_is_refused(tmp_path):
    (tmp_path / "helm.whl").write_bytes(b"something else")
    with pytest.raises(SystemExit, match="SHA-256"):
        helm.main(tmp_path / "helm.whl", tmp_path / "helm")
    assert not (tmp_path / "helm").exists()


def test_a_ray_that_anybody_may_use_is_found_in_compose():
    compose = yaml.safe_load((check.HERE / "containers" / "compose.yaml").read_text())
    for key in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        spoilt = copy.deepcopy(compose)
        del spoilt["services"]["ray"]["environment"][key]
        assert any(each.startswith("ray: whoever reaches port 8265") for each in check.composed(spoilt)), key


FORM = {each["name"]: each["value"] for each in one("WorkflowTemplate")["spec"]["arguments"]["parameters"]}


def looked_at(servers: str | None = None, **given: str) -> int:
    """The exit code of the step `check` for values of the form."""
    (step,) = [each["container"] for each in TEMPLATES if each["name"] == "check"]
    values = {**FORM, **given}
    arguments = [re.sub(r"\{\{workflow\.parameters\.(\w+)\}\}", lambda found: values[found[1]], each) for each in step["args"]]
    environment = {"PATH": "/usr/bin:/bin", **({} if servers is None else {"SERVERS": servers})}
    return subprocess.run(step["command"] + arguments, env=environment, capture_output=True).returncode


def test_values_of_the_form_that_are_right_pass():
    vllm = {"servers": "http://vllm:8000/v1 https://models.example.com/v1"}
    assert looked_at() == 0
    assert looked_at(settings="") == looked_at(settings=", max_tokens = 100, price = { input = 0.25, output = 2.0 }") == 0
    assert looked_at(name="manuals-2.b", documents="2026/Wörter und mehr", model="org/Model-7B:q4", budget="0.50", bucket="my.bucket-1") == 0
    assert looked_at(**vllm, provider="openai", settings=', base_url = "http://vllm:8000/v1", price = { input = 0.25, output = 2.0 }') == 0
    assert looked_at(**vllm, tracker="https://models.example.com/v1", service="http://vllm:8000/v1") == 0
    assert looked_at(question='--url "; what is this?') == 0


REFUSED = [
    {"settings": ', base_url = "http://evil"'},
    {"settings": ', base_url="http://evil"'},
    {"settings": ', base_url = "http://vllm:8000/v1", base_url = "http://evil"'},
    {"settings": ', base_url = "http://vllm:8000/v1.evil"'},
    {"settings": ", base_url = 'http://evil'"},
    {"settings": ', "base_url" = "http://evil"'},
    {"settings": ', "base\\u005furl" = "http://evil"'},
    {"settings": ', headers = { authorization = "a" }'},
    {"settings": ', api_key_env = "AWS_SECRET_ACCESS_KEY"'},
    {"settings": ' }\n[models.other]\nchat.openai = { base_url = "http://evil"'},
    {"settings": ", max_tokens = 100\n"},
    {"settings": ', base_url = \nhttp://evil\n'},
    {"settings": " } # "},
    {"model": 'x", base_url = "http://evil'},
    {"model": "--help"},
    {"model": ""},
    {"provider": "openai = {}\nchat.openai"},
    {"embedder": 'x" }\n[models.y]'},
    {"name": 'x"\nstore = "s3://evil'},
    {"bucket": "reverie/other"},
    {"documents": 'x"\n[models.y]\n'},
    {"documents": "x\\"},
    {"questions": "20 --model other"},
    {"questions": "20\n"},
    {"budget": "1e9"},
    {"tracker": "http://evil"},
    {"tracker": 'http://mlflow:5000" }'},
    {"tracker": ""},
    {"service": "http://evil"},
    {"service": "http://reverie-serve.evil"},
]


@pytest.mark.parametrize("values", REFUSED, ids=lambda each: repr(each)[:60])
def test_values_of_the_form_that_could_send_a_key_elsewhere_are_refused(values):
    assert looked_at(servers="http://vllm:8000/v1", **values) == 2
