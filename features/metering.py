"""Metering: what each container reserved and used in an hour, in whole numbers that any rule of billing adds. Kernel.

Minutes are what counts. Each minute's values are rounded to micro-units before they are added, so that neither the
order of rows nor the way time and nodes are cut into pieces changes a sum.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.arrow import Floats, Ints, floats, micros, table
from features.asof import key_codes, newest_known
from features.node_state import LANDED_IN, Facts
from features.order import joint, ranks, rising
from features.pools import pools_of
from features.tables import METERED
from features.windows import SECOND_US, WINDOW_US, once
from ingest.schema import TIMESTAMP, USAGE
from ingest.selection import microseconds

Bools = NDArray[np.bool_]
MICROS = 1_000_000
MINUTES = 60
HOUR_US = MINUTES * WINDOW_US
GIB = 2.0**30
KEYS = ["cluster", "node", "container"]
IDENTITY = ("app", "team", "qos")


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that is metered.

    Args:
        name: as in table `metered`.
        usage: columns of usage that add up to it.
        scale: units of it in one of theirs.
        request: column of placements; None where nothing is requested.
    """

    name: str
    usage: tuple[str, ...]
    scale: float
    request: str | None = None


RESOURCES = (
    Resource("cpu", ("cpu_cores",), 1.0, "cpu_request_cores"),
    Resource("memory", ("memory_bytes",), 1 / GIB, "memory_request_bytes"),
    Resource("gpu", ("gpu_sm_frac",), 1.0, "gpu_request"),
    Resource("network", ("net_rx_bytes_s", "net_tx_bytes_s"), 60 / GIB),
    Resource("disk", ("disk_read_bytes_s", "disk_write_bytes_s"), 60 / GIB),
)
"""Cores, GiB and GPUs; of network and disk what was moved, GiB a minute."""
EVERYBODYS = ("cpu", "memory")
"""Every container has some: of these, hours of which nothing at all is known are told too."""
USED = [*dict.fromkeys(name for resource in RESOURCES for name in resource.usage)]
COLUMNS = [*KEYS, *IDENTITY, "ts", "interval_s", *USED, "topic", "partition", "offset"]
"""Columns of usage that metering reads."""
READ = pa.schema([USAGE.schema.field(name) for name in COLUMNS])


