"""Kafka as a source: a member of a consumer group that begins every partition at the sink's position. An edge."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

import structlog
from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import IllegalStateError, KafkaError, RetriableError

from ingest.kafka_io.client import connect
from ingest.kafka_io.connection import READ_COMMITTED, Brokers
from ingest.kafka_io.topic_admin import TopicAdmin
from ingest.pipeline.open_transactions import WaitingPartitions, log_waiting
from ingest.pipeline.sink import Sink
from ingest.schema.batch import Backlog, Gap, MessageBatch, message_batch
from ingest.schema.errors import IngestError
from ingest.schema.provenance import OffsetRange
from ingest.schema.topics import TOPICS

POLL_MS = 500
RETRY_S = 0.5
COMMIT_MS = 2000
"""Longest wait at the end for Kafka to note how far was landed: a courtesy to tools that show lag."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """How to read from Kafka.

    Memory is bounded: what is fetched and not landed yet is at most `max_bytes` from each broker as it came over the
    wire, hence so much times its compression, and one batch of at most `max_records` is decoded at a time. Nothing is
    fetched ahead of that: a slow lake slows the polling.

    Args:
        bootstrap: brokers, `host:port` separated by commas.
        topics: what to read.
        group: consumers of one group share the partitions.
        session_timeout_ms: after so long without a heartbeat others take over.
        max_records: most messages held at once.
        max_bytes: most bytes fetched at once, over all partitions.
        max_wait_ms: longest a message waits at the broker for `min_bytes` of company; fewer, larger files.
        min_bytes: as above.
        patience_s: how long a partition stands still before the broker is asked for open transactions.
    """

    bootstrap: Brokers | str
    topics: tuple[str, ...]
    group: str = "cohabit-ingest"
    session_timeout_ms: int = 10_000
    max_records: int = 20_000
    max_bytes: int = 32 << 20
    max_wait_ms: int = 1000
    min_bytes: int = 1 << 20
    patience_s: float = 5.0


class KafkaSource:
    """A consumer of a group, which reads committed records only. Close it when done."""

    def __init__(self, settings: ConsumerSettings, sink: Sink) -> None:
        self.pause_s = 0.0
        self._sink = sink
        self._settings = settings
        self._admin = TopicAdmin(settings.bootstrap)
        self._waiting = WaitingPartitions(self._admin.open_transactions, settings.patience_s)
        self._ids: dict[str, str] = {}
        self._assigned = _Assigned(self._commit)
        self._next: dict[TopicPartition, int] = {}
        self._landed: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] | None = None
        self._consumer = _group_member(settings)
        self._consumer.subscribe(topics=list(settings.topics), listener=self._assigned)
        for name in settings.topics:
            with suppress(RetriableError):  # the broker went away; the next poll says so
                if name not in TOPICS and not self._consumer.partitions_for_topic(name):
                    log.warning("there is no such topic on the broker; it is read once there is", topic=name)

    def stop_at_end(self) -> None:
        """Finish once everything committed on the broker now has been landed, by this consumer or by another.

        The end of a partition is its last stable offset: records behind an open transaction are left to the next run.
        """
        names = self._settings.topics
        self._recreated(names)
        places = [TopicPartition(name, p) for name in names for p in self._consumer.partitions_for_topic(name)]
        starts = {place: self._start(place) for place in places}
        self._ends, newest = self._consumer.end_offsets(places), self._admin.ends(places)
        for place, end in newest.items():
            _refuse_position_ahead(place, starts[place], end)
        self._log_left_out({place: end - self._ends[place] for place, end in newest.items() if end > self._ends[place]})

    def poll(self) -> Sequence[MessageBatch | Gap]:
        """One part for each partition that has news; nothing while the broker cannot be reached."""
        try:
            parts = self._poll()
        except RetriableError as error:
            log.warning("the broker cannot be reached, trying again", error=str(error))
            self._assigned.add(self._consumer.assignment())  # whatever was polled is not landed: begin anew
            self.pause_s = RETRY_S
            return []
        self.pause_s = 0.0
        return parts

    def rewind(self, topic: str, partition: int) -> None:
        """Begin the partition anew at the next poll."""
        place = TopicPartition(topic, partition)
        self._next.pop(place, None)
        self._assigned.add([place])

    def landed(self, range_: OffsetRange) -> None:
        """Commit the offset to Kafka, for tools that show lag; a failure to do so is harmless."""
        place = TopicPartition(range_.topic, range_.partition)
        self._consumer.commit_async(_offsets({place: range_.end}))
        self._assigned.note_landed(place, range_.end)
        self._landed[place] = max(self._landed.get(place, 0), range_.end)

    def backlog(self) -> Sequence[Backlog]:
        """What is not landed yet of each partition of this consumer, and which open transaction it waits for."""
        reading = self._reading()
        self._waiting.note({place: self._next[place] for place in reading if self._lag(place, self._next[place])})
        lags = {place: self._lag(place, self._landed.get(place, self._next[place])) for place in reading}
        found = self._waiting.found()
        return [
            Backlog(place.topic, place.partition, lag, found[place][0].producer_id, found[place][1])
            if place in found
            else Backlog(place.topic, place.partition, lag)
            for place, lag in lags.items()
        ]

    def finished(self) -> bool:
        """Whether all partitions reached the ends noted by `stop_at_end`."""
        return self._ends is not None and all(self._reached(place, end) for place, end in self._ends.items())

    def close(self) -> None:
        """Commit landed offsets to Kafka, unless it takes too long, and leave the group."""
        ends = self._assigned.forget_landed()
        if ends:
            with suppress(KafkaError):
                self._consumer.commit(_offsets(ends), timeout_ms=COMMIT_MS)
        self._consumer.close(autocommit=False)
        self._admin.close()

    async def _commit(self, ends: Mapping[TopicPartition, int]) -> None:
        """Commit to Kafka before others take over, and wait for its answer; a failure is harmless."""
        with suppress(KafkaError):
            await self._consumer.commit_async(_offsets(ends))

    def _poll(self) -> Sequence[MessageBatch | Gap]:
        polled = self._consumer.poll(timeout_ms=POLL_MS)
        fresh = self._assigned.take()
        passed = {place for place in self._reading() - fresh - polled.keys() if self._at(place) > self._next[place]}
        fresh |= self._recreated({place.topic for place in (*polled, *passed, *fresh)})
        parts: list[MessageBatch | Gap | None] = [self._begin(place) for place in sorted(fresh)]
        parts += [self._part(place, records) for place, records in polled.items() if place not in fresh]
        parts += [self._passed(place) for place in passed - fresh]
        return [part for part in parts if part is not None]

    def _recreated(self, topics: Collection[str]) -> set[TopicPartition]:
        """Compare the topics' ids with those read so far; partitions to begin anew, where another id was accepted.

        Asked after each poll and before what it brought is landed, so no record of a recreated topic is.

        Raises:
            IngestError: a topic is another one than the sink knows.
        """
        again: set[TopicPartition] = set()
        for topic, found in self._admin.ids(topics).items():
            if self._ids.get(topic) == found:
                continue
            self._sink.check_topic(topic, found)
            if topic in self._ids:
                again |= {place for place in self._consumer.assignment() if place.topic == topic}
            self._ids[topic] = found
        return again

    def _reading(self) -> set[TopicPartition]:
        """Partitions of this consumer that it has begun."""
        return {place for place in self._consumer.assignment() if place in self._next}

    def _lag(self, place: TopicPartition, position: int) -> int:
        try:
            newest = self._consumer.highwater(place)
        except IllegalStateError:
            return 0  # another has it since
        return max((newest or 0) - position, 0)

    def _log_left_out(self, behind: Mapping[TopicPartition, int]) -> None:
        """Log what reading to the end leaves out, and because of which open transaction."""
        with suppress(KafkaError):  # the broker does not say; the records come with a later run
            for place, one in self._admin.open_transactions(behind.keys()).items():
                log_waiting(place, one, offsets=behind[place])

    def _begin(self, place: TopicPartition) -> Gap | None:
        """Go to the sink's position, or give the gap when the broker no longer holds what follows it."""
        if place not in self._consumer.assignment():
            return None
        start = self._landed[place] = self._start(place)
        _refuse_position_ahead(place, start, self._admin.ends([place])[place])
        gap = self._skip_lost(place, start)
        if gap is None:
            self._go_to(place, start)
        return gap

    def _part(self, place: TopicPartition, records: Sequence[Any]) -> MessageBatch | Gap:
        start = self._next[place]
        _refuse_position_ahead(place, start, records[0].offset)
        if records[0].offset > start and (gap := self._skip_lost(place, start)):
            return gap
        end = self._next[place] = self._end(place, records[-1].offset + 1)
        return message_batch(
            OffsetRange(place.topic, place.partition, start, end),
            [r.offset for r in records],
            [r.timestamp for r in records],
            [r.value for r in records],
        )

    def _passed(self, place: TopicPartition) -> MessageBatch | Gap | None:
        """Offsets that were read and held no record: aborted transactions, and the ends of transactions."""
        start, position = self._next[place], self._at(place)
        if position <= start or self._assigned.is_fresh(place):
            return None
        if gap := self._skip_lost(place, start):
            return gap
        self._next[place] = position
        return message_batch(OffsetRange(place.topic, place.partition, start, position), [], [], [])

    def _skip_lost(self, place: TopicPartition, start: int) -> Gap | None:
        """Go to what the broker still holds, and give what it no longer does; None where it holds all from `start`."""
        if (earliest := self._earliest(place)) <= start:
            return None
        self._go_to(place, earliest)
        return Gap(OffsetRange(place.topic, place.partition, start, earliest))

    def _end(self, place: TopicPartition, after_last: int) -> int:
        """Position after a batch: beyond its last record where offsets have holes, but never beyond a truncation."""
        position = self._at(place)
        if position > after_last and self._earliest(place) > after_last:
            return after_last
        return max(position, after_last)

    def _at(self, place: TopicPartition) -> int:
        """Where the consumer stands; 0 when that cannot be said: another owns the partition, or no broker answers."""
        try:
            return int(self._consumer.position(place, timeout_ms=POLL_MS) or 0)
        except (IllegalStateError, RetriableError):
            return 0

    def _reached(self, place: TopicPartition, end: int) -> bool:
        if place in self._reading():
            return max(self._next[place], self._at(place)) >= end
        return self._start(place) >= end  # landed by another

    def _start(self, place: TopicPartition) -> int:
        return self._sink.position(place.topic, place.partition) or 0

    def _earliest(self, place: TopicPartition) -> int:
        return int(self._consumer.beginning_offsets([place])[place])

    def _go_to(self, place: TopicPartition, offset: int) -> None:
        with suppress(ValueError):  # the partition was taken away meanwhile
            self._consumer.seek(place, offset)
        self._next[place] = offset


