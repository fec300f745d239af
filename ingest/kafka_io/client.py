"""Connect to Kafka the same way everywhere: quick to come back, and clear when no broker answers. An edge."""

import logging
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaTimeoutError, RequestTimedOutError, RetriableError

from ingest.kafka_io.connection import Brokers, context_of, for_python
from ingest.schema.errors import IngestError

RECONNECT_MS = 1000
"""Longest wait between tries; kafka-python's own 30 s would leave a stream still long after its broker is back."""
FIRST_ANSWER_MS = 8000
"""Longest wait for any broker to answer at first; kafka-python's own 30 s look like a hang."""
HUNG_UP = "; so brokers end an authentication with a wrong user, password or mechanism, if they do not say so"


def connect(client: Callable[..., Any], bootstrap: Brokers | str, **options: object) -> Any:
    """One of kafka-python's clients, connected.

    Args:
        client: KafkaConsumer, KafkaProducer or KafkaAdminClient; they have no types.
        bootstrap: brokers and how they are reached; an address alone, `host:port` by commas, is spoken to in the clear.
        options: the client's other settings.

    Raises:
        IngestError: no broker answered in time, believed us and was believed.
    """
    limits = {"reconnect_backoff_max_ms": RECONNECT_MS, "bootstrap_timeout_ms": FIRST_ANSWER_MS}
    tries = _Tries()
    tries.log.addHandler(tries)
    try:
        if isinstance(bootstrap, Brokers) and bootstrap.encrypts:
            context_of(bootstrap)  # the client would look for a certificate again and again, until time is up
        return _answered(lambda: client(**{**for_python(bootstrap), **limits, **options}))
    except KafkaTimeoutError as error:
        hung_up = isinstance(bootstrap, Brokers) and bootstrap.asks and "disconnected" in tries.reason
        raise _unreachable(bootstrap, tries.reason + (HUNG_UP if hung_up else "")) from error
    except RetriableError as error:
        raise _unreachable(bootstrap, str(error)) from error
    except OSError as error:
        raise _unreachable(bootstrap, f"certificates cannot be used: {error}") from error
    finally:
        tries.log.removeHandler(tries)


def _answered(start: Callable[[], Any]) -> Any:
    """A client, also where the broker that answered dies before it is ready: another, or the same, is asked anew.

    Raises:
        RetriableError: that went on for as long as is waited for any answer.
    """
    deadline = monotonic() + FIRST_ANSWER_MS / 1000
    while True:
        try:
            return start()
        except KafkaTimeoutError:
            raise
        except RetriableError:
            if monotonic() > deadline:
                raise
            sleep(RECONNECT_MS / 1000)


class _Tries(logging.Handler):
    """Why the last try to connect failed: the client logs that, and raises nothing but that time was up."""

    log = logging.getLogger("kafka.net.manager")

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        for argument in record.args if isinstance(record.args, tuple) else ():
            late = isinstance(argument, KafkaConnectionError | RequestTimedOutError)
            cut_off = late and self.reason  # an earlier try came further
            if isinstance(argument, Exception) and not isinstance(argument, KafkaTimeoutError) and not cut_off:
                self.reason = str(argument)


def _unreachable(bootstrap: Brokers | str, reason: str) -> IngestError:
    return IngestError(
        f"no Kafka broker answers at {bootstrap}{f' ({reason})' if reason else ''}: check the settings "
        "COHABIT_KAFKA__BOOTSTRAP and COHABIT_KAFKA__PROTOCOL with what goes with it, and that the broker runs and "
        "advertises an address this machine can reach"
    )
