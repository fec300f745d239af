"""Stream: broker, Spark's Kafka source, all features, refresher; how much they carry, and how old a score's data is.

Two measurements. Throughput: minutes of a cluster wait on the broker, and are worked off; then a bare Spark stream
decodes and counts the same messages. Age: a cluster reports live; every sample counts from its own time until the first
snapshot that holds it.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.synchronize import Event as EventType
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import monotonic, sleep, time
from typing import Any

import numpy as np
import orjson
from kafka import KafkaProducer
from prometheus_client import CollectorRegistry

from advisor.cluster.snapshot import load_current
from benchmarks.runner import OURS, Benchmark, Result
from cohabit.refresh.live_state import BEGIN_US, LiveState
from cohabit.refresh.main import Refresh, refresh_from_kafka
from features.schema.tables import TABLES
from ingest.devkafka.broker import create_topics, running_broker
from ingest.kafka_io.offsets import last_minutes
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.kafka_source import ConsumerSettings
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_kafka
from ingest.schema.topics import NODE_STATE, NODES, PLACEMENTS, USAGE

CLUSTER = "bench"
INTERVAL_S = 30
CONTAINERS = 75
"""On each node: 2,000 nodes then report 5,000 records a second."""
REFRESH_EVERY_S = 5.0
MEASURED = {
    "memory_bytes": 1e9,
    "memory_bandwidth_bytes_s": 1e8,
    "llc_occupancy_bytes": 1e6,
    "cpi": 1.2,
    "net_rx_bytes_s": 1e5,
    "net_tx_bytes_s": 1e5,
    "disk_read_bytes_s": 1e5,
    "disk_write_bytes_s": 1e5,
    "disk_ios_s": 100.0,
    "run_delay_frac": 0.1,
    "qps": 50.0,
    "rt_mean_ms": 4.0,
}
KNOWN = {"cores": 64.0, "memory_bytes": 2e12, "memory_bandwidth_bytes_s": 1e12, "llc_bytes": 1e9}
CPU_STEP = 1e-4
"""Each report of a node uses so many cores more than the one before: tells which reports a snapshot holds."""


@dataclass(frozen=True, slots=True)
class Report:
    """One node's report of one interval: a message, and its number."""

    node: int
    number: int
    at_s: float

    def message(self) -> bytes:
        """A list of records, one a container, as a node's agent sends it."""
        shared = {"cluster": CLUSTER, "node": f"n{self.node:05d}", "ts": round(self.at_s, 3), "interval_s": INTERVAL_S}
        shared |= {"qos": "LS", "team": "t", "cpu_cores": 0.1 + CPU_STEP * self.number}
        rows = [
            shared | MEASURED | {"container": f"n{self.node:05d}-c{c:03d}", "app": f"app-{c % 40}"}
            for c in range(CONTAINERS)
        ]
        return orjson.dumps(rows)


def send(bootstrap: str, reports: Iterator[Report], *, live: bool) -> None:
    """Send reports, each keyed by its node; live ones when their time has come."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, compression_type="lz4")
    for report in reports:
        if live:
            sleep(max(0.0, report.at_s - time()))
        key = f"{CLUSTER}/n{report.node:05d}".encode()
        producer.send(USAGE.name, report.message(), key=key, timestamp_ms=round(report.at_s * 1000))
    producer.flush()
    producer.close()


def reports(nodes: int, start_s: float, seconds: int) -> Iterator[Report]:
    """Reports of all nodes in the order of time, spread evenly over each interval."""
    for number in range(seconds // INTERVAL_S):
        for node in range(nodes):
            yield Report(node, number, start_s + INTERVAL_S * (number + node / nodes))


def describe(bootstrap: str, folder: Path, nodes: int, at_s: float) -> None:
    """Tell what the nodes have, and land it for the streaming job."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for node in range(nodes):
        record = {"cluster": CLUSTER, "node": f"n{node:05d}", "ts": at_s, "platform": "p", **KNOWN}
        producer.send(NODES.name, orjson.dumps(record), key=b"n", timestamp_ms=round(at_s * 1000))
    producer.flush()
    producer.close()
    lake, metrics = Lake.open(folder / "lake", TABLES), IngestMetrics(CollectorRegistry())
    ingest_kafka(ConsumerSettings(bootstrap, (NODES.name,)), lake, until="end", stop=Event(), metrics=metrics)


