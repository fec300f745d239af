"""The commands of the stream: broker, topics, simulate, replay, ingest."""

from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from rich.status import Status

from cohabit.config.errors import CohabitError
from cohabit.config.settings import Settings
from cohabit.ingestion.worker import ALONE, Job, Wishes, foreign_in, formats_of, land_from_kafka
from cohabit.terminal.console import bar, console, show_table
from cohabit.terminal.locations import TOPICS, open_lake, stop_on_signals, stream_exists, stream_in
from ingest.kafka_io.connection import Brokers
from ingest.lake.tables import Lake

if TYPE_CHECKING:
    from ingest.pipeline.consumer_loop import Formats
    from ingest.pipeline.runner import Until
    from ingest.pipeline.transform import Landing
    from ingest.simulator.simulate import Plan

MAX_UNKNOWN = 10
MAX_DETAIL = 60
SAY_EVERY_S = 10.0


def run_broker(folder: Path, port: int) -> None:
    """See `cohabit dev broker`."""
    from ingest.devkafka.broker import Broker, create_topics, free_ports
    from ingest.devkafka.jars import fetch_jars

    fetch_jars(lambda done, total, name: console.print(f"  jar {done} of {total}: {name}"))
    stop = stop_on_signals()
    client, controller = free_ports(2)
    broker = Broker(folder, port or client, controller)
    with console.status("starting Kafka"):
        broker.start()
        create_topics(broker.bootstrap)
    console.print(f"Kafka listens on {broker.bootstrap}, log in {broker.log}. Ctrl-C stops it.")
    try:
        stop.wait()
    finally:
        broker.stop()


def run_topics(bootstrap: Brokers, partitions: int | None) -> None:
    """See `cohabit dev topics`."""
    from ingest.devkafka.broker import create_topics
    from ingest.schema.topics import TOPICS as OURS

    spread = {topic.name: partitions or topic.partitions for topic in OURS.values() if topic.partitions > 1}
    wanted = [replace(topic, partitions=spread.get(topic.name, 1)) for topic in OURS.values()]
    made = create_topics(bootstrap, wanted)
    console.print(
        f"topics on {bootstrap}: {', '.join(made) if made else 'none'} created, {len(wanted) - len(made)} existed"
    )


def run_simulate(folder: Path, plan: "Plan", truth: Path | None) -> None:
    """See `cohabit dev simulate`."""
    from cohabit.ingestion.simulation import simulate_into
    from ingest.kafka_io.stream_files import topics_in
    from ingest.simulator.laws import LAWS

    if plan.law not in LAWS:
        raise CohabitError(f"--law {plan.law}: there are {', '.join(LAWS)}")
    if there := topics_in(folder):
        raise stream_exists(folder, there)
    with bar("simulating") as shown:
        count = simulate_into(folder, plan, shown.reach, truth=truth)
    console.print(f"{count:,} messages of cluster {plan.cluster} in {folder}; next: cohabit ingest {folder}")


def run_replay(folder: Path, bootstrap: Brokers, speed: float) -> None:
    """See `cohabit dev replay`."""
    from ingest.devkafka.broker import create_topics
    from ingest.kafka_io.replay import replay
    from ingest.kafka_io.stream_files import topics_in

    there = topics_in(stream_in(folder))
    stop, topics = stop_on_signals(), [topic for topic in TOPICS if topic in there]
    console.print(f"sending {', '.join(topics)} to {bootstrap}")
    create_topics(bootstrap)
    with bar("replaying") as shown:
        sent = replay(folder, topics, bootstrap, speed=speed, progress=shown.reach, stop=stop)
    console.print(f"{sent:,} messages sent to {bootstrap}; next: cohabit ingest --bootstrap {bootstrap}")