class _Assigned(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Partitions given to this consumer that it has not begun yet, and how far it landed others.

    Called on kafka-python's own thread, which must not be blocked.
    """

    def __init__(self, commit: Callable[[Mapping[TopicPartition, int]], Awaitable[None]]) -> None:
        self._lock = Lock()
        self._fresh: set[TopicPartition] = set()
        self._landed: dict[TopicPartition, int] = {}
        self._commit = commit

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.add(assigned)

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        with self._lock:
            self._fresh -= set(revoked)
        if ends := self.forget_landed():
            await self._commit(ends)

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        with self._lock:
            self._fresh -= set(lost)
        self.forget_landed()

    def note_landed(self, place: TopicPartition, end: int) -> None:
        with self._lock:
            self._landed[place] = end

    def forget_landed(self) -> dict[TopicPartition, int]:
        with self._lock:
            landed, self._landed = self._landed, {}
        return landed

    def add(self, places: Collection[TopicPartition]) -> None:
        with self._lock:
            self._fresh |= set(places)

    def is_fresh(self, place: TopicPartition) -> bool:
        with self._lock:
            return place in self._fresh

    def take(self) -> set[TopicPartition]:
        with self._lock:
            fresh, self._fresh = self._fresh, set()
        return fresh


def _group_member(settings: ConsumerSettings) -> KafkaConsumer:
    return connect(
        KafkaConsumer,
        settings.bootstrap,
        group_id=settings.group,
        isolation_level=READ_COMMITTED,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        allow_auto_create_topics=False,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.session_timeout_ms // 4,
        max_poll_records=settings.max_records,
        fetch_max_bytes=settings.max_bytes,
        max_partition_fetch_bytes=settings.max_bytes // 4,
        fetch_max_wait_ms=settings.max_wait_ms,
        fetch_min_bytes=settings.min_bytes,
    )


def _refuse_position_ahead(place: TopicPartition, start: int, end: int) -> None:
    if start > end:
        raise IngestError(
            f"{place.topic}[{place.partition}] is ingested up to offset {start}, but the broker's newest is {end}: the "
            f"broker lost records or the topic was recreated; run `cohabit lake accept-topic {place.topic}` to start "
            "at its offset 0"
        )


def _offsets(ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {place: OffsetAndMetadata(end, "", -1) for place, end in ends.items()}
