"""Drill: apps begin to suffer otherwise; whether the line notices, is careful, learns anew and comes back, in order.

Every step is a command that a person or a schedule would type, over a real lake; a real server tells what it serves.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from urllib.request import Request, urlopen

import numpy as np
import pyarrow.compute as pc

from benchmarks.runner import OURS, Benchmark, Result
from cohabit.ingestion.simulation import write_messages
from cohabit.training.train_model import DEFAULT_EFFORT, Birth, train_bundle, training_table
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.simulator.laws import LAWS
from ingest.simulator.simulate import Later, Plan, hidden_apps, simulate
from models.registry.registry import Registry, trained_name

FIRST, BAD, AGAIN = "first", "inverted", "again"
ORDER = ("alarm", "widened", "fallen back", "retrained", "passed", "promoted")
TAKEN_UP_S = 30.0
STARTS_AT = 8
"""O'clock: the day of the cluster is the same whenever the drill runs, and the change comes when there is load."""
PATIENCE_H = 8
"""After the change, before the drill gives up."""


@dataclass
class Line:
    """A lake, a registry, a server, and the commands in between.

    Args:
        folder: of everything.
        events: name, simulated hours since the change, and seconds that the command took.
    """

    folder: Path
    events: list[tuple[str, float, float]] = field(default_factory=list)

    @property
    def registry(self) -> Registry:
        """Of bundles."""
        return Registry(self.folder / "registry")

    def environment(self) -> dict[str, str]:
        """Settings of every command."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COHABIT_")}
        folders = {f"COHABIT_{name.upper()}": str(self.folder / name) for name in ("lake", "registry", "snapshots")}
        told = {
            "COHABIT_CLUSTER": "sim",
            "COHABIT_ADVISOR__MAX_FEATURE_AGE_S": "1e9",
            "COHABIT_DRIFT__WINDOW_HOURS": "1",
        }
        return {**kept, **folders, **told, "COLUMNS": "160"}

    def run(self, *words: str) -> tuple[int, float]:
        """Run a command; its exit code and seconds. What it printed goes to the log of the drill."""
        began = monotonic()
        command = [sys.executable, "-m", "cohabit", *words]
        done = subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, check=False, timeout=1800
        )
        with (self.folder / "drill.log").open("a") as log:
            log.write(f"$ cohabit {' '.join(words)}\n{done.stdout}{done.stderr}exit {done.returncode}\n\n")
        return done.returncode, monotonic() - began

    def must(self, *words: str) -> float:
        """As run, of a command that has to end well; its seconds."""
        code, seconds = self.run(*words)
        if code:
            raise RuntimeError(f"cohabit {' '.join(words)} ended with {code}; see {self.folder / 'drill.log'}")
        return seconds

    def happened(self, what: str, hour: float, seconds: float = 0.0) -> None:
        """Write down what happened, and tell."""
        self.events.append((what, hour, seconds))
        print(f"  {hour:+6.1f} h  {what}" + (f"  ({seconds:.1f} s)" if seconds else ""), file=sys.stderr, flush=True)


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """One cluster: hours under one law, then under another, a check every hour."""
    with tempfile.TemporaryDirectory() as name:
        line = Line(Path(name))
        try:
            return {OURS: _drill(line, arguments)}
        finally:
            if arguments.log is not None:
                arguments.log.write_text((line.folder / "drill.log").read_text())


def _drill(line: Line, arguments: Namespace) -> dict[str, float]:
    hours = _hours(line.folder / "stream", arguments)
    before, calm = arguments.before, 0
    for _ in range(before - 2):
        next(hours)
    _land(line)
    line.must("model", "train", "--name", FIRST)
    line.must("refresh", str(line.folder / "stream"))
    with _served(line) as serving:
        for hour in (-2, -1):
            next(hours)
            _land(line)
            calm += line.run("model", "drift")[0] == 0
            line.run("model", "recalibrate")
            line.happened(f"checked, state {serving.state():.0f}", float(hour + 1))
        found = _after(line, hours, serving)
    return {**found, "calm_checks": calm, "calm_checks_of": 2}


def _after(line: Line, hours: Iterator[None], serving: "Serving") -> dict[str, float]:
    """What happens from the change on."""
    state = 0.0
    for hour in range(1, PATIENCE_H + 1):
        next(hours)
        _land(line)
        code, seconds = line.run("model", "drift")
        line.run("model", "recalibrate")
        now = serving.until_settled(state)
        if code and state == now == 0:
            line.happened("alarm", float(hour), seconds)
        if now != state:
            if code and state == 0:
                line.happened("alarm", float(hour), seconds)
            line.happened({0.0: "believed", 1.0: "widened", 2.0: "fallen back"}[now], float(hour))
            state = now
        if state == 2.0:
            break
    else:
        return _figures(line, refused=0, rolled_back=0)
    source = serving.source()
    line.happened(f"answers come from {source}", float(hour))
    until = _newest(line)
    line.happened(
        "retrained", float(hour), line.must("model", "train", "--until", f"{until:%Y-%m-%dT%H:%M:%S}", "--name", AGAIN)
    )
    _invert(line, until)
    next(hours)
    _land(line)
    hour += 1
    bad = line.run("model", "gate", BAD)[0], line.run("model", "promote", BAD)[0]
    line.happened("bad challenger judged", float(hour))
    code, seconds = line.run("model", "gate", AGAIN)
    line.happened("passed" if not code else "refused", float(hour), seconds)
    if code:
        return _figures(line, refused=int(bad == (1, 1)), rolled_back=0)
    line.happened("promoted", float(hour), line.must("model", "promote", AGAIN))
    after = serving.until_settled(2.0)
    line.run("model", "drift")
    line.happened(f"checked again, state {serving.state():.0f}, answers come from {serving.source()}", float(hour))
    line.happened("rolled back", float(hour), line.must("model", "rollback"))
    current = line.registry.current()
    back = current is not None and trained_name(current.name) == FIRST
    return _figures(line, refused=int(bad == (1, 1)), rolled_back=int(back)) | {
        "served_by_load": float(source == "heuristic"),
        "believed_after": float(after == 0),
    }


def _figures(line: Line, *, refused: int, rolled_back: int) -> dict[str, float]:
    at = {name: (number, hour) for number, (name, hour, _) in reversed(list(enumerate(line.events)))}
    there = [at[name] for name in ORDER if name in at]
    seconds = {name: took for name, _, took in line.events if took}
    return {
        "in_order": float(len(there) == len(ORDER) and there == sorted(there)),
        **{f"{name.replace(' ', '_')}_hours": at[name][1] for name in ORDER if name in at},
        "bad_refused": refused,
        "rolled_back": rolled_back,
        **{f"{name.replace(' ', '_')}_s": took for name, took in seconds.items()},
    }


def _hours(folder: Path, arguments: Namespace) -> Iterator[None]:
    """Write an hour of the stream at a time; at the change apps begin to suffer from what they did not mind before."""
    whole = arguments.before + PATIENCE_H + 2
    start = (datetime.now(UTC) - timedelta(days=2)).replace(hour=STARTS_AT, minute=0, second=0, microsecond=0)
    plan = Plan(nodes=arguments.nodes, apps=12, per_node=10, hours=whole, seed=arguments.seed, start=start)
    apps = hidden_apps(plan)
    most, least = apps.sensitivity.max(axis=0), apps.sensitivity.min(axis=0)
    turned = replace(apps, sensitivity=arguments.factor * (most + least - apps.sensitivity))
    steps = round(3600 / plan.interval_s)
    later = Later(arguments.before * steps, LAWS[arguments.then](turned))
    flags = tuple(apps.best_effort.tolist())
    for number, (messages, _) in enumerate(simulate(plan, LAWS[plan.law](apps), flags, later), 1):
        write_messages(folder, messages)
        if number % steps == 0:
            yield


def _land(line: Line) -> None:
    line.must("ingest", str(line.folder / "stream"))
    line.must("features")


def _newest(line: Line) -> datetime:
    """End of the newest window with a label."""
    newest: datetime = pc.max(_lake(line).read("training", columns=["window_end"])["window_end"]).as_py()
    return newest


def _lake(line: Line) -> Lake:
    return Lake.open(str(line.folder / "lake"), TABLES)


def _invert(line: Line, until: datetime) -> None:
    """A challenger that learnt the opposite of what is true."""
    table = training_table(_lake(line), until + timedelta(microseconds=1))
    at = table.column_names.index("log_slowdown")
    inverted = table.set_column(at, "log_slowdown", pc.negate(table["log_slowdown"]))
    birth = Birth(BAD, promoted=False)
    train_bundle(inverted, line.registry, datetime.now(UTC), {}, DEFAULT_EFFORT, birth=birth)


@dataclass(frozen=True)
class Serving:
    """A server that runs: its addresses, for people and for schedulers."""

    people: str
    schedulers: str

    def state(self) -> float:
        """How far it believes the model: 0 fine, 1 widened, 2 by load."""
        return self._gauge(r"^cohabit_drift_state (\S+)")

    def until_settled(self, before: float) -> float:
        """The state once it has changed, or after some seconds in which it did not."""
        ends = monotonic() + 5.0
        while monotonic() < ends and self.state() == before:
            sleep(0.2)
        return self.state()

    def source(self) -> str:
        """Who answers a scheduler now."""
        before = self._answers()
        ends = monotonic() + TAKEN_UP_S
        while monotonic() < ends:
            self._ask()
            sleep(0.5)
            more = {name: count - before.get(name, 0.0) for name, count in self._answers().items()}
            told = [name for name, count in more.items() if count > 0 and name in {"table", "heuristic"}]
            if told:
                return max(told, key=lambda name: more[name])
        return "nobody"

    def _ask(self) -> None:
        pod = {"metadata": {"name": "x", "uid": "x", "labels": {"app": "app-003"}}}
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": ["node-0000", "node-0001"]}).encode()
        with urlopen(Request(f"{self.schedulers}/extender/prioritize", body), timeout=10) as answer:  # noqa: S310
            answer.read()

    def _answers(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for source, count in re.findall(
            r'^cohabit_score_requests_total{.*source="(\w+)"} (\S+)', self._metrics(), re.M
        ):
            found[source] = found.get(source, 0.0) + float(count)
        return found

    def _gauge(self, pattern: str) -> float:
        return float(re.findall(pattern, self._metrics(), re.M)[0])

    def _metrics(self) -> str:
        with urlopen(f"{self.people}/metrics", timeout=10) as answer:  # noqa: S310
            return str(answer.read().decode())


@contextmanager
def _served(line: Line) -> Iterator[Serving]:
    command = [sys.executable, "-m", "cohabit", "serve", "--port", "0", "--scheduler-port", "0"]
    with subprocess.Popen(command, env=line.environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None:
                raise RuntimeError("the server has no output")
            people, schedulers = re.findall(r"http://[\d.:]+", process.stdout.readline())
            yield Serving(people, schedulers)
        finally:
            process.terminate()


def add_arguments(parser: ArgumentParser) -> None:
    """Options of the benchmark."""
    whole: Callable[[str], int] = int
    parser.add_argument("--nodes", type=whole, default=12)
    parser.add_argument("--before", type=whole, default=10, help="hours before the change")
    parser.add_argument("--factor", type=float, default=2.0, help="by which sensitivities grow at the change")
    parser.add_argument("--then", choices=tuple(LAWS), default="threshold", help="law that holds from then on")
    parser.add_argument("--seed", type=whole, default=11)
    parser.add_argument("--log", type=Path, help="file that gets what all commands printed")


BENCHMARK = Benchmark(
    "drill",
    "apps begin to suffer otherwise: alarm, widening, fallback, retraining, gate, promotion, rollback",
    run,
    1,
    add_arguments,
)
