"""What brokers say of a topic besides its records: its id, its ends and its open transactions. An edge."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import BrokerResponseError

from ingest.kafka_io.client import connect
from ingest.kafka_io.connection import Brokers

ANSWER_MS = 5000
"""Longest wait for an answer: consumers ask between two polls."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The oldest open transaction of a partition: nothing behind its first record can be read.

    Args:
        producer_id: of the producer that began it.
        first_offset: of its first record in the partition.
        last_write_ms: time of the producer's last record in the partition, milliseconds since 1970.
    """

    producer_id: int
    first_offset: int
    last_write_ms: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """What the coordinator of a transaction says of it.

    Args:
        transactional_id: name that the producer gave itself.
        started_ms: when it began, milliseconds since 1970.
    """

    transactional_id: str
    started_ms: int


class TopicAdmin:
    """Asks brokers about topics; errors are kafka-python's own. Close it when done."""

    def __init__(self, bootstrap: Brokers | str) -> None:
        self._admin = connect(KafkaAdminClient, bootstrap, request_timeout_ms=ANSWER_MS)

    def ids(self, topics: Collection[str]) -> dict[str, str]:
        """Id of each topic; none for a topic that does not exist, or of brokers before 2.8, which have no ids."""
        found = self._admin.describe_topics(sorted(topics)) if topics else []
        return {topic["name"]: topic["topic_id"] for topic in found if topic["topic_id"]}

    def places(self, topics: Collection[str]) -> list[TopicPartition]:
        """Partitions of those topics that exist."""
        found = self._admin.describe_topics(sorted(topics)) if topics else []
        return [TopicPartition(t["name"], p["partition_index"]) for t in found for p in t["partitions"]]

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each partition ends: the offset of its next record, behind open transactions too."""
        found = self._admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        return {place: int(end.offset) for place, end in found.items()}

    def open_transactions(self, places: Collection[TopicPartition]) -> dict[TopicPartition, OpenTransaction]:
        """The oldest open transaction of each partition that has one (KIP-664; brokers since 2.8)."""
        found: Mapping[TopicPartition, object] = self._admin.describe_producers(places) if places else {}
        oldest = {place: _oldest(state.active_producers) for place, state in found.items()}  # type: ignore[attr-defined]
        return {place: one for place, one in oldest.items() if one is not None}

    def transaction(self, producer_id: int) -> Transaction | None:
        """The transaction of a producer; None where no coordinator knows it, or we may not ask."""
        try:
            listed = self._admin.list_transactions(producer_id_filters=[producer_id])
            names = [one.transactional_id for of_broker in listed.values() for one in of_broker]
            described = self._admin.describe_transactions(names) if names else {}
        except BrokerResponseError:
            return None
        began = [Transaction(name, one.transaction_start_time_ms) for name, one in described.items()]
        return next((one for one in began if one.started_ms > 0), None)

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()


def _oldest(producers: Iterable[object]) -> OpenTransaction | None:
    found = [
        OpenTransaction(p.producer_id, p.current_transaction_start_offset, p.last_timestamp)  # type: ignore[attr-defined]
        for p in producers
    ]
    return min((one for one in found if one.first_offset >= 0), key=lambda one: one.first_offset, default=None)
