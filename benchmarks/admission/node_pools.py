"""Node pools: a simulated cluster in pools of nodes, with requests, and pods as they are placed there. Kernel.

Pods of a pool select it by a label, so that many swarms and streams of pods run with one server, each undisturbed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.admission.node_room import NodeRoom, Rooms
from advisor.cluster.assumed_pod_load import Booked, crowded
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot
from benchmarks.admission.kube_scheduler import Node
from benchmarks.choices import members_of
from benchmarks.herd import NOON_S, Cluster
from ingest.simulator.law import PLATFORMS, counters
from ingest.simulator.messages import app_name
from ingest.simulator.simulated_cluster import load_at

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Pod = dict[str, Any]
POOL = "pool"
MOST_PODS = 110
"""Of a node."""
FULLEST = 0.9
"""Share of CPU that is requested on the fullest node before any pod comes."""
REQUEST_SPREAD = 0.5
"""Of the logarithm of requests over use, app by app: requests are no measure of use."""


@dataclass(frozen=True)
class Pools:
    """Nodes and apps.

    Args:
        cluster: all nodes; those of a pool follow each other.
        size: nodes of each pool.
        requests: (apps, 2) CPU cores and memory bytes that a pod of each app requests.
        allocatable: (n, 2) the same of each node.
    """

    cluster: Cluster
    size: int
    requests: Floats
    allocatable: Floats
    nodes: tuple[Node, ...] = field(init=False)

    def __post_init__(self) -> None:
        nodes = (Node(name, self._labels(row, name)) for row, name in enumerate(self.cluster.view.nodes))
        object.__setattr__(self, "nodes", tuple(nodes))

    def _labels(self, row: int, name: str) -> Mapping[str, str]:
        return {"kubernetes.io/hostname": name, POOL: f"p{row // self.size}"}

    def rows(self, pool: int) -> Ints:
        """(size,) rows of a pool's nodes."""
        return np.arange(pool * self.size, (pool + 1) * self.size)

    def is_best_effort(self, app: int) -> bool:
        """Whether pods of an app are best effort."""
        return bool(self.cluster.law.apps.best_effort[app])

    def class_of(self, app: int) -> PodClass:
        """The class of an app's pods."""
        return PodClass(app_name(app), self.is_best_effort(app))

    def pod(self, uid: str, app: int, pool: int) -> Pod:
        """JSON of a pod as it is created, but for the uid, which it gets later."""
        cores, memory_bytes = self.requests[app]
        labels = {"app": app_name(app), "cohabit.io/qos": "BE" if self.is_best_effort(app) else "LS"}
        wants = {"cpu": f"{round(cores * 1000)}m", "memory": str(round(memory_bytes))}
        container = {"name": "main", "image": "app:1", "resources": {"requests": wants}}
        spec = {"nodeSelector": {POOL: f"p{pool}"}, "containers": [container]}
        return {"metadata": {"name": uid, "namespace": "default", "labels": labels}, "spec": spec}


def with_requests(cluster: Cluster, size: int, rng: np.random.Generator) -> Pools:
    """Draw what apps request: in proportion to their use, app by app more or less, so that every node holds its own."""
    cpu = cluster.law.apps.demand[:, 0]
    drawn = cpu * rng.lognormal(0.0, REQUEST_SPREAD, len(cpu))
    cores = np.array([platform.cores for platform in PLATFORMS])[cluster.platform]
    memory = np.array([platform.memory_bytes for platform in PLATFORMS])[cluster.platform]
    fit = FULLEST / float((cluster.counts @ drawn / cores).max())
    requests = np.column_stack([np.round(drawn * fit, 3), 1e9 * (1.0 + cpu)])
    return Pools(cluster, size, requests, np.column_stack([cores, memory]))


@dataclass(frozen=True, slots=True)
class Bound:
    """A pod on its node.

    Args:
        uid: of the pod.
        app: of the pod.
        row: of the node.
        advice: id of the advice that it carries; empty for none.
    """

    uid: str
    app: int
    row: int
    advice: str = ""


@dataclass
class Filled:
    """Pools as pods are bound to their nodes."""

    pools: Pools
    bound: list[Bound] = field(default_factory=list)
    counts: Ints = field(init=False)
    requested: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.counts = self.pools.cluster.counts.copy()
        self.requested = self.counts @ self.pools.requests

    def feasible(self, app: int, pool: int) -> Ints:
        """Rows of a pool's nodes that have room for a pod by requests."""
        rows = self.pools.rows(pool)
        after = self.requested[rows] + self.pools.requests[app]
        room = (after <= self.pools.allocatable[rows]).all(axis=1) & (self.counts[rows].sum(axis=1) < MOST_PODS)
        return np.asarray(rows[room], np.int64)

    def bind(self, pod: Bound) -> None:
        """Put a pod on a node."""
        self.bound.append(pod)
        self.counts[pod.row, pod.app] += 1
        self.requested[pod.row] += self.pools.requests[pod.app]

    def harm(self, pool: int) -> float:
        """True slowdown above 1, summed over all containers of a pool, that its pods have added."""
        before, rows = self.pools.cluster, self.pools.rows(pool)
        return float((before.suffered_by_node(self.counts) - before.suffered_by_node(before.counts))[rows].sum())

    def view(self, version: int, as_of_us: int, rng: np.random.Generator) -> Snapshot:
        """What a refresher publishes once all bound pods have been measured."""
        before, law, nodes = self.pools.cluster.view, self.pools.cluster.law, self.pools.cluster.view.nodes
        there = [Booked(one.uid, nodes[one.row], self.pools.class_of(one.app), 0) for one in self.bound]
        made = replace(crowded(before, nodes, there), version=version, as_of_us=as_of_us)
        app, row = (np.array([getattr(one, name) for one in self.bound], np.int64) for name in ("app", "row"))
        at, platform = load_at(app, NOON_S), self.pools.cluster.platform[row]
        shown = counters(law.apps, app, at, slowdown=np.ones(len(app)), platform=platform, rng=rng)
        seat = {uid: number for number, uid in enumerate(made.containers)}
        use = members_of(row, shown, before.node_capacity[row], law.apps.best_effort[app]).use
        made.resident_use[[seat[one.uid] for one in self.bound]] = use
        return made

    def rooms(self, as_of_us: int) -> Rooms:
        """What the refresher publishes of requests, and where advised pods are."""
        left = self.pools.allocatable - self.requested
        free = MOST_PODS - self.counts.sum(axis=1)
        nodes = tuple(
            NodeRoom(node.name, dict(node.labels), cores=cores, memory_bytes=memory, pods=float(pods))
            for node, (cores, memory), pods in zip(self.pools.nodes, left.tolist(), free.tolist(), strict=True)
        )
        arrived = {one.advice: self.pools.nodes[one.row].name for one in self.bound if one.advice}
        return Rooms(self.pools.cluster.view.cluster, as_of_us, nodes, arrived, frozenset(arrived))
