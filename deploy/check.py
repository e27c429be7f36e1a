"""All that a cluster would get, rendered and checked without one: `make deploy-check`.

Every overlay and base by `kubectl kustomize`, the chart by `helm template` with its default and its production
values, and the plain files. Built-in kinds are validated by the schemas of Kubernetes itself, custom ones by those in
`schemas/`. Every pod is held against rules of ours, and what operators make of it against the Pod Security Standard
`restricted` (pods.py); rules for more than one document are in rules.py. No cluster takes part: rules that only a server
knows, such as CEL or whether an image exists, are not in reach; deploy/server.py asks a real server.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

import pods as made
import rules

HERE = Path(__file__).resolve().parent
BASE = HERE / "kubernetes" / "base"
# The base by itself has what starts the workflow, and not the workflow.
WORKFLOW = "kubernetes/base/workflow"
# What is applied by itself, into the namespace of an overlay.
LATER = ["kubernetes/base/run", "kubernetes/base/nightly", "kubernetes/base/ray/rayjob.yaml", "kubernetes/base/ray/rayservice.yaml"]
DOCUMENTATION = HERE.parent / "docs" / "kubernetes.md"
TOOLS = Path(sys.executable).parent
KUBERNETES = "1.37"


def command(*words: object) -> str:
    """What a tool prints; a tool that fails is an error with its words."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"{' '.join(map(str, words[1:]))}: {done.stderr.strip()}")
    return done.stdout


def documents(text: str) -> list[dict]:
    """The objects of a YAML stream."""
    return [each for each in yaml.safe_load_all(text) if each]


def kustomized(folder: Path) -> list[dict]:
    """A folder as kustomize renders it."""
    return documents(command(TOOLS / "kubectl", "kustomize", folder))


def chart(*flags: object, release: str = "reverie") -> list[dict]:
    """The Helm chart as helm renders it."""
    return documents(command(TOOLS / "helm", "template", release, HERE / "chart", "--namespace", "reverie", *flags))


def rendered() -> dict[str, list[dict]]:
    """Everything there is, by what it was rendered from."""
    found = {}
    for path in sorted(HERE.glob("kubernetes/*/*/kustomization.yaml")):
        found[str(path.parent.relative_to(HERE))] = kustomized(path.parent)
    for values in (None, *sorted((HERE / "chart").glob("values-*.yaml"))):
        flags = ["--values", values] if values else []
        found[f"chart {values.name if values else 'values.yaml'}"] = chart(*flags)
    found["chart with a run"] = chart("--set", "run.enabled=true")
    for path in [BASE / "ray" / "rayjob.yaml", BASE / "ray" / "rayservice.yaml", *sorted((HERE / "argocd").rglob("*.yaml"))]:
        found[str(path.relative_to(HERE))] = documents(path.read_text())
    return found


