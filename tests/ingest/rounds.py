"""Crash rounds: real processes die, freeze and come back in an order drawn from a seed; nothing is lost or doubled.

python -m tests.ingest.rounds [--rounds N] [--seed FIRST], or `make crash`. A round that fails is run again by its seed:
--rounds 1 --seed THAT. Whatever else must survive (a Spark driver, a refresher) joins as a further `Actor`.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Protocol

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from prometheus_client import CollectorRegistry

from ingest.decode.formats.native import decoder
from ingest.devkafka.broker import Broker, create_topics, running_broker
from ingest.kafka_io.client import connect
from ingest.lake.check import check
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.kafka_source import ConsumerSettings
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_kafka
from ingest.schema.errors import IngestError
from ingest.schema.tables import DEAD_LETTERS, LANDED, USAGE
from ingest.schema.topics import Topic
from tests.ingest.round_process import container, to_send

HERE = Path(__file__).parent
AMBUSH_S = 3.0
"""Longest wait for a consumer to reach the batch at which something happens to it."""
END_LIMIT_S = 60.0
"""Longest wait for a process to end by itself."""


class Actor(Protocol):
    """Something that can die and come back."""

    @property
    def name(self) -> str:
        """What it is called in a round's story."""

    def start(self) -> None:
        """Begin."""

    def kill(self) -> None:
        """End as a power cut would."""

    def restart(self) -> None:
        """Begin again after a kill, on what it left behind."""


@dataclass(slots=True)
class Process:
    """A program as an actor: can be killed, frozen, thawed and drained."""

    name: str
    command: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*self.command, *more], stdout=subprocess.DEVNULL, stderr=log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self) -> None:
        self.start()

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        if self.alive() and self.process is not None:
            self.process.send_signal(number)

    def drained(self) -> int:
        """Tell it to end, thawing it should it freeze itself on the way; its exit code."""
        assert self.process is not None
        self.process.terminate()
        deadline_s = monotonic() + END_LIMIT_S
        while self.alive() and monotonic() < deadline_s:
            self.send(signal.SIGCONT)
            _let_run(0.05)
        return self.process.wait(0.1)

    def await_stop(self, limit_s: float) -> None:
        """Wait until it is frozen or has ended, or the limit is reached."""
        assert self.process is not None
        deadline_s, seen = monotonic() + limit_s, None
        while seen is None and monotonic() < deadline_s:
            _let_run(0.02)
            seen = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)


@dataclass(slots=True)
class BrokerActor:
    """The broker as an actor: same folder, same ports, same records."""

    broker: Broker
    name: str = "broker"

    def start(self) -> None:
        self.broker.start()

    def kill(self) -> None:
        self.broker.kill()

    def restart(self) -> None:
        self.broker.start()


@dataclass(slots=True)
class Stage:
    """One round: its randomness, its topic, its lake, and who plays.

    Args:
        seed: all that is random comes from it.
        folder: the round's own.
        broker: serves many rounds.
        topic: the round's own.
        records: how many are sent.
        consumers: processes that land.
        others: whatever else may be killed and must not matter.
    """

    seed: int
    folder: Path
    broker: Broker
    topic: Topic
    records: int
    producer: Process
    consumers: list[Process]
    others: list[Actor] = field(default_factory=list)

    @property
    def lake(self) -> Lake:
        """The round's lake, as nobody has read it yet."""
        return Lake.open(self.folder / "lake", {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS})


Victims = Callable[[Stage], Sequence[Actor]]
"""Makes further actors for a round; they are started with it and killed at its end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one round."""

    seed: int
    story: tuple[str, ...]
    sent: int
    landed: int
    lost: int
    doubled: int
    faults: tuple[str, ...]
    took_s: float

    @property
    def good(self) -> bool:
        """Whether all laws held."""
        return not (self.lost or self.doubled or self.faults)

    def __str__(self) -> str:
        """One line."""
        figures = f"sent {self.sent}, landed {self.landed}, lost {self.lost}, doubled {self.doubled}"
        faults = "".join(f"; {fault}" for fault in self.faults)
        return f"seed {self.seed}: {'; '.join(self.story)}: {figures}{faults}; {self.took_s:.1f} s"


def compactor(stage: Stage) -> Sequence[Actor]:
    """A process that compacts and sweeps while others land."""
    command = [sys.executable, str(HERE / "round_process.py"), "upkeep", str(stage.folder / "lake")]
    return [Process("compactor", command, stage.folder / "compactor.log")]


