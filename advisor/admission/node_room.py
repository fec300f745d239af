"""Node room: what nodes have left by requests, and the rules by which they accept pods. Kernel.

Unlike plans, which also look at what pods use, this is what kube-scheduler will compare: allocatable less requests.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot
from advisor.remediation.fits import accepts
from advisor.remediation.pod_rules import NodeRules, PodRules, node_rules
from features.columnar.arrow_columns import floats
from features.contention.node_state import Facts, known_at
from features.schema.catalog import NAMES
from ingest.schema.tables import TIMESTAMP
from ingest.schema.workload_identity import ADVICE, is_advice

CPU, MEMORY = NAMES.index("cpu"), NAMES.index("memory")
ARRIVING_US = 300_000_000
"""Placements of so long ago are looked through for pods with advice."""
OF_NODES = ("labels", "taints", "zone")
LEFT = (("allocatable_cores", "cores"), ("allocatable_memory_bytes", "memory_bytes"), ("allocatable_pods",) * 2)
"""Columns of nodes by resource; the second counts where the first is null."""
LONGEST_NAME = 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""RFC 1123 subdomain, which names of nodes are."""
REQUESTED = ("cpu_request_cores", "memory_request_bytes")


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One node.

    Args:
        node: its name.
        labels: None where unknown.
        taints: as key=value:effect.
        zone: None where it declares none.
        cores: allocatable less requested; None where unknown. So are the others.
        memory_bytes: the same.
        pods: how many more; None without a limit.
        extended: pieces of extended resources, by name.
    """

    node: str
    labels: dict[str, str] | None = None
    taints: tuple[str, ...] = ()
    zone: str | None = None
    cores: float | None = None
    memory_bytes: float | None = None
    pods: float | None = None
    extended: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a pending pod requests and may be placed by.

    Args:
        rules: of the pod.
        cores: requested.
        memory_bytes: requested.
        extended: pieces of extended resources, by name.
    """

    rules: PodRules
    cores: float = 0.0
    memory_bytes: float = 0.0
    extended: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rooms:
    """All nodes of a cluster at a time.

    Args:
        cluster: its name.
        as_of_us: newest message behind it, microseconds since 1970.
        nodes: of the snapshot.
        arrived: node of each advised pod that the snapshot holds, by the id of its advice.
        counted: ids of advice of the pods whose requests are taken off, also of pods that no metric shows yet.
    """

    cluster: str
    as_of_us: int
    nodes: tuple[NodeRoom, ...]
    arrived: dict[str, str] = field(default_factory=dict)
    counted: frozenset[str] = frozenset()

    @cached_property
    def by_name(self) -> dict[str, tuple[NodeRoom, NodeRules]]:
        """Each node, and its rules as they are compared; without names that kube-apiserver rejects in a pod."""
        nodes = (one for one in self.nodes if len(one.node) <= LONGEST_NAME and _NAME.fullmatch(one.node))
        rows = ((one, {"labels": one.labels, "taints": list(one.taints), "zone": one.zone}) for one in nodes)
        return {one.node: (one, node_rules(one.node, row)) for one, row in rows}

    def takes(self, pod: Needs, name: str, assumed: Sequence[Needs] = ()) -> bool:
        """Whether kube-scheduler would accept a pod on a node by what is known; an unknown node takes none.

        Pods that are assumed there take up what they request, as no message counts it yet.
        """
        known = self.by_name.get(name)
        return known is not None and _has_room(known[0], pod, assumed) and accepts(pod.rules, known[1])


def rooms_by_use(snapshot: Snapshot) -> Rooms:
    """Nodes by the snapshot alone: capacity less use, and nothing known of labels, taints and extended resources.

    A node with a resident whose use is unknown has unknown room.
    """
    used = np.zeros_like(snapshot.node_capacity)
    np.add.at(used, np.repeat(np.arange(len(snapshot.nodes)), np.diff(snapshot.first)), snapshot.resident_use)
    left = np.where(snapshot.node_known[:, None], snapshot.node_capacity - used, np.nan)
    rows = zip(snapshot.nodes, _known(left[:, CPU]), _known(left[:, MEMORY]), strict=True)
    nodes = tuple(NodeRoom(node, cores=cores, memory_bytes=memory) for node, cores, memory in rows)
    return Rooms(snapshot.cluster, snapshot.as_of_us, nodes)


