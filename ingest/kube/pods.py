"""A Kubernetes pod as a row of `placements`. Kernel: no clock; every time is the pod's own."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from fractions import Fraction

from ingest.kube.api_types import ContainerSpec, Metadata, Pod, PodSpec, Record, Toleration
from ingest.kube.gpus import gpus_in
from ingest.kube.quantity import extended
from ingest.schema.container_identity import MIRROR, container_id, uid_of_pod
from ingest.schema.cpuset import is_cpuset
from ingest.schema.workload_identity import ADVICE, Owner, PodFacts, identify, top_owner

Amounts = Mapping[str, Fraction]

SYSTEM_NAMESPACE = "kube-system"
NODE_CRITICAL = "system-node-critical"
KOORDINATOR_CLASS = "koordinator.sh/qosClass"
GANG_NAMES = (
    *("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "scheduling.x-k8s.io/pod-group"),
    *("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name"),
    *("gang.scheduling.koordinator.sh/name", "kueue.x-k8s.io/pod-group-name", "jobset.sigs.k8s.io/jobset-name"),
)
"""Labels or annotations that name the group: Volcano, scheduler-plugins new and old, Koordinator, Kueue, JobSet."""
GANG_MINIMA = (
    "scheduling.volcano.sh/group-min-member",
    "pod-group.scheduling.sigs.k8s.io/min-available",
    "gang.scheduling.koordinator.sh/min-available",
    "kueue.x-k8s.io/pod-group-total-count",
)
"""Labels or annotations that say how many pods the group needs; else only its PodGroup does, which is not read."""
GANG_DIGITS = 9
"""A longer number is none of pods."""
STAY_MARKS = {
    "cohabit.io/pinned": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Labels or annotations with which people say that a pod may not be moved."""
NODE_BOUND = ("DaemonSet", "Node")
"""Owners whose pods belong to their node."""
ENDED = ("Succeeded", "Failed")
ENDING = {("Ready", "False"), ("ContainersReady", "False"), ("DisruptionTarget", "True")}
"""Conditions, and what they are once a pod has ended."""
RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


def placement(pod: Pod, cluster: str) -> Record:
    """What the pod says of its placement, without event, time and version.

    In:  a pod with a node.
    Out: columns of `placements`; columns without a value are left out. Requests that are not there are 0, since that is
         how Kubernetes counts them; a limit is left out unless every container has one.
    """
    meta, spec, facts = pod.metadata, pod.spec, pod_facts(pod)
    owner, identity = top_owner(facts), identify(facts)
    record: Record = {
        "cluster": cluster,
        "node": spec.node_name,
        "container": id_of(pod),
        "namespace": meta.namespace,
        "name": meta.name,
        "owner": f"{owner.kind}/{owner.name}" if owner else None,
        "app": identity.app,
        "team": identity.team or None,
        "qos": qos_of(pod),
        "image_version": image_version(meta, spec),
        **amounts(spec),
        "priority": spec.priority,
        **pinned_cores(meta),
        **gang_of(meta, spec),
        "pinned": is_pinned(pod),
        "local_storage": has_local_storage(spec),
        "tolerations": [toleration_text(toleration) for toleration in spec.tolerations],
        "affinity": affinity_json(spec),
        "labels": with_advice(meta),
        "volume_claims": any(volume.persistent_volume_claim is not None for volume in spec.volumes),
    }
    return {name: value for name, value in record.items() if value is not None}


def id_of(pod: Pod) -> str:
    """Id of the container that a placed pod is."""
    return container_id(uid_of_pod(pod.metadata.uid, pod.metadata.annotations), pod.spec.node_name)


def with_advice(meta: Metadata) -> dict[str, str]:
    """Labels, and the id of the pod's advice under the same name; label `off` stays."""
    advised = ADVICE in meta.annotations and meta.labels.get(ADVICE) != "off"
    return meta.labels | ({ADVICE: meta.annotations[ADVICE]} if advised else {})


def pod_facts(pod: Pod) -> PodFacts:
    """What identity goes by."""
    meta = pod.metadata
    owners = [Owner(o.kind, o.name, bool(o.controller), o.api_version) for o in meta.owner_references]
    return PodFacts(meta.name, meta.namespace, meta.labels, owners)


