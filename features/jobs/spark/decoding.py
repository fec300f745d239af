"""Messages in, rows out, under Spark: the same decoder and checks that the consumer uses. Steps."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from features.jobs.spark.steps import spark_schema
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.transform import land
from ingest.schema.batch import MessageBatch
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import TIMESTAMP, Table

MESSAGE_COLUMNS = ("value", "topic", "partition", "offset", "timestamp")


def decoded(messages: DataFrame, table: Table, formats: Formats, nodes: pa.Table) -> DataFrame:
    """Rows of a stream of messages of topics that turn into one table; rejects are left out, the consumer writes them.

    In:  value, topic, partition, offset, timestamp, as Spark's Kafka source names them.
    Out: rows of the table.
    """
    capacities = Capacities().updated(nodes)

    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in message_batches(batch):
                decode = formats.decoders[part.range.topic]
                yield from land(part, decode, capacities, cluster=formats.cluster).rows.to_batches()

    return messages.select(*MESSAGE_COLUMNS).mapInArrow(kernel, spark_schema(table.schema))


def message_batches(batch: pa.RecordBatch) -> Iterator[MessageBatch]:
    """A batch of Spark's messages, one part for each partition in it."""
    places = pa.table([batch.column("topic"), batch.column("partition")], names=["topic", "partition"])
    for place in places.group_by(["topic", "partition"]).aggregate([]).to_pylist():
        mask = pc.and_(
            pc.equal(batch.column("topic"), place["topic"]), pc.equal(batch.column("partition"), place["partition"])
        )
        part = batch.filter(mask)
        offsets = part.column("offset")
        span = pc.min_max(offsets)
        range_ = OffsetRange(place["topic"], place["partition"], span["min"].as_py(), span["max"].as_py() + 1)
        yield MessageBatch(
            range_, offsets, part.column("timestamp").cast(TIMESTAMP), part.column("value").cast(pa.binary())
        )
