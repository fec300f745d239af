"""Trace: which containers come, go and restart, and which nodes fail, independent of the policy. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.backtest.world import NODE_CORES, NODE_MEMORY, World, platforms_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LIFE_H = {"LS": 12.0, "BE": 4.0}
"""Mean life of a container by class; lives are exponential."""
DEPLOYS_PER_DAY = 2.0
"""How often an LS app replaces all its containers, per 24 h."""
DEPLOYED_OVER = 6
"""Intervals that a deploy is spread over."""
NODE_FAILS_PER_H = 1 / 400
DOWN_H = 1.0
FILLED_OVER_H = 1.0
"""The cluster fills up in so long; nothing is counted before."""
DENSEST, SLACK = 0.9, 0.95
"""Share requested of the smallest cluster that a trace must fit, and how full it may be there in any order."""
TRIES = 40
"""Apps drawn before nothing is found that fits."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What happens at the start of one interval.

    Args:
        starts: jobs that begin.
        ends: jobs that end.
        restarts: jobs whose container is replaced.
        fails: which nodes fail, as shares of the row of nodes in [0, 1).
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    restarts: tuple[int, ...]
    fails: tuple[float, ...]


@dataclass(frozen=True)
class Trace:
    """The same for every policy and every size of the cluster.

    Args:
        app: (jobs,) app of each job.
        moments: by interval.
        interval_s: length of an interval.
    """

    app: Ints
    moments: tuple[Moment, ...]
    interval_s: float

    @property
    def filling(self) -> int:
        """Intervals before anything is counted."""
        return round(FILLED_OVER_H * 3600 / self.interval_s)

    @property
    def down(self) -> int:
        """Intervals that a failed node stays away."""
        return round(DOWN_H * 3600 / self.interval_s)


def drawn_trace(
    world: World, *, nodes: int, requested: float, hours: float, interval_s: float, rng: np.random.Generator
) -> Trace:
    """Draw a trace that keeps a cluster as full as wished.

    Args:
        world: the apps and what they request.
        nodes: of the whole cluster.
        requested: share of its cores, or of its memory, whichever is more, that containers request, in (0, 1).
        hours: how long.
        interval_s: length of an interval.
        rng: draws apps, lives, deploys and failures.

    Returns:
        The trace. Jobs are begun wherever there is less than wished; those that would not fit a first-fit packing of
        the smallest cluster that is judged are not.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0036-closed-loop.md.
    """
    steps = round(hours * 3600 / interval_s)
    smallest = _FirstFit(world, max(1, round(nodes * requested / DENSEST)))
    wanted = requested * _capacity(nodes).sum(axis=0)
    life = np.where(world.best_effort, LIFE_H["BE"], LIFE_H["LS"]) * 3600 / interval_s
    apps: list[int] = []
    ends: list[list[int]] = [[] for _ in range(steps)]
    restarts: list[list[int]] = [[] for _ in range(steps)]
    alive: dict[int, None] = {}
    chance = DEPLOYS_PER_DAY * interval_s / 86400
    moments, taken = [], np.zeros(2)
    filling = max(1, round(FILLED_OVER_H * 3600 / interval_s))
    for step in range(steps):
        for job in ends[step]:
            del alive[job]
            taken = taken - world.request[apps[job]]
            smallest.leave(job, apps[job])
        starts = []
        goal = wanted * min(1.0, (step + 1) / filling)
        while (taken < goal).all() and (app := smallest.drawn(len(apps), rng)) >= 0:
            job, over = len(apps), step + 1 + int(rng.exponential(life[app]))
            apps.append(app)
            alive[job] = None
            taken = taken + world.request[app]
            starts.append(job)
            if over < steps:
                ends[over].append(job)
        deployed = np.flatnonzero((rng.random(world.apps) < chance) & ~world.best_effort)
        for job in (job for job in alive if apps[job] in deployed):
            restarts[min(step + int(rng.integers(DEPLOYED_OVER)), steps - 1)].append(job)
        fails = tuple(rng.random(rng.poisson(NODE_FAILS_PER_H * nodes * interval_s / 3600)).tolist())
        again = tuple(job for job in restarts[step] if job in alive and job not in starts)
        moments.append(Moment(tuple(starts), tuple(ends[step]), again, fails))
    return Trace(np.array(apps, np.int64), tuple(moments), interval_s)


def _capacity(nodes: int) -> Floats:
    """(n, 2) cores and memory."""
    platform = platforms_of(nodes)
    return np.column_stack([NODE_CORES[platform], NODE_MEMORY[platform]])


class _FirstFit:
    """The smallest cluster, packed in order of coming: what fits here should fit anywhere."""

    def __init__(self, world: World, nodes: int) -> None:
        self._world = world
        self._free = SLACK * _capacity(nodes)
        self._counts = np.zeros((nodes, world.apps))
        self._node: dict[int, int] = {}

    def drawn(self, job: int, rng: np.random.Generator) -> int:
        """App of the next job, which takes its place; -1 where nothing fits any more."""
        for app in rng.integers(self._world.apps, size=TRIES).tolist():
            fits = (self._free >= self._world.request[app]).all(axis=1) & ~(self._counts @ self._world.apart[app] > 0)
            if fits.any():
                node = int(fits.argmax())
                self._node[job] = node
                self._free[node] -= self._world.request[app]
                self._counts[node, app] += 1
                return int(app)
        return -1

    def leave(self, job: int, app: int) -> None:
        """A job ended."""
        node = self._node.pop(job)
        self._free[node] += self._world.request[app]
        self._counts[node, app] -= 1
