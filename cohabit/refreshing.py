"""Refresh: keep live state from a stream and publish snapshots of it. An edge."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import structlog
from prometheus_client import CollectorRegistry

from advisor.snapshot import publish
from cohabit.live_state import LiveState
from ingest.consumer import Formats, Landers, ingest
from ingest.file_source import FileCapacities, FileSource
from ingest.kafka_capacities import KafkaCapacities
from ingest.kafka_source import ConsumerSettings, KafkaSource
from ingest.lake import Lake
from ingest.metrics import IngestMetrics

log = structlog.get_logger(__name__)

Published = Callable[[int, int, int], None]
"""Told version, nodes and residents of each snapshot."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """How to refresh.

    Args:
        snapshots: folder to publish to.
        every_s: seconds between snapshots.
        version: version of the first snapshot; later ones count up.
    """

    snapshots: Path
    every_s: float
    version: int


def refresh_from_files(
    folder: Path, topics: Sequence[str], state: LiveState, lake: Lake, how: Refresh, *, published: Published
) -> None:
    """Read stream files to their end and publish one snapshot."""
    formats = Formats()
    with (
        closing(FileCapacities(folder, formats.nodes_topic, cluster=formats.cluster)) as capacities,
        closing(FileSource(folder, topics, state.position)) as source,
    ):
        source.stop_at_end()
        ingest(source, state, Landers(formats, capacities), _metrics(), Event())
    _publish(state, lake, how, how.version, published)


def refresh_from_kafka(
    settings: ConsumerSettings, state: LiveState, lake: Lake, how: Refresh, *, published: Published, stop: Event
) -> None:
    """Follow Kafka and publish a snapshot every few seconds until told to stop."""
    formats = Formats()
    with (
        closing(KafkaCapacities(settings.bootstrap, formats.nodes_topic, cluster=formats.cluster)) as capacities,
        closing(KafkaSource(settings, state.position)) as source,
    ):
        reader = Thread(
            target=ingest, args=(source, state, Landers(formats, capacities), _metrics(), stop), daemon=True
        )
        reader.start()
        version = how.version
        while reader.is_alive() and not stop.wait(how.every_s):
            if state.as_of_us:
                _publish(state, lake, how, version, published)
                version += 1
        stop.set()
        reader.join()


def _publish(state: LiveState, lake: Lake, how: Refresh, version: int, published: Published) -> None:
    snapshot = state.snapshot(lake.read("profiles"), version)
    publish(how.snapshots, snapshot)
    published(version, len(snapshot.nodes), len(snapshot.containers))


def _metrics() -> IngestMetrics:
    return IngestMetrics.on(CollectorRegistry())