def run_ingest(
    settings: Settings,
    folder: Path | None,
    *,
    lake: str | None,
    bootstrap: str | None,
    until_end: bool,
    wishes: Wishes = ALONE,
) -> None:
    """See `cohabit ingest`."""
    from ingest.kafka_io.stream_files import topics_in
    from ingest.pipeline.kafka_source import ConsumerSettings

    formats = formats_of(settings, wishes)
    topics = (*TOPICS, *foreign_in(formats))
    if folder is not None:
        if wishes.dead_letters or wishes.metrics_port is not None:
            raise CohabitError(f"--dead-letter-topic and --metrics-port are for Kafka, not for files in {folder}")
        there = topics_in(stream_in(folder, topics))
        named = [topic.partition("=")[0] for topic in wishes.topics]
        if absent := [f"{topic}.log" for topic in named if topic not in there]:
            raise CohabitError(f"{folder} has no {', '.join(absent)}, which --topic names")
        _ingest_files(settings, folder, lake, topics, formats=formats)
        return
    consumer = ConsumerSettings(
        bootstrap=settings.kafka.brokers(bootstrap),
        topics=topics,
        group=settings.kafka.group,
        session_timeout_ms=settings.kafka.session_timeout_ms,
        max_wait_ms=settings.kafka.max_wait_ms,
    )
    opened, stop, until = open_lake(settings, lake), stop_on_signals(), _until(until_end=until_end)
    job = Job(settings, opened, formats, consumer, until, wishes)
    console.print(f"reading {', '.join(topics)} from {consumer.bootstrap}")
    with console.status("landing; Ctrl-C stops after the batch at hand") as status:
        count = land_from_kafka(job, stop, _Landed(status))
    console.print(f"{count:,} messages landed in {opened.uri}")
    show_lake(opened)


def _until(*, until_end: bool) -> "Until":
    return "end" if until_end else "stopped"


def _ingest_files(
    settings: Settings, folder: Path, lake: str | None, topics: tuple[str, ...], *, formats: "Formats"
) -> None:
    from ingest.pipeline.metrics import IngestMetrics
    from ingest.pipeline.runner import ingest_files

    opened, stop, metrics = open_lake(settings, lake), stop_on_signals(), IngestMetrics(CollectorRegistry())
    with console.status("landing; Ctrl-C stops after the batch at hand") as status:
        landed = _Landed(status)
        count = ingest_files(folder, topics, opened, stop=stop, metrics=metrics, formats=formats, on_landed=landed)
    console.print(f"{count:,} messages landed in {opened.uri}")
    show_lake(opened)


def show_lake(lake: Lake) -> None:
    """Print what the lake holds so far, why records were rejected, and unknown fields."""
    show_table(
        "ingested so far", ("table", "rows", "duplicates"), [_counts(lake, t) for t in (*TOPICS, "dead_letters")]
    )
    letters = lake.read("dead_letters", columns=["reason", "detail"])
    reasons = letters["reason"].value_counts().to_pylist()
    if reasons:
        example = dict(zip(letters["reason"].to_pylist(), letters["detail"].to_pylist(), strict=True))
        ordered = sorted(reasons, key=lambda r: -r["counts"])
        rows = [(r["values"], f"{r['counts']:,}", str(example[r["values"]])[:MAX_DETAIL]) for r in ordered]
        show_table("rejected, in table dead_letters", ("reason", "items", "one of them"), rows)
    unknown = lake.unknown_fields()
    if unknown:
        most = unknown.most_common(MAX_UNKNOWN)
        shown = [(name, f"{times:,}") for name, times in most]
        if rest := unknown.total() - sum(times for _, times in most):
            shown.append((f"and {len(unknown) - len(most)} more", f"{rest:,}"))
        show_table(
            "unmapped fields, not ingested; `cohabit lake metrics` lists known metrics", ("field", "times"), shown
        )


def _counts(lake: Lake, table: str) -> tuple[str, str, str]:
    rows = lake.read(table, columns=[]).num_rows
    return table, f"{rows:,}", f"{max(lake.landed_rows(table) - rows, 0):,}"  # jobs add rows that never landed


class _Landed:
    """Counts what is landed, for a status line on a terminal or a line now and then in a log."""

    def __init__(self, status: Status) -> None:
        self._status, self._count, self._said_s = status, 0, monotonic()

    def __call__(self, landing: "Landing") -> None:
        """Add a batch."""
        self._count += landing.range.end - landing.range.start
        self._status.update(f"{self._count:,} messages landed; Ctrl-C stops after the batch at hand")
        if not console.is_terminal and monotonic() - self._said_s > SAY_EVERY_S:
            self._said_s = monotonic()
            console.print(f"  {self._count:,} messages landed")
