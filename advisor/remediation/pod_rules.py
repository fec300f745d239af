"""Pod rules: what a pod asks of its node and of the pods there, read from rows of placements and nodes. Facts.

Names of fields and operators are those of the Kubernetes API, v1: PodSpec, Affinity, TopologySpreadConstraint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
HOSTNAME = "kubernetes.io/hostname"


class Taint(NamedTuple):
    """What keeps pods away from a node."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A taint that a pod accepts; None: any key, any value, any effect."""

    key: str | None
    value: str | None
    effect: str | None


class Requirement(NamedTuple):
    """One comparison of a label."""

    key: str
    operator: str
    values: tuple[str, ...]


Selector = tuple[Requirement, ...]
"""All must hold; empty: everything matches."""


class NodeTerm(NamedTuple):
    """One alternative of required node affinity."""

    labels: Selector
    names: Selector


class PodTerm(NamedTuple):
    """Pods that one must, or must not, share a topology domain with.

    `selector` None matches no pod. `every` says whether pods of all namespaces count: None where labels of namespaces,
    which are not known, decide.
    """

    selector: Selector | None
    topology: str
    namespaces: frozenset[str | None]
    every: bool | None


class Spread(NamedTuple):
    """How unevenly matching pods may lie over topology domains."""

    selector: Selector | None
    topology: str
    max_skew: int
    min_domains: int
    honours_affinity: bool
    honours_taints: bool


@dataclass(frozen=True, slots=True)
class PodRules:
    """What a pod asks of its node, and what others may select it by.

    Args:
        namespace: None where unknown.
        labels: None where unknown.
        tolerations: taints that it accepts.
        selector: labels of its node selector.
        affinity: alternatives of required node affinity; None without any.
        together: required pod affinity.
        apart: required pod anti-affinity.
        spread: constraints that must hold (DoNotSchedule).
        claims: whether it mounts persistent volume claims.
        readable: whether its rules could be read; it fits no node where they could not.
    """

    namespace: str | None = None
    labels: Mapping[str, str] | None = None
    tolerations: tuple[Toleration, ...] = ()
    selector: Selector = ()
    affinity: tuple[NodeTerm, ...] | None = None
    together: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    claims: bool = False
    readable: bool = True


