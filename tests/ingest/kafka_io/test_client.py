"""Connecting: a broker that answers and dies before the client is ready is asked again, and then named."""

import pytest
from kafka.errors import KafkaConnectionError

from ingest.kafka_io import client
from ingest.kafka_io.client import connect
from ingest.schema.errors import IngestError

RESET = KafkaConnectionError("[Errno 104] Connection reset by peer")


def dying(times: int) -> tuple[list[str], object]:
    """A client that loses its broker so many times while it starts; and the addresses it was given."""
    asked: list[str] = []

    def start(bootstrap_servers: object, **_: object) -> str:
        asked.append(str(bootstrap_servers))
        if len(asked) <= times:
            raise RESET
        return "connected"

    return asked, start


def test_a_broker_that_dies_while_a_client_starts_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RECONNECT_MS", 1)
    asked, start = dying(2)

    assert connect(start, "broker:9092") == "connected"  # type: ignore[arg-type]
    assert len(asked) == 3


def test_one_that_dies_again_and_again_is_named_with_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "RECONNECT_MS", 1)
    monkeypatch.setattr(client, "FIRST_ANSWER_MS", 20)

    with pytest.raises(IngestError, match=r"no Kafka broker answers at broker:9092 \(.*Connection reset by peer"):
        connect(dying(10**6)[1], "broker:9092")  # type: ignore[arg-type]
