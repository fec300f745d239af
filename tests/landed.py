"""Rows that are landed in a test's lake as a stream would land them."""

import pyarrow as pa

from ingest.lake.landing import Positions, RangeRows
from ingest.lake.tables import Lake
from ingest.schema.provenance import OffsetRange


def land_rows(lake: Lake, table: str, range_: OffsetRange, rows: pa.Table | None = None) -> None:
    """Land the rows of an offset range, which may be none."""
    brought = lake.table(table).schema.empty_table() if rows is None else rows
    assert Positions(lake).land(table, [RangeRows(range_, brought)]) == []
