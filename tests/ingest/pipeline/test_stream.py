"""The stream end to end: files and a real broker give the same lake, and nothing bad is lost."""

import json
import socket
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from prometheus_client import CollectorRegistry

from ingest.decode.formats.native import decoder
from ingest.devkafka.broker import Broker, running_broker
from ingest.kafka_io.replay import Sender, replay
from ingest.kafka_io.stream_files import Message, TopicWriter, read_messages, topic_path, topics_in
from ingest.lake.landing import Positions
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.dead_letter_topic import DeadLetterTopic
from ingest.pipeline.dead_letters import send_dead_letters
from ingest.pipeline.kafka_source import ConsumerSettings, KafkaSource
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import NATIVE_FORMATS, ingest_files, ingest_kafka
from ingest.pipeline.sink import LakeSink
from ingest.pipeline.transform import Landing
from ingest.schema.errors import IngestError
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import DEAD_LETTERS, LANDED, NODES, USAGE
from ingest.schema.topics import Topic
from tests.landed import land_rows

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_S = int(NOON.timestamp())
NewTopic = Callable[[str, int], Topic]


def usage(container: str, second: int = 0, **changes: object) -> Message:
    record = {"cluster": "c", "ts": NOON_S + second, "interval_s": 30, "node": "n1", "container": container, **changes}
    return Message((NOON_S + second + 2) * 1000, b"c/n1", json.dumps(record).encode())


def node(name: str, **changes: object) -> Message:
    record = {"cluster": "c", "ts": NOON_S - 60, "node": name, **changes}
    return Message((NOON_S - 60) * 1000, f"c/{name}".encode(), json.dumps(record).encode())


def a_lake(folder: Path) -> Lake:
    return Lake.open(folder, {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS})


def counters() -> IngestMetrics:
    return IngestMetrics(CollectorRegistry())


def from_files(folder: Path, lake: Lake, topic: str, formats: Formats = NATIVE_FORMATS) -> int:
    return ingest_files(folder, [topic], lake, stop=Event(), metrics=counters(), formats=formats)


def from_kafka(kafka: Broker, lake: Lake, topic: Topic, nodes: Topic | None = None) -> int:
    settings = ConsumerSettings(kafka.bootstrap, (topic.name,), group=topic.name, max_wait_ms=50, max_records=7)
    formats = as_usage(topic, nodes)
    return ingest_kafka(settings, lake, until="end", stop=Event(), metrics=counters(), formats=formats)


def as_usage(topic: Topic, nodes: Topic | None) -> Formats:
    return Formats({topic.name: decoder(USAGE)}, NODES.name if nodes is None else nodes.name)


def send(kafka: Broker, topic: Topic, *messages: Message) -> None:
    with closing(Sender(kafka.bootstrap)) as sender:
        for message in messages:
            sender.send(topic.name, message)
        sender.flush()


def gaps(lake: Lake) -> list[tuple[str, int, int]]:
    return [(one["topic"], one["start"], one["end"]) for one in lake.rows("gaps").to_pylist()]


def position(lake: Lake, topic: str) -> int | None:
    return Positions(lake).position(topic, 0)


def bad_messages() -> dict[str, Message]:
    """A message for each reason to set something aside."""
    return {
        "undecodable": Message(NOON_S * 1000, b"k", b"not json"),
        "missing_key": usage("u", node=None),
        "wrong_type": usage("u1", 1, cpi="2"),
        "negative": usage("u2", 2, cpi=-1),
        "out_of_range": usage("u3", 3, cpi=0),
        "bad_timestamp": usage("u4", ts="never"),
        "future_timestamp": usage("u5", ts=NOON_S + 3600),
        "over_capacity": usage("u6", 6, cpu_cores=13),
    }


