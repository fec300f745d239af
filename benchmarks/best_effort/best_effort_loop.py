"""Best-effort loop: one policy fills what nodes offer with pods that may be evicted; returns work done and violations.

Kernel: the same world, tape, offers, policy and seed give the same outcome. Latency-sensitive containers are never
moved.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.best_effort.resident_tape import INTERVAL_S, Stretch
from cohabit.backtest.closed_loop import VIOLATED, use_in
from cohabit.backtest.sight import CAPACITY, CPU, Measured
from cohabit.backtest.world import World, platforms_of
from ingest.simulator.law import Floats, Ints, counters
from ingest.simulator.simulated_cluster import load_at, neighbour_load

Flags = NDArray[np.bool_]
LIFE_H = 1.0
"""Mean life of a best-effort pod; lives are exponential."""
FILLED_OVER = 12
"""Intervals before anything is counted."""


@dataclass(frozen=True)
class View:
    """What a policy sees before an interval.

    Args:
        platform: (n,) of each node.
        room: (n,) cores offered and not booked.
        residents: latency-sensitive containers that are there, and their use when last measured; NaN of new ones.
        pods: best-effort pods that are there, likewise.
        size: (a,) cores that a pod of each app requests.
        queue: (q,) apps of the pods that wait, in order.
    """

    platform: Ints
    room: Floats
    residents: Measured
    pods: Measured
    size: Floats
    queue: Ints


Chooser = Callable[[View], Sequence[tuple[int, int]]]
"""A policy: position in the queue and node of each pod that starts; never more on a node than it has room for."""


def most_room(view: View) -> Sequence[tuple[int, int]]:
    """Each pod in turn goes where the offer has most left; one that fits nowhere lets others pass."""
    room, found = view.room.copy(), list[tuple[int, int]]()
    size = view.size[view.queue]
    for position, cores in enumerate(size.tolist()):
        node = int(room.argmax())
        if room[node] >= cores:
            room[node] -= cores
            found.append((position, node))
        elif room[node] < size.min():
            break
    return found


@dataclass
class Outcome:
    """After the cluster was filled.

    Args:
        core_hours: cores requested times hours, over the pod's slowdown, of pods that were not evicted.
        lost_core_hours: the same of those that were.
        violation_minutes: of latency-sensitive containers whose true slowdown is above VIOLATED.
        ls_minutes: of all of them.
        evictions: pods.
        by_app: (a,) core_hours.
        booked: sum over intervals of the share of cores booked.
        intervals: how many.
    """

    by_app: Floats
    lost_core_hours: float = 0.0
    violation_minutes: float = 0.0
    ls_minutes: float = 0.0
    evictions: int = 0
    booked: float = 0.0
    intervals: int = 0

    @property
    def core_hours(self) -> float:
        """Work that was not lost."""
        return float(self.by_app.sum())


class Queue:
    """Pods that wait, without end: app and life in intervals of each.

    As soon as one is placed another one comes: of the same app, or of any.
    """

    def __init__(self, world: World, pods: int, *, same_app: bool, rng: np.random.Generator) -> None:
        self._apps, self._rng, self._same_app = np.flatnonzero(world.best_effort), rng, same_app
        self._waiting = [self._drawn(app) for app in np.resize(self._apps, pods).tolist()]
        rng.shuffle(self._waiting)

    def apps(self) -> Ints:
        """(q,) in order."""
        return np.array([app for app, _ in self._waiting], np.int64)

    def take(self, positions: Sequence[int]) -> list[tuple[int, int]]:
        """Take some out, and let as many join."""
        taken, gone = [self._waiting[position] for position in positions], set(positions)
        self._waiting = [one for position, one in enumerate(self._waiting) if position not in gone]
        self._waiting += [self._drawn(app if self._same_app else int(self._rng.choice(self._apps))) for app, _ in taken]
        return taken

    def _drawn(self, app: int) -> tuple[int, int]:
        return app, 1 + int(self._rng.exponential(LIFE_H * 3600 / INTERVAL_S))


@dataclass
class _Pods:
    """Best-effort pods that run, row by row."""

    app: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    node: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    left: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    work: Floats = field(default_factory=lambda: np.zeros(0))
    use: Floats = field(default_factory=lambda: np.zeros((0, CAPACITY.shape[1])))

    def keep(self, rows: Flags) -> None:
        """Leave out all others."""
        for name in ("app", "node", "left", "work", "use"):
            setattr(self, name, getattr(self, name)[rows])

    def start(self, app: Ints, node: Ints, left: Ints) -> None:
        """Add some, of which nothing is measured yet."""
        count = len(app)
        self.app, self.node = np.append(self.app, app), np.append(self.node, node)
        self.left, self.work = np.append(self.left, left), np.append(self.work, np.zeros(count))
        self.use = np.concatenate([self.use, np.full((count, self.use.shape[1]), np.nan)])


def run_best_effort(
    world: World, tape: Sequence[Stretch], offers: Floats, chooser: Chooser, *, queue: Queue, rng: np.random.Generator
) -> Outcome:
    """Fill what nodes offer.

    Args:
        world: apps, requests and the law.
        tape: at least two stretches; pods start with the second one.
        offers: (n, t) cores that each node offers at the end of each stretch, 0 or more; NaN offers nothing.
        chooser: the policy.
        queue: of pods; it changes.
        rng: draws noise.

    Returns:
        The outcome. Where more is booked than offered, one pod per node and interval is evicted: that of which least
        work is lost per core freed.

    Raises:
        Nothing.

    Source: ours, docs/backtest.md.
    """
    cluster = _Cluster(world, len(offers), chooser, queue=queue, rng=rng)
    offered = np.nan_to_num(offers)
    for number in range(1, len(tape)):
        cluster.advance(tape[number - 1], tape[number], offered[:, number - 1], counted=number > FILLED_OVER)
    return cluster.outcome


class _Cluster:
    """Pods, the queue and what is counted."""

    def __init__(self, world: World, nodes: int, chooser: Chooser, *, queue: Queue, rng: np.random.Generator) -> None:
        self._world, self._chooser, self._rng = world, chooser, rng
        self._platform, self._size = platforms_of(nodes), world.request[:, 0]
        self._queue = queue
        self._pods = _Pods()
        self.outcome = Outcome(np.zeros(world.apps))

    def advance(self, before: Stretch, now: Stretch, offered: Floats, *, counted: bool) -> None:
        """One interval."""
        pods = self._pods
        pods.keep(pods.left > 0)
        self._evict(self._over(offered), counted=counted)
        self._start(self._chooser(self._view(before, now, offered)))
        self._let_pass(now, counted=counted)

    def _booked(self) -> Floats:
        pods = self._pods
        return np.bincount(pods.node, self._size[pods.app], minlength=len(self._platform)).astype(np.float64)

    def _over(self, offered: Floats) -> Ints:
        """The pod of each node that has to go."""
        pods, over = self._pods, self._booked() > offered
        lost = pods.work / self._size[pods.app]
        order = np.lexsort((lost, pods.node))
        nodes, first = np.unique(pods.node[order], return_index=True)
        return order[first[over[nodes]]]

    def _evict(self, rows: Ints, *, counted: bool) -> None:
        pods = self._pods
        if counted and len(rows):
            lost = np.bincount(pods.app[rows], pods.work[rows], minlength=self._world.apps)
            self.outcome.by_app -= lost
            self.outcome.lost_core_hours += float(lost.sum())
            self.outcome.evictions += len(rows)
        kept = np.ones(len(pods.app), np.bool_)
        kept[rows] = False
        pods.keep(kept)

    def _view(self, before: Stretch, now: Stretch, offered: Floats) -> View:
        pods = self._pods
        at = np.searchsorted(before.number, now.number)
        there = at < len(before.number)
        there[there] = before.number[at[there]] == now.number[there]
        use = np.full(now.use.shape, np.nan)
        use[there] = before.use[at[there]]
        return View(
            self._platform,
            np.maximum(offered - self._booked(), 0.0),
            Measured(now.node, now.app, use),
            Measured(pods.node, pods.app, pods.use),
            self._size,
            self._queue.apps(),
        )

    def _start(self, placed: Sequence[tuple[int, int]]) -> None:
        chosen = self._queue.take([position for position, _ in placed])
        app, life = (np.array(column, np.int64) for column in (zip(*chosen, strict=True) if chosen else ((), ())))
        self._pods.start(app, np.array([node for _, node in placed], np.int64), life)

    def _let_pass(self, now: Stretch, *, counted: bool) -> None:
        """What happens in truth."""
        pods, world, outcome = self._pods, self._world, self.outcome
        app, node = np.append(now.app, pods.app), np.append(now.node, pods.node)
        load, ls = load_at(app, now.time_s), len(now.app)
        slowdown = world.law.slowdown(app, neighbour_load(app, node, load, world.apps), load, self._platform[node])
        done = self._size[pods.app] * INTERVAL_S / 3600 / slowdown[ls:]
        pods.use = self._measured(load[ls:], slowdown[ls:])
        pods.left = pods.left - 1
        if counted:
            pods.work = pods.work + done
            outcome.by_app += np.bincount(pods.app, done, minlength=world.apps)
            outcome.violation_minutes += INTERVAL_S / 60 * int((slowdown[:ls] > VIOLATED).sum())
            outcome.ls_minutes += INTERVAL_S / 60 * ls
            outcome.booked += float(self._booked().sum() / CAPACITY[self._platform, CPU].sum())
            outcome.intervals += 1

    def _measured(self, load: Floats, slowdown: Floats) -> Floats:
        """(p, resources) what counters show of pods."""
        pods, apps = self._pods, self._world.law.apps
        platform = self._platform[pods.node]
        signals = counters(apps, pods.app, load, slowdown=slowdown, platform=platform, rng=self._rng)
        return use_in(signals, len(pods.app))
