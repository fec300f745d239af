"""Nodes and placements of the lake, with the ends that no record says. An edge."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import micros
from features.columnar.asof_join import key_codes
from features.columnar.thread_map import in_threads
from features.contention.container_resolution import OWN, moved_in, newest_reports
from features.contention.lifetimes import (
    CONTAINER_SILENCE_US,
    HEARD,
    NODE_SILENCE_US,
    TIMES,
    Times,
    heard_in,
    times_of,
    with_ends,
)
from features.contention.node_state import Facts, undeleted
from ingest.lake.row_filter import EPOCH, microseconds
from ingest.lake.tables import Lake
from ingest.schema.tables import SAMPLES, TIMESTAMP

MEASURED = ("usage", "samples")
HOUR = timedelta(hours=1)
SILENCE = timedelta(microseconds=max(CONTAINER_SILENCE_US, NODE_SILENCE_US))
MAX_SPANS = 48
"""Beyond so many stretches of hours in which unmeasured containers came, all time between them is read."""


def facts_between(lake: Lake, start: datetime, end: datetime, *, ahead: bool = True) -> Facts:
    """What nodes and placements said before a time, and the ends of what was silent.

    Args:
        lake: where they lie.
        start: from when on ends matter; what ended before has ended all the same.
        end: rows of later times are left out.
        ahead: whether silence after `end` counts, as for jobs over the past; not for what is known at that time.
    """
    facts = Facts(lake.read("nodes", end=end), lake.read("placements", end=end))
    until = end + SILENCE if ahead else end
    heard, beats = heard_between(lake, start - SILENCE, until, (*MEASURED, "node_usage"))
    last_us = max((int(micros(table["last"]).max()) for table in (heard, beats) if table.num_rows), default=0)
    horizon_us = min(max(last_us, microseconds(end)), microseconds(until))
    heard = pa.concat_tables([heard, *_before(lake, facts.placements, heard, start)])
    ended = with_ends(facts, heard, beats, horizon_us)
    before = pc.field("ts") < pa.scalar(end, TIMESTAMP)
    return Facts(ended.nodes.filter(before), ended.placements.filter(before))


def moved_between(lake: Lake, start: datetime, end: datetime, facts: Facts) -> pa.Table:
    """As MOVED: under which names exporters reported pods of other nodes in [start, end), read hour by hour."""
    seen, first = [newest_reports(SAMPLES.schema.empty_table())], start
    while first < end and lake.span("samples"):
        last = min(end, first.replace(minute=0, second=0, microsecond=0) + HOUR)
        seen.append(newest_reports(lake.rows("samples", first, last, [*OWN, "ts"])))
        first = last
    return moved_in(pa.concat_tables(seen), facts)


def heard_between(lake: Lake, start: datetime, end: datetime, tables: tuple[str, ...]) -> Times:
    """Tables HEARD of what rows of some tables are about, hour by hour, since they may be many."""

    def heard(hour: tuple[datetime, datetime]) -> Times:
        rows = [_times(lake, table, *hour) for table in tables]
        return Times(*(heard_in(pa.concat_tables(parts)) for parts in zip(*rows, strict=True)))

    none = Times(HEARD.empty_table(), HEARD.empty_table())
    found = [none, *in_threads(heard, _hours(lake, start, end, tables))]
    return Times(*(pa.concat_tables(parts) for parts in zip(*found, strict=True)))


def _hours(lake: Lake, start: datetime, end: datetime, tables: tuple[str, ...]) -> Iterator[tuple[datetime, datetime]]:
    spans = [span for table in tables if (span := lake.span(table))]
    if not spans:
        return
    tick = timedelta(microseconds=1)
    first = max(start, EPOCH + timedelta(microseconds=min(low for low, _ in spans)))
    last = min(end, EPOCH + timedelta(microseconds=max(high for _, high in spans)) + tick)
    while first < last:
        yield first, min(first + HOUR, last)
        first += HOUR


def _times(lake: Lake, table: str, start: datetime, end: datetime) -> Times:
    there = [name for name in (*TIMES, "exporter") if name in lake.table(table).by_name]
    return times_of(lake.rows(table, start, end, there, coded=True))


def _before(lake: Lake, placements: pa.Table, heard: pa.Table, start: datetime) -> Iterator[pa.Table]:
    """When containers were measured soon after they could be, of those that came before and are not measured now.

    Whether such a container ended without a record, or is none that exporters measure, shows there: in the first hours
    after it came, after the watcher came, and after exporters came.
    """
    events = undeleted(placements)
    keys = ["cluster", "container"]
    own, seen = key_codes(events, heard, keys)
    came = events.filter(pa.array(~np.isin(own, seen)))
    came = came.filter(pc.field("ts") < pa.scalar(start, TIMESTAMP))
    if not came.num_rows:
        return
    begun_us = min((span[0] for table in MEASURED if (span := lake.span(table))), default=0)
    known_us = np.concatenate([np.maximum(micros(came[name]), begun_us) for name in ("ts", "arrived_at")])
    hours = np.unique(known_us // (HOUR // timedelta(microseconds=1)))
    near = np.split(hours, np.flatnonzero(np.diff(hours) > 2) + 1)
    spans = [(some[0], some[-1] + 2) for some in (near if len(near) <= MAX_SPANS else [hours])]
    for first, last in spans:
        begin, end = (EPOCH + int(hour) * HOUR for hour in (first, last))
        found = heard_between(lake, begin, min(end, start), MEASURED).measured
        left, right = key_codes(found, came, keys)
        yield found.filter(pa.array(np.isin(left, right)))
