"""The metering job: the lake's hours as the kernel tells them, in whatever pieces, with or without Spark."""

from datetime import timedelta
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from cohabit.ingestion.simulation import simulate_into
from cohabit.terminal.locations import TOPICS
from features.columnar.asof_join import NEVER
from features.contention.node_state import Facts
from features.contention.usage_rates import rates
from features.jobs.local_metering import run_local
from features.jobs.spark.spark_metering import run_spark
from features.metering.idle_causes import idle_hours
from features.metering.pools import pool_hours
from features.metering.units import COLUMNS, Hours
from features.metering.usage_hours import metered, nodes_in
from features.schema.tables import BILLS, METERED, POOL_HOURS, TABLES
from ingest.kafka_io.stream_files import TopicWriter
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import NODES, PLACEMENTS, USAGE, Table
from ingest.simulator.messages import Faults
from ingest.simulator.simulate import Plan
from tests.features.rows import at, rows_of
from tests.features.sampled import placement_messages, sample_messages
from tests.landed import land_rows

PLAN = Plan(nodes=4, apps=6, per_node=6, hours=1.25, seed=3, faults=Faults(0.1, 0.1, 0.1, 0.01, 4.0))
HOURS = Hours.between(PLAN.start, PLAN.start + timedelta(hours=2))


def land(lake: Lake, kind: Table, rows: pa.Table) -> None:
    link = OffsetRange(f"{kind.name}-by-hand", 0, 0, rows.num_rows)
    land_rows(lake, kind.name, link, rows)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """An hour of a small cluster with ten times the usual faults, pods by samples, and a node without usage."""
    files = tmp_path_factory.mktemp("stream")
    simulate_into(files, PLAN, lambda _done, _of: None)
    TopicWriter(files, "placements").write(placement_messages(PLAN))
    TopicWriter(files, "samples").write(sample_messages(PLAN, np.random.default_rng(5)))
    lake = Lake.open(tmp_path_factory.mktemp("lake"), TABLES)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(files, TOPICS, lake, stop=Event(), metrics=metrics)
    start = (PLAN.start - at(0)).total_seconds()
    silent: dict[str, object] = {"container": "quiet", "node": "silent", "event": "add", "cluster": PLAN.cluster}
    land(lake, PLACEMENTS, rows_of(PLACEMENTS, {**silent, "ts": start + 600, "cpu_request_cores": 2.0}))
    return lake


def by_kernel(lake: Lake) -> pa.Table:
    facts = Facts(lake.read("nodes"), lake.read("placements"))
    made = rates(lake.read("samples"), facts, lateness_us=NEVER, trim=True).usage
    usage = pa.concat_tables([lake.read("usage"), made]).select(COLUMNS)
    return metered(usage, facts, HOURS, nodes_in(usage, facts.placements))


def read(lake: Lake, table: str = "metered") -> pa.Table:
    kind = TABLES[table]
    return lake.read(table).sort_by([(name, "ascending") for name in kind.key]).combine_chunks()


def quietly(_what: str, _rows: int) -> None:
    pass


@pytest.mark.parametrize("chunk_rows", [10**6, 500])
def test_the_job_writes_what_the_kernel_says_and_again_the_same(lake: Lake, chunk_rows: int) -> None:
    run_local(lake, HOURS, quietly, chunk_rows=chunk_rows)
    first = read(lake)
    run_local(lake, Hours(HOURS.start_us, 1), quietly, chunk_rows=chunk_rows)

    assert first.equals(by_kernel(lake).combine_chunks())
    assert read(lake).equals(first)
    assert first.num_rows > 100
    assert "quiet" in first["container"].to_pylist()
    expected = pool_hours(lake.read("nodes"), BILLS.schema.empty_table(), HOURS.start_us, HOURS.count)
    assert read(lake, "pool_hours").to_pylist() == expected.to_pylist()
    assert POOL_HOURS.schema.equals(expected.schema)
    facts = Facts(lake.read("nodes"), lake.read("placements"))
    assert read(lake, "idle").to_pylist() == idle_hours(facts, first, HOURS).to_pylist() != []


def test_spark_writes_the_same(lake: Lake, spark: SparkSession) -> None:
    run_local(lake, HOURS, quietly)
    here, idle = read(lake), read(lake, "idle")

    run_spark(spark, lake, HOURS, quietly)

    assert read(lake).equals(here)
    assert read(lake, "idle").equals(idle)
    assert here.schema.equals(METERED.schema)


def test_nothing_is_written_of_a_lake_without_anything(tmp_path: Path) -> None:
    empty = Lake.open(tmp_path, TABLES)

    run_local(empty, HOURS, quietly)

    assert (read(empty).num_rows, read(empty, "pool_hours").num_rows) == (0, 0)


def test_what_was_there_before_exporters_came_and_is_measured_no_more_is_metered_in_no_later_hour(
    tmp_path: Path,
) -> None:
    """Placed a week before anything was measured, measured for an hour, gone without a record: eight hours later."""
    lake = Lake.open(tmp_path, TABLES)
    week = 7 * 24 * 3600
    land(lake, NODES, rows_of(NODES, {"ts": -week, "cores": 8.0}))
    placed: list[dict[str, object]] = [
        {"container": name, "ts": -week, "event": "add", "cpu_request_cores": 1.0} for name in ("gone", "stays")
    ]
    land(lake, PLACEMENTS, rows_of(PLACEMENTS, *placed))
    said: dict[str, object] = {"interval_s": 60.0, "cpu_cores": 0.5}
    rows = [{**said, "container": "gone", "ts": t} for t in range(60, 3600, 60)]
    rows += [{**said, "container": "stays", "ts": t} for t in range(60, 9 * 3600, 60)]
    land(lake, USAGE, rows_of(USAGE, *rows))

    run_local(lake, Hours.between(at(8 * 3600), at(9 * 3600)), quietly)

    assert set(read(lake)["container"].to_pylist()) == {"stays"}
