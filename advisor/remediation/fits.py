"""Fits: nodes that the scheduler's filters would accept a pod on, by the node itself. Kernel.

Stricter than kube-scheduler where a plan would not be carried out: a node that is cordoned or about to go is no target,
whatever the pod tolerates.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.remediation.pod_rules import NodeRules, NodeTerm, PodRules, Requirement, Selector, Taint, Toleration

Codes = NDArray[np.uint8] | NDArray[np.uint16]
Flags = NDArray[np.bool_]
WHY = (
    "fit",
    "hold it now",
    "are not known",
    "are about to go",
    "are cordoned",
    "are tainted",
    "do not match its node selector or affinity",
    "may not reach its volumes",
    "hold pods that affinity or spread keeps it from",
    "lack CPU",
    "lack memory",
    "lack GPUs",
    "have no pod left",
    "differ in what it needs, which is not known",
)
"""Why nodes do or do not accept a pod, by code: "3 nodes lack CPU"."""
FITS, HOME, UNKNOWN, LEAVING, CORDONED, TAINTED, UNMATCHED, UNREACHED, APART, LACKS = range(10)
"""Codes; from LACKS on resources by column of Room, then NEEDS_UNKNOWN."""
NEEDS_UNKNOWN = len(WHY) - 1
KEEPS_AWAY = ("NoSchedule", "NoExecute")
CORDON = "node.kubernetes.io/unschedulable"
GOING = (
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "ToBeDeletedByClusterAutoscaler",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
)
"""Taints of nodes that are being removed or have failed."""
MAY_GO = "DeletionCandidateOfClusterAutoscaler"
"""Taint of a node that may be removed: a target only where no other node fits."""


def node_codes(pod: PodRules, nodes: Sequence[NodeRules], home: int) -> Codes:
    """Why each node does or does not accept a pod, by taints, labels and zones.

    Args:
        pod: its rules.
        nodes: (n,) the cluster's.
        home: row of its own node.

    Returns:
        (n,) codes of WHY.

    Raises:
        Nothing.

    Source: Kubernetes documentation, "Taints and Tolerations", "Assigning Pods to Nodes", "Persistent Volumes: Node
        Affinity"; Karpenter documentation, "Disruption"; Cluster Autoscaler FAQ.
    """
    found = np.fromiter((_code(pod, node, nodes[home]) for node in nodes), np.uint8, len(nodes))
    found[home] = HOME
    return found


def may_go(nodes: Sequence[NodeRules]) -> Flags:
    """(n,) nodes that the autoscaler may remove soon."""
    return np.fromiter((any(taint.key == MAY_GO for taint in node.taints) for node in nodes), np.bool_, len(nodes))


def accepts(pod: PodRules, node: NodeRules) -> bool:
    """Whether a node accepts a pod that has no node yet, by taints and labels; zones of its volumes do not count.

    Nor does a node that the autoscaler may remove soon.
    """
    return _code(pod, node, node) == FITS and not any(taint.key == MAY_GO for taint in node.taints)


def tolerates(pod: PodRules, taints: Sequence[Taint]) -> bool:
    """Whether a pod tolerates all taints that keep pods away."""
    return all(any(_accepts(one, taint) for one in pod.tolerations) for taint in taints if taint.effect in KEEPS_AWAY)


def matches_node(pod: PodRules, node: NodeRules) -> bool:
    """Whether a node has the labels that its selector and required affinity name."""
    if not holds(pod.selector, node.labels):
        return False
    return pod.affinity is None or any(_term_holds(term, node) for term in pod.affinity)


def holds(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether labels meet all requirements; one that is absent meets NotIn and DoesNotExist."""
    return all(_holds(one, labels.get(one.key)) for one in selector)


def _code(pod: PodRules, node: NodeRules, home: NodeRules) -> int:
    keys = {taint.key for taint in node.taints}
    if keys.intersection(GOING):
        return LEAVING
    if CORDON in keys:
        return CORDONED
    if not tolerates(pod, node.taints):
        return TAINTED
    if not pod.readable or not matches_node(pod, node):
        return UNMATCHED
    return UNREACHED if pod.claims and node.zone != home.zone else FITS


def _accepts(one: Toleration, taint: Taint) -> bool:
    key = one.key is None or one.key == taint.key
    return key and one.value in {None, taint.value} and one.effect in {None, taint.effect}


def _term_holds(term: NodeTerm, node: NodeRules) -> bool:
    """Whether a term holds; an empty one matches no node."""
    named = {"metadata.name": node.name}
    return bool(term.labels or term.names) and holds(term.labels, node.labels) and holds(term.names, named)


def _holds(of: Requirement, value: str | None) -> bool:
    if of.operator == "In":
        return value is not None and value in of.values
    if of.operator == "NotIn":
        return value is None or value not in of.values
    if of.operator in {"Exists", "DoesNotExist"}:
        return (value is not None) is (of.operator == "Exists")
    return value is not None and len(of.values) == 1 and _compares(of.operator, value, of.values[0])


def _compares(operator: str, value: str, limit: str) -> bool:
    """Gt or Lt of whole numbers; text that is none compares false."""
    try:
        return int(value) > int(limit) if operator == "Gt" else int(value) < int(limit)
    except ValueError:
        return False
