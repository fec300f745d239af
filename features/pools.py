"""Pools: what is paid for together, what there was of each in an hour, and what it cost. Kernel."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.arrow import Floats, Ints, floats, micros
from features.asof import key_codes
from features.errors import MixedCurrencies
from features.grouping import group_starts
from features.node_state import LANDED_IN, known_at
from features.order import ranks, rising
from features.tables import POOL_HOURS
from features.windows import WINDOW_US
from ingest.schema import TIMESTAMP

MINUTES = 60
HOUR_US = MINUTES * WINDOW_US
MICROS = 1_000_000
UNTOLD = "unknown"
"""Stands for the class or the site that nobody told."""
OF_NODES = "nodes"
"""Source of a cost that is the nodes' own."""
CAPACITY = {
    "cpu": (("allocatable_cores", "cores"), 1.0),
    "gpu": (("gpus",), 1.0),
    "memory": (("allocatable_memory_bytes", "memory_bytes"), 2.0**-30),
}
"""By resource: the first of these columns that is told, and units of the resource in one of its."""


def pool_names(nodes: pa.Table) -> pa.ChunkedArray:
    """Pool of each description of a node: `pool`, else `sku`, else `platform`; @; `zone`. UNTOLD for what is null."""
    kind = pc.coalesce(nodes["pool"], nodes["sku"], nodes["platform"], pa.scalar(UNTOLD))
    return pc.binary_join_element_wise(kind, pc.coalesce(nodes["zone"], pa.scalar(UNTOLD)), "@")


def pools_of(rows: pa.Table, nodes: pa.Table) -> pa.ChunkedArray:
    """Pool of each row's node, as it was described by the end of the row's hour.

    Args:
        rows: columns cluster, node and hour.
        nodes: rows of `nodes`, any order.
    """
    ends = micros(rows["hour"]) + HOUR_US - 1
    return pool_names(known_at(rows.select(["cluster", "node"]), ends, nodes, ["cluster", "node"]))


def pool_hours(nodes: pa.Table, bills: pa.Table, start_us: int, hours: int) -> pa.Table:
    """What there was of each pool, and what it cost.

    Args:
        nodes: rows of `nodes` described before the hours end, any order.
        bills: rows of `bills`.
        start_us: start of the first hour, microseconds since 1970.
        hours: how many.

    Returns:
        Table `pool_hours`, sorted by its key. A node is there in every minute at whose end it had been described, and
        has what the newest description by then says; all of a node's hour is in the pool that it is in at its end.
        The cost is that of all node-minutes together, rounded down to a micro-unit; whole hours are exact. It is null
        where a node that was there has no cost. What bills say of a pool and hour takes the place of that.

    Raises:
        MixedCurrencies: bills of one pool and hour are in several.

    Source: ours, docs/decisions/0049-billing.md.
    """
    spent = _spent(nodes, start_us, hours)
    end_us = start_us + hours * HOUR_US
    billed_us = micros(bills["hour"])
    bills = bills.filter(pa.array((billed_us >= start_us) & (billed_us < end_us))).combine_chunks()
    keys = ["cluster", "hour", "pool"]
    both = pa.concat_tables([spent.select(keys), bills.select(keys)], promote_options="permissive")
    codes = key_codes(both, both.slice(0, 0), keys)[0]
    order = np.argsort(codes, kind="stable")
    first = order[group_starts(codes[order])]
    return _pools(both.take(pa.array(first)), spent, codes[: spent.num_rows], bills, codes[spent.num_rows :])


