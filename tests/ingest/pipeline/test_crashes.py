"""The crash laws, with real processes: whatever dies, stops or comes back, the lake holds each record exactly once."""

import json
import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event

import pyarrow.dataset as ds
import pytest
from prometheus_client import CollectorRegistry

from ingest.decode.formats.native import decoder
from ingest.devkafka.broker import Broker, create_topics, running_broker
from ingest.kafka_io.replay import Sender
from ingest.kafka_io.stream_files import Message
from ingest.lake.landing import Positions
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.kafka_source import ConsumerSettings
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_kafka
from ingest.schema.tables import DEAD_LETTERS, LANDED, USAGE
from ingest.schema.topics import Topic

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[1] / "ingest_process.py"
NOON_S = 1_772_366_400
PARTITIONS = 2
LIMIT_S = 30.0
NewTopic = Callable[[str, int], Topic]


def message(number: int) -> Message:
    node = f"n{number % 7}"
    record = {"ts": NOON_S + number, "interval_s": 1, "node": node, "container": f"u{number}", "cpu_cores": 1}
    return Message((NOON_S + number) * 1000, node.encode(), json.dumps(record).encode())


def send(broker: Broker, topic: Topic, numbers: range) -> None:
    with closing(Sender(broker.bootstrap)) as sender:
        for number in numbers:
            sender.send(topic.name, message(number))
        sender.flush()


@contextmanager
def consumer(broker: Broker, topic: Topic, lake: Lake, *fault: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(PROGRAM), broker.bootstrap, topic.name, str(lake.root), *fault]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield process
        finally:
            process.kill()


def await_landed(process: subprocess.Popen[bytes], batches: int) -> None:
    """Wait until the process has landed so many batches more."""
    assert process.stdout is not None
    while batches > 0:
        assert select.select([process.stdout], [], [], LIMIT_S)[0], "nothing was landed in time"
        told = process.stdout.read(1)
        assert told, "the consumer ended"
        batches -= told == b"\n"


def let_run(process: subprocess.Popen[bytes], seconds: float) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(seconds)


def finish(broker: Broker, topic: Topic, lake: Lake) -> None:
    """Land what is left, in this process."""
    settings = ConsumerSettings(broker.bootstrap, (topic.name,), group=topic.name, max_wait_ms=50)
    metrics, formats = IngestMetrics(CollectorRegistry()), Formats({topic.name: decoder(USAGE)})
    ingest_kafka(settings, lake, until="end", stop=Event(), metrics=metrics, formats=formats)


def a_lake(folder: Path) -> Lake:
    return Lake.open(folder, {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS})


def assert_landed_once(lake: Lake, topic: Topic, records: int, copies: int = 1) -> None:
    """Every offset lies in the files that count once, and every record is read once."""
    counting = ds.dataset(lake.files("usage")).to_table(["partition", "offset"])
    places = list(zip(counting["partition"].to_pylist(), counting["offset"].to_pylist(), strict=True))
    assert len(places) == len(set(places)) == records * copies
    assert sorted(lake.read("usage")["container"].to_pylist()) == sorted(f"u{i}" for i in range(records))


