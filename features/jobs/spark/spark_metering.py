"""The metering job with Spark: whole nodes a partition, a day of hours at a time. An edge."""

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from features.contention.node_state import Facts
from features.jobs.job_plan import Progress
from features.jobs.local_metering import JOB, LONGEST, TICK, days, facts_until, sampled, times, write_pools
from features.jobs.spark.batch_job import groups_of, landed
from features.jobs.spark.steps import by_node, on_placed_nodes, with_all_rates, with_metered
from features.metering.units import COLUMNS, READ, Hours
from features.metering.usage_hours import metered, nodes_in
from ingest.lake.arrow_dataset import ds
from ingest.lake.tables import Lake
from ingest.schema.tables import SAMPLES, USAGE


def run_spark(spark: SparkSession, lake: Lake, hours: Hours, progress: Progress) -> None:
    """As features.jobs.local_metering.run_local, the same rows to the last bit."""
    for day in days(hours):
        nodes, placements = facts_until(lake, day)
        facts, staged = Facts(nodes, placements), lake.stage("metered", JOB)
        start, end = times(day)
        last, (before, after) = end + LONGEST + TICK, sampled(day)
        groups = groups_of(spark, lake.count("usage", start, last) + lake.count("samples", before, after))
        usage = landed(spark, lake, USAGE, start, last).where(F.col("ts") > F.lit(start)).select(*COLUMNS)
        if lake.span("samples"):
            samples = landed(spark, lake, SAMPLES, before, after)
            inside = samples.where((F.col("ts") >= F.lit(before)) & (F.col("ts") < F.lit(after)))
            usage = usage.unionByName(
                inside.transform(on_placed_nodes, facts).transform(by_node, groups).transform(with_all_rates, facts)
            )
        usage.transform(by_node, groups).transform(with_metered, facts, day).write.parquet(str(staged))
        pq.write_table(_silent(ds.dataset(staged).to_table(["cluster", "node"]), facts, day), staged / "silent.parquet")
        progress("metered", lake.replace("metered", start, end, JOB, staged))
        write_pools(lake, day, nodes, progress)


def _silent(seen: pa.Table, facts: Facts, hours: Hours) -> pa.Table:
    """What containers were placed on nodes of which there is no usage at all."""
    reported = nodes_in(facts.placements)
    where = reported.join(nodes_in(seen), ["cluster", "node"], join_type="left anti")
    return metered(READ.empty_table(), facts, hours, where)
