"""Recording: some minutes of a node with real emitters, phase by phase, as the messages that Kafka got. An edge."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import sleep, time

from kafka import KafkaConsumer, TopicPartition

from cohabit.cli.dev.trial import OTLP
from e2e.kube.binaries import binaries
from e2e.kube.control_plane import control_plane
from e2e.kube.processes import free_ports
from e2e.stock.cgroups import Group, group
from e2e.stock.emitters import BUSY, STREAM, asking, burden, debian_programs, node_exporter, redis
from e2e.stock.kubelet import Container, kubelet
from e2e.stock.programs import program, server_environment
from e2e.stock.site import (
    APP,
    CORE,
    NAMESPACE,
    Answer,
    ask,
    asked,
    collected,
    node,
    pod,
    servers,
    watched,
)
from ingest.devkafka.broker import create_topics, running_broker
from ingest.kafka_io.stream_files import Message
from ingest.schema.topics import TOPICS

PODS = {f"{APP}-0": "", f"{APP}-1": "http", f"{APP}-2": "http/dup"}
LIMITED = f"{APP}-1"
"""Which is given a CPU limit of its own."""
NOISY, STREAMING, CACHE, EXPORTER = "noisy", "streaming", "cache", "node-exporter"
LIMIT = 0.17
"""Cores: more than a server uses in the mean, less than an answer needs."""
IDLE = 20
"""Weight of a group that takes what others leave."""
REDIS_PER_S = 40.0
SETTLE_S = 5


def alone(name: str) -> str:
    """The phase in which a server is asked and no other."""
    return f"{name} alone"


@dataclass(frozen=True)
class Phase:
    """A part of the recording, how many windows it lasts, and which servers are asked."""

    name: str
    windows: int
    asked: tuple[str, ...] = tuple(PODS)


PHASES = (
    *(Phase(alone(name), 6, (name,)) for name in PODS),
    *(Phase("together", 3), Phase("cpu", 6), Phase("recovery", 3), Phase("stream", 6)),
    *(Phase("recovery", 2), Phase("limit", 6), Phase("end", 2)),
)


@dataclass(frozen=True)
class Recorded:
    """What was recorded.

    Args:
        messages: with their topics, in no order.
        spans: begin and end of each phase, milliseconds since 1970, by name; of several of one name the last.
        answers: what the load generator measured, by uid of the server's pod.
        uids: of all pods, by name.
        redis_per_s: requests that Redis answered a second.
    """

    messages: list[tuple[str, Message]]
    spans: dict[str, tuple[float, float]]
    answers: dict[str, list[Answer]]
    uids: dict[str, str]
    redis_per_s: float


def record(folder: Path, *, window_s: float, per_s: float, say: Callable[[str], None]) -> Recorded:
    """Run all phases."""
    environment, debian = server_environment(), debian_programs()
    load, collector, exporter = (program(name, say) for name in ("load", "collector", "node_exporter"))
    (otlp, page) = free_ports(2)
    with ExitStack() as stack:
        stack.enter_context(on_core(1 - CORE))
        plane = stack.enter_context(control_plane(folder / "kubernetes", binaries(say), []))
        node(plane.api, page)
        kafka = stack.enter_context(running_broker(folder / "broker")).bootstrap
        create_topics(kafka, [*TOPICS.values(), OTLP])
        stack.enter_context(watched(plane.kubeconfig, kafka, folder))
        served = stack.enter_context(servers(plane.api, environment, otlp, folder, PODS))
        groups = {
            name: stack.enter_context(group(f"cohabit-e2e-{os.getpid()}-{name}"))
            for name in (CACHE, EXPORTER, NOISY, STREAMING)
        }
        groups |= {one.pod: one.group for one in served}
        uids, containers = {one.pod: one.uid for one in served}, list[Container]()

        def add(name: str, scraped: int | None = None) -> None:
            uids[name] = pod(plane.api, f"{name}-0", name, scraped)
            containers.append(Container(NAMESPACE, f"{name}-0", uids[name], groups[name]))

        containers += [Container(NAMESPACE, one.pod, one.uid, one.group) for one in served]
        port, scraped = stack.enter_context(redis(debian, groups[CACHE], folder))
        add(CACHE, scraped)
        add(EXPORTER, stack.enter_context(node_exporter(exporter, groups[EXPORTER], folder)))
        stack.enter_context(kubelet(containers, page))
        stack.enter_context(collected(collector, plane.kubeconfig, kafka, otlp, folder))

        say(f"asking {len(served)} servers and Redis for {window_s * sum(one.windows for one in PHASES):.0f} s")
        began_s, spans = time(), dict[str, tuple[float, float]]()
        with asking(port, REDIS_PER_S) as count:
            for phase in PHASES:
                start_s = time()
                chosen = [one for one in served if one.pod in phase.asked]
                with ExitStack() as during:
                    _begin(during, phase.name, add, groups, folder)
                    ask(stack, load, chosen, folder, per_s=per_s, seconds=round(phase.windows * window_s))
                    sleep(max(0.0, start_s + phase.windows * window_s - time()))
                spans[phase.name] = 1000 * start_s, 1000 * time()
                say(f"{phase.name}: {phase.windows} windows")
            redis_per_s = count[0] / (time() - began_s)
        sleep(SETTLE_S)
        answers = {one.uid: asked(load, one, folder) for one in served}
        return Recorded(list(_messages(kafka)), spans, answers, uids, redis_per_s)


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """This thread, and what it starts, has one core alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _begin(
    during: ExitStack, phase: str, add: Callable[[str], None], groups: Mapping[str, Group], folder: Path
) -> None:
    """What a phase brings, until it ends."""
    if phase == "cpu":
        add(NOISY)
        during.enter_context(burden(groups[NOISY], sys.executable, CORE, BUSY, folder / "noisy.log"))
    if phase == "stream":
        add(STREAMING)
        groups[STREAMING].weigh(IDLE)
        during.enter_context(burden(groups[STREAMING], sys.executable, 1 - CORE, STREAM, folder / "streaming.log"))
    if phase == "limit":
        groups[LIMITED].limit(LIMIT)
        during.callback(groups[LIMITED].limit, None)


def _messages(kafka: str) -> Iterator[tuple[str, Message]]:
    """All that Kafka holds."""
    with closing(KafkaConsumer(bootstrap_servers=kafka, auto_offset_reset="earliest")) as consumer:
        topics = (OTLP.name, *TOPICS)
        places = [TopicPartition(name, p) for name in topics for p in consumer.partitions_for_topic(name) or ()]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            for place, records in consumer.poll(timeout_ms=1000).items():
                yield from ((place.topic, Message(one.timestamp, one.key, one.value)) for one in records)
