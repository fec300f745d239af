"""The group that a pod says it belongs to: a gang, a pod group, whatever its scheduler calls it."""

from advisor.api.pods import Metadata, Object

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


def _stated(pod: Object) -> str:
    group = pod.spec.schedulingGroup if pod.spec is not None else None
    return (group.podGroupName or "") if group is not None else ""


def _first(meta: Metadata) -> str:
    labels, annotations = meta.labels or {}, meta.annotations or {}
    told = [*(labels.get(key) for key in LABELS), *(annotations.get(key) for key in ANNOTATIONS)]
    return next((name for name in told if name), "")
