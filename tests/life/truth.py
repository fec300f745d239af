"""What really happens in a cluster: nodes come and go, pods start, restart, move and end, and use CPU.

The truth comes first. Senders (`tests.life.kube` and its siblings) say what each exporter would report of it, and the
laws (`tests.life.laws`) compare what the product computed with it. Nothing here knows the product.

Times are seconds since `START_S`; every timeline ends at `END_S`, a full hour, so that billed hours are over.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rng = np.random.Generator
START_S = 1_772_366_400
"""2026-03-01 12:00 UTC: a full hour."""
END_S = 7200.0
CHURN_S = 1200.0
HARDWARE = (("m5.2xlarge", 8), ("c6i.4xlarge", 16), ("m7g.8xlarge", 32))
RESERVED_CORES = 0.1
SYSTEM_CORES = 0.05
"""What the node's own daemons use."""
ORPHANED_S = 50.0
"""Pods of a node that is gone are deleted so much later: the pod garbage collector waits 40 s."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Half-open time."""

    start: float
    end: float

    def __contains__(self, at: float) -> bool:
        return self.start <= at < self.end


@dataclass(frozen=True, slots=True)
class Node:
    """One life of a node; another one may have its name before or after."""

    name: str
    uid: str
    sku: str
    cores: int
    start: float
    end: float
    """`inf`: it outlives the timeline."""

    @property
    def allocatable_cores(self) -> float:
        return self.cores - RESERVED_CORES


@dataclass(frozen=True, slots=True)
class Instance:
    """One run of a container, in a cgroup of its own: cores `levels[i]` from `steps[i]` on, 0 from `end` on."""

    name: str
    id: str
    start: float
    end: float
    steps: tuple[float, ...]
    levels: tuple[float, ...]
    memory_bytes: int
    frozen_s: float = 0.0
    """How long cAdvisor goes on reporting the cgroup unchanged after its end."""

    def used(self, at: Floats) -> Floats:
        """(n,) core-seconds used until each time."""
        edges = np.array([*self.steps, self.end])
        counted: Floats = np.append(0.0, np.cumsum(np.diff(edges) * np.array(self.levels)))
        return np.asarray(np.interp(at, edges, counted), np.float64)


@dataclass(frozen=True)
class Pod:
    """One pod: an object of the API with a uid of its own.

    Args:
        ending: stays, deleted (gracefully), forced, evicted, or orphaned (its node went).
        hash: config hash of a static pod, which cgroups and the kubelet call its uid.
        kind: of its owner.
        deleted: when the API has deleted the object; `inf` where it has not.
    """

    uid: str
    namespace: str
    name: str
    kind: str
    owner: str
    node: Node
    start: float
    end: float
    ending: str
    deleted: float
    request_cores: float
    instances: tuple[Instance, ...]
    hash: str | None = None

    @property
    def cgroup_uid(self) -> str:
        """The uid as the kubelet and cgroups have it."""
        return self.hash or self.uid

    @property
    def container(self) -> str:
        """The container id that every table of ours should have."""
        return f"{self.hash}@{self.node.name}" if self.hash else self.uid

    def used(self, at: Floats) -> Floats:
        """(n,) core-seconds of all its containers until each time: a pod's cgroup outlives its containers."""
        total: Floats = np.sum([one.used(at) for one in self.instances], axis=0)
        return total


@dataclass(frozen=True, slots=True)
class Replica:
    """One Prometheus of a pair: how far its clock is ahead, and at which second of an interval it scrapes."""

    name: str
    ahead_s: float
    phase_s: float


