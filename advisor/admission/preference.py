"""Preference: nodes in order as terms of preferred node affinity, and the JSON Patch that adds them to a pod. Kernel.

Terms name nodes by `matchFields`: `metadata.name` is the node's name everywhere, label kubernetes.io/hostname need not
be. A term of required fields holds one value each, so a term prefers one node; requirements of one term are ANDed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log

import msgspec

from ingest.schema.workload_identity import ADVICE

Json = dict[str, object]
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WOULD_ADVISE = "cohabit.io/would-advise"
"""Annotation of mode `annotate`."""
FEWEST_PREFERRED, MOST_PREFERRED, MOST_AVOIDED = 4, 12, 4
"""Named nodes."""
MISSED_SHARE = 0.05
"""Of pods, for which kube-scheduler's sample of the nodes may have none of the preferred ones."""
ALL_SAMPLED, FEWEST_PERCENT, PERCENT, NODES_PER_PERCENT = 100, 5, 50, 125
"""kube-scheduler's: up to so many nodes all are scored; the share falls from PERCENT to FEWEST_PERCENT."""
MAX_BYTES = 1850
"""Of terms; with the annotation and the parents a pod grows by less than 2,000 bytes, which are stored with it."""
MAX_ANNOTATION_BYTES = 262_144
"""Keys and values of a pod's annotations together; kube-apiserver rejects a pod with more."""
HIGHEST_WEIGHT = 100
"""Of the Kubernetes API."""
STEP = 3
"""Weight that each place in the order costs, of 100: nodes of equal points are not drawn by chance."""
AVOIDED_SHARE, OWN_SHARE = 5, 4
"""One part in so many of the weight is of the term that avoids nodes; of the pod's own terms ours are one part."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Nodes that a pod is advised by.

    Args:
        best: names and points, 1 to 10, of preferred nodes; the best first.
        worst: names of nodes without points.
    """

    best: tuple[tuple[str, int], ...]
    worst: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As annotation `cohabit.io/would-advise` has it: name=weight, and !name where a node is avoided."""
        weights = _weights(self, HIGHEST_WEIGHT - _avoiding(self, HIGHEST_WEIGHT))
        return " ".join([*(f"{name}={weight}" for name, weight in weights), *(f"!{name}" for name in self.worst)])


def preferred_count(nodes: int) -> int:
    """How many nodes are worth a term, which kube-scheduler matches with every node that it scores.

    Args:
        nodes: of the cluster.

    Returns:
        FEWEST_PREFERRED to MOST_PREFERRED: so many that a random sample has one of them for all but MISSED_SHARE.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0070; numFeasibleNodesToFind of k8s.io/kubernetes/pkg/scheduler/schedule_one.go.
    """
    percent = max(PERCENT - nodes // NODES_PER_PERCENT, FEWEST_PERCENT)
    sampled = max(nodes * percent // 100, ALL_SAMPLED)
    if sampled >= nodes:
        return FEWEST_PREFERRED
    enough = ceil(log(MISSED_SHARE) / log(1 - sampled / nodes))
    return min(max(enough, FEWEST_PREFERRED), MOST_PREFERRED)


def preferred_terms(listed: Listed, own_weight: int = 0) -> tuple[Json, ...]:
    """Preferred node affinity that leads to listed nodes.

    Args:
        listed: nodes in order.
        own_weight: greatest weight of the pod's own preferred terms, 0 without any.

    Returns:
        A term for each preferred node, and one that holds for all but the avoided ones. Weights of one node add up to
        at most 100, and to a quarter of `own_weight` where the pod has own terms; without terms where that is below 1.
        Nodes at the end of either list are left out beyond MAX_BYTES.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0070; Kubernetes API reference, PreferredSchedulingTerm.
    """
    budget = own_weight // OWN_SHARE if own_weight else HIGHEST_WEIGHT
    best, worst = list(listed.best), list(listed.worst)
    while terms := _terms(Listed(tuple(best), tuple(worst)), budget):
        if len(msgspec.json.encode(terms)) <= MAX_BYTES:
            break
        (worst or best).pop()
    return terms


def with_terms(pod: Mapping[str, object], terms: Sequence[Json]) -> list[Json]:
    """Steps of a JSON Patch that add terms after those that the pod has.

    Args:
        pod: the pod's JSON, with `spec` an object, and `affinity` and `nodeAffinity` objects or missing.
        terms: at least one.

    Returns:
        One step where a parent is missing, else one for each term.

    Raises:
        Nothing.

    Source: RFC 6902.
    """
    path, at, missing = "/spec", _object(pod.get("spec")), [*terms]
    for name, rest in (("affinity", ("nodeAffinity", PREFERRED)), ("nodeAffinity", (PREFERRED,))):
        path = f"{path}/{name}"
        if at.get(name) is None:
            value: object = missing
            for inner in reversed(rest):
                value = {inner: value}
            return [_add(path, value)]
        at = _object(at[name])
    if not at.get(PREFERRED):
        return [_add(f"{path}/{PREFERRED}", missing)]
    return [_add(f"{path}/{PREFERRED}/-", term) for term in terms]


def with_annotation(pod: Mapping[str, object], key: str, value: str) -> Json:
    """The step of a JSON Patch that annotates a pod; its metadata is an object."""
    if _object(pod.get("metadata")).get("annotations") is None:
        return _add("/metadata/annotations", {key: value})
    return _add(f"/metadata/annotations/{key.replace('~', '~0').replace('/', '~1')}", value)


def fits_annotations(pod: Mapping[str, object], key: str, value: str) -> bool:
    """Whether the pod may have one more annotation by its size; metadata and annotations are as the API has them.

    Source: Kubernetes' ValidateAnnotationsSize (k8s.io/apimachinery/pkg/api/validation).
    """
    annotations = {**_object(_object(pod.get("metadata")).get("annotations")), key: value}
    return sum(len(f"{name}{text}".encode()) for name, text in annotations.items()) <= MAX_ANNOTATION_BYTES


def advice_patch(pod: Mapping[str, object], terms: Sequence[Json], advice: str) -> list[Json]:
    """The JSON Patch of advice: terms, and the id by which the pod is assumed."""
    return [*with_terms(pod, terms), with_annotation(pod, ADVICE, advice)]


def _terms(listed: Listed, budget: int) -> tuple[Json, ...]:
    avoiding = _avoiding(listed, budget)
    prefer = [
        {"weight": weight, "preference": {"matchFields": [_named(name, "In")]}}
        for name, weight in (_weights(listed, budget - avoiding) if budget else ())
    ]
    others = {"matchFields": [_named(name, "NotIn") for name in listed.worst]}
    return (*prefer, *([{"weight": avoiding, "preference": others}] if avoiding else ()))


def _avoiding(listed: Listed, budget: int) -> int:
    """Weight of the term that holds for all but the avoided nodes; 0 for no term."""
    return budget // AVOIDED_SHARE if listed.worst else 0


def _weights(listed: Listed, budget: int) -> list[tuple[str, int]]:
    """Weight of each preferred node, 1 to the budget, in the order of the list."""
    of_100 = ((name, 10 * points - STEP * place) for place, (name, points) in enumerate(listed.best))
    return [(name, max(1, budget * weight // HIGHEST_WEIGHT)) for name, weight in of_100]


def _named(name: str, operator: str) -> Json:
    return {"key": "metadata.name", "operator": operator, "values": [name]}


def _add(path: str, value: object) -> Json:
    return {"op": "add", "path": path, "value": value}


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
