"""The decoder contract: what every wire format's `decode` takes and gives.

Decoders are pure: same messages, same context, same answer. They never raise on a message's content; what cannot be
read becomes a reject with its reason, and the stream goes on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from ingest.schema.tables import LANDING, Table

UNDECODABLE = "undecodable"
"""Not JSON, not an object, empty, or longer than MAX_MESSAGE_BYTES."""
MISSING_KEY = "missing_key"
"""A required column is absent or null."""
WRONG_TYPE = "wrong_type"
"""A value is not of the catalogue's type, or a number that is not finite."""
NEGATIVE = "negative"
"""A counter or amount below zero."""
OUT_OF_RANGE = "out_of_range"
"""Outside the catalogue's physical range."""
BAD_TIMESTAMP = "bad_timestamp"
"""Neither seconds nor milliseconds of this century, nor RFC 3339."""
FUTURE_TIMESTAMP = "future_timestamp"
"""More than five minutes after the broker received it."""
OVER_CAPACITY = "over_capacity"
"""More than 1.5 times what the node can do."""
REASONS = (
    *(UNDECODABLE, MISSING_KEY, WRONG_TYPE, NEGATIVE, OUT_OF_RANGE),
    *(BAD_TIMESTAMP, FUTURE_TIMESTAMP, OVER_CAPACITY),
)

MESSAGE = pa.field("message", pa.int32(), nullable=False)
"""Index of the message, within the batch handed in, that a row or reject came from."""

REJECTS = pa.schema(
    [
        MESSAGE,
        pa.field("item", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
    ]
)


class Reject(NamedTuple):
    """What was rejected, as a row of REJECTS: of which message, which part of it, and why."""

    message: int
    item: str
    reason: str
    detail: str


def rejects_table(rejects: Sequence[Reject]) -> pa.Table:
    """Rejects as `REJECTS`, in the order given."""
    columns = zip(*rejects, strict=True) if rejects else [[] for _ in REJECTS.names]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, REJECTS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=REJECTS)


def rows_schema(table: Table) -> pa.Schema:
    """Schema of decoded rows: the table's own columns without the landing ones, plus `message`."""
    landing = {c.name for c in LANDING}
    own = [pa.field(c.name, c.type, nullable=not c.required) for c in table.columns if c.name not in landing]
    return pa.schema([*own, MESSAGE])


@dataclass(frozen=True, slots=True)
class Context:
    """What a decoder may know besides the bytes.

    Args:
        arrived_at: (n,) the broker's timestamp of each message. It is the clock that a record's own time is checked
            against, so a replay a year later rejects exactly what the first run rejected.
        cluster: the cluster of records that do not name one.
    """

    arrived_at: pa.TimestampArray
    cluster: str = "default"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows for one table and rejected parts; one message may give both.

    Args:
        table: name of the table the rows belong to.
        rows: `rows_schema(table)`.
        rejects: `REJECTS`. A bad key rejects its record; a bad value rejects that value only, and its row keeps null.
        unknown_fields: name of each field outside the catalogue, and how often it was seen.
    """

    table: str
    rows: pa.Table
    rejects: pa.Table
    unknown_fields: Mapping[str, int] = field(default_factory=dict)


class Decode(Protocol):
    """A wire format: `messages` is a (n,) binary array, null where the message had no value."""

    def __call__(self, messages: pa.BinaryArray, context: Context) -> Decoded:
        """Decode a batch of messages of one topic."""
