"""Crash rounds: real processes die, freeze and come back in an order drawn from a seed; nothing is lost or doubled.

python -m tests.ingest.rounds [--rounds N] [--seed FIRST], or `make crash`. A round that fails is run again by its seed:
--rounds 1 --seed THAT. Whatever else must survive (a Spark driver, a refresher) joins as a further `Actor`. Consumers
are of two groups, which fight for every partition. `--control` has them commit by a table's path, and must break a law.
"""

import argparse
import random
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from prometheus_client import CollectorRegistry

from ingest.decode.formats.native import decoder
from ingest.devkafka.broker import Broker, create_topics, running_broker
from ingest.kafka_io.client import connect
from ingest.lake.check import check
from ingest.lake.landing import Positions
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import REWRITE, Lake
from ingest.pipeline.consumer_loop import Formats
from ingest.pipeline.kafka_source import ConsumerSettings
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_kafka
from ingest.schema.errors import IngestError
from ingest.schema.tables import DEAD_LETTERS, LANDED, USAGE
from ingest.schema.topics import Topic
from tests.ingest.round_actors import END_LIMIT_S, Actor, BrokerActor, Process, leave_on_signals, let_run
from tests.ingest.round_process import container, to_send

PYTHON = (sys.executable, "-m")
AMBUSH_S = 5.0
"""Longest wait for a consumer to reach the batch at which something happens to it."""
LEAST = 5
"""Kills of a round of `make crash`, and freezes, at least; most freezes are between the files and the commit."""
RECORDS_MORE = 200
"""Records for each of these, so that there is something to land until the last."""
LOST_RACE = "landed by another consumer"
"""What a consumer logs of each range that it had written files for, or read, in vain."""
EXPLAINED = re.compile(r"no Kafka broker answers")
"""What a process may end of by itself, where the broker was killed."""


@dataclass(slots=True)
class Stage:
    """One round: its randomness, its topic, its lake, and who plays.

    Args:
        seed: all that is random comes from it.
        folder: the round's own.
        uri: address of its lake.
        broker: serves many rounds.
        topic: the round's own.
        records: how many are sent.
        consumers: processes that land.
        others: whatever else may be killed and must not matter.
        ended: why processes ended by themselves.
    """

    seed: int
    folder: Path
    uri: str
    broker: Broker
    topic: Topic
    records: int
    producer: Process
    consumers: list[Process]
    others: list[Process] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    @property
    def lake(self) -> Lake:
        """The round's lake, as nobody has read it yet."""
        return Lake.open(self.uri, {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS})


Victims = Callable[[Stage], Sequence[Process]]
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
    commits: int = 0
    compactions: int = 0
    lost_races: int = 0

    @property
    def good(self) -> bool:
        """Whether all laws held."""
        return not (self.lost or self.doubled or self.faults)

    def __str__(self) -> str:
        """One line."""
        figures = (
            f"sent {self.sent}, landed {self.landed}, lost {self.lost}, doubled {self.doubled}, "
            f"commits {self.commits}, of which compactions {self.compactions}, lost races {self.lost_races}"
        )
        faults = "".join(f"; {fault}" for fault in self.faults)
        return f"seed {self.seed}: {'; '.join(self.story)}: {figures}{faults}; {self.took_s:.1f} s"


def compactor(stage: Stage) -> Sequence[Process]:
    """A process that compacts and sweeps while others land."""
    command = [*PYTHON, "tests.ingest.round_process", "upkeep", stage.uri]
    return [Process("compactor", command, stage.folder / "compactor.log")]


@dataclass(frozen=True, slots=True)
class Rules:
    """How rounds are played.

    Args:
        bucket: address below which lakes lie; each in its round's folder where it is empty.
        least: kills, and freezes, that a round has at least.
        careless: whether consumers commit by a table's path, which has to break a law.
        victims: who else plays.
    """

    bucket: str = ""
    least: int = 0
    careless: bool = False
    victims: Victims = compactor


def play(seed: int, broker: Broker, folder: Path, rules: Rules) -> Outcome:
    """Play one round."""
    rng, began_s = random.Random(seed), monotonic()
    stage = _set_up(seed, rng, broker, folder, rules)
    stage.others.extend(rules.victims(stage))
    everybody: list[Actor] = [stage.producer, *stage.consumers, *stage.others]
    for actor in everybody:
        actor.start()
    story: list[str] = []
    try:
        story += (_strike(rng, stage, what) for what in _events(rng, rules.least))
        faults = _finish(stage)
        for other in stage.others:
            other.kill()
        return _judged(stage, story, [*faults, *_unexplained(stage, story)], monotonic() - began_s)
    except IngestError as error:
        return Outcome(seed, tuple(story), stage.records, 0, 0, 0, (str(error),), monotonic() - began_s)
    finally:
        for actor in everybody:
            actor.kill()


