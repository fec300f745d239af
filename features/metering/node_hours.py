"""Node hours: of each node and hour its pool, how long it was there, what it had and what it cost. Kernel."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, Ints, floats, micros
from features.columnar.asof_join import key_codes
from features.columnar.composite_keys import ranks, rising
from features.columnar.group_means import group_starts
from features.columnar.windows import WINDOW_US
from features.contention.node_state import LANDED_IN, is_delete, known_at, undeleted
from features.metering.minute_grid import Bools
from ingest.schema.tables import TIMESTAMP

MINUTES = 60
HOUR_US = MINUTES * WINDOW_US
MICROS = 1_000_000
UNTOLD = "unknown"
"""Stands for an unknown class or site."""
CAPACITY = {
    "cpu": (("allocatable_cores", "cores"), 1.0),
    "gpu": (("gpus",), 1.0),
    "memory": (("allocatable_memory_bytes", "memory_bytes"), 2.0**-30),
}
"""By resource: the first of these columns that has a value is read; and units of the resource in one of its."""
FAILED = (
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/out-of-service",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
)
"""Taints of nodes that nothing may be placed on: they failed, or are under maintenance."""


def pool_names(nodes: pa.Table) -> pa.ChunkedArray:
    """Pool of each description of a node: `pool`, else `sku`, else `platform`; @; `zone`. UNTOLD for what is null."""
    kind = pc.coalesce(nodes["pool"], nodes["sku"], nodes["platform"], pa.scalar(UNTOLD))
    return pc.binary_join_element_wise(kind, pc.coalesce(nodes["zone"], pa.scalar(UNTOLD)), "@")


def pools_of(rows: pa.Table, nodes: pa.Table) -> pa.ChunkedArray:
    """Pool of each row's node, as it was described last by the end of the row's hour, whether it still is there or not.

    Args:
        rows: columns cluster, node and hour.
        nodes: rows of `nodes`, any order.
    """
    ends = micros(rows["hour"]) + HOUR_US - 1
    return pool_names(known_at(rows.select(["cluster", "node"]), ends, undeleted(nodes), ["cluster", "node"]))


def node_hours(nodes: pa.Table, start_us: int, hours: int) -> pa.Table:
    """What there was of each node, hour by hour.

    Args:
        nodes: rows of `nodes`, any order; those that are described once the hours are over do not count.
        start_us: start of the first hour, microseconds since 1970.
        hours: how many.

    Returns:
        Columns cluster, node, hour and pool, in the order of nodes and hours; minutes, at whose end the node had been
        described and was not deleted; failed_minutes, in which it was tainted as FAILED; and sums over minutes: cost
        (micro-units times minutes) and one column for each of CAPACITY (micro-unit-minutes), null where that of some
        minute is not known.

    Source: ours, docs/decisions/0049-billing.md, 0052-idle.md.
    """
    nodes = nodes.filter(pa.array(micros(nodes["ts"]) < start_us + hours * HOUR_US)).combine_chunks()
    codes = key_codes(nodes, nodes.slice(0, 0), ["cluster", "node"])[0]
    order = rising(codes, micros(nodes["ts"]), *(ranks(nodes[name]) for name in LANDED_IN))
    facts, codes = nodes.take(pa.array(order)), codes[order]
    row, hour, minutes = _by_hour(*_stretches(facts, codes, start_us, hours))
    rows = facts.take(pa.array(row))
    starts = group_starts(codes[row] * hours + hour)
    found = pa.table({"cluster": rows["cluster"], "node": rows["node"]}).take(pa.array(starts))
    found = found.append_column("hour", pa.array(start_us + hour[starts] * HOUR_US, TIMESTAMP))
    columns = {
        "pool": pools_of(found, nodes),
        "minutes": _sum(np.ones(len(row)), minutes, starts),
        "failed_minutes": _sum(_failed(rows).astype(np.float64), minutes, starts),
        "cost": _sum(floats(rows["cost_micros_per_hour"]), minutes, starts),
    }
    for name, (of, scale) in CAPACITY.items():
        value = floats(pc.coalesce(*(rows[column] for column in of))) * scale * MICROS
        columns[name] = _sum(np.rint(value), minutes, starts)
    return pa.table({**{name: found[name] for name in found.column_names}, **columns})


def _stretches(facts: pa.Table, codes: Ints, start_us: int, hours: int) -> tuple[Ints, Ints]:
    """(n,) of each description the minute, counted from the start, that it stands from and until."""
    since = np.clip((micros(facts["ts"]) - start_us) // WINDOW_US, 0, hours * MINUTES)
    same = np.append(np.diff(codes) == 0, [False])[: len(codes)]
    until = np.where(same, np.append(since[1:], [0])[: len(since)], hours * MINUTES)
    return since, np.where(is_delete(facts), since, until)


def _by_hour(since: Ints, until: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut stretches of minutes at hours: which stretch, which hour, how many minutes."""
    count = np.where(until > since, (until - 1) // MINUTES - since // MINUTES + 1, 0)
    row = np.repeat(np.arange(len(count)), count)
    hour = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + since[row] // MINUTES
    minutes = np.minimum(until[row], (hour + 1) * MINUTES) - np.maximum(since[row], hour * MINUTES)
    return row, hour, minutes


def _sum(value: Floats, minutes: Ints, starts: Ints) -> pa.Array:
    """Sums over minutes; null where the value of some minute is not known."""
    if not len(starts):
        return pa.array([], pa.int64())
    missing = np.add.reduceat(np.isnan(value), starts) > 0
    return pa.array(np.add.reduceat(np.nan_to_num(value).astype(np.int64) * minutes, starts), mask=missing)


def _failed(nodes: pa.Table) -> Bools:
    """(n,) which descriptions have a taint of FAILED."""
    failed = np.zeros(nodes.num_rows, np.bool_)
    taints = nodes["taints"].combine_chunks()
    keys = pc.list_element(pc.split_pattern_regex(taints.flatten(), "[=:]", max_splits=1), 0)
    of = np.asarray(pc.list_parent_indices(taints), np.int64)
    failed[of[np.asarray(pc.is_in(keys, pa.array(FAILED, pa.string())))]] = True
    return failed
