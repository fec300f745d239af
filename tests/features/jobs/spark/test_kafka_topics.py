"""Spark reads committed records only, and no topic that was recreated before it is accepted."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from pyspark.sql import SparkSession

from features.jobs.spark import batch_job as batch
from features.jobs.spark import stream_job as stream
from features.schema.tables import TABLES
from ingest.devkafka.broker import Broker, create_topics, running_broker
from ingest.kafka_io.connection import spark_source
from ingest.lake.tables import Lake
from ingest.lake.topic_ids import TopicIds
from ingest.pipeline.consumer_loop import Formats
from ingest.schema.errors import IngestError
from ingest.schema.topics import TOPICS

NOON_S = 1_772_366_400


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[Broker]:
    """A broker whose topics no other test reads."""
    with running_broker(tmp_path / "kafka") as broker:
        yield broker


def usage(second: int) -> bytes:
    record = {"cluster": "c", "ts": NOON_S + second, "interval_s": 1, "node": "n1", "container": "u1", "cpu_cores": 1.0}
    return json.dumps(record).encode()


def send(kafka: Broker, transactions: Sequence[tuple[str, Sequence[int]]]) -> None:
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id="spark")) as producer:
        producer.init_transactions()
        for end, at in transactions:
            producer.begin_transaction()
            for second in at:
                producer.send("usage", usage(second), key=b"c/n1", timestamp_ms=(NOON_S + second + 1) * 1000)
            producer.flush()
            getattr(producer, f"{end}_transaction")()


def recreated(kafka: Broker) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
        admin.delete_topics(["usage"])
        while "usage" in admin.list_topics():
            pass
    create_topics(kafka.bootstrap, [TOPICS["usage"]])


def seconds(lake: Lake) -> list[int]:
    return sorted({int(at.timestamp()) - NOON_S for at in lake.read("node_state")["window_end"].to_pylist()})


def followed(spark: SparkSession, kafka: Broker, lake: Lake) -> None:
    broker = stream.Broker(kafka.bootstrap, Formats())
    how = stream.resumed(lake, stream.JOB, ("usage", "samples"))
    once = stream.Follow(how.checkpoint, None, how.job)
    stream.follow(stream.from_kafka(spark, lake, broker), lake, once, lambda _batch, _rows: None).awaitTermination()


@pytest.mark.slow
@pytest.mark.long
def test_committed_records_of_the_accepted_topic_alone_are_read(
    spark: SparkSession, own_kafka: Broker, tmp_path: Path
) -> None:
    kafka = own_kafka
    create_topics(kafka.bootstrap)
    lake = Lake.open(tmp_path / "lake", TABLES)
    send(kafka, [("commit", [0, 60]), ("abort", [120]), ("commit", [1800])])

    read = batch.kafka_usage(spark, lake, kafka.bootstrap, "c")
    assert sorted(int(row.ts.timestamp()) - NOON_S for row in read.select("ts").collect()) == [0, 60, 1800]
    followed(spark, kafka, lake)
    assert seconds(lake)[:2] == [0, 60]
    before = seconds(lake)

    recreated(kafka)
    send(kafka, [("commit", [3600 + i for i in range(0, 1800, 60)])])
    with pytest.raises(IngestError, match="cohabit lake accept-topic usage") as refused:
        followed(spark, kafka, lake)
    assert seconds(lake) == before
    TopicIds(lake).accept("usage", str(refused.value).split("its id is ")[1].partition(",")[0])
    followed(spark, kafka, lake)

    assert stream.resumed(lake, stream.JOB, ("usage", "samples")).job == "follow-2"
    assert {3600, 3660} <= set(seconds(lake))
    assert set(before) <= set(seconds(lake))


def test_spark_sources_read_committed_records() -> None:
    options = spark_source("kafka:9092", ("usage", "samples"))

    assert options["kafka.isolation.level"] == "read_committed"
    assert options["subscribe"] == "usage,samples"