def _spent(nodes: pa.Table, start_us: int, hours: int) -> pa.Table:
    """By node and hour: its pool, minutes, and sums over minutes of cost and capacity, null where one is not told."""
    nodes = nodes.filter(pa.array(micros(nodes["ts"]) < start_us + hours * HOUR_US)).combine_chunks()
    codes = key_codes(nodes, nodes.slice(0, 0), ["cluster", "node"])[0]
    order = rising(codes, micros(nodes["ts"]), *(ranks(nodes[name]) for name in LANDED_IN))
    told, codes = nodes.take(pa.array(order)), codes[order]
    since = np.clip((micros(told["ts"]) - start_us) // WINDOW_US, 0, hours * MINUTES)
    same = np.append(np.diff(codes) == 0, [False])[: len(codes)]
    until = np.where(same, np.append(since[1:], [0])[: len(since)], hours * MINUTES)
    row, hour, minutes = _by_hour(since, until)
    rows = told.take(pa.array(row))
    node_hour = codes[row] * hours + hour
    starts = group_starts(node_hour)
    hour_us = pa.array(start_us + hour[starts] * HOUR_US, TIMESTAMP)
    found = pa.table({"cluster": rows["cluster"], "node": rows["node"]}).take(pa.array(starts))
    found = found.append_column("hour", hour_us)
    columns = {"cost": _sum(floats(rows["cost_micros_per_hour"]), minutes, starts)}
    for name, (of, scale) in CAPACITY.items():
        value = floats(pc.coalesce(*(rows[column] for column in of))) * scale * MICROS
        columns[name] = _sum(np.rint(value), minutes, starts)
    pool = pools_of(found, nodes)
    return pa.table({"cluster": found["cluster"], "hour": found["hour"], "pool": pool, **columns})


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


def _pools(keys: pa.Table, spent: pa.Table, of_node: Ints, bills: pa.Table, of_bill: Ints) -> pa.Table:
    """Table `pool_hours`: one row for each of the keys, whose codes count from 0."""
    count = keys.num_rows
    cost, unpriced = _total(spent["cost"], of_node, count)
    nodes = np.bincount(of_node, minlength=count)
    sources: list[str | None] = [OF_NODES if nodes[i] and not unpriced[i] else None for i in range(count)]
    costs: list[int | None] = [cost[i] // MINUTES if sources[i] else None for i in range(count)]
    for i, (source, amount) in _billed(bills, of_bill).items():
        sources[i], costs[i] = source, amount
    capacity: list[list[tuple[str, int]]] = [[] for _ in range(count)]
    for name in CAPACITY:
        whole, _ = _total(spent[name], of_node, count)
        known = np.bincount(of_node[np.asarray(spent[name].is_valid())], minlength=count)
        for i in np.flatnonzero(known).tolist():
            capacity[i].append((name, whole[i]))
    facts = {"nodes": nodes, "cost_micros": costs, "cost_source": sources, "capacity": capacity}
    columns = {**{name: keys[name] for name in keys.column_names}, **facts}
    found = [pa.array(columns[f.name], f.type) if f.name in facts else columns[f.name] for f in POOL_HOURS.schema]
    return pa.table(found, schema=POOL_HOURS.schema).sort_by([(name, "ascending") for name in POOL_HOURS.key])


def _total(column: pa.ChunkedArray, of: Ints, count: int) -> tuple[list[int], list[bool]]:
    """Sums of a column by group, and whether something of it is not known."""
    missing = np.asarray(column.is_null())
    total = np.zeros(count, np.int64)
    np.add.at(total, of, np.asarray(column.fill_null(0).to_numpy(), np.int64))
    return total.tolist(), (np.bincount(of[missing], minlength=count) > 0).tolist()


def _billed(bills: pa.Table, of: Ints) -> dict[int, tuple[str, int]]:
    """By group: which bills, and what they say."""
    found: dict[int, tuple[set[str], set[str], int]] = {}
    rows = zip(of.tolist(), *(bills[name].to_pylist() for name in ("bill", "currency", "cost_micros")), strict=True)
    for group, bill, currency, amount in rows:
        names, currencies, total = found.get(group, (set(), set(), 0))
        found[group] = (names | {bill}, currencies | {currency}, total + amount)
        if len(found[group][1]) > 1:
            raise MixedCurrencies(sorted(found[group][0]), sorted(found[group][1]))
    return {group: (", ".join(sorted(names)), total) for group, (names, _, total) in found.items()}
