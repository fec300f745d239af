"""`cohabit lake accept-topic` and `cohabit doctor ingest`, on a real broker."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import time_ns

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.doctor.finding import Finding
from cohabit.doctor.ingestion import Ingested, examine
from cohabit.refresh.live_state import LiveState
from features.schema.tables import TABLES
from ingest.devkafka.broker import Broker, create_topics
from ingest.kafka_io.connection import Brokers
from ingest.lake.landing import Positions
from ingest.lake.tables import Lake
from ingest.lake.topic_ids import TopicIds
from ingest.schema.errors import IngestError
from ingest.schema.provenance import OffsetRange
from ingest.schema.topics import Topic
from tests.landed import land_rows

NewTopic = Callable[[str, int], Topic]


def recreate(kafka: Broker, topic: Topic) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
        admin.delete_topics([topic.name])
        while topic.name in admin.list_topics():
            pass
    create_topics(kafka.bootstrap, [topic])


def run(kafka: Broker, lake: Path, *words: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, [*words, "--lake", str(lake), "--bootstrap", kafka.bootstrap], env={"COLUMNS": "400"})
    return ran.exit_code, ran.output


def test_a_recreated_topic_is_refused_found_by_the_doctor_and_accepted(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic("metrics", 1)
    named = ("--topic", f"{topic.name}=telegraf-json")
    for second in (1, 2):
        record = {"fields": {"used": 1.0}, "name": "mem", "tags": {"host": "n"}, "timestamp": 1_772_366_400 + second}
        with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap)) as producer:
            producer.send(topic.name, json.dumps(record).encode())
        if second == 1:
            assert run(kafka, tmp_path, "ingest", "--until-end", *named)[0] == 0
            assert run(kafka, tmp_path, "lake", "accept-topic", topic.name)[0] == 1
            recreate(kafka, topic)

    refused, asked = (
        run(kafka, tmp_path, "ingest", "--until-end", *named),
        run(kafka, tmp_path, "doctor", "ingest", *named),
    )
    accepted = run(kafka, tmp_path, "lake", "accept-topic", topic.name)
    code, _ = run(kafka, tmp_path, "ingest", "--until-end", *named)
    after = run(kafka, tmp_path, "doctor", "ingest", *named)

    assert (refused[0], asked[0], accepted[0], code, after[0]) == (1, 1, 0, 0, 0)
    for said in (refused[1], asked[1]):
        assert f"cohabit lake accept-topic {topic.name}" in " ".join(said.split())
    assert f"{topic.name}@2" in accepted[1]
    assert f"topic {topic.name}: 1 partitions, 0 records behind" in after[1]
    origins = Lake.open(tmp_path, TABLES).read("samples", columns=["topic"])["topic"].to_pylist()
    assert sorted(name for name in origins if name.startswith(topic.name)) == [topic.name, f"{topic.name}@2"]


def test_a_topic_that_lost_records_under_its_id_can_be_accepted(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic("metrics", 1)
    lake = Lake.open(tmp_path, TABLES)
    land_rows(lake, "usage", OffsetRange(topic.name, 0, 0, 10))

    code, said = run(kafka, tmp_path, "lake", "accept-topic", topic.name)

    assert (code, TopicIds(lake).origin(topic.name)) == (0, f"{topic.name}@2")
    assert Positions(lake).position(f"{topic.name}@2", 0) is None
    assert "offset 0" in said
    assert run(kafka, tmp_path, "lake", "accept-topic", "no-such-topic")[0] == 1


@pytest.mark.parametrize(("later_s", "level"), [(0, None), (60, "warning"), (3600, "problem")])
def test_the_doctor_shows_who_holds_a_partition_since_when_and_how_to_end_it(
    kafka: Broker, new_topic: NewTopic, tmp_path: Path, later_s: float, level: str | None
) -> None:
    topic = new_topic("metrics", 2)
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic.name)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic.name, b"{}", partition=1).get(10)
        what = Ingested(Brokers(kafka.bootstrap), Lake.open(tmp_path, TABLES), (topic.name,), time_ns() / 1e9 + later_s)
        found = list(examine(what))
        producer.abort_transaction()

    assert found[0] == Finding("ok", f"topic {topic.name}", "2 partitions, 1 records behind")
    assert [(one.level, one.subject) for one in found[1:]] == ([(level, f"{topic.name}[1]")] if level else [])
    if level:
        for part in (
            f"(transactional id {topic.name})",
            "1 records wait for an open transaction of producer id ",
            ", open since 20",
            f"kafka-transactions.sh --bootstrap-server {kafka.bootstrap} abort --topic {topic.name} --partition 1 "
            "--start-offset 0",
        ):
            assert part in found[1].said


def test_a_refresher_does_not_go_on_with_a_recreated_topic() -> None:
    state = LiveState("c", lambda: 0)
    state.check_topic("usage", "one")
    state.check_topic("usage", "one")

    with pytest.raises(IngestError, match="run `cohabit refresh`"):
        state.check_topic("usage", "other")
