"""Metering: what each container reserved and used in an hour, in whole numbers that any rule of billing adds. Kernel.

Minutes are what counts. Each minute's values are rounded to micro-units before they are added, so that neither the
order of rows nor the way time and nodes are cut into pieces changes a sum.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, Ints, micros, table
from features.columnar.asof_join import key_codes
from features.columnar.composite_keys import joint, ranks, rising
from features.columnar.windows import once
from features.contention.node_state import LANDED_IN, Facts
from features.contention.series_minutes import LOOK_BACK_US
from features.metering.minute_grid import Bools, Grid, interval_us
from features.metering.node_hours import pools_of
from features.metering.units import COLUMNS, EVERYBODYS, HOUR_US, MICROS, RESOURCES, Hours
from features.schema.tables import METERED
from ingest.schema.tables import TIMESTAMP


@dataclass(frozen=True, slots=True)
class Minutes:
    """What minutes amount to, (n,) micro-unit-minutes each: see table `metered`."""

    requested: Ints
    within: Ints
    beyond: Ints


def minutes_of(request: Floats, use: Floats) -> Minutes:
    """What is metered of minutes.

    Args:
        request: (n,) units requested, >= 0; NaN where not known.
        use: (n,) units used, mean over the minute, >= 0; NaN where it was not measured.

    Returns:
        Whole micro-unit-minutes. Where one is missing the other one stands for it; where both are, 0, and the caller
        has to record a gap.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    asked, used = np.where(np.isnan(request), use, request), np.where(np.isnan(use), request, use)
    requested, taken = _micro(asked), _micro(used)
    return Minutes(requested, np.minimum(requested, taken), np.maximum(taken - requested, 0))


def _micro(units: Floats) -> Ints:
    return np.rint(np.nan_to_num(units) * MICROS).astype(np.int64)


def metered(usage: pa.Table, facts: Facts, hours: Hours, where: pa.Table) -> pa.Table:
    """What containers reserved and used, hour by hour.

    Args:
        usage: rows of `usage` of these nodes whose interval overlaps the hours (others are skipped), any order,
            duplicates and late rows in: whatever has arrived is counted.
        facts: placements give requests, which containers are there, and teams that usage lacks; nodes give pools. Those
            that happened before the hours end, see `standing_in`.
        hours: which.
        where: columns cluster and node: the nodes that are metered.

    Returns:
        Table `metered`, sorted by its key. A container is on a node in the minutes at whose end a placement says so,
        and in those that a usage row overlaps; before its first placement event, also in between these within an hour.
        Its use in a minute is the mean of the rows that overlap it, weighted by overlap, times the part of the minute
        that it ran in; its request is that of the newest event. Of the two the known one stands for the missing one; a
        minute with neither is a gap, never zero.
        Resources other than cpu and memory have rows only where something of the hour is known.

    Source: ours, docs/decisions/0049-billing.md.
    """
    grid = Grid(_overlapping(usage, hours), _in_order(facts.placements, hours), hours, where)
    if not len(grid.entities):
        return METERED.schema.empty_table()
    there = grid.there
    parts = [_sums(grid, there, number) for number in range(len(RESOURCES))]
    return _rows(grid, facts.nodes, parts)


def standing_in(placements: pa.Table, hours: Hours) -> pa.Table:
    """Placement events of the hours and of LOOK_BACK_US before, and what stood before these; order as given.

    Of each container that is the newest event before, and the newest but for deletions, which names its owner, with the
    deletion that ended it.
    """
    ts = micros(placements["ts"])
    codes = key_codes(placements, placements.slice(0, 0), ["cluster", "container"])[0]
    order = rising(codes, ts, *(ranks(placements[name]) for name in LANDED_IN))
    order = order[ts[order] < hours.end_us]
    since_us = hours.start_us - LOOK_BACK_US
    place = np.arange(len(order))
    alive = place[np.asarray(pc.not_equal(placements["event"], "delete").to_numpy(), np.bool_)[order]]
    newest, owner = (some[_standing(codes[order[some]], ts[order[some]], since_us)] for some in (place, alive))
    ends = owner[owner < len(order) - 1] + 1
    ends = ends[codes[order[ends]] == codes[order[ends - 1]]]
    return placements.take(pa.array(np.sort(order[np.unique(np.concatenate([newest, owner, ends]))])))


