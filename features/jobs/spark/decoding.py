"""Messages in, rows out, under Spark: the same decoder and checks that the consumer uses. Steps."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from features.jobs.spark.steps import Batches, Read, spark_schema
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.transform import land
from ingest.schema.batch import MessageBatch
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import TIMESTAMP, Table

MESSAGE_COLUMNS = ("value", "topic", "partition", "offset", "timestamp")


def decoded(messages: DataFrame, table: Table, formats: Formats, nodes: pa.Table) -> DataFrame:
    """Rows of a stream of messages of topics that turn into one table; rejects are left out, the consumer writes them.

    In:  MESSAGE_COLUMNS, as Spark's Kafka source names them.
    Out: rows of the table.
    """
    read = decoding(formats, nodes)

    def kernel(batches: Batches) -> Batches:
        return (batch for rows in read(batches) for batch in rows.to_batches())

    return messages.select(*MESSAGE_COLUMNS).mapInArrow(kernel, spark_schema(table.schema))


def decoding(formats: Formats, nodes: pa.Table) -> Read:
    """A function that makes rows of messages, see `decoded`."""
    capacities = Capacities().updated(nodes)

    def read(batches: Batches) -> Iterator[pa.Table]:
        for part in (part for batch in batches for part in message_batches(batch)):
            yield land(part, formats.decoders[part.range.topic], capacities, cluster=formats.cluster).rows

    return read


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
