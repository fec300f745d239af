"""Loop: one policy places one trace's containers on one cluster, interval after interval; returns the outcome.

Kernel: the same world, trace, policy and seed give the same tally.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohabit.backtest.sight import CAPACITY, REMEMBERED, Measured, Policy, empty_sight
from cohabit.backtest.trace import Moment, Trace
from cohabit.backtest.world import World
from features.schema.catalog import RESOURCES
from ingest.simulator.law import Floats, Ints
from ingest.simulator.simulated_cluster import Action, Place, Records, Remove, State, Truth, empty_cluster, step, uid_of

START_S = 1_772_409_600.0
"""2 March 2026, 0:00 UTC."""
VIOLATED = 1.25
"""An LS container that is slower than this is in violation."""
MAX_OFFERED = 100
"""Feasible nodes that a scheduler has scored for one container; kube-scheduler looks for so many at least."""
LOOKED_AT = 4 * MAX_OFFERED
"""Nodes that are looked at together for some that are feasible."""
FINEST = np.geomspace(1.0, 50.0, 400)
"""Edges of the bins for quantiles of slowdown."""
FRESH = 0.3
"""Weight of the newest interval in what an app typically uses."""
Observer = Callable[[State, Records, Truth], None]
"""Callback for each interval: the cluster, its measurements, and the true slowdowns."""


@dataclass
class Tally:
    """Outcome of all containers, after the cluster was filled.

    Args:
        violation_minutes: of LS containers whose true slowdown was above VIOLATED.
        ls_minutes: of all LS containers.
        pending_minutes: of containers that no node could take.
        used_nodes: sum over intervals of nodes with residents.
        used_cores: sum over intervals of the share of the cluster's cores in use.
        requested: sum over intervals of the share of the cluster's cores requested.
        intervals: how many were counted.
        decisions: containers placed, also before.
        slowdowns: (bins + 1,) LS container-intervals by true slowdown, see FINEST.
    """

    violation_minutes: float = 0.0
    ls_minutes: float = 0.0
    pending_minutes: float = 0.0
    used_nodes: float = 0.0
    used_cores: float = 0.0
    requested: float = 0.0
    intervals: int = 0
    decisions: int = 0
    slowdowns: Ints = field(default_factory=lambda: np.zeros(len(FINEST) + 1, np.int64))

    def quantile(self, share: float) -> float:
        """True slowdown that a share of LS container-minutes stayed below, to the bin; 1 without any."""
        total = self.slowdowns.cumsum()
        at = int(np.searchsorted(total, share * total[-1]))
        return float(FINEST[min(at, len(FINEST) - 1)]) if total[-1] else 1.0


def run(
    world: World,
    trace: Trace,
    nodes: int,
    policy: Policy,
    *,
    rng: np.random.Generator,
    observe: Observer | None = None,
) -> Tally:
    """Let a policy place a trace's containers.

    Args:
        world: whose law is true.
        trace: who comes and goes.
        nodes: how many there are.
        policy: chooses.
        rng: noise of counters and draws among equals.
        observe: called for each interval.

    Returns:
        The tally.
    """
    cluster = _Cluster(world, trace, nodes, rng)
    for number, moment in enumerate(trace.moments):
        records, truth = cluster.advance(moment, number, policy)
        if observe is not None:
            observe(cluster.state, records, truth)
        if number >= trace.filling:
            cluster.count(records, truth)
    return cluster.tally


class _Cluster:
    """The cluster and its scheduler: jobs, where they are, and what is known of the nodes."""

    def __init__(self, world: World, trace: Trace, nodes: int, rng: np.random.Generator) -> None:
        self.world, self.trace, self.rng = world, trace, rng
        self.state = empty_cluster(nodes, world.best_effort.tolist(), START_S)
        self.sight = empty_sight(self.state.platform, world.best_effort, world.request)
        self.tally = Tally()
        self._where: dict[int, tuple[int, str]] = {}
        self._waiting: dict[int, None] = {}
        self._down_until = np.zeros(nodes, np.int64)
        self._up = np.ones(nodes, np.bool_)
        self._offset = 0
        self._last: Records | None = None

    def advance(self, moment: Moment, number: int, policy: Policy) -> tuple[Records, Truth]:
        """One interval: what the trace says, placements by the policy, and what happened."""
        for job in moment.ends:
            self._waiting.pop(job, None)
        ended = [job for job in moment.ends if job in self._where]
        again = [*(job for job in moment.restarts if job in self._where), *self._fail(moment.fails, number)]
        moved = [job for job in dict.fromkeys(again) if job not in moment.ends]
        removals: list[Action] = [self._remove(job) for job in (*ended, *moved)]
        self._waiting |= dict.fromkeys([*moved, *moment.starts])
        self._look()
        actions = [*removals, *self._placements(policy)]
        self.state, records, truth = step(
            self.state, actions, law=self.world.law, interval_s=self.trace.interval_s, rng=self.rng
        )
        self._last = records
        return records, truth

    def count(self, records: Records, truth: Truth) -> None:
        """Add an interval to the tally."""
        minutes, tally, sight = self.trace.interval_s / 60, self.tally, self.sight
        app = np.array([c.app for c in truth.containers], np.int64)
        slowdown = truth.slowdown[~self.world.best_effort[app]]
        tally.violation_minutes += minutes * int((slowdown > VIOLATED).sum())
        tally.ls_minutes += minutes * len(slowdown)
        tally.pending_minutes += minutes * len(self._waiting)
        tally.used_nodes += int((sight.counts.sum(axis=1) > 0).sum())
        tally.used_cores += float(np.nansum(records.signals["cpu_cores"]) / sight.capacity[:, 0].sum())
        tally.requested += float(sight.requested[:, 0].sum() / sight.capacity[:, 0].sum())
        tally.intervals += 1
        tally.slowdowns += np.bincount(np.searchsorted(FINEST, slowdown), minlength=len(FINEST) + 1)

    def _remove(self, job: int) -> Remove:
        node, uid = self._where.pop(job)
        app = self.trace.app[job]
        self.sight.counts[node, app] -= 1
        self.sight.requested[node] -= self.world.request[app]
        return Remove(uid)

    def _fail(self, shares: Sequence[float], number: int) -> list[int]:
        """Take nodes away; the jobs that were there."""
        nodes = {int(share * len(self._down_until)) for share in shares}
        self._down_until[list(nodes)] = number + self.trace.down
        self._up = self._down_until <= number
        return [job for job, (node, _) in self._where.items() if node in nodes] if nodes else []

    def _look(self) -> None:
        """Take up what was measured in the last interval, of those who are still there."""
        sight, last = self.sight, self._last
        sight.time_s = self.state.time_s
        if last is None or not last.containers:
            return
        metrics = measured_in(last)
        _learn(sight.typical, metrics.app, metrics.use)
        still = {uid for _, uid in self._where.values()}
        there = np.array([c.uid in still for c in last.containers], np.bool_)
        sight.residents = Measured(metrics.node[there], metrics.app[there], metrics.use[there])
        sight.measured = np.zeros_like(sight.counts)
        np.add.at(sight.measured, (sight.residents.node, sight.residents.app), 1)
        used = _by_node(sight.residents.node, sight.residents.use, len(sight.counts))
        sight.used = used / CAPACITY[sight.platform]
        sight.past_cpu = np.column_stack([sight.past_cpu[:, -REMEMBERED + 1 :], sight.used[:, 0]])

    def _placements(self, policy: Policy) -> list[Place]:
        """All waiting containers that fit on a node, in order of arrival."""
        placed, born = list[Place](), self.state.born
        self.sight.queue = tuple(int(self.trace.app[job]) for job in self._waiting)
        for job in list(self._waiting):
            app = int(self.trace.app[job])
            offered = self._offered(app)
            if not len(offered):
                continue
            node = int(offered[_cheapest(policy(self.sight, app, offered), self.rng)])
            del self._waiting[job]
            self._where[job] = node, uid_of(born + len(placed))
            self.sight.counts[node, app] += 1
            self.sight.requested[node] += self.world.request[app]
            placed.append(Place(app, node))
        self.tally.decisions += len(placed)
        return placed

    def _offered(self, app: int) -> Ints:
        """Feasible nodes: the next MAX_OFFERED after those that were offered last, as kube-scheduler looks around."""
        count, found = len(self._up), np.zeros(0, np.int64)
        for begin in range(0, count, LOOKED_AT):
            some = (self._offset + np.arange(begin, min(begin + LOOKED_AT, count))) % count
            found = np.append(found, some[self._takes(app, some)])
            if len(found) > MAX_OFFERED:
                self._offset = int(found[MAX_OFFERED - 1]) + 1
                return found[:MAX_OFFERED]
        return np.sort(found)

    def _takes(self, app: int, nodes: Ints) -> NDArray[np.bool_]:
        """(k,) whether each node could take another container of an app."""
        sight = self.sight
        free = sight.capacity[nodes] - sight.requested[nodes]
        fits = (free >= self.world.request[app]).all(axis=1) & self._up[nodes]
        return np.asarray(fits & (sight.counts[nodes] @ self.world.apart[app] == 0), np.bool_)


def _cheapest(costs: Floats, rng: np.random.Generator) -> int:
    """Position of the least cost, drawn among equals; of what is not known nothing is better."""
    known = np.where(np.isnan(costs), np.inf, costs)
    best = np.flatnonzero(known == known.min())
    return int(best[rng.integers(len(best))]) if len(best) > 1 else int(best[0])


def measured_in(records: Records) -> Measured:
    """All containers that were there, and the use of each."""
    return Measured(
        node=np.array([c.node for c in records.containers], np.int64),
        app=np.array([c.app for c in records.containers], np.int64),
        use=use_in(records.signals, len(records.containers)),
    )


def use_in(signals: Mapping[str, Floats], containers: int) -> Floats:
    """(n, resources) use of so many containers in absolute units, NaN where no signal has it."""
    unknown = np.full(containers, np.nan)
    return np.column_stack([np.sum([signals.get(c, unknown) for c in r.usage], axis=0) for r in RESOURCES])


def _by_node(node: Ints, use: Floats, nodes: int) -> Floats:
    """(n, resources) sums, of what is known."""
    known = np.nan_to_num(use)
    return np.column_stack([np.bincount(node, column, minlength=nodes) for column in known.T])


def _learn(typical: Floats, app: Ints, use: Floats) -> None:
    """Move what apps typically use towards what their containers use now."""
    count = np.bincount(app, minlength=len(typical))
    seen = np.flatnonzero(count)
    mean = _by_node(app, use, len(typical))[seen] / count[seen][:, None]
    mean[:, np.isnan(use).all(axis=0)] = np.nan
    old = typical[seen]
    typical[seen] = np.where(np.isnan(old), mean, (1 - FRESH) * old + FRESH * mean)
