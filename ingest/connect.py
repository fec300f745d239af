"""Connect to Kafka the same way everywhere: quick to come back, and clear when nobody is there. An edge."""

from collections.abc import Callable
from typing import Any

from kafka.errors import KafkaTimeoutError

from ingest.errors import BrokerUnreachable

RECONNECT_MS = 1000
"""Longest wait between tries; kafka-python's own 30 s would leave a stream still long after its broker is back."""
FIRST_ANSWER_MS = 8000
"""Longest wait for any broker to answer at first; kafka-python's own 30 s look like a hang."""


def connect(client: Callable[..., Any], bootstrap: str, **options: object) -> Any:
    """One of kafka-python's clients, connected.

    Args:
        client: KafkaConsumer, KafkaProducer or KafkaAdminClient; they have no types.
        bootstrap: brokers, `host:port` separated by commas.
        options: the client's other settings.

    Raises:
        BrokerUnreachable: no broker answered in time.
    """
    limits = {"reconnect_backoff_max_ms": RECONNECT_MS, "bootstrap_timeout_ms": FIRST_ANSWER_MS}
    try:
        return client(bootstrap_servers=bootstrap.split(","), **{**limits, **options})
    except KafkaTimeoutError as error:
        raise BrokerUnreachable(bootstrap) from error
