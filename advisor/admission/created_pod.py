"""Created pod: what a pod says of itself before it has a uid, and why some get no advice. Kernel."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import msgspec
from pydantic import ValidationError

from advisor.admission.node_room import Needs
from advisor.admission.pod_bounds import check_bounds
from advisor.admission.preference import HIGHEST_WEIGHT, PREFERRED
from advisor.cluster.pending_pod import PendingPod
from advisor.errors import BadRequest
from advisor.placement.assumed_pod_sync import LONGEST_GROUP
from advisor.placement.offer import Offer
from advisor.remediation.pod_rules import HOSTNAME, PodRules, Selector, pod_rules
from ingest.kube.api_types import Pod
from ingest.kube.pods import (
    NODE_BOUND,
    SYSTEM_NAMESPACE,
    affinity_json,
    amounts,
    gang_of,
    pod_facts,
    toleration_text,
)
from ingest.schema.container_identity import MIRROR
from ingest.schema.workload_identity import ADVICE, identify, template_hash

UNNAMED = "-"
"""In place of the uid, which a pod does not have yet, and of a name that it will be given."""
OWN = "app.kubernetes.io/name", "cohabit"
"""Label of Cohabit's own pods: they do not wait for each other."""


@dataclass(frozen=True, slots=True)
class CreatedPod:
    """A pod as it is created.

    Args:
        offer: who it is and its group; without uid and nodes.
        needs: what it requests, and the rules by which nodes accept it.
        own_weight: greatest weight of its own preferred node affinity; 0 without any.
        skipped: why it gets no advice; empty where it may.
    """

    offer: Offer
    needs: Needs
    own_weight: int
    skipped: str


class _Term(msgspec.Struct):
    weight: int


class _NodeAffinity(msgspec.Struct, rename={"preferred": PREFERRED}):
    preferred: list[_Term] | None = None


class _Affinity(msgspec.Struct):
    nodeAffinity: _NodeAffinity | None = None  # noqa: N815


def created_pod(said: Mapping[str, object], namespace: str) -> CreatedPod:
    """Read a pod.

    Args:
        said: its JSON.
        namespace: in which it is created; the pod itself need not say.

    Returns:
        What is known of it.

    Raises:
        BadRequest: it is none that Kubernetes would accept, or exceeds what real pods have.

    Source: Kubernetes API reference, Pod v1.
    """
    check_bounds(said)
    try:
        pod = Pod.model_validate({**said, "metadata": _named(said["metadata"], namespace)})
        rules = pod_rules(
            {
                "namespace": namespace,
                "labels": pod.metadata.labels,
                "tolerations": [toleration_text(one) for one in pod.spec.tolerations],
                "affinity": affinity_json(pod.spec),
            }
        )
        own = msgspec.convert(pod.spec.affinity or {}, _Affinity)
    except (ValidationError, msgspec.ValidationError, KeyError, TypeError, RecursionError) as error:
        raise BadRequest(f"cannot read the pod ({type(error).__name__}): no advice for it") from error
    who, meta = identify(pod_facts(pod)), pod.metadata
    group = str(gang_of(meta, pod.spec).get("gang", ""))
    group = group if len(group) <= LONGEST_GROUP else ""
    terms = (own.nodeAffinity and own.nodeAffinity.preferred) or []
    return CreatedPod(
        Offer(PendingPod(who.app, who.team, who.best_effort), "", (), group, namespace, template_hash(meta.labels)),
        _needs(pod, rules),
        min(max((term.weight for term in terms), default=0), HIGHEST_WEIGHT),
        _skipped(pod, rules) or _gated(said["spec"]),
    )


def _named(metadata: object, namespace: str) -> dict[str, object]:
    """Metadata with a name, made of its prefix where it has only that, and something for a uid.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(metadata, dict):
        raise TypeError("metadata is not an object")
    known = cast("dict[str, object]", metadata)
    prefix = known.get("generateName")
    name = known.get("name") or (prefix.rstrip("-") if isinstance(prefix, str) else "") or UNNAMED
    return {**known, "name": name, "uid": UNNAMED, "namespace": namespace}


def _needs(pod: Pod, rules: PodRules) -> Needs:
    found = amounts(pod.spec)
    extended = cast("dict[str, str]", found["extended_requests"])
    cores, memory = (cast("float", found[name]) for name in ("cpu_request_cores", "memory_request_bytes"))
    return Needs(rules, cores, memory, {name: float(amount) for name, amount in extended.items()})


def _skipped(pod: Pod, rules: PodRules) -> str:
    meta, spec = pod.metadata, pod.spec
    if meta.labels.get(ADVICE) == "off":
        return "opted_out"
    if spec.node_name or MIRROR in meta.annotations or any(one.kind in NODE_BOUND for one in meta.owner_references):
        return "node_bound"
    if meta.namespace == SYSTEM_NAMESPACE or meta.labels.get(OWN[0]) == OWN[1]:
        return "system"
    return "one_host" if _on_one_host(rules) else ""


def _gated(spec: object) -> str:
    """A pod that waits for a gate, as Kueue's do, would carry old advice once it is let through."""
    return "gated" if isinstance(spec, dict) and spec.get("schedulingGates") else ""


def _on_one_host(rules: PodRules) -> bool:
    """Whether the node selector or required affinity leaves no choice of nodes."""
    if _hosts(rules.selector):
        return True
    named = [_hosts(term.names) or _hosts(term.labels) for term in rules.affinity or ()]
    return bool(named) and all(named) and len(set(named)) == 1


def _hosts(selector: Selector) -> str:
    """The only host that a selector allows; empty where it allows several."""
    of = (one for one in selector if one.key in {HOSTNAME, "metadata.name"} and one.operator == "In")
    return next((one.values[0] for one in of if len(one.values) == 1), "")
