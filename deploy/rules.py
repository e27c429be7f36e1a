"""Rules for more than one document: who gets which secret, who may connect to whom, what is written while it runs.

Each rule returns sentences, and each sentence begins with the word of its rule.
"""

from __future__ import annotations

import json
import re

import yaml

import network
from pods import Pod, made_of, ray_cluster

RAY = ("ray-head", "ray-worker")
STEPS = ("workflow/golden", "workflow/experiment")

# Which pods may have which secret: all of it, or one of its keys. docs/kubernetes.md tells how to make each.
SECRETS = {
    "reverie-s3": {"serve", "run", "notebook", "storage", *RAY, *STEPS, "workflow/keep", "workflow/promote"},
    "reverie-models": {"serve", "run", *RAY, *STEPS},
    "reverie-trackers": {"run", "ray-head", "workflow/experiment"},
    "reverie-keys": {"serve"},
    "reverie-ask.key": {"workflow/ask"},
    "reverie-ray.auth_token": {*RAY},
    "mlflow.uri": {"mlflow"},
    "mlflow.password": {"postgresql"},
    "mlflow-s3": {"mlflow"},
    "notebook.token": {"notebook"},
    "notebook-models": {"notebook"},
}
# For Prometheus and for Argo Events, not for a pod of ours.
OTHER_SECRETS = {"reverie-metrics", "reverie-events"}

# The pods that talk to Kubernetes' API, and so need the token of their account.
NEEDS_TOKEN = {
    "ray-head": "its autoscaler asks for pods",
    "workflow": "Argo's container `wait` reports the results of a step",
    "start": "the Sensor makes workflows",
}

# The ports that are looked at: those of all servers, those of the outside, and two that Ray chooses.
PORTS = {443, 5000, 5432, 6379, 8000, 8080, 8265, 8333, 8888, 10001, 10002, 30000}
# The connections that are needed: from whom, to whom, at which ports. `outside` is an address outside the cluster.
# `ray` is every pod of a Ray cluster, `graph` those of a RayService for their clients.
NEEDED = [
    ({"serve", "run", "workflow", "mlflow", "notebook", "ray"}, "storage", {8333}),
    ({"mlflow"}, "postgresql", {5432}),
    ({"run", "workflow", "notebook", "ray"}, "mlflow", {5000}),
    ({"workflow", "notebook", "ingress", "monitoring"}, "serve", {8080}),
    ({"ray"}, "ray", PORTS),
    ({"notebook"}, "ray", {8265, 10001}),
    ({"operator in default", "operator in ray-system"}, "ray", {8265, 8000}),
    ({"ingress"}, "graph", {8000}),
    ({"serve", "run", "workflow", "mlflow", "notebook", "ray"}, "outside", {443}),
    ({"workflow", "ray"}, "outside", {6443}),
    ({"mlflow"}, "outside", {5432}),
]
# These are reached by nobody else, at no other port.
CLOSED = {"storage", "postgresql", "mlflow", "notebook", "ray"}
# These connect to nothing outside.
SILENT = {"storage", "postgresql"}
STRANGERS = [
    network.End("a pod without a policy of its own", {"app": "stranger"}),
    network.End("a pod of another namespace", {"app": "stranger"}, "other"),
    network.End("ingress", {"app": "nginx"}, "ingress"),
    network.End("monitoring", {"app": "prometheus"}, "monitoring"),
    network.End("operator in default", {"app.kubernetes.io/component": "kuberay-operator"}, "default"),
    network.End("operator in ray-system", {"app.kubernetes.io/component": "kuberay-operator"}, "ray-system"),
    network.End("a false operator", {"app.kubernetes.io/component": "kuberay-operator"}, "other"),
    network.End("outside", {}, None),
]


def of_kind(documents: list[dict], kind: str) -> list[dict]:
    """The documents of a kind."""
    return [each for each in documents if each["kind"] == kind]