def publish(bootstrap: str, folder: Path, until_end: bool, stop: EventType, done: EventType) -> None:  # noqa: FBT001
    """The streaming job, in a process of its own."""
    from features.jobs.spark.session import spark_session
    from features.jobs.spark.stream_job import Broker, Follow, from_kafka
    from features.jobs.spark.stream_job import publish as start

    lake = Lake.open(folder / "lake", TABLES)
    how = Follow(folder / "checkpoint", every=None if until_end else "2 seconds")
    with spark_session(settings={"spark.driver.memory": "4g"}) as spark:
        query = start(from_kafka(spark, lake, Broker(bootstrap, Formats(cluster=CLUSTER))), lake, how, bootstrap)
        done.set()
        while query.isActive and not stop.wait(0.2):
            pass
        failure = query.exception()
        query.stop()
    if failure is not None:
        raise failure


def bare_seconds(bootstrap: str, folder: Path, rows: int) -> float:
    """How long Spark takes to read, decode and count the same messages, in a process of its own, session excluded."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_count, (bootstrap, folder, rows))


def _count(bootstrap: str, folder: Path, rows: int) -> float:
    from features.jobs.spark.session import spark_session
    from features.jobs.spark.stream_job import MAX_MESSAGES

    texts = ", ".join(f"{name} string" for name in ("cluster", "node", "container", "app", "team", "qos"))
    numbers = ", ".join(f"{name} double" for name in ("ts", "interval_s", "cpu_cores", *MEASURED))
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": USAGE.name, "startingOffsets": "earliest"}
    counted = 0

    def count(batch: Any, _number: int) -> None:
        nonlocal counted
        counted += batch.selectExpr("count(cpu_cores) AS rows").collect()[0]["rows"]

    with spark_session(settings={"spark.driver.memory": "4g"}) as spark:
        began = monotonic()
        messages = spark.readStream.format("kafka").options(**source, maxOffsetsPerTrigger=MAX_MESSAGES).load()
        record = f"explode(from_json(cast(value AS string), 'array<struct<{texts}, {numbers}>>')) AS record"
        decoded = messages.selectExpr(record).select("record.*")
        how = {"checkpointLocation": str(folder / "bare")}
        decoded.writeStream.foreachBatch(count).options(**how).trigger(availableNow=True).start().awaitTermination()
        seconds = monotonic() - began
    if counted != rows:
        raise AssertionError(f"{counted} of {rows} rows")
    return seconds


@contextmanager
def telling(bootstrap: str, folder: Path) -> Iterator[None]:
    """The streaming job runs meanwhile."""
    context = get_context("spawn")
    stop, started = context.Event(), context.Event()
    process = context.Process(target=publish, args=(bootstrap, folder, False, stop, started))
    process.start()
    started.wait(120)
    try:
        yield
    finally:
        stop.set()
        process.join(60)


@dataclass(frozen=True, slots=True)
class Seen:
    """One snapshot: when it was published, and the newest report it holds of each node (-1: none)."""

    at_s: float
    newest: np.ndarray


@contextmanager
def refreshing(bootstrap: str, folder: Path, nodes: int, seen: list[Seen]) -> Iterator[None]:
    """The refresher runs meanwhile, and notes what each snapshot holds."""
    state = LiveState(CLUSTER, lambda: int(time() * 1e6))
    begin = last_minutes(bootstrap, [USAGE.name], BEGIN_US // 1000)
    state.begin = lambda topic, partition: begin.get((topic, partition))
    topics = (NODES.name, PLACEMENTS.name, NODE_STATE.name)
    consumer = ConsumerSettings(bootstrap, topics, "bench-refresh", max_wait_ms=200, min_bytes=1)
    how, stop = Refresh(folder / "snapshots", REFRESH_EVERY_S, version=1), Event()

    def published(_version: int, _nodes: int, _residents: int) -> None:
        seen.append(Seen(time(), newest_reports(folder / "snapshots", nodes)))

    def run() -> None:
        refresh_from_kafka(consumer, state, Lake.open(folder / "lake", TABLES), how, published=published, stop=stop)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def newest_reports(folder: Path, nodes: int) -> np.ndarray:
    """(nodes,) number of the newest report that each node's residents show in the current snapshot."""
    snapshot = load_current(folder)
    newest = np.full(nodes, -1.0)
    held = np.flatnonzero(np.diff(snapshot.first) > 0)
    cpu = snapshot.resident_use[snapshot.first[held], 0]
    where = np.array([int(snapshot.nodes[i][1:]) for i in held], np.int64)
    newest[where] = np.floor((cpu - 0.1) / CPU_STEP + 0.51)
    return newest


