"""Batch, stream and live give the same numbers, also with late, doubled, skewed and broken records."""

from contextlib import closing
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from cohabit.ingestion.simulation import simulate_into
from cohabit.refresh.live_state import LiveState
from cohabit.terminal.locations import TOPICS
from features.contention.container_resolution import resolved
from features.contention.correlation import antagonists
from features.contention.node_state import Facts, node_state
from features.contention.usage_rates import rates
from features.jobs.job_plan import Stretch, profile_times
from features.jobs.local_job import run_local
from features.jobs.spark import batch_job as batch
from features.jobs.spark import stream_job as stream
from features.jobs.spark.steps import on_placed_nodes
from features.jobs.spark.stream_job import Follow, follow, publish
from features.labels.waited_cpus import WHOLE, node_waits, waited_cpus
from features.profiles.per_app import labels_of, profiles_of
from features.schema.tables import TABLES
from features.training.five_minute import contention
from features.training.residents import Sources
from features.training.rows import training_rows
from ingest.devkafka.broker import Broker, create_topics
from ingest.kafka_io.replay import replay
from ingest.kafka_io.stream_files import TopicWriter, read_messages, topic_path, topics_in
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats, Landers, Source
from ingest.pipeline.consumer_loop import ingest as ingest_loop
from ingest.pipeline.file_source import FileCapacities, FileSource
from ingest.pipeline.kafka_source import ConsumerSettings, KafkaSource
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.runner import ingest_files
from ingest.schema.tables import SAMPLES
from ingest.simulator.messages import Faults
from ingest.simulator.simulate import Plan
from tests.features.sampled import PODS, placement_messages, sample_messages

pytestmark = pytest.mark.slow

PLAN = Plan(nodes=5, apps=6, per_node=6, hours=1.25, seed=3, mixed=True, faults=Faults(0.1, 0.1, 0.1, 0.01, 4.0))
STRETCH = Stretch(PLAN.start, PLAN.start + timedelta(hours=1.25))


def metrics() -> IngestMetrics:
    return IngestMetrics(CollectorRegistry())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour of a small cluster with ten times the usual faults, as stream files."""
    folder = tmp_path_factory.mktemp("stream")
    simulate_into(folder, PLAN, lambda _done, _of: None)
    TopicWriter(folder, "placements").write(placement_messages(PLAN))
    TopicWriter(folder, "samples").write(sample_messages(PLAN, np.random.default_rng(5)))
    return folder


@pytest.fixture(scope="module")
def lake(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same hour, landed."""
    lake = Lake.open(tmp_path_factory.mktemp("lake"), TABLES)
    ingest_files(files, TOPICS, lake, stop=Event(), metrics=metrics())
    return lake


@pytest.fixture(scope="module")
def by_kernel(lake: Lake) -> dict[str, pa.Table]:
    """Every derived table, by plain calls of the kernels."""
    facts = Facts(lake.read("nodes"), lake.read("placements"))
    rated = rates(lake.read("samples", end=STRETCH.samples()[1]), facts)
    usage = pa.concat_tables([lake.read("usage", *STRETCH.samples()), rated.usage])
    state = node_state(usage, facts)
    whole = lake.read("node_usage", *STRETCH.ends(), columns=list(WHOLE))
    cpus = waited_cpus(node_waits(state, whole, facts.nodes), profile_times(STRETCH))
    labels = labels_of(state, facts.placements, cpus)
    profiles = profiles_of(state, profile_times(STRETCH), cpus)
    training = training_rows(labels, Sources(state, facts.nodes, facts.placements, profiles))
    derived = {"contention": contention(state, profiles), "antagonists": antagonists(state)}
    return {"node_state": state, "labels": labels, "profiles": profiles, "training": training, **derived}


@pytest.fixture(scope="module")
def by_batch(spark: SparkSession, lake: Lake) -> Lake:
    """The lake after the batch job."""
    batch.run_batch(batch.landed_usage(spark, lake, STRETCH), lake, STRETCH, lambda _table, _rows: None)
    return lake


def assert_same(found: pa.Table, expected: pa.Table, key: tuple[str, ...]) -> None:
    """Equal to the last bit, whatever the order of rows; keys and types too."""
    order = [(column, "ascending") for column in key]
    left, right = found.sort_by(order).combine_chunks(), expected.sort_by(order).combine_chunks()
    assert left.num_rows == right.num_rows > 0
    differing = [name for name in right.column_names if not left[name].cast(right[name].type).equals(right[name])]
    assert differing == []


