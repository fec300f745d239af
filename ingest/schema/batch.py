"""A batch of messages: one stretch of one partition, as read from Kafka or from a file. Facts."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import TIMESTAMP

LATEST_MS = 32_503_680_000_000
"""The year 3000, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Messages of one offset range, in order.

    Args:
        range: from the position read from to the position read to.
        offsets: (n,) offset, or line, of each message; int64.
        arrived_at: (n,) the broker's timestamps.
        values: (n,) the bytes; null where a message had none.
    """

    range: OffsetRange
    offsets: pa.Array
    arrived_at: pa.TimestampArray
    values: pa.BinaryArray


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch that the broker no longer holds and that was never landed."""

    range: OffsetRange

    @property
    def offsets(self) -> int:
        """How many offsets were lost; at most so many records."""
        return self.range.end - self.range.start


@dataclass(frozen=True, slots=True)
class Backlog:
    """What of a partition is not ingested yet.

    Args:
        topic: the topic.
        partition: the partition.
        records: offsets between the next one to read and the newest; at most so many records.
        producer_id: of the open transaction that it waits for; None where there is none.
        waited_s: for how long, seconds.
    """

    topic: str
    partition: int
    records: int
    producer_id: int | None = None
    waited_s: float = 0.0


def message_batch(
    range_: OffsetRange, offsets: list[int], times_ms: list[int], values: list[bytes | None]
) -> MessageBatch:
    """A batch from columns of plain values.

    Args:
        range_: where they come from.
        offsets: (n,) offsets.
        times_ms: (n,) milliseconds since 1970; a sender may set any, so they are held between 1970 and 3000.
        values: (n,) bytes.
    """
    held = np.clip(np.array(times_ms, dtype=np.int64), 0, LATEST_MS)
    arrived_at = pa.array(held * 1000).cast(TIMESTAMP)
    return MessageBatch(range_, pa.array(offsets, pa.int64()), arrived_at, pa.array(values, pa.binary()))
