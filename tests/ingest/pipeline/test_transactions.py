"""Transactions and recreated topics: only committed records of the topic that is meant are ingested."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from prometheus_client import CollectorRegistry

from ingest.decode.formats.format_registry import FORMATS, decoder_named
from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.devkafka.broker import Broker, create_topics
from ingest.kafka_io.offsets import last_minutes
from ingest.kafka_io.topic_admin import TopicAdmin
from ingest.lake.landing import Positions
from ingest.lake.tables import Lake
from ingest.lake.topic_ids import TopicIds
from ingest.pipeline.consumer_loop import NATIVE, Formats, Landers, ingest
from ingest.pipeline.kafka_source import ConsumerSettings, KafkaSource
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.node_capacity import KafkaCapacities
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.runner import ingest_kafka
from ingest.pipeline.sink import LakeSink
from ingest.pipeline.transform import land
from ingest.schema.batch import message_batch
from ingest.schema.errors import IngestError
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import DEAD_LETTERS, LANDED
from ingest.schema.topics import Topic
from tests.landed import land_rows

NOON_S = 1_772_366_400
FORMAT = "telegraf-json"
NewTopic = Callable[[str, int], Topic]


def memory(second: int, used: float = 5e9) -> bytes:
    record = {"fields": {"used": used}, "name": "mem", "tags": {"host": "n1"}, "timestamp": NOON_S + second}
    return json.dumps(record).encode()


def a_lake(folder: Path) -> Lake:
    return Lake.open(folder, {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS})


def settings_of(kafka: Broker, topic: Topic) -> ConsumerSettings:
    return ConsumerSettings(kafka.bootstrap, (topic.name,), group=topic.name, max_wait_ms=50, patience_s=0.2)


def formats_of(topic: Topic) -> Formats:
    return Formats({topic.name: decoder_named(FORMAT, EXPORTERS)}, nodes_topic="no-nodes")


def to_end(kafka: Broker, lake: Lake, topic: Topic, registry: CollectorRegistry | None = None) -> int:
    metrics = IngestMetrics(registry or CollectorRegistry())
    return ingest_kafka(
        settings_of(kafka, topic), lake, until="end", stop=Event(), metrics=metrics, formats=formats_of(topic)
    )


@contextmanager
def producer(kafka: Broker, transactional_id: str | None = None) -> Iterator[KafkaProducer]:
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=transactional_id)) as made:
        if transactional_id:
            made.init_transactions()
        yield made


def send(to: KafkaProducer, topic: Topic, values: list[bytes], partition: int = 0) -> None:
    for value in values:
        to.send(topic.name, value, partition=partition, timestamp_ms=json.loads(value)["timestamp"] * 1000 + 1000)
    to.flush()


def seconds(lake: Lake) -> list[int]:
    return sorted({int(ts.timestamp()) - NOON_S for ts in lake.read("samples")["ts"].to_pylist()})


def gaps(lake: Lake) -> int:
    return len(lake.rows("gaps"))


def recreate(kafka: Broker, topic: Topic) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
        before = admin.describe_topics([topic.name])[0]["topic_id"]
        admin.delete_topics([topic.name])
        deadline = monotonic() + 120
        while admin.describe_topics([topic.name])[0]["topic_id"] in {before} and monotonic() < deadline:
            pass
    create_topics(kafka.bootstrap, [topic])


def test_records_of_an_aborted_transaction_are_not_ingested_and_are_no_gap(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, lake = new_topic("tx", 1), a_lake(tmp_path)
    with producer(kafka, topic.name) as sender:
        for first, used, end in ((0, 5e9, "commit"), (100, 9e9, "abort"), (200, 5e9, "commit")):
            sender.begin_transaction()
            send(sender, topic, [memory(first + i, used) for i in range(10)])
            getattr(sender, f"{end}_transaction")()

    landed = to_end(kafka, lake, topic)

    assert landed == 20
    assert seconds(lake) == [*range(10), *range(200, 210)]
    assert 9e9 not in lake.read("samples")["value"].to_pylist()
    assert gaps(lake) == 0
    assert Positions(lake).position(topic.name, 0) == 33  # 30 records and three markers
    assert to_end(kafka, lake, topic) == 0


def test_aborted_transactions_alone_are_passed_and_stay_no_gap_once_the_broker_drops_them(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, lake, registry = new_topic("tx", 1), a_lake(tmp_path), CollectorRegistry()
    with producer(kafka, topic.name) as sender:
        sender.begin_transaction()
        send(sender, topic, [memory(i) for i in range(5)])
        sender.abort_transaction()
        assert to_end(kafka, lake, topic) == 0
        with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
            admin.delete_records({TopicPartition(topic.name, 0): 6})
        sender.begin_transaction()
        send(sender, topic, [memory(7)])
        sender.commit_transaction()

    assert to_end(kafka, lake, topic, registry) == 1

    assert gaps(lake) == 0
    place = {"topic": topic.name, "partition": "0"}
    assert registry.get_sample_value("cohabit_ingest_gaps_total", place) is None
    assert registry.get_sample_value("cohabit_ingest_lag", place) == 0


def test_an_open_transaction_holds_its_partition_and_is_shown_while_others_go_on(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, lake, registry = new_topic("tx", 2), a_lake(tmp_path), CollectorRegistry()
    held, free = TopicPartition(topic.name, 0), TopicPartition(topic.name, 1)
    landers, metrics = Landers(formats_of(topic), Capacities), IngestMetrics(registry)

    with producer(kafka, topic.name) as opened, producer(kafka) as plain:
        send(plain, topic, [memory(0)])
        opened.begin_transaction()
        send(opened, topic, [memory(7)])
        send(plain, topic, [memory(8)])
        send(plain, topic, [memory(1), memory(2)], partition=1)
        with closing(TopicAdmin(kafka.bootstrap)) as admin:
            found = admin.open_transactions([held, free])
            named = admin.transaction(found[held].producer_id)
        assert to_end(kafka, lake, topic) == 3  # and it ends
        with closing(KafkaSource(settings_of(kafka, topic), LakeSink(lake))) as source:
            ingest(source, LakeSink(lake), landers, metrics, When(lambda: bool(waits(registry))))
            shown, lag = waits(registry), lags(registry)
            before = seconds(lake)
            opened.commit_transaction()
            ingest(source, LakeSink(lake), landers, metrics, When(lambda: 8 in seconds(lake) and not waits(registry)))

    assert list(found) == [held]
    assert found[held].first_offset == 1
    assert named is not None
    assert named.transactional_id == topic.name
    assert before == [0, 1, 2]
    assert shown == {(topic.name, "0", str(found[held].producer_id)): pytest.approx(0.2, abs=5)}
    assert lag == {(topic.name, "0"): 2, (topic.name, "1"): 0}
    assert seconds(lake) == [0, 1, 2, 7, 8]


class When(Event):
    """Set once something is so."""

    def __init__(self, reached: Callable[[], bool]) -> None:
        super().__init__()
        self._reached = reached

    def is_set(self) -> bool:
        return self._reached()


def waits(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    return labelled(registry, "cohabit_ingest_open_transaction_seconds")


def lags(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    return labelled(registry, "cohabit_ingest_lag")


def labelled(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    samples = [sample for metric in registry.collect() for sample in metric.samples if sample.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in samples}


@pytest.mark.parametrize("new_records", [60, 150])
def test_a_recreated_topic_is_refused_until_it_is_accepted_whatever_its_length(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path, new_records: int
) -> None:
    topic, lake = new_topic("rc", 1), a_lake(tmp_path)
    with producer(kafka) as sender:
        send(sender, topic, [*(memory(i) for i in range(99)), b'{"timestamp": 1}'])
    assert to_end(kafka, lake, topic) == 100
    recreate(kafka, topic)
    with producer(kafka) as sender:
        send(sender, topic, [*(memory(1000 + i) for i in range(new_records - 1)), b'{"timestamp": 2}'])

    with pytest.raises(IngestError, match=f"cohabit lake accept-topic {topic.name}") as refused:
        to_end(kafka, lake, topic)
    assert len(seconds(lake)) == 99
    assert TopicIds(lake).accept(topic.name, str(refused.value).split("its id is ")[1].partition(",")[0])
    landed = to_end(kafka, lake, topic)

    assert landed == new_records
    assert len(seconds(lake)) == 99 + new_records - 1
    positions = Positions(lake)
    assert (positions.position(topic.name, 0), positions.position(f"{topic.name}@2", 0)) == (100, new_records)
    letters = lake.read(DEAD_LETTERS.name)
    assert sorted(zip(letters["topic"].to_pylist(), letters["offset"].to_pylist(), strict=True)) == [
        (topic.name, 99),
        (f"{topic.name}@2", new_records - 1),
    ]
    assert to_end(kafka, lake, topic) == 0


@pytest.mark.long
def test_a_topic_recreated_while_it_is_read_is_refused_and_read_from_its_start_once_accepted(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, lake = new_topic("rc", 1), a_lake(tmp_path)
    sink, stop, formats = LakeSink(lake), Event(), formats_of(topic)
    with producer(kafka) as sender:
        send(sender, topic, [memory(0), memory(1)])
    metrics = IngestMetrics(CollectorRegistry())
    with closing(KafkaSource(settings_of(kafka, topic), sink)) as source:
        first = Landers(formats, Capacities, lambda _landing: stop.set())
        ingest(source, sink, first, metrics, stop)
        recreate(kafka, topic)
        with producer(kafka) as sender:
            send(sender, topic, [memory(10 + i) for i in range(5)])

        with pytest.raises(IngestError, match="the ingested one was") as refused:
            ingest(source, sink, first, metrics, Event())
        assert seconds(lake) == [0, 1]
        TopicIds(lake).accept(topic.name, str(refused.value).split("its id is ")[1].partition(",")[0])
        stop.clear()
        ingest(source, sink, first, metrics, stop)

    assert seconds(lake) == [0, 1, 10, 11, 12, 13, 14]


def test_an_older_lake_adopts_the_id_that_it_sees_first(kafka: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, lake = new_topic("rc", 1), a_lake(tmp_path)
    land_rows(lake, "usage", OffsetRange(topic.name, 0, 0, 1))
    with producer(kafka) as sender:
        send(sender, topic, [memory(0), memory(1)])

    assert TopicIds(lake).recorded(topic.name) is None
    assert to_end(kafka, lake, topic) == 1

    with closing(TopicAdmin(kafka.bootstrap)) as admin:
        assert admin.ids([topic.name]) == {topic.name: TopicIds(lake).recorded(topic.name)}
    assert Positions(lake).position(topic.name, 0) == 2


def test_the_last_minutes_are_found_behind_the_markers_of_transactions(kafka: Broker, new_topic: NewTopic) -> None:
    topic = new_topic("tx", 1)
    with producer(kafka, topic.name) as sender:
        sender.begin_transaction()
        send(sender, topic, [memory(60 * i) for i in range(10)])
        sender.commit_transaction()
        for _ in range(40):
            sender.begin_transaction()
            send(sender, topic, [memory(90_000)])
            sender.abort_transaction()

    assert last_minutes(kafka.bootstrap, [topic.name], 120_000) == {(topic.name, 0): 7}


def test_capacities_leave_out_what_was_aborted(kafka: Broker, new_topic: NewTopic) -> None:
    topic = new_topic("nodes", 1)
    with producer(kafka, topic.name) as sender:
        for name, end in (("n1", "commit"), ("n2", "abort")):
            sender.begin_transaction()
            record = {"cluster": "c", "ts": NOON_S, "node": name, "cores": 8, "timestamp": NOON_S}
            send(sender, topic, [json.dumps(record).encode()])
            getattr(sender, f"{end}_transaction")()

    with closing(KafkaCapacities(kafka.bootstrap, topic.name)) as capacities:
        known = capacities()

    assert "n1" in str(known)
    assert "n2" not in str(known)


@pytest.mark.parametrize("name", [*NATIVE, *FORMATS])
def test_every_format_takes_a_stretch_without_records(name: str) -> None:
    decode = NATIVE[name] if name in NATIVE else decoder_named(name, EXPORTERS)

    landing = land(message_batch(OffsetRange("t", 0, 3, 9), [], [], []), decode, Capacities())

    assert (landing.rows.num_rows, landing.dead_letters.num_rows) == (0, 0)