def ages(seen: list[Seen], sent: list[Report]) -> np.ndarray:
    """Seconds from each report's time until the first snapshot that holds it or a later one; infinite without one."""
    found = np.full(len(sent), np.inf)
    for i, report in enumerate(sent):
        held = next((s.at_s for s in seen if s.newest[report.node] >= report.number), np.inf)
        found[i] = held - report.at_s
    return found


def run(arguments: Namespace, _rng: np.random.Generator) -> Result:
    """Rows per second, and ages."""
    figures: dict[str, float] = {}
    with TemporaryDirectory() as scratch:
        figures |= throughput(Path(scratch) / "throughput", arguments.nodes, arguments.minutes)
        figures |= liveness(Path(scratch) / "age", arguments.nodes, arguments.seconds)
    return {OURS: figures}


def throughput(folder: Path, nodes: int, minutes: int) -> dict[str, float]:
    """How fast minutes that wait on the broker are worked off, refresher included."""
    with running_broker(folder / "broker") as broker:
        create_topics(broker.bootstrap)
        start_s = time() - 60 * minutes
        describe(broker.bootstrap, folder, nodes, start_s - 60)
        waiting = list(reports(nodes, start_s, 60 * minutes))
        send(broker.bootstrap, iter(waiting), live=False)
        seen: list[Seen] = []
        last = 60 * minutes // INTERVAL_S - 1
        with telling(broker.bootstrap, folder), refreshing(broker.bootstrap, folder, nodes, seen):
            began = monotonic()
            while not (seen and (seen[-1].newest >= last - 1).all()) and monotonic() - began < 600:
                sleep(0.1)
            seconds = monotonic() - began
        rows = len(waiting) * CONTAINERS
        bare = bare_seconds(broker.bootstrap, folder, rows)
    return {"rows": float(rows), "rows_per_s": rows / seconds, "vs_bare": bare / seconds}


def liveness(folder: Path, nodes: int, seconds: int) -> dict[str, float]:
    """How old a sample is when scores first use it, while the cluster reports live."""
    with running_broker(folder / "broker") as broker:
        create_topics(broker.bootstrap)
        describe(broker.bootstrap, folder, nodes, time() - 60)
        seen: list[Seen] = []
        with telling(broker.bootstrap, folder), refreshing(broker.bootstrap, folder, nodes, seen):
            sent = list(reports(nodes, time() + 5, seconds))
            send(broker.bootstrap, iter(sent), live=True)
            sleep(40)
    warm = sent[len(sent) // 3 :]
    found = ages(seen, warm)
    rate = nodes * CONTAINERS / INTERVAL_S
    return {"records_per_s": rate, "age_p50_s": float(np.median(found)), "age_p95_s": float(np.quantile(found, 0.95))}


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=2000, help="nodes of 75 containers each (2000)")
    parser.add_argument("--minutes", type=int, default=5, help="minutes that wait on the broker (5)")
    parser.add_argument("--seconds", type=int, default=180, help="seconds of live reports (180)")


BENCHMARK = Benchmark(
    "stream",
    "broker, Spark's Kafka source, all features, refresher: rows a second, and the age of what scores use",
    run,
    runs=1,
    add_arguments=_arguments,
)
