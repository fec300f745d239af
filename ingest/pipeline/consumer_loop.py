"""The loop that lands a stream: batches in, chain links out. The same for Kafka and for files.

The next start comes from the sink. Kafka's own committed offsets are written too, for tools that show lag, and are
never read back. kill -9, zombies and rebalances lose nothing and double nothing, since exactly one consumer can land a
given start, and one that comes second goes to the chain's end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

import structlog

from ingest.decode.contract import Decode
from ingest.decode.formats.native import decoder
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.sink import Sink
from ingest.pipeline.transform import DEFAULT_CLUSTER, Landing, land
from ingest.schema.batch import Backlog, Gap, MessageBatch
from ingest.schema.errors import LinkTaken
from ingest.schema.provenance import Link
from ingest.schema.tables import LANDED, LIVE_STATE, NODES
from ingest.schema.topics import NODE_STATE

log = structlog.get_logger(__name__)

NATIVE: Mapping[str, Decode] = {**{n: decoder(t) for n, t in LANDED.items()}, NODE_STATE.name: decoder(LIVE_STATE)}
"""Our own topics and their format."""

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
        """Go on from where the sink's chain ends."""

    def landed(self, link: Link, /) -> None:
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
        stop: set it to stop after the batch at hand.

    Returns:
        How many messages were landed.
    """
    count = 0
    while not stop.is_set() and not source.finished():
        polled = source.poll()
        for part in polled:
            count += _land_part(part, source, sink, landers, metrics)
        metrics.behind(source.backlog())
        if not polled and not source.finished():
            stop.wait(source.pause_s)
    return count


def _land_part(part: MessageBatch | Gap, source: Source, sink: Sink, landers: Landers, metrics: IngestMetrics) -> int:
    """Land one batch or gap, unless another consumer was quicker; how many messages were landed."""
    link = part.link
    try:
        messages = _write(part, sink, landers, metrics)
    except LinkTaken:
        log.info("landed by another consumer", **_place(link))
        metrics.lost_races.labels(link.topic).inc()
        source.rewind(link.topic, link.partition)
        return 0
    source.landed(link)
    return messages


def _write(part: MessageBatch | Gap, sink: Sink, landers: Landers, metrics: IngestMetrics) -> int:
    """Write a part to the sink and count it; raises LinkTaken, and then counts nothing."""
    if isinstance(part, Gap):
        sink.write_gap(part.link)
        log.warning("records are gone from the broker unread", **_place(part.link), offsets=part.offsets)
        metrics.lost(part)
        return 0
    decode = landers.formats.decoders[part.link.topic]
    landing = land(part, decode, landers.capacities(), cluster=landers.formats.cluster)
    sink.write(landing)
    metrics.landed(landing, len(part.offsets))
    landers.on_landed(landing)
    return len(part.offsets)


def _place(link: Link) -> dict[str, object]:
    return {"topic": link.topic, "partition": link.partition, "start": link.start, "end": link.end}
