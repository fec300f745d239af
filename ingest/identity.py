"""Identity: which app, team and class a pod belongs to. Kernel, shared by ingest and the extender."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

APP_LABELS = ("cohabit.io/app", "app.kubernetes.io/name", "app")
TEAM_LABELS = ("cohabit.io/team", "team")
QOS_LABELS = ("cohabit.io/qos", "koordinator.sh/qosClass")
HASH_LABELS = ("pod-template-hash", "rollouts-pod-template-hash")
BEST_EFFORT_CLASSES = ("BE", "BESTEFFORT")
_SCHEDULED_JOB = re.compile(r"-\d{8,10}$")


@dataclass(frozen=True, slots=True)
class Owner:
    """One direct owner of a pod."""

    kind: str
    name: str
    controller: bool = True


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What a pod says about itself."""

    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owners: Sequence[Owner] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a pod is."""

    app: str
    team: str
    best_effort: bool


def identify(pod: PodFacts) -> Identity:
    """App, team and class of a pod.

    The app is its label if it carries one (cohabit.io/app, app.kubernetes.io/name, app), else the name of the
    workload that owns it, the controlling one first: a Deployment behind its ReplicaSet, a CronJob behind its Job;
    else the pod's own name, for a static pod without the node's. The team is its label (cohabit.io/team, team), else
    the namespace. BE only if a class label says so.

    Source: Kubernetes naming of ReplicaSets (name-hash, the hash in label pod-template-hash), of scheduled Jobs (name-
    minute) and of static pods (name-node).
    """
    app = _first(pod.labels, APP_LABELS) or _workload(pod)
    qos = _first(pod.labels, QOS_LABELS) or ""
    return Identity(app, _first(pod.labels, TEAM_LABELS) or pod.namespace, qos.upper() in BEST_EFFORT_CLASSES)


def _workload(pod: PodFacts) -> str:
    owner = min(pod.owners, key=lambda owner: not owner.controller, default=None)
    if owner is None:
        return pod.name
    if owner.kind == "Node":
        return pod.name.removesuffix("-" + owner.name)
    if owner.kind == "ReplicaSet":
        return owner.name.removesuffix("-" + (_first(pod.labels, HASH_LABELS) or ""))
    return _SCHEDULED_JOB.sub("", owner.name) if owner.kind == "Job" else owner.name


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)
