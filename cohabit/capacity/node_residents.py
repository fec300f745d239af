"""Node residents: who is on which node at a time, since when, and what each requests. An edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import floats, micros
from features.columnar.group_means import group_codes
from features.contention.node_state import is_best_effort, is_delete, standing, undeleted
from features.jobs.lake_facts import facts_between
from features.metering.node_hours import FAILED, pools_of
from ingest.kube.quantity import parse_quantity
from ingest.lake.row_filter import microseconds
from ingest.lake.tables import Lake

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

RECENT = timedelta(minutes=15)
"""A container that no placement names is there while it was measured so recently."""
TICK = timedelta(microseconds=1)
CLOSED = frozenset({"node.kubernetes.io/unschedulable", *FAILED})
"""Taints of nodes that take no new pods."""
NEWEST = ["node", "container", "app", "qos", "window_end", "demand_cpu", "demand_memory"]
REQUESTS = {"cpu": "cpu_request_cores", "memory": "memory_request_bytes"}
REVOCABLE = {
    "cpu": ("kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu", "cohabit.io/revocable-cpu"),
    "memory": ("kubernetes.io/batch-memory", "kubernetes.io/mid-memory", "cohabit.io/revocable-memory"),
}
"""Extended resources that our exports and Koordinator offer; who requests one is revocable. CPU is in milli-cores."""
SCALE = {"cpu": 0.001, "memory": 1.0}
USES = {"cpu": "demand_cpu", "memory": "demand_memory"}
WHOLE = {"cpu": ("cores", "allocatable_cores"), "memory": ("memory_bytes", "allocatable_memory_bytes")}


@dataclass(frozen=True)
class Fleet:
    """The nodes of a cluster at a time.

    Args:
        names: (n,) sorted, each once.
        pool: (n,) of each.
        since_us: (n,) when each was described first, microseconds since 1970.
        closed: (n,) whether a taint keeps new pods away: it is cordoned, or failed.
        placed: whether placements say who is where, so that a node without any is known to be empty.
        whole: by resource, (n,) cores or bytes; NaN where not known.
        allocatable: by resource, (n,) cores or bytes that the scheduler may place; the whole where not known.
    """

    names: pa.Array
    pool: list[str]
    since_us: Ints
    closed: Flags
    placed: bool
    whole: dict[str, Floats]
    allocatable: dict[str, Floats]


@dataclass(frozen=True)
class NodeResidents:
    """Containers that are there at a time.

    Args:
        node: (k,) name of each one's node.
        container: (k,) its name in records.
        app: (k,) of each, null where not known.
        best_effort: (k,) whether it is revocable: BE, or it requests a resource of REVOCABLE.
        start_us: (k,) since when it is known to be on that node, microseconds since 1970.
        request: by resource, (k,) cores or bytes, of revocable resources too; NaN where it has none, or 0.
        use: by resource, (k,) share of the node in its newest minute; NaN where not measured lately.
    """

    node: pa.Array
    container: pa.Array
    app: pa.Array
    best_effort: Flags
    start_us: Ints
    request: dict[str, Floats]
    use: dict[str, Floats]


def fleet_at(lake: Lake, cluster: str, at: datetime) -> tuple[Fleet, NodeResidents]:
    """Nodes and residents of a cluster at a time, by placements and by what was measured.

    Raises:
        IngestError: the lake cannot be read.
    """
    end = at + TICK
    facts = facts_between(lake, end, end, ahead=False)
    newest = lake.read("node_state", at - RECENT, end, ["cluster", *NEWEST])
    newest = newest.filter(pc.equal(newest["cluster"], cluster)).sort_by("window_end")
    nodes, placements = (of.filter(pc.equal(of["cluster"], cluster)) for of in (facts.nodes, facts.placements))
    return _fleet(nodes, at, placed=placements.num_rows > 0), _residents(placements, newest, at)


def _fleet(events: pa.Table, at: datetime, *, placed: bool) -> Fleet:
    rows, _, until = standing(events, ["cluster", "node"])
    nodes = rows.filter(pa.array((until > microseconds(at)) & ~is_delete(rows))).sort_by("node")
    hour = pa.array([at.replace(minute=0, second=0, microsecond=0)] * nodes.num_rows, rows["ts"].type)
    pools = pools_of(nodes.select(["cluster", "node"]).append_column("hour", hour), undeleted(events))
    whole, allocatable = ({name: floats(nodes[of[number]]) for name, of in WHOLE.items()} for number in (0, 1))
    known = {name: np.where(np.isfinite(given), given, whole[name]) for name, given in allocatable.items()}
    first = rows.group_by(["node"]).aggregate([("ts", "min")])
    since = micros(first["ts_min"].take(pc.index_in(nodes["node"], value_set=first["node"].combine_chunks())))
    taints = [[taint.partition("=")[0].partition(":")[0] for taint in of or ()] for of in nodes["taints"].to_pylist()]
    closed = np.array([not CLOSED.isdisjoint(of) for of in taints], np.bool_)
    return Fleet(nodes["node"].combine_chunks(), pools.to_pylist(), since, closed, placed, whole, known)


def _residents(events: pa.Table, newest: pa.Table, at: datetime) -> NodeResidents:
    rows, since, until = standing(events, ["cluster", "container"])
    code = group_codes(rows, ["cluster", "container", "node"])
    first = np.full(int(code.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, code, np.minimum(since, micros(rows["ts"])))
    runs = np.flatnonzero((until > microseconds(at)) & ~is_delete(rows))
    placed = rows.take(pa.array(runs))
    reported = _last_of_each(newest)
    unplaced = reported.filter(pc.invert(pc.is_in(reported["container"], placed["container"].combine_chunks())))
    container = pa.concat_arrays([placed["container"].combine_chunks(), unplaced["container"].combine_chunks()])
    at_row = pc.index_in(container, value_set=reported["container"].combine_chunks())
    missing = np.full(unplaced.num_rows, np.nan)
    extended = [dict(amounts or ()) for amounts in placed["extended_requests"].to_pylist()]
    is_revocable = np.array([any(name in one for name in REVOCABLE["cpu"] + REVOCABLE["memory"]) for one in extended])
    return NodeResidents(
        node=pa.concat_arrays([placed["node"].combine_chunks(), unplaced["node"].combine_chunks()]),
        container=container,
        app=pa.concat_arrays([placed["app"].combine_chunks(), unplaced["app"].combine_chunks()]),
        best_effort=np.append(
            is_best_effort(placed["qos"]) | is_revocable.astype(np.bool_), is_best_effort(unplaced["qos"])
        ),
        start_us=np.append(first[code[runs]], np.full(unplaced.num_rows, microseconds(at - RECENT))),
        request={
            name: np.append(_requested(floats(placed[of]), extended, name), missing) for name, of in REQUESTS.items()
        },
        use={name: floats(reported[of].take(at_row)) for name, of in USES.items()},
    )


def _requested(native: Floats, extended: Sequence[Mapping[str, str]], name: str) -> Floats:
    """(k,) the larger of native and revocable requests; NaN where there is none above 0."""
    revocable = [max(_amount(one.get(of)) for of in REVOCABLE[name]) for one in extended]
    both = np.fmax(native, SCALE[name] * np.array(revocable, np.float64))
    return np.where(both > 0, both, np.nan)


def _amount(text: str | None) -> float:
    """A quantity as Kubernetes writes it; 0 where there is none, or none that can be read."""
    try:
        return max(0.0, float(parse_quantity(text or "0")))
    except (ValueError, OverflowError):
        return 0.0


def _last_of_each(newest: pa.Table) -> pa.Table:
    """The newest row of each container; rows are sorted by time."""
    numbered = newest.append_column("row", pa.array(np.arange(newest.num_rows)))
    last = numbered.group_by(["container"], use_threads=False).aggregate([("row", "max")])["row_max"]
    return newest.take(last)
