"""Carried out: a simulated cluster in which plans are carried out, and what would have been without them.

Who comes and goes does not depend on what is done, so that the same interval can be told as it was and as it would have
been without a plan, exactly.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event as Word

import numpy as np
from prometheus_client import CollectorRegistry

from advisor.remediation.action import Kind
from advisor.remediation.benefit import degradation
from advisor.scoring.score_scale import BE_WEIGHT
from benchmarks.antagonists import ARRIVE_S, CLUSTER, DECOYS, EVERY_S, LOUD, LOUD_SHARE, Cast
from cohabit.ingestion.simulation import write_messages
from cohabit.refresh.live_state import LiveState
from cohabit.refresh.main import Refresh, refresh_from_files
from cohabit.terminal.locations import TOPICS
from features.jobs.job_plan import whole_stretch
from features.jobs.local_job import run_local
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.simulator.law import HIDDEN, Apps, Floats, counters
from ingest.simulator.laws import LAWS
from ingest.simulator.messages import Faults, describe_events, describe_nodes, describe_usage
from ingest.simulator.simulate import InFlight
from ingest.simulator.simulated_cluster import (
    Action,
    Container,
    Event,
    Place,
    Records,
    Remove,
    apply,
    crowding,
    empty_cluster,
    load_at,
    neighbour_load,
)

START_S = 1_772_409_600.0
INTERVAL_S = 60.0
CHURN_PER_HOUR = 0.5
STAYS_S = 4 * 3600.0
"""How long a loud container stays, if nobody moves it."""
HELD_BY: dict[Kind, str] = {
    "cpu.max": "cpu",
    "cache class": "llc",
    "bandwidth class": "memory_bandwidth",
    "io.max": "disk",
    "network limit": "net",
}
"""Which of the law's resources a throttle holds back; memory is none of them."""
Throttles = Mapping[str, tuple[int, float]]
"""By uid: number of the hidden resource, and the share of its use that is left."""


@dataclass(frozen=True)
class Moment:
    """One interval as it was.

    Args:
        time_s: its end.
        containers: who ran where.
        throttles: who was held back.
    """

    time_s: float
    containers: tuple[Container, ...]
    throttles: Throttles


@dataclass(frozen=True)
class Undone:
    """What is taken back of a moment, to tell what would have been.

    Args:
        node: by uid, where a container would be.
        free: uids of those who would not be held back.
        of: uids of all of them, in the order it was done.
    """

    node: Mapping[str, int]
    free: frozenset[str]
    of: tuple[str, ...] = ()


@dataclass
class Played:
    """The cluster, moment after moment.

    Args:
        law: name of it.
        cast: what is played.
        folder: gets the stream and the lake.
        seed: of everything that is drawn.
    """

    law: str
    cast: Cast
    folder: Path
    seed: int
    moments: list[Moment] = field(default_factory=list)
    throttles: dict[str, tuple[int, float]] = field(default_factory=dict)
    _events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        """An empty cluster, as it describes itself."""
        self._rng, self._flying = np.random.default_rng([self.seed, 41]), InFlight()
        self.state = empty_cluster(self.cast.nodes, self.cast.best_effort, START_S)
        self._flying.send(describe_nodes(self.state, CLUSTER))
        self.lake = Lake.open(self.folder / "lake", TABLES)
        self._live = LiveState(CLUSTER, lambda: round(self.state.time_s * 1e6))
        self._number = 0

    @property
    def now_us(self) -> int:
        """The time."""
        return round(self.state.time_s * 1e6)

    def play(self, until_s: float) -> None:
        """Go on until so many seconds after the start."""
        while self.state.time_s < START_S + until_s:
            self._step()
        write_messages(self.folder / "stream", self._flying.arrived(self.state.time_s * 1000))

    def look(self) -> None:
        """Land what has arrived, compute features, publish a snapshot."""
        stream = self.folder / "stream"
        metrics = IngestMetrics(CollectorRegistry())
        ingest_files(stream, TOPICS, self.lake, stop=Word(), metrics=metrics)
        stretch = whole_stretch(self.lake)
        assert stretch is not None  # noqa: S101 - something has landed
        run_local(self.lake, stretch, lambda _table, _rows: None)
        self._number += 1
        how = Refresh(self.folder / "snapshots", 0.0, self._number)
        refresh_from_files(stream, TOPICS, self._live, self.lake, how, published=lambda *_: None)

    def move(self, uid: str, node: int) -> str:
        """Start a container anew elsewhere; the uid that it gets."""
        one = next(c for c in self.state.containers if c.uid == uid)
        self.state, events = apply(self.state, [Remove(uid), Place(one.app, node)])
        self._events += events
        return self.state.containers[-1].uid

    def hold_back(self, uid: str, kind: Kind, kept: float) -> None:
        """Throttle a container from now on."""
        if kind in HELD_BY:
            self.throttles[uid] = (HIDDEN.index(HELD_BY[kind]), kept)

    def _step(self) -> None:
        state, events = apply(self.state, self._changes())
        now_s = state.time_s + INTERVAL_S
        self.state = replace(state, time_s=now_s)
        moment = Moment(now_s, state.containers, dict(self.throttles))
        apps, code = _apps_of(self.cast.apps, moment)
        load, node = _loads(moment), np.array([c.node for c in state.containers])
        law = LAWS[self.law](apps)
        neighbours = neighbour_load(code, node, load, len(apps.cpi))
        slowdown = law.slowdown(code, neighbours, load, state.platform[node])
        signals = counters(apps, code, load, slowdown=slowdown, platform=state.platform[node], rng=self._rng)
        records = Records(now_s, (*self._events, *events), state.containers, signals)
        self._events = ()
        self._flying.send(describe_events(records, INTERVAL_S, self.cast.best_effort, CLUSTER))
        self._flying.send(
            describe_usage(
                records,
                INTERVAL_S,
                self.cast.best_effort,
                cluster=CLUSTER,
                faults=Faults(),
                seed=self.seed,
                rng=self._rng,
            )
        )
        self.moments.append(moment)

    def _changes(self) -> Sequence[Action]:
        """Quiet containers that go and others that come; loud ones once an hour."""
        rng, state, since_s = self._rng, self.state, self.state.time_s - START_S
        if not state.containers:
            counts = np.round(self.cast.per_node * crowding(state)).astype(int).tolist()
            return [self._quiet(node) for node, count in enumerate(counts) for _ in range(count)]
        quiet = [c.uid for c in state.containers if c.app < self.cast.quiet]
        come = self._arrivals(since_s)
        new = sum(place.app < self.cast.quiet for place in come)
        leave = min(len(quiet), int(rng.binomial(len(quiet), CHURN_PER_HOUR * INTERVAL_S / 3600)) + new)
        gone = [str(uid) for uid in rng.choice(quiet, leave, replace=False)]
        gone += [c.uid for c in state.containers if c.app >= self.cast.quiet and self._is_old(c)]
        weight = crowding(state) / crowding(state).sum()
        nodes = rng.choice(self.cast.nodes, leave - new, p=weight).tolist()
        return [*(Remove(uid) for uid in gone), *(self._quiet(node) for node in nodes), *come]

    def _is_old(self, one: Container) -> bool:
        return self.state.time_s - one.born_s >= STAYS_S

    def _quiet(self, node: int) -> Place:
        return Place(int(self._rng.integers(self.cast.quiet)), node)

    def _arrivals(self, since_s: float) -> list[Place]:
        if not self.cast.loud or since_s % EVERY_S != ARRIVE_S:
            return []
        found = list[Place]()
        share = LOUD_SHARE * EVERY_S / STAYS_S * 2
        for node in self._rng.choice(self.cast.nodes, round(share * self.cast.nodes), replace=False).tolist():
            found.append(Place(self.cast.quiet + int(self._rng.integers(len(LOUD))), node))
            found += [self._quiet(node) for _ in range(DECOYS)]
        return found