@dataclass(frozen=True, slots=True)
class NodeRules:
    """What a node says of itself to the scheduler.

    Args:
        name: of the node.
        labels: none where unknown.
        taints: none where unknown.
        zone: None where it declares none.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    zone: str | None = None


class _Api(msgspec.Struct, rename="camel"):
    """An object of the Kubernetes API, read leniently: other fields are ignored."""


class _Expression(_Api):
    key: str
    operator: str
    values: list[str] | None = None


class _Labels(_Api):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class _NodeTerm(_Api):
    match_expressions: list[_Expression] | None = None
    match_fields: list[_Expression] | None = None


class _NodeTerms(_Api):
    node_selector_terms: list[_NodeTerm] | None = None


class _NodeAffinity(_Api):
    required_during_scheduling_ignored_during_execution: _NodeTerms | None = None


class _PodTerm(_Api):
    topology_key: str = ""
    label_selector: _Labels | None = None
    namespaces: list[str] | None = None
    namespace_selector: _Labels | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class _PodAffinity(_Api):
    required_during_scheduling_ignored_during_execution: list[_PodTerm] | None = None


class _Spread(_Api):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: _Labels | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class _Rules(_Api):
    node_selector: dict[str, str] | None = None
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None
    topology_spread_constraints: list[_Spread] | None = None


class _UnknownOperatorError(ValueError):
    """An operator that this version does not know."""


def pod_rules(row: Mapping[str, object]) -> PodRules:
    """Rules of a pod, from its row of placements; unreadable ones are marked, since they may forbid any node.

    Source: Kubernetes documentation, "Assigning Pods to Nodes" and "Pod Topology Spread Constraints".
    """
    namespace, labels = row.get("namespace"), row.get("labels")
    known = None if labels is None else _text_map(labels)
    plain = PodRules(
        namespace=None if namespace is None else str(namespace),
        labels=known,
        tolerations=tuple(toleration(text) for text in _texts(row.get("tolerations"))),
        claims=bool(row.get("volume_claims")),
    )
    try:
        return _with_rules(plain, msgspec.json.decode(str(row.get("affinity") or "{}"), type=_Rules))
    except (msgspec.DecodeError, _UnknownOperatorError, RecursionError):
        return replace(plain, readable=False)


def node_rules(name: str, row: Mapping[str, object]) -> NodeRules:
    """Labels, taints and zone of a node, from its row of nodes; without labels its name and zone stand for them."""
    zone, described = row.get("zone"), row.get("labels")
    known = {HOSTNAME: name} | ({} if zone is None else {ZONES[0]: str(zone)})
    labels = known if described is None else _text_map(described)
    labelled = next((labels[key] for key in ZONES if key in labels), None)
    taints = tuple(taint(text) for text in _texts(row.get("taints")))
    return NodeRules(name, labels, taints, labelled if zone is None else str(zone))


def taint(text: str) -> Taint:
    """A taint, from key=value:effect."""
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    return Taint(key, value, effect)


def toleration(text: str) -> Toleration:
    """A toleration, from the form of `ingest.kube.pods.toleration_text`."""
    head, _, effect = text.rpartition(":")
    key, equal, value = head.partition("=")
    return Toleration(None if key == "*" else key, value if equal else None, None if effect == "*" else effect)


def _with_rules(pod: PodRules, rules: _Rules) -> PodRules:
    required = rules.node_affinity and rules.node_affinity.required_during_scheduling_ignored_during_execution
    terms = required.node_selector_terms or [] if required else []
    return replace(
        pod,
        selector=tuple(Requirement(key, "In", (value,)) for key, value in (rules.node_selector or {}).items()),
        affinity=tuple(NodeTerm(_all(t.match_expressions), _all(t.match_fields)) for t in terms) if required else None,
        together=_pod_terms(rules.pod_affinity, pod),
        apart=_pod_terms(rules.pod_anti_affinity, pod),
        spread=tuple(
            _spread(one, pod)
            for one in rules.topology_spread_constraints or []
            if one.when_unsatisfiable == "DoNotSchedule"
        ),
    )


def _all(found: Sequence[_Expression] | None) -> Selector:
    for one in found or ():
        if one.operator not in OPERATORS:
            raise _UnknownOperatorError(one.operator)
    return tuple(Requirement(one.key, one.operator, tuple(one.values or ())) for one in found or ())


def _selector(of: _Labels | None) -> Selector | None:
    if of is None:
        return None
    exact = tuple(Requirement(key, "In", (value,)) for key, value in (of.match_labels or {}).items())
    return exact + _all(of.match_expressions)


def _with_own(selector: Selector | None, operator: str, keys: Sequence[str] | None, pod: PodRules) -> Selector | None:
    """A selector with the pod's own values of some labels, as the API server completes it."""
    if selector is None or pod.labels is None:
        return selector
    own = tuple(Requirement(key, operator, (pod.labels[key],)) for key in keys or () if key in pod.labels)
    return selector + own


def _pod_terms(of: _PodAffinity | None, pod: PodRules) -> tuple[PodTerm, ...]:
    terms = (of.required_during_scheduling_ignored_during_execution if of else None) or []
    return tuple(_pod_term(one, pod) for one in terms)


def _pod_term(of: _PodTerm, pod: PodRules) -> PodTerm:
    selector = _with_own(_selector(of.label_selector), "In", of.match_label_keys, pod)
    selector = _with_own(selector, "NotIn", of.mismatch_label_keys, pod)
    chosen = _selector(of.namespace_selector)
    own = frozenset({pod.namespace}) if chosen is None and not of.namespaces else frozenset[str | None]()
    every = False if chosen is None else (True if not chosen else None)
    return PodTerm(selector, of.topology_key, own | frozenset(of.namespaces or ()), every)


def _spread(of: _Spread, pod: PodRules) -> Spread:
    return Spread(
        _with_own(_selector(of.label_selector), "In", of.match_label_keys, pod),
        of.topology_key,
        of.max_skew,
        of.min_domains or 1,
        (of.node_affinity_policy or "Honor") == "Honor",
        (of.node_taints_policy or "Ignore") == "Honor",
    )


def _texts(value: object) -> Sequence[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def _text_map(value: object) -> dict[str, str]:
    return {str(key): str(one) for key, one in dict(value).items()}  # type: ignore[call-overload]  # arrow's pairs
