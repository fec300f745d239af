"""Node state: what each container did in a minute, and how hard its neighbours pressed. Kernel.

The one definition behind the batch job, the stream and the live refresher.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, floats, micros, numbers, side_by_side, table
from features.columnar.asof_join import key_codes, newest_known, stands_until
from features.columnar.group_means import group_codes, group_starts
from features.columnar.windows import LATENESS_US, in_time
from features.contention.container_windows import IDENTITY, ContainerWindows, container_windows, demand_columns
from features.contention.neighbour_mix import Details, composition
from features.contention.pressure import PRESSURE_COLUMNS, Members, pressures
from features.schema.catalog import COMPOSITION, NAMES, RESOURCES
from features.schema.tables import NODE_STATE
from ingest.schema.tables import UNKNOWN_NODE

NODE_FACTS = ["platform", "smt", "numa_nodes", *dict.fromkeys(r.capacity for r in RESOURCES)]
GPU = NAMES.index("gpu")
LANDED_IN = ("arrived_at", "topic", "partition", "offset")
"""Orders events of the same time, the same way on every run."""
INFERRED = "inferred"
"""Topic of events that no record says, see `lifetimes`."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of nodes and placements besides usage: tables `nodes` and `placements`, any row order."""

    nodes: pa.Table
    placements: pa.Table


def node_state(samples: pa.Table, facts: Facts, *, lateness_us: int = LATENESS_US) -> pa.Table:
    """Means and neighbour pressure of every container in every one-minute window.

    Args:
        samples: rows of table `usage`, whole node-windows, any order, duplicates allowed.
        facts: nodes (capacities) and placements (cpusets, identity); the newest by the window's end is used.
        lateness_us: samples that arrived later than this after their time are left out.

    Returns:
        Table `node_state`, sorted by cluster, node, window, container. Means are weighted by interval and leave out
        what is missing; a signal never measured stays missing. Shares of a capacity that is not known are missing.

    Source: ours; the lateness and duplicate rules are those of docs/decisions/0002-landing.md.
    """
    counted = in_time(samples, lateness_us)
    if not counted.num_rows:
        return NODE_STATE.schema.empty_table()
    return _with_features(container_windows(counted), facts)


def _with_features(windows: ContainerWindows, facts: Facts) -> pa.Table:
    """Table `node_state`, of containers' own windows."""
    rows, group = windows.rows, windows.group
    node = _nodes_at(rows, group, facts.nodes)
    placed = known_at(rows, micros(rows["window_end"]), facts.placements, ["cluster", "container"])
    identity = {c: pc.coalesce(rows[c].cast(pa.string()), placed[c]) for c in IDENTITY}
    windows = _without_gpus(windows, placed)
    rows = windows.rows
    members = Members(
        group=group,
        use=windows.use,
        capacity=capacities(node),
        best_effort=is_best_effort(identity["qos"]),
        cpuset=placed["cpuset"].to_pylist(),
    )
    details = Details(
        peak=windows.peak,
        run_delay=floats(rows["run_delay_frac"]),
        smt=floats(node["smt"]),
        numa_nodes=floats(node["numa_nodes"]),
        numa_node=floats(placed["numa_node"]),
    )
    pressure = _nowhere_missing(pressures(members), rows)
    columns: dict[str, object] = {c: rows[c] for c in rows.column_names}
    columns |= {**identity, "platform": node["platform"]}
    columns |= demand_columns(members.use, details.peak, members.capacity)
    columns |= dict(zip(PRESSURE_COLUMNS, pressure.T, strict=True))
    by_resource = pressure[:, : len(NAMES)]
    columns |= dict(zip(COMPOSITION, _nowhere_missing(composition(members, by_resource, details), rows).T, strict=True))
    return table({**columns, "missing": missing_mask(by_resource)}, NODE_STATE.schema)


def _without_gpus(windows: ContainerWindows, placed: pa.Table) -> ContainerWindows:
    """The windows, with a use of 0 by containers that requested no GPU, where another's on the node was measured.

    Exporters say nothing of a container without a GPU.
    """
    measured = np.isfinite(windows.use[:, GPU])
    none = np.asarray(pc.fill_null(pc.equal(placed["gpu_request"], 0.0), fill_value=False), np.bool_)
    idle = none & ~measured & (np.bincount(windows.group, measured) > 0)[windows.group]
    if not idle.any():
        return windows
    use, peak = windows.use.copy(), windows.peak.copy()
    use[idle, GPU] = peak[idle, GPU] = 0.0
    column = RESOURCES[GPU].usage[0]
    place = windows.rows.schema.get_field_index(column)
    return windows._replace(rows=windows.rows.set_column(place, column, numbers(use[:, GPU])), use=use, peak=peak)