def test_each_bad_message_is_set_aside_with_its_reason_and_the_stream_goes_on(tmp_path: Path) -> None:
    bad = bad_messages()
    TopicWriter(tmp_path / "in", "nodes").write([node("n1", cores=8)])
    TopicWriter(tmp_path / "in", "usage").write([usage("first"), *bad.values(), usage("last", 9, cpu_cores=11.9)])
    lake = a_lake(tmp_path / "lake")

    count = from_files(tmp_path / "in", lake, "usage")

    letters = lake.read(DEAD_LETTERS.name).sort_by("offset").to_pylist()
    assert count == len(bad) + 2
    assert [(letter["reason"], letter["offset"]) for letter in letters] == [(r, i + 1) for i, r in enumerate(bad)]
    assert letters[0]["payload"] == b"not json"
    rows = lake.read("usage")
    assert rows["container"].to_pylist() == ["first", "u1", "u2", "u3", "u6", "last"]
    assert rows["cpu_cores"].to_pylist() == [None, None, None, None, None, 11.9]
    assert (position(lake, "usage"), gaps(lake)) == (count, [])


def test_kafka_and_files_give_the_same_rows(kafka: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, nodes = new_topic("usage", 1), new_topic("nodes", 1)
    messages = [usage(f"u{i % 5}", i, cpu_cores=i) for i in range(50)] + list(bad_messages().values())
    TopicWriter(tmp_path / "in", topic.name).write(messages)
    TopicWriter(tmp_path / "in", nodes.name).write([node("n1", cores=8)])
    ours, theirs = a_lake(tmp_path / "files"), a_lake(tmp_path / "kafka")

    sent = replay(
        tmp_path / "in",
        [topic.name, nodes.name],
        kafka.bootstrap,
        progress=lambda _count: None,
        stop=Event(),
    )
    from_files(tmp_path / "in", ours, topic.name, as_usage(topic, nodes))
    landed = from_kafka(kafka, theirs, topic, nodes)

    assert (sent, landed) == (59, 58)
    for table in (USAGE.name, DEAD_LETTERS.name):
        assert ours.read(table).equals(theirs.read(table))
        assert ours.read(table).num_rows
    assert position(ours, topic.name) == position(theirs, topic.name) == 58


def test_a_second_run_begins_where_the_lake_ends(kafka: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, lake = new_topic("usage", 1), a_lake(tmp_path)
    send(kafka, topic, usage("u1"), usage("u2"))

    assert from_kafka(kafka, lake, topic) == 2
    send(kafka, topic, usage("u3"), usage("u1"))
    assert from_kafka(kafka, lake, topic) == 2
    assert from_kafka(kafka, lake, topic) == 0

    assert lake.read("usage")["container"].to_pylist() == ["u1", "u2", "u3"]
    assert lake.read("usage")["offset"].to_pylist() == [0, 1, 2]


def test_kafkas_own_offsets_are_written_but_never_read_back(kafka: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic("usage", 1)
    send(kafka, topic, usage("u1"), usage("u2"))
    from_kafka(kafka, a_lake(tmp_path / "first"), topic)
    second = a_lake(tmp_path / "second")

    assert from_kafka(kafka, second, topic) == 2

    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
        committed = admin.list_group_offsets([topic.name])
    assert "2" in str(committed)
    assert second.read("usage").num_rows == 2


def test_records_that_the_broker_dropped_unread_make_an_explicit_gap(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, lake = new_topic("usage", 1), a_lake(tmp_path)
    send(kafka, topic, *(usage(f"u{i}") for i in range(6)))
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
        admin.delete_records({TopicPartition(topic.name, 0): 4})

    from_kafka(kafka, lake, topic)

    assert (position(lake, topic.name), gaps(lake)) == (6, [(topic.name, 0, 4)])
    assert lake.read("usage")["container"].to_pylist() == ["u4", "u5"]


def test_records_dropped_while_they_are_awaited_make_a_gap_too(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, lake, stop = new_topic("usage", 1), a_lake(tmp_path), Event()
    settings = ConsumerSettings(kafka.bootstrap, (topic.name,), group=topic.name, max_wait_ms=1)
    send(kafka, topic, usage("u0"), usage("u1"))

    def land_the_rest(landing: Landing) -> None:
        if landing.range.end == 6:
            stop.set()
            return
        send(kafka, topic, *(usage(f"u{i}") for i in range(2, 5)))
        with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
            admin.delete_records({TopicPartition(topic.name, 0): 5})
        send(kafka, topic, usage("u5"))

    ingest_kafka(
        settings,
        lake,
        until="stopped",
        stop=stop,
        metrics=counters(),
        formats=as_usage(topic, None),
        on_landed=land_the_rest,
        commit_every_s=0,
    )

    assert (position(lake, topic.name), gaps(lake)) == (6, [(topic.name, 2, 5)])


def test_a_topic_that_ends_before_what_was_ingested_is_refused(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, lake = new_topic("usage", 1), a_lake(tmp_path)
    land_rows(lake, "usage", OffsetRange(topic.name, 0, 0, 10))
    send(kafka, topic, usage("u1"))

    with pytest.raises(IngestError, match=f"cohabit lake accept-topic {topic.name}"):
        from_kafka(kafka, lake, topic)


def test_dead_letters_can_also_be_sent_to_a_topic(tmp_path: Path) -> None:
    TopicWriter(tmp_path / "in", "usage").write([bad_messages()["undecodable"], bad_messages()["negative"]])
    sent: list[tuple[str, bytes, bytes]] = []

    ingest_files(
        tmp_path / "in",
        ["usage"],
        a_lake(tmp_path / "lake"),
        stop=Event(),
        metrics=counters(),
        on_landed=lambda landing: send_dead_letters(landing.dead_letters, lambda *letter: sent.append(letter)),
    )

    assert [(topic, key) for topic, key, _ in sent] == [
        ("dead_letters", b"usage/0/0"),
        ("dead_letters", b"usage/0/1"),
    ]
    assert json.loads(sent[1][2])["reason"] == "negative"


def test_what_is_landed_is_counted(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    TopicWriter(tmp_path / "in", "usage").write([usage("u1", 0, colour=1), usage("u2", 0, cpi=-1)])

    ingest_files(
        tmp_path / "in",
        ["usage"],
        a_lake(tmp_path / "lake"),
        stop=Event(),
        metrics=IngestMetrics(registry),
    )

    assert registry.get_sample_value("cohabit_ingest_messages_total", {"topic": "usage"}) == 2
    assert registry.get_sample_value("cohabit_ingest_rows_total", {"table": "usage"}) == 2
    assert registry.get_sample_value("cohabit_ingest_unknown_fields_total", {"topic": "usage"}) == 1
    reason = {"topic": "usage", "reason": "negative"}
    assert registry.get_sample_value("cohabit_ingest_rejects_total", reason) == 1


def test_dead_letters_go_to_their_topic_once_they_are_landed(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, registry = new_topic("usage", 1), CollectorRegistry()
    metrics, places = IngestMetrics(registry), [TopicPartition("dead_letters", 0)]
    settings = ConsumerSettings(kafka.bootstrap, (topic.name,), group=topic.name, max_wait_ms=50)
    send(kafka, topic, bad_messages()["undecodable"], usage("u1"), bad_messages()["negative"])

    with closing(DeadLetterTopic(kafka.bootstrap, metrics)) as letters:
        ingest_kafka(
            settings,
            a_lake(tmp_path),
            until="end",
            stop=Event(),
            metrics=metrics,
            formats=as_usage(topic, None),
            on_landed=letters,
        )

    with closing(KafkaConsumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest")) as consumer:
        consumer.assign(places)
        read = consumer.poll(timeout_ms=10_000)[places[0]]
    ours = [json.loads(record.value) for record in read if record.key.startswith(f"{topic.name}/".encode())]
    assert [letter["reason"] for letter in ours] == ["undecodable", "negative"]
    assert registry.get_sample_value("cohabit_ingest_dead_letters_sent_total") == 2


def test_dead_letters_that_cannot_be_sent_are_counted_and_stop_nothing(tmp_path: Path) -> None:
    registry, lake = CollectorRegistry(), a_lake(tmp_path / "lake")
    metrics = IngestMetrics(registry)
    TopicWriter(tmp_path / "in", "usage").write([usage("u0"), *bad_messages().values()])
    with running_broker(tmp_path / "kafka") as broker:
        letters = DeadLetterTopic(broker.bootstrap, metrics)
        broker.kill()
        count = ingest_files(
            tmp_path / "in",
            ["usage"],
            lake,
            stop=Event(),
            metrics=metrics,
            on_landed=letters,
        )
        letters.close()

    kept = lake.read(DEAD_LETTERS.name).num_rows
    assert (count, kept) == (9, 7)
    assert registry.get_sample_value("cohabit_ingest_dead_letters_unsent_total") == kept


def test_lag_gaps_and_freshness_are_told(kafka: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, registry = new_topic("usage", 1), CollectorRegistry()
    send(kafka, topic, *(usage(f"u{i}", i) for i in range(6)))
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
        admin.delete_records({TopicPartition(topic.name, 0): 2})

    ingest_kafka(
        ConsumerSettings(kafka.bootstrap, (topic.name,), group=topic.name, max_wait_ms=50, max_records=2),
        a_lake(tmp_path),
        until="end",
        stop=Event(),
        metrics=IngestMetrics(registry, now_s=lambda: NOON_S + 60.0),
        formats=as_usage(topic, None),
    )

    place = {"topic": topic.name, "partition": "0"}
    assert registry.get_sample_value("cohabit_ingest_lag", place) == 0
    assert registry.get_sample_value("cohabit_ingest_gaps_total", place) == 1
    assert registry.get_sample_value("cohabit_ingest_gap_offsets_total", place) == 2
    assert registry.get_sample_value("cohabit_ingest_newest_seconds", {"topic": topic.name}) == NOON_S + 7
    assert registry.get_sample_value("cohabit_ingest_freshness_seconds", {"topic": topic.name}) == 53


def test_who_leaves_tells_kafka_how_far_it_landed(kafka: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, lake, stop = new_topic("usage", 30), a_lake(tmp_path), Event()
    messages = (usage(f"u{i}", i) for i in range(600))
    send(kafka, topic, *(Message(m.arrived_ms, str(i).encode(), m.value) for i, m in enumerate(messages)))

    ingest_kafka(
        ConsumerSettings(kafka.bootstrap, (topic.name,), group=topic.name, min_bytes=1),
        lake,
        until="stopped",
        stop=stop,
        metrics=counters(),
        formats=as_usage(topic, None),
        on_landed=lambda _: stop.set(),
        commit_every_s=0,
    )

    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
        committed = admin.list_group_offsets([topic.name])[topic.name]
    landed = {partition: Positions(lake).position(topic.name, partition) for partition in range(30)}
    told = {place.partition: offset.offset for place, offset in committed.items() if offset.offset >= 0}
    assert told == {partition: end for partition, end in landed.items() if end}
    assert len(told) > 1


@pytest.mark.parametrize("silent", [False, True])
def test_a_broker_that_does_not_answer_is_told_within_ten_seconds(tmp_path: Path, *, silent: bool) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silent:
            listener.listen()
        bootstrap, began_s = f"127.0.0.1:{listener.getsockname()[1]}", monotonic()

        with pytest.raises(IngestError, match="no Kafka broker answers"):
            KafkaSource(ConsumerSettings(bootstrap, ("usage",)), LakeSink(a_lake(tmp_path)))

    assert monotonic() - began_s < 10


def test_a_file_that_grows_is_read_on_and_a_half_written_line_waits(tmp_path: Path) -> None:
    lake = a_lake(tmp_path / "lake")
    TopicWriter(tmp_path, "usage").write([usage("u1")])
    with topic_path(tmp_path, "usage").open("ab") as file:
        file.write(b"CreateTime:17723")
    from_files(tmp_path, lake, "usage")
    with topic_path(tmp_path, "usage").open("ab") as file:
        file.write(b"66402000\tk\t" + (usage("u2").value or b"") + b"\n")

    from_files(tmp_path, lake, "usage")

    assert lake.read("usage")["container"].to_pylist() == ["u1", "u2"]
    assert position(lake, "usage") == 2
    assert topics_in(tmp_path) == ["usage"]


def test_a_line_of_another_form_is_told_with_file_and_line(tmp_path: Path) -> None:
    topic_path(tmp_path, "usage").write_bytes(b"CreateTime:1\tk\tv\nhello\n")

    with pytest.raises(IngestError, match=r"usage\.log line 2"):
        list(read_messages(topic_path(tmp_path, "usage")))


def test_a_message_with_a_line_feed_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="line feed"):
        TopicWriter(tmp_path, "usage").write([Message(0, None, b"a\nb")])
