"""Who may connect to whom, as network policies decide it.

A connection is allowed if the source may send it and the target may receive it. A pod that no policy selects for a
direction may do anything in that direction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NAMESPACE = "reverie"


@dataclass
class End:
    """One end of a connection: a pod, or an address outside the cluster (`namespace` is None)."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    namespace: str | None = NAMESPACE
    ports: dict[str, int] = field(default_factory=dict)


def matches(selector: dict, labels: dict[str, str]) -> bool:
    """Whether a label selector selects these labels."""
    if set(selector) - {"matchLabels", "matchExpressions"}:
        raise ValueError(f"a selector that is not understood here: {selector}")
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for each in selector.get("matchExpressions", []):
        value, listed = labels.get(each["key"]), each.get("values", [])
        holds = {"In": value in listed, "NotIn": value not in listed, "Exists": value is not None, "DoesNotExist": value is None}
        if not holds[each["operator"]]:
            return False
    return True


def is_peer(peer: dict, end: End) -> bool:
    """Whether an end is one of a rule's peers."""
    if set(peer) - {"podSelector", "namespaceSelector"}:
        raise ValueError(f"a peer that is not understood here: {peer}")
    if end.namespace is None:
        return False
    if "namespaceSelector" in peer:
        if not matches(peer["namespaceSelector"], {"kubernetes.io/metadata.name": end.namespace}):
            return False
    elif end.namespace != NAMESPACE:
        return False
    return matches(peer.get("podSelector", {}), end.labels)


def is_port(rule: dict, target: End, port: int) -> bool:
    """Whether a rule is for a TCP port of the target."""
    if "ports" not in rule:
        return True
    for each in rule["ports"]:
        if each.get("protocol", "TCP") != "TCP":
            continue
        wanted = each.get("port")
        number = target.ports.get(wanted) if isinstance(wanted, str) else wanted
        if number is None and wanted is not None:
            continue
        if number is None or number <= port <= each.get("endPort", number):
            return True
    return False


def one_way(policies: list[dict], direction: str, here: End, other: End, target: End, port: int) -> bool:
    """Whether the policies of `here` let a connection through in one direction (`Ingress` or `Egress`)."""
    if here.namespace != NAMESPACE:
        return True
    peers = "from" if direction == "Ingress" else "to"
    own = [each["spec"] for each in policies if direction in each["spec"]["policyTypes"] and matches(each["spec"]["podSelector"], here.labels)]
    if not own:
        return True
    return any(
        is_port(rule, target, port) and (peers not in rule or any(is_peer(peer, other) for peer in rule[peers]))
        for spec in own
        for rule in spec.get(direction.lower(), [])
    )


def allowed(policies: list[dict], source: End, target: End, port: int) -> bool:
    """Whether a TCP connection gets from the source to a port of the target."""
    if source is target:
        return True
    return one_way(policies, "Egress", source, target, target, port) and one_way(policies, "Ingress", target, source, target, port)