def secrets_of(pod: Pod) -> list[str]:
    """The secrets that a pod gets: `name`, or `name.key` where it gets one key of it."""
    found = []
    for container in pod.containers():
        found += [each["secretRef"]["name"] for each in container.get("envFrom", []) if "secretRef" in each]
        for each in container.get("env", []):
            if reference := each.get("valueFrom", {}).get("secretKeyRef"):
                found.append(f"{reference['name']}.{reference['key']}")
    for volume in pod.spec.get("volumes", []):
        if "secret" in volume:
            found.append(volume["secret"]["secretName"])
    return found


def wrong_secrets(document: dict) -> list[str]:
    """Secrets that a pod gets and that are not for it."""
    problems = []
    for pod in made_of(document):
        for secret in sorted(set(secrets_of(pod))):
            # A key of a secret that a pod may have as a whole.
            holders = SECRETS.get(secret) or SECRETS.get(secret.partition(".")[0])
            if holders is None:
                problems.append(f"secret: {pod.name} gets {secret}, which has no line in SECRETS of deploy/rules.py")
            elif pod.name not in holders:
                problems.append(f"secret: {pod.name} gets {secret}, which is for {', '.join(sorted(holders))}")
    return problems


def needless_tokens(documents: list[dict]) -> list[str]:
    """Pods that get the token of an account and ask nothing of Kubernetes."""
    problems = []
    without = {each["metadata"]["name"] for each in of_kind(documents, "ServiceAccount") if each.get("automountServiceAccountToken") is False}
    for document in documents:
        for pod in made_of(document):
            if pod.name.partition("/")[0] in NEEDS_TOKEN or pod.spec.get("serviceAccountName") in without:
                continue
            if pod.spec.get("automountServiceAccountToken") is not False:
                problems.append(f"token: {pod.name} of {document['kind']} {document['metadata']['name']} gets a token of Kubernetes' API, and needs none")
    return problems


def ray_rules(document: dict) -> list[str]:
    """What is wrong with a Ray cluster."""
    cluster = ray_cluster(document)
    if cluster is None:
        return []
    problems = []
    auth = cluster.get("authOptions", {})
    if auth.get("mode") != "token":
        problems.append("ray: whoever reaches port 8265 can run code: authOptions.mode is not `token`")
    if not auth.get("secretName"):
        problems.append("ray: authOptions has no secretName, so KubeRay makes a secret with the cluster's name and deletes it with the cluster")
    for pod in made_of(document):
        if auth.get("secretName") in secrets_of(pod):
            problems.append(f"ray: {pod.name} gets the whole secret {auth['secretName']}, which is for Ray's token alone")
    if cluster.get("enableInTreeAutoscaling") and not cluster.get("autoscalerOptions", {}).get("securityContext"):
        problems.append("ray: the autoscaler has no securityContext, so `restricted` refuses the head's pod")
    return problems


def same_ray_names(documents: list[dict]) -> list[str]:
    """Ray objects of different kinds that have one name, and so would own one head service."""
    owners: dict[str, set[str]] = {}
    for each in documents:
        if ray_cluster(each) is not None:
            owners.setdefault(each["metadata"]["name"], set()).add(each["kind"])
    return [f"ray: {' and '.join(sorted(kinds))} are both called {name}, and both own the service {name}-head-svc" for name, kinds in sorted(owners.items()) if len(kinds) > 1]


def leaves(value, path: tuple = ()) -> list[tuple]:
    """The paths of all values; elements of a list are named by their `name`."""
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in leaves(each, (*path, key))]
    if isinstance(value, list) and all(isinstance(each, dict) and "name" in each for each in value):
        return [leaf for each in value for leaf in leaves({key: one for key, one in each.items() if key != "name"}, (*path, each["name"]))]
    return [path]


def is_set(value, path: tuple) -> bool:
    """Whether a document sets a path, or anything that takes its place (`value` and `valueFrom` of a variable)."""
    for part in path:
        if isinstance(value, list):
            value = next((each for each in value if each.get("name") == part), None)
        else:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            return False
    return True