@dataclass(frozen=True, slots=True)
class Hours:
    """Whole hours in a row: the first one's start, microseconds since 1970, and how many."""

    start_us: int
    count: int

    @staticmethod
    def between(start: datetime, end: datetime) -> "Hours":
        """Those that overlap [start, end)."""
        first = microseconds(start) // HOUR_US
        return Hours(first * HOUR_US, max(0, -(-microseconds(end) // HOUR_US) - first))

    @property
    def end_us(self) -> int:
        """End of the last one, exclusive."""
        return self.start_us + self.count * HOUR_US

    @property
    def minutes(self) -> int:
        """How many they are."""
        return self.count * MINUTES


@dataclass(frozen=True, slots=True)
class Minutes:
    """What minutes amount to, (n,) micro-unit-minutes each: see table `metered`."""

    requested: Ints
    within: Ints
    beyond: Ints


def minutes_of(request: Floats, use: Floats) -> Minutes:
    """What is metered of minutes.

    Args:
        request: (n,) units requested, >= 0; NaN where nobody told.
        use: (n,) units used, mean over the minute, >= 0; NaN where it was not measured.

    Returns:
        Whole micro-unit-minutes. Where one is missing the other one stands for it; where both are, 0, and the caller
        has to tell a gap.

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
        usage: rows of `usage` of these nodes whose interval overlaps the hours (others are passed over), any order,
            duplicates and late rows in: whatever has arrived is counted.
        facts: placements tell requests, who is there, and what usage does not tell of teams; nodes tell pools. Those
            that happened before the hours end, see `standing_in`.
        hours: which.
        where: columns cluster and node: the nodes that are metered.

    Returns:
        Table `metered`, sorted by its key. A container is on a node in the minutes at whose end a placement says so,
        and in those that a usage row overlaps; before its first placement event, also in between these within an hour.
        Its use in a minute is the mean of the rows that overlap it, weighted by overlap; its request is that of the
        newest event. Of the two the known one stands for the missing one; a minute with neither is a gap, never zero.
        Resources other than cpu and memory have rows only where something of the hour is known.

    Source: ours, docs/decisions/0049-billing.md.
    """
    grid = _Grid(_overlapping(usage, hours), _in_order(facts.placements, hours), hours, where)
    if not len(grid.entities):
        return METERED.schema.empty_table()
    there = grid.there
    parts = [_sums(grid, there, number) for number in range(len(RESOURCES))]
    return _rows(grid, facts.nodes, parts)


def standing_in(placements: pa.Table, hours: Hours) -> pa.Table:
    """Placement events that happened in the hours, and of each container the newest before them; order as given."""
    ts = micros(placements["ts"])
    codes = key_codes(placements, placements.slice(0, 0), ["cluster", "container"])[0]
    order = rising(codes, ts, *(ranks(placements[name]) for name in LANDED_IN))
    followed = np.append(np.diff(codes[order]) == 0, [False]) if len(order) else np.zeros(0, np.bool_)
    over = np.append(ts[order][1:], [0])[: len(order)] <= hours.start_us
    kept = order[~(followed & over) & (ts[order] < hours.end_us)]
    return placements.take(pa.array(np.sort(kept)))


def nodes_in(*tables: pa.Table) -> pa.Table:
    """Columns cluster and node of the nodes that rows of some tables are about, each once."""
    named = [rows.select(["cluster", "node"]) for rows in tables]
    return pa.concat_tables(named, promote_options="permissive").group_by(["cluster", "node"]).aggregate([])


def _overlapping(usage: pa.Table, hours: Hours) -> pa.Table:
    """Each row whose interval overlaps the hours, once."""
    ts = micros(usage["ts"])
    inside = (ts > hours.start_us) & (ts - _interval_us(usage) < hours.end_us)
    rows = usage.select(COLUMNS).filter(pa.array(inside)).combine_chunks()
    return once(rows) if rows.num_rows else rows


def _interval_us(usage: pa.Table) -> Ints:
    return np.rint(floats(usage["interval_s"]) * SECOND_US).astype(np.int64)


def _in_order(placements: pa.Table, hours: Hours) -> pa.Table:
    """Events before the hours end, container by container in the order in which they happened."""
    ts = micros(placements["ts"])
    events = placements.filter(pa.array(ts < hours.end_us)).combine_chunks()
    codes = key_codes(events, events.slice(0, 0), ["cluster", "container"])[0]
    order = rising(codes, micros(events["ts"]), *(ranks(events[name]) for name in LANDED_IN))
    return events.take(pa.array(order))


class _Grid:
    """Minutes of containers on nodes: a row of 60 for each container, node and hour in which it may have been there.

    Args:
        usage: rows that overlap the hours, each once.
        events: placements, container by container in their order.
        hours: which.
        where: nodes.
    """

    def __init__(self, usage: pa.Table, events: pa.Table, hours: Hours, where: pa.Table) -> None:
        self.hours = hours
        own, self._pod = key_codes(usage, events, KEYS)
        order = rising(own, micros(usage["ts"]))
        self._own, self.usage, self.events = own[order], usage.take(pa.array(order)), events
        self._who, self._whose = key_codes(self.usage, events, ["cluster", "container"])
        self._cover()
        self._place(where)
        pods = max(self._own.max(initial=-1), self._pod.max(initial=-1)) + 1
        flags = np.zeros(pods * hours.count, np.bool_)
        self._used = self._own[self._row] * hours.count + self._minute // MINUTES
        self._held = self._pod[self._event] * hours.count + self._event_minute // MINUTES
        flags[self._used] = flags[self._held] = True
        self._entity = np.cumsum(flags) - 1
        self.entities: Ints = np.flatnonzero(flags)

    def _cover(self) -> None:
        """Minutes that each usage row overlaps, and by how much."""
        start = self.hours.start_us
        ts = micros(self.usage["ts"]) - start
        first = np.maximum(ts - _interval_us(self.usage), 0)
        last = np.minimum(ts, self.hours.end_us - start)
        count = np.maximum((last - 1) // WINDOW_US - first // WINDOW_US + 1, 0)
        self._row, step = _steps(count)
        self._minute: Ints = first[self._row] // WINDOW_US + step
        begin = self._minute * WINDOW_US
        low, high = np.maximum(first[self._row], begin), np.minimum(last[self._row], begin + WINDOW_US)
        self._overlap: Floats = (high - low).astype(np.float64)

    def _place(self, where: pa.Table) -> None:
        """Minutes at whose end each event was its container's newest, where it says that it is on one of the nodes."""
        minute = (micros(self.events["ts"]) - self.hours.start_us) // WINDOW_US
        since = np.clip(minute, 0, self.hours.minutes)
        same = np.append(np.diff(self._whose) == 0, [False]) if len(since) else np.zeros(0, np.bool_)
        until = np.where(same, np.append(since[1:], [0])[: len(since)], self.hours.minutes)
        alive = np.asarray(pc.not_equal(self.events["event"], "delete").to_numpy(), np.bool_)
        node, wanted = key_codes(self.events, where, ["cluster", "node"])
        counts = np.where(alive & np.isin(node, wanted), until - since, 0)
        self._event, step = _steps(counts)
        self._event_minute: Ints = since[self._event] + step
        containers = max(self._who.max(initial=-1), self._whose.max(initial=-1)) + 1
        self._first: Ints = np.full(containers, self.hours.minutes)
        np.minimum.at(self._first, self._whose, since)

    @cached_property
    def _used_cell(self) -> Ints:
        cells: Ints = self._entity[self._used] * MINUTES + self._minute % MINUTES
        return cells

    @cached_property
    def _held_cell(self) -> Ints:
        cells: Ints = self._entity[self._held] * MINUTES + self._event_minute % MINUTES
        return cells

    @cached_property
    def _last_row(self) -> Ints:
        """(e,) the last usage row of each container's hour; -1 where there is none."""
        last = np.full(len(self.entities), -1)
        last[self._entity[self._used]] = self._row  # of equal places the last one stays
        return last

    @cached_property
    def _last_event(self) -> Ints:
        """(e,) an event of each container's hour; -1 where there is none."""
        last = np.full(len(self.entities), -1)
        last[self._entity[self._held]] = self._event
        return last

    @cached_property
    def container(self) -> Ints:
        """(e,) code of the container, whatever the node."""
        if not self.usage.num_rows or not self.events.num_rows:
            return self._who[self._last_row] if self.usage.num_rows else self._whose[self._last_event]
        return np.where(self._last_row >= 0, self._who[self._last_row], self._whose[self._last_event])

    @cached_property
    def hour(self) -> Ints:
        """(e,) which hour, from 0."""
        return self.entities % max(self.hours.count, 1)

    @cached_property
    def there(self) -> Bools:
        """(e, 60) minutes in which it was there."""
        cells = len(self.entities) * MINUTES
        touched, there = np.zeros((2, cells), np.bool_)
        touched[self._used_cell] = there[self._used_cell] = there[self._held_cell] = True
        rows = touched.reshape(-1, MINUTES)
        since = np.maximum.accumulate(rows, axis=1)
        until = np.maximum.accumulate(rows[:, ::-1], axis=1)[:, ::-1]
        minute = self.hour[:, None] * MINUTES + np.arange(MINUTES)
        untold = minute < self._first[self.container][:, None]
        found: Bools = there.reshape(-1, MINUTES) | (since & until & untold)
        return found

    def use(self, resource: Resource) -> Floats:
        """(e, 60) mean use of a resource, its units; NaN where it was not measured."""
        cells = len(self.entities) * MINUTES
        if any(self.usage[name].null_count == self.usage.num_rows for name in resource.usage):
            return np.full((len(self.entities), MINUTES), np.nan)
        value = (np.sum([floats(self.usage[name]) for name in resource.usage], axis=0) * resource.scale)[self._row]
        known = np.isfinite(value)
        total = np.bincount(self._used_cell[known], value[known] * self._overlap[known], cells)
        support = np.bincount(self._used_cell[known], self._overlap[known], cells)
        mean: Floats = np.divide(total, support, out=np.full(cells, np.nan), where=support > 0)
        return mean.reshape(-1, MINUTES)

    def request(self, resource: Resource) -> Floats:
        """(e, 60) request, units; NaN where nobody told."""
        found = np.full(len(self.entities) * MINUTES, np.nan)
        if resource.request is not None and len(self._event):
            found[self._held_cell] = (floats(self.events[resource.request]) * resource.scale)[self._event]
        return found.reshape(-1, MINUTES)

    def identity(self) -> dict[str, pa.Array]:
        """App, team and class of each container's hour: as usage told last, else placements until the hour's end."""
        told = self.usage.select(IDENTITY).take(_taken(self._last_row))
        alive = np.flatnonzero(np.asarray(pc.not_equal(self.events["event"], "delete").to_numpy(), np.bool_))
        ends = self.hours.start_us + (self.hour + 1) * HOUR_US - 1
        ts = micros(self.events["ts"])[alive]
        found = np.append(alive, -1)[newest_known(self.container, ends, self._whose[alive], ts)]
        placed = self.events.select(IDENTITY).take(_taken(found))
        return {name: pc.coalesce(told[name], placed[name]) for name in IDENTITY}

    def names(self) -> dict[str, pa.Array]:
        """Cluster, node and container of each row."""
        seen = self.usage.select(KEYS).take(_taken(self._last_row))
        held = self.events.select(KEYS).take(_taken(self._last_event))
        return {name: pc.coalesce(seen[name], held[name]) for name in KEYS}


def _steps(counts: Ints) -> tuple[Ints, Ints]:
    """Each row as often as its count says, and 0, 1, 2, ... within each."""
    row = np.repeat(np.arange(len(counts)), counts)
    step = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return row, step


def _taken(rows: Ints) -> pa.Array:
    return pa.array(rows, mask=rows < 0)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of one resource, (e,) each."""

    requested: Ints
    within: Ints
    beyond: Ints
    minutes: Ints
    gap_minutes: Ints


def _sums(grid: _Grid, there: Bools, number: int) -> _Sums:
    """Of minutes in which containers were there."""
    request, use = grid.request(RESOURCES[number]), grid.use(RESOURCES[number])
    known = there & ~(np.isnan(request) & np.isnan(use))
    sums = minutes_of(np.where(known, request, np.nan), np.where(known, use, np.nan))
    minutes, gaps = known.sum(axis=1), (there & ~known).sum(axis=1)
    told = (minutes > 0) | (RESOURCES[number].name in EVERYBODYS)
    return _Sums(
        requested=sums.requested.sum(axis=1),
        within=sums.within.sum(axis=1),
        beyond=sums.beyond.sum(axis=1),
        minutes=minutes,
        gap_minutes=np.where(told, gaps, 0),
    )


def _rows(grid: _Grid, nodes: pa.Table, parts: list[_Sums]) -> pa.Table:
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
