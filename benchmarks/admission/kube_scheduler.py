"""kube-scheduler's scores of one pod on feasible nodes, and the node that it takes. Kernel.

Each plugin gives 0 to 100, times its weight; the node with the highest total is taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from advisor.admission.preference import PREFERRED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
HIGHEST = 100
"""MaxNodeScore."""
AFFINITY_WEIGHT, RESOURCES_WEIGHT, BALANCED_WEIGHT = 2, 1, 1
"""NodeAffinity, NodeResourcesFit and NodeResourcesBalancedAllocation in the default configuration."""
EXTENDER_SCALE = 10
"""MaxNodeScore over MaxExtenderPriority."""
FIELD = "metadata.name"


class Requirement(msgspec.Struct):
    """NodeSelectorRequirement."""

    key: str
    operator: str
    values: list[str] = []


class Preference(msgspec.Struct):
    """NodeSelectorTerm: all of it must hold; of an empty one nothing does."""

    matchExpressions: list[Requirement] = []  # noqa: N815
    matchFields: list[Requirement] = []  # noqa: N815


class Term(msgspec.Struct):
    """PreferredSchedulingTerm."""

    weight: int
    preference: Preference


@dataclass(frozen=True, slots=True)
class Node:
    """Name and labels of a node."""

    name: str
    labels: Mapping[str, str]


def preferred_terms(pod: Mapping[str, object]) -> list[Term]:
    """Preferred node affinity of a pod's JSON; none where it has none."""
    at: object = pod
    for key in ("spec", "affinity", "nodeAffinity", PREFERRED):
        at = at.get(key) if isinstance(at, Mapping) else None
    return msgspec.convert(at or [], list[Term])


def affinity_scores(terms: Sequence[Term], nodes: Sequence[Node]) -> Ints:
    """NodeAffinity: weights of the terms that hold, scaled so that the best node has 100.

    Args:
        terms: of the pod.
        nodes: (n,) feasible ones.

    Returns:
        (n,) 0 to 100; all 0 where no term holds anywhere.

    Raises:
        ValueError: an operator is none of those that are known here.

    Source: Kubernetes documentation, "Assigning Pods to Nodes: node affinity weight", and DefaultNormalizeScore.
    """
    sums = np.array([sum(one.weight for one in terms if holds(one.preference, node)) for node in nodes], np.int64)
    most = int(sums.max(initial=0))
    return sums * HIGHEST // most if most else sums


def holds(preference: Preference, node: Node) -> bool:
    """Whether all requirements of a term hold for a node."""
    fields = (_met(one, {FIELD: node.name}) for one in preference.matchFields)
    labels = (_met(one, node.labels) for one in preference.matchExpressions)
    some = bool(preference.matchFields or preference.matchExpressions)
    return some and all(fields) and all(labels)


def _met(of: Requirement, known: Mapping[str, str]) -> bool:
    found = known.get(of.key)
    match of.operator:
        case "In":
            return found in of.values
        case "NotIn":
            return found not in of.values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
    raise ValueError(f"operator {of.operator} is not modelled")


def resource_scores(requested: Floats, allocatable: Floats) -> Ints:
    """LeastAllocated of NodeResourcesFit and NodeResourcesBalancedAllocation, each times its weight.

    Args:
        requested: (n, 2) CPU and memory requested on each node, with the pod.
        allocatable: (n, 2) the same of what the node has, > 0.

    Returns:
        (n,) 0 to 200.

    Raises:
        Nothing.

    Source: Kubernetes documentation, "Scheduler configuration: NodeResourcesFit, NodeResourcesBalancedAllocation"; of
        two resources the standard deviation is half of their difference.
    """
    used = np.minimum(requested / allocatable, 1.0)
    least = np.floor(np.floor((1.0 - used) * HIGHEST).mean(axis=1))
    balanced = np.floor((1.0 - np.abs(used[:, 0] - used[:, 1]) / 2.0) * HIGHEST)
    return np.asarray(RESOURCES_WEIGHT * least + BALANCED_WEIGHT * balanced, np.int64)


def taken(totals: Ints, rng: np.random.Generator) -> int:
    """Place of the node that a pod is bound to: drawn among the highest totals."""
    return int(rng.choice(np.flatnonzero(totals == totals.max())))
