"""Metrics of others reach live scores, computed by the refresher itself and told by Spark."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import orjson
import pytest
from kafka import KafkaProducer
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from cohabit.refresh.live_state import LiveState
from features.jobs.spark import stream_job as stream
from features.jobs.spark.stream_job import Follow
from features.schema.tables import PROFILES, TABLES
from ingest.decode.formats.format_registry import decoder_named
from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.devkafka.broker import create_topics, running_broker
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import NATIVE, Formats, Landers, ingest
from ingest.pipeline.kafka_source import ConsumerSettings, KafkaSource
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.plausibility import Capacities
from ingest.schema.topics import Topic

START_S = 1_772_366_400
UID = "8f0d3c8e-1111-4222-8333-444455556666"
FORMATS = Formats({**NATIVE, "prom": decoder_named("prom-adapter", EXPORTERS)}, cluster="c")
LABELS = {
    "namespace": "shop",
    "pod": "web-0",
    "container": "app",
    "node": "m1",
    "id": f"/kubepods/burstable/pod{UID}/1",
}


def send(bootstrap: str) -> None:
    """A node, and ten minutes of a container that uses two cores, as the adapter sends them."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    node = {"node": "m1", "ts": START_S, "cores": 8, "platform": "p"}
    producer.send("nodes", orjson.dumps(node), key=b"c/m1", timestamp_ms=START_S * 1000)
    for second in range(0, 600, 15):
        moment = datetime.fromtimestamp(START_S + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = "container_cpu_usage_seconds_total"
        sample = {"timestamp": moment, "value": str(2.0 * second), "name": name, "labels": {"__name__": name, **LABELS}}
        producer.send("prom", orjson.dumps(sample), timestamp_ms=(START_S + second) * 1000 + 500)
    producer.flush()
    producer.close()


def residents(bootstrap: str, *topics: str) -> dict[str, float]:
    """CPU of everybody in the snapshot of a refresher that reads some topics."""
    state = LiveState("c", lambda: 2**60)
    with closing(KafkaSource(ConsumerSettings(bootstrap, topics, "-".join(topics)), state)) as source:
        source.stop_at_end()
        metrics = IngestMetrics(CollectorRegistry())
        ingest(source, state, Landers(FORMATS, Capacities), metrics, Event())
    snapshot = state.snapshot(PROFILES.schema.empty_table(), version=1)
    return dict(zip(snapshot.containers, snapshot.resident_use[:, 0].tolist(), strict=True))


@pytest.mark.long
def test_a_foreign_topic_reaches_the_snapshot_with_and_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    with running_broker(tmp_path / "kafka") as broker:
        create_topics(broker.bootstrap)
        create_topics(broker.bootstrap, [Topic("prom", ("node",), 2)])
        send(broker.bootstrap)
        lake, how = Lake.open(tmp_path / "lake", TABLES), Follow(tmp_path / "checkpoint", every=None)
        source = stream.Broker(broker.bootstrap, FORMATS, ("prom",))
        stream.publish(stream.from_kafka(spark, lake, source), lake, how, broker.bootstrap).awaitTermination()

        by_itself = residents(broker.bootstrap, "nodes", "placements", "usage", "samples", "prom")
        told = residents(broker.bootstrap, "nodes", "placements", "node_state")

    assert by_itself == told == {UID: pytest.approx(2.0)}
