"""Dead letters: what was set aside, with the message as it came, so that it can be looked at and sent again."""

from base64 import b64encode
from collections.abc import Callable

import orjson
import pyarrow as pa

from ingest.batch import MessageBatch
from ingest.schema import DEAD_LETTERS
from ingest.topics import DEAD_LETTERS as TOPIC
from ingest.topics import message_key

MAX_PAYLOAD_BYTES = 1 << 16
"""Of a longer message the beginning is kept: the broker still has all of it at the same offset."""

Send = Callable[[str, bytes, bytes], None]
"""Sends (topic, key, value)."""


def dead_letters(batch: MessageBatch, rejects: pa.Table) -> pa.Table:
    """Rejects of a batch as rows of the dead-letter table, one for each (topic, partition, offset, item)."""
    at = rejects["message"].combine_chunks()
    payload = pa.array([_beginning(batch.values[i].as_py()) for i in at.to_pylist()], pa.binary())
    columns = {
        "item": rejects["item"],
        "reason": rejects["reason"],
        "detail": rejects["detail"],
        "payload": payload,
        **origin_columns(batch, at),
    }
    return pa.Table.from_arrays([columns[name] for name in DEAD_LETTERS.schema.names], schema=DEAD_LETTERS.schema)


def origin_columns(batch: MessageBatch, message: pa.Int32Array) -> dict[str, pa.Array]:
    """The landing columns of rows that came from the given messages of a batch."""
    return {
        "topic": pa.array([batch.link.topic] * len(message), pa.string()),
        "partition": pa.array([batch.link.partition] * len(message), pa.int32()),
        "offset": batch.offsets.take(message),
        "arrived_at": batch.arrived_at.take(message),
    }


def send_dead_letters(rows: pa.Table, send: Send) -> None:
    """Send dead letters to their topic, for those who watch a stream rather than a table; at least once each."""
    for row in rows.to_pylist():
        payload = row["payload"]
        shown = {
            **row,
            "arrived_at": row["arrived_at"].isoformat(),
            "payload": None if payload is None else b64encode(payload).decode(),
        }
        send(TOPIC.name, message_key(TOPIC, row), orjson.dumps(shown))


def _beginning(payload: bytes | None) -> bytes | None:
    return None if payload is None else payload[:MAX_PAYLOAD_BYTES]
