"""Pods as schedulers send them: the part of Kubernetes' objects that is read, who a pod is, and what is asked."""

import contextlib
from collections.abc import Sequence

import msgspec

from advisor.cluster.pending_pod import PendingPod
from advisor.placement.offer import Offer
from ingest.schema.workload_identity import ADVICE, Owner, PodFacts, identify, is_advice, template_hash


class OwnerReference(msgspec.Struct):
    """The part of a pod's owner reference that is read."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None
    apiVersion: str = ""  # noqa: N815


class Metadata(msgspec.Struct):
    """The part of an object's metadata that is read; Go writes nil maps and slices as null."""

    name: str = ""
    uid: str = ""
    namespace: str = "default"
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[OwnerReference] | None = None  # noqa: N815


class Object(msgspec.Struct):
    """A pod or node, of which only the metadata is read, and of a pod's spec its group."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))


class NodeList(msgspec.Struct):
    """Whole nodes, as sent with nodeCacheCapable: false."""

    items: list[Object] | None = None


class ExtenderArgs(msgspec.Struct):
    """Request of the extender's filter and prioritize."""

    Pod: Object | None = None
    Nodes: NodeList | None = None
    NodeNames: list[str] | None = None


def extender_offer(args: ExtenderArgs) -> Offer:
    """What a request of the extender asks, in either mode of the protocol: names of nodes, or whole nodes."""
    pod, names = args.Pod or Object(), args.NodeNames
    if names is None:
        names = [node.metadata.name for node in (args.Nodes.items if args.Nodes else None) or []]
    return offer_to(pod, pod.metadata.uid, names)


def offer_to(pod: Object, uid: str, names: Sequence[str]) -> Offer:
    """A pod, with the uid that its scheduler knows it by, and the nodes where it may go."""
    meta, group = pod.metadata, group_of(pod)
    owners = [Owner(o.kind, o.name, bool(o.controller), o.apiVersion) for o in meta.ownerReferences or []]
    who = identify(PodFacts(meta.name, meta.namespace, meta.labels or {}, owners))
    made_of = template_hash(meta.labels or {})
    pending, advice = PendingPod(who.app, who.team, who.best_effort), (meta.annotations or {}).get(ADVICE, "")
    return Offer(pending, uid, names, group, meta.namespace, made_of, advice if advice and is_advice(advice) else "")


LABELS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "kueue.x-k8s.io/pod-group-name",
    "jobset.sigs.k8s.io/jobset-name",
)
"""Of the coscheduling plugin, the older name last, then of Kueue and JobSet."""
ANNOTATIONS = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "gang.scheduling.koordinator.sh/name",
)
"""Of Volcano and Koordinator."""


def group_of(pod: Object) -> str:
    """Namespace and name of the pod's group; empty for none.

    Source: Kubernetes' PodSpec.schedulingGroup, else labels of coscheduling, Kueue and JobSet, annotations of
    Volcano and Koordinator.
    """
    name = _stated(pod) or _first(pod.metadata)
    return f"{pod.metadata.namespace}/{name}" if name else ""


class SchedulingGroup(msgspec.Struct):
    """Of a pod that is scheduled with others."""

    podGroupName: str = ""  # noqa: N815


class PodSpec(msgspec.Struct):
    """The part of a pod's spec that is read."""

    schedulingGroup: SchedulingGroup  # noqa: N815


def _stated(pod: Object) -> str:
    text = bytes(pod.spec)
    if b"schedulingGroup" in text:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # of a spec unlike ours
            return _decode(text).schedulingGroup.podGroupName
    return ""


_decode = msgspec.json.Decoder(PodSpec).decode


def _first(meta: Metadata) -> str:
    labels, annotations = meta.labels or {}, meta.annotations or {}
    values = [*(labels.get(key) for key in LABELS), *(annotations.get(key) for key in ANNOTATIONS)]
    return next((name for name in values if name), "")
