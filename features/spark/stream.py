"""The streaming job: usage as it lands, or straight from Kafka, to finished node windows in the lake. An edge.

Whole node-windows are collected by Spark and handed to the kernel in foreachBatch, so stream and batch share one
arithmetic. Spark's watermark is wider than the rule for late samples and never decides: a sample counts when it
arrived within the limit after its time, whatever the watermark says.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from features.node_state import Facts
from features.spark.decoding import decoded_usage
from features.spark.steps import node_windows, spark_schema, with_windows_state
from ingest.lake import Lake
from ingest.schema import USAGE

JOB = "follow"
WATERMARK = "10 minutes"
"""Lateness limit, plus clocks up to five minutes ahead, plus partitions that are read unevenly."""
AHEAD = "5 minutes"
"""What a producer dates later than that is left out: it would carry the watermark past everything else."""
MAX_FILES = 200

Progress = Callable[[int, int], None]
"""Called with a batch's number and its rows when it is written."""


@dataclass(frozen=True, slots=True)
class Follow:
    """How to follow.

    Args:
        checkpoint: folder in which Spark remembers what it has read.
        every: interval between micro-batches, such as "5 seconds"; None reads what is there and ends.
    """

    checkpoint: Path
    every: str | None = "5 seconds"


def landed_usage(spark: SparkSession, lake: Lake) -> DataFrame:
    """Stream of usage rows as they land in the lake."""
    schema = spark_schema(USAGE.schema)
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", MAX_FILES)
    return stream.parquet(str(lake.landed_folder(USAGE.name))).select(*USAGE.schema.names)


def kafka_usage(spark: SparkSession, lake: Lake, bootstrap: str, cluster: str) -> DataFrame:
    """Stream of usage rows straight from Kafka, through the decoder that ingest uses."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": USAGE.name, "startingOffsets": "earliest"}
    messages = spark.readStream.format("kafka").options(**options).load()
    return decoded_usage(messages, lake.read("nodes"), cluster)


def follow(usage: DataFrame, lake: Lake, how: Follow, progress: Progress) -> StreamingQuery:
    """Start writing node state of finished windows to the lake.

    Args:
        usage: stream of usage rows.
        lake: where facts are read and node state goes, exactly once for each batch.
        how: see Follow.
        progress: told of each batch written.

    Returns:
        The running query; await or stop it.
    """

    def write(windows: DataFrame, batch: int) -> None:
        facts = Facts(lake.read("nodes"), lake.read("placements"))
        target = lake.batch_path("node_state", JOB, batch)
        windows.transform(with_windows_state, facts).write.mode("overwrite").parquet(str(target))
        progress(batch, lake.batch_rows("node_state", JOB, batch))

    dated = usage.where(f"arrived_at <= current_timestamp() + interval {AHEAD}")
    windows = dated.withWatermark("ts", WATERMARK).transform(node_windows)
    writer = (
        windows.writeStream.outputMode("append").foreachBatch(write).option("checkpointLocation", str(how.checkpoint))
    )
    timed = writer.trigger(processingTime=how.every) if how.every else writer.trigger(availableNow=True)
    return timed.start()
