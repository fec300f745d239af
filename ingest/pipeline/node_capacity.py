"""What the nodes can do, as Kafka's topic `nodes` says by now: read to its end first, then kept up to date. An edge."""

from contextlib import suppress

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import RetriableError

from ingest.kafka_io.client import connect
from ingest.kafka_io.connection import READ_COMMITTED, Brokers
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.transform import DEFAULT_CLUSTER, with_nodes
from ingest.schema.batch import message_batch
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import NODES

FIRST_READ_MS = 1000


class KafkaCapacities:
    """Reads the whole topic, whichever consumer lands it; ask it before every batch. Close it when done."""

    def __init__(self, bootstrap: Brokers | str, topic: str = NODES.name, *, cluster: str = DEFAULT_CLUSTER) -> None:
        self._cluster = cluster
        self._known = Capacities()
        self._consumer = connect(
            KafkaConsumer,
            bootstrap,
            isolation_level=READ_COMMITTED,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
        )
        self._places = [TopicPartition(topic, p) for p in self._consumer.partitions_for_topic(topic)]
        self._consumer.assign(self._places)
        ends = self._consumer.end_offsets(self._places)
        while any(self._consumer.position(place) < end for place, end in ends.items()):
            self._read(FIRST_READ_MS)

    def __call__(self) -> Capacities:
        """What is known by now; while the broker cannot be reached, what was known before."""
        if self._places:
            with suppress(RetriableError):
                self._read(0)
        return self._known

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def _read(self, wait_ms: int) -> None:
        for place, records in self._consumer.poll(timeout_ms=wait_ms, max_records=20_000).items():
            range_ = OffsetRange(place.topic, place.partition, records[0].offset, records[-1].offset + 1)
            times, values = [r.timestamp for r in records], [r.value for r in records]
            batch = message_batch(range_, [r.offset for r in records], times, values)
            self._known = with_nodes(self._known, batch, self._cluster)
