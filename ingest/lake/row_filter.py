"""Selection: which rows of the files that count are meant, and each key once. Kernel."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.schema.tables import LANDING, TIMESTAMP, Table

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FOREVER = datetime(9999, 1, 1, tzinfo=UTC)


def condition(
    kind: Table, start: datetime, end: datetime, *, nodes: Sequence[str] | None, as_of: datetime | None
) -> pc.Expression:
    """Rows with a time in [start, end), on one of the nodes, that had arrived by `as_of`; None asks nothing."""
    condition = within(kind.time, start, end)
    if nodes is not None:
        condition &= pc.field("node").isin(pa.array(nodes, pa.string()))
    if as_of is not None:
        condition &= pc.field("arrived_at") <= pa.scalar(as_of, TIMESTAMP)
    return condition


def within(time: str, start: datetime, end: datetime) -> pc.Expression:
    """Rows with a time in [start, end)."""
    return between(time, microseconds(start), microseconds(end))


def between(time: str, start_us: int, end_us: int) -> pc.Expression:
    """Rows with a time in [start_us, end_us), microseconds since 1970."""
    return (pc.field(time) >= pa.scalar(start_us, TIMESTAMP)) & (pc.field(time) < pa.scalar(end_us, TIMESTAMP))


def needed_schema(kind: Table, wanted: Sequence[str]) -> pa.Schema:
    """The wanted columns, then those of a row's key, time and origin."""
    landing = [c.name for c in LANDING if c.name in kind.by_name]
    names = dict.fromkeys([*wanted, *kind.key, kind.time, *landing])
    return pa.schema([kind.schema.field(name) for name in names])


def each_key_once(rows: pa.Table, kind: Table) -> pa.Table:
    """Of rows with equal keys the lowest (topic, partition, offset), or the first; sorted by time, then key."""
    origin = [(name, "ascending") for name in ("topic", "partition", "offset") if name in kind.by_name]
    ordered = rows.sort_by(origin) if origin else rows
    numbered = ordered.append_column("_row", pa.array(np.arange(ordered.num_rows)))
    first = numbered.group_by(list(kind.key), use_threads=False).aggregate([("_row", "min")])["_row_min"]
    by_time = [(name, "ascending") for name in dict.fromkeys([kind.time, *kind.key])]
    return ordered.take(first).sort_by(by_time)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (moment - EPOCH) // timedelta(microseconds=1)