def _set_up(seed: int, rng: random.Random, broker: Broker, folder: Path, rules: Rules) -> Stage:
    folder.mkdir(parents=True)
    uri = f"{rules.bucket}/{folder.name}" if rules.bucket else str(folder / "lake")
    topic = Topic(f"round-{seed}-{folder.name}", ("cluster", "node"), rng.randint(2, 4))
    create_topics(broker.bootstrap, [topic])
    records = rng.randint(300, 600) + RECORDS_MORE * rules.least
    send = [*PYTHON, "tests.ingest.round_process", "produce", broker.bootstrap, topic.name, str(records), str(seed)]
    producer = Process("producer", send, folder / "producer.log")
    land = [*PYTHON, "tests.ingest.ingest_process", *(["--careless"] if rules.careless else [])]
    reads = [broker.bootstrap, topic.name, uri]
    consumers = [
        Process(f"consumer {i}", [*land, "--group", f"{topic.name}-{i % 2}", *reads], folder / f"consumer-{i}.log")
        for i in range(rng.randint(2, 3))
    ]
    return Stage(seed, folder, uri, broker, topic, records, producer, consumers)


def _events(rng: random.Random, least: int) -> list[str]:
    """What happens in a round, in its order."""
    kinds, weights = ("kill", "freeze", "ambush", "broker", "producer", "other"), (4, 3, 4, 1, 2, 2)
    events = rng.choices(kinds, weights, k=rng.randint(3, 6))
    events += ["kill"] * least + (["zombie", "freeze"] * least)[:least]
    rng.shuffle(events)
    return events


def _strike(rng: random.Random, stage: Stage, what: str) -> str:
    """Wait a little, then let one thing happen; what it was."""
    let_run(rng.uniform(0.1, 0.8))
    _revive(stage)
    if what == "freeze":
        return _freeze(rng, stage)
    if what == "zombie":
        return _ambush(rng, stage, "SIGSTOP", "written")
    if what == "ambush":
        number, point = rng.choice(("SIGKILL", "SIGSTOP", "SIGSTOP")), rng.choice(("written", "written", "landed"))
        return _ambush(rng, stage, number, point)
    actor: Actor
    if what == "kill":
        actor = consumer = rng.choice(stage.consumers)
        consumer.await_work(AMBUSH_S)
    elif what == "broker":
        actor = BrokerActor(stage.broker)
    else:
        actor = rng.choice(stage.others) if what == "other" and stage.others else stage.producer
    actor.kill()
    let_run(rng.uniform(0, 0.5))
    actor.restart()
    return f"kill {actor.name}"


def _freeze(rng: random.Random, stage: Stage) -> str:
    """Stop a consumer for longer than its session lasts, more often than not, so that others take over."""
    zombie, freeze_s = rng.choice(stage.consumers), rng.uniform(0.5, 2.5)
    zombie.await_work(AMBUSH_S)
    zombie.send(signal.SIGSTOP)
    let_run(freeze_s)
    zombie.send(signal.SIGCONT)
    return f"freeze {zombie.name} {freeze_s:.1f} s"


def _ambush(rng: random.Random, stage: Stage, number: str, point: str) -> str:
    """Have a consumer die or freeze with a batch in its hands: files written, the commit not made yet or just made."""
    victim, batch = rng.choice(stage.consumers), rng.randint(1, 8)
    freeze_s = rng.uniform(1.2, 2.5)
    victim.kill()
    victim.start(number, point, str(batch))
    victim.await_stop(AMBUSH_S)
    if number == "SIGSTOP":
        let_run(freeze_s)
        victim.send(signal.SIGCONT)
    return f"{number} {point}, {victim.name}"


def _revive(stage: Stage) -> None:
    """Start again whoever ended by itself, as where no broker answered at its start."""
    for one in (*stage.consumers, *stage.others):
        if not one.alive():
            _note_end(stage, one)
            one.restart()
    if not stage.producer.alive() and _code(stage.producer) != 0:
        stage.producer.restart()


def _note_end(stage: Stage, process: Process) -> None:
    if _code(process) != -signal.SIGKILL:
        stage.ended.append(f"{process.name} ended by itself with {_code(process)}: {process.last_words()}")


def _unexplained(stage: Stage, story: Sequence[str]) -> list[str]:
    """Ends that nothing in the round accounts for."""
    return [why for why in stage.ended if "kill broker" not in story or not EXPLAINED.search(why)]