def _nowhere_missing(columns: Floats, rows: pa.Table) -> Floats:
    """The columns, NaN for containers whose node is not known: they are neighbours of no container."""
    nowhere = np.asarray(pc.equal(rows["node"], UNKNOWN_NODE))
    return np.where(nowhere[:, None], np.nan, columns) if nowhere.any() else columns


def missing_mask(pressure: Floats) -> Ints:
    """(n,) bit i is set where the pressure of the catalogue's resource i is not known."""
    return np.asarray(np.isnan(pressure) @ (1 << np.arange(pressure.shape[1])), np.int64)


def _nodes_at(rows: pa.Table, group: Ints, nodes: pa.Table) -> pa.Table:
    """The node of each row as described by its window's end, found once for each node-window."""
    first = rows.take(pa.array(group_starts(group))).select(["cluster", "node", "window_end"])
    found = known_at(first, micros(first["window_end"]), nodes, ["cluster", "node"])
    return found.select(NODE_FACTS).take(pa.array(group))


def resource_use(rows: pa.Table) -> Floats:
    """(n, resources) use of each resource in absolute units; NaN where a usage column behind it is missing."""
    return side_by_side([np.sum([floats(rows[c]) for c in r.usage], axis=0) for r in RESOURCES])


def capacities(nodes: pa.Table) -> Floats:
    """(n, resources) what each node has of each resource; NaN where not known, or zero."""
    known = side_by_side([floats(nodes[r.capacity]) for r in RESOURCES])
    return np.where(known > 0, known, np.nan)


def is_best_effort(qos: pa.ChunkedArray) -> NDArray[np.bool_]:
    """(n,) whether the class is BE; a missing class is not."""
    return np.asarray(pc.fill_null(pc.equal(qos, "BE"), fill_value=False).to_numpy(), np.bool_)


def known_at(left: pa.Table, left_us: Ints, right: pa.Table, keys: list[str]) -> pa.Table:
    """The newest right row of the same keys with `ts` not after each left row's time; all null where there is none.

    Of right rows with equal keys and `ts` the last one landed counts, whatever their order here.
    """
    by = [(c, "ascending") for c in ("ts", *LANDED_IN) if c in right.column_names]
    order = np.asarray(pc.sort_indices(right.select([c for c, _ in by]), by)).astype(np.int64)
    left_key, right_key = key_codes(left, right, keys)
    found = newest_known(left_key, left_us, right_key[order], micros(right["ts"])[order])
    rows = np.append(order, 0)[found]
    return right.take(pa.array(rows, mask=found < 0)).combine_chunks()


def known_by(left: pa.Table, left_us: Ints, right: pa.Table, keys: list[str]) -> pa.Table:
    """As known_at, but a right row also must have arrived by each left row's time."""
    ordered, since, until = standing(right, keys)
    stood = np.flatnonzero(since < until)
    left_key, right_key = key_codes(left, ordered, keys)
    found = newest_known(left_key, left_us, right_key[stood], since[stood])
    rows = np.append(stood, -1)[found]
    return ordered.take(pa.array(rows, mask=rows < 0))


def is_delete(events: pa.Table) -> NDArray[np.bool_]:
    """(n,) which rows of `nodes` or `placements` are deletions; one without an event is none."""
    return np.asarray(pc.fill_null(pc.equal(events["event"], "delete"), fill_value=False).to_numpy(), np.bool_)


def undeleted(events: pa.Table) -> pa.Table:
    """The rows of `nodes` or `placements` that are no deletions."""
    return events.filter(pa.array(~is_delete(events)))


def standing(events: pa.Table, keys: list[str]) -> tuple[pa.Table, Ints, Ints]:
    """Landed events in the order in which they happened, key by key, and from when until when each stood.

    Returns:
        The rows, (n,) since when each was known to hold, and (n,) until when it was the newest of its key.
    """
    ordered = events.sort_by([(c, "ascending") for c in (*keys, "ts", *LANDED_IN)]).combine_chunks()
    since = np.maximum(micros(ordered["ts"]), micros(ordered["arrived_at"]))
    return ordered, since, stands_until(group_codes(ordered, keys), since)
