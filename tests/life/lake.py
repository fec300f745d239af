"""All timelines in one lake: each a cluster of its own, decoded, landed, computed and metered by the product."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.cluster.snapshot import Snapshot
from cohabit.refresh.live_state import LiveState
from features.jobs import local_job, local_metering
from features.jobs.job_plan import Stretch, whole_stretch
from features.jobs.usage_chunks import CHUNK_ROWS
from features.metering.units import HOUR_US, Hours
from features.schema.tables import PROFILES, TABLES
from ingest.decode.formats.format_registry import decoder_named
from ingest.lake.tables import Lake
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.sink import LakeSink
from ingest.pipeline.transform import Landing, land
from ingest.schema.batch import MessageBatch, message_batch
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import TIMESTAMP
from tests.life import cadvisor, otlp, prometheus, telegraf
from tests.life.kube import watched
from tests.life.sending import Sent
from tests.life.truth import END_S, START_S, Rng, Timeline, draw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SENDERS: Mapping[str, Callable[[Timeline, Rng], list[Sent]]] = {
    "cadvisor": cadvisor.stats,
    "otlp-json": otlp.as_json,
    "otlp-proto": otlp.as_proto,
    "prom-adapter": prometheus.adapter,
    "prom-text": prometheus.text,
    "telegraf-json": telegraf.kubernetes,
}
NATIVE = ("nodes", "placements", "node_usage")
WRITTEN = ("node_state", "node_usage", "labels", "profiles", "contention", "metered", "idle", "pool_hours")
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
LATENESS_S = 90.0
"""Records that arrive later after their time do not count."""
END_INSIDE_US = 1000
"""A minute holds what was sampled so soon after its end, see features.columnar.windows.window_end."""
AT_ONCE = 50
"""Timelines that are landed in one commit."""
HOURS = round(END_S / 3600)


def micros_at(second: float) -> int:
    """A timeline's second as microseconds since 1970."""
    return round((START_S + second) * 1_000_000)


@dataclass(frozen=True)
class Life:
    """One timeline in one format: all that was landed of it."""

    format: str
    truth: Timeline
    landings: tuple[Landing, ...]

    def rows(self, table: str) -> pa.Table:
        """What was landed in a table."""
        return pa.concat_tables(landing.rows for landing in self.landings if landing.table == table)

    def rejected(self) -> pa.Table:
        """Dead letters."""
        return pa.concat_tables(landing.dead_letters for landing in self.landings)

    @cached_property
    def minute(self) -> float:
        """A minute's end, drawn, at which the cluster is looked at."""
        rng = np.random.default_rng([self.truth.seed, 2])
        return float(rng.integers(int(self.truth.begin) // 60 + 5, int(END_S) // 60 - 1)) * 60

    @cached_property
    def snapshot(self) -> Snapshot:
        """What a refresher publishes LATENESS_S after `minute`, when all samples until then that are in time are in."""
        state = LiveState(self.truth.cluster, lambda: micros_at(END_S + 86_400))
        arrived = pc.field("arrived_at") <= pa.scalar(micros_at(self.minute + LATENESS_S), TIMESTAMP)
        sampled = pc.field("ts") < pa.scalar(micros_at(self.minute) + END_INSIDE_US, TIMESTAMP)
        for landing in self.landings:
            wanted = arrived if landing.table in NATIVE else arrived & sampled
            state.write(replace(landing, rows=landing.rows.filter(wanted)))
        return state.snapshot(PROFILES.schema.empty_table(), version=1)


@dataclass
class World:
    """A lake with the lives of many clusters."""

    lake: Lake
    lives: list[Life] = field(default_factory=list)
    _ends: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, seeds: Iterable[int]) -> None:
        """Land timelines in one format, each topic in one commit."""
        added = [self._lived(name, seed) for seed in seeds]
        for number in range(len(NATIVE) + 1):
            self._commit([life.landings[number] for life in added])
        self.lives += added

    def compute(self, chunk_rows: int = CHUNK_ROWS) -> None:
        """Run the features job and metering, in one process, so many rows at once."""
        local_job.run_local(self.lake, self.stretch, _quietly, chunk_rows=chunk_rows)
        local_metering.run_local(self.lake, self.hours, _quietly, chunk_rows=chunk_rows)

    def compute_with(self, spark: "SparkSession") -> None:
        """Run both with Spark, in the place of what is there."""
        from features.jobs.spark import batch_job, spark_metering

        usage = batch_job.landed_usage(spark, self.lake, self.stretch)
        batch_job.run_batch(usage, self.lake, self.stretch, _quietly)
        spark_metering.run_spark(spark, self.lake, self.hours, _quietly)

    def computed(self) -> dict[str, pa.Table]:
        """Every table that jobs wrote."""
        return {name: self.lake.read(name).combine_chunks() for name in WRITTEN}

    @cached_property
    def stretch(self) -> Stretch:
        """All time that the lake has samples of; profiles, of which no law speaks, are taken once."""
        found = whole_stretch(self.lake)
        assert found is not None
        return replace(found, profile_every_us=HOURS * HOUR_US)

    @property
    def hours(self) -> Hours:
        """All hours of timelines."""
        return Hours(START_S * 1_000_000, HOURS)

    def _lived(self, name: str, seed: int) -> Life:
        timeline = draw(seed, f"{name}-{seed}")
        topics = _published(seed, timeline.cluster)
        topics[name] = SENDERS[name](timeline, np.random.default_rng([seed, 1]))
        landings = [self._landing(topic, f"native-{topic}", topics[topic], timeline.cluster) for topic in NATIVE]
        landings.append(self._landing(name, name, topics[name], timeline.cluster))
        return Life(name, timeline, tuple(landings))

    def _landing(self, topic: str, decoder: str, records: list[Sent], cluster: str) -> Landing:
        return land(self._batch(topic, records), DECODERS[decoder], Capacities(), cluster=cluster)

    def _batch(self, topic: str, records: list[Sent]) -> MessageBatch:
        start = self._ends.get(topic, 0)
        self._ends[topic] = start + len(records)
        link = OffsetRange(topic, 0, start, self._ends[topic])
        offsets = list(range(start, self._ends[topic]))
        values: list[bytes | None] = [record.value for record in records]
        return message_batch(link, offsets, [record.arrived_ms for record in records], values)

    def _commit(self, landings: list[Landing]) -> None:
        assert LakeSink(self.lake).write_all(landings) == []


@cache
def _watched(seed: int) -> dict[str, list[Sent]]:
    """Records of nodes and placements of a timeline; they are the same in all formats."""
    with TemporaryDirectory() as folder:
        return watched(draw(seed, ANY), Path(folder))


def _published(seed: int, cluster: str) -> dict[str, list[Sent]]:
    own = cluster.encode()
    found = _watched(seed).items()
    return {topic: [Sent(at, value.replace(ANY.encode(), own, 1)) for at, value in sent] for topic, sent in found}


ANY = "any-cluster"
DECODERS = {name: decoder_named(name) for name in (*SENDERS, "native-nodes", "native-placements", "native-node_usage")}


def world(names: Iterable[str], seeds: range, folder: Path) -> World:
    """Lives of clusters in some formats, computed and metered."""
    made = World(Lake.open(folder / "lake", TABLES))
    for name in names:
        for start in range(seeds.start, seeds.stop, AT_ONCE):
            made.add(name, range(start, min(start + AT_ONCE, seeds.stop)))
    made.compute()
    return made


def _quietly(_table: str, _rows: int) -> None: ...


def at_second(moment: datetime) -> float:
    """A time as a second of a timeline."""
    return (moment - EPOCH) / timedelta(seconds=1) - START_S
