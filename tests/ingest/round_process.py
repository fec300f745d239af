"""Processes that crash rounds start beside consumers: `produce` sends records with known names, `upkeep` compacts.

python round_process.py produce BOOTSTRAP TOPIC RECORDS SEED
python round_process.py upkeep LAKE
"""

import json
import random
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Event

from ingest.kafka_io.replay import Sender
from ingest.kafka_io.stream_files import Message
from ingest.lake.tables import Lake
from ingest.lake.upkeep import When, compact, vacuum
from ingest.schema.tables import DEAD_LETTERS, LANDED

NOON_S = 1_772_366_400
STEP_S = 17
PAUSE_S = 0.15
MESSAGES_AT_ONCE = 5
LATE_S = 300
LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""No file is too young to be compacted then."""


def container(number: int) -> str:
    """The name of a record, by which it is found again."""
    return f"u{number}"


def message(number: int, *, late: bool) -> Message:
    node, ts = f"n{number % 7}", NOON_S + number * STEP_S
    record = {"ts": ts, "interval_s": 1, "node": node, "container": container(number), "cpu_cores": 1}
    return Message((ts + (LATE_S if late else 1)) * 1000, node.encode(), json.dumps(record).encode())


def to_send(records: int, seed: int) -> list[Message]:
    """Every record at least once; some late, some twice, the second one a while after the first."""
    rng = random.Random(seed)
    placed = [(number + 0.0, message(number, late=rng.random() < 0.1)) for number in range(records)]
    again = [(at + rng.uniform(0, 50), sent) for at, sent in placed if rng.random() < 0.15]
    return [sent for _, sent in sorted((*placed, *again), key=lambda one: one[0])]


def produce(bootstrap: str, topic: str, records: int, seed: int) -> None:
    """Send all, slowly enough for something to happen meanwhile."""
    pause = Event()
    with closing(Sender(bootstrap)) as sender:
        for number, sent in enumerate(to_send(records, seed)):
            sender.send(topic, sent)
            if number % MESSAGES_AT_ONCE == 0:
                pause.wait(PAUSE_S)
        sender.flush()


def upkeep(uri: str) -> None:
    """Compact and vacuum again and again, and keep no file that is out of use, while others land."""
    tables = {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS}
    pause = Event()
    while not pause.wait(0.2):
        lake = Lake.open(uri, tables)
        for table in ("usage", DEAD_LETTERS.name):
            compact(lake, table, When(LATER), lambda _done, _total: None)
            vacuum(lake, table, retention=timedelta())


if __name__ == "__main__":
    if sys.argv[1] == "produce":
        produce(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        upkeep(sys.argv[2])
