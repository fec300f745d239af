"""The streaming job: usage as it lands, or straight from Kafka, to finished node windows in the lake. An edge.

Whole node-windows are collected by Spark and handed to the kernel in foreachBatch, so stream and batch share one
arithmetic. Spark's watermark is wider than the rule for late samples and never decides: a sample counts when it
arrived within the limit after its time, whatever the watermark says.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import time_ns
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from features.columnar.arrow_columns import micros
from features.contention.node_state import Facts, undeleted
from features.jobs.spark.decoding import MESSAGE_COLUMNS, decoding
from features.jobs.spark.lake_tables import address, stream_of
from features.jobs.spark.steps import Read, node_minutes, node_windows, tables, with_messages, with_windows_state
from ingest.kafka_io.connection import Brokers, for_spark, spark_source
from ingest.kafka_io.topic_admin import TopicAdmin
from ingest.lake.tables import Lake
from ingest.lake.topic_ids import TopicIds
from ingest.pipeline.consumer_loop import Formats
from ingest.schema.provenance import BatchId
from ingest.schema.tables import SAMPLES, USAGE
from ingest.schema.topics import NODE_STATE

JOB = "follow"
WATERMARK = "14 minutes"
"""Lateness limit, plus clocks up to five minutes ahead, plus minutes that samples are kept for, plus partitions read
unevenly."""
AHEAD_US = 300 * 1_000_000
"""What a producer dates later than that is left out: it would carry the watermark past everything else."""
LIVE_WATERMARK = "7 minutes"
LIVE_AHEAD_US = 60 * 1_000_000
"""Refreshers need the last minutes only, and no clock that runs ahead may take them away."""
EVER_US = 1 << 60
"""A row may be dated as it will; whether it came in time is the kernel's rule."""
QUERY_ID = "sql.streaming.queryId"
"""Property in which Spark keeps the id of a query, the same as long as its checkpoint is."""
MAX_MESSAGES = 200_000
"""In one micro-batch: back-pressure after a standstill."""

Progress = Callable[[int, int], None]
"""Called with a batch's number and its rows when it is written."""


@dataclass(frozen=True, slots=True)
class Follow:
    """How to follow.

    Args:
        checkpoint: folder in which Spark remembers what it has read.
        every: interval between micro-batches, such as "5 seconds"; None reads what is there and ends.
        job: under which the lake keeps the batches.
    """

    checkpoint: str | Path
    every: str | None = "5 seconds"
    job: str = JOB


def resumed(lake: Lake, job: str, topics: Sequence[str]) -> Follow:
    """How a job that reads topics resumes: with a new checkpoint once a recreated topic was accepted.

    The former checkpoint has offsets of the former topic.
    """
    again = TopicIds(lake).recreations(topics)
    name = f"{job}-{again + 1}" if again else job
    return Follow(address(lake, f"checkpoints/{name}"), job=name)


def _unchecked() -> None:
    """Rows from the lake have no topics to compare."""


@dataclass(frozen=True, slots=True)
class Streams:
    """What is followed.

    Args:
        usage: what becomes rows of usage.
        samples: what becomes rows of samples.
        read: makes these rows.
        check: called before a batch is written; raises when a topic was recreated.
    """

    usage: DataFrame
    samples: DataFrame
    read: Read = tables
    check: Callable[[], None] = _unchecked


