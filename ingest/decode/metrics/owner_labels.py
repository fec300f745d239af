"""Place: whose a foreign value is, by the labels that came with it. Kernel."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from ingest.decode.metrics.metric_mapping import APP_LEVEL, NODE_LEVEL, POD_LEVEL, SERVICE_LEVEL, Labels, Words
from ingest.schema.container_identity import PodCgroup, container_id, instance_id, pod_cgroup
from ingest.schema.tables import QOS_VALUES, UNKNOWN_NODE, WHOLE_NODE
from ingest.schema.workload_identity import BEST_EFFORT_CLASSES, first_of

PAUSE_NAMES = ("POD", "pause")
"""How the container that only holds a pod's network is called."""
SANDBOX_LABELS = {"io.cri-containerd.kind": "sandbox", "io.kubernetes.docker.type": "podsandbox"}
LATENCY_SENSITIVE_CLASSES = ("LS", "LSR", "LSE")
_PORT = re.compile(r":[0-9]{1,5}$")

NO_POD = "no pod"
PAUSE = "pause"
NESTED = "a nested cgroup"
SERVICE = "a service"
"""Why a value with good labels has no pod: a cgroup of the system, the pause container, part of a container, whose own
cgroup counts it too, and requests that a controller passed on."""


class Place(NamedTuple):
    """Whose a value is, as columns of `samples`; None where the labels do not name it."""

    cluster: str | None
    node: str
    container: str
    pod: str | None
    part: str | None
    instance: str | None
    replica: str | None
    app: str | None
    team: str | None
    qos: str | None


class Nowhere(NamedTuple):
    """A value that has no place: `missing` is the key that its labels lack; else `podless` is why it has no pod."""

    missing: str = ""
    podless: str = ""


def place_of(labels: Mapping[str, str], names: Labels, of: str, series: Words = ()) -> Place | Nowhere:
    """Whose a value with these labels is.

    The container is the pod's uid, from a label or the path of its cgroup, else namespace/name, else, of a container
    in no pod, its own name; `/` for the node itself. The part is the container inside the pod; None for the pod's own
    cgroup. Values of the pause container have no place, except that the pod's network is read in it.

    Args:
        labels: labels, tags or attributes, by name; empty text counts as absent.
        names: which of them say what.
        of: one of mapping.LEVELS.
        series: labels that distinguish series of the value's metric: they name neither a run nor a collector.

    Source: `ingest.schema.container_identity`.
    """
    if of in {APP_LEVEL, SERVICE_LEVEL}:
        return _serving(labels, names, of)
    node = node_in(labels, names)
    if node is None:
        return Nowhere(missing=_no_node(names))
    cluster, path = first_of(labels, names.cluster), first_of(labels, names.cgroup) or ""
    replica = _replica(labels, names, series)
    if of == NODE_LEVEL or path == WHOLE_NODE:
        return Place(cluster, node, WHOLE_NODE, None, None, None, replica, None, None, None)
    cgroup, namespace, pod = pod_cgroup(path), _namespace(labels, names), first_of(labels, names.pod)
    uid, named = first_of(labels, names.uid) or cgroup.uid, f"{namespace}/{pod}" if namespace and pod else None
    container = container_id(uid, node) if uid else named or first_of(labels, names.alone)
    if container is None:
        # a cgroup without a pod, labels that leave the pod's name empty, or a GPU that none was given
        is_no_pod = path.startswith("/") or any(labels.get(name) == "" for name in names.pod) or "gpu" in series
        return Nowhere(podless=NO_POD) if is_no_pod else Nowhere(missing=_no_container(names))
    part = None if of == POD_LEVEL or not (uid or pod) else first_of(labels, names.part)
    if reason := "" if of == POD_LEVEL else _not_counted(labels, cgroup, part):
        return Nowhere(podless=reason)
    run = first_of(labels, (name for name in names.instance if name not in series))
    instance = None if part is None else cgroup.instance or (run and instance_id(run))
    app, team, qos = first_of(labels, names.app), first_of(labels, names.team), _qos(first_of(labels, names.qos))
    return Place(cluster, node, container, named, part, instance, replica, app, team, qos)


def _serving(labels: Mapping[str, str], names: Labels, of: str) -> Place | Nowhere:
    """The pod that served requests; its node is UNKNOWN_NODE where the labels name none, and placements know it."""
    if of == SERVICE_LEVEL:
        return Nowhere(podless=SERVICE)
    namespace, (pod, uid) = _namespace(labels, names), (first_of(labels, one) for one in (names.pod, names.uid))
    named = f"{namespace}/{pod}" if namespace and pod else None
    node = first_of(labels, (name for name in names.node if name != "instance")) or UNKNOWN_NODE
    container = container_id(uid, node) if uid else named
    if container is None:
        return Nowhere(podless=NO_POD)
    app, team, qos = first_of(labels, names.app), first_of(labels, names.team), _qos(first_of(labels, names.qos))
    cluster, replica = first_of(labels, names.cluster), _replica(labels, names)
    return Place(cluster, node, container, named, None, None, replica, app, team, qos)


def _namespace(labels: Mapping[str, str], names: Labels) -> str | None:
    """The pod's; what was renamed to exported_ is the pod's only where its name was renamed too, else a label's."""
    renamed = labels.get("exported_pod")
    return first_of(labels, (name for name in names.namespace if renamed or name != "exported_namespace"))


def _replica(labels: Mapping[str, str], names: Labels, series: Words = ()) -> str | None:
    return "/".join(labels[name] for name in names.replica if name not in series and labels.get(name)) or None


def _not_counted(labels: Mapping[str, str], cgroup: PodCgroup, part: str | None) -> str:
    """Why a cgroup of a pod does not count towards it; empty where it does."""
    if cgroup.nested:
        return NESTED
    is_sandbox = any(labels.get(name) == value for name, value in SANDBOX_LABELS.items())
    return PAUSE if (part is None and cgroup.instance) or part in PAUSE_NAMES or is_sandbox else ""


def node_in(labels: Mapping[str, str], names: Labels) -> str | None:
    """The node that labels name; None where they name none."""
    name = next((name for name in names.node if labels.get(name)), None)
    if name is None:
        return None
    return _PORT.sub("", labels[name]) if name == "instance" else labels[name]


def _no_node(names: Labels) -> str:
    return (
        f"node is missing: none of the labels {', '.join(names.node)}; have the exporter add one, "
        "as docs/ingest.md shows for each"
    )


def _no_container(names: Labels) -> str:
    return f"container is missing: none of the labels {', '.join((*names.uid, *names.pod, *names.cgroup))}"


def _qos(text: str | None) -> str | None:
    word = (text or "").upper()
    if word in BEST_EFFORT_CLASSES:
        return "BE"
    if word in LATENCY_SENSITIVE_CLASSES:
        return "LS"
    return word if word in QOS_VALUES else None
