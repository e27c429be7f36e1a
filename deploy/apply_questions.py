"""Questions about applying: what the server stores, and what a second apply changes.

They cover every overlay, the manifests outside the overlays, Argo CD's applications, releases of the Helm chart, and the
rights of the accounts. Each question takes the servers and the report, which are in control_plane.py.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import check
import network
import rules
from control_plane import HERE, NAMESPACE, Report, Servers, nodes, objects, of_cluster, said, until, warnings

OVERLAYS = ("laptop", "production", "gpu", "events")
STRICT = ("apply", "--server-side", "--validate=strict")
# What others write while it runs, and how it is read again.
PROMOTED = "s3://reverie/bundles/promoted"
ANNOTATION = {"spec": {"template": {"metadata": {"annotations": {"reverie/bundle": PROMOTED}}}}}
CONFLICT = re.compile(r"conflicts? with .*")


def namespace(servers: Servers, report: Report) -> None:
    """The namespace, and secrets with the names and keys of the documentation: both are made before an overlay."""
    report.expect("namespace", servers.kubectl("create", "namespace", NAMESPACE))
    keys = {each.partition(".")[0]: [] for each in rules.SECRETS} | {each: [] for each in rules.OTHER_SECRETS}
    for each in rules.SECRETS:
        name, _, key = each.partition(".")
        keys[name] += [key] if key else []
    for name, own in sorted(keys.items()):
        report.expect(f"secret {name}", servers.kubectl(*HERE, "create", "secret", "generic", name, *[f"--from-literal={key}=x-{key}" for key in own or ["key"]]))
    report.expect("files of an experiment", servers.kubectl(*HERE, "create", "configmap", "reverie-experiment", "--from-literal=experiment.toml=", "--from-literal=golden.jsonl="))


def remove(servers: Servers, report: Report, overlay: str) -> None:
    """Deletes an overlay with its namespace, as the documentation says."""
    report.expect(f"overlay {overlay}, delete", servers.kubectl("delete", "--timeout=180s", "-k", check.HERE / "kubernetes" / "overlays" / overlay))


def lost(sent, stored, path: str = "") -> list[str]:
    """The paths of fields that the server stored with another value than was sent, or not at all."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return [each for key, value in sent.items() if value is not None for each in lost(value, stored.get(key), f"{path}.{key}")]
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        return [each for number, (one, other) in enumerate(zip(sent, stored, strict=True)) for each in lost(one, other, f"{path}[{number}]")]
    # An empty object or list says nothing.
    return [] if sent == stored or (sent in ({}, []) and not stored) else [path]


def compare(servers: Servers, report: Report, name: str, documents: list[dict], space: str = NAMESPACE) -> None:
    """Everything that was sent is stored as it was sent."""
    for each in documents:
        kind = each["kind"].lower()
        group = each["apiVersion"].rpartition("/")[0]
        stored = objects(servers, "-n", each["metadata"].get("namespace", space), f"{kind}.{group}" if group else kind, each["metadata"]["name"])
        report.expect_value(f"{name}, {each['kind']} {each['metadata']['name']} is stored as sent", lost(each, stored[0]) if stored else ["it is not there"], [])


def workloads(servers: Servers, report: Report, name: str, space: str) -> None:
    """The controllers make at least one pod for each object that has some, and none is refused."""
    if not os.environ.get("KUBE_CONTROLLER_MANAGER"):
        return

    def without() -> list[str]:
        pods = objects(servers, "-n", space, "pods")
        return [
            f"{each['kind']} {each['metadata']['name']}"
            for each in objects(servers, "-n", space, "deployments,statefulsets,jobs")
            if not any(network.matches(each["spec"]["selector"], pod["metadata"]["labels"]) for pod in pods)
        ]

    until(lambda: not without(), 60)
    report.expect_value(f"{name}, objects without a pod", without(), [])
    failed = [each["message"] for each in objects(servers, "-n", space, "events") if each["reason"].startswith("Failed") and "forbidden" in each.get("message", "")]
    report.expect_value(f"{name}, pods that were refused", failed, [])


def contents(servers: Servers, folder: Path) -> dict[str, str]:
    """What an overlay's objects say, but for what the server and autoscalers write."""
    found = {}
    for each in objects(servers, "-k", folder):
        name = f"{each['kind']} {each['metadata']['name']}"
        each.pop("status", None)
        each.get("spec", {}).pop("replicas", None)
        each["metadata"] = {key: each["metadata"].get(key) for key in ("labels", "finalizers", "ownerReferences")}
        found[name] = json.dumps(each, sort_keys=True)
    return found