def node_rooms(snapshot: Snapshot, facts: Facts) -> Rooms:
    """Room and rules of a snapshot's nodes, by the newest rows of nodes and placements.

    Args:
        snapshot: which nodes, and when.
        facts: of nodes and placements.

    Returns:
        One entry per node. What a node does not report is None; a pod without a request counts 0, as kube-scheduler
        has it.

    Raises:
        Nothing.

    Source: Kubernetes documentation, "Resource Management for Pods and Containers: how Pods with resource requests are
        scheduled".
    """
    nodes = _newest(snapshot, facts.nodes, "node", snapshot.nodes)
    here = facts.placements.filter(pc.equal(facts.placements["cluster"], snapshot.cluster))
    uids = tuple(pc.unique(here["container"]).to_pylist())
    pods = _newest(snapshot, here, "container", uids).append_column("uid", pa.array(uids, pa.string()))
    pods = pods.filter(pc.is_in(pods["event"], pa.array(["add", "change"])))
    rows = np.array([snapshot.node_index.get(node, -1) for node in pods["node"].to_pylist()], np.int64)
    pods, rows = pods.filter(pa.array(rows >= 0)), rows[rows >= 0]
    left = [_known(column) for column in _left(nodes, pods, rows).T]
    described, extended = nodes.select(OF_NODES).to_pylist(), _extended(nodes, pods, rows)
    made = tuple(
        NodeRoom(
            node=name,
            labels=None if row["labels"] is None else dict(row["labels"]),
            taints=tuple(row["taints"] or ()),
            zone=row["zone"],
            cores=cores,
            memory_bytes=memory,
            pods=free,
            extended=pieces,
        )
        for name, row, cores, memory, free, pieces in zip(snapshot.nodes, described, *left, extended, strict=True)
    )
    advised = _advised(snapshot, pods)
    arrived = {advised[uid]: node for uid, node in snapshot.nodes_of(advised.keys()).items()}
    return Rooms(snapshot.cluster, snapshot.as_of_us, made, arrived, frozenset(advised.values()))


def _newest(snapshot: Snapshot, facts: pa.Table, key: str, names: Sequence[str]) -> pa.Table:
    clusters = pa.array([snapshot.cluster] * len(names), pa.string())
    keys = pa.table({"cluster": clusters, key: pa.array(names, pa.string())})
    return known_at(keys, np.full(len(names), snapshot.as_of_us), facts, ["cluster", key])


def _left(nodes: pa.Table, pods: pa.Table, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n, 3) cores, bytes of memory and pods that nodes have left; NaN where unknown."""
    has = np.column_stack([floats(pc.coalesce(nodes[first], nodes[second])) for first, second in LEFT])
    requested = np.zeros(has.shape)
    wanted = [np.nan_to_num(floats(pods[name])) for name in REQUESTED]
    np.add.at(requested, rows, np.column_stack([*wanted, np.ones(len(rows))]))
    return has - requested


def _extended(nodes: pa.Table, pods: pa.Table, rows: NDArray[np.int64]) -> list[dict[str, float]]:
    """Pieces of extended resources that nodes have left, by name."""
    found = [_amounts(row) for row in nodes["allocatable_extended"].to_pylist()]
    some = np.flatnonzero(np.asarray(pc.is_valid(pods["extended_requests"])))
    for at, wanted in zip(rows[some].tolist(), pods["extended_requests"].take(pa.array(some)).to_pylist(), strict=True):
        for name, amount in _amounts(wanted).items():
            found[at][name] = found[at].get(name, 0.0) - amount
    return found


def _amounts(row: object) -> dict[str, float]:
    """Amounts that are finite numbers; others are left out, since any sender writes this text."""
    found: dict[str, float] = {}
    for name, amount in dict(row).items() if isinstance(row, list | dict) else ():
        with suppress(ValueError, TypeError, OverflowError):
            found[name] = float(amount)
    return {name: amount for name, amount in found.items() if isfinite(amount)}


def _known(values: NDArray[np.float64]) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]


def _advised(snapshot: Snapshot, pods: pa.Table) -> dict[str, str]:
    """Id of the advice of each pod that came lately with one, by its uid."""
    since = pa.scalar(snapshot.as_of_us - ARRIVING_US, TIMESTAMP)
    lately = pods.filter(pc.greater_equal(pods["ts"], since)).select(["uid", "labels"]).to_pylist()
    said = ((row["uid"], dict(row["labels"] or ()).get(ADVICE)) for row in lately)
    return {uid: advice for uid, advice in said if advice and is_advice(advice)}


def _has_room(node: NodeRoom, pod: Needs, assumed: Sequence[Needs]) -> bool:
    if node.pods is not None and node.pods < 1 + len(assumed):
        return False
    taken = sum(one.cores for one in assumed), sum(one.memory_bytes for one in assumed)
    enough = all(
        wanted == 0 or (left is not None and left >= wanted + by_others)
        for left, wanted, by_others in zip(
            (node.cores, node.memory_bytes), (pod.cores, pod.memory_bytes), taken, strict=True
        )
    )
    return enough and all(
        node.extended.get(name, 0.0) >= wanted + sum(one.extended.get(name, 0.0) for one in assumed)
        for name, wanted in pod.extended.items()
    )
