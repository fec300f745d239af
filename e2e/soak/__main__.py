"""`python -m e2e.soak`: a cluster that reports live, landed, served, proposed for and billed, for an hour.

Exit 1 where a process ended, a command failed, an answer was missing or wrong, a log has an error, memory grew by
more than 0.2 % an hour after warming up, ingestion fell behind, or answers took much longer at the end than at the
beginning.
"""

import re
import signal
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from math import inf
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep, time

from cohabit.terminal.console import console, show_error
from e2e.soak.asking import Asked, Scheduler, ask
from e2e.soak.errors import SoakFailed
from e2e.soak.judging import FEWEST_ROUNDS, MAX_GROWTH, grew, growth, tell
from e2e.soak.landing import Behind, commits, steady
from e2e.soak.landing import show as show_landing
from e2e.soak.line import Line, stopped
from e2e.soak.memory import Held, Samples, held_in
from features.schema.tables import TABLES
from ingest.devkafka.broker import create_topics, running_broker
from ingest.kafka_io.replay import Sender
from ingest.kafka_io.stream_files import Message
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import Lake
from ingest.schema.topics import TOPICS, Topic
from ingest.simulator.messages import Message as Simulated
from ingest.simulator.simulate import Plan, built_in, simulate

MAX_SLOWER = 1.5
"""How many times as long the slowest hundredth may take in the last third as in the first."""
SAMPLE_S, LOOK_S = 0.1, 1.0
"""Between samples, and between looks which processes there are. Each minute a process gives back what is free, and
takes some of it again within a second."""
BEHIND_S = 30.0
"""Between looks how far ingestion is behind."""
HISTORY_H = 2.0


@dataclass
class Watched:
    """Memory by process, how far ingestion was behind, and what went wrong."""

    samples: Samples
    behind: Behind
    errors: list[str] = field(default_factory=list)


