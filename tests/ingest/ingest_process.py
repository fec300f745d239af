"""A consumer to be killed: lands one topic until SIGTERM, and prints the end of every stretch it landed.

python ingest_process.py BOOTSTRAP TOPIC LAKE
"""

import signal
import sys
from pathlib import Path
from threading import Event

from prometheus_client import CollectorRegistry

from ingest.consumer import Formats
from ingest.decode.native import decoder
from ingest.kafka_source import ConsumerSettings
from ingest.lake import Lake
from ingest.metrics import IngestMetrics
from ingest.schema import DEAD_LETTERS, LANDED, USAGE
from ingest.streams import ingest_kafka


def main(bootstrap: str, topic: str, folder: Path) -> None:
    stop = Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    settings = ConsumerSettings(
        bootstrap, (topic,), group=topic, session_timeout_ms=1000, max_records=5, max_wait_ms=50, min_bytes=1
    )
    ingest_kafka(
        settings,
        Lake.open(folder, {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS}),
        until="stopped",
        stop=stop,
        metrics=IngestMetrics.on(CollectorRegistry()),
        formats=Formats({topic: decoder(USAGE)}),
        on_landed=lambda landing: print(landing.link.end, flush=True),  # noqa: T201
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
