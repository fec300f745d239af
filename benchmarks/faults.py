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
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np

from advisor.cluster.snapshot import Snapshot, directory_name, next_version, publish
from benchmarks import synthetic
from benchmarks.runner import OURS, Benchmark, Result
from benchmarks.serving import CLASSES, request_body
from ingest.schema.atomic_file import replace_atomically
from models.bundle.bundle import read_bundle, write_bundle
from models.registry.registry import Registry

CLIENTS, OVERLOAD = 4, 40
OFFERED = 500
STALE_AFTER_S, STUCK_S = 4, 4.0
MANY_US = 3_600_000_000
WARM_S = 60.0
OPENED_S = 0.1
"""Until whoever was pointed to a file has opened it: a pipe that is opened when it has no other end waits for ever."""
FOREIGN = {"wrong_catalogue", "wrong_version"}
"""Faults that are written once, and refused."""
REFUSED = {f"{source} {reason}" for source in ("table", "last_good") for reason in ("no_bundle", "no_snapshot")}
"""Answers of what was loaded before, while something newer is refused."""


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
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        children = [child for thread in threads for child in (thread / "children").read_text().split()]
        commands = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
        found = [child for child, command in commands.items() if b"spawn_main" in command]
        if len(found) != 1:
            raise SystemExit(f"the advisor has {len(found)} processes beside it that might keep the table, not one")
        return found[0]

    def ready(self) -> bool:
        """Whether answers come from a model."""
        try:
            with urlopen(f"{self.main}/readyz", timeout=10):  # noqa: S310 - our own server
                return True
        except HTTPError:
            return False

    def answers(self) -> Counter[str]:
        """How many answers there were, by source and reason."""
        with urlopen(f"{self.main}/metrics", timeout=10) as reply:  # noqa: S310 - our own server
            told = reply.read().decode()
        found = re.findall(r'cohabit_score_requests_total\{reason="(\w*)",source="(\w+)"\} ([\d.]+)', told)
        return Counter({f"{source} {reason}".strip(): int(float(count)) for reason, source, count in found})


def foreign_bundle(served: Served) -> None:
    """A whole bundle that was trained on another feature catalogue."""
    registry = Registry(served.folder / "registry")
    ours = read_bundle(registry.root / "synthetic")
    manifest = ours.manifest.model_copy(update={"catalogue_hash": "of another version"})
    write_bundle(registry.root / "foreign", manifest, ours.files)
    registry.promote("foreign")


def foreign_snapshot(served: Served) -> None:
    """A snapshot of a refresher that knows more than this server."""
    names = _next_to(served)
    names.write_text(json.dumps({**json.loads(names.read_bytes()), "told_by_a_later_version": 1}))
    _point(names.parent)


@dataclass
class SlowDisk:
    """A snapshot whose names arrive byte by byte through a pipe.

    Args:
        served: who reads it.
        until_s: when the disk is well again.
    """

    served: Served
    until_s: float
    _pipe: int | None = None
    _well: bool = False

    def __call__(self, at_s: float) -> None:
        """A byte more; the end of it; and afterwards whole snapshots."""
        if self._well:
            self.served.publish()
        elif self._pipe is None:
            names = _next_to(self.served)
            names.unlink()
            os.mkfifo(names)
            self._pipe = os.open(names, os.O_RDWR)  # with a reader, or it would wait for one
            _point(names.parent)
        elif at_s > self.until_s:
            self.served.publish()
            sleep(OPENED_S)
            os.close(self._pipe)
            self._well = True
        else:
            os.write(self._pipe, b"{")


def _next_to(served: Served) -> Path:
    """The names of a copy of a whole snapshot; nobody is pointed to the copy yet."""
    whole = served.publish()
    copy = whole.with_name(directory_name(int(whole.name) + 1))
    shutil.copytree(whole, copy)
    return copy / "names.json"


def _point(snapshot: Path) -> None:
    replace_atomically(snapshot.parent / "current", snapshot.name.encode())


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


def of_others(served: Served, seconds: float) -> dict[str, tuple[int, Callable[[float], None]]]:
    """Faults of those who write what is read here: other versions, and a disk that hardly moves."""
    registry = Registry(served.folder / "registry")

    def wrong_catalogue(_at: float) -> None:
        served.publish()
        if "foreign" not in registry.names():
            foreign_bundle(served)

    def right_catalogue(_at: float) -> None:
        served.publish()
        if registry.promoted()[-1] == "foreign":
            registry.rollback()

    def wrong_version(_at: float) -> None:
        foreign_snapshot(served)

    return {
        "wrong_catalogue": (CLIENTS, wrong_catalogue),
        "right_catalogue": (CLIENTS, right_catalogue),
        "wrong_version": (CLIENTS, wrong_version),
        "slow_disk": (CLIENTS, SlowDisk(served, min(STUCK_S, seconds / 2))),
    }


def faults(served: Served, seconds: float) -> dict[str, tuple[int, Callable[[float], None]]]:
    """By name the number of clients, and what goes wrong in so many seconds."""
    registry, healthy = served.folder / "registry", Registry(served.folder / "registry")
    once: set[str] = set()

    def first(name: str) -> bool:
        fresh = name not in once
        once.add(name)
        return fresh

    def fine(_at: float) -> None:
        served.publish()

    def bad_snapshot(_at: float) -> None:
        bad = _next_to(served).parent
        (bad / "profile.npy").write_bytes(b"")
        _point(bad)

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
        if at > min(STUCK_S, seconds / 2) and first("continued"):
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
        **of_others(served, seconds),
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
        for name, (clients, fault) in faults(advisor, arguments.seconds).items():
            _recovered(advisor)
            before = advisor.answers()
            seen = load(advisor, clients, arguments.seconds, fault)
            if name in FOREIGN:
                _noticed(advisor, before)
            answers = advisor.answers() - before
            figures = _figures(seen, arguments.seconds) | _sources(answers)
            found |= {f"{name}_{figure}": value for figure, value in figures.items()}
            sys.stderr.write(f"{name}: {dict(answers)} {dict(seen.wrong)}\n")
        found |= {f"sigterm_{figure}": value for figure, value in _ended(advisor, arguments.seconds).items()}
    return {OURS: found}


def _warm(advisor: Served) -> None:
    deadline = perf_counter() + WARM_S
    while advisor.answers()["table"] < 1_000 and perf_counter() < deadline:
        load(advisor, CLIENTS, 2.0, lambda _: _published(advisor))
        sleep(0.5)


def _recovered(advisor: Served) -> None:
    """From the fault before, if that made answers neutral."""
    deadline = perf_counter() + WARM_S
    while not advisor.ready() and perf_counter() < deadline:
        load(advisor, 1, 0.5, lambda _: _published(advisor))


def _noticed(advisor: Served, before: Counter[str]) -> None:
    """What others wrote is refused as soon as it is read, which a busy machine does late."""
    deadline = perf_counter() + WARM_S
    while not REFUSED & (advisor.answers() - before).keys() and perf_counter() < deadline:
        load(advisor, 1, 0.5, lambda _: None)


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


def _sources(answers: Counter[str]) -> dict[str, float]:
    """Shares of answers that were neutral, and of those made of what was loaded before something was refused."""
    total = max(answers.total(), 1)
    neutral = sum(count for source, count in answers.items() if source.startswith("neutral"))
    return {"neutral": neutral / total, "kept": sum(answers[source] for source in REFUSED) / total}


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
