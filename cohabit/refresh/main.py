"""Refresh: keep live state from a stream and publish snapshots of it. An edge."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from threading import Event
from time import monotonic

import pyarrow as pa
import structlog
from prometheus_client import CollectorRegistry

from advisor.admission.node_room import node_rooms
from advisor.admission.room_file import write_rooms
from advisor.capacity.offer_file import NewestOffers
from advisor.cluster.snapshot import Snapshot, publish
from advisor.errors import Contained
from cohabit.config.errors import CohabitError
from cohabit.config.malloc_trim import GivingBack
from cohabit.refresh.heard_file import EVERY_S, read_heard, write_heard
from cohabit.refresh.live_state import LiveState
from features.contention.node_state import Facts
from features.profiles.app_profile import newest
from features.schema.tables import PROFILES
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats, Landers, ingest
from ingest.pipeline.file_source import FileCapacities, FileSource
from ingest.pipeline.kafka_source import ConsumerSettings, KafkaSource
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.node_capacity import KafkaCapacities
from ingest.pipeline.runner import NATIVE_FORMATS
from ingest.schema.errors import DamagedLake, IngestError

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 0.1
UNREACHED_S = 60.0
"""Until a lake that could not be reached is asked again, which takes some seconds each time."""

Published = Callable[[int, int, int], None]
"""Called with version, nodes and residents of each snapshot."""


@dataclass(frozen=True)
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

    @cached_property
    def offers(self) -> NewestOffers:
        """What nodes offer, where that is published."""
        return NewestOffers(self.snapshots)

    @cached_property
    def rooms(self) -> "PublishedRooms":
        """What nodes have left, published next to snapshots."""
        return PublishedRooms(self.snapshots)


class PublishedRooms:
    """What nodes have left; where that cannot be written, snapshots are published all the same."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._failed = folder, False

    def write(self, snapshot: Snapshot, facts: Facts) -> None:
        """Write it; a failure is logged once until it goes well again."""
        with Contained(None if self._failed else log, "cannot write what nodes have left") as writing:
            write_rooms(self._folder, node_rooms(snapshot, facts))
        self._failed = writing.error is not None


class NewestProfiles:
    """The profiles that are still valid; all of them are read again only once their table has changed.

    Every half hour adds a row for each app and platform, and a snapshot is made every few seconds.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._files: list[str] | None = None
        self._rows: pa.Table = PROFILES.schema.empty_table()
        self._again_s = 0.0

    def by(self, now_us: int) -> pa.Table:
        """Rows that stand at a time, or later.

        Args:
            now_us: that time, never before one that was asked for, microseconds since 1970.

        Where the lake cannot be reached, those of before stand: scores would be neutral without any.

        Raises:
            IngestError: they are damaged, or were never read.
        """
        if monotonic() < self._again_s:
            return self._rows
        try:
            self._look(now_us)
        except DamagedLake:
            raise
        except IngestError as error:
            if self._files is None:
                raise
            self._again_s = monotonic() + UNREACHED_S
            log.warning("cannot read profiles; those read last are used", error=str(error))
        return self._rows

    def _look(self, now_us: int) -> None:
        files = self._lake.files(PROFILES.name)
        if files != self._files:
            rows = PROFILES.schema.empty_table()
            for piece in self._lake.pieces(PROFILES.name):
                rows = newest(pa.concat_tables([rows, piece]), now_us)
            self._files, self._rows = files, rows.combine_chunks()


def refresh_from_files(
    folder: Path, topics: Sequence[str], state: LiveState, lake: Lake, how: Refresh, *, published: Published
) -> None:
    """Read stream files to their end and publish one snapshot.

    Raises:
        CohabitError: no record is of the state's cluster.
    """
    formats = Formats()
    with (
        closing(FileCapacities(folder, formats.nodes_topic, cluster=formats.cluster)) as capacities,
        closing(FileSource(folder, topics, state.position)) as source,
    ):
        source.stop_at_end()
        ingest(source, state, Landers(formats, capacities), _metrics(), Event())
    if not state.as_of_us:
        there = ", ".join(sorted(state.others)) or "none"
        raise CohabitError(
            f"no record of cluster {state.cluster!r}; clusters seen: {there}. Set --cluster or COHABIT_CLUSTER"
        )
    _publish(state, NewestProfiles(lake), how, how.version, published)


def refresh_from_kafka(
    settings: ConsumerSettings,
    state: LiveState,
    lake: Lake,
    how: Refresh,
    *,
    published: Published,
    stop: Event,
    formats: Formats = NATIVE_FORMATS,
) -> None:
    """Follow Kafka and publish a snapshot every few seconds until `stop` is set.

    Raises:
        IngestError: what ended the reading; nothing goes on being published from a stream that is not read.
    """
    state.recall(read_heard(how.snapshots))
    with (
        closing(KafkaCapacities(settings.bootstrap, formats.nodes_topic, cluster=formats.cluster)) as capacities,
        closing(KafkaSource(settings, state)) as source,
    ):
        source.stop_at_end()
        following = _Following(source)
        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(ingest, following, state, Landers(formats, capacities), _metrics(), stop)
            try:
                _wait(following.caught_up.is_set, reader, stop)
                _publish_regularly(reader, state, lake, how, published=published, stop=stop)
            finally:
                stop.set()
        reader.result()


class _Following:
    """A source that never finishes, and reports once when it has read everything that was there at the start.

    A snapshot before that would show nodes emptier than they are.
    """

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self.poll, self.rewind, self.landed, self.backlog = source.poll, source.rewind, source.landed, source.backlog
        self.caught_up = Event()

    @property
    def pause_s(self) -> float:
        """See ingest.pipeline.consumer_loop.Source."""
        return self._source.pause_s

    def finished(self) -> bool:
        """Never."""
        if not self.caught_up.is_set() and self._source.finished():
            self.caught_up.set()
        return False


def _publish_regularly(
    reader: Future[int], state: LiveState, lake: Lake, how: Refresh, *, published: Published, stop: Event
) -> None:
    """Publish while the reader reads and `stop` is not set."""
    profiles, giving_back, written_s = NewestProfiles(lake), GivingBack(), monotonic()
    for version in count(how.version):
        _wait(lambda: state.as_of_us > 0, reader, stop)
        if reader.done() or stop.is_set():
            return
        began_s = monotonic()
        try:
            _publish(state, profiles, how, version, published)
        except IngestError as error:
            log.warning("no snapshot this time; trying again", error=str(error))
        if monotonic() - written_s >= EVERY_S:
            write_heard(how.snapshots, state.heard())
            written_s = monotonic()
        giving_back()
        took_s = monotonic() - began_s
        stop.wait(max(how.every_s - took_s, took_s))  # a cluster too large for the pace leaves half of a core free


def _wait(until: Callable[[], bool], reader: Future[int], stop: Event) -> None:
    """Wait for something, the reader's end, or the word to stop."""
    while not until() and not reader.done() and not stop.wait(LOOK_EVERY_S):
        pass


def _publish(state: LiveState, profiles: NewestProfiles, how: Refresh, version: int, published: Published) -> None:
    offered = how.offers.cores(state.cluster, state.as_of_us)
    snapshot = state.snapshot(profiles.by(state.as_of_us), version, offered)
    publish(how.snapshots, snapshot)
    how.rooms.write(snapshot, state.facts)
    published(version, len(snapshot.nodes), len(snapshot.containers))


def _metrics() -> IngestMetrics:
    return IngestMetrics(CollectorRegistry())
