"""A consumer to be killed: lands one topic until SIGTERM, and prints the end of every stretch it landed.

python ingest_process.py [--group NAME] [--careless] BOOTSTRAP TOPIC LAKE [SIGNAL POINT BATCH]

With SIGNAL it sends itself that signal at its so-many-th batch: `written`, when the files are there but not the commit
that makes them count, or `landed`, when the commit is there but nobody knows yet.
A careless one commits to whatever a table has come to, as a writer does that is handed its path.
"""

import os
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from threading import Event
from typing import Any

from deltalake import DeltaTable
from prometheus_client import CollectorRegistry

from ingest.decode.formats.native import decoder
from ingest.lake.fence import Fence
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.kafka_source import ConsumerSettings
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_kafka
from ingest.schema.tables import DEAD_LETTERS, LANDED, USAGE


def a_lake(uri: str, fault: Sequence[str]) -> Lake:
    if fault:
        break_fence(signal.Signals[fault[0]], fault[1], int(fault[2]))
    return Lake.open(uri, {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS})


def break_fence(number: signal.Signals, point: str, batch: int) -> None:
    """Have the process hit by a signal just before or just after it commits its so-many-th batch of usage."""
    commit, left = Fence.commit, [batch]

    def fragile(fence: Fence, *args: Any, **words: Any) -> None:
        left[0] -= fence.kind.name == "usage"
        if left[0] == 0 and point == "written":
            os.kill(os.getpid(), number)
        commit(fence, *args, **words)
        if left[0] == 0 and point == "landed":
            os.kill(os.getpid(), number)

    setattr(Fence, "commit", fragile)  # noqa: B010


def forget_what_was_looked_at() -> None:
    """Have the process open each table anew between looking at its positions and writing to it."""
    write = Fence._write

    def careless(fence: Fence, *args: Any, **words: Any) -> None:
        fence._delta = DeltaTable(fence.store.address(fence.kind.name))
        write(fence, *args, **words)

    setattr(Fence, "_write", careless)  # noqa: B010


def main(asked: Namespace) -> None:
    stop, topic = Event(), asked.topic
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    settings = ConsumerSettings(
        asked.bootstrap,
        (topic,),
        group=asked.group or topic,
        session_timeout_ms=1000,
        max_records=5,
        max_wait_ms=50,
        min_bytes=1,
    )
    if asked.careless:
        forget_what_was_looked_at()
    ingest_kafka(
        settings,
        a_lake(asked.lake, asked.fault),
        until="stopped",
        stop=stop,
        metrics=IngestMetrics(CollectorRegistry()),
        formats=Formats({topic: decoder(USAGE)}),
        commit_every_s=0,
        on_landed=lambda landing: print(landing.range.end, flush=True),  # noqa: T201
    )


def _parser() -> ArgumentParser:
    parser = ArgumentParser(description="a consumer to be killed")
    for name in ("bootstrap", "topic", "lake"):
        parser.add_argument(name)
    parser.add_argument("fault", nargs="*", metavar="SIGNAL POINT BATCH")
    parser.add_argument("--group")
    parser.add_argument("--careless", action="store_true")
    return parser


if __name__ == "__main__":
    main(_parser().parse_args())
