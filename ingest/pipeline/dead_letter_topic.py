"""Dead letters on a Kafka topic, for those who watch a stream: sent once they are landed, never in the way. An edge."""

from kafka import KafkaProducer
from kafka.errors import KafkaError

from ingest.devkafka.broker import create_topics
from ingest.kafka_io.client import connect
from ingest.kafka_io.connection import Brokers
from ingest.pipeline.dead_letters import send_dead_letters
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.transform import Landing
from ingest.schema.topics import DEAD_LETTERS

LONGEST_WAIT_MS = 500
"""Longest that one batch is held up by a broker that does not take its dead letters."""


class DeadLetterTopic:
    """Sends what was rejected; call it with each landed batch. What cannot be sent is counted. Close it when done."""

    def __init__(self, bootstrap: Brokers | str, metrics: IngestMetrics) -> None:
        create_topics(bootstrap, (DEAD_LETTERS,))
        self._metrics, self._asked = metrics, 0
        self._producer = connect(KafkaProducer, bootstrap, max_block_ms=LONGEST_WAIT_MS, compression_type="lz4")

    def __call__(self, landing: Landing) -> None:
        """Send a batch's dead letters; at the first that is refused the rest of the batch stays in the lake alone."""
        self._asked = 0
        try:
            send_dead_letters(landing.dead_letters, self._send)
        except KafkaError:
            self._metrics.letters_unsent.inc(landing.dead_letters.num_rows - self._asked)

    def close(self) -> None:
        """Send what is queued and close the connection."""
        self._producer.close(timeout=LONGEST_WAIT_MS / 1000 * 4)

    def _send(self, topic: str, key: bytes, value: bytes) -> None:
        future = self._producer.send(topic, key=key, value=value)
        self._asked += 1
        future.add_callback(lambda _: self._metrics.letters_sent.inc())
        future.add_errback(lambda _: self._metrics.letters_unsent.inc())