def _code(process: Process) -> int | None:
    return process.process.returncode if process.process else None


def _finish(stage: Stage) -> tuple[str, ...]:
    """Let the producer end, drain the consumers, land what is left; what went wrong."""
    deadline_s = monotonic() + END_LIMIT_S
    while _code(stage.producer) != 0 and monotonic() < deadline_s:
        _revive(stage)
        let_run(0.1)
        stage.producer.alive()
    codes = {consumer.name: consumer.drained() for consumer in stage.consumers}
    faults = [f"{name} ended with {code}" for name, code in codes.items() if code not in (0, -signal.SIGTERM)]
    for other in stage.others:
        if not other.alive():
            _note_end(stage, other)
    if _code(stage.producer) != 0:
        faults.append("the producer did not end")
    settings = ConsumerSettings(stage.broker.bootstrap, (stage.topic.name,), group=stage.topic.name, max_wait_ms=50)
    metrics, formats = IngestMetrics(CollectorRegistry()), Formats({stage.topic.name: decoder(USAGE)})
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
        stage.seed,
        tuple(story),
        stage.records,
        len(landed),
        len(sent - set(landed)),
        doubled,
        tuple(broken),
        took_s,
        lake.version("usage"),
        lake.fence("usage").at(REWRITE) or 0,
        sum(one.said.read_text().count(LOST_RACE) for one in stage.consumers),
    )


def _broken_laws(stage: Stage, lake: Lake, places: int) -> list[str]:
    """Chains that do not reach the broker's end, have holes, or files that `check` finds damaged."""
    broken, partitions = [], range(stage.topic.partitions)
    with closing(connect(KafkaConsumer, stage.broker.bootstrap)) as consumer:
        ends = consumer.end_offsets([TopicPartition(stage.topic.name, p) for p in partitions])
    for place, end in ends.items():
        if (at := Positions(lake).position(place.topic, place.partition) or 0) != end:
            broken.append(f"partition {place.partition} is landed up to {at}, and ends at {end}")
    if places != sum(ends.values()):
        broken.append(f"{places} places are landed, the broker has {sum(ends.values())}")
    if places < len(to_send(stage.records, stage.seed)):
        broken.append("fewer messages are on the broker than were sent")
    report = check(lake, lambda _done, _total: None, "rows")
    broken += [f"{damage.path}: {damage.what}" for damage in report.damage]
    return broken + ([f"{report.gaps} gaps"] if report.gaps else [])


def play_rounds(
    rounds: int,
    first_seed: int,
    broker: Broker,
    folder: Path,
    *,
    say: Callable[[str], object],
    rules: Rules,
) -> list[Outcome]:
    """Play rounds with seeds in a row, each told when it is over; topics are dropped, so that one broker serves all."""
    outcomes = []
    for seed in range(first_seed, first_seed + rounds):
        outcome = play(seed, broker, folder / f"{seed}", rules)
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
    figures += f", commits {sum(o.commits for o in outcomes)}, compactions {sum(o.compactions for o in outcomes)}"
    figures += f", lost races {sum(o.lost_races for o in outcomes)}"
    return f"{len(outcomes)} rounds, {sent} records, {figures}, {verdict}; {events}; {took_s:.0f} s"


def verdict(outcomes: Sequence[Outcome], rules: Rules, say: Callable[[str], object]) -> int:
    """Say what all rounds come to; 1 when a law was broken, or when a control broke none in more than a tenth."""
    say(summary(outcomes))
    if not rules.careless:
        return int(not all(outcome.good for outcome in outcomes))
    doubled = sum(outcome.doubled > 0 for outcome in outcomes)
    say(f"control: rows were doubled in {doubled} of {len(outcomes)} rounds")
    return int(10 * doubled < 9 * len(outcomes))


def parser(description: str, rounds: int) -> argparse.ArgumentParser:
    """Options of rounds, by their usual number."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--rounds", type=int, default=rounds)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options.add_argument("--control", action="store_true", help="commit by a table's path, which must double rows")
    return options


def main() -> int:
    """Play rounds; 1 when a law was broken."""
    asked = parser("Crash rounds against a real broker.", 100).parse_args()
    rules = Rules(least=LEAST, careless=asked.control)
    leave_on_signals()
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder, "kafka")) as broker:

        def say(line: str) -> None:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

        return verdict(play_rounds(asked.rounds, asked.seed, broker, Path(folder), say=say, rules=rules), rules, say)


if __name__ == "__main__":
    sys.exit(main())