def qos_of(pod: Pod) -> str:
    """LS, BE or SYSTEM.

    BE if a class label says so (see `identify`). SYSTEM if Koordinator's label says so, or if it is a static pod or one
    of a DaemonSet and is in kube-system or has priority class system-node-critical: what the node itself cannot do
    without. Everything else is LS.

    Source: ours; the labels are those of Koordinator's QoS.
    """
    meta = pod.metadata
    if identify(pod_facts(pod)).best_effort:
        return "BE"
    critical = meta.namespace == SYSTEM_NAMESPACE or pod.spec.priority_class_name == NODE_CRITICAL
    system = meta.labels.get(KOORDINATOR_CLASS) == "SYSTEM" or (critical and _is_of_the_node(pod))
    return "SYSTEM" if system else "LS"


def amounts(spec: PodSpec) -> Record:
    """Requests and limits of the whole pod in cores, bytes and GPUs; an amount set for the pod itself comes first."""
    found: Record = {}
    totals = requests_in_all(spec)
    for resource, stem in (("cpu", "cpu_{}_cores"), ("memory", "memory_{}_bytes")):
        requested, limit = spec.requests.get(resource), spec.limits.get(resource)
        over = spec.overhead.get(resource, Fraction(0))
        request = totals.get(resource, Fraction(0)) if requested is None else requested
        limit = _limit(spec, resource) if limit is None else limit
        found[stem.format("request")] = float(request + over)
        found[stem.format("limit")] = None if limit is None else float(limit + over)
    found["cpu_limited"] = found["cpu_limit_cores"] is not None or any(
        "cpu" in container.limits for container in _lasting(spec)
    )
    others = {name: amount for name, amount in totals.items() if amount}
    found["extended_requests"] = extended({**others, **spec.requests})
    return {**found, "gpu_request": float(pod_total(spec, lambda container: gpus_in(container.requests)))}


def pod_total(spec: PodSpec, amount: Callable[[ContainerSpec], Fraction]) -> Fraction:
    """What containers need together: the most that is needed at any time from the first init container on.

    Init containers run one after another, so each counts alone, next to the sidecars (restartPolicy Always) that began
    before it; containers run together, next to all sidecars.

    Source: Kubernetes documentation, "Init Containers: Resource sharing within containers", and KEP-753.
    """
    sidecars = peak = Fraction(0)
    for container in spec.init_containers:
        together = sidecars + amount(container)
        peak = max(peak, together)
        sidecars = together if container.restart_policy == "Always" else sidecars
    return max(peak, sidecars + sum(map(amount, spec.containers), Fraction(0)))


def requests_in_all(spec: PodSpec) -> dict[str, Fraction]:
    """`pod_total` of each resource that some container requests, in one pass over the containers."""
    none = Fraction(0)
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in spec.init_containers:
        for name, amount in container.requests.items():
            together = sidecars.get(name, none) + amount
            peak[name] = max(peak.get(name, none), together)
            if container.restart_policy == "Always":
                sidecars[name] = together
    running = dict(sidecars)
    for container in spec.containers:
        for name, amount in container.requests.items():
            running[name] = running.get(name, none) + amount
    return {name: max(peak.get(name, none), running.get(name, none)) for name in peak | running}


def image_version(meta: Metadata, spec: PodSpec) -> str:
    """Tag of the main container's image, or its digest; `latest` where it names neither.

    The main container is the one that kubectl takes: named in an annotation, else the first.
    """
    wanted = meta.annotations.get(DEFAULT_CONTAINER)
    main = next((container for container in spec.containers if container.name == wanted), spec.containers[0])
    named, _, digest = main.image.partition("@")
    return named.rpartition("/")[2].partition(":")[2] or digest or "latest"


def pinned_cores(meta: Metadata) -> Record:
    """Cpuset and NUMA node that Koordinator allocated; nothing where it did not, or what it wrote does not read."""
    status = _json_object(meta.annotations.get(RESOURCE_STATUS, ""))
    cpuset, numa = status.get("cpuset"), status.get("numaNodeResources")
    numbers = [entry.get("node") for entry in numa if isinstance(entry, dict)] if isinstance(numa, list) else []
    number = numbers[0] if len(numbers) == 1 and type(numbers[0]) is int else None
    return {"cpuset": cpuset if isinstance(cpuset, str) and is_cpuset(cpuset) else None, "numa_node": number}


