"""Crash rounds of the whole line: consumers, Spark, the refresher and the broker die while a cluster reports.

python -m tests.ingest.live_rounds [--rounds N] [--seed FIRST], or `make crash`. At the end everything that was sent has
landed once, and the refresher's snapshot is what is computed again from the lake.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic

import numpy as np
import pyarrow as pa
from prometheus_client import CollectorRegistry

from advisor.cluster.snapshot import load_current
from advisor.errors import AdvisorError
from cohabit.ingestion.simulation import simulate_into
from cohabit.lifecycle.training_serving_skew import snapshot_as_of
from features.columnar.arrow_columns import micros
from features.columnar.windows import in_time
from features.schema.tables import PROFILES, TABLES
from ingest.devkafka.broker import Broker, create_topics, running_broker
from ingest.lake.check import check
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.simulator.messages import Faults
from ingest.simulator.simulate import Plan
from tests.ingest.round_actors import leave_on_signals

MINUTES = 20
SPEED = 60.0
"""Minutes of the cluster are sent in as many seconds."""
END_LIMIT_S = 120.0
TOPICS = ("nodes", "placements", "usage")
PLACE = ("topic", "partition", "offset")
COMPARED = ("nodes", "containers", "resident_use", "node_seen_us", "first", "resident_app")


@dataclass(slots=True)
class Command:
    """A `cohabit` command in a process group of its own, as an actor that can be killed, frozen and drained."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "cohabit", *self.arguments]
            environment = {**os.environ, **self.environment}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Signal the whole group: of Spark the driver, its JVM and its workers."""
        if self.alive() and self.process is not None:
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()


@dataclass(slots=True)
class Line:
    """All that runs in one round."""

    broker: Broker
    folder: Path
    producer: Command
    consumers: list[Command]
    spark: Command
    refresher: Command
    expected: Lake
    story: list[str] = field(default_factory=list)

    @property
    def lake(self) -> Lake:
        """The round's lake, as nobody has read it yet."""
        return Lake.open(self.folder / "lake", TABLES)

    def commands(self) -> list[Command]:
        """Everybody but the broker."""
        return [self.producer, *self.consumers, self.spark, self.refresher]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one round."""

    seed: int
    story: tuple[str, ...]
    sent: int
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
        figures = f"sent {self.sent}, lost {self.lost}, doubled {self.doubled}"
        verdict = "; ".join(self.faults) or "snapshot equal"
        return f"seed {self.seed}: {', '.join(self.story)}: {figures}, {verdict}; {self.took_s:.0f} s"


def play(seed: int, folder: Path) -> Outcome:
    """Play one round, on a broker of its own."""
    rng, began_s = random.Random(seed), monotonic()
    plan = Plan(nodes=4, apps=5, per_node=5, hours=MINUTES / 60, seed=seed, faults=Faults(0.05, 0.05, 0.05, 0.01, 4.0))
    simulate_into(folder / "stream", plan, lambda _done, _of: None)
    with running_broker(folder / "kafka") as broker:
        create_topics(broker.bootstrap)
        line = _line(broker, folder)
        for command in line.commands():
            command.start()
        try:
            for _ in range(rng.randint(4, 6)):
                _strike(rng, line)
            faults = _finish(line, plan)
        finally:
            for command in line.commands():
                command.kill()
    lost, doubled, broken = _judged(line)
    sent = sum(_messages(line, topic) for topic in TOPICS)
    return Outcome(seed, tuple(line.story), sent, lost, doubled, (*faults, *broken), monotonic() - began_s)


def _line(broker: Broker, folder: Path) -> Line:
    settings = {
        "COHABIT_LAKE": str(folder / "lake"),
        "COHABIT_SNAPSHOTS": str(folder / "snapshots"),
        "COHABIT_CLUSTER": Plan().cluster,
        "COHABIT_KAFKA__BOOTSTRAP": broker.bootstrap,
        "COHABIT_KAFKA__SESSION_TIMEOUT_MS": "1000",
    }

    def command(name: str, *arguments: str) -> Command:
        return Command(name, arguments, settings, folder / f"{name}.log")

    return Line(
        broker=broker,
        folder=folder,
        producer=command("producer", "dev", "replay", str(folder / "stream"), "--speed", str(SPEED)),
        consumers=[command(f"consumer-{i}", "ingest") for i in range(2)],
        spark=command("spark", "features", "--publish-state"),
        refresher=command("refresher", "refresh", "--from-topic", "--every", "1"),
        expected=_expected(folder),
    )


def _strike(rng: random.Random, line: Line) -> None:
    """Wait a little, then let one thing happen."""
    Event().wait(rng.uniform(1, 5))
    what = rng.choice(("consumer", "consumer", "freeze", "spark", "refresher", "broker"))
    if what == "broker":
        line.broker.kill()
        line.broker.start()
    elif what == "freeze":
        victim = rng.choice(line.consumers)
        victim.send(signal.SIGSTOP)
        Event().wait(rng.uniform(0.5, 2.5))
        victim.send(signal.SIGCONT)
    else:
        victim = {"consumer": rng.choice(line.consumers), "spark": line.spark, "refresher": line.refresher}[what]
        victim.kill()
    line.story.append(what)
    _revive(line)


def _revive(line: Line) -> None:
    """Start again whoever died; a producer that ended well stays so."""
    for command in line.commands():
        done = command is line.producer and command.process is not None and command.process.poll() == 0
        if not command.alive() and not done:
            command.start()


def _finish(line: Line, plan: Plan) -> list[str]:
    """Let everything be sent and landed, and wait for the snapshot that holds all of it; what went wrong."""
    deadline_s = monotonic() + END_LIMIT_S
    while line.producer.process is None or line.producer.process.poll() != 0:
        if monotonic() > deadline_s:
            return ["the producer did not end"]
        _revive(line)
        Event().wait(0.2)
    difference = "no snapshot"
    while difference and monotonic() < deadline_s:
        _revive(line)
        Event().wait(1.0)
        difference = _difference(line, plan)
    return [f"the snapshot is not what is computed again: {difference}"] if difference else []


def _difference(line: Line, plan: Plan) -> str:
    """How the current snapshot differs from the one computed again from all that landed; empty where it does not."""
    try:
        told = load_current(line.folder / "snapshots")
    except AdvisorError as error:
        return str(error)
    newest_us = _newest_us(line.lake)
    if told.as_of_us != newest_us or line.lake.landed_rows("usage") < _messages(line, "usage"):
        return f"it knows what arrived until {told.as_of_us}, the lake until {newest_us}"
    again = snapshot_as_of(line.lake, plan.cluster, newest_us, PROFILES.schema.empty_table())
    return next((f"{name} differs" for name in COMPARED if not _same(getattr(told, name), getattr(again, name))), "")


def _same(left: object, right: object) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.tobytes() == right.tobytes()
    return left == right


def _newest_us(lake: Lake) -> int:
    """When the newest row had arrived that counts: late samples do not."""
    tables = [in_time(lake.read("usage")), lake.read("nodes"), lake.read("placements")]
    return max(int(micros(rows["arrived_at"]).max(initial=0)) for rows in tables)


def _messages(line: Line, topic: str) -> int:
    """Rows that a topic's messages amount to, landed by nobody who dies."""
    return int(line.expected.landed_rows(topic))


