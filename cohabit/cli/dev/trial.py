"""Trial: a Kafka of one's own, and the commands that land, watch and compute, for a first look at a real cluster."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event

from cohabit.config.errors import CohabitError
from cohabit.terminal.console import console
from cohabit.terminal.locations import stop_on_signals
from ingest.devkafka import child_process
from ingest.devkafka.broker import Broker, create_topics, free_ports
from ingest.devkafka.jars import fetch_jars
from ingest.schema.topics import TOPICS, Topic

OTLP = Topic("otlp_metrics", ("resource",), 4)
"""Where the Collector's exporter to Kafka writes by default."""
LOOK_S = 1.0
GRACE_S = 60.0
LAST_LINES = 5
Started = tuple[Path, "subprocess.Popen[bytes]"]
"""Log and process of a command."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a trial does.

    Args:
        folder: of broker and logs.
        listen: host and port at which collectors reach the broker.
        watch: options of `cohabit watch`; None where the cluster's API is not read.
        every_s: seconds between computations.
    """

    folder: Path
    listen: tuple[str, int]
    watch: Sequence[str] | None
    every_s: float


def address(listen: str) -> tuple[str, int]:
    """Host and port.

    Raises:
        CohabitError: it is not HOST:PORT.
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise CohabitError(f"--listen {listen}: write HOST:PORT, such as 127.0.0.1:9092")
    return host, int(port)


def run_trial(wanted: Wanted) -> None:
    """See `cohabit trial`."""
    fetch_jars(lambda done, total, name: console.print(f"  jar {done} of {total}: {name}"))
    wanted.folder.mkdir(parents=True, exist_ok=True)
    stop = stop_on_signals()
    with ExitStack() as running:
        bootstrap = running.enter_context(_broker(wanted))
        environment = {
            "COHABIT_KAFKA__BOOTSTRAP": bootstrap,
            "COHABIT_KAFKA__TOPICS": f"{OTLP.name}=otlp-proto",
        }
        commands = {"ingest": ("ingest",)} | ({} if wanted.watch is None else {"watch": ("watch", *wanted.watch)})
        started = {name: _start(wanted.folder, name, words, environment) for name, words in commands.items()}
        running.callback(_end, started)
        _follow(wanted, started, environment, stop)


@contextmanager
def _broker(wanted: Wanted) -> Iterator[str]:
    """A broker that collectors and these commands reach; the address for the latter."""
    client, controller = free_ports(2)
    host, port = wanted.listen
    outside = "127.0.0.1" if host in {"127.0.0.1", "localhost"} else "0.0.0.0"  # noqa: S104 - as asked for
    inside = f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}"
    more = {
        "listeners": f"{inside},OUTSIDE://{outside}:{port}",
        "advertised.listeners": f"{inside},OUTSIDE://{host}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    broker = Broker(wanted.folder / "broker", client, controller, more)
    with console.status("starting Kafka"):
        broker.start()
    try:
        create_topics(broker.bootstrap, [*TOPICS.values(), OTLP])
        console.print(
            f"Kafka for the Collector: brokers {host}:{port}, topic {OTLP.name}, encoding otlp_proto", soft_wrap=True
        )
        yield broker.bootstrap
    finally:
        broker.stop()


def _start(folder: Path, name: str, words: Sequence[str], environment: Mapping[str, str]) -> Started:
    """A command that ends when this process does; and its log."""
    path = folder / f"{name}.log"
    guard = [sys.executable, "-I", "-S", child_process.__file__, str(os.getpid()), str(GRACE_S)]
    with path.open("wb") as log:
        process = subprocess.Popen(
            [*guard, sys.executable, "-m", "cohabit", *words],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return path, process


def _end(started: Mapping[str, Started]) -> None:
    for _, process in started.values():
        process.terminate()
    for _, process in started.values():
        process.wait()


def _follow(
    wanted: Wanted,
    started: Mapping[str, Started],
    environment: Mapping[str, str],
    stop: Event,
) -> None:
    """Compute again and again, and say how much can be looked at whenever that changes.

    Raises:
        CohabitError: a command ended.
    """
    before = ""
    while not stop.wait(wanted.every_s if before else min(wanted.every_s, 10 * LOOK_S)):
        for name, (log, process) in started.items():
            if process.poll() is not None:
                last = " ".join(log.read_text(errors="replace").split("\n")[-LAST_LINES:]).strip()
                raise CohabitError(f"cohabit {name} ended with {process.returncode}: {last}; its log is {log}")
        code, said = _ran(environment, "features")
        if code == 0:
            said = _ran(environment, "victims")[1]
        line = next((line for line in said.splitlines() if line.strip()), "nothing has landed yet")
        if line != before:
            console.print(f"{datetime.now().astimezone():%H:%M:%S} {line}", highlight=False, soft_wrap=True)
        before = line


def _ran(environment: Mapping[str, str], *words: str) -> tuple[int, str]:
    """Exit code and words of a command that ends by itself."""
    command = [sys.executable, "-m", "cohabit", *words]
    done = subprocess.run(
        command, env={**os.environ, **environment, "COLUMNS": "200"}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr or done.stdout