def gang_of(meta: Metadata, spec: PodSpec) -> Record:
    """Group that is placed together, namespace/name, since groups have the names of their namespace; and its minimum.

    Source: Volcano, scheduler-plugins, Koordinator; Kubernetes API reference v1.36, PodSchedulingGroup.
    """
    name = meta.first(GANG_NAMES) or spec.pod_group_name
    if not name:
        return {}
    minimum = meta.first(GANG_MINIMA) or ""
    known = minimum.isdecimal() and len(minimum) <= GANG_DIGITS
    return {"gang": f"{meta.namespace}/{name}", "gang_minimum": int(minimum) if known else None}


def is_pinned(pod: Pod) -> bool:
    """Whether it may not be moved: it is its node's own, people say so, or nothing would make it anew elsewhere."""
    meta = pod.metadata
    marked = any(meta.first((name,)) == value for name, value in STAY_MARKS.items())
    controlled = any(owner.controller for owner in meta.owner_references)
    return marked or _is_of_the_node(pod) or not controlled


def has_local_storage(spec: PodSpec) -> bool:
    """Whether it holds data on the node: a hostPath, or an emptyDir on disk. A claim of a local volume is not seen."""
    on_disk = (v.empty_dir is not None and v.empty_dir.get("medium") != "Memory" for v in spec.volumes)
    return any(on_disk) or any(v.host_path is not None for v in spec.volumes)


def toleration_text(toleration: Toleration) -> str:
    """A toleration in the form of a taint: key=value:effect; key:effect whatever the value; * for any key or effect.

    `key=:effect` tolerates a taint without a value only: operator Equal compares with the empty value.
    """
    value = "" if toleration.operator == "Exists" else f"={toleration.value}"
    return f"{toleration.key or '*'}{value}:{toleration.effect or '*'}"


def affinity_json(spec: PodSpec) -> str | None:
    """Affinity, node selector and spread constraints as one JSON object of the API's own names; None without any."""
    rules: Record = dict(spec.affinity or {})
    rules |= {"nodeSelector": spec.node_selector} if spec.node_selector else {}
    rules |= {"topologySpreadConstraints": spec.topology_spread_constraints} if spec.topology_spread_constraints else {}
    return json.dumps(rules, sort_keys=True, separators=(",", ":"), ensure_ascii=False) if rules else None


def placed_at(pod: Pod) -> datetime | None:
    """When it took its place: bound to its node, else started there, else made. None where it says none of these."""
    bound = (c.last_transition_time for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "True")
    return next(bound, None) or pod.status.start_time or pod.metadata.creation_timestamp


def changed_at(meta: Metadata) -> datetime | None:
    """Time of the last write to the object itself rather than to its status; None where none is recorded."""
    return max((f.time for f in meta.managed_fields if f.time and f.subresource != "status"), default=None)


def ended_at(pod: Pod) -> datetime | None:
    """When its last container ended, else when it was no longer ready, else the time set for its deletion.

    A pod that was evicted, or failed before its containers started, has no containers' ends; its conditions changed
    when it ended. None where it says none of these.
    """
    finished = pod.status.finished_at()
    ends = [time for time in finished if time is not None]
    if ends and len(ends) == len(finished):
        return max(ends)
    changed = [c.last_transition_time for c in pod.status.conditions if (c.type, c.status) in ENDING]
    over = max((time for time in changed if time), default=None) if pod.status.phase in ENDED else None
    return over or pod.metadata.deletion_timestamp


def _is_of_the_node(pod: Pod) -> bool:
    return MIRROR in pod.metadata.annotations or any(o.kind in NODE_BOUND for o in pod.metadata.owner_references)


def _lasting(spec: PodSpec) -> list[ContainerSpec]:
    """Containers that keep running."""
    return [*spec.containers, *(one for one in spec.init_containers if one.restart_policy == "Always")]


def _limit(spec: PodSpec, resource: str) -> Fraction | None:
    """Limit of the whole pod; None when a container that keeps running has none."""
    if any(resource not in container.limits for container in _lasting(spec)):
        return None
    return pod_total(spec, lambda container: container.limits.get(resource, Fraction(0)))


def _json_object(text: str) -> Record:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
