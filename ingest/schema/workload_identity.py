"""Identity: which app, team and class a pod belongs to. Kernel, shared by ingest and the extender."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

APP_LABELS = ("cohabit.io/app", "app.kubernetes.io/name", "app")
TEAM_LABELS = ("cohabit.io/team", "team")
QOS_LABELS = ("cohabit.io/qos", "koordinator.sh/qosClass")
ADVICE = "cohabit.io/advice"
"""Annotation of an advised pod: the id by which it is assumed until its uid is known. Label `off`: no advice."""
ADVISED = "advice-"
"""Beginning of such an id."""
_ADVICE_ID = re.compile(ADVISED + "[0-9a-f]{16}")
HASH_LABELS = {"pod-template-hash": "Deployment", "rollouts-pod-template-hash": "Rollout"}
"""Label that holds the hash in the name of a ReplicaSet -> kind of what made the ReplicaSet."""
BEST_EFFORT_CLASSES = ("BE", "BESTEFFORT")
VOLCANO = "batch.volcano.sh/"
"""API group of Volcano's Job, which is called as Kubernetes' own is."""
_SCHEDULED_JOB = re.compile(r"-\d{8,10}$")


@dataclass(frozen=True, slots=True)
class Owner:
    """One direct owner of a pod."""

    kind: str
    name: str
    controller: bool = True
    api_version: str = ""


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


def is_advice(text: str) -> bool:
    """Whether it is an id of advice: people may annotate pods with anything."""
    return _ADVICE_ID.fullmatch(text) is not None


def identify(pod: PodFacts) -> Identity:
    """App, team and class of a pod.

    The app is its label if it carries one (cohabit.io/app, app.kubernetes.io/name, app), else the name of the
    workload at the top of its owner chain; else the pod's own name, for a static pod without the node's. The team is
    its label (cohabit.io/team, team), else the namespace. BE only if a class label says so.

    Source: Kubernetes naming of static pods (name-node); for the chain see `top_owner`.
    """
    app = first_of(pod.labels, APP_LABELS) or _workload(pod)
    qos = first_of(pod.labels, QOS_LABELS) or ""
    return Identity(app, first_of(pod.labels, TEAM_LABELS) or pod.namespace, qos.upper() in BEST_EFFORT_CLASSES)


def top_owner(pod: PodFacts) -> Owner | None:
    """The workload at the top of a pod's owner chain, from the pod alone; None for a pod without owner.

    Of several direct owners the controlling one, else the first. Behind a ReplicaSet stands the Deployment (or Argo
    Rollout) whose hash is in the pod's label, behind a Job with a minute in its name a CronJob. A Volcano Job is of
    kind VolcanoJob. Anything else, such as a DaemonSet, StatefulSet or PyTorchJob, is the top itself.

    Source: Kubernetes naming of ReplicaSets (name-hash, the hash in label pod-template-hash) and of scheduled Jobs
    (name-minute).
    """
    owner = min(pod.owners, key=lambda owner: not owner.controller, default=None)
    if owner is None:
        return None
    if owner.kind == "ReplicaSet":
        return _behind_replica_set(owner, pod.labels)
    if owner.kind == "Job" and owner.api_version.startswith(VOLCANO):
        return replace(owner, kind="VolcanoJob")
    if owner.kind == "Job" and (name := _SCHEDULED_JOB.sub("", owner.name)) != owner.name:
        return replace(owner, kind="CronJob", name=name)
    return owner


def template_hash(labels: Mapping[str, str]) -> str:
    """Hash of the template that a pod was made of; empty where its labels have none.

    Source: Kubernetes' label pod-template-hash, and that of Argo Rollouts.
    """
    return first_of(labels, HASH_LABELS) or ""


def _behind_replica_set(owner: Owner, labels: Mapping[str, str]) -> Owner:
    for label, kind in HASH_LABELS.items():
        name = owner.name.removesuffix("-" + labels.get(label, ""))
        if labels.get(label) and name != owner.name:
            return replace(owner, kind=kind, name=name)
    return owner


def _workload(pod: PodFacts) -> str:
    owner = top_owner(pod)
    if owner is None:
        return pod.name
    return pod.name.removesuffix("-" + owner.name) if owner.kind == "Node" else owner.name


def first_of(labels: Mapping[str, str], names: Iterable[str]) -> str | None:
    """The first of several labels that says something."""
    return next((labels[name] for name in names if labels.get(name)), None)
