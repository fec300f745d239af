"""Partitions that wait: an open transaction keeps everything behind its first record from being read. An edge."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from time import monotonic

import structlog
from kafka import TopicPartition
from kafka.errors import KafkaError

from ingest.kafka_io.topic_admin import OpenTransaction

Ask = Callable[[Set[TopicPartition]], Mapping[TopicPartition, OpenTransaction]]
"""The open transactions of partitions, as brokers report them."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class WaitingPartitions:
    """Which partitions stand still although records follow, since when, and at which transaction.

    Args:
        ask: see Ask.
        patience_s: how long a partition stands still before brokers are asked, and between two questions.
        now_s: the clock.
    """

    ask: Ask
    patience_s: float
    now_s: Callable[[], float] = monotonic
    _stands: dict[TopicPartition, tuple[int, float]] = field(default_factory=dict)
    _open: Mapping[TopicPartition, OpenTransaction] = field(default_factory=dict)
    _asked_s: float = float("-inf")

    def note(self, behind: Mapping[TopicPartition, int]) -> None:
        """Take up where each partition that has more records stands.

        Args:
            behind: the next offset to read, of each partition that lags.
        """
        now_s = self.now_s()
        before = self._stands
        self._stands = {
            place: before[place] if place in before and before[place][0] == offset else (offset, now_s)
            for place, offset in behind.items()
        }
        still = {place for place, (_, since_s) in self._stands.items() if now_s - since_s >= self.patience_s}
        if still and now_s - self._asked_s >= self.patience_s:
            self._asked_s = now_s
            self._ask(still)
        self._open = {place: one for place, one in self._open.items() if place in still}

    def found(self) -> dict[TopicPartition, tuple[OpenTransaction, float]]:
        """The open transaction that each waiting partition waits for, and for how many seconds."""
        now_s = self.now_s()
        return {place: (one, now_s - self._stands[place][1]) for place, one in self._open.items()}

    def _ask(self, still: Set[TopicPartition]) -> None:
        try:
            found = self.ask(still)
        except KafkaError as error:
            log.warning("open transactions cannot be read", error=repr(error))
            return
        for place, one in found.items():
            if self._open.get(place) != one:
                log_waiting(place, one)
        self._open = found


def log_waiting(place: TopicPartition, one: OpenTransaction, **more: object) -> None:
    """Log that a partition waits for a transaction."""
    log.warning(
        "records behind an open transaction are not ingested; `cohabit doctor ingest` shows how to end it",
        topic=place.topic,
        partition=place.partition,
        producer_id=one.producer_id,
        first_offset=one.first_offset,
        **more,
    )