def play(seed: int, broker: Broker, folder: Path, victims: Victims = compactor) -> Outcome:
    """Play one round."""
    rng, began_s = random.Random(seed), monotonic()
    stage = _set_up(seed, rng, broker, folder)
    stage.others.extend(victims(stage))
    everybody: list[Actor] = [stage.producer, *stage.consumers, *stage.others]
    for actor in everybody:
        actor.start()
    story: list[str] = []
    try:
        story += (_strike(rng, stage) for _ in range(rng.randint(3, 6)))
        faults = _finish(stage)
        for other in stage.others:
            other.kill()
        return _judged(stage, story, faults, monotonic() - began_s)
    except IngestError as error:
        return Outcome(seed, tuple(story), stage.records, 0, 0, 0, (str(error),), monotonic() - began_s)
    finally:
        for actor in everybody:
            actor.kill()


def _set_up(seed: int, rng: random.Random, broker: Broker, folder: Path) -> Stage:
    folder.mkdir(parents=True)
    topic = Topic(f"round-{seed}-{folder.name}", ("cluster", "node"), rng.randint(2, 4))
    create_topics(broker.bootstrap, [topic])
    records = rng.randint(300, 600)
    send = [str(HERE / "round_process.py"), "produce", broker.bootstrap, topic.name, str(records), str(seed)]
    producer = Process("producer", [sys.executable, *send], folder / "producer.log")
    land = [sys.executable, str(HERE / "ingest_process.py"), broker.bootstrap, topic.name, str(folder / "lake")]
    consumers = [Process(f"consumer {i}", land, folder / f"consumer-{i}.log") for i in range(rng.randint(2, 3))]
    return Stage(seed, folder, broker, topic, records, producer, consumers)


def _strike(rng: random.Random, stage: Stage) -> str:
    """Wait a little, then let one thing happen; what it was."""
    _let_run(rng.uniform(0.1, 0.8))
    _revive(stage)
    what = rng.choices(("kill", "freeze", "ambush", "broker", "producer", "other"), (4, 3, 4, 1, 2, 2))[0]
    if what == "freeze":
        return _freeze(rng, stage)
    if what == "ambush":
        return _ambush(rng, stage)
    actor: Actor
    if what == "kill":
        actor = rng.choice(stage.consumers)
    elif what == "broker":
        actor = BrokerActor(stage.broker)
    else:
        actor = rng.choice(stage.others) if what == "other" and stage.others else stage.producer
    actor.kill()
    _let_run(rng.uniform(0, 0.5))
    actor.restart()
    return f"kill {actor.name}"


def _freeze(rng: random.Random, stage: Stage) -> str:
    """Stop a consumer for longer than its session lasts, more often than not, so that others take over."""
    zombie, freeze_s = rng.choice(stage.consumers), rng.uniform(0.5, 2.5)
    zombie.send(signal.SIGSTOP)
    _let_run(freeze_s)
    zombie.send(signal.SIGCONT)
    return f"freeze {zombie.name} {freeze_s:.1f} s"


def _ambush(rng: random.Random, stage: Stage) -> str:
    """Have a consumer die or freeze with a batch in its hands: files written, the link not made yet or just made."""
    victim, batch = rng.choice(stage.consumers), rng.randint(1, 8)
    number, point = rng.choice(("SIGKILL", "SIGSTOP", "SIGSTOP")), rng.choice(("written", "written", "landed"))
    freeze_s = rng.uniform(1.2, 2.5)
    victim.kill()
    victim.start(number, point, str(batch))
    victim.await_stop(AMBUSH_S)
    if number == "SIGSTOP":
        _let_run(freeze_s)
        victim.send(signal.SIGCONT)
    return f"{number} {point}, {victim.name}"


def _revive(stage: Stage) -> None:
    """Start again whoever ended by itself, as where no broker answered at its start."""
    for consumer in stage.consumers:
        if not consumer.alive():
            consumer.restart()
    if not stage.producer.alive() and _code(stage.producer) != 0:
        stage.producer.restart()


def _code(process: Process) -> int | None:
    return process.process.returncode if process.process else None


def _finish(stage: Stage) -> tuple[str, ...]:
    """Let the producer end, drain the consumers, land what is left; what went wrong."""
    deadline_s = monotonic() + END_LIMIT_S
    while _code(stage.producer) != 0 and monotonic() < deadline_s:
        _revive(stage)
        _let_run(0.1)
        stage.producer.alive()
    codes = {consumer.name: consumer.drained() for consumer in stage.consumers}
    faults = [f"{name} ended with {code}" for name, code in codes.items() if code not in (0, -signal.SIGTERM)]
    if _code(stage.producer) != 0:
        faults.append("the producer did not end")
    settings = ConsumerSettings(stage.broker.bootstrap, (stage.topic.name,), group=stage.topic.name, max_wait_ms=50)
    metrics, formats = IngestMetrics.on(CollectorRegistry()), Formats({stage.topic.name: decoder(USAGE)})
    ingest_kafka(settings, stage.lake, until="end", stop=Event(), metrics=metrics, formats=formats)
    return tuple(faults)


