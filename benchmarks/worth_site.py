"""A site of which the worth of advice is known: each decision is also taken the other way, and both ways lived on.

Under the simulator's laws, in five-minute steps. What is drawn, arrivals, ends, arms, tempers and noise of measurement,
is drawn before and the same in every branch, so that two branches differ by one decision and what follows from it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from features.labels.violation_minutes import WINDOW_MINUTES, Windows, neighbour_minutes, own_minutes
from ingest.simulator.law import PLATFORMS, Apps, Law, capacities_of, draw_apps
from ingest.simulator.laws import LAWS
from ingest.simulator.simulated_cluster import DAY_S, load_at

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
STEP_S = 300.0
HORIZON = 12
"""Steps: an hour."""
SHORTEST, LONGEST = 8, 40
"""Steps that a pod lives: forty minutes to three hours and twenty."""
TYPICAL = np.array([0.9, 1.6, 1.4, 0.5, 0.5])
"""What a typical app minds of each hidden resource; the advice knows no more of apps."""
RING = LONGEST + HORIZON
"""Places of pods; one is not taken again before nobody asks for who had it."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What an experiment is drawn from.

    Args:
        decisions: pods that count, one every five minutes.
        nodes: nodes, three platforms in turn.
        apps: apps, every third best effort.
        law: how pods slow each other down, a name in LAWS.
        advised_share: of pods, the others are withheld the advice.
        own_terms: share of pods that the scheduler sends by its own terms, advised or not.
        noise: spread of the logarithm of a measured slowdown.
        limit: slowdown above which a minute counts.
    """

    decisions: int = 3500
    nodes: int = 9
    apps: int = 8
    law: str = "saturating"
    advised_share: float = 0.5
    own_terms: float = 0.2
    noise: float = 0.05
    limit: float = 1.25


@dataclass(frozen=True)
class Told:
    """An experiment and its truth, (n,) or (n, 2) each; column 0 is withheld, column 1 advised.

    Args:
        advised: (n,) the arm.
        outcome: (n,) violation-minutes as measured.
        complied: (n,) whether the pod landed on the node that was rated best.
        covariates: (n, k) known before the arm was drawn.
        potential: (n, 2) outcome in either arm, all else as it was.
        landing: (n, 2) whether it would have landed on the node that was rated best.
        everybody: (n,) violation-minutes of the whole site within the horizon that the advice would have avoided.
    """

    advised: Flags
    outcome: Floats
    complied: Flags
    covariates: Floats
    potential: Floats
    landing: Flags
    everybody: Floats


@dataclass
class Site:
    """One experiment as it goes on.

    Args:
        ground: what it is drawn from.
        rng: draws all of it, at the beginning.
    """

    ground: Ground
    rng: np.random.Generator
    apps: Apps = field(init=False)
    law: Law = field(init=False)

    def __post_init__(self) -> None:
        ground, rng = self.ground, self.rng
        self.apps = draw_apps(ground.apps, rng)
        self.law = LAWS[ground.law](self.apps)
        self.platform = np.arange(ground.nodes) % len(PLATFORMS)
        capacity = capacities_of(PLATFORMS)
        self.rated = self.apps.demand @ (TYPICAL / capacity).T
        self.asked = (self.apps.demand[:, 0] * rng.lognormal(0.0, 1.0, ground.apps))[:, None] / capacity[:, 0]
        self.steps = RING + ground.decisions + HORIZON
        self.app = rng.integers(ground.apps, size=self.steps)
        self.life = rng.integers(SHORTEST, LONGEST + 1, self.steps)
        self.advised = rng.random(self.steps) < ground.advised_share
        self.own_terms = rng.random(self.steps) < ground.own_terms
        self.noise = np.exp(ground.noise * rng.standard_normal((self.steps, RING)))

    def alive(self, step: int) -> Ints:
        """Pods that live in a step, oldest first; each stands at its number modulo RING."""
        pods = np.arange(max(0, step - LONGEST), step + 1)
        return pods[pods + self.life[pods] > step]

    def loads(self, pods: Ints, step: int) -> Floats:
        """(pods,) load of each pod in a step."""
        return load_at(self.app[pods], (step + 1) * STEP_S)

    def slowdown(self, node: Ints, pods: Ints, step: int) -> Floats:
        """(branches, pods) true slowdown of pods that stand on (branches, pods) nodes."""
        nodes, apps, app, load = self.ground.nodes, self.ground.apps, self.app[pods], self.loads(pods, step)
        at = np.arange(len(node))[:, None] * nodes + node
        weight = np.broadcast_to(load, node.shape).ravel()
        by_app = np.bincount((at * apps + app).ravel(), weight, minlength=len(node) * nodes * apps)
        beside = by_app.reshape(-1, apps)[at.ravel()]
        victim = np.broadcast_to(app, node.shape).ravel()
        beside[np.arange(len(victim)), victim] -= weight
        np.maximum(beside, 0.0, out=beside)
        return self.law.slowdown(victim, beside, weight, self.platform[node.ravel()]).reshape(node.shape)

    def choices(self, node: Ints, pods: Ints, step: int) -> tuple[Ints, Ints, Floats]:
        """(branches,) node that is least allocated, (branches,) the one rated best, and (branches, nodes) its costs."""
        at = np.arange(len(node))[:, None] * self.ground.nodes + node
        here = self.app[pods], self.platform[node]
        weights = self.asked[here], self.rated[here] * self.loads(pods, step)
        allocated, pressure = (self._by_node(at, weight) for weight in weights)
        return np.asarray(allocated.argmin(axis=1)), np.asarray(pressure.argmin(axis=1)), pressure

    def _by_node(self, at: Ints, weight: Floats) -> Floats:
        """(branches, nodes) sums of weights of pods."""
        sums = np.bincount(at.ravel(), weight.ravel(), minlength=len(at) * self.ground.nodes)
        return np.asarray(sums.reshape(len(at), -1), np.float64)

    def violates(self, slowdown: Floats, pods: Ints, step: int) -> Flags:
        """(branches, pods) whether the measured slowdown of a latency-sensitive pod is above the limit."""
        measured = slowdown * self.noise[step, pods % RING]
        found: Flags = (measured > self.ground.limit) & ~self.apps.best_effort[self.app[pods]]
        return found


@dataclass
class Kept:
    """What is counted, of `n` decisions in two arms.

    Args:
        n: decisions.
    """

    n: int

    def __post_init__(self) -> None:
        shape = (self.n, 2, RING)
        self.before_v, self.before_m = np.zeros(shape, np.int8), np.zeros(shape, np.int8)
        self.after_v, self.after_m = np.zeros(shape, np.int8), np.zeros(shape, np.int8)
        self.own_v, self.own_m = np.zeros((self.n, 2)), np.zeros((self.n, 2))
        self.node = np.zeros((self.n, 2), np.int64)
        self.best = np.zeros(self.n, np.int64)
        self.all_v = np.zeros((self.n, 2))
        self.covariates = np.zeros((self.n, 6))

    def outcome(self, best_effort: Flags) -> Floats:
        """(n, 2) violation-minutes; a best-effort pod has none of its own."""
        own = own_minutes(Windows(self.own_v.ravel(), self.own_m.ravel()))
        number = np.repeat(np.arange(2 * self.n), RING)
        before, after = (
            Windows(v.ravel().astype(np.float64), m.ravel().astype(np.float64))
            for v, m in ((self.before_v, self.before_m), (self.after_v, self.after_m))
        )
        both = neighbour_minutes(number, before, after, 2 * self.n)
        return np.where(np.repeat(best_effort, 2), 0.0, own).reshape(-1, 2) + both.reshape(-1, 2)


@dataclass
class Lives:
    """What happened, and beside it what would have, had one decision been the other way.

    Args:
        site: what is drawn.
        kept: what is counted.
    """

    site: Site
    kept: Kept

    def __post_init__(self) -> None:
        self.place = np.zeros((1, RING), np.int64)
        """(branches, RING) node by pod; first what happened, then each recent decision the other way."""
        self.turned = np.zeros(0, np.int64)
        """(branches - 1,) step whose decision was the other way."""
        self.violated, self.measured = (np.zeros((HORIZON, RING), np.int8) for _ in range(2))
        """Of the last HORIZON steps as they happened."""

    def pass_step(self, step: int) -> None:
        """Let a pod come, and five minutes pass, in every branch."""
        lasts = self.turned > step - HORIZON
        self.place, self.turned = self.place[np.append(True, lasts)], self.turned[lasts]
        pods = self.site.alive(step)
        self._arrive(step, pods[:-1])
        at = pods % RING
        ill = np.zeros(self.place.shape, np.int8)
        ill[:, at] = self.site.violates(self.site.slowdown(self.place[:, at], pods, step), pods, step)
        sensitive = np.zeros(RING, np.int8)
        sensitive[at] = ~self.site.apps.best_effort[self.site.app[pods]]
        self.violated[step % HORIZON], self.measured[step % HORIZON] = ill[0], sensitive
        first, last = max(0, step - HORIZON + 1 - RING), min(self.kept.n, step - RING + 1)
        if first < last:
            self._count(first, last, ill, sensitive, step)

    def _arrive(self, step: int, others: Ints) -> None:
        """Decide in every branch by its own state, and for the pod itself both ways."""
        site, number = self.site, step - RING
        allocated, best, costs = site.choices(self.place[:, others % RING], others, step)
        follows = bool(site.advised[step]) and not site.own_terms[step]
        self.place[:, step % RING] = best if follows else allocated
        if not 0 <= number < self.kept.n:
            return
        ways = int(allocated[0]), int(allocated[0] if site.own_terms[step] else best[0])
        self.kept.node[number], self.kept.best[number] = ways, best[0]
        self.kept.covariates[number] = self._known(step, costs[0])
        self._before(number, others % RING)
        if ways[0] != ways[1]:
            other = self.place[:1].copy()
            other[0, step % RING] = ways[0] if follows else ways[1]
            self.place, self.turned = np.concatenate([self.place, other]), np.append(self.turned, step)

    def _known(self, step: int, costs: Floats) -> Floats:
        """(6,) what is known of a decision before its arm is drawn."""
        angle = 2 * np.pi * step * STEP_S / DAY_S
        best_effort = float(self.site.apps.best_effort[self.site.app[step]])
        share = self.violated.sum() / max(1, self.measured.sum())
        return np.array([best_effort, costs.min(), costs.mean(), np.sin(angle), np.cos(angle), share])

    def _before(self, number: int, at: Ints) -> None:
        """Note who stands on the node of either arm, and how they were before."""
        there = np.zeros((2, RING), np.int8)
        there[:, at] = self.place[0, at] == self.kept.node[number][:, None]
        self.kept.before_v[number] = there * self.violated.sum(axis=0, dtype=np.int8)
        self.kept.before_m[number] = there * self.measured.sum(axis=0, dtype=np.int8)

    def _count(self, first: int, last: int, ill: NDArray[np.int8], sensitive: NDArray[np.int8], step: int) -> None:
        """Count what happened to whom in this step, for each decision whose horizon is not over, in either arm."""
        kept, pod = self.kept, np.arange(first, last) + RING
        branch = np.zeros((len(pod), 2), np.int64)
        turned = self.turned - RING - first
        branch[turned, (~self.site.advised[self.turned]).astype(np.int64)] = 1 + np.arange(len(turned))
        now, own = ill[branch], pod % RING
        lives = pod + self.site.life[pod] > step
        kept.after_v[first:last] += now
        kept.after_m[first:last] += sensitive
        kept.all_v[first:last] += now.sum(axis=2)
        kept.own_v[first:last] += now[np.arange(len(pod)), :, own] * lives[:, None]
        kept.own_m[first:last] += (sensitive[own] * lives)[:, None]


def experiment(ground: Ground, rng: np.random.Generator) -> Told:
    """Draw a site, let it live, and every decision of it also the other way for an hour."""
    lives = Lives(Site(ground, rng), Kept(ground.decisions))
    for step in range(lives.site.steps):
        lives.pass_step(step)
    return _told(lives.site, lives.kept)


def _told(site: Site, kept: Kept) -> Told:
    pods = np.arange(RING, RING + kept.n)
    advised = site.advised[pods]
    potential = kept.outcome(site.apps.best_effort[site.app[pods]])
    landing = kept.node == kept.best[:, None]
    taken = np.arange(kept.n), advised.astype(np.int64)
    everybody = WINDOW_MINUTES * (kept.all_v[:, 0] - kept.all_v[:, 1])
    return Told(advised, potential[taken], landing[taken], kept.covariates, potential, landing, everybody)
