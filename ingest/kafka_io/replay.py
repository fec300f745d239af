"""Replay: send what lies in stream files to Kafka, with the times and keys it had. An edge."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event
from time import monotonic

from kafka import KafkaProducer

from ingest.kafka_io.client import connect
from ingest.kafka_io.connection import Brokers
from ingest.kafka_io.stream_files import Message, in_order, read_messages, topic_path
from ingest.schema.errors import IngestError

REPORT_EVERY = 10_000
Progress = Callable[[int], None]
"""Called with the number of messages sent so far."""


class Sender:
    """An idempotent producer: a retry writes nothing twice. Close it when done."""

    def __init__(self, bootstrap: Brokers | str) -> None:
        self._failures: list[Exception] = []
        self._producer = connect(
            KafkaProducer,
            bootstrap,
            enable_idempotence=True,
            acks="all",
            compression_type="lz4",
            linger_ms=20,
            batch_size=256 << 10,
        )

    def send(self, topic: str, message: Message) -> None:
        """Queue a message; the queue is bounded, so this waits when the broker is slow."""
        future = self._producer.send(topic, value=message.value, key=message.key, timestamp_ms=message.arrived_ms)
        future.add_errback(self._failures.append)

    def flush(self) -> None:
        """Wait until every message is safe.

        Raises:
            IngestError: some were refused.
        """
        self._producer.flush()
        if self._failures:
            raise IngestError(
                f"{len(self._failures)} messages were refused, first because: {self._failures[0]}. Check that the "
                "topics exist and that no message is longer than the broker takes; sending all again doubles nothing "
                "in the lake"
            )

    def close(self) -> None:
        """Close the connection."""
        self._producer.close()


def replay(
    folder: Path,
    topics: Sequence[str],
    bootstrap: Brokers | str,
    *,
    speed: float = 0.0,
    progress: Progress,
    stop: Event,
) -> int:
    """Send the messages of stream files in the order in which they first arrived.

    Args:
        folder: holds `<topic>.log`.
        topics: which to send.
        bootstrap: brokers.
        speed: 1 keeps the messages' own distances in time, 10 is ten times as fast, 0 does not wait for them.
        progress: called with how many were sent.
        stop: set it to end early.

    Returns:
        How many messages were sent and are safe.
    """
    sent, began_s, first_ms = 0, monotonic(), None
    with closing(Sender(bootstrap)) as sender:
        for topic, message in in_order((topic, read_messages(topic_path(folder, topic))) for topic in topics):
            first_ms = message.arrived_ms if first_ms is None else first_ms
            due_s = (message.arrived_ms - first_ms) / 1000 / speed if speed else 0.0
            wait_s = began_s + due_s - monotonic()
            if (wait_s > 0 and stop.wait(wait_s)) or stop.is_set():
                break
            sender.send(topic, message)
            sent += 1
            if sent % REPORT_EVERY == 0:
                progress(sent)
        sender.flush()
    progress(sent)
    return sent
