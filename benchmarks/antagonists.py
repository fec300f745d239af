"""Antagonists: a simulated cluster into which loud containers are put, and apart from it who really slowed whom down.

Beside each of them two quiet containers start at the same time, and others come and go, so that who came last is no
proof. Some containers are held back by their own limit, which nobody beside them is to blame for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import numpy as np
from prometheus_client import CollectorRegistry

from cohabit.ingestion.simulation import write_messages
from cohabit.terminal.locations import TOPICS
from features.jobs.job_plan import whole_stretch
from features.jobs.local_job import run_local
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.simulator.law import HIDDEN, PLATFORMS, Apps, Floats, Law, draw_apps
from ingest.simulator.laws import LAWS
from ingest.simulator.messages import Faults, describe_beats, describe_events, describe_nodes, describe_usage
from ingest.simulator.simulate import InFlight
from ingest.simulator.simulated_cluster import (
    Action,
    Container,
    Place,
    Records,
    Remove,
    State,
    crowding,
    empty_cluster,
    load_at,
    neighbour_load,
    step,
)
from ingest.simulator.stock import Stock, stock_records

CLUSTER = "antagonists"
START_S = 1_772_409_600.0
LOUD = np.array(
    [[0.3, 0.1, 0.7, 0.0, 0.0], [0.1, 0.8, 0.3, 0.0, 0.0], [0.1, 0.0, 0.1, 0.9, 0.1], [0.5, 0.3, 0.4, 0.0, 0.5]]
)
"""(kinds, hidden resources) of the smallest node, at full load."""
STAY_S, EVERY_S = 2100.0, 3600.0
"""How long a loud container stays, and how often each node gets one or is spared."""
LOUD_SHARE = 0.4
"""Of the nodes, each time."""
ARRIVE_S = 600.0
DECOYS = 2
CHURN_PER_HOUR = 1.0
HELD_SHARE, HELD_FRAC, HELD_SLOWS = 0.03, 0.2, 1.5
"""Of latency-sensitive containers, held back by their own limit for an hour: how many, how long, how much it costs."""
ILL_SHARE, ILL_SLOWS = 0.06, 1.6
"""The same of those that are slow for a reason of their own that nothing tells."""


@dataclass(frozen=True)
class Cast:
    """What is played.

    Args:
        law: by which containers slow each other down.
        apps: of them; the last len(LOUD) are loud.
        nodes: how many.
        per_node: quiet containers on each, about.
        hours: how long.
        interval_s: between metrics.
        loud: whether loud ones come.
        stock: what kubelets as they come show of the apps; None where apps report latency and counters.
    """

    law: Law
    apps: Apps
    nodes: int = 24
    per_node: int = 6
    hours: float = 10.0
    interval_s: float = 60.0
    loud: bool = True
    stock: Stock | None = None

    @property
    def best_effort(self) -> tuple[bool, ...]:
        """Of each app."""
        return tuple(self.apps.best_effort.tolist())

    @property
    def quiet(self) -> int:
        """Apps that are not loud."""
        return len(self.apps.cpi) - len(LOUD)


@dataclass(frozen=True)
class Scene:
    """What was there at one time, and what was true of it.

    Args:
        time_s: when.
        containers: who ran where.
        held: uids of those whose own limit held them back.
        ill: uids of those that were slow for a reason of their own.
        slowdown: (n,) true ratios.
    """

    time_s: float
    containers: tuple[Container, ...]
    held: frozenset[str]
    ill: frozenset[str]
    slowdown: Floats


def cast_of(law: str, seed: int, *, loud: bool, per_node: int, hours: float, kinds: Floats = LOUD) -> Cast:
    """A cluster of drawn apps and the loud ones, of len(LOUD) kinds."""
    apps = draw_apps(24, np.random.default_rng([seed, 30]))
    smallest = PLATFORMS[0]
    node = [
        smallest.cores,
        smallest.llc_bytes,
        smallest.memory_bandwidth_bytes_s,
        smallest.disk_bytes_s,
        smallest.nic_bytes_s,
    ]
    k, demand = len(kinds), kinds * np.array(node)
    joined = Apps(
        demand=np.vstack([apps.demand, demand]),
        pressure=np.vstack([apps.pressure, demand]),
        sensitivity=np.vstack([apps.sensitivity, np.full((k, len(HIDDEN)), 0.1)]),
        cpi=np.append(apps.cpi, np.ones(k)),
        rt_ms=np.append(apps.rt_ms, np.full(k, np.nan)),
        qps=np.append(apps.qps, np.full(k, np.nan)),
        cpi_blind=np.append(apps.cpi_blind, np.zeros(k, np.bool_)),
        best_effort=np.append(apps.best_effort, np.ones(k, np.bool_)),
    )
    return Cast(LAWS[law](joined), joined, per_node=per_node, hours=hours, loud=loud)


def played(cast: Cast, folder: Path, seed: int) -> tuple[Lake, list[Scene]]:
    """Play it, land what it sends, compute features; and what was true, interval by interval."""
    rng, sending, scenes = np.random.default_rng([seed, 31]), InFlight(), list[Scene]()
    held = ill = frozenset[str]()
    state = empty_cluster(cast.nodes, cast.best_effort, START_S)
    sending.send(describe_nodes(state, CLUSTER))
    for number in range(round(cast.hours * 3600 / cast.interval_s)):
        now_s = number * cast.interval_s
        actions = _changes(cast, state, now_s, rng) if number else _filled(cast, state, rng)
        state, records, truth = step(state, actions, law=cast.law, interval_s=cast.interval_s, rng=rng)
        if now_s % EVERY_S == 0:
            held, ill = (_some(cast, records.containers, share, rng) for share in (HELD_SHARE, ILL_SHARE))
        scenes.append(Scene(truth.time_s, truth.containers, held, ill - held, truth.slowdown))
        shown = _shown(cast, records, state, rng, held=held, ill=ill - held)
        limits = None if cast.stock is None else cast.stock.limit_cores
        sending.send(describe_events(shown, cast.interval_s, cast.best_effort, CLUSTER, limits))
        usage = describe_usage(
            shown, cast.interval_s, cast.best_effort, cluster=CLUSTER, faults=Faults(), seed=seed, rng=rng
        )
        sending.send(usage)
        if shown.waited is not None:
            sending.send(describe_beats(state, cast.interval_s, CLUSTER, shown.waited))
        write_messages(folder / "stream", sending.arrived(state.time_s * 1000))
    write_messages(folder / "stream", sending.arrived(float("inf")))
    lake = Lake.open(folder / "lake", TABLES)
    landed(folder / "stream", lake)
    return lake, scenes


def truly_added(cast: Cast, scene: Scene, victim: int) -> dict[str, float]:
    """By uid of each neighbour, how much less the victim would be slowed down without it; the victim's number given."""
    place = np.array([c.node for c in scene.containers]) == scene.containers[victim].node
    there = [c for c, here in zip(scene.containers, place.tolist(), strict=True) if here]
    app = np.array([c.app for c in there])
    load = load_at(app, scene.time_s)
    one = there.index(scene.containers[victim])
    platform = np.array([scene.containers[victim].node % len(PLATFORMS)])

    def suffered(but: int | None) -> float:
        left = [i for i in range(len(there)) if i != but]
        neighbours = neighbour_load(app[left], np.zeros(len(left), np.int64), load[left], len(cast.best_effort))
        row = left.index(one)
        return float(cast.law.slowdown(app[[one]], neighbours[[row]], load[[one]], platform)[0])

    whole = suffered(None)
    return {c.uid: whole - suffered(i) for i, c in enumerate(there) if i != one}


