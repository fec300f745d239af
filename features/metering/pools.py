"""Pools: what is paid for together, what there was of each in an hour, and what it cost. Kernel."""

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Ints, micros
from features.columnar.asof_join import key_codes
from features.columnar.group_means import group_starts
from features.metering.node_hours import CAPACITY, HOUR_US, MINUTES, node_hours
from features.schema.errors import FeaturesError
from features.schema.tables import POOL_HOURS

OF_NODES = "nodes"
"""Source of a cost that is the nodes' own."""


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
        FeaturesError: bills of one pool and hour are in several.

    Source: ours, docs/decisions/0049-billing.md.
    """
    spent = node_hours(nodes, start_us, hours)
    end_us = start_us + hours * HOUR_US
    billed_us = micros(bills["hour"])
    bills = bills.filter(pa.array((billed_us >= start_us) & (billed_us < end_us))).combine_chunks()
    keys = ["cluster", "hour", "pool"]
    both = pa.concat_tables([spent.select(keys), bills.select(keys)], promote_options="permissive")
    codes = key_codes(both, both.slice(0, 0), keys)[0]
    order = np.argsort(codes, kind="stable")
    first = order[group_starts(codes[order])]
    return _pools(both.take(pa.array(first)), spent, codes[: spent.num_rows], bills, codes[spent.num_rows :])


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
            raise FeaturesError(
                f"bills {', '.join(sorted(found[group][0]))} name costs of the same pool and hour in "
                f"{', '.join(sorted(found[group][1]))}: nothing is converted; import them again in one currency"
            )
    return {group: (", ".join(sorted(names)), total) for group, (names, _, total) in found.items()}