def landed(spark: SparkSession, lake: Lake) -> Streams:
    """Rows as they land in the lake."""
    return Streams(stream_of(spark, lake, USAGE), stream_of(spark, lake, SAMPLES))


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker to read from.

    Args:
        bootstrap: host:port.
        formats: of our own topics and of foreign ones.
        foreign: topics that turn into samples, besides our own.
        begin: where to begin each (topic, partition) when there is no checkpoint; None: with the oldest messages.
    """

    bootstrap: Brokers | str
    formats: Formats
    foreign: tuple[str, ...] = ()
    begin: Mapping[tuple[str, int], int] | None = None


def from_kafka(spark: SparkSession, lake: Lake, broker: Broker) -> Streams:
    """Rows straight from topics, through the decoders that ingest uses.

    Raises:
        IngestError: a topic is another one than the lake knows.
    """
    check = partial(_check_topics, lake, broker)
    check()
    nodes = lake.read("nodes")
    usage = _messages(spark, broker, (USAGE.name,))
    samples = _messages(spark, broker, (SAMPLES.name, *broker.foreign))
    return Streams(usage, samples, decoding(broker.formats, nodes), check)


def _check_topics(lake: Lake, broker: Broker) -> None:
    with closing(TopicAdmin(broker.bootstrap)) as admin:
        for topic, found in admin.ids((USAGE.name, SAMPLES.name, *broker.foreign)).items():
            TopicIds(lake).check(topic, found)


def _messages(spark: SparkSession, broker: Broker, topics: Sequence[str]) -> DataFrame:
    options = spark_source(broker.bootstrap, topics)
    begin: dict[str, dict[str, int]] = {}
    for (name, partition), offset in (broker.begin or {}).items():
        if name in topics:
            begin.setdefault(name, {})[str(partition)] = offset
    options |= {
        "startingOffsets": json.dumps(begin) if begin else "earliest",
        "maxOffsetsPerTrigger": str(MAX_MESSAGES),
    }
    return spark.readStream.format("kafka").options(**options).load().select(*MESSAGE_COLUMNS)


def follow(streams: Streams, lake: Lake, how: Follow, progress: Progress) -> StreamingQuery:
    """Start writing node state of finished windows to the lake.

    Args:
        streams: what is followed.
        lake: where facts are read and node state goes, exactly once for each batch.
        how: see Follow.
        progress: called for each batch written.

    Returns:
        The running query; await or stop it.
    """

    def write(windows: DataFrame, batch: int) -> None:
        streams.check()
        facts = Facts(undeleted(lake.read("nodes")), lake.read("placements"))
        staged = lake.stage("node_state", how.job)
        windows.transform(with_windows_state, facts).write.parquet(str(staged))
        query = windows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        origin = BatchId(f"{how.job}.{query}", batch)  # numbers begin anew where a checkpoint was lost
        progress(batch, lake.append_staged("node_state", staged, origin))

    return _start(streams, _Mode("append", WATERMARK, EVER_US), how, write)


def publish(streams: Streams, lake: Lake, how: Follow, bootstrap: Brokers | str) -> StreamingQuery:
    """Start telling refreshers of every minute on topic node_state, again and again while it grows.

    Args:
        streams: what is followed.
        lake: where facts are read.
        how: see Follow.
        bootstrap: broker to publish to.

    Returns:
        The running query; await or stop it. A minute may be published twice after a crash; the last message counts.
    """

    def send(windows: DataFrame, _batch: int) -> None:
        streams.check()
        facts = Facts(undeleted(lake.read("nodes")), lake.read("placements"))
        target = {**for_spark(bootstrap), "topic": NODE_STATE.name}
        windows.transform(with_messages, facts).write.format("kafka").options(**target).save()

    return _start(streams, _Mode("update", LIVE_WATERMARK, LIVE_AHEAD_US), how, send)


class _Mode(NamedTuple):
    """How Spark puts windows out, how long it waits for late rows, and how far after its arrival a row may be dated."""

    output: str
    watermark: str
    ahead_us: int


def _start(streams: Streams, mode: _Mode, how: Follow, write: Callable[[DataFrame, int], None]) -> StreamingQuery:
    def dated(rows: pa.Table) -> pa.Table:
        arrived_us = micros(rows["arrived_at"])
        good = (arrived_us <= time_ns() // 1000 + AHEAD_US) & (micros(rows["ts"]) <= arrived_us + mode.ahead_us)
        return rows.filter(pa.array(good))

    usage, samples = (
        node_minutes(source, table, streams.read, dated)
        for source, table in ((streams.usage, USAGE), (streams.samples, SAMPLES))
    )
    windows = usage.unionByName(samples).withWatermark("window_end", mode.watermark).transform(node_windows)
    writer = windows.writeStream.outputMode(mode.output).foreachBatch(write)
    kept = writer.option("checkpointLocation", str(how.checkpoint))
    timed = kept.trigger(processingTime=how.every) if how.every else kept.trigger(availableNow=True)
    return timed.start()
