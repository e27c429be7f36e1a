"""The pods that a cluster would make of a manifest, and whether the Pod Security Standard `restricted` admits them.

Operators add containers that stand in no file: Argo Workflows `init` and `wait`, KubeRay the autoscaler and
`wait-gcs-ready`. They are added here as KubeRay v1.7.0 and Argo Workflows v3.7.3 do by their source, because a namespace
that enforces `restricted` refuses the whole pod for one of them.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass

import yaml

# What Argo gives to the containers of a step that is a Kubernetes object.
ARGO_MINIMAL = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "runAsUser": 8737,
    "seccompProfile": {"type": "RuntimeDefault"},
}
# The folders that Argo adds.
ARGO_VOLUMES = ("var-run-argo", "tmp-dir-argo", "input-artifacts")
# Steps that have no pod.
WITHOUT_POD = ("steps", "dag", "suspend")
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


@dataclass
class Pod:
    """A pod: whose it is (`serve`, `ray-head`, `workflow/golden`), its labels, and its specification."""

    name: str
    labels: dict[str, str]
    spec: dict

    def containers(self) -> list[dict]:
        """All containers, with those that run first."""
        return [*self.spec.get("initContainers", []), *self.spec.get("containers", [])]

    def ports(self) -> dict[str, int]:
        """The named ports."""
        return {port["name"]: port["containerPort"] for each in self.containers() for port in each.get("ports", []) if "name" in port}


def ray_cluster(document: dict) -> dict | None:
    """The specification of the Ray cluster that a RayCluster, RayJob or RayService has."""
    place = {"RayCluster": None, "RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
    if document["kind"] not in place:
        return None
    key = place[document["kind"]]
    return document["spec"] if key is None else document["spec"].get(key, {})


def merged(value, patch):
    """A strategic merge: objects key by key, lists of named objects by name, other lists as they are in the patch."""
    if isinstance(value, dict) and isinstance(patch, dict):
        if any(key.startswith("$") for key in patch):
            raise ValueError("a directive of a patch is not understood here")
        return {**value, **{key: merged(value[key], each) if key in value else each for key, each in patch.items()}}
    if isinstance(value, list) and isinstance(patch, list) and all(isinstance(each, dict) and "name" in each for each in [*value, *patch]):
        found = {each["name"]: each for each in value}
        for each in patch:
            found[each["name"]] = merged(found.get(each["name"], {}), each)
        return list(found.values())
    return patch


def of_template(name: str, template: dict) -> Pod:
    """The pod of a pod template."""
    return Pod(name, template.get("metadata", {}).get("labels", {}), copy.deepcopy(template["spec"]))


def of_ray(document: dict, cluster: dict) -> list[Pod]:
    """The head, with its autoscaler, and a worker of each group."""
    made = []
    token = {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": cluster.get("authOptions", {}).get("secretName", document["metadata"]["name"]), "key": "auth_token"}}}
    auth = [token] if cluster.get("authOptions", {}).get("mode") == "token" else []
    groups = [("head", cluster["headGroupSpec"]), *[("worker", each) for each in cluster.get("workerGroupSpecs", [])]]
    for kind, group in groups:
        pod = of_template(f"ray-{kind}", group["template"])
        pod.labels = {
            "ray.io/is-ray-node": "yes", "ray.io/cluster": document["metadata"]["name"], "ray.io/node-type": kind,
            "app.kubernetes.io/name": "kuberay", "app.kubernetes.io/created-by": "kuberay-operator", **pod.labels,
        }
        first = pod.spec["containers"][0]
        first["env"] = [*first.get("env", []), *auth]
        if kind == "head" and cluster.get("enableInTreeAutoscaling"):
            options = {key: each for key, each in cluster.get("autoscalerOptions", {}).items() if key in ("securityContext", "resources", "env", "envFrom")}
            small = {"cpu": "500m", "memory": "512Mi"}
            pod.spec["containers"].append({"name": "autoscaler", "image": first["image"], "resources": {"requests": small, "limits": small}, **options})
        if kind == "worker":
            waits = {"name": "wait-gcs-ready", "image": first["image"], "env": auth, "securityContext": first.get("securityContext", {})}
            pod.spec["initContainers"] = [*pod.spec.get("initContainers", []), waits]
        made.append(pod)
    return made


def of_workflow(spec: dict) -> list[Pod]:
    """A pod for each step of a workflow that has one, after its patches."""
    made = []
    for template in spec.get("templates", []):
        name = template["name"]
        if any(kind in template for kind in WITHOUT_POD):
            continue
        if "resource" in template:
            main, others, own = {"name": "main", "image": "argoexec"}, [], ARGO_MINIMAL
        elif "container" in template or "script" in template:
            main, others, own = template.get("container") or template["script"], [{"name": "wait", "image": "argoexec"}], None
        else:
            raise ValueError(f"the step {name} is of a kind that is not understood here")
        main = {**copy.deepcopy(main), "name": "main"}
        if own:
            main["securityContext"] = {**own, "readOnlyRootFilesystem": True}
        init = {"name": "init", "image": "argoexec", **({"securityContext": own} if own else {})}
        pod = {
            "restartPolicy": "Never",
            "serviceAccountName": spec.get("serviceAccountName"),
            "securityContext": template.get("securityContext") or spec.get("securityContext", {}),
            "initContainers": [init, *copy.deepcopy(template.get("initContainers", []))],
            "containers": [*others, main, *copy.deepcopy(template.get("sidecars", []))],
            "volumes": [*({"name": each, "emptyDir": {}} for each in ARGO_VOLUMES), *spec.get("volumes", []), *template.get("volumes", [])],
        }
        for each in [*pod["initContainers"], *pod["containers"]]:
            each["volumeMounts"] = [*each.get("volumeMounts", []), {"name": "var-run-argo", "mountPath": "/var/run/argo"}]
        init["volumeMounts"].append({"name": "input-artifacts", "mountPath": "/argo/inputs/artifacts"})
        for each in others:
            each["volumeMounts"].append({"name": "tmp-dir-argo", "mountPath": "/tmp", "subPath": "0"})
        token = template.get("automountServiceAccountToken", spec.get("automountServiceAccountToken"))
        if token is not None:
            pod["automountServiceAccountToken"] = token
        for patch in (spec.get("podSpecPatch"), template.get("podSpecPatch")):
            if patch:
                pod = merged(pod, yaml.safe_load(patch))
        labels = {"workflows.argoproj.io/workflow": "reverie", "workflows.argoproj.io/completed": "false", **spec.get("podMetadata", {}).get("labels", {}), **template.get("metadata", {}).get("labels", {})}
        made.append(Pod(f"workflow/{name}", labels, pod))
    return made


def of_events(document: dict) -> Pod:
    """The pod that Argo Events makes: it brings the images, the rest stands in the document."""
    spec = document["spec"]
    settings = spec.get("jetstream", {}) if document["kind"] == "EventBus" else spec.get("template", {})
    bus = {"main": "containerTemplate", "reloader": "reloaderContainerTemplate", "metrics": "metricsContainerTemplate"}
    names = bus if document["kind"] == "EventBus" else {"main": "container"}
    containers = [{**settings.get(key, {}), "name": name, "image": "argo-events"} for name, key in names.items()]
    pod = {"serviceAccountName": settings.get("serviceAccountName"), "securityContext": settings.get("securityContext", {}), "containers": containers}
    name = {"EventBus": "bus", "EventSource": "objects", "Sensor": "start"}[document["kind"]]
    return Pod(name, settings.get("metadata", {}).get("labels", {}), pod)


def made_of(document: dict) -> list[Pod]:
    """The pods that a cluster makes of a document."""
    kind, spec = document["kind"], document.get("spec", {})
    name = document.get("metadata", {}).get("name", "").removeprefix("reverie-")
    if kind in ("Deployment", "StatefulSet", "DaemonSet", "Job"):
        return [of_template(name, spec["template"])]
    if kind == "CronJob":
        return [of_template(name, spec["jobTemplate"]["spec"]["template"])]
    if cluster := ray_cluster(document):
        return of_ray(document, cluster)
    if kind in ("Workflow", "WorkflowTemplate"):
        return of_workflow(spec)
    if kind == "CronWorkflow":
        return of_workflow(spec.get("workflowSpec", {}))
    if kind in ("EventBus", "EventSource", "Sensor"):
        return [of_events(document)]
    return []


def refused(pod: Pod) -> list[str]:
    """Why the Pod Security Standard `restricted` refuses a pod."""
    found = []
    shared = pod.spec.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(key):
            found.append(f"{pod.name} has {key}")
    for volume in pod.spec.get("volumes", []):
        if not set(volume) - {"name"} <= VOLUMES:
            found.append(f"{pod.name} has the volume {volume['name']} of another kind")
    for container in pod.containers():
        where = f"{pod.name}, container {container['name']}"
        own = container.get("securityContext", {})
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", container["name"]):
            found.append(f"{where} has a name that no server takes")
        if "image" not in container:
            found.append(f"{where} has no image: a patch names a container that is not there")
        if own.get("privileged"):
            found.append(f"{where} is privileged")
        if own.get("allowPrivilegeEscalation") is not False:
            found.append(f"{where} does not set allowPrivilegeEscalation to false")
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []) or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            found.append(f"{where} keeps capabilities")
        if own.get("runAsNonRoot", shared.get("runAsNonRoot")) is not True or own.get("runAsUser", shared.get("runAsUser", 1)) == 0:
            found.append(f"{where} may run as root")
        if own.get("seccompProfile", shared.get("seccompProfile", {})).get("type") not in ("RuntimeDefault", "Localhost"):
            found.append(f"{where} has no seccomp profile")
        if any(port.get("hostPort") for port in container.get("ports", [])):
            found.append(f"{where} takes a port of the node")
    return found
