"""The metering job in one process, without Java: hours of the lake, an hour and some nodes at a time. An edge."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.asof_join import NEVER, key_codes
from features.columnar.thread_map import in_threads
from features.contention.node_state import Facts
from features.contention.series_minutes import LOOK_AHEAD_US, LOOK_BACK_US
from features.contention.usage_rates import rates
from features.jobs.job_plan import Progress
from features.jobs.lake_facts import facts_between, moved_between
from features.metering.idle_causes import TAKEN, TOUCHED, idle_hours
from features.metering.pools import pool_hours
from features.metering.units import COLUMNS, HOUR_US, Hours
from features.metering.usage_hours import metered, nodes_in, standing_in
from ingest.lake.data_files import write
from ingest.lake.row_filter import EPOCH
from ingest.lake.tables import Lake

JOB = "metering"
CHUNK_ROWS = 1_000_000
"""Rows of usage that are metered at once: about 400 MB."""
LONGEST = timedelta(hours=1)
"""Interval of a usage row; rows that end so long after an hour may still be about it."""
DAY = 24
TICK = timedelta(microseconds=1)


def run_local(lake: Lake, hours: Hours, progress: Progress, *, chunk_rows: int = CHUNK_ROWS) -> None:
    """Meter hours; doing it again puts the same rows in their place, with what has arrived since.

    Args:
        lake: where usage, samples, nodes, placements and bills lie, and where `metered`, `idle` and `pool_hours` go.
        hours: which; they are written a day at a time.
        progress: called with each table and its rows, day by day.
        chunk_rows: usage rows at once; makes no difference to what is written.
    """
    for day in days(hours):
        staged = lake.stage("metered", JOB)
        staged.mkdir(parents=True, exist_ok=True)
        nodes, placements = facts_until(lake, day)
        parts = _parts(lake, day, nodes, placements, chunk_rows)
        for number, rows in enumerate(in_threads(lambda part: _metered(lake, *part), parts)):
            write(staged / f"{number:06d}.parquet", rows.schema, [rows])
        progress("metered", lake.replace("metered", *times(day), JOB, staged))
        write_pools(lake, day, nodes, progress)


def days(hours: Hours) -> Iterator[Hours]:
    """The hours, 24 at a time."""
    for first in range(0, hours.count, DAY):
        yield Hours(hours.start_us + first * HOUR_US, min(DAY, hours.count - first))


def times(hours: Hours) -> tuple[datetime, datetime]:
    """Start and end."""
    return EPOCH + timedelta(microseconds=hours.start_us), EPOCH + timedelta(microseconds=hours.end_us)


def sampled(hours: Hours) -> tuple[datetime, datetime]:
    """From when to when samples may say something of the hours."""
    start, end = times(hours)
    return start - timedelta(microseconds=LOOK_BACK_US), end + timedelta(microseconds=LOOK_AHEAD_US)


def facts_until(lake: Lake, hours: Hours) -> tuple[pa.Table, pa.Table]:
    """Nodes as recorded until the hours end, and placements that stand in them, as they ended."""
    facts = facts_between(lake, *times(hours))
    return facts.nodes, standing_in(facts.placements, hours)


def write_pools(lake: Lake, hours: Hours, nodes: pa.Table, progress: Progress) -> None:
    """Replace the rows of these hours by the pools' capacity, the part of it that was idle, and its cost.

    Args:
        lake: where the hours were metered.
        hours: which.
        nodes: as recorded until they end.
        progress: called with each table and its rows.
    """
    facts = Facts(nodes, lake.read("placements", end=times(hours)[1], columns=TOUCHED))
    idle = pa.concat_tables(_idle(lake, facts, hour) for hour in singly(hours))
    progress("idle", lake.replace("idle", *times(hours), JOB, idle))
    found = pool_hours(nodes, lake.read("bills", *times(hours)), hours.start_us, hours.count)
    progress("pool_hours", lake.replace("pool_hours", *times(hours), JOB, found))


def _idle(lake: Lake, facts: Facts, hour: Hours) -> pa.Table:
    return idle_hours(facts, lake.read("metered", *times(hour), TAKEN), hour)


def singly(hours: Hours) -> Iterator[Hours]:
    """The hours one by one."""
    return (Hours(hours.start_us + number * HOUR_US, 1) for number in range(hours.count))


_Part = tuple[Hours, Facts, pa.Table, pa.Table]


def _parts(lake: Lake, day: Hours, nodes: pa.Table, placements: pa.Table, chunk_rows: int) -> Iterator[_Part]:
    """Hours, and nodes that have about so many rows of usage in them."""
    moved = moved_between(lake, *sampled(day), Facts(nodes, placements))
    for hour in singly(day):
        standing, counted = standing_in(placements, hour), _rows_of_nodes(lake, hour)
        where = nodes_in(counted, standing)
        chunks = max(1, -(-(pc.sum(counted["rows"]).as_py() or 0) // chunk_rows))
        for part in np.array_split(np.arange(where.num_rows), min(chunks, max(1, where.num_rows))):
            yield hour, Facts(nodes, standing), where.take(pa.array(part)), moved


def _rows_of_nodes(lake: Lake, hour: Hours) -> pa.Table:
    """Nodes that usage or samples of an hour are about: cluster, node, rows."""
    start, end = times(hour)
    parts = [
        lake.rows("usage", start + TICK, end + LONGEST + TICK, ["cluster", "node"]),
        lake.rows("samples", start, end + TICK, ["cluster", "node"]),
    ]
    counted = pa.concat_tables(parts).group_by(["cluster", "node"]).aggregate([([], "count_all")])
    return counted.rename_columns({"count_all": "rows"})


def _metered(lake: Lake, hour: Hours, facts: Facts, where: pa.Table, moved: pa.Table) -> pa.Table:
    start, end = times(hour)
    wanted = pc.unique(where["node"])
    aliases = moved.filter(pc.is_in(moved["placed_on"], wanted))["node"].to_pylist()
    names = sorted({*wanted.to_pylist(), *aliases})
    usage = lake.rows("usage", start + TICK, end + LONGEST + TICK, COLUMNS, nodes=names)
    samples = lake.rows("samples", *sampled(hour), nodes=names)
    made = rates(samples, facts, moved=moved, lateness_us=NEVER, trim=True).usage.select(COLUMNS)
    found = pa.concat_tables([usage, made])  # of all nodes of these names: another cluster may have some too
    row, asked = key_codes(found, where, ["cluster", "node"])
    return metered(found.filter(pa.array(np.isin(row, asked))), facts, hour, where)
