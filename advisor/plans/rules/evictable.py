"""Evictable: who is never moved (pinned, DaemonSet and bare pods, local storage, system, gangs), and why. Kernel.

`ingest.kube.pods.is_pinned` marks DaemonSet-owned, static and bare pods as pinned, and `has_local_storage` the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot
from advisor.plans.rules.plan_record import Identity
from advisor.remediation.migration_options import Room
from features.columnar.arrow_columns import floats, micros
from features.contention.node_state import Facts, known_at
from features.schema.catalog import NAMES

Floats = NDArray[np.float64]
REQUESTS = ("cpu_request_cores", "memory_request_bytes")
ALLOCATABLE = ("allocatable_cores", "allocatable_memory_bytes")
CAPACITY = ("cores", "memory_bytes")
USED = [NAMES.index("cpu"), NAMES.index("memory")]


@dataclass(frozen=True)
class Roster:
    """Residents as their orchestrator knows them.

    Args:
        identity: of each, by uid.
        left_alone: why a container is not moved, by uid.
        room: what nodes have left.
        began_us: when each was first reported, by uid: exporters date that to its start.
    """

    identity: Mapping[str, Identity]
    left_alone: Mapping[str, str]
    room: Room
    began_us: Mapping[str, int] = field(default_factory=dict)


def roster_of(snapshot: Snapshot, facts: Facts) -> Roster:
    """Residents of a snapshot, by what nodes and placements said until then.

    Args:
        snapshot: a cluster.
        facts: of nodes and placements.

    Returns:
        Their roster. A container without a description is not moved; one that requests nothing needs what it uses. A
        node has room where its capacity is known.

    Raises:
        Nothing.
    """
    nodes = _known(snapshot, facts.nodes, "node", snapshot.nodes)
    placed = _known(snapshot, facts.placements, "container", snapshot.containers)
    offered = np.column_stack([_either(nodes, *pair) for pair in zip(ALLOCATABLE, CAPACITY, strict=True)])
    request = np.column_stack([floats(placed[name]) for name in REQUESTS])
    needs = np.fmax(request, snapshot.resident_use[:, USED])
    promised = np.zeros(offered.shape)
    home = np.repeat(np.arange(len(snapshot.nodes)), np.diff(snapshot.first))
    np.add.at(promised, home, np.nan_to_num(needs))
    free = np.where(np.isfinite(offered) & snapshot.node_known[:, None], offered - promised, -np.inf)
    rows = placed.to_pylist()
    return Roster(
        identity={uid: _identity(uid, row) for uid, row in zip(snapshot.containers, rows, strict=True)},
        left_alone={uid: why for uid, row in zip(snapshot.containers, rows, strict=True) if (why := _why(row))},
        room=Room(free, np.nan_to_num(needs, nan=np.inf)),
        began_us=_began(snapshot, facts.placements),
    )


WANTED = (
    *("event", "namespace", "name", "app", "team", "qos", "disruption_budget", "pinned", "local_storage", "gang"),
    *REQUESTS,
)


def _known(snapshot: Snapshot, facts: pa.Table, key: str, names: tuple[str, ...]) -> pa.Table:
    keys = pa.table(
        {"cluster": pa.array([snapshot.cluster] * len(names), pa.string()), key: pa.array(names, pa.string())}
    )
    found = known_at(keys, np.full(len(names), snapshot.as_of_us), facts, ["cluster", key])
    return found.select([*ALLOCATABLE, *CAPACITY] if key == "node" else WANTED)


def _began(snapshot: Snapshot, placements: pa.Table) -> dict[str, int]:
    here = placements.filter(pc.equal(placements["cluster"], snapshot.cluster))
    first = here.group_by("container").aggregate([("ts", "min")])
    first_seen = dict(zip(first["container"].to_pylist(), micros(first["ts_min"]).tolist(), strict=True))
    return {uid: first_seen[uid] for uid in snapshot.containers if uid in first_seen}


def _either(rows: pa.Table, first: str, second: str) -> Floats:
    preferred, otherwise = floats(rows[first]), floats(rows[second])
    return np.where(np.isfinite(preferred), preferred, otherwise)


def _identity(uid: str, row: Mapping[str, object]) -> Identity:
    def text(name: str) -> str | None:
        value = row[name]
        return None if value is None else str(value)

    def number(name: str) -> float | None:
        value = row[name]
        return value if isinstance(value, float) else None

    return Identity(
        container=uid,
        namespace=text("namespace"),
        name=text("name"),
        app=text("app"),
        team=text("team"),
        best_effort=text("qos") == "BE",
        budget=text("disruption_budget"),
        cpu_request_cores=number("cpu_request_cores"),
        memory_request_bytes=number("memory_request_bytes"),
    )


def _why(row: Mapping[str, object]) -> str:
    """Why a container is not moved; empty where nothing speaks against it."""
    if row["event"] is None:
        return "it has no description on topic placements"
    if row["qos"] == "SYSTEM":
        return "it is a system container"
    if row["pinned"]:
        return "it is pinned"
    if row["local_storage"]:
        return "it has data on its node"
    return "it belongs to a gang that is scheduled as a whole" if row["gang"] else ""