TABLES_MADE = ("node_state", "contention", "antagonists", "labels", "profiles", "training")


@pytest.mark.parametrize("table", TABLES_MADE)
def test_the_batch_job_writes_what_the_kernels_say(table: str, by_batch: Lake, by_kernel: dict[str, pa.Table]) -> None:
    assert_same(by_batch.read(table), by_kernel[table], TABLES[table].key)


def test_the_batch_job_tells_teams_and_what_is_expected_of_their_apps(by_batch: Lake) -> None:
    known = by_batch.read("profiles")
    late = by_batch.read("training").sort_by("as_of").to_pylist()[-1]

    assert set(known["team"].to_pylist()) >= {f"team-{i}" for i in range(5)}
    assert late["expected_demand_cpu"] is not None
    assert late["expected_demand_cpu"] != late["demand_cpu"]


def test_the_batch_job_learns_from_whole_nodes_over_how_many_cpus_apps_wait(by_batch: Lake) -> None:
    labels, profiles = by_batch.read("labels"), by_batch.read("profiles")

    waiting = labels.filter(pc.equal(labels["kind"], "waiting"))
    assert 1 < pc.max(waiting["cpus"]).as_py() < 32
    assert "waiting" in profiles["kind"].to_pylist()


@pytest.mark.parametrize("chunk", [400, 10_000_000])
def test_without_spark_the_same_tables_are_written(
    chunk: int, files: Path, by_kernel: dict[str, pa.Table], tmp_path: Path
) -> None:
    alone = Lake.open(tmp_path / "lake", TABLES)
    ingest_files(files, TOPICS, alone, stop=Event(), metrics=metrics())

    run_local(alone, STRETCH, lambda _table, _rows: None, chunk_rows=chunk)

    for table in TABLES_MADE:
        assert_same(alone.read(table), by_kernel[table], TABLES[table].key)


def test_samples_go_to_the_same_nodes_in_whatever_batches_they_come(spark: SparkSession, lake: Lake) -> None:
    """An exporter's own host name stands for the node of its pods; one batch may hold none of them."""
    rows = lake.read("samples").slice(0, 500)
    container, first = rows["container"].combine_chunks(), lake.read("placements")["container"][0]
    place = rows.column_names.index("container")
    known = pc.if_else(pa.array(np.arange(500) % 50 == 0), first, container)
    rows = rows.set_column(place, "container", known).set_column(
        rows.column_names.index("node"), "node", pa.array(["collector"] * 500)
    )
    facts = Facts(lake.read("nodes"), lake.read("placements"))
    size = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        found = on_placed_nodes(spark.createDataFrame(rows.cast(SAMPLES.schema)), facts).toArrow()
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(size))

    expected = resolved(rows.cast(SAMPLES.schema), facts).samples
    assert pc.unique(expected["node"]).to_pylist() != ["collector"]
    assert_same(found.cast(SAMPLES.schema), expected, ("topic", "partition", "offset"))


def test_running_the_batch_job_again_changes_nothing(spark: SparkSession, by_batch: Lake) -> None:
    before = by_batch.read("training")

    batch.run_batch(batch.landed_usage(spark, by_batch, STRETCH), by_batch, STRETCH, lambda _table, _rows: None)

    assert by_batch.read("training").equals(before)


def test_the_stream_writes_what_the_kernels_say_of_every_finished_minute(
    spark: SparkSession, files: Path, tmp_path: Path, by_kernel: dict[str, pa.Table]
) -> None:
    growing, streamed = tmp_path / "growing", Lake.open(tmp_path / "lake", TABLES)
    how = Follow(tmp_path / "checkpoint", every=None)
    cuts_ms = [0, *(round((PLAN.start + timedelta(minutes=m)).timestamp() * 1000) for m in (20, 40)), 2**62]
    for since_ms, until_ms in pairwise(cuts_ms):
        for topic in topics_in(files):
            messages = read_messages(topic_path(files, topic))
            TopicWriter(growing, topic).write([m for m in messages if since_ms <= m.arrived_ms < until_ms])
        ingest_files(growing, TOPICS, streamed, stop=Event(), metrics=metrics())
        follow(stream.landed(spark, streamed), streamed, how, lambda _batch, _rows: None).awaitTermination()

    found, expected = streamed.read("node_state"), by_kernel["node_state"]
    finished = pc.less_equal(expected["window_end"], pc.max(found["window_end"]))
    assert pc.max(found["window_end"]).as_py() > PLAN.start + timedelta(minutes=40)
    assert_same(found, expected.filter(finished), TABLES["node_state"].key)


