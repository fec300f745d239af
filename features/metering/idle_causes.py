"""Idle: capacity of nodes that no container took, and for which cause. Kernel.

A node is failed, or waits for its first container, or has one resource left over that nothing can use because another
one is gone. What is free for none of these causes is headroom; that is the remainder, and not in the table.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, Ints, floats, micros
from features.columnar.asof_join import key_codes, row_of
from features.columnar.group_means import group_codes
from features.contention.node_state import Facts
from features.metering.minute_grid import Bools
from features.metering.node_hours import node_hours
from features.metering.units import HOUR_US, Hours
from features.schema.tables import IDLE

SHARED = ("cpu", "memory", "gpu")
"""What is stranded. Nothing runs without the first two; those that need no GPU do without one."""
NODE_HOUR = ["cluster", "node", "hour"]
TAKEN = [*NODE_HOUR, "team", "qos", "resource", "requested", "beyond"]
"""Columns of metered that are read here."""
TOUCHED = ["cluster", "node", "ts", "event", "qos"]
"""Columns of placements that are."""
DAY_US = 24 * HOUR_US
LEAD_TIME_US = 14 * DAY_US
"""So long after it came a node without a container was bought ahead; after that, it is headroom."""
ROUNDED = 1e-9
"""Fractions so near each other are the same."""


@dataclass(frozen=True)
class _Free:
    """What is free on nodes, hour by hour.

    Args:
        there: rows of features.metering.node_hours.
        capacity: (n, resources) micro-unit-minutes; NaN where not known.
        taken: (n, resources) the same.
        of: (m,) place in `there` of what a team took on a node.
        team: (m,) the team that took it; null for none.
        own: (m, resources) what that was.
    """

    there: pa.Table
    capacity: Floats
    taken: Ints
    of: Ints
    team: pa.ChunkedArray
    own: Ints


def idle_hours(facts: Facts, metered: pa.Table, hours: Hours) -> pa.Table:
    """Idle capacity with a known cause, hour by hour.

    Args:
        facts: nodes and placements of all times before the hours end, any order.
        metered: rows of table `metered` of the hours (others are skipped), any order.
        hours: which.

    Returns:
        Table `idle`, sorted by its key; quantities of 0 are left out. What a container took is the larger one of
        request and use, minute by minute.

        - failure: what is free on a node in minutes in which it is tainted as features.metering.node_hours.FAILED;
        - lead_time: all of a node that no container was ever placed on (but those of the system) and that came within
          LEAD_TIME_US, more than a day after the first node of its cluster was described;
        - stranded: on other nodes, the share of cores that is free beyond the share of memory, or the other way round,
          and of GPUs what is free beyond the smaller of both. A team's part is what would not be stranded without it,
          scaled down where parts exceed the whole; what no team adds belongs to no team.

        A resource of which a node's capacity is not known is no part of it.

    Source: ours, docs/decisions/0052-idle.md.
    """
    metered = metered.select(TAKEN)
    free = _free(node_hours(facts.nodes, hours.start_us, hours.count), metered)
    left = np.maximum(np.nan_to_num(free.capacity) - free.taken, 0.0)
    failed_part = (_whole(free.there["failed_minutes"]) / _whole(free.there["minutes"]))[:, None]
    failed = np.rint(left * failed_part)
    ahead = _ahead(free.there, facts, metered)[:, None]
    beyond = _stranded(free.capacity, free.taken)
    stranded = np.where(ahead, 0.0, np.rint(beyond * (1.0 - failed_part)))
    rows = [
        *_rows(free, "failure", failed),
        *_rows(free, "lead_time", np.where(ahead, left - failed, 0.0)),
        *_rows(free, "stranded", stranded, _added(free, beyond, stranded)),
    ]
    return pa.Table.from_pylist(rows, IDLE.schema).sort_by([(name, "ascending") for name in IDLE.key])


def _free(there: pa.Table, metered: pa.Table) -> _Free:
    """Node by node, and of each what each team took."""
    resource = pc.index_in(metered["resource"], pa.array(SHARED))
    rows = metered.append_column("which", resource).filter(pc.is_valid(resource))
    node, of = key_codes(there, rows, NODE_HOUR)
    place = row_of(of, node)
    rows, place = rows.filter(pa.array(place >= 0)).combine_chunks(), place[place >= 0]
    by = group_codes(rows, [*NODE_HOUR, "team"])
    first = np.unique(by, return_index=True)[1]
    own = np.zeros((len(first), len(SHARED)), np.int64)
    np.add.at(own, (by, _whole(rows["which"])), _whole(rows["requested"]) + _whole(rows["beyond"]))
    taken = np.zeros((there.num_rows, len(SHARED)), np.int64)
    np.add.at(taken, place[first], own)
    capacity = np.stack([floats(there[name]) for name in SHARED], axis=1)
    return _Free(there, capacity, taken, place[first], rows["team"].take(pa.array(first)), own)


def _ahead(there: pa.Table, facts: Facts, metered: pa.Table) -> Bools:
    """(n,) which nodes came not long ago, and wait for their first container."""
    keys = ["cluster", "node"]
    ends = micros(there["hour"]) + HOUR_US
    came, began = (_first(there, facts.nodes, by) for by in (keys, ["cluster"]))
    touched = _first(there, _of_teams(facts.placements.filter(pc.not_equal(facts.placements["event"], "delete"))), keys)
    waits = (came - began > DAY_US) & (ends - came <= LEAD_TIME_US) & (touched >= ends)
    if waits.any():
        here, used = key_codes(there, _of_teams(metered), NODE_HOUR)
        waits &= ~np.isin(here, used)
    return waits


def _of_teams(rows: pa.Table) -> pa.Table:
    """Those that are not of the system."""
    return rows.filter(pc.fill_null(pc.not_equal(rows["qos"], "SYSTEM"), fill_value=True))


def _first(left: pa.Table, right: pa.Table, keys: list[str]) -> Ints:
    """(n,) time of the first right row of each left row's key; later than any where there is none."""
    own, other = key_codes(left, right, keys)
    first = np.full(max(own.max(initial=-1), other.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, other, micros(right["ts"]))
    return first[own]


def _stranded(capacity: Floats, taken: Ints) -> Floats:
    """(n, resources) what is free of each beyond what the scarcer one lets anybody use."""
    known = np.where(capacity > 0, capacity, np.nan)
    free = np.clip(1.0 - taken / known, 0.0, 1.0)
    usable = np.minimum(free[:, 0], free[:, 1])
    beyond = free - usable[:, None]
    found: Floats = np.where(beyond > ROUNDED, beyond * known, 0.0)
    return found


def _added(free: _Free, beyond: Floats, stranded: Floats) -> Floats:
    """(m, resources) what of the stranded each team adds: what is beyond with it, less what is without."""
    of = free.of
    added = np.rint(np.maximum(beyond[of] - _stranded(free.capacity[of], free.taken[of] - free.own), 0.0))
    whole = np.rint(beyond)
    np.add.at(sums := np.zeros(beyond.shape), of, added)
    part: Floats = added / np.maximum(np.maximum(sums, whole)[of], 1.0)
    found: Floats = np.floor(stranded[of] * part)
    return found


def _rows(free: _Free, cause: str, quantity: Floats, of_teams: Floats | None = None) -> Iterator[dict[str, object]]:
    """Of each pool, hour and resource what there is for a cause, and what of it is whose doing."""
    keys = free.there.select(["cluster", "hour", "pool"])
    by_key: dict[tuple[int, tuple[object, ...]], dict[str, int]] = defaultdict(dict)
    if of_teams is not None:
        named = keys.take(pa.array(free.of)).append_column("team", free.team)
        for which, key, amount in _sums(named, of_teams):
            if key[-1] is not None:
                by_key[which, key[:-1]][str(key[-1])] = amount
    for which, key, amount in _sums(keys, quantity):
        identity = dict(zip(keys.column_names, key, strict=True))
        teams = sorted(by_key[which, key].items())
        yield {**identity, "cause": cause, "resource": SHARED[which], "quantity": amount, "by_team": teams}


def _sums(keys: pa.Table, quantities: Floats) -> Iterator[tuple[int, tuple[object, ...], int]]:
    """Of each resource sums by key, those of 0 left out."""
    for which in range(len(SHARED)):
        rows = keys.append_column("quantity", pa.array(quantities[:, which].astype(np.int64)))
        rows = rows.filter(pc.greater(rows["quantity"], 0))
        for row in rows.group_by(keys.column_names).aggregate([("quantity", "sum")]).to_pylist():
            amount = row.pop("quantity_sum")
            yield which, tuple(row[name] for name in keys.column_names), amount


def _whole(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.cast(pa.int64()).to_numpy(), np.int64)
