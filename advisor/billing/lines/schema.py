"""Line table: lines of many containers and hours, as columns of a file that is never changed. Facts.

A row is what advisor.billing.lines.line.Line is; what all rows of a file share stands in its metadata once.
"""

import pyarrow as pa

from ingest.schema.tables import TIMESTAMP

FORMAT = 1
ORDER = ("hour", "kind", "account", "container", "node", "resource")
"""Rows are sorted by these, nulls first: the same lines make the same bytes. Of equal remainders the first gets the
unit."""

SCHEMA = pa.schema(
    [
        pa.field("hour", TIMESTAMP),  # null for lines of the whole period
        pa.field("kind", pa.string(), nullable=False),
        pa.field("account", pa.string(), nullable=False),
        pa.field("container", pa.string()),
        pa.field("node", pa.string()),
        pa.field("resource", pa.string()),
        pa.field("amount_micros", pa.int64(), nullable=False),
        pa.field("memo_micros", pa.int64()),
        pa.field("micro_unit_minutes", pa.int64()),
        pa.field("unit_price_micros", pa.float64()),
        pa.field("evidence", pa.string()),  # JSON object, names sorted; null for none
    ]
)
SHARED = ("format", "cluster", "period", "pool", "currency", "book", "policy", "model")
"""Keys of the file's metadata; `model` is empty where no model was needed."""