def test_spark_reads_from_kafka_what_the_kernels_say(
    spark: SparkSession, kafka: Broker, files: Path, lake: Lake, by_kernel: dict[str, pa.Table], tmp_path: Path
) -> None:
    create_topics(kafka.bootstrap)
    replay(files, topics_in(files), kafka.bootstrap, progress=lambda _sent: None, stop=Event())
    streamed = Lake.open(tmp_path / "lake", TABLES)
    ingest_files(files, ("nodes", "placements", "samples", "node_usage"), streamed, stop=Event(), metrics=metrics())

    usage = batch.kafka_usage(spark, streamed, kafka.bootstrap, "default")
    batch.run_batch(usage, streamed, STRETCH, lambda _table, _rows: None)
    how = Follow(tmp_path / "checkpoint", every=None)
    follow(
        stream.from_kafka(spark, streamed, stream.Broker(kafka.bootstrap, Formats())),
        streamed,
        how,
        lambda _batch, _rows: None,
    ).awaitTermination()

    assert_same(streamed.read("training"), by_kernel["training"], TABLES["training"].key)
    assert_same(streamed.read("node_state"), by_kernel["node_state"], TABLES["node_state"].key)


def read_by(source: Source, state: LiveState) -> LiveState:
    """Take up everything a source has."""
    ingest_loop(source, state, Landers(Formats(), Capacities), metrics(), Event())
    return state


def test_a_refresher_told_by_the_stream_sees_what_one_that_computes_by_itself_does(
    spark: SparkSession, kafka: Broker, files: Path, by_kernel: dict[str, pa.Table], tmp_path: Path
) -> None:
    create_topics(kafka.bootstrap)
    replay(files, topics_in(files), kafka.bootstrap, progress=lambda _sent: None, stop=Event())
    facts = Lake.open(tmp_path / "lake", TABLES)
    ingest_files(files, ("nodes", "placements"), facts, stop=Event(), metrics=metrics())
    how = Follow(tmp_path / "checkpoint", every=None)
    publish(
        stream.from_kafka(spark, facts, stream.Broker(kafka.bootstrap, Formats())), facts, how, kafka.bootstrap
    ).awaitTermination()

    told, own = LiveState(PLAN.cluster, lambda: 2**60), LiveState(PLAN.cluster, lambda: 2**60)
    topics = ("nodes", "placements", "node_state")
    with closing(KafkaSource(ConsumerSettings(kafka.bootstrap, topics, "told"), told)) as source:
        source.stop_at_end()
        read_by(source, told)
    with closing(FileSource(files, TOPICS, own.position)) as source:
        source.stop_at_end()
        read_by(source, own)

    by_stream, by_itself = (s.snapshot(by_kernel["profiles"], version=1) for s in (told, own))
    assert len(by_itself.containers) > 20
    assert by_stream.containers == by_itself.containers
    assert by_stream.resident_use.tobytes() == by_itself.resident_use.tobytes()
    assert by_stream.node_seen_us.tolist() == by_itself.node_seen_us.tolist()


def test_live_residents_use_what_the_kernels_say_of_their_last_minute(
    files: Path, by_kernel: dict[str, pa.Table]
) -> None:
    state = LiveState(PLAN.cluster, lambda: 2**60)
    with (
        closing(FileCapacities(files, Formats().nodes_topic)) as capacities,
        closing(FileSource(files, TOPICS, state.position)) as source,
    ):
        source.stop_at_end()
        ingest_loop(source, state, Landers(Formats(), capacities), metrics(), Event())
    snapshot = state.snapshot(by_kernel["profiles"], version=1)

    truth = by_kernel["node_state"]
    newest = {
        (row["node"], row["container"]): row["cpu_cores"]
        for row in truth.sort_by([("window_end", "ascending")]).to_pylist()
        if row["arrived_at"].timestamp() * 1e6 <= snapshot.as_of_us
    }
    node = np.repeat(np.arange(len(snapshot.nodes)), np.diff(snapshot.first))
    found = {
        (snapshot.nodes[n], c): use
        for n, c, use in zip(node, snapshot.containers, snapshot.resident_use[:, 0], strict=True)
    }
    shared = found.keys() & newest.keys()
    equal = sum(found[key] == newest[key] for key in shared)
    assert len(shared) >= 20
    assert {f"uid-{number}" for number in range(PODS)} <= {container for _, container in shared}
    assert equal >= 0.9 * len(shared)