def _filled(cast: Cast, state: State, rng: np.random.Generator) -> Sequence[Action]:
    counts = np.round(cast.per_node * crowding(state)).astype(int)
    return [_quiet(cast, node, rng) for node, count in enumerate(counts.tolist()) for _ in range(count)]


def _quiet(cast: Cast, node: int, rng: np.random.Generator) -> Place:
    return Place(int(rng.integers(cast.quiet)), node)


def _changes(cast: Cast, state: State, now_s: float, rng: np.random.Generator) -> Sequence[Action]:
    """Quiet containers that go, others that come elsewhere; loud ones that stayed long enough, and others."""
    rate = CHURN_PER_HOUR * cast.interval_s / 3600
    quiet = [c.uid for c in state.containers if c.app < cast.quiet]
    arrivals = _arrivals(cast, now_s, rng)
    leave = min(len(quiet), int(rng.binomial(len(quiet), rate)) + sum(place.app < cast.quiet for place in arrivals))
    nodes = rng.choice(cast.nodes, leave, p=crowding(state) / crowding(state).sum()).tolist()
    gone = [str(uid) for uid in rng.choice(quiet, leave, replace=False)]
    gone += [c.uid for c in state.containers if c.app >= cast.quiet and state.time_s - c.born_s >= STAY_S]
    come = [_quiet(cast, node, rng) for node in nodes[: leave - sum(place.app < cast.quiet for place in arrivals)]]
    return [*(Remove(uid) for uid in gone), *come, *arrivals]