def main(words: Sequence[str] | None = None) -> int:
    """Run everything; the exit code."""
    parser = _parser()
    arguments = parser.parse_args(words)
    if arguments.judge is not None:
        return _judge_again(arguments)
    fewest = arguments.warm_up + FEWEST_ROUNDS * arguments.every
    if arguments.minutes < fewest:
        parser.error(f"too short to judge memory by: --minutes {fewest:g} at least, or a shorter --warm-up or --every")
    try:
        told = arguments.samples.open("w", buffering=1)
    except OSError as error:
        parser.error(f"--samples: {error}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that whatever was started ends with it
    try:
        with (
            told,
            tempfile.TemporaryDirectory(prefix="cohabit-soak-") as name,
            running_broker(Path(name) / "broker") as broker,
        ):
            create_topics(broker.bootstrap, [_wider(one, arguments.partitions) for one in TOPICS.values()])
            line = Line(Path(name), broker.bootstrap, "sim")
            with stopped(line):
                return _soak(line, arguments, Watched(Samples(told), Behind(line.folder / "ingest.log")))
    except SoakFailed as error:
        show_error(error)
        return 1


def _wider(topic: Topic, partitions: int) -> Topic:
    return topic if topic.partitions == 1 else replace(topic, partitions=partitions)


def _judge_again(arguments: Namespace) -> int:
    try:
        return 1 if _judge_memory(held_in(arguments.judge), arguments) else 0
    except SoakFailed as error:
        show_error(error)
        return 1


def _soak(line: Line, arguments: Namespace, watched: Watched) -> int:
    now = datetime.now(UTC).replace(microsecond=0)
    plan = Plan(
        nodes=arguments.nodes,
        apps=12,
        per_node=8,
        hours=HISTORY_H + arguments.minutes / 60 + 1,
        start=now - timedelta(hours=HISTORY_H),
    )
    stop, asked = Event(), Asked()
    sending = Thread(target=_send, args=(line.bootstrap, plan, stop, watched), daemon=True)
    sending.start()
    port = _begin(line, arguments)
    nodes, apps = [f"node-{i:04d}" for i in range(plan.nodes)], [f"app-{i:03d}" for i in range(plan.apps)]
    asking = Thread(target=ask, args=(Scheduler(port, nodes, apps, arguments.rate), stop, asked), daemon=True)
    working = Thread(target=_work, args=(line, arguments.every * 60, stop, watched), daemon=True)
    asking.start()
    working.start()
    began = time()
    try:
        _watch(line, arguments.minutes * 60, watched)
    finally:
        ended = time()
        stop.set()
        for thread in (asking, working, sending):
            thread.join(120)
    watched.errors += line.complaints() + [f"answer: {one}" for one in asked.errors]
    often = commits(line.folder / "lake", began, ended)
    return _judge(watched, asked, often, arguments)


def _begin(line: Line, arguments: Namespace) -> int:
    """From nothing to a server that advises; its port for schedulers."""
    console.print("landing two hours of history, learning from it")
    line.must("admin", "database", "migrate")
    line.start("ingest", "ingest", "--metrics-port", "0")
    _until(lambda: _landed(line), 180, "history lands")
    line.must("features")
    line.must("model", "train")
    if arguments.spark:
        line.start("spark", "features", "--publish-state")
    line.start("refresh", "refresh", *(["--from-topic"] if arguments.spark else []))
    _until((line.folder / "snapshots").is_dir, 180, "a snapshot is published")
    line.start("serve", "serve", "--port", "0", "--scheduler-port", "0")
    log = line.folder / "serve.log"
    _until(lambda: len(re.findall(r"http://[\d.]+:(\d+)", log.read_text())) >= 2, 60, "the server listens")
    return int(re.findall(r"http://[\d.]+:(\d+)", log.read_text())[1])


def _landed(line: Line) -> bool:
    """Whether nothing of the history is still on its way."""
    before = _rows(line)
    sleep(10)
    return before > 0 and _rows(line) < before * 1.05


def _rows(line: Line) -> int:
    return Lake.open(str(line.folder / "lake"), TABLES).count("usage", EPOCH, FOREVER)


def _send(bootstrap: str, plan: Plan, stop: Event, watched: Watched) -> None:
    """What is past at once, the rest as it comes."""
    try:
        with closing(Sender(bootstrap)) as sender:
            for message in chain.from_iterable(messages for messages, _ in simulate(plan, *built_in(plan))):
                if stop.wait(max(0.0, message.arrived_ms / 1000 - time())):
                    return
                sender.send(message.topic, _message(message))
    except Exception as error:  # noqa: BLE001 - told at the end, whatever it was
        watched.errors.append(f"sender: {error!r}")


def _message(one: Simulated) -> Message:
    return Message(one.arrived_ms, one.key, one.value)


def scheduled(book: Path, month: str) -> tuple[tuple[str, ...], ...]:
    """Words of the commands of one round."""
    return (
        ("features",),
        ("model", "drift"),
        ("model", "recalibrate"),
        ("plan", "create"),
        ("bill", "meter"),
        ("bill", "propose-book", str(book), "--preview", month),
        ("lake", "compact"),
    )


def _work(line: Line, every_s: float, stop: Event, watched: Watched) -> None:
    """What schedules run hourly and daily, much more often."""
    month = f"{datetime.now(UTC):%Y-%m}"
    book = line.folder / "book.toml"
    book.write_text(line.must("bill", "propose-book").replace("2026-12", month))
    _write_bill(line, month)
    while not stop.is_set():
        began = monotonic()
        for words in scheduled(book, month):
            if stop.is_set():
                return
            code, seconds, told = line.run(*words)
            console.print(f"  {datetime.now(UTC):%H:%M:%S} cohabit {' '.join(words[:2])}: {code}, {seconds:.1f} s")
            if code and words[-1] not in {"drift", "recalibrate"} and (code, words[-1]) != (1, "create"):
                watched.errors.append(f"cohabit {' '.join(words[:2])} ended with {code}: {told.strip()[-300:]}")
        stop.wait(max(0.0, every_s - (monotonic() - began)))


def _write_bill(line: Line, month: str) -> None:
    """What the pools of the simulated cluster cost in a month."""
    start = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    end = (start + timedelta(days=32)).replace(day=1)
    pools = ("epyc-a@z0", "xeon-b@z1", "arm-c@z2")
    rows = [f"{pool},{start:%Y-%m-%d},{end:%Y-%m-%d},1000,EUR" for pool in pools]
    path = line.folder / "bill.csv"
    path.write_text("\n".join(["pool,start,end,cost,currency", *rows, ""]))
    line.must("bill", "import", str(path), "--name", "soak")


def _watch(line: Line, seconds: float, watched: Watched) -> None:
    """Look at memory until the time is over.

    Raises:
        SoakFailed: a process ended.
    """
    began, looked = monotonic(), -BEHIND_S
    while (since := monotonic() - began) < seconds:
        if since - looked >= BEHIND_S:
            watched.behind.look(since)
            looked = since
        if dead := line.dead():
            raise SoakFailed(f"{', '.join(dead)} ended after {since / 60:.0f} minutes")
        pids = line.pids()
        for number in range(round(LOOK_S / SAMPLE_S)):
            watched.samples.take(since + number * SAMPLE_S, pids)
            sleep(SAMPLE_S)


def _judge(watched: Watched, asked: Asked, often: dict[str, float], arguments: Namespace) -> int:
    warm, end = arguments.warm_up * 60.0, arguments.minutes * 60.0
    third = (end - warm) / 3
    p99 = [asked.p99_ms(warm + i * third, warm + (i + 1) * third) for i in range(3)]
    console.print(
        f"{len(asked.took_s):,} answers, {len(asked.errors)} errors; p99 by third: "
        f"{', '.join(f'{one:.1f} ms' for one in p99)}"
    )
    for error in watched.errors[:20]:
        console.print(f"error: {error}")
    slower = not p99[2] <= MAX_SLOWER * max(p99[0], 1.0)
    console.print(f"errors: {len(watched.errors)}; slower: {slower}")
    behind = watched.behind.thirds(warm, end)
    show_landing(behind, often)
    console.print(f"keeps up: {steady(behind)}")
    grown = _judge_memory(watched.samples.held(), arguments)
    return 1 if grown or watched.errors or slower or not steady(behind) else 0


def _judge_memory(held: Mapping[str, Held], arguments: Namespace) -> list[str]:
    """Show what each process held; those that grew."""
    warm_s, round_s = arguments.warm_up * 60.0, arguments.every * 60.0
    found = growth(held, warm_s, round_s)
    tell(found, warm_s, round_s)
    grown = grew(found)
    console.print(f"grew by more than {MAX_GROWTH} % an hour: {', '.join(grown) or 'none'}")
    return grown


def _until(so: Callable[[], bool], limit_s: float, what: str) -> None:
    began = monotonic()
    while not so():
        if monotonic() - began > limit_s:
            raise SoakFailed(f"waited {limit_s:.0f} s in vain until {what}")
        sleep(1.0)


def _positive(text: str) -> float:
    if not 0 < (value := float(text)) < inf:
        raise ArgumentTypeError(f"{text}: takes a number above 0")
    return value


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m e2e.soak", description=__doc__)
    parser.add_argument("--minutes", type=_positive, default=60.0, help="for how long")
    parser.add_argument("--warm-up", type=float, default=30.0, help="minutes not judged, while caches are filled")
    parser.add_argument("--rate", type=_positive, default=20.0, help="questions a second")
    parser.add_argument("--nodes", type=int, default=30, help="of the cluster")
    parser.add_argument("--partitions", type=int, default=12, help="of each topic that has several")
    parser.add_argument("--every", type=_positive, default=5.0, help="minutes between rounds of scheduled commands")
    parser.add_argument(
        "--samples", type=Path, default=Path("soak.csv"), help="file for what each process held, ten times a second"
    )
    parser.add_argument(
        "--judge", type=Path, help="soak nothing: judge memory again by such a file, as with another --warm-up"
    )
    parser.add_argument("--spark", action="store_true", help="let Spark tell minutes as they grow")
    return parser


if __name__ == "__main__":
    sys.exit(main())
