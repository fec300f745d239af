"""The embedded broker: it keeps what it took, and it never outlives whoever started it."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from ingest.devkafka import child_process as supervise
from ingest.devkafka.broker import Broker, create_topics, free_ports
from ingest.kafka_io.client import connect
from ingest.schema.errors import IngestError
from ingest.schema.topics import Topic


def send(broker: Broker, topic: str, *values: bytes) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for value in values:
            producer.send(topic, value, key=b"n1", timestamp_ms=1_000_000_000_000)
        producer.flush()


def received(broker: Broker, topic: str, count: int) -> list[bytes]:
    place = TopicPartition(topic, 0)
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        values: list[bytes] = []
        while len(values) < count and (polled := consumer.poll(timeout_ms=10_000)):
            values += [record.value for record in polled[place]]
        return values


def test_a_record_with_an_old_timestamp_is_taken_and_read_back(
    kafka: Broker, new_topic: Callable[[str, int], Topic]
) -> None:
    topic = new_topic("old", 1)

    send(kafka, topic.name, b"a", b"b")

    assert received(kafka, topic.name, 2) == [b"a", b"b"]


def test_topics_that_exist_are_left_alone(kafka: Broker, new_topic: Callable[[str, int], Topic]) -> None:
    topic = new_topic("again", 1)
    send(kafka, topic.name, b"a")

    create_topics(kafka.bootstrap, [topic])

    assert received(kafka, topic.name, 1) == [b"a"]


def test_a_broker_that_cannot_start_says_where_its_log_is(kafka: Broker, tmp_path: Path) -> None:
    second = Broker(tmp_path, kafka.client_port, kafka.controller_port)

    with pytest.raises(IngestError, match=r"broker\.log"):
        second.start()


def test_a_broker_that_does_not_answer_is_named_with_what_to_check() -> None:
    (port,) = free_ports(1)

    with pytest.raises(IngestError, match=f"{port}.*COHABIT_KAFKA__BOOTSTRAP"):
        connect(KafkaAdminClient, f"127.0.0.1:{port}", bootstrap_timeout_ms=300)


PARENT = """
import os, subprocess, sys
guard = [sys.executable, sys.argv[1], str(os.getpid()), "5"]
child = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
process = subprocess.Popen([*guard, sys.executable, "-c", child], start_new_session=True)
print(process.pid, flush=True)
process.wait()
"""


@pytest.mark.parametrize(
    ("victim", "sent"), [("parent", signal.SIGKILL), ("supervisor", signal.SIGKILL), ("supervisor", signal.SIGTERM)]
)
def test_a_supervised_program_ends_with_whoever_started_it(victim: str, sent: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT, supervise.__file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        supervisor, child = int(parent.stdout.readline()), int(parent.stdout.readline())
        alive = os.pidfd_open(child)

        os.kill(parent.pid if victim == "parent" else supervisor, sent)

        assert select.select([alive], [], [], 10)[0], "the child still runs"
        os.close(alive)
