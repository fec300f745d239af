"""Faults: what a scheduler sees of prioritize while things go wrong: answers that are no 200, and the longest waits."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter, sleep, time_ns
from urllib.request import urlopen

import numpy as np

from advisor.snapshot import Snapshot, directory_name, next_version, publish
from benchmarks import synthetic
from benchmarks.runner import OURS, Benchmark, Result
from benchmarks.serving import CLASSES, request_body
from ingest.atomic import replace_atomically
from models.registry import Registry

CLIENTS, OVERLOAD = 4, 40
OFFERED = 500
STALE_AFTER_S, STUCK_S = 4, 4.0
MANY_US = 3_600_000_000
WARM_S = 60.0


@dataclass
class Served:
    """A running advisor and the folders it reads."""

    process: subprocess.Popen[str]
    main: str
    port: int
    folder: Path
    view: Snapshot

    def publish(self, *, ahead_us: int = 0) -> Path:
        """A snapshot of this moment, or of a clock that is ahead."""
        snapshots = self.folder / "snapshots"
        now_us = time_ns() // 1000 + ahead_us
        return publish(snapshots, replace(self.view, version=next_version(snapshots), as_of_us=now_us))

    def table(self) -> int:
        """The process that keeps the score table."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        commands = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
        return next(child for child, command in commands.items() if b"spawn_main" in command)

    def answers(self) -> Counter[str]:
        """How many answers there were, by source and reason."""
        with urlopen(f"{self.main}/metrics", timeout=10) as reply:  # noqa: S310 - our own server
            told = reply.read().decode()
        found = re.findall(r'cohabit_answers_total\{reason="(\w*)",source="(\w+)"\} ([\d.]+)', told)
        return Counter({f"{source} {reason}".strip(): int(float(count)) for reason, source, count in found})


@dataclass
class Seen:
    """What clients saw: seconds of whole answers, and what went wrong with the others."""

    seconds: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)