def by_argo_cd(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """The operators as Argo CD's applications would install them: the server takes all objects in the namespace that is said."""
    for each in (document for documents in everything.values() for document in documents if document["kind"] == "Application"):
        source, space = each["spec"]["source"], each["spec"]["destination"]["namespace"]
        folder = Path(os.environ["OPERATORS"]).resolve() / source["repoURL"].rpartition("/")[2].removesuffix(".git") / source["path"]
        if not folder.is_dir():
            continue
        made = servers.folder / each["metadata"]["name"]
        made.mkdir()
        said_there = {"namespace": source["kustomize"]["namespace"]} if "kustomize" in source else {}
        (made / "kustomization.yaml").write_text(json.dumps({"resources": [os.path.relpath(folder, made.resolve())], **said_there}))
        servers.kubectl("create", "namespace", space)
        code, text = servers.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-o", "json", "-k", made)
        report.expect(f"{each['metadata']['name']} by Argo CD", (code, text))
        if code == 0:
            spaces = {one["metadata"].get("namespace") for one in json.loads(text)["items"]} - {None}
            report.expect_value(f"{each['metadata']['name']} by Argo CD, namespaces", spaces, {space})


def each_overlay(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """Applies each overlay to an empty namespace, once with `--server-side` and once without, and again after others have
    changed it. Without the controller manager a namespace cannot be emptied, so only the first overlay is applied, once."""
    manager = bool(os.environ.get("KUBE_CONTROLLER_MANAGER"))
    ways = (("server-side", STRICT), ("client-side", ("apply", "--validate=strict")))
    for overlay in OVERLAYS if manager else OVERLAYS[:1]:
        folder = check.HERE / "kubernetes" / "overlays" / overlay
        for way, flags in ways if manager else ways[:1]:
            name = f"overlay {overlay}, {way}"
            namespace(servers, report)
            report.expect(f"{name}, first apply", servers.kubectl(*flags, "-k", folder))
            compare(servers, report, name, everything[f"kubernetes/overlays/{overlay}"])
            report.expect(f"{name}, second apply", servers.kubectl(*flags, "-k", folder))
            before = contents(servers, folder)
            report.expect(f"{name}, third apply", servers.kubectl(*flags, "-k", folder))
            after = contents(servers, folder)
            report.expect_value(f"{name}, objects", len(after), len(everything[f"kubernetes/overlays/{overlay}"]))
            report.expect_value(f"{name}, what the third apply changed", sorted(each for each in after if after[each] != before.get(each)), [])
            report.expect(f"{name}, what another apply would change", servers.kubectl("diff", *[each for each in flags if each == "--server-side"], "-k", folder))
            workloads(servers, report, name, NAMESPACE)
            if os.environ.get("KUBERAY_OPERATOR"):
                there = until(lambda: nodes(servers, "reverie") >= {"head", "worker"}, 60)
                report.expect_value(f"{name}, Ray's pods", there or warnings(servers), True)
            keep(servers, report, name, folder, way)
            if manager:
                remove(servers, report, overlay)


def annotation(servers: Servers, name: str, space: str = NAMESPACE) -> str:
    """The bundle that a Deployment serves."""
    return servers.kubectl("-n", space, "get", "deployment", name, "-o", "jsonpath={.spec.template.metadata.annotations.reverie/bundle}")[1]


def keep(servers: Servers, report: Report, name: str, folder: Path, first: str) -> None:
    """The bundle and the replicas that others set are there after another apply, the server's way and the client's."""
    report.expect(f"{name}, promote", servers.kubectl(*HERE, "patch", "deployment", "reverie-serve", "--patch", json.dumps(ANNOTATION)))
    # The laptop's autoscaler takes one pod, no more and no fewer.
    count = "1" if folder.name == "laptop" else "5"
    if os.environ.get("KUBE_CONTROLLER_MANAGER") and count != "1":
        # Once it has begun to set its smallest number, it insists on it.
        until(lambda: objects(servers, *HERE, "deployment", "reverie-serve")[0]["spec"]["replicas"] > 1)
    report.expect(f"{name}, scale", servers.kubectl(*HERE, "scale", "deployment", "reverie-serve", f"--replicas={count}"))
    workers = json.dumps([{"op": "add", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}])
    force = ["--server-side", "--force-conflicts"]
    # After an apply without `--server-side`, the first one with it needs `--force-conflicts`.
    for way, flags in (("server-side", force if first == "client-side" else ["--server-side"]), ("client-side", []), ("server-side by force", force)):
        if way != "server-side":
            # The list of groups is one value: after this, only the client's way and --force-conflicts write it.
            report.expect(f"{name}, scale Ray", servers.kubectl(*HERE, "patch", "raycluster", "reverie", "--type=json", "--patch", workers))
            running = not os.environ.get("KUBERAY_OPERATOR") or until(lambda: len(of_cluster(servers, "reverie", "worker")) >= 2, 60)
            report.expect_value(f"{name}, two workers", running, True)
            before = {each["metadata"]["name"] for each in of_cluster(servers, "reverie", "worker")}
        if way == "server-side by force" and first == "server-side":
            code, text = servers.kubectl("apply", "--server-side", "-k", folder)
            expected = (1, ['conflict with "kubectl-patch" using ray.io/v1: .spec.workerGroupSpecs'])
            report.expect_value(f"{name}, conflicts without --force-conflicts", (code, CONFLICT.findall(text)), expected)
        report.expect(f"{name}, then apply {way}", servers.kubectl("apply", *flags, "-k", folder))
        report.expect_value(f"{name}, bundle after apply {way}", annotation(servers, "reverie-serve"), PROMOTED)
        replicas = servers.kubectl(*HERE, "get", "deployment", "reverie-serve", "-o", "jsonpath={.spec.replicas}")[1]
        report.expect_value(f"{name}, replicas after apply {way}", replicas, count)
        if way != "server-side" and os.environ.get("KUBERAY_OPERATOR"):
            time.sleep(5)
            workers_now = of_cluster(servers, "reverie", "worker")
            after = {each["metadata"]["name"] for each in workers_now if "deletionTimestamp" not in each["metadata"]}
            report.expect_value(f"{name}, Ray's workers that apply {way} removed", sorted(before - after), [])


def everything_at_once(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """Applies one overlay after the other without deleting any, and then the manifests that belong to no overlay."""
    if os.environ.get("KUBE_CONTROLLER_MANAGER"):
        namespace(servers, report)
    for overlay in (*OVERLAYS, "laptop"):
        # Without the controller manager nothing was deleted, and Ray's list of groups was written by others.
        folder = check.HERE / "kubernetes" / "overlays" / overlay
        report.expect(f"switch to {overlay}", servers.kubectl(*STRICT, "--force-conflicts", "-k", folder))
        compare(servers, report, f"switch to {overlay}", everything[f"kubernetes/overlays/{overlay}"])
        if overlay == "production":
            said(servers, report, "delete statefulset")
            there = {each["metadata"]["name"] for each in objects(servers, *HERE, "statefulsets,services,networkpolicies,deployments")}
            report.expect_value("what is left of the laptop", sorted(there & {"notebook", "storage", "postgresql"}), [])
    for base in ("run", "nightly"):
        for time_ in ("first", "second"):
            report.expect(f"base {base}, {time_} apply", servers.kubectl(*STRICT, *HERE, "-k", check.BASE / base))
        compare(servers, report, f"base {base}", everything[f"kubernetes/base/{base}"])
    report.expect("suspend", servers.kubectl(*HERE, "patch", "cronworkflow", "reverie-nightly", "--type=merge", "--patch", '{"spec": {"suspend": true}}'))
    report.expect("base nightly, suspended", servers.kubectl(*STRICT, *HERE, "-k", check.BASE / "nightly"))
    report.expect_value("nightly stays suspended", servers.kubectl(*HERE, "get", "cronworkflow", "reverie-nightly", "-o", "jsonpath={.spec.suspend}")[1], "true")
    for name in ("rayjob.yaml", "rayservice.yaml"):
        report.expect(name, servers.kubectl(*STRICT, *HERE, "-f", check.BASE / "ray" / name))
        compare(servers, report, name, everything[f"kubernetes/base/ray/{name}"])
    report.expect("namespace argocd", servers.kubectl("create", "namespace", "argocd"))
    for time_ in ("first", "second"):
        report.expect(f"argocd, {time_} apply", servers.kubectl(*STRICT, "-R", "-f", check.HERE / "argocd"))
    for source, documents in everything.items():
        if source.startswith("argocd"):
            compare(servers, report, source, documents, "argocd")
    workloads(servers, report, "all at once", NAMESPACE)


def releases(servers: Servers, report: Report) -> None:
    """Releases with either file of values in one namespace; an upgrade keeps the bundle and makes no Job."""
    report.expect("namespace helm", servers.kubectl("create", "namespace", "helm"))
    report.expect("namespace helm, restricted", servers.kubectl("label", "namespace", "helm", "pod-security.kubernetes.io/enforce=restricted"))
    production = ("--values", check.HERE / "chart" / "values-production.yaml")
    for release, values in {"plain": (), "one": (*production, "--set", "run.enabled=true"), "two": production}.items():
        here = (release, check.HERE / "chart", "--namespace", "helm", *values)
        report.expect(f"helm install {release}", servers.run("helm", "install", *here))
        compare(servers, report, f"release {release}", check.chart(*values, release=release), "helm")
        report.expect(f"release {release}, promote", servers.kubectl("-n", "helm", "patch", "deployment", f"{release}-serve", "--patch", json.dumps(ANNOTATION)))
        report.expect(f"helm upgrade {release}, nothing changed", servers.run("helm", "upgrade", *here))
        report.expect(f"helm upgrade {release}", servers.run("helm", "upgrade", *here, "--set", "drain=40,image.tag=0.1.1"))
        report.expect_value(f"release {release}, bundle after the upgrades", annotation(servers, f"{release}-serve", "helm"), PROMOTED)
    report.expect_value("jobs after the upgrades", servers.kubectl("-n", "helm", "get", "jobs", "-o", "name")[1].strip(), "")
    report.expect("a run by the pattern", servers.kubectl("-n", "helm", "create", "job", "one-run-1", "--from=cronjob/one-run"))
    upgrade = ("upgrade", "one", check.HERE / "chart", "--namespace", "helm", *production, "--set", "run.enabled=true,drain=50")
    report.expect("helm upgrade one, while a run is there", servers.run("helm", *upgrade))
    report.expect_value("jobs after that", servers.kubectl("-n", "helm", "get", "jobs", "-o", "name")[1].strip(), "job.batch/one-run-1")
    workloads(servers, report, "helm", "helm")
    for words in (("uninstall", "two"), ("install", "two", check.HERE / "chart", *production)):
        report.expect(f"helm {words[0]} two", servers.run("helm", *words, "--namespace", "helm"))


def started(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """What the Sensor and the workflow's step `serve` do, as their accounts: a Workflow of a name is made once, and the
    bundle alone is changed."""
    documents = everything["kubernetes/overlays/events"]
    (sensor,) = [each for each in documents if each["kind"] == "Sensor"]
    account = f"system:serviceaccount:{NAMESPACE}:"
    workflow = json.dumps(sensor["spec"]["triggers"][0]["template"]["k8s"]["source"]["resource"])
    create = (*HERE, "create", "--validate=strict", "--as", f"{account}reverie-start", "-f", "-")
    report.expect("the Sensor's Workflow", servers.kubectl(*create, given=workflow))
    report.expect_value("a second one of its name", "already exists" in servers.kubectl(*create, given=workflow)[1], True)
    (change,) = rules.patches(documents)
    report.expect("promote", servers.kubectl(*HERE, "patch", "deployment", "reverie-serve", "--patch", json.dumps(ANNOTATION)))
    before = objects(servers, *HERE, "deployment", "reverie-serve")[0]["spec"]
    report.expect("the step `serve`", servers.kubectl(*HERE, "patch", "deployment", "reverie-serve", "--type=strategic", "--patch", json.dumps(change), "--as", f"{account}reverie-workflow"))
    after = objects(servers, *HERE, "deployment", "reverie-serve")[0]["spec"]
    report.expect_value("what the step `serve` changed", lost(after, before), [".template.metadata.annotations.reverie/bundle"])
    if os.environ.get("KUBE_CONTROLLER_MANAGER"):
        # It keeps the history of a Deployment.
        said(servers, report, "rollout undo")
        report.expect_value("the bundle after that", annotation(servers, "reverie-serve"), PROMOTED)


def rights(servers: Servers, report: Report) -> None:
    """Asks the API server what each service account may do, and compares the answers with those below."""
    questions = {
        "reverie-workflow": {("patch", "deployments.apps/reverie-serve"): "yes", ("patch", "deployments.apps/mlflow"): "no", ("get", "secrets"): "no", ("create", "pods"): "no", ("create", "workflowtaskresults.argoproj.io"): "yes"},
        "reverie-start": {("create", "workflows.argoproj.io"): "yes", ("get", "workflows.argoproj.io"): "no", ("delete", "workflows.argoproj.io"): "no", ("get", "secrets"): "no"},
        "reverie-objects": {("get", "secrets"): "no", ("create", "workflows.argoproj.io"): "no"},
        "reverie-serve": {("get", "secrets"): "no", ("get", "pods"): "no"},
    }
    if os.environ.get("KUBERAY_OPERATOR"):
        questions["reverie"] = {("patch", "pods"): "yes", ("patch", "rayclusters.ray.io"): "yes", ("get", "secrets"): "no", ("create", "pods"): "no", ("patch", "deployments.apps"): "no"}
    for account, asked in questions.items():
        for (verb, what), answer in asked.items():
            result = servers.kubectl(*HERE, "auth", "can-i", verb, what, "--as", f"system:serviceaccount:{NAMESPACE}:{account}")
            report.expect_value(f"{account}: {verb} {what}", result[1].strip(), answer)
