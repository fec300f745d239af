"""The batch job: usage in the lake to node state, labels, profiles and training rows. An edge."""

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from features.columnar.windows import LATENESS_US
from features.contention.node_state import Facts
from features.contention.series_minutes import LOOK_BACK_US
from features.jobs.job_plan import (
    IMPOSSIBLE,
    JOB,
    LATE,
    Progress,
    Stretch,
    antagonist_ends,
    facts_until,
    modelled,
    profile_ends,
    profile_times,
)
from features.jobs.spark.decoding import decoded
from features.jobs.spark.lake_tables import rows_of
from features.jobs.spark.steps import (
    by_app,
    by_node,
    on_placed_nodes,
    with_antagonists,
    with_contention,
    with_labels,
    with_node_state,
    with_node_usage,
    with_node_waits,
    with_profiles,
    with_rates,
    with_training,
)
from features.labels.waited_cpus import NODE_WAITS, WHOLE, waited_cpus
from features.schema.tables import NODE_STATE
from features.training.residents import Sources
from ingest.kafka_io.connection import Brokers, spark_source
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats
from ingest.schema.tables import SAMPLES, USAGE, Table

MAX_IN_PART = 500_000
"""Samples that one Python worker holds at once: about 400 MB."""


def run_batch(usage: DataFrame, lake: Lake, stretch: Stretch, progress: Progress) -> None:
    """Rebuild every derived table of a stretch of time; running it again gives the same tables.

    Args:
        usage: rows of usage, from landed_usage or kafka_usage; usage made of landed samples is added.
        lake: where samples, nodes and placements lie, and where the tables go.
        stretch: what to rebuild.
        progress: called for each table written.
    """
    facts = facts_until(lake, stretch)
    first, last = stretch.samples()
    inside, late = _between(first, last), F.expr(f"arrived_at - ts > interval {LATENESS_US} microseconds")
    seen, late_samples = Observation(), 0
    counted = usage.where(inside).observe(seen, F.count(F.when(late, 1)).alias("late"))
    groups = groups_of(usage.sparkSession, lake.count("usage", first, last) + lake.count("samples", first, last))
    if lake.span("samples"):
        samples = _samples(usage.sparkSession, lake, stretch, groups)
        late_samples = samples.where(inside & late).count()
        placed = samples.transform(on_placed_nodes, facts)
        again = placed if placed is samples else placed.transform(by_node, groups)
        _write_node_usage(again, lake, stretch, facts, progress)
        counted = counted.unionByName(again.transform(with_rates, facts, stretch), allowMissingColumns=True)
    state = counted.transform(by_node, groups).transform(with_node_state, facts).persist()
    apps, times = state.transform(by_app, groups), profile_times(stretch)
    whole = lake.read("node_usage", *stretch.ends(), columns=list(WHOLE))
    waits = state.transform(with_node_waits, whole, facts.nodes).toArrow().cast(NODE_WAITS)
    cpus = waited_cpus(waits, times)
    labels = apps.transform(with_labels, facts.placements, cpus).persist()
    _write(lake, "node_state", stretch, state, progress)
    progress(LATE, seen.get["late"] + late_samples)
    _write(lake, "labels", stretch, labels, progress)
    progress("labels of apps that are modelled", modelled(lake.read("labels", *stretch.ends(), ["log_slowdown"])))
    profiles = apps.transform(with_profiles, times, cpus).toArrow()
    progress("profiles", lake.replace("profiles", *profile_ends(stretch), JOB, profiles))
    sources = Sources(NODE_STATE.schema.empty_table(), facts.nodes, facts.placements, profiles)
    _write(lake, "contention", stretch, with_contention(state, profiles), progress)
    _write(lake, "antagonists", stretch, with_antagonists(state), progress)
    _write(lake, "training", stretch, with_training(labels, state, sources, groups), progress)
    labels.unpersist()
    state.unpersist()


def _samples(spark: SparkSession, lake: Lake, stretch: Stretch, groups: int) -> DataFrame:
    """Landed samples of a stretch and of the look-back before it, by node."""
    first, last = stretch.samples()
    before = first - timedelta(microseconds=LOOK_BACK_US)
    found = landed(spark, lake, SAMPLES, before, last)
    return found.where(_between(before, last)).transform(by_node, groups).persist()


def _write_node_usage(samples: DataFrame, lake: Lake, stretch: Stretch, facts: Facts, progress: Progress) -> None:
    impossible = samples.sparkSession.sparkContext.accumulator(0)
    made = samples.transform(with_node_usage, facts, stretch, impossible)
    _write(lake, "node_usage", stretch, made, progress)
    progress(IMPOSSIBLE, impossible.value)


def _between(first: datetime, last: datetime) -> Column:
    return (F.col("ts") >= F.lit(first)) & (F.col("ts") < F.lit(last))


def groups_of(spark: SparkSession, samples: int) -> int:
    """How many parts the nodes, or the apps, are split into: Spark's own number, more where parts would be large."""
    return max(int(str(spark.conf.get("spark.sql.shuffle.partitions"))), samples // MAX_IN_PART)


def landed_usage(spark: SparkSession, lake: Lake, stretch: Stretch) -> DataFrame:
    """Usage rows landed for the stretch, duplicates and late rows still in, without columns that nothing is in."""
    unmeasured = lake.unmeasured("usage", *stretch.samples())
    return landed(spark, lake, USAGE, *stretch.samples()).drop(*unmeasured)


def landed(spark: SparkSession, lake: Lake, table: Table, start: datetime, end: datetime) -> DataFrame:
    """Rows with a time in [start, end)."""
    return rows_of(spark, lake, table, start, end)


def kafka_usage(spark: SparkSession, lake: Lake, bootstrap: Brokers | str, cluster: str) -> DataFrame:
    """All usage rows that a broker holds, through the decoder that ingest uses."""
    options = {**spark_source(bootstrap, (USAGE.name,)), "startingOffsets": "earliest"}
    messages = spark.read.format("kafka").options(**options).load()
    return decoded(messages, USAGE, Formats(cluster=cluster), lake.read("nodes"))


def _write(lake: Lake, table: str, stretch: Stretch, rows: DataFrame, progress: Progress) -> None:
    staged = lake.stage(table, JOB)
    rows.write.parquet(str(staged))
    ends = antagonist_ends(stretch) if table == "antagonists" else stretch.ends()
    progress(table, lake.replace(table, *ends, JOB, staged))