@contextmanager
def served(rng: np.random.Generator, nodes: int) -> Iterator[Served]:
    """`cohabit serve` over a synthetic cluster, warm."""
    with tempfile.TemporaryDirectory(prefix="cohabit-faults-") as name:
        folder, view = Path(name), synthetic.cluster(nodes, 20, rng)
        synthetic.promoted(folder / "registry", view, 60, rng)
        publish(folder / "snapshots", replace(view, as_of_us=time_ns() // 1000))
        kept = {key: value for key, value in os.environ.items() if not key.startswith("COHABIT_")}
        wished = {f"COHABIT_{of.upper()}": str(folder / of) for of in ("registry", "snapshots")}
        settings = kept | wished | {"COHABIT_ADVISOR__MAX_FEATURE_AGE_S": str(STALE_AFTER_S), "COLUMNS": "200"}
        command = [sys.executable, "-m", "cohabit", "serve", "--port", "0", "--scheduler-port", "0"]
        with subprocess.Popen(
            command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as run:
            assert run.stdout is not None  # noqa: S101 - asked for
            main, scheduler = re.findall(r"http://[\d.:]+", run.stdout.readline())
            found = Served(run, main, int(scheduler.rpartition(":")[2]), folder, view)
            try:
                yield found
            finally:
                run.kill()


async def _client(port: int, bodies: list[bytes], seen: Seen, until: Callable[[], bool]) -> None:
    """One scheduler: request after request over a kept connection, a new one where that was cut."""
    reader: asyncio.StreamReader | None = None
    number = 0
    while not until():
        number += 1
        body = bodies[number % len(bodies)]
        began = perf_counter()
        try:
            if reader is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = b"POST /extender/prioritize HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(re.findall(rb"(?i)content-length: (\d+)", answer)[0])
            reply = json.loads(await reader.readexactly(length))
        except (OSError, asyncio.IncompleteReadError) as error:
            seen.wrong[type(error).__name__] += 1
            reader = None
            await asyncio.sleep(0.01)
            continue
        if not answer.startswith(b"HTTP/1.1 200") or len(reply) != OFFERED:
            seen.wrong[answer[9:12].decode()] += 1
        seen.seconds.append(perf_counter() - began)


def load(served: Served, clients: int, seconds: float, fault: Callable[[float], None]) -> Seen:
    """Clients for some seconds, and a fault that is told four times a second how long they have run."""
    seen, began = Seen(), perf_counter()
    names = list(served.view.nodes) * 2  # rotated, as kube-scheduler does
    bodies = [request_body(CLASSES[n % 8], 0, names[n : n + OFFERED]).replace(b"pod-0", b"") for n in range(64)]

    async def run() -> None:
        def until() -> bool:
            return perf_counter() - began > seconds

        async def go_wrong() -> None:
            while not until():
                await asyncio.to_thread(fault, perf_counter() - began)
                await asyncio.sleep(0.25)

        await asyncio.gather(go_wrong(), *(_client(served.port, bodies, seen, until) for _ in range(clients)))

    asyncio.run(run())
    return seen


def faults(served: Served) -> dict[str, tuple[int, Callable[[float], None]]]:
    """By name the number of clients, and what goes wrong."""
    registry, healthy = served.folder / "registry", Registry(served.folder / "registry")
    once: set[str] = set()

    def first(name: str) -> bool:
        fresh = name not in once
        once.add(name)
        return fresh

    def fine(_at: float) -> None:
        served.publish()

    def bad_snapshot(_at: float) -> None:
        whole = served.publish()
        bad = whole.with_name(directory_name(int(whole.name) + 1))
        shutil.copytree(whole, bad)
        (bad / "profile.npy").write_bytes(b"")
        replace_atomically(whole.parent / "current", bad.name.encode())

    def bad_bundle(_at: float) -> None:
        served.publish()
        if first("bundle"):
            shutil.copytree(registry / "synthetic", registry / "bad")
            (registry / "bad" / "placement.mean.onnx").write_bytes(b"nonsense")
            (registry / "current").write_text("synthetic\nbad\n")

    def good_bundle(_at: float) -> None:
        served.publish()
        if first("again"):
            (registry / "current").write_text("synthetic\n")
            healthy.promote("synthetic")

    def no_table(_at: float) -> None:
        served.publish()
        if first("killed"):
            os.kill(served.table(), signal.SIGKILL)

    def table_stuck(at: float) -> None:
        served.publish()
        if first("stopped"):
            os.kill(served.table(), signal.SIGSTOP)
        if at > STUCK_S and first("continued"):
            os.kill(served.table(), signal.SIGCONT)

    def stuck(_at: float) -> None:
        """Nothing is published any more."""

    def ahead(_at: float) -> None:
        served.publish(ahead_us=MANY_US)

    return {
        "reload": (CLIENTS, fine),
        "bad_snapshot": (CLIENTS, bad_snapshot),
        "bad_bundle": (CLIENTS, bad_bundle),
        "good_bundle": (CLIENTS, good_bundle),
        "table_killed": (CLIENTS, no_table),
        "table_stuck": (CLIENTS, table_stuck),
        "refresh_stuck": (CLIENTS, stuck),
        "clock_ahead": (CLIENTS, ahead),
        "overload": (OVERLOAD, fine),
    }


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """By fault: answers a second, the share that was not a whole 200, and the wait that one in a thousand exceeds."""
    found: dict[str, float] = {}
    with served(rng, arguments.nodes) as advisor:
        _warm(advisor)
        for name, (clients, fault) in faults(advisor).items():
            before = advisor.answers()
            seen = load(advisor, clients, arguments.seconds, fault)
            found |= {f"{name}_{figure}": value for figure, value in _figures(seen, arguments.seconds).items()}
            sys.stderr.write(f"{name}: {dict(advisor.answers() - before)} {dict(seen.wrong)}\n")
        found |= {f"sigterm_{figure}": value for figure, value in _ended(advisor, arguments.seconds).items()}
    return {OURS: found}


def _warm(advisor: Served) -> None:
    deadline = perf_counter() + WARM_S
    while advisor.answers()["table"] < 1_000 and perf_counter() < deadline:
        load(advisor, CLIENTS, 2.0, lambda _: _published(advisor))
        sleep(0.5)


def _published(advisor: Served) -> None:
    advisor.publish()


def _ended(advisor: Served, seconds: float) -> dict[str, float]:
    """SIGTERM in the middle: whoever was answered was answered whole, afterwards nobody is."""
    ended = False

    def end(at: float) -> None:
        nonlocal ended
        if at > seconds / 4 and not ended:
            ended = True
            advisor.process.terminate()

    seen = load(advisor, CLIENTS, seconds, end)
    cut = seen.wrong.pop("IncompleteReadError", 0) + seen.wrong.pop("ConnectionResetError", 0)
    seen.wrong.pop("ConnectionRefusedError", 0)
    return _figures(seen, seconds / 4) | {"cut_connections": float(cut), "exit_code": float(advisor.process.wait(10))}


def _figures(seen: Seen, seconds: float) -> dict[str, float]:
    count = len(seen.seconds) + seen.wrong.total()
    return {
        "per_s": len(seen.seconds) / seconds,
        "not_200": seen.wrong.total() / max(count, 1),
        "p999_ms": 1e3 * float(np.quantile(seen.seconds, 0.999)) if seen.seconds else 0.0,
    }


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of the cluster, 500 are offered (1000)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of load for each fault (8)")


BENCHMARK = Benchmark(
    "faults",
    "what a scheduler sees while things go wrong: answers that are no 200, and the wait one in a thousand exceeds",
    run,
    runs=1,
    add_arguments=_arguments,
)
