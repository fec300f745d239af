"""Legal: a naive reading of kube-scheduler filters over Kubernetes objects, one pod and one node at a time."""

from typing import Any

from ingest.kube.quantity import parse_quantity

Object = dict[str, Any]
GONE = {"karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler", "node.kubernetes.io/unschedulable"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def refusals(pod: Object, target: Object, nodes: list[Object], placed: list[tuple[Object, str]]) -> list[str]:
    """Filters that reject a pod on a node, given the other pods and their nodes."""
    by_name = {node["metadata"]["name"]: node for node in nodes}
    here = [other for other, name in placed if name == target["metadata"]["name"]]
    found = [
        name
        for name, fails in [
            ("taint", not tolerated(pod, target)),
            ("node affinity", not node_matches(pod, target)),
            ("resources", not has_room(pod, target, here)),
            ("pods", len(here) + 1 > int(target["status"]["allocatable"]["pods"])),
            ("anti-affinity", clashes(pod, target, by_name, placed)),
            ("affinity", lonely(pod, target, by_name, placed)),
            ("spread", skewed(pod, target, nodes, placed)),
        ]
        if fails
    ]
    return found + ["leaving" for taint in target["spec"]["taints"] if taint["key"] in GONE]


def tolerated(pod: Object, node: Object) -> bool:
    def accepts(one: Object, taint: Object) -> bool:
        if one.get("effect") and one["effect"] != taint["effect"]:
            return False
        if one.get("operator") == "Exists":
            return not one.get("key") or one["key"] == taint["key"]
        return bool(one["key"] == taint["key"] and one.get("value", "") == taint.get("value", ""))

    hard = [taint for taint in node["spec"]["taints"] if taint["effect"] != "PreferNoSchedule"]
    return all(any(accepts(one, taint) for one in pod["spec"]["tolerations"]) for taint in hard)


def node_matches(pod: Object, node: Object) -> bool:
    labels = node["metadata"]["labels"]
    if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return False
    required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    if required is None:
        return True

    def holds(one: Object) -> bool:
        value = labels.get(one["key"])
        if one["operator"] == "In":
            return value in one["values"]
        assert one["operator"] == "Gt"
        return value is not None and int(value) > int(one["values"][0])

    return any(all(holds(one) for one in term["matchExpressions"]) for term in required["nodeSelectorTerms"])


def has_room(pod: Object, node: Object, here: list[Object]) -> bool:
    def requested(resource: str, of: Object) -> Any:
        return parse_quantity(of["spec"]["containers"][0]["resources"]["requests"].get(resource, "0"))

    def fits(resource: str) -> bool:
        taken = sum(requested(resource, one) for one in here)
        wanted = requested(resource, pod)
        return bool(wanted == 0 or taken + wanted <= parse_quantity(node["status"]["allocatable"][resource]))

    return all(fits(resource) for resource in ("cpu", "memory", "nvidia.com/gpu", "example.com/fpga"))


def terms(pod: Object, kind: str) -> list[Object]:
    found = pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])
    return list(found)


def selects(of: Object, owner: Object, other: Object) -> bool:
    """Whether a term or constraint of a pod matches another one; here all are about their own namespace."""
    same = owner["metadata"]["namespace"] == other["metadata"]["namespace"]
    wanted = of["labelSelector"]["matchLabels"]
    return same and all(other["metadata"]["labels"].get(key) == value for key, value in wanted.items())


def clashes(pod: Object, target: Object, nodes: dict[str, Object], placed: list[tuple[Object, str]]) -> bool:
    def together(key: str, name: str) -> bool:
        return bool(nodes[name]["metadata"]["labels"][key] == target["metadata"]["labels"][key])

    for other, name in placed:
        for term in terms(pod, "podAntiAffinity"):
            if selects(term, pod, other) and together(term["topologyKey"], name):
                return True
        for term in terms(other, "podAntiAffinity"):
            if selects(term, other, pod) and together(term["topologyKey"], name):
                return True
    return False


def lonely(pod: Object, target: Object, nodes: dict[str, Object], placed: list[tuple[Object, str]]) -> bool:
    wanted = terms(pod, "podAffinity")
    fitting = [name for other, name in placed if all(selects(term, pod, other) for term in wanted)]
    if not fitting:
        return not all(selects(term, pod, pod) for term in wanted)
    return not all(
        any(
            nodes[n]["metadata"]["labels"][t["topologyKey"]] == target["metadata"]["labels"][t["topologyKey"]]
            for n in fitting
        )
        for t in wanted
    )


def skewed(pod: Object, target: Object, nodes: list[Object], placed: list[tuple[Object, str]]) -> bool:
    for of in pod["spec"].get("topologySpreadConstraints", []):
        key = of["topologyKey"]
        domains = {n["metadata"]["name"]: n["metadata"]["labels"][key] for n in nodes if node_matches(pod, n)}
        counts = dict.fromkeys(domains.values(), 0)
        for other, name in placed:
            if name in domains and selects(of, pod, other):
                counts[domains[name]] += 1
        own = counts.get(target["metadata"]["labels"][key])
        if own is None or own + selects(of, pod, pod) - min(counts.values()) > of["maxSkew"]:
            return True
    return False