@dataclass(frozen=True)
class Timeline:
    """One cluster's life.

    Args:
        outages: of a node's exporter, by node name: it restarts, and reports nothing meanwhile.
        unheard: when the watch is lost; a new process lists everything at its end.
        state_kept: whether that process has the state of the one before.
        held: when the producer cannot reach the broker: records wait until its end.
        doubled: share of records that are sent twice.
        pod_cgroup: whether series of pods' own cgroups are scraped too.
        sandboxes: whether series of pause containers are.
        remade: when the metrics' topic is made anew, where it is; its scenario needs a broker.
    """

    cluster: str
    seed: int
    begin: float
    interval_s: float
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    outages: tuple[tuple[str, Stretch], ...]
    unheard: tuple[Stretch, ...]
    state_kept: bool
    held: tuple[Stretch, ...]
    doubled: float
    replicas: tuple[Replica, ...]
    pod_cgroup: bool
    sandboxes: bool
    remade: float | None

    def heard(self, at: float) -> float:
        """When a deletion at that time comes to be known by the watch; `inf`: never."""
        for lost in self.unheard:
            if at in lost:
                return lost.end if self.state_kept else inf
        return at

    def learnt(self, at: float) -> float:
        """When something that came at that time comes to be known by the watch: a new process lists it."""
        return next((lost.end for lost in self.unheard if at in lost), at)

    def on(self, node: Node) -> Iterator[Pod]:
        """Pods of one life of a node."""
        return (pod for pod in self.pods if pod.node is node)

    def up(self, name: str, at: Floats) -> NDArray[np.bool_]:
        """(n,) whether the exporter of a node reports at each time."""
        down = np.zeros(len(at), np.bool_)
        for node, out in self.outages:
            down |= (node == name) & (at >= out.start) & (at < out.end)
        return ~down

    def node_used(self, node: Node, at: Floats) -> Floats:
        """(n,) core-seconds of a whole node since it came."""
        return SYSTEM_CORES * (at - node.start) + sum((pod.used(at) for pod in self.on(node)), np.zeros(len(at)))


def draw(seed: int, cluster: str, *, remade: float | None = None) -> Timeline:
    """A timeline; the same seed draws the same one, whether or not its topic is made anew."""
    rng = np.random.default_rng(seed)
    begin = END_S - float(rng.integers(30, 91)) * 60
    nodes = tuple(_nodes(rng, begin))
    pods = tuple(pod for part in (_static, _workloads) for pod in part(rng, nodes) if pod.instances)
    names = sorted({node.name for node in nodes})
    outages = [(str(rng.choice(names)), _stretch(rng, begin, 60, 120)) for _ in range(rng.integers(0, 3))]
    unheard = [_stretch(rng, begin, 120, 1500)] if rng.random() < 0.4 else []
    held = [_stretch(rng, begin, 30, 80 if rng.random() < 0.7 else 200)] if rng.random() < 0.5 else []
    ahead = rng.uniform(-5, 5, 2).round(3)
    interval = float(rng.choice([15, 30, 30, 30, 60, 60, 60, 60]))
    phases = rng.uniform(0, interval, 2)
    count = 2 if rng.random() < 0.5 else 1
    pair = [Replica(f"prometheus-k8s-{i}", float(ahead[i]), float(phases[i])) for i in range(count)]
    return Timeline(
        cluster=cluster,
        seed=seed,
        begin=begin,
        interval_s=interval,
        nodes=nodes,
        pods=pods,
        outages=tuple(outages),
        unheard=tuple(unheard),
        state_kept=bool(rng.random() < 0.5),
        held=tuple(held),
        doubled=0.03 if rng.random() < 0.5 else 0.0,
        replicas=tuple(pair),
        pod_cgroup=bool(rng.random() < 0.5),
        sandboxes=bool(rng.random() < 0.5),
        remade=remade,
    )


