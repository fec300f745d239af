"""Dead letters: what was rejected, with the message as it came, so that it can be looked at and sent again."""

from base64 import b64encode
from collections.abc import Callable

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ingest.decode.contract import Reject, rejects_table
from ingest.schema.batch import MessageBatch
from ingest.schema.tables import DEAD_LETTERS
from ingest.schema.topics import DEAD_LETTERS as TOPIC
from ingest.schema.topics import message_key

MAX_ITEMS = 100
REST = "…"
"""Item of the row that counts what was left out."""
MAX_PAYLOAD_BYTES = 1 << 16
"""Of a longer message the beginning is kept: the broker still has all of it at the same offset."""

Send = Callable[[str, bytes, bytes], None]
"""Sends (topic, key, value)."""


def dead_letters(batch: MessageBatch, rejects: pa.Table) -> pa.Table:
    """Rejects of a batch as rows of the dead-letter table, one for each (topic, partition, offset, item).

    The message itself stands in the first row about it only: a message with a thousand faults is not kept a thousand
    times. Of a message with more than MAX_ITEMS faults the rest become one row that counts them.
    """
    rejects = bounded(rejects)
    at = rejects["message"].combine_chunks()
    is_first = np.diff(at.to_numpy(), prepend=-1) != 0
    shown = batch.values.take(pc.if_else(pa.array(is_first), at, None))
    columns = {
        "item": rejects["item"],
        "reason": rejects["reason"],
        "detail": rejects["detail"],
        "payload": pc.binary_slice(shown, 0, MAX_PAYLOAD_BYTES),
        **origin_columns(batch, at),
    }
    return pa.Table.from_arrays([columns[name] for name in DEAD_LETTERS.schema.names], schema=DEAD_LETTERS.schema)


def bounded(rejects: pa.Table) -> pa.Table:
    """Rejects by message, at most MAX_ITEMS of each and one more that says how many were left out."""
    ordered = rejects.take(pc.sort_indices(rejects, [("message", "ascending")]))
    message = ordered["message"].to_numpy()
    _, start, count = np.unique(message, return_index=True, return_counts=True)
    place = np.arange(len(message)) - np.repeat(start, count)
    kept = ordered.filter(pa.array(place < MAX_ITEMS))
    crowded = count > MAX_ITEMS
    more = [
        Reject(int(message[row]), REST, ordered["reason"][int(row + MAX_ITEMS)].as_py(), f"{n - MAX_ITEMS} more items")
        for row, n in zip(start[crowded].tolist(), count[crowded].tolist(), strict=True)
    ]
    both = pa.concat_tables([kept, rejects_table(more)])
    return both.take(pc.sort_indices(both, [("message", "ascending")]))


def origin_columns(batch: MessageBatch, message: pa.Int32Array) -> dict[str, pa.Array]:
    """The landing columns of rows that came from the given messages of a batch."""
    return {
        "topic": pa.array([batch.range.topic] * len(message), pa.string()),
        "partition": pa.array([batch.range.partition] * len(message), pa.int32()),
        "offset": batch.offsets.take(message),
        "arrived_at": batch.arrived_at.take(message),
    }


def send_dead_letters(rows: pa.Table, send: Send) -> None:
    """Send dead letters to their topic, for those who watch a stream rather than a table."""
    for row in rows.to_pylist():
        payload = row["payload"]
        shown = {
            **row,
            "arrived_at": row["arrived_at"].isoformat(),
            "payload": None if payload is None else b64encode(payload).decode(),
        }
        send(TOPIC.name, message_key(TOPIC, row), orjson.dumps(shown))