def _judged(line: Line) -> tuple[int, int, list[str]]:
    """Rows lost, rows landed twice, and what `check` finds."""
    lake, lost, doubled = line.lake, 0, 0
    for table in (*TOPICS, "dead_letters"):
        expected, found = (_keys(each.read(table), table) for each in (line.expected, lake))
        lost += len(expected - found)
        rows = lake.rows(table, EPOCH, FOREVER)
        places = Counter(zip(*(rows[c].to_pylist() for c in (*PLACE, *_more(table))), strict=True))
        doubled += len(found - expected) + sum(n - 1 for n in places.values())
    report = check(lake, lambda _done, _total: None, "rows")
    return lost, doubled, [f"{damage.path}: {damage.what}" for damage in report.damage]


def _keys(rows: pa.Table, table: str) -> set[tuple[object, ...]]:
    """What tells rows apart whichever way they came: not their origin."""
    names = ["payload", "item"] if table == "dead_letters" else list(TABLES[table].key)
    return set(zip(*(rows[name].to_pylist() for name in names), strict=True))


def _more(table: str) -> tuple[str, ...]:
    return ("item",) if table == "dead_letters" else ()


def _expected(folder: Path) -> Lake:
    lake = Lake.open(folder / "expected", TABLES)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(folder / "stream", TOPICS, lake, stop=Event(), metrics=metrics)
    return lake


def play_rounds(rounds: int, first_seed: int, folder: Path, say: Callable[[str], object]) -> list[Outcome]:
    """Play rounds with seeds in a row, each told when it is over."""
    outcomes = []
    for seed in range(first_seed, first_seed + rounds):
        outcomes.append(play(seed, folder / f"{seed}"))
        say(f"round {len(outcomes)} of {rounds}, {outcomes[-1]}")
    return outcomes


def main() -> int:
    """Play rounds; 1 when a law was broken."""
    options = argparse.ArgumentParser(description="Crash rounds of the whole line: broker, Spark, refresher.")
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    asked = options.parse_args()
    leave_on_signals()

    def say(words: str) -> None:
        sys.stdout.write(words + "\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as folder:
        outcomes = play_rounds(asked.rounds, asked.seed, Path(folder), say)
    struck = Counter(event for outcome in outcomes for event in outcome.story)
    bad = [outcome.seed for outcome in outcomes if not outcome.good]
    figures = f"lost {sum(o.lost for o in outcomes)}, doubled {sum(o.doubled for o in outcomes)}"
    say(f"{len(outcomes)} rounds, {figures}, {f'broken: {bad}' if bad else 'all laws held'}; {dict(struck)}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