def patches(documents: list[dict]) -> list[dict]:
    """The objects that steps of workflows patch."""
    return [
        yaml.safe_load(re.sub(r"\{\{.*?\}\}", "x", step["resource"]["manifest"]))
        for each in of_kind(documents, "WorkflowTemplate")
        for step in each["spec"]["templates"]
        if step.get("resource", {}).get("action") == "patch"
    ]


def overwritten(documents: list[dict], around: list[dict]) -> list[str]:
    """What documents set although others write it while it runs: applying them again would undo it, or be refused."""
    problems = []
    known = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    for patch in patches(around):
        target = known.get((patch["kind"], patch["metadata"]["name"]))
        if target is None:
            continue
        for path in leaves(patch.get("spec", {}), ("spec",)):
            if is_set(target, path):
                problems.append(f"written: {target['kind']} {target['metadata']['name']} sets {'.'.join(path)}, which the workflow writes")
            *parents, last = path
            if parents[-1] == "annotations" and f"annotations['{last}']" not in json.dumps(target["spec"]):
                problems.append(f"written: the workflow writes the annotation {last}, and {target['metadata']['name']} does not read it")
    for scaler in of_kind(documents, "HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        if "replicas" in known.get((target["kind"], target["name"]), {}).get("spec", {}):
            problems.append(f"written: {target['kind']} {target['name']} sets replicas, which its autoscaler writes")
    for document in documents:
        cluster = ray_cluster(document) or {}
        if cluster.get("enableInTreeAutoscaling"):
            for group in cluster.get("workerGroupSpecs", []):
                if "replicas" in group:
                    problems.append(f"written: the group {group.get('groupName')} of {document['kind']} {document['metadata']['name']} sets replicas, which Ray's autoscaler writes")
    for each in of_kind(documents, "CronWorkflow"):
        if "suspend" in each["spec"]:
            problems.append(f"written: CronWorkflow {each['metadata']['name']} sets suspend, which people write")
    return problems


def defaulted(document: dict) -> list[str]:
    """Fields whose default the server fills in, where the manifest has to state it. Without it every `kubectl apply` sends a
    change, and `--server-side` reports a conflict after an apply without it."""
    problems = []
    if "rollingUpdate" in (strategy := document.get("spec", {}).get("strategy", {})) and "type" not in strategy:
        problems.append("applied: the strategy has no type, so every apply sends a change of it")
    for pod in made_of(document):
        for container in pod.containers():
            for each in container.get("env", []):
                if "apiVersion" not in each.get("valueFrom", {}).get("fieldRef", {"apiVersion": ""}):
                    problems.append(f"applied: {each['name']} of {container['name']} has a fieldRef without apiVersion, so `--server-side` is refused after an apply without it")
    return problems


def paid(documents: list[dict]) -> list[str]:
    """Runs that would start because something was applied or upgraded."""
    problems = []
    for each in documents:
        kind, name = each["kind"], each["metadata"]["name"]
        if kind in ("Job", "RayJob", "Workflow", "CronWorkflow") or (kind == "CronJob" and each["spec"].get("suspend") is not True):
            problems.append(f"paid: {kind} {name} starts a paid run although nobody asked for one")
    return problems


def unchecked_parameters(document: dict) -> list[str]:
    """Parameters of a workflow that get into a file or an address without having been checked."""
    if document["kind"] != "WorkflowTemplate":
        return []
    spec = document["spec"]
    templates = {each["name"]: each for each in spec["templates"]}
    first = [each["template"] for each in templates[spec["entrypoint"]]["steps"][0]]
    if first != ["check"]:
        return ["parameter: the first step is not `check`, which looks at the parameters"]
    check = templates["check"]["container"]
    if check.get("envFrom") or any("secretKeyRef" in each.get("valueFrom", {}) for each in check.get("env", [])):
        return ["parameter: the step `check` gets a secret before anything was checked"]
    checked = set(re.findall(r"\{\{workflow\.parameters\.(\w+)\}\}", json.dumps(check["args"])))
    problems = []
    if "{{" in json.dumps(check["command"]):
        problems.append("parameter: the script of the step `check` contains a parameter, which could end a word there")
    used = set()
    for name, each in templates.items():
        container = each.get("container", {})
        used |= set(re.findall(r"\{\{workflow\.parameters\.(\w+)\}\}", json.dumps([each.get("inputs", {}), container.get("env", []), each.get("resource", {})])))
        words = container.get("args", [])
        # A word after `--` can be neither a flag nor a place.
        words = words[: words.index("--")] if "--" in words else words
        used |= set(re.findall(r"\{\{workflow\.parameters\.(\w+)\}\}", json.dumps(words)))
    return problems + [f"parameter: {each} is used without having been checked" for each in sorted(used - checked)]


def ends(documents: list[dict]) -> list[network.End]:
    """The pods of documents, as ends of connections."""
    found = []
    for document in documents:
        for pod in made_of(document):
            name = "ray" if pod.name in RAY else pod.name.partition("/")[0]
            found.append(network.End(name, pod.labels, ports=pod.ports()))
    return found


def unused_policies(documents: list[dict], around: list[dict]) -> list[str]:
    """Network policies that select no pod."""
    there = ends(around)
    return [
        f"network: the policy {each['metadata']['name']} selects no pod"
        for each in of_kind(documents, "NetworkPolicy")
        if not any(network.matches(each["spec"]["podSelector"], end.labels) for end in there)
    ]


def connections(documents: list[dict], later: list[dict]) -> list[str]:
    """What is wrong with the network policies of a namespace; `later` are documents that are applied to it by themselves."""
    problems = []
    policies = of_kind([*documents, *later], "NetworkPolicy")
    both = {"Ingress", "Egress"}
    if not any(not each["spec"]["podSelector"] and set(each["spec"]["policyTypes"]) == both and not each["spec"].get("ingress") and not each["spec"].get("egress") for each in policies):
        return ["network: no policy refuses by default what no other allows"]
    there = ends([*documents, *later])
    for end in there:
        if not any(each["spec"]["podSelector"] and network.matches(each["spec"]["podSelector"], end.labels) for each in policies):
            problems.append(f"network: {end.name} has no policy of its own")
    graphs = [network.End("graph", pod.labels, ports=pod.ports()) for each in of_kind([*documents, *later], "RayService") for pod in made_of(each)]
    outside = STRANGERS[-1]
    for target in [*there, *graphs, outside]:
        for source in [*there, *STRANGERS]:
            if source is target:
                continue
            needed = {port for sources, name, ports in NEEDED if name == target.name and source.name in sources for port in ports}
            closed = target.name in CLOSED or (target is outside and source.name in SILENT)
            is_graph = any(target.labels == each.labels for each in graphs)
            for port in sorted(PORTS | needed):
                reaches = network.allowed(policies, source, target, port)
                if port in needed and not reaches:
                    problems.append(f"network: {source.name} does not reach {target.name} at port {port}")
                # Clients of a graph reach the pods of its Ray cluster, at this port.
                if reaches and port not in needed and closed and not (is_graph and port == 8000):
                    problems.append(f"network: {source.name} reaches {target.name} at port {port}")
    return list(dict.fromkeys(problems))


# How long the service goes on after SIGTERM unless `--lame-duck` says otherwise, and how long it takes to end after that.
LAME_DUCK = 5
LAST_LINES = 5


def draining(document: dict, services: list[dict]) -> list[str]:
    """Deployments behind a Service whose pods end before they are no longer asked, or before they could end."""
    if document["kind"] != "Deployment":
        return []
    spec = document["spec"]["template"]["spec"]
    labels = document["spec"]["template"]["metadata"]["labels"]
    problems = []
    for container in spec["containers"]:
        command = container.get("command", [])
        if "--drain" not in command or not any(each["spec"].get("selector", {}).items() <= labels.items() for each in services):
            continue
        sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        if not sleep:
            problems.append(f"drain: {container['name']} has no preStop, so requests are sent to a pod that has ended")
        lame_duck = float(command[command.index("--lame-duck") + 1]) if "--lame-duck" in command else LAME_DUCK
        drain = float(command[command.index("--drain") + 1])
        if spec.get("terminationGracePeriodSeconds", 30) <= sleep + lame_duck + drain + LAST_LINES:
            problems.append(f"drain: {container['name']} is killed before --lame-duck and --drain are over")
    return problems


# The namespace that stands in the kustomization of an operator.
SAID_NAMESPACES = {"ray-operator/config/default": "default"}


def applications(documents: list[dict], project: dict | None) -> list[str]:
    """Applications of Argo CD whose objects go to a namespace that their project does not permit."""
    problems = []
    permitted = {each["namespace"] for each in project["spec"]["destinations"]} if project else set()
    for each in of_kind(documents, "Application"):
        if not project or each["spec"]["project"] != project["metadata"]["name"]:
            continue
        source, target = each["spec"]["source"], each["spec"]["destination"]["namespace"]
        options = each["spec"].get("syncPolicy", {}).get("syncOptions", [])
        ignored = [path for kind in each["spec"].get("ignoreDifferences", []) for path in kind.get("jqPathExpressions", [])]
        if "RespectIgnoreDifferences=true" in options and any("[]" in path for path in ignored):
            problems.append(f"synced: {each['metadata']['name']} takes a whole list from the cluster for one ignored field, so changes of it in git never get there")
        compared = each["metadata"].get("annotations", {}).get("argocd.argoproj.io/compare-options", "")
        if ignored and "ServerSideDiff=true" not in compared:
            problems.append(f"synced: {each['metadata']['name']} compares custom kinds without the server's defaults, and never is in sync")
        said = source.get("kustomize", {}).get("namespace") or SAID_NAMESPACES.get(source.get("path"), target)
        for namespace in {said, target} - permitted:
            problems.append(f"operator: the objects of {each['metadata']['name']} go to the namespace {namespace}, which the project does not permit")
        if said != target:
            problems.append(f"operator: {each['metadata']['name']} goes to {target}, and its objects say {said}: set source.kustomize.namespace")
    return problems


def documented(text: str) -> list[str]:
    """What is wrong with the commands of the documentation."""
    problems = []
    for path, namespace in SAID_NAMESPACES.items():
        for line in text.splitlines():
            command = next((each for each in line.split("&&") if f"/{path}?" in each), "")
            if given := re.search(r"\s(?:-n|--namespace)[ =](\S+)", command):
                if given[1] != namespace:
                    problems.append(f"operator: `{command.strip()}` is refused, because the kustomization says `namespace: {namespace}`")
    for secret in sorted({each.partition(".")[0] for each in SECRETS} | OTHER_SECRETS):
        if f"secret generic {secret} " not in text:
            problems.append(f"secret: docs/kubernetes.md does not say how to make {secret}")
    return problems


def exposed(ignored: str, dockerignored: dict[str, str]) -> list[str]:
    """Files with secrets that git or an image would take."""
    problems = []
    for each in (".env", "keys.toml"):
        if each not in ignored.split():
            problems.append(f"ignored: .gitignore does not have {each}")
        for name, text in dockerignored.items():
            if not {"*", f"**/{each}"} & set(text.split()):
                problems.append(f"ignored: {name} does not have **/{each}")
    return problems


def collisions(one: list[dict], other: list[dict]) -> list[str]:
    """What two releases of the chart in one namespace would share."""
    names = {(each["kind"], each["metadata"]["name"]) for each in one}
    problems = [f"release: two releases both have {each['kind']} {each['metadata']['name']}" for each in other if (each["kind"], each["metadata"]["name"]) in names]
    for document in one:
        selector = document.get("spec", {}).get("selector") or document.get("spec", {}).get("podSelector") or {}
        selector = selector if "matchLabels" in selector or not selector else {"matchLabels": selector}
        for pod in (pod for each in other for pod in made_of(each)):
            if selector and network.matches(selector, pod.labels):
                problems.append(f"release: {document['kind']} {document['metadata']['name']} selects the pods of another release")
    return problems
