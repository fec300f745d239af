"""The loop that lands a stream: batches in, commits out. The same for Kafka and for files.

The next start comes from the sink. Kafka's own committed offsets are written too, for tools that show lag, and are
never read back. kill -9, zombies and rebalances lose nothing and double nothing, since exactly one consumer can land a
given start, and one that comes second goes to the sink's position. Batches wait for company until the sink is due: a
commit costs the same however much it brings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from time import monotonic
from typing import Protocol

import structlog

from ingest.decode.contract import Decode
from ingest.decode.formats.native import decoder
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.sink import Sink
from ingest.pipeline.transform import DEFAULT_CLUSTER, Landing, land
from ingest.schema.batch import Backlog, Gap, MessageBatch, message_batch
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import LANDED, LIVE_STATE, NODES
from ingest.schema.topics import NODE_STATE

log = structlog.get_logger(__name__)

NATIVE: Mapping[str, Decode] = {**{n: decoder(t) for n, t in LANDED.items()}, NODE_STATE.name: decoder(LIVE_STATE)}
"""Our own topics and their format."""

MAX_HELD_BYTES = 64 << 20
"""What batches that wait may take in memory, as rows."""

OnLanded = Callable[[Landing], None]
"""Called with each batch after it is safe: for progress, or to send its dead letters on."""


def ignore(_landing: Landing) -> None:
    """Do nothing."""


class Source(Protocol):
    """A stream that is read in batches, each of one partition, and can be read again from any position."""

    @property
    def pause_s(self) -> float:
        """How long to wait after a poll that brought nothing; 0 where poll itself waits."""

    def poll(self) -> Sequence[MessageBatch | Gap]:
        """What came since, at most one part of each partition; empty when nothing did within a short while."""

    def rewind(self, topic: str, partition: int) -> None:
        """Go on from the sink's position."""

    def landed(self, range_: OffsetRange, /) -> None:
        """Note that a stretch is safe."""

    def backlog(self) -> Sequence[Backlog]:
        """What is still to come of each partition that is being read."""

    def finished(self) -> bool:
        """Whether everything that was asked for has been read; never, for an endless stream."""


@dataclass(frozen=True, slots=True)
class Formats:
    """How the bytes of a stream are to be read.

    Args:
        decoders: format of each topic.
        nodes_topic: where the nodes' capacities are published.
        cluster: the cluster of records that do not name one.
    """

    decoders: Mapping[str, Decode] = field(default_factory=lambda: NATIVE)
    nodes_topic: str = NODES.name
    cluster: str = DEFAULT_CLUSTER


@dataclass(frozen=True, slots=True)
class Landers:
    """How batches become rows.

    Args:
        formats: how bytes are read.
        capacities: what the nodes can do by now; asked before every batch.
        on_landed: called with each batch after it is safe.
    """

    formats: Formats
    capacities: Callable[[], Capacities]
    on_landed: OnLanded = ignore


def ingest(source: Source, sink: Sink, landers: Landers, metrics: IngestMetrics, stop: Event) -> int:
    """Land batches until `stop` is set or the source is finished.

    Args:
        source: where batches come from.
        sink: where they go, and where to begin.
        landers: how they become rows.
        metrics: what is counted.
        stop: set it to stop after the batches at hand.

    Returns:
        How many messages were landed.
    """
    held = _Held(source, sink, landers, metrics)
    while not stop.is_set():
        if source.finished():
            held.commit()
            if source.finished():
                break  # nothing that another landed has to be read again
        polled = source.poll()
        for part in polled:
            held.add(part)
        if held.is_due():
            held.commit()
        metrics.behind(source.backlog())
        if not polled and not source.finished():
            stop.wait(source.pause_s)
    held.commit()
    metrics.behind(source.backlog())
    return held.messages


@dataclass(slots=True)
class _Held:
    """Batches that wait for company; `messages` were landed."""

    source: Source
    sink: Sink
    landers: Landers
    metrics: IngestMetrics
    messages: int = 0
    _parts: list[tuple[MessageBatch | Gap, Landing]] = field(default_factory=list)
    _bytes: int = 0
    _since_s: float = 0.0

    def add(self, part: MessageBatch | Gap) -> None:
        """Decode a part; what is held of its partition and does not lead up to it is read again, and dropped."""
        place, landing = (part.range.topic, part.range.partition), self._landing(part)
        ends = [p.range.end for p, _ in self._parts if (p.range.topic, p.range.partition) == place]
        if ends and max(ends) != part.range.start:
            self._parts = [one for one in self._parts if (one[0].range.topic, one[0].range.partition) != place]
        if not self._parts:
            self._since_s, self._bytes = monotonic(), 0
        self._parts.append((part, landing))
        self._bytes += landing.rows.nbytes + landing.dead_letters.nbytes

    def is_due(self) -> bool:
        """Whether what waits has waited long enough, or is much."""
        return bool(self._parts) and (self._bytes >= MAX_HELD_BYTES or monotonic() - self._since_s >= self.sink.every_s)

    def commit(self) -> None:
        """Land what waits, and count what was landed."""
        parts, self._parts = self._parts, []
        if not parts:
            return
        taken = set(self.sink.write_all([landing for _, landing in parts]))
        for part, landing in parts:
            if part.range in taken:
                log.info("landed by another consumer", **_place(part.range))
                self.metrics.lost_races.labels(part.range.topic).inc()
                self.source.rewind(part.range.topic, part.range.partition)
            else:
                self._count(part, landing)
                self.source.landed(part.range)

    def _landing(self, part: MessageBatch | Gap) -> Landing:
        formats = self.landers.formats
        decode = formats.decoders[part.range.topic]
        batch = message_batch(part.range, [], [], []) if isinstance(part, Gap) else part
        landing = land(batch, decode, self.landers.capacities(), cluster=formats.cluster)
        return replace(landing, is_gap=isinstance(part, Gap))

    def _count(self, part: MessageBatch | Gap, landing: Landing) -> None:
        if isinstance(part, Gap):
            log.warning("records are gone from the broker unread", **_place(part.range), offsets=part.offsets)
            self.metrics.lost(part)
            return
        self.metrics.landed(landing, len(part.offsets))
        self.landers.on_landed(landing)
        self.messages += len(part.offsets)


def _place(range_: OffsetRange) -> dict[str, object]:
    return {"topic": range_.topic, "partition": range_.partition, "start": range_.start, "end": range_.end}
