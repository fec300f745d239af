"""Usage chunk by chunk, as landed and made of samples: what the job in one process computes from. An edge."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Ints, micros
from features.columnar.windows import LABEL_US, in_time
from features.contention.node_state import Facts
from features.contention.series_minutes import LOOK_BACK_US
from features.contention.usage_rates import count_within, rates
from features.jobs.job_plan import Stretch
from features.jobs.lake_facts import moved_between
from ingest.lake.row_filter import microseconds, within
from ingest.lake.tables import Lake

CHUNK_ROWS = 125_000
"""Samples computed at once: small enough to stay in the processor's caches, large enough not to notice the seams."""
BLOCK_ROWS = 500_000
"""Samples read at once: files hold up to an hour, and are not to be read again for every chunk."""
LOOK_BACK = timedelta(microseconds=LOOK_BACK_US)
KINDS = ("usage", "samples")
Range = tuple[datetime, datetime]
"""Half-open."""


class Chunk(NamedTuple):
    """Usage of a while, as landed and made of samples, duplicates and late rows still in; and what was counted."""

    usage: pa.Table
    node_usage: pa.Table
    late: int
    impossible: int


def usage_chunks(lake: Lake, stretch: Stretch, facts: Facts, rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
    """A stretch in chunks of about so many rows, whole label windows each, in the order of time."""
    first, last = stretch.samples()
    moved = moved_between(lake, first - LOOK_BACK, last, facts)
    there = sum(lake.count(table, first, last) for table in KINDS)
    for start, end in ranges(max(rows, BLOCK_ROWS), there, first, last):
        block = _block(lake, facts, moved, start, end)
        counted, ts = block, micros(block.usage["ts"])
        for part in ranges(rows, block.usage.num_rows, start, end):
            yield counted._replace(usage=_part(block.usage, ts, *part))
            counted = Chunk(block.usage, block.node_usage.slice(0, 0), late=0, impossible=0)


def _block(lake: Lake, facts: Facts, moved: pa.Table, start: datetime, end: datetime) -> Chunk:
    """All that happened in a range."""
    usage, samples = lake.rows("usage", start, end, coded=True), lake.rows("samples", start - LOOK_BACK, end)
    rated, inside = rates(samples, facts, moved=moved), within("ts", start, end)
    return Chunk(
        usage=pa.concat_tables([usage, rated.usage.filter(inside).cast(usage.schema)]).unify_dictionaries(),
        node_usage=rated.node_usage.filter(inside),
        late=_late(usage) + _late(samples.filter(inside)),
        impossible=count_within(rated, start, end),
    )


def _part(rows: pa.Table, ts: Ints, start: datetime, end: datetime) -> pa.Table:
    """Rows with a time in [start, end); not copied where they stand together, as in the order in which they landed."""
    within_range = (ts >= microseconds(start)) & (ts < microseconds(end))
    wanted = np.flatnonzero(within_range)
    if len(wanted) and wanted[-1] - wanted[0] + 1 == len(wanted):
        return rows.slice(int(wanted[0]), len(wanted))
    return rows.filter(pa.array(within_range))


def _late(rows: pa.Table) -> int:
    return int(rows.num_rows - in_time(rows).num_rows)


def ranges(rows: int, there: int, first: datetime, last: datetime) -> Iterator[Range]:
    """Parts of a range, whole label windows each, of about so many of the rows that are there."""
    window = timedelta(microseconds=LABEL_US)
    step = window * max(1, round((last - first) / window * rows / max(there, 1)))
    while first < last:
        yield first, min(first + step, last)
        first += step