@cache
def custom(group: str, version: str, kind: str) -> dict | None:
    """The schema of a custom resource, if there is one."""
    path = HERE / "schemas" / f"{group}_{version}_{kind}.json"
    if not path.is_file():
        return None
    schema = json.loads(path.read_text())
    # The server's own: what it means is the same for every kind.
    schema.setdefault("properties", {}).update(apiVersion={"type": "string"}, kind={"type": "string"})
    schema["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "required": ["name"]}
    return strict(schema)


def strict(schema: dict) -> dict:
    """A structural schema of Kubernetes as a JSON Schema that says the same."""
    made = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes")}
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
        made["type"] = ["integer", "string"]
    if "properties" in schema:
        made["properties"] = {name: strict(each) for name, each in schema["properties"].items()}
        if "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            made["additionalProperties"] = False
    if isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = strict(schema["additionalProperties"])
    if isinstance(schema.get("items"), dict):
        made["items"] = strict(schema["items"])
    if made.pop("nullable", False) and "type" in made:
        made["type"] = [*(made["type"] if isinstance(made["type"], list) else [made["type"]]), "null"]
    # Formats such as int32 are Kubernetes' own.
    made.pop("format", None)
    return made


def with_defaults(value, schema: dict):
    """A value with the defaults that the server puts in before it looks what is missing."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        value = {**{name: each["default"] for name, each in properties.items() if "default" in each}, **value}
        rest = schema.get("additionalProperties")
        return {
            name: with_defaults(each, properties.get(name) or (rest if isinstance(rest, dict) else {}))
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [with_defaults(each, schema.get("items", {})) for each in value]
    return value


def invalid(document: dict) -> list[str]:
    """What the schema of a document's kind refuses."""
    kind = document["kind"]
    group, _, version = document["apiVersion"].rpartition("/")
    if schema := custom(group, version, kind):
        problems = jsonschema.Draft202012Validator(schema).iter_errors(with_defaults(document, schema))
        return [f"schema: {'.'.join(map(str, each.absolute_path))}: {each.message[:200]}" for each in problems]
    if "." in group and not group.endswith(".k8s.io"):
        return [f"schema: there is none for {document['apiVersion']} {kind}"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
    except Exception as error:  # noqa: BLE001: a kind that is unknown, a value that is refused, a version that is missing
        return [f"schema: {(str(error) or type(error).__name__).splitlines()[0][:200]}"]
    return []


def pods(value, path: str = "") -> list[tuple[str, dict]]:
    """Every specification of a pod in a document, wherever its kind has it."""
    found = []
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list) and all("image" in each for each in value["containers"]):
            found.append((path, value))
        for name, each in value.items():
            found += pods(each, f"{path}.{name}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            found += pods(each, f"{path}[{number}]")
    return found


def steps(document: dict) -> list[tuple[str, dict]]:
    """The containers of a workflow, as pods of one container with the workflow's settings."""
    if document["kind"] != "WorkflowTemplate":
        return []
    spec = document["spec"]
    return [
        (f".{each['name']}", {"containers": [each["container"]], "securityContext": spec.get("securityContext", {})})
        for each in spec["templates"]
        if "container" in each
    ]


def of_operators(document: dict) -> list[tuple[str, dict]]:
    """The pods that Argo Events makes for a document: it brings the images, the rest is said here."""
    if document["kind"] in ("Sensor", "EventSource"):
        spec = document["spec"].get("template", {})
        names = ["container"]
    elif document["kind"] == "EventBus":
        spec = document["spec"].get("jetstream", {})
        names = ["containerTemplate", "reloaderContainerTemplate", "metricsContainerTemplate"]
    else:
        return []
    return [(f".{name}", {"containers": [spec.get(name, {})], "securityContext": spec.get("securityContext", {})}) for name in names]


# Names that hold a secret. Of a variable that names a file or a key's name, the value is no secret.
SECRET = re.compile(r"(PASSWORD|SECRET|TOKEN|API_KEY|ACCESS_KEY|CREDENTIAL)", re.IGNORECASE)
LONG_RUNNING = {"Deployment", "StatefulSet", "DaemonSet"}


def against_rules(document: dict) -> list[str]:
    """What rules of ours refuse in a document."""
    problems = []
    if document["kind"] == "Secret":
        problems.append("secret: a Secret is made by whoever installs it, and is in no file")
    for path, pod in [*pods(document), *steps(document), *of_operators(document)]:
        shared = pod.get("securityContext", {})
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            where = f"{path}.{container.get('name', 'container')}"
            own = container.get("securityContext", {})
            resources = container.get("resources", {})
            for kind in ("requests", "limits"):
                for what in ("cpu", "memory"):
                    if what not in resources.get(kind, {}):
                        problems.append(f"resources: {where} has no {kind} of {what}")
            if own.get("runAsNonRoot", shared.get("runAsNonRoot")) is not True or own.get("runAsUser", shared.get("runAsUser", 1)) == 0:
                problems.append(f"root: {where} may run as root")
            if own.get("readOnlyRootFilesystem") is not True:
                problems.append(f"read-only: {where} may write to its image")
            if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
                problems.append(f"privileges: {where} may get more")
            if "ALL" not in own.get("capabilities", {}).get("drop", []) or own.get("capabilities", {}).get("add"):
                problems.append(f"capabilities: {where} keeps some")
            if own.get("seccompProfile", shared.get("seccompProfile", {})).get("type") not in ("RuntimeDefault", "Localhost"):
                problems.append(f"seccomp: {where} may make any system call")
            if "image" in container:
                tag = container["image"].rpartition("/")[2].partition(":")[2]
                if not tag or tag == "latest":
                    problems.append(f"image: {where} has {container['image']}, which is another one tomorrow")
            for each in container.get("env", []):
                if SECRET.search(each["name"]) and each.get("value"):
                    problems.append(f"secret: {where} has {each['name']} in plain text")
        # KubeRay gives Ray's containers probes of its own.
        if document["kind"] in LONG_RUNNING:
            for container in pod["containers"]:
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    if probe not in container:
                        problems.append(f"probe: {path}.{container['name']} has no {probe}")
        for volume in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(volume):
                problems.append(f"privileges: {path} has {volume}")
    return problems


def notice(bucket: str, key: str, event: str = "s3:ObjectCreated:Put") -> dict:
    """What Argo Events makes of an object store's post, as far as we read it."""
    return {"body": {"Records": [{"eventName": event, "s3": {"bucket": {"name": bucket}, "object": {"key": key}}}]}}


def found_at(value, path: str):
    """What is at a path such as `body.Records.0.eventName`; None where nothing is."""
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return None
    return value


def passes(filters: dict, event: dict) -> bool:
    """Whether an event passes the filters of a dependency, as Argo Events decides it."""
    if set(filters) - {"data", "dataLogicalOperator"} or filters.get("dataLogicalOperator", "and") != "and":
        raise ValueError("a kind of filter that is not understood here")
    for each in filters.get("data", []):
        if each["type"] != "string" or set(each) - {"path", "type", "value", "comparator"}:
            raise ValueError(f"a filter that is not understood here: {each['path']}")
        found = found_at(event, each["path"])
        wanted = each.get("comparator", "=") in ("", "=")
        if found is None or not any(bool(re.search(value, found)) == wanted for value in each["value"]):
            return False
    return True


def written(template: dict) -> set[str]:
    """Where in its bucket a workflow writes: every place that its steps name, but for the documents."""
    places = re.findall(r"s3://\{\{workflow\.parameters\.bucket\}\}/((?:\{\{.*?\}\}|[\w./-])+)", json.dumps(template["spec"]))
    return {re.sub(r"\{\{.*?\}\}", "x", each) for each in places if not each.startswith("{{workflow.parameters.documents}}")}


def started(sensor: dict, documents: list[dict]) -> list[str]:
    """What is wrong with a Sensor that starts a workflow, as the documents around it show."""
    known = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    spec, problems = sensor["spec"], []
    if ("EventBus", spec.get("eventBusName", "default")) not in known:
        problems.append(f"reference: there is no EventBus {spec.get('eventBusName', 'default')}")
    dependencies = {each["name"]: each for each in spec["dependencies"]}
    for name, each in dependencies.items():
        source = known.get(("EventSource", each["eventSourceName"]), {"spec": {}})["spec"]
        if each["eventName"] not in {**source.get("webhook", {}), **source.get("sqs", {})}:
            problems.append(f"reference: {name} is of {each['eventSourceName']}.{each['eventName']}, which is not there")
        elif source.get("eventBusName") != spec.get("eventBusName"):
            problems.append(f"reference: {name} comes by another EventBus")
    account = spec.get("template", {}).get("serviceAccountName")
    bound = [each["roleRef"]["name"] for each in documents if each["kind"] == "RoleBinding" and account in [to["name"] for to in each["subjects"]]]
    allowed = [rule for name in bound for rule in known.get(("Role", name), {}).get("rules", [])]
    if allowed != [{"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["create"]}]:
        problems.append(f"rights: {account} may do other things than make workflows")
    for trigger in spec["triggers"]:
        made = trigger["template"].get("k8s", {}).get("source", {}).get("resource", {})
        if made.get("kind") != "Workflow":
            problems.append("schema: a trigger makes something else than a Workflow")
            continue
        # Argo Events passes it on as it stands. What a Workflow may say is what its template may say.
        problems += [f"{each} (of the Workflow)" for each in invalid({**made, "kind": "WorkflowTemplate"})]
        name = made["spec"].get("workflowTemplateRef", {}).get("name")
        template = known.get(("WorkflowTemplate", name))
        if template is None:
            problems.append(f"reference: there is no WorkflowTemplate {name}")
            continue
        given = {each["name"]: each.get("value") for each in made["spec"].get("arguments", {}).get("parameters", [])}
        for each in sorted(set(given) - {each["name"] for each in template["spec"]["arguments"]["parameters"]}):
            problems.append(f"reference: the workflow has no parameter {each}")
        for each in trigger["template"]["k8s"].get("parameters", []):
            if found_at(made, each["dest"]) is None:
                problems.append(f"reference: the Workflow has no {each['dest']} to be replaced")
            if each["src"]["dependencyName"] not in dependencies:
                problems.append(f"reference: there is no dependency {each['src']['dependencyName']}")
        for each in dependencies.values():
            problems += filtered(each.get("filters", {}), given.get("bucket", ""), given.get("documents", ""), written(template))
    return problems


def filtered(filters: dict, bucket: str, folder: str, places: set[str]) -> list[str]:
    """What filters let through that they should not, or the other way round; `places` are those that the workflow writes."""
    problems = []
    try:
        for slash in ("/", "%2F"):
            def key(*parts: str) -> str:
                return "/".join(parts).replace("/", slash)

            for event in ("s3:ObjectCreated:Put", "ObjectCreated:CompleteMultipartUpload"):
                if not passes(filters, notice(bucket, key(folder, "deep", "a.pdf"), event)):
                    problems.append(f"filter: {event} of {key(folder, 'deep', 'a.pdf')} in {bucket} starts nothing")
            for place in sorted(places):
                for each in (key(place), key(place, "a"), key(place, folder, "a")):
                    if passes(filters, notice(bucket, each)):
                        problems.append(f"loop: the workflow writes {each}, and that starts it again")
            for each in (key(f"{folder}-old", "a.pdf"), key("other", folder, "a.pdf")):
                if passes(filters, notice(bucket, each)):
                    problems.append(f"filter: {each} is not below {folder}, and starts it")
            for each in (f"{bucket}-other", f"other-{bucket}"):
                if passes(filters, notice(each, key(folder, "a.pdf"))):
                    problems.append(f"filter: an object in the bucket {each} starts it")
            if passes(filters, notice(bucket, key(folder, "a.pdf"), "s3:ObjectRemoved:Delete")):
                problems.append("filter: an object that was removed starts it")
    except ValueError as error:
        problems.append(f"filter: {error}")
    return problems


def together(documents: list[dict], workflow: list[dict]) -> list[str]:
    """What is wrong between the documents of a source; `workflow` are those of a source that has no workflow itself."""
    if not any(each["kind"] == "WorkflowTemplate" for each in documents):
        around = [*workflow, *documents]
    else:
        around = documents
    problems = rules.needless_tokens(documents) + rules.overwritten(documents, around)
    for document in documents:
        problems += rules.draining(document, rules.of_kind(documents, "Service"))
        if document["kind"] == "Sensor":
            problems += started(document, around)
        if document["kind"] == "EventSource":
            for name, each in document["spec"].get("webhook", {}).items():
                if "authSecret" not in each:
                    problems.append(f"token: anybody may post to {name} of {document['metadata']['name']}")
    return problems


def admitted(document: dict) -> list[str]:
    """Why the Pod Security Standard `restricted` refuses a pod that a cluster makes of a document."""
    try:
        return [f"admission: {each}" for pod in made.made_of(document) for each in made.refused(pod)]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        return [f"admission: the pods cannot be told: {error}"]


def problems(document: dict) -> list[str]:
    """All that is wrong with a document."""
    unfit, refused = invalid(document), admitted(document)
    found = unfit + against_rules(document) + refused
    # The other rules read what the schema promises.
    if unfit or any("cannot be told" in each for each in refused):
        return found
    return found + rules.wrong_secrets(document) + rules.ray_rules(document) + rules.defaulted(document) + rules.unchecked_parameters(document)


def namespaced(source: str, everything: dict[str, list[dict]]) -> list[str]:
    """What is wrong with a source as a whole, in the namespace where it is applied."""
    documents = everything[source]
    later = [each for name in LATER for each in everything[name]]
    found = rules.unused_policies(documents, [*documents, *later])
    if any(each["kind"] == "Namespace" for each in documents):
        found += rules.connections(documents, later) + rules.same_ray_names([*documents, *later])
    if "overlays" in source or source.startswith("chart"):
        found += rules.paid(documents)
    if source.startswith("argocd"):
        projects = [each for name, there in everything.items() if name.startswith("argocd") for each in there if each["kind"] == "AppProject"]
        found += rules.applications(documents, next(iter(projects), None))
    return found


def images(value) -> list[str]:
    """All images that a document names."""
    if isinstance(value, dict):
        own = [value["image"]] if isinstance(value.get("image"), str) else []
        return own + [image for each in value.values() for image in images(each)]
    return [image for each in value for image in images(each)] if isinstance(value, list) else []


def fixed_images(folder: Path = HERE / "kubernetes") -> list[str]:
    """Images of overlays that another registry in `images/kustomization.yaml` would not change."""
    problems = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "kubernetes"
        shutil.copytree(folder, copy)
        path = copy / "images" / "kustomization.yaml"
        path.write_text(re.sub(r"newTag: [^}]+", "newName: elsewhere/image, newTag: other", path.read_text()))
        for overlay in sorted((copy / "overlays").iterdir()):
            kept = {each for each in images(kustomized(overlay)) if each != "elsewhere/image:other"}
            problems += [f"registry: overlays/{overlay.name} takes {each} whatever images/kustomization.yaml says" for each in sorted(kept)]
    return problems


def files() -> list[str]:
    """What is wrong between the manifests and the files around them."""
    dockerignored = {path.name: path.read_text() for path in (HERE / "containers").glob("*.dockerignore")}
    missing = [f"ignored: {path.name} has no dockerignore" for path in (HERE / "containers").glob("*.Dockerfile") if f"{path.name}.dockerignore" not in dockerignored]
    releases = [chart("--set", "run.enabled=true,serviceMonitor.enabled=true", release=release) for release in ("one", "other")]
    return [
        *missing,
        *rules.exposed((HERE.parent / ".gitignore").read_text(), dockerignored),
        *rules.documented(DOCUMENTATION.read_text()),
        *rules.collisions(*releases),
        *fixed_images(),
    ]


def composed(compose: dict) -> list[str]:
    """What the schema of the Compose specification refuses, and a Ray that anybody may use."""
    schema = json.loads((HERE / "schemas" / "compose-spec.json").read_text())
    found = jsonschema.Draft201909Validator(schema).iter_errors(compose)
    problems = [f"schema: {'.'.join(map(str, each.absolute_path))}: {each.message[:200]}" for each in found]
    for name, service in compose["services"].items():
        environment = service.get("environment", {})
        if service.get("command", [])[:2] == ["ray", "start"] and (environment.get("RAY_AUTH_MODE") != "token" or not environment.get("RAY_AUTH_TOKEN")):
            problems.append(f"ray: whoever reaches port 8265 of {name} can run code: RAY_AUTH_MODE is not `token`")
    return problems


def main() -> int:
    """Checks everything, and prints what there was."""
    count, found = Counter(), []
    everything = rendered()
    for source, found_there in everything.items():
        if not found_there:
            found.append(f"{source}: nothing was rendered")
        for document in found_there:
            count[document["kind"]] += 1
            name = f"{source}: {document['kind']} {document.get('metadata', {}).get('name')}"
            found += [f"{name}: {each}" for each in problems(document)]
        found += [f"{source}: {each}" for each in [*together(found_there, everything[WORKFLOW]), *namespaced(source, everything)]]
    found += files()
    for path in sorted((HERE / "containers").glob("*.Dockerfile")):
        done = subprocess.run([TOOLS / "hadolint", path], capture_output=True, text=True, check=False)
        count["Dockerfile"] += 1
        found += [f"{path.name}: {line}" for line in done.stdout.splitlines()]
    found += [f"compose.yaml: {each}" for each in composed(yaml.safe_load((HERE / "containers" / "compose.yaml").read_text()))]
    print("\n".join(found), end="\n" if found else "")
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(count.items()))
    manifests = sum(count.values()) - count["Dockerfile"]
    print(f"{manifests} manifests from {len(everything)} sources, {count['Dockerfile']} Dockerfiles, a compose file: {len(found)} problems ({kinds})")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
