"""Minutes: when each container was on each node, and what it requested and used meanwhile. Kernel."""

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, floats, micros
from features.columnar.asof_join import key_codes, newest_known
from features.columnar.composite_keys import rising
from features.columnar.windows import SECOND_US, WINDOW_US
from features.metering.units import HOUR_US, IDENTITY, KEYS, MINUTES, Hours, Resource

Bools = NDArray[np.bool_]


class Grid:
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
        first = np.maximum(ts - interval_us(self.usage), 0)
        last = np.minimum(ts, self.hours.end_us - start)
        count = np.maximum((last - 1) // WINDOW_US - first // WINDOW_US + 1, 0)
        self._row, step = _steps(count)
        self._minute: Ints = first[self._row] // WINDOW_US + step
        begin = self._minute * WINDOW_US
        low, high = np.maximum(first[self._row], begin), np.minimum(last[self._row], begin + WINDOW_US)
        self._overlap: Floats = (high - low).astype(np.float64)
        self._low, self._high = low - begin, high - begin

    def _place(self, where: pa.Table) -> None:
        """Minutes at whose end, and at whose start, each event was its container's newest and on one of the nodes."""
        since = (micros(self.events["ts"]) - self.hours.start_us) // WINDOW_US
        same = np.append(np.diff(self._whose) == 0, [False]) if len(since) else np.zeros(0, np.bool_)
        until = np.where(same, np.append(since[1:], [0])[: len(since)], self.hours.minutes)
        alive = np.asarray(pc.not_equal(self.events["event"], "delete").to_numpy(), np.bool_)
        node, wanted = key_codes(self.events, where, ["cluster", "node"])
        here = alive & np.isin(node, wanted)
        self._event, self._event_minute = self._each(since, until, here)
        self._stood, self._stood_minute = self._each(since + 1, until + 1, here)
        containers = max(self._who.max(initial=-1), self._whose.max(initial=-1)) + 1
        self._first: Ints = np.full(containers, self.hours.minutes)
        np.minimum.at(self._first, self._whose, np.clip(since, 0, self.hours.minutes))

    def _each(self, since: Ints, until: Ints, wanted: Bools) -> tuple[Ints, Ints]:
        """Each wanted row and minute of [since, until) in the hours."""
        first = np.clip(since, 0, self.hours.minutes)
        row, step = _steps(np.where(wanted, np.clip(until, 0, self.hours.minutes) - first, 0))
        return row, first[row] + step

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

    @cached_property
    def _share(self) -> Floats:
        """(e, 60) part of each minute that its use is counted for: all, but for the first and the last of a run.

        The part before what was measured counts from its placement on, from the minute's begin where that stood then or
        the minute before was measured too; the part after it likewise.
        """
        shape = (len(self.entities), MINUTES)
        first, last = np.full(shape, WINDOW_US), np.zeros(shape, np.int64)
        np.minimum.at(first.reshape(-1), self._used_cell, self._low)
        placed = micros(self.events["ts"])[self._event] - self.hours.start_us - self._event_minute * WINDOW_US
        np.minimum.at(first.reshape(-1), self._held_cell, np.where(placed >= 0, placed, WINDOW_US))
        np.maximum.at(last.reshape(-1), self._used_cell, self._high)
        before, after = np.zeros((2, *shape), np.bool_)
        before[:, 1:], after[:, :-1] = last[:, :-1] > 0, last[:, 1:] > 0
        place = self._pod[self._stood] * self.hours.count + self._stood_minute // MINUTES
        row = np.minimum(np.searchsorted(self.entities, place), max(len(self.entities) - 1, 0))
        there = self.entities[row] == place if len(self.entities) else np.zeros(0, np.bool_)
        before[row[there], self._stood_minute[there] % MINUTES] = True
        after.reshape(-1)[self._held_cell] = True
        share: Floats = (np.where(after, WINDOW_US, last) - np.where(before, 0, first)) / WINDOW_US
        return share

    def use(self, resource: Resource) -> Floats:
        """(e, 60) use of a resource, its units: the mean of what was measured, for as long as it ran in the minute.

        NaN where it was not measured, or is in doubt.
        """
        cells = len(self.entities) * MINUTES
        if any(self.usage[name].null_count == self.usage.num_rows for name in resource.usage):
            return np.full((len(self.entities), MINUTES), np.nan)
        value = (np.sum([floats(self.usage[name]) for name in resource.usage], axis=0) * resource.scale)[self._row]
        known = np.isfinite(value)
        if resource.unless is not None:
            doubted = np.asarray(pc.fill_null(self.usage[resource.unless], fill_value=False), np.bool_)
            known &= ~doubted[self._row]
        total = np.bincount(self._used_cell[known], value[known] * self._overlap[known], cells)
        support = np.bincount(self._used_cell[known], self._overlap[known], cells)
        mean: Floats = np.divide(total, support, out=np.full(cells, np.nan), where=support > 0)
        return mean.reshape(-1, MINUTES) * self._share

    def request(self, resource: Resource) -> Floats:
        """(e, 60) request, units; NaN where not known."""
        found = np.full(len(self.entities) * MINUTES, np.nan)
        if resource.request is not None and len(self._event):
            found[self._held_cell] = (floats(self.events[resource.request]) * resource.scale)[self._event]
        return found.reshape(-1, MINUTES)

    def identity(self) -> dict[str, pa.Array]:
        """App, team and class of each container's hour: from its last usage, else placements until the hour's end."""
        identities = self.usage.select(IDENTITY).take(_taken(self._last_row))
        alive = np.flatnonzero(np.asarray(pc.not_equal(self.events["event"], "delete").to_numpy(), np.bool_))
        ends = self.hours.start_us + (self.hour + 1) * HOUR_US - 1
        ts = micros(self.events["ts"])[alive]
        found = np.append(alive, -1)[newest_known(self.container, ends, self._whose[alive], ts)]
        placed = self.events.select(IDENTITY).take(_taken(found))
        return {name: pc.coalesce(identities[name], placed[name]) for name in IDENTITY}

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


def interval_us(usage: pa.Table) -> Ints:
    """(n,) length of the interval that each row describes, microseconds."""
    return np.rint(floats(usage["interval_s"]) * SECOND_US).astype(np.int64)