def _arrivals(cast: Cast, now_s: float, rng: np.random.Generator) -> list[Place]:
    """Once an hour loud containers on some nodes, one or two of different kinds, each time with quiet ones."""
    if not (cast.loud and now_s % EVERY_S == ARRIVE_S):
        return []
    found = list[Place]()
    for node in rng.choice(cast.nodes, round(LOUD_SHARE * cast.nodes), replace=False).tolist():
        kinds = rng.choice(len(LOUD), int(rng.integers(1, 3)), replace=False).tolist()
        found += [Place(cast.quiet + kind, node) for kind in kinds]
        found += [_quiet(cast, node, rng) for _ in range(DECOYS)]
    return found


def _some(cast: Cast, containers: tuple[Container, ...], share: float, rng: np.random.Generator) -> frozenset[str]:
    """Uids of some latency-sensitive containers."""
    return frozenset(c.uid for c in containers if not cast.best_effort[c.app] and rng.random() < share)


def _shown(
    cast: Cast, records: Records, state: State, rng: np.random.Generator, *, held: frozenset[str], ill: frozenset[str]
) -> Records:
    """What exporters send; a kubelet knows nothing of those that are slow by themselves."""
    if cast.stock is None:
        return _held_back(_slowed(records, ill), held)
    shown = stock_records(records, state, cast.law, cast.stock, rng)
    flags = np.array([c.uid in held for c in records.containers], np.bool_)
    throttled, pressure = shown.signals["cpu_throttled_frac"], shown.signals["psi_cpu_some_frac"]
    more = {
        "cpu_throttled_frac": np.where(flags, np.fmax(throttled, HELD_FRAC), throttled),
        "psi_cpu_some_frac": np.where(flags, np.minimum(pressure + HELD_FRAC, 1.0), pressure),
    }
    return replace(shown, signals=shown.signals | more)


def _slowed(records: Records, ill: frozenset[str]) -> Records:
    """What is shown of those that are slow by themselves: everything that work takes takes longer."""
    slower = np.where([c.uid in ill for c in records.containers], ILL_SLOWS, 1.0)
    late = {name: records.signals[name] * slower for name in ("cpi", "cpu_us_per_request", "rt_mean_ms", "rt_p99_ms")}
    return replace(records, signals=records.signals | late)


def _held_back(records: Records, held: frozenset[str]) -> Records:
    """What is shown of those whose own limit holds them back."""
    flags = np.array([c.uid in held for c in records.containers], np.bool_)
    slower = np.where(flags, HELD_SLOWS, 1.0)
    late = {name: records.signals[name] * slower for name in ("rt_mean_ms", "rt_p99_ms")}
    return replace(records, signals=records.signals | late | {"cpu_throttled_frac": np.where(flags, HELD_FRAC, 0.0)})


def landed(folder: Path, lake: Lake) -> None:
    """Land stream files, and compute features."""
    ingest_files(folder, TOPICS, lake, stop=Event(), metrics=IngestMetrics(CollectorRegistry()))
    stretch = whole_stretch(lake)
    if stretch is None:
        raise SystemExit(f"{folder}: nothing was landed")
    run_local(lake, stretch, lambda _table, _rows: None)
