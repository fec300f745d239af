"""Place: whose a foreign value is, by the labels that came with it. Kernel."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from ingest.decode.metrics.metric_mapping import NODE_LEVEL, POD_LEVEL, Labels, Words
from ingest.schema.tables import QOS_VALUES, WHOLE_NODE
from ingest.schema.workload_identity import BEST_EFFORT_CLASSES

PAUSE_NAMES = ("POD", "pause")
"""How the container that only holds a pod's network is called."""
SANDBOX_LABELS = {"io.cri-containerd.kind": "sandbox", "io.kubernetes.docker.type": "podsandbox"}
LATENCY_SENSITIVE_CLASSES = ("LS", "LSR", "LSE")
_POD_CGROUP = re.compile(r"pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\.slice)?(/.+)?")
_PORT = re.compile(r":[0-9]{1,5}$")

NO_POD = "no pod"
PAUSE = "pause"
"""Why a value with good labels has no pod: a cgroup of the system, or the pause container."""


class Place(NamedTuple):
    """Whose a value is, as columns of `samples`; None where the labels do not name it."""

    cluster: str | None
    node: str
    container: str
    part: str | None
    app: str | None
    team: str | None
    qos: str | None


class Nowhere(NamedTuple):
    """A value that has no place: `missing` is the key that its labels lack; else `podless` is why it has no pod."""

    missing: str = ""
    podless: str = ""


def place_of(labels: Mapping[str, str], names: Labels, of: str) -> Place | Nowhere:
    """Whose a value with these labels is.

    The container is the pod's uid, from a label or the path of its cgroup, else namespace/name, else, of a container
    in no pod, its own name; `/` for the node itself. The part is the container inside the pod; None for the pod's own
    cgroup. Values of the pause container have no place, except that the pod's network is read in it.

    Args:
        labels: labels, tags or attributes, by name; empty text counts as absent.
        names: which of them say what.
        of: one of mapping.LEVELS.

    Source: cgroup paths of the kubelet's drivers cgroupfs (/kubepods/burstable/pod<uid>/<id>) and systemd
    (/kubepods.slice/kubepods-burstable-pod<uid, with _ for ->.slice/cri-containerd-<id>.scope).
    """
    node = _node(labels, names)
    if node is None:
        return Nowhere(missing=f"node is missing: none of the labels {', '.join(names.node)}")
    cluster, cgroup = _first(labels, names.cluster), _first(labels, names.cgroup) or ""
    if of == NODE_LEVEL or cgroup == WHOLE_NODE:
        return Place(cluster, node, WHOLE_NODE, None, None, None, None)
    container, below = _container(labels, names, cgroup)
    if container is None:
        return Nowhere(podless=NO_POD) if _is_no_pod(labels, names, cgroup) else Nowhere(missing=_no_container(names))
    part = None if of == POD_LEVEL or not _in_pod(labels, names, cgroup) else _first(labels, names.part)
    if of != POD_LEVEL and ((part is None and below) or part in PAUSE_NAMES or _is_sandbox(labels)):
        return Nowhere(podless=PAUSE)
    app, team = _first(labels, names.app), _first(labels, names.team)
    return Place(cluster, node, container, part, app, team, _qos(_first(labels, names.qos)))


def uid_in(cgroup: str) -> tuple[str | None, bool]:
    """The pod's uid in the path of a cgroup, and whether the path goes on below the pod's own."""
    found = _POD_CGROUP.search(cgroup)
    if found is None:
        return None, False
    uid = found[1].replace("_", "-")
    return uid, found[2] is not None


def _container(labels: Mapping[str, str], names: Labels, cgroup: str) -> tuple[str | None, bool]:
    """Key of the container, and whether its cgroup lies below the pod's own."""
    uid, below = uid_in(cgroup)
    namespace, pod = _first(labels, names.namespace), _first(labels, names.pod)
    named = f"{namespace}/{pod}" if namespace and pod else None
    return _first(labels, names.uid) or uid or named or _first(labels, names.alone), below


def _in_pod(labels: Mapping[str, str], names: Labels, cgroup: str) -> bool:
    return bool(_first(labels, names.uid) or _first(labels, names.pod) or uid_in(cgroup)[0])


def _is_no_pod(labels: Mapping[str, str], names: Labels, cgroup: str) -> bool:
    """A cgroup without a pod, or labels that leave the pod's name empty, as of an unassigned GPU."""
    return cgroup.startswith("/") or any(labels.get(name) == "" for name in names.pod)


def _is_sandbox(labels: Mapping[str, str]) -> bool:
    return any(labels.get(name) == value for name, value in SANDBOX_LABELS.items())


def _node(labels: Mapping[str, str], names: Labels) -> str | None:
    name = next((name for name in names.node if labels.get(name)), None)
    if name is None:
        return None
    return _PORT.sub("", labels[name]) if name == "instance" else labels[name]


def _no_container(names: Labels) -> str:
    return f"container is missing: none of the labels {', '.join((*names.uid, *names.pod, *names.cgroup))}"


def _qos(text: str | None) -> str | None:
    word = (text or "").upper()
    if word in BEST_EFFORT_CLASSES:
        return "BE"
    if word in LATENCY_SENSITIVE_CLASSES:
        return "LS"
    return word if word in QOS_VALUES else None


def _first(labels: Mapping[str, str], names: Words) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)