def hexes(rng: Rng, digits: int) -> str:
    """So many hexadecimal digits."""
    return rng.bytes(digits // 2).hex()


def _uid(rng: Rng) -> str:
    text = hexes(rng, 32)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _stretch(rng: Rng, begin: float, least: float, most: float) -> Stretch:
    length = rng.uniform(least, most)
    start = rng.uniform(begin + 180, max(begin + 181, END_S - length))
    return Stretch(float(start), float(min(start + length, END_S)))


def _nodes(rng: Rng, begin: float) -> Iterator[Node]:
    """One node stays; each other stays too, or is replaced by another machine of its name every 20 minutes."""
    for number in range(int(rng.integers(2, 4)) + int(rng.random() < 0.2)):
        name = f"ip-10-0-0-{number + 1}"
        if number == 0 or rng.random() < 0.5:
            yield _node(rng, name, begin, inf)
            continue
        start = begin + (float(rng.integers(0, 600)) if rng.random() < 0.5 else 0.0)
        while start < END_S - 300:
            end = start + CHURN_S + float(rng.integers(-120, 121))
            yield _node(rng, name, start, end if end < END_S else inf)
            start = end + float(rng.choice([60, 300, 900]))


def _node(rng: Rng, name: str, start: float, end: float) -> Node:
    sku, cores = HARDWARE[rng.integers(len(HARDWARE))]
    return Node(name, _uid(rng), sku, cores, start, end)


def _static(rng: Rng, nodes: tuple[Node, ...]) -> Iterator[Pod]:
    """Static pods of some nodes. The hash of a manifest from a file covers the node's name, from a URL it does not."""
    shared, by_name = hexes(rng, 32), {node.name: hexes(rng, 32) for node in nodes}
    from_url = rng.random() < 0.3
    carriers = {name for name in by_name if rng.random() < 0.4}
    for node in nodes:
        if node.name in carriers and node.start + 60 < END_S:
            pod = _pod(rng, node, "kube-proxy", node.start + float(rng.integers(3, 20)), node.end)
            code = shared if from_url else by_name[node.name]
            name = f"kube-proxy-{node.name}"
            yield replace(pod, namespace="kube-system", name=name, kind="Node", owner=node.name, hash=code)


def _workloads(rng: Rng, nodes: tuple[Node, ...]) -> Iterator[Pod]:
    for number in range(int(rng.integers(2, 5))):
        node = nodes[rng.integers(len(nodes))]
        latest = min(node.end, END_S) - 240
        start = float(rng.integers(int(node.start), int(max(latest, node.start + 1))))
        if number == 0:
            yield from _stateful(rng, nodes, _pod(rng, node, "db-0", start, inf))
            continue
        lasts = rng.random() < 0.4
        end = inf if lasts else start + float(rng.integers(90, 3600))
        stem = f"web{number}-7d4b9c6f58"
        pod = _pod(rng, node, f"{stem}-{hexes(rng, 6)}", start, end, str(rng.choice(["deleted", "evicted"])))
        yield replace(pod, kind="ReplicaSet", owner=stem)


def _stateful(rng: Rng, nodes: tuple[Node, ...], first: Pod) -> Iterator[Pod]:
    """A pod of a StatefulSet that is force-deleted once or twice, and made anew in that second, here or elsewhere."""
    pod = first
    for _ in range(rng.integers(1, 3)):
        lowest, highest = int(pod.start + 120), int(min(pod.end, END_S) - 60)
        if lowest >= highest:
            break
        at = float(rng.integers(lowest, highest))
        there = [node for node in nodes if node.start <= at < min(node.end, END_S) - 60]
        yield _pod(rng, pod.node, pod.name, pod.start, at, "forced")
        if not there:
            return
        pod = _pod(rng, there[rng.integers(len(there))], pod.name, at, inf)
    yield pod


def _pod(rng: Rng, node: Node, name: str, start: float, end: float, ending: str = "deleted") -> Pod:
    """A pod that ends at a time, or with its node if that is sooner."""
    ends = "orphaned" if node.end <= end and node.end < END_S else ending if end < END_S else "stays"
    end = {"orphaned": node.end, "stays": inf}.get(ends, end)
    later = {"orphaned": ORPHANED_S, "evicted": float(rng.integers(120, 900)), "deleted": 1.0}.get(ends, 0.0)
    names = ["app", "sidecar"][: 1 + int(rng.random() < 0.25)]
    until = min(end, END_S)
    runs = tuple(run for each in names for run in _runs(rng, each, start + float(rng.integers(1, 6)), until))
    request = round(float(rng.uniform(0.1, 1.0)), 3)
    return Pod(_uid(rng), "shop", name, "StatefulSet", name[:2], node, start, end, ends, end + later, request, runs)


def _runs(rng: Rng, name: str, start: float, end: float) -> Iterator[Instance]:
    """Runs of one container; between them it was killed for want of memory."""
    kills = int(rng.integers(1, 3)) if rng.random() < 0.35 and end - start > 300 else 0
    ends = sorted(rng.uniform(start + 60, end - 60, kills)) if kills else []
    frozen = rng.uniform(0, 240, kills)
    for number in range(kills + 1):
        until = float(ends[number]) if number < kills else end
        if until - start > 1:
            steps = tuple(sorted(float(at) for at in rng.uniform(start, until, rng.integers(0, 3))))
            levels = tuple(float(level) for level in rng.uniform(0.05, 1.0, len(steps) + 1).round(3))
            stays = float(frozen[number]) if number < kills else 0.0
            memory = int(rng.integers(50, 2000)) << 20
            yield Instance(name, hexes(rng, 64), start, until, (start, *steps), levels, memory, min(stays, end - until))
        start = until + float(rng.uniform(1, 12))
