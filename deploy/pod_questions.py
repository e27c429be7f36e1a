"""Questions about pods: which pods the server admits, and which pods the operators make.

A pod that KubeRay's operator makes is compared with the one that pods.py predicts. The exit codes of a run are reported
as a kubelet would report them, to see when its Job ends. Each question takes the servers and the report, which are in
control_plane.py.
"""

from __future__ import annotations

import copy
import json
import os
import time

import yaml

import check
import network
import rules
from control_plane import (
    HERE,
    NAMESPACE,
    Dashboard,
    Report,
    Servers,
    names_of,
    nodes,
    objects,
    of_cluster,
    run_ray,
    said,
    until,
    warnings,
)
from pods import Pod, made_of

ADMIT = ("create", "--dry-run=server", "--validate=strict", "-f", "-")


def as_object(pod: Pod, number: int) -> dict:
    """A pod as the operator would send it. Volumes that come from claims are folders here."""
    spec = {key: value for key, value in copy.deepcopy(pod.spec).items() if value is not None}
    there = {each["name"] for each in spec.get("volumes", [])}
    mounted = {mount["name"] for each in pod.containers() for mount in each.get("volumeMounts", [])}
    spec["volumes"] = [*spec.get("volumes", []), *[{"name": name, "emptyDir": {}} for name in sorted(mounted - there)]]
    metadata = {"name": f"{pod.name.replace('/', '-')}-{number}", "namespace": NAMESPACE, "labels": pod.labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def admit_all(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """Every pod, as the operator would send it: admission decides, nothing is stored, and the server says which have the
    token of an account."""
    if os.environ.get("KUBE_CONTROLLER_MANAGER"):
        # Pods name the account `default`, which the controller manager makes.
        until(lambda: servers.kubectl(*HERE, "get", "serviceaccount", "default")[0] == 0)
    seen, number = set(), 0
    for documents in everything.values():
        for document in documents:
            for pod in made_of(document):
                number += 1
                made = as_object(pod, number)
                known = json.dumps([pod.labels, made["spec"]], sort_keys=True)
                if known in seen:
                    continue
                seen.add(known)
                name = f"pod {pod.name} of {document['kind']} {document['metadata']['name']}"
                code, text = servers.kubectl(*ADMIT, "-o", "json", given=json.dumps(made))
                report.expect(name, (code, text))
                if code == 0 and os.environ.get("KUBE_CONTROLLER_MANAGER"):
                    needs = pod.name.partition("/")[0] in rules.NEEDS_TOKEN
                    report.expect_value(f"{name}, has a token", has_token(json.loads(text)["spec"]), needs)
    for document in everything[check.WORKFLOW]:
        if document["kind"] == "WorkflowTemplate":
            patched(servers, report, document)


def patched(servers: Servers, report: Report, document: dict) -> None:
    """The steps' patches by kubectl's own strategic merge, which is Argo's: the pods are those of pods.py, and admitted."""
    bare = copy.deepcopy(document)
    patches = {each["name"]: each.pop("podSpecPatch", None) for each in bare["spec"]["templates"]}
    for before, after in zip(made_of(bare), made_of(document), strict=True):
        if patch := patches[before.name.partition("/")[2]]:
            file = servers.folder / "step.json"
            file.write_text(json.dumps(as_object(before, 0)))
            change = json.dumps({"spec": yaml.safe_load(patch)})
            code, text = servers.kubectl("patch", "--local", "-f", file, "--type=strategic", "--patch", change, "-o", "json")
            report.expect(f"{before.name}, patch", (code, text))
            made = json.loads(text) if code == 0 else {"spec": {}}
            ours = as_object(after, 0)
            for key in ("initContainers", "containers"):
                report.expect_value(f"{before.name}, {key} after the patch", by_name(made["spec"].get(key, [])), by_name(ours["spec"][key]))
            report.expect(f"{before.name}, as patched by kubectl", servers.kubectl(*ADMIT, given=text))


def by_name(containers: list[dict]) -> dict[str, dict]:
    """Containers, whatever their order."""
    return {each["name"]: each for each in containers}


def has_token(spec: dict) -> bool:
    """Whether the server gave a pod the token of its account."""
    return any(each["name"].startswith("kube-api-access-") for each in spec.get("volumes", []))


def real_and_foretold(report: Report, real: dict, pod: Pod, selectors: list[dict]) -> None:
    """A pod that the operator made, held against the one that check.py has in its place."""
    name, spec, labels = f"{pod.name} {real['metadata']['name']}", real["spec"], real["metadata"]["labels"]
    made = Pod(pod.name, labels, spec)
    report.expect_value(f"{name}, containers", sorted(each["name"] for each in made.containers()), sorted(each["name"] for each in pod.containers()))
    report.expect_value(f"{name}, secrets", sorted(set(rules.secrets_of(made))), sorted(set(rules.secrets_of(pod))))
    report.expect_value(f"{name}, has a token of Kubernetes' API", has_token(spec), pod.name in rules.NEEDS_TOKEN)
    for selector in selectors:
        report.expect_value(f"{name}, is selected by {selector}", network.matches(selector, labels), network.matches(selector, pod.labels))
    for each in made.containers():
        mode = [one.get("value") for one in each.get("env", []) if one["name"] == "RAY_AUTH_MODE"]
        report.expect_value(f"{name}, {each['name']} asks for a token", mode, ["token"])


def selectors_of(policies: list[dict]) -> list[dict]:
    """The selectors of pods in network policies."""
    found = [each["spec"]["podSelector"] for each in policies]
    for each in policies:
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            found += [peer["podSelector"] for rule in each["spec"].get(direction, []) for peer in rule.get(peers, []) if "podSelector" in peer]
    return [json.loads(each) for each in sorted({json.dumps(each, sort_keys=True) for each in found})]


def ray(servers: Servers, report: Report, everything: dict[str, list[dict]]) -> None:
    """The pods of the three Ray objects, by the real operator; then the graph and the job start."""
    documents = [
        next(each for each in everything["kubernetes/overlays/laptop"] if each["kind"] == "RayCluster"),
        *everything["kubernetes/base/ray/rayjob.yaml"], *everything["kubernetes/base/ray/rayservice.yaml"],
    ]
    selectors = selectors_of(objects(servers, *HERE, "networkpolicies"))
    for document in documents:
        name = document["metadata"]["name"]
        there = until(lambda name=name: nodes(servers, name) >= {"head", "worker"}, 120)
        report.expect_value(f"Ray's pods of {document['kind']} {name}", there or warnings(servers), True)
        foretold = {pod.name: pod for pod in made_of(document)}
        for real in of_cluster(servers, name):
            real_and_foretold(report, real, foretold[f"ray-{real['metadata']['labels']['ray.io/node-type']}"], selectors)
    run_ray(servers)
    names = {each["metadata"]["name"] for each in documents}

    def services() -> dict[str, dict]:
        return {each["metadata"]["name"]: each for each in objects(servers, *HERE, "services")}

    wanted = {"reverie-head-svc", "reverie-graph-head-svc", "reverie-graph-serve-svc"}
    there = until(lambda: (run_ray(servers), wanted <= services().keys())[1], 120)
    report.expect_value("the graph's services", there or warnings(servers), True)
    until(lambda: bool(Dashboard.jobs), 60)
    report.expect_value("the job was sent once", len(Dashboard.jobs), 1)
    time.sleep(10)
    # The service of the standing cluster is its own, before and after the graph has one.
    for name, owner in (("reverie", "RayCluster"), ("reverie-graph", "RayService")):
        head = services().get(f"{name}-head-svc", {"metadata": {}, "spec": {"selector": {"": ""}, "ports": []}})
        owners = [(each["kind"], each["name"]) for each in head["metadata"].get("ownerReferences", [])]
        report.expect_value(f"{name}-head-svc, owner", owners, [(owner, name)])
        pods = objects(servers, *HERE, "pods")
        chosen = [each for each in pods if head["spec"]["selector"].items() <= each["metadata"]["labels"].items()]
        report.expect_value(f"{name}-head-svc, pods", names_of(chosen), names_of(of_cluster(servers, name, "head")))
    graph(servers, report)
    client = [each["port"] for each in services().get("reverie-head-svc", {"spec": {"ports": []}})["spec"]["ports"] if each["name"] == "client"]
    report.expect_value("reverie-head-svc, Ray's client", client, [10001])
    # The operator shows the token of `reverie-ray`, and made no secret of its own.
    report.expect_value("the operator asks with the token", sorted({each[3] or "" for each in Dashboard.asked if each[2].startswith("api/")}), ["Bearer x-auth_token"])
    owners = {each["metadata"]["name"]: each["metadata"].get("ownerReferences", []) for each in objects(servers, *HERE, "secrets")}
    report.expect_value("secrets that would be deleted with their cluster", sorted(name for name, owner in owners.items() if owner or name in names), [])
    report.expect_value("pods that were refused", [each["message"] for each in objects(servers, *HERE, "events") if "forbidden" in each.get("message", "")], [])


def graph(servers: Servers, report: Report) -> None:
    """The graph stays as it is when its file is applied again, and takes another bundle without another cluster; then Ray's
    pods are made anew."""
    def updates() -> int:
        return len([each for each in Dashboard.asked if each[0] == "PUT"])

    def clusters() -> set[str]:
        return {each["metadata"]["labels"]["ray.io/cluster"] for each in of_cluster(servers, "reverie-graph")}

    file = check.BASE / "ray" / "rayservice.yaml"
    before = (clusters(), updates())
    for flags in ((), ("--server-side", "--force-conflicts")):
        report.expect("graph, second apply", servers.kubectl(*HERE, "apply", *flags, "-f", file))
    time.sleep(10)
    report.expect_value("graph, after the same file", (clusters(), updates()), before)
    other = file.read_text().replace("bundles/manuals-1", "bundles/manuals-2")
    report.expect("graph, another bundle", servers.kubectl(*HERE, "apply", "-f", "-", given=other))
    report.expect_value("graph, another bundle is sent to Ray", until(lambda: updates() > before[1], 60), True)
    report.expect_value("graph, its cluster after another bundle", clusters(), before[0])
    report.expect("job, second apply", servers.kubectl(*HERE, "apply", "-f", check.BASE / "ray" / "rayjob.yaml"))
    said(servers, report, "delete pod -l ray.io/cluster=reverie")
    until(lambda: nodes(servers, "reverie") >= {"head", "worker"}, 60)
    groups = {each["metadata"]["labels"]["ray.io/group"] for each in of_cluster(servers, "reverie") if "deletionTimestamp" not in each["metadata"]}
    report.expect_value("groups of the laptop's Ray cluster", groups, {"headgroup", "cpu"})


def real_pods(servers: Servers, report: Report) -> None:
    """All pods that there are: each has a policy of its own, and every policy and service that selects by label has one."""
    pods = objects(servers, *HERE, "pods")
    policies = objects(servers, *HERE, "networkpolicies")
    for pod in pods:
        labels = pod["metadata"]["labels"]
        own = any(each["spec"]["podSelector"] and network.matches(each["spec"]["podSelector"], labels) for each in policies)
        report.expect_value(f"{pod['metadata']['name']} has a policy of its own", own, True)
    # Of these there is no real pod: their operators did not run.
    others = {"reverie-workflow", "reverie-bus", "reverie-objects", "reverie-start"}
    for policy in policies:
        if policy["metadata"]["name"] not in others:
            selected = any(network.matches(policy["spec"]["podSelector"], pod["metadata"]["labels"]) for pod in pods)
            report.expect_value(f"policy {policy['metadata']['name']} selects a pod", selected, True)
    for service in objects(servers, *HERE, "services"):
        selector = service["spec"].get("selector", {})
        # The serve label of Ray's pods is the operator's, once an application answers.
        if not service["metadata"]["name"].endswith("serve-svc"):
            selected = any(selector.items() <= pod["metadata"]["labels"].items() for pod in pods)
            report.expect_value(f"service {service['metadata']['name']} selects a pod", selected, True)
    if os.environ.get("OPERATORS"):
        labels = [each["spec"]["template"]["metadata"]["labels"] for each in objects(servers, "-n", "default", "deployments")]
        named = [end.labels.items() for end in rules.STRANGERS if end.name == "operator in default"]
        report.expect_value("KubeRay's operator has the label that the policies name", [named[0] <= each.items() for each in labels], [True])


def exit_codes(servers: Servers, report: Report) -> None:
    """What exit codes of a run mean to its Job: 3 is tried again, 4 ends it."""

    def waiting() -> list[str]:
        pods = objects(servers, *HERE, "pods", "-l", "job-name=reverie-run")
        return [each["metadata"]["name"] for each in pods if each["status"]["phase"] == "Pending"]

    for number, code in enumerate((3, 4)):
        report.expect_value(f"pod {number + 1} of the run", until(lambda: bool(waiting()), 60), True)
        for pod in waiting():
            state = {"terminated": {"exitCode": code, "reason": "Error"}}
            ended = {"name": "reverie", "image": "reverie", "imageID": "", "ready": False, "restartCount": 0, "state": state}
            status = json.dumps({"status": {"phase": "Failed", "containerStatuses": [ended]}})
            report.expect(f"the run ends with {code}", servers.kubectl(*HERE, "patch", "pod", pod, "--subresource=status", "--patch", status))

    def failed() -> list[str]:
        (job,) = objects(servers, *HERE, "job", "reverie-run")
        return [each["reason"] for each in job["status"].get("conditions", []) if each["type"] == "Failed"]

    until(lambda: bool(failed()), 60)
    report.expect_value("the end of the run", failed(), ["PodFailurePolicy"])
