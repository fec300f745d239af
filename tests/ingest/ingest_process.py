"""A consumer to be killed: lands one topic until SIGTERM, and prints the end of every stretch it landed.

python ingest_process.py BOOTSTRAP TOPIC LAKE [SIGNAL POINT BATCH]

With SIGNAL it sends itself that signal at its so-many-th batch: `written`, when the files are there but not the link
that makes them count, or `landed`, when the link is there but nobody knows yet.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Literal

from prometheus_client import CollectorRegistry

from ingest.decode.formats.native import decoder
from ingest.lake.layout import DataFile
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.kafka_source import ConsumerSettings
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_kafka
from ingest.schema.provenance import Link
from ingest.schema.tables import DEAD_LETTERS, LANDED, USAGE


@dataclass
class FragileLake(Lake):
    """A lake whose writer is hit by a signal just before or just after a link is made."""

    number: signal.Signals = signal.SIGKILL
    point: str = ""
    batch: int = 0

    def commit(
        self,
        link: Link,
        files: Sequence[DataFile],
        *,
        kind: Literal["batch", "gap"] = "batch",
        unknown_fields: Mapping[str, int] | None = None,
    ) -> None:
        self.batch -= 1
        if self.batch == 0 and self.point == "written":
            os.kill(os.getpid(), self.number)
        super().commit(link, files, kind=kind, unknown_fields=unknown_fields)
        if self.batch == 0 and self.point == "landed":
            os.kill(os.getpid(), self.number)


def a_lake(folder: Path, fault: Sequence[str]) -> Lake:
    lake = Lake.open(folder, {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS})
    if not fault:
        return lake
    return FragileLake(lake.root, lake.tables, number=signal.Signals[fault[0]], point=fault[1], batch=int(fault[2]))


def main(bootstrap: str, topic: str, folder: Path, fault: Sequence[str]) -> None:
    stop = Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    settings = ConsumerSettings(
        bootstrap, (topic,), group=topic, session_timeout_ms=1000, max_records=5, max_wait_ms=50, min_bytes=1
    )
    ingest_kafka(
        settings,
        a_lake(folder, fault),
        until="stopped",
        stop=stop,
        metrics=IngestMetrics.on(CollectorRegistry()),
        formats=Formats({topic: decoder(USAGE)}),
        on_landed=lambda landing: print(landing.link.end, flush=True),  # noqa: T201
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
