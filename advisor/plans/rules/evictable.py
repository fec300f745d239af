"""Evictable: who is never moved (pinned, DaemonSet and bare pods, local storage, system, bare gangs), and why. Kernel.

`ingest.kube.pods.is_pinned` marks DaemonSet-owned, static and bare pods as pinned, and `has_local_storage` the others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot
from advisor.optimizer.assignment_cost import homes
from advisor.plans.rules.plan_record import Identity
from advisor.remediation.pod_neighbours import Occupancy
from advisor.remediation.pod_rules import node_rules, pod_rules
from advisor.remediation.room import Room
from features.columnar.arrow_columns import floats, micros
from features.contention.node_state import Facts, known_at
from features.schema.catalog import NAMES
from ingest.schema.tables import LANDED

Floats = NDArray[np.float64]
REQUESTS = ("cpu_request_cores", "memory_request_bytes")
ALLOCATABLE = ("allocatable_cores", "allocatable_memory_bytes")
CAPACITY = ("cores", "memory_bytes")
OFFERED = (*ALLOCATABLE, *CAPACITY, "gpus", "allocatable_pods", "allocatable_extended", "labels", "taints", "zone")
USED = [NAMES.index("cpu"), NAMES.index("memory")]


@dataclass(frozen=True)
class Roster:
    """Residents as their orchestrator knows them.

    Args:
        identity: of each, by uid.
        left_alone: why a container is not moved, by uid.
        room: what nodes have left.
        began_us: when each was first reported, by uid: exporters date that to its start.
        allowed: disruptions that its disruption budget allows, by uid, where that is known.
        gangs: of residents that belong to one, by uid.
        spare: pods of each gang beyond its minimum.
    """

    identity: Mapping[str, Identity]
    left_alone: Mapping[str, str]
    room: Room
    began_us: Mapping[str, int] = field(default_factory=dict)
    allowed: Mapping[str, int] = field(default_factory=dict)
    gangs: Mapping[str, str] = field(default_factory=dict)
    spare: Mapping[str, int] = field(default_factory=dict)


def roster_of(snapshot: Snapshot, facts: Facts) -> Roster:
    """Residents of a snapshot, by what nodes and placements said until then.

    Args:
        snapshot: a cluster.
        facts: of nodes and placements.

    Returns:
        Their roster. A container without a description is not moved; one that requests nothing needs what it uses. A
        node has room where its capacity is known; pods that run there without being measured count too.

    Raises:
        Nothing.
    """
    placed = _known(snapshot, facts.placements, "container", snapshot.containers)
    rows, unmeasured = placed.to_pylist(), _unmeasured(snapshot, facts.placements)
    spare = spare_of([*rows, *unmeasured.to_pylist()])
    return Roster(
        identity={uid: _identity(uid, row) for uid, row in zip(snapshot.containers, rows, strict=True)},
        left_alone={uid: why for uid, row in zip(snapshot.containers, rows, strict=True) if (why := _why(row, spare))},
        room=_room(snapshot, facts.nodes, placed, unmeasured),
        began_us=_began(snapshot, facts.placements),
        allowed=_allowed(snapshot.containers, placed),
        gangs={uid: row["gang"] for uid, row in zip(snapshot.containers, rows, strict=True) if row["gang"]},
        spare=spare,
    )


WANTED = (
    *("event", "node", "namespace", "name", "app", "team", "qos", "disruption_budget", "pinned", "local_storage"),
    *("disruptions_allowed", "gang", "gang_minimum", "gpu_request", "tolerations", "affinity", "labels"),
    *("volume_claims", "extended_requests"),
    *REQUESTS,
)


def _room(snapshot: Snapshot, described: pa.Table, placed: pa.Table, unmeasured: pa.Table) -> Room:
    """Capacity left on nodes, and the rules of pods and nodes."""
    nodes = _known(snapshot, described, "node", snapshot.nodes)
    offered = np.column_stack([_either(nodes, *pair) for pair in zip(ALLOCATABLE, CAPACITY, strict=True)])
    use = np.concatenate([snapshot.resident_use[:, USED], np.full((unmeasured.num_rows, 2), np.nan)])
    everyone = pa.concat_tables([placed, unmeasured.select(placed.column_names)])
    needs = np.fmax(np.column_stack([floats(everyone[name]) for name in REQUESTS]), use)
    gpus, pods = np.nan_to_num(floats(nodes["gpus"])), np.nan_to_num(floats(nodes["allocatable_pods"]), nan=np.inf)
    extended, more_offered, more_needs = _extended(nodes, everyone)
    offered = np.column_stack([offered, gpus, pods, more_offered])
    needs = np.column_stack([needs, np.nan_to_num(floats(everyone["gpu_request"])), np.ones(len(needs)), more_needs])
    row_of = snapshot.node_index
    home = np.append(homes(snapshot), [row_of[node] for node in unmeasured["node"].to_pylist()]).astype(np.int64)
    promised = np.zeros(offered.shape)
    np.add.at(promised, home, np.nan_to_num(needs))
    known = np.isfinite(offered[:, :2]).all(axis=1, keepdims=True) & snapshot.node_known[:, None]
    uids = (*snapshot.containers, *unmeasured["container"].to_pylist())
    occupancy = Occupancy(
        tuple(node_rules(name, row) for name, row in zip(snapshot.nodes, _rows(nodes), strict=True)),
        dict(zip(uids, map(pod_rules, _rows(everyone)), strict=True)),
        {uid: (row,) for uid, row in zip(uids, home.tolist(), strict=True)},
    )
    mine = np.nan_to_num(needs[: len(snapshot.containers)], nan=np.inf, posinf=np.inf)
    return Room(np.where(known, offered - promised, -np.inf), mine, snapshot.containers, occupancy, extended)


def _extended(nodes: pa.Table, pods: pa.Table) -> tuple[tuple[str, ...], Floats, Floats]:
    """Extended resources that pods request; (n, r) what nodes have, inf where they do not say; (m, r) requests."""
    has, wants = (_numbers(of) for of in (nodes["allocatable_extended"], pods["extended_requests"]))
    names = tuple(sorted({name for row in wants for name in row or {}}))
    offered = [[np.inf if row is None else row.get(name, 0.0) for name in names] for row in has]
    needs = [[(row or {}).get(name, 0.0) for name in names] for row in wants]
    return names, np.array(offered).reshape(len(has), -1), np.array(needs).reshape(len(wants), -1)


def _numbers(column: pa.ChunkedArray) -> list[dict[str, float] | None]:
    rows = column.to_pylist()
    return [None if row is None else {name: float(amount) for name, amount in dict(row).items()} for row in rows]


def _rows(table: pa.Table) -> list[dict[str, object]]:
    """Rows as the rules of pods and nodes are read from them."""
    return list(table.to_pylist())


def _unmeasured(snapshot: Snapshot, placements: pa.Table) -> pa.Table:
    """Newest placements of containers on the snapshot's nodes that are not in it and have not ended."""
    here = placements.filter(pc.equal(placements["cluster"], snapshot.cluster))
    others = pc.invert(pc.is_in(here["container"], pa.array(snapshot.containers, pa.string())))
    names = tuple(sorted(pc.unique(here["container"].filter(others)).to_pylist()))
    found = _known(snapshot, placements, "container", names).append_column("container", pa.array(names, pa.string()))
    runs = pc.and_(
        pc.is_in(found["event"], pa.array(["add", "change"])), pc.is_in(found["node"], pa.array(snapshot.nodes))
    )
    return found.filter(runs)


