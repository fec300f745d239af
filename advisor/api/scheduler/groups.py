"""The group that a pod says it belongs to: a gang, a pod group, whatever its scheduler calls it."""

import contextlib

import msgspec

from advisor.api.scheduler.pod_types import Metadata, Object

LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
"""Of the coscheduling plugin, the older name last."""
ANNOTATIONS = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "gang.scheduling.koordinator.sh/name",
)
"""Of Volcano and Koordinator."""


def group_of(pod: Object) -> str:
    """Namespace and name of the pod's group; empty for none.

    Source: Kubernetes' PodSpec.schedulingGroup, else labels of coscheduling, annotations of Volcano and Koordinator.
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
    told = [*(labels.get(key) for key in LABELS), *(annotations.get(key) for key in ANNOTATIONS)]
    return next((name for name in told if name), "")