def slowdowns(law: str, cast: Cast, moment: Moment, undone: Undone | None = None) -> dict[str, float]:
    """True slowdowns of a moment by uid, as it was or with something taken back."""
    if undone is not None:
        containers = tuple(replace(c, node=undone.node.get(c.uid, c.node)) for c in moment.containers)
        left = {uid: how for uid, how in moment.throttles.items() if uid not in undone.free}
        moment = Moment(moment.time_s, containers, left)
    apps, code = _apps_of(cast.apps, moment)
    load, node = _loads(moment), np.array([c.node for c in moment.containers])
    platform = empty_cluster(cast.nodes, cast.best_effort, 0.0).platform[node]
    found = LAWS[law](apps).slowdown(code, neighbour_load(code, node, load, len(apps.cpi)), load, platform)
    return {c.uid: float(x) for c, x in zip(moment.containers, found, strict=True)}


def cost_of(cast: Cast, moment: Moment, slowdown: Mapping[str, float]) -> float:
    """What everybody's true slowdown costs in an hour, as gains are counted."""
    calm = np.array([cast.best_effort[c.app] for c in moment.containers])
    ratio = np.array([slowdown[c.uid] for c in moment.containers])
    return float(np.where(calm, BE_WEIGHT * np.maximum(ratio - 1.0, 0.0), degradation(ratio)).sum())


def saved(law: str, cast: Cast, moments: Collection[Moment], undone: Undone) -> float:
    """Mean cost an hour that was saved by what is taken back."""
    gains = [
        cost_of(cast, one, slowdowns(law, cast, one, undone)) - cost_of(cast, one, slowdowns(law, cast, one))
        for one in moments
    ]
    return float(np.mean(gains))


def _loads(moment: Moment) -> Floats:
    return load_at(np.array([c.app for c in moment.containers], np.int64), moment.time_s)


def _apps_of(apps: Apps, moment: Moment) -> tuple[Apps, np.ndarray]:
    """All apps, behind them each container that is held back as one of its own, and (n,) whose is whose."""
    held = [c for c in moment.containers if c.uid in moment.throttles]
    code = np.array([c.app for c in moment.containers], np.int64)
    if not held:
        return apps, code
    rows = np.array([c.app for c in held])
    longer = {name: np.concatenate([getattr(apps, name), getattr(apps, name)[rows]]) for name in Apps.__slots__}
    for number, one in enumerate(held, len(apps.cpi)):
        resource, kept = moment.throttles[one.uid]
        longer["demand"][number, resource] *= kept
        longer["pressure"][number, resource] *= kept
        code[[c.uid == one.uid for c in moment.containers]] = number
    return Apps(**longer), code