def _standing(codes: Ints, ts: Ints, start_us: int) -> Bools:
    """(n,) which events, in their order, no other one of their container follows by then."""
    over = (np.diff(codes) == 0) & (ts[1:] <= start_us)
    return np.append(~over, True)[: len(codes)]


def nodes_in(*tables: pa.Table) -> pa.Table:
    """Columns cluster and node of the nodes that rows of some tables are about, each once."""
    named = [rows.select(["cluster", "node"]) for rows in tables]
    return pa.concat_tables(named, promote_options="permissive").group_by(["cluster", "node"]).aggregate([])


def _overlapping(usage: pa.Table, hours: Hours) -> pa.Table:
    """Each row whose interval overlaps the hours, once."""
    ts = micros(usage["ts"])
    inside = (ts > hours.start_us) & (ts - interval_us(usage) < hours.end_us)
    rows = usage.select(COLUMNS).filter(pa.array(inside)).combine_chunks()
    return once(rows) if rows.num_rows else rows


def _in_order(placements: pa.Table, hours: Hours) -> pa.Table:
    """Events before the hours end, container by container in the order in which they happened."""
    ts = micros(placements["ts"])
    events = placements.filter(pa.array(ts < hours.end_us)).combine_chunks()
    codes = key_codes(events, events.slice(0, 0), ["cluster", "container"])[0]
    order = rising(codes, micros(events["ts"]), *(ranks(events[name]) for name in LANDED_IN))
    return events.take(pa.array(order))


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of one resource, (e,) each."""

    requested: Ints
    within: Ints
    beyond: Ints
    minutes: Ints
    gap_minutes: Ints


def _sums(grid: Grid, there: Bools, number: int) -> _Sums:
    """Of minutes in which containers were there."""
    request, use = grid.request(RESOURCES[number]), grid.use(RESOURCES[number])
    known = there & ~(np.isnan(request) & np.isnan(use))
    sums = minutes_of(np.where(known, request, np.nan), np.where(known, use, np.nan))
    minutes, gaps = known.sum(axis=1), (there & ~known).sum(axis=1)
    measured = (minutes > 0) | (RESOURCES[number].name in EVERYBODYS)
    return _Sums(
        requested=sums.requested.sum(axis=1),
        within=sums.within.sum(axis=1),
        beyond=sums.beyond.sum(axis=1),
        minutes=minutes,
        gap_minutes=np.where(measured, gaps, 0),
    )


def _rows(grid: Grid, nodes: pa.Table, parts: list[_Sums]) -> pa.Table:
    """Table `metered`: of each resource the rows in which there is something."""
    count = len(RESOURCES)
    sums = {name: np.stack([getattr(p, name) for p in parts], axis=1) for name in _Sums.__dataclass_fields__}
    entity, which = np.nonzero(sums["minutes"] + sums["gap_minutes"])
    names, hour_us = grid.names(), grid.hours.start_us + grid.hour * HOUR_US
    own = pa.table({**names, **grid.identity(), "hour": pa.array(hour_us, TIMESTAMP)})
    own = own.append_column("pool", pools_of(own, nodes))
    label = ranks(pa.array([resource.name for resource in RESOURCES]))
    key = joint([ranks(own["cluster"]), grid.hour, ranks(own["container"]), ranks(own["node"])])
    order = np.argsort(key[entity] * count + label[which], kind="stable")
    entity, which = entity[order], which[order]
    columns: dict[str, object] = {name: own[name].take(pa.array(entity)) for name in own.column_names}
    resource = pa.DictionaryArray.from_arrays(pa.array(which), [resource.name for resource in RESOURCES])
    columns |= {name: values[entity, which] for name, values in sums.items()}
    return table({**columns, "resource": resource.cast(pa.string())}, METERED.schema)