def test_kill_9_at_any_moment_loses_and_doubles_nothing(kafka: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    rng, topic, lake = random.Random(7), new_topic("killed", PARTITIONS), a_lake(tmp_path)
    send(kafka, topic, range(1000))

    for _ in range(5):
        with consumer(kafka, topic, lake) as process:
            await_landed(process, rng.randint(1, 20))
            let_run(process, rng.uniform(0, 0.05))
            process.kill()
    finish(kafka, topic, lake)

    assert_landed_once(lake, topic, 1000)


def orphans(lake: Lake) -> int:
    """Files of usage that were written and do not count."""
    return len(lake.store.sizes("usage")) - len(lake.files("usage"))


def await_all(process: subprocess.Popen[bytes], lake: Lake, topic: Topic, records: int) -> None:
    """Wait until everything sent so far is landed, by whomever."""
    while sum(Positions(lake).position(topic.name, p) or 0 for p in range(PARTITIONS)) < records:
        await_landed(process, 1)


@pytest.mark.parametrize(("point", "left_behind"), [("written", 1), ("landed", 0)])
def test_kill_9_between_files_and_commit_and_after_the_commit(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path, *, point: str, left_behind: int
) -> None:
    topic, lake = new_topic(f"killed-{point}", PARTITIONS), a_lake(tmp_path)
    send(kafka, topic, range(100))

    with consumer(kafka, topic, lake, "SIGKILL", point, "3") as process:
        assert process.wait(LIMIT_S) == -signal.SIGKILL
    assert orphans(lake) == left_behind
    finish(kafka, topic, lake)

    assert_landed_once(lake, topic, 100)


def test_a_zombie_with_a_written_batch_in_its_hands_lands_nothing(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, lake = new_topic("in-flight", PARTITIONS), a_lake(tmp_path)
    send(kafka, topic, range(100))

    with consumer(kafka, topic, lake, "SIGSTOP", "written", "3") as zombie:
        assert os.WIFSTOPPED(os.waitpid(zombie.pid, os.WUNTRACED)[1])
        finish(kafka, topic, lake)
        zombie.send_signal(signal.SIGCONT)
        send(kafka, topic, range(100, 200))
        await_all(zombie, lake, topic, 200)
        zombie.terminate()
        assert zombie.wait(LIMIT_S) == 0

    assert orphans(lake) >= 1
    assert_landed_once(lake, topic, 200)


@pytest.mark.long
def test_a_stopped_consumer_that_comes_back_lands_nothing_twice(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    rng, topic, lake = random.Random(8), new_topic("zombie", PARTITIONS), a_lake(tmp_path)

    for sent in (0, 400, 800):
        send(kafka, topic, range(sent, sent + 400))
        with consumer(kafka, topic, lake) as zombie:
            await_landed(zombie, rng.randint(1, 5))
            let_run(zombie, rng.uniform(0, 0.05))
            zombie.send_signal(signal.SIGSTOP)
            with consumer(kafka, topic, lake) as heir:
                await_landed(heir, rng.randint(1, 10))
                zombie.send_signal(signal.SIGCONT)
                await_landed(heir, 10)
                for process in (zombie, heir):
                    process.terminate()
                    assert process.wait(LIMIT_S) == 0
    finish(kafka, topic, lake)

    assert_landed_once(lake, topic, 1200)


def test_messages_sent_twice_are_read_once(kafka: Broker, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, lake = new_topic("twice", PARTITIONS), a_lake(tmp_path)
    send(kafka, topic, range(100))
    once = a_lake(tmp_path / "once")
    finish(kafka, topic, once)
    send(kafka, topic, range(100))

    finish(kafka, topic, lake)

    assert_landed_once(lake, topic, 100, copies=2)
    assert lake.read("usage").equals(once.read("usage"))


@pytest.mark.long
def test_the_death_of_the_broker_is_waited_out(tmp_path: Path) -> None:
    topic, lake = Topic("usage", ("cluster", "node"), PARTITIONS), a_lake(tmp_path / "lake")
    with running_broker(tmp_path / "kafka") as broker:
        create_topics(broker.bootstrap, [topic])
        send(broker, topic, range(20))
        with consumer(broker, topic, lake) as process:
            await_landed(process, 2)
            broker.kill()
            broker.start()
            send(broker, topic, range(20, 40))
            await_landed(process, 4)
            process.terminate()
            assert process.wait(LIMIT_S) == 0
        again = a_lake(tmp_path / "again")
        finish(broker, topic, lake)
        finish(broker, topic, again)

    assert_landed_once(lake, topic, 40)
    assert_landed_once(again, topic, 40)
