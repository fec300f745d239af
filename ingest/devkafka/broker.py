"""A Kafka broker of our own: one node, one folder, loopback only. For the demo and the tests; an edge.

Real deployments name their brokers in a setting and need nothing from here but `create_topics`.
"""

import os
import socket
import subprocess
import sys
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from time import monotonic

from kafka import KafkaAdminClient
from kafka.errors import TopicAlreadyExistsError

from ingest.devkafka import child_process as supervise
from ingest.devkafka.jars import jar_paths
from ingest.devkafka.java import java
from ingest.kafka_io.client import connect
from ingest.kafka_io.connection import Brokers
from ingest.schema.errors import IngestError
from ingest.schema.topics import TOPICS, Topic

HOST = "127.0.0.1"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 15.0
FIRST_PORT, LAST_PORT = 20_000, 32_000
"""Below the ports that kernels give to outgoing connections, so that no client can sit on ours while it restarts."""

JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")
FOREVER_MS = 2**63 - 1

PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={host}:{controller}
listeners=PLAINTEXT://{host}:{client},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{client},CONTROLLER://{host}:{controller}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
group.min.session.timeout.ms=500
log.message.timestamp.before.max.ms={forever}
log.message.timestamp.after.max.ms={forever}
log.retention.ms=-1
log.cleaner.dedupe.buffer.size=33554432
num.io.threads=2
num.network.threads=2
"""

LOGGING = """rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %p %m (%c)%n
"""


@dataclass(slots=True)
class Broker:
    """One broker and its folder; starts, stops and starts again on the same ports with the same records."""

    folder: Path
    client_port: int
    controller_port: int
    more: Mapping[str, str] = field(default_factory=dict)
    """Properties in the place of ours."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Address that clients begin with."""
        return f"{HOST}:{self.client_port}"

    @property
    def log(self) -> Path:
        """What the broker said."""
        return self.folder / "broker.log"

    def start(self, limit_s: float = START_LIMIT_S) -> None:
        """Start and return once the broker answers requests.

        Raises:
            IngestError: it ended, or did not answer within the limit.
        """
        deadline = monotonic() + limit_s
        _write_settings(self)
        if not (self.folder / "data" / "meta.properties").exists():
            _run_to_end(self, deadline)
        self.process = _launch(self, "kafka.Kafka", str(self.folder / "server.properties"))
        with ExitStack() as failed:
            failed.callback(self.stop)
            _await_answer(self, self.process, deadline)
            failed.pop_all()

    def stop(self) -> None:
        """Stop cleanly; after a limit, by force."""
        if self.process is None:
            return
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_LIMIT_S * 2)
        self.kill()  # does nothing to one that has ended

    def kill(self) -> None:
        """End it as a power cut would."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, SIGKILL)
            self.process.wait()
        self.process = None


@contextmanager
def running_broker(folder: Path, more: Callable[[Broker], Mapping[str, str]] = lambda _broker: {}) -> Iterator[Broker]:
    """A broker in `folder` on free ports, stopped on the way out; `more` are properties in the place of ours.

    Raises:
        IngestError: the jars were never fetched; no Java can be found; it did not start.
    """
    client, controller = free_ports(2)
    broker = Broker(folder, client, controller)
    broker.more = more(broker)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def create_topics(bootstrap: Brokers | str, topics: Iterable[Topic] = TOPICS.values()) -> list[str]:
    """Create the topics that do not exist yet, and return their names once all of them take records."""
    with closing(connect(KafkaAdminClient, bootstrap)) as admin:
        known = set(admin.list_topics())
        policy = {True: {"cleanup.policy": "compact"}, False: {"cleanup.policy": "delete"}}
        new = [topic for topic in topics if topic.name not in known]
        missing = {t.name: {"num_partitions": t.partitions, "configs": policy[t.compacted]} for t in new}
        if missing:
            with suppress(TopicAlreadyExistsError):  # another process created them first
                admin.create_topics(missing)
            admin.wait_for_topics(list(missing))
        return list(missing)


def free_ports(count: int) -> list[int]:
    """Free loopback ports; they start at different places in different processes."""
    start = FIRST_PORT + os.getpid() * 7 % (LAST_PORT - FIRST_PORT)
    ports = (*range(start, LAST_PORT), *range(FIRST_PORT, start))
    free = (port for port in ports if _is_free(port))
    return [next(free) for _ in range(count)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _write_settings(broker: Broker) -> None:
    broker.folder.mkdir(parents=True, exist_ok=True)
    values = {"host": HOST, "client": broker.client_port, "controller": broker.controller_port, "forever": FOREVER_MS}
    properties = PROPERTIES.format(**values, data=broker.folder / "data")
    more = "".join(f"{name}={value}\n" for name, value in broker.more.items())  # the last of two alike counts
    (broker.folder / "server.properties").write_text(properties + more)
    (broker.folder / "log4j2.properties").write_text(LOGGING)


def _run_to_end(broker: Broker, deadline: float) -> None:
    """Give the folder its cluster id, as a new broker's folder needs once."""
    cluster = "C" + urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
    settings = str(broker.folder / "server.properties")
    process = _launch(broker, "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", settings)
    if process.wait(max(deadline - monotonic(), 0)):
        raise _failed(broker, "its folder could not be formatted")


def _launch(broker: Broker, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a Java program that ends when this process does, in a session that Ctrl-C does not reach."""
    logging = f"-Dlog4j2.configurationFile=file:{broker.folder / 'log4j2.properties'}"
    class_path = os.pathsep.join(map(str, jar_paths("broker")))
    program = [str(java()), *JVM, logging, "-cp", class_path, main_class, *arguments]
    guard = [sys.executable, "-I", "-S", str(supervise.__file__), str(os.getpid()), str(STOP_LIMIT_S)]
    with broker.log.open("ab") as log:
        return subprocess.Popen(
            [*guard, *program], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _await_answer(broker: Broker, process: subprocess.Popen[bytes], deadline: float) -> None:
    while not _listens(broker.client_port):
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(0.05)
            raise _failed(broker, f"it ended with code {code}")
        if monotonic() > deadline:
            raise _failed(broker, "it did not listen in time")
    left_ms = max(deadline - monotonic(), 1) * 1000
    probe = connect(KafkaAdminClient, broker.bootstrap, bootstrap_timeout_ms=left_ms, request_timeout_ms=1000)
    with closing(probe) as admin:
        answered = admin.describe_cluster()["cluster_id"]
    if f"cluster.id={answered}" not in (broker.folder / "data" / "meta.properties").read_text().split():
        raise _failed(broker, f"another broker answers on port {broker.client_port}")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _failed(broker: Broker, reason: str) -> IngestError:
    tail = "\n".join(broker.log.read_text(errors="replace").splitlines()[-15:])
    return IngestError(
        f"the embedded Kafka broker did not start: {reason}. Its log is {broker.log}; free 1 GB of memory and 200 MB "
        f"of disk, or name a broker of your own in COHABIT_KAFKA__BOOTSTRAP. It last said:\n{tail}"
    )
