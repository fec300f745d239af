"""Where a refresher begins: the last minutes of what a topic holds, be it from last month."""

from collections.abc import Callable

from kafka import KafkaProducer

from ingest.devkafka.broker import Broker
from ingest.kafka_io.offsets import last_minutes
from ingest.schema.topics import Topic

NewTopic = Callable[[str, int], Topic]
T_MS = 1_700_000_000_000


def test_the_last_minutes_are_counted_from_the_newest_message(kafka: Broker, new_topic: NewTopic) -> None:
    topic = new_topic("offsets", 2)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for minute in range(10):
        producer.send(topic.name, b"x", partition=0, timestamp_ms=T_MS + minute * 60_000)
    producer.send(topic.name, b"x", partition=1, timestamp_ms=T_MS)
    producer.flush()
    producer.close()

    begin = last_minutes(kafka.bootstrap, [topic.name], 3 * 60_000)

    assert begin == {(topic.name, 0): 6, (topic.name, 1): 1}


def test_an_empty_topic_begins_at_its_end_and_an_unknown_one_nowhere(kafka: Broker, new_topic: NewTopic) -> None:
    topic = new_topic("offsets", 1)

    assert last_minutes(kafka.bootstrap, [topic.name, "nobody-made-this"], 1000) == {(topic.name, 0): 0}