def _judged(stage: Stage, story: Sequence[str], faults: Sequence[str], took_s: float) -> Outcome:
    """Hold the lake against what was sent and against the broker."""
    lake, sent = stage.lake, {container(number) for number in range(stage.records)}
    landed = Counter(lake.read("usage")["container"].to_pylist())
    rows = lake.rows("usage", EPOCH, FOREVER)
    places = Counter(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    doubled = sum(n - 1 for n in landed.values()) + sum(n - 1 for n in places.values())
    broken = [*faults, *_broken_laws(stage, lake, len(places))]
    if strangers := set(landed) - sent:
        broken.append(f"{len(strangers)} rows that nobody sent")
    return Outcome(
        stage.seed, tuple(story), stage.records, len(landed), len(sent - set(landed)), doubled, tuple(broken), took_s
    )


def _broken_laws(stage: Stage, lake: Lake, places: int) -> list[str]:
    """Chains that do not reach the broker's end, have holes, or files that `check` finds damaged."""
    broken, partitions = [], range(stage.topic.partitions)
    with closing(connect(KafkaConsumer, stage.broker.bootstrap)) as consumer:
        ends = consumer.end_offsets([TopicPartition(stage.topic.name, p) for p in partitions])
    for place, end in ends.items():
        links = [link for link, _ in lake.chain(place.topic, place.partition)]
        whole = not links or (links[0].start == 0 and all(a.end == b.start for a, b in pairwise(links)))
        if not whole or (lake.position(place.topic, place.partition) or 0) != end:
            broken.append(f"chain of partition {place.partition} does not lead from 0 to {end}")
    if places != sum(ends.values()):
        broken.append(f"{places} places are landed, the broker has {sum(ends.values())}")
    if places < len(to_send(stage.records, stage.seed)):
        broken.append("fewer messages are on the broker than were sent")
    report = check(lake, lambda _done, _total: None, "rows")
    broken += [f"{damage.path}: {damage.what}" for damage in report.damage]
    return broken + ([f"{report.gaps} gaps"] if report.gaps else [])


def _let_run(seconds: float) -> None:
    Event().wait(seconds)


def play_rounds(
    rounds: int,
    first_seed: int,
    broker: Broker,
    folder: Path,
    *,
    say: Callable[[str], object],
    victims: Victims = compactor,
) -> list[Outcome]:
    """Play rounds with seeds in a row, each told when it is over; topics are dropped, so that one broker serves all."""
    outcomes = []
    for seed in range(first_seed, first_seed + rounds):
        outcome = play(seed, broker, folder / f"{seed}", victims)
        say(f"round {seed - first_seed + 1} of {rounds}, {outcome}")
        outcomes.append(outcome)
        with closing(connect(KafkaAdminClient, broker.bootstrap)) as admin:
            admin.delete_topics([f"round-{seed}-{seed}"])
    return outcomes


def summary(outcomes: Sequence[Outcome]) -> str:
    """All rounds in a line."""
    struck = Counter(" ".join(event.split()[:2]).rstrip(",0123456789 ") for o in outcomes for event in o.story)
    events = ", ".join(f"{count} x {what}" for what, count in sorted(struck.items()))
    bad = [str(outcome.seed) for outcome in outcomes if not outcome.good]
    figures = f"lost {sum(o.lost for o in outcomes)}, doubled {sum(o.doubled for o in outcomes)}"
    verdict = f"broken in rounds with seeds {', '.join(bad)}" if bad else "all laws held"
    sent, took_s = sum(o.sent for o in outcomes), sum(o.took_s for o in outcomes)
    return f"{len(outcomes)} rounds, {sent} records, {figures}, {verdict}; {events}; {took_s:.0f} s"


def main() -> int:
    """Play rounds; 1 when a law was broken."""
    options = argparse.ArgumentParser(description="Crash rounds against a real broker.")
    options.add_argument("--rounds", type=int, default=100)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder, "kafka")) as broker:

        def say(line: str) -> None:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

        outcomes = play_rounds(asked.rounds, asked.seed, broker, Path(folder), say=say)
        say(summary(outcomes))
    return int(not all(outcome.good for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