def _known(snapshot: Snapshot, facts: pa.Table, key: str, names: tuple[str, ...]) -> pa.Table:
    """The newest row of each name; columns that older inputs of plans do not have are null."""
    keys = pa.table(
        {"cluster": pa.array([snapshot.cluster] * len(names), pa.string()), key: pa.array(names, pa.string())}
    )
    wanted = OFFERED if key == "node" else WANTED
    table, schema = facts, LANDED["nodes" if key == "node" else "placements"].schema
    for name in set(wanted) - set(facts.column_names):
        table = table.append_column(schema.field(name), pa.nulls(facts.num_rows, schema.field(name).type))
    return known_at(keys, np.full(len(names), snapshot.as_of_us), table, ["cluster", key]).select(wanted)


def _began(snapshot: Snapshot, placements: pa.Table) -> dict[str, int]:
    here = placements.filter(pc.equal(placements["cluster"], snapshot.cluster))
    first = here.group_by("container").aggregate([("ts", "min")])
    first_seen = dict(zip(first["container"].to_pylist(), micros(first["ts_min"]).tolist(), strict=True))
    return {uid: first_seen[uid] for uid in snapshot.containers if uid in first_seen}


def _allowed(uids: Sequence[str], placed: pa.Table) -> dict[str, int]:
    numbers = placed["disruptions_allowed"].to_pylist()
    return {uid: number for uid, number in zip(uids, numbers, strict=True) if number is not None}


def spare_of(rows: Sequence[Mapping[str, object]]) -> dict[str, int]:
    """Pods that run beyond what each gang needs, by gang; without one that does not say what it needs."""
    running, minima = Counter[str](), dict[str, int]()
    for row in rows:
        gang, minimum = row["gang"], row["gang_minimum"]
        if gang is not None and row["event"] in {"add", "change"}:
            running[str(gang)] += 1
            if isinstance(minimum, int):
                minima[str(gang)] = max(minimum, minima.get(str(gang), 0))
    return {gang: running[gang] - minimum for gang, minimum in minima.items()}


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


def _why(row: Mapping[str, object], spare: Mapping[str, int]) -> str:
    """Why a container is not moved; empty where nothing speaks against it."""
    if row["event"] is None:
        return "it has no description on topic placements"
    if row["qos"] == "SYSTEM":
        return "it is a system container"
    if row["pinned"]:
        return "it is pinned"
    if row["local_storage"]:
        return "it has data on its node"
    return _why_not_now(row, spare)


def _why_not_now(row: Mapping[str, object], spare: Mapping[str, int]) -> str:
    """Why its disruption budget or gang cannot spare a container; empty where they can."""
    if row["disruption_budget"] is not None and row["disruptions_allowed"] == 0:
        return f"its disruption budget {row['disruption_budget']} allows no disruption"
    gang = row["gang"]
    if gang and str(gang) not in spare:
        return f"its gang {gang} is scheduled as a whole, and its minimum is not known"
    return below_minimum(str(gang)) if gang and spare[str(gang)] <= 0 else ""


def below_minimum(gang: str) -> str:
    """Why a pod of a gang is not moved that has no pod to spare."""
    return f"its gang {gang} would fall below its minimum"
