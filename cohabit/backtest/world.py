"""World: what a backtest is driven by: a law, the apps under it, what they request, and who may not share a node."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.backtest.pair_file import Pairs
from ingest.simulator.law import PLATFORMS, Apps, Floats, Ints, Law, capacities_of, draw_apps
from ingest.simulator.laws import LAWS
from ingest.simulator.pair_law import WHOLE_MACHINE, PairLaw, scale_of
from models.challengers.nmf_factors import factors

Flags = NDArray[np.bool_]
GB = 1e9
NODE_CORES = np.array([p.cores for p in PLATFORMS])
NODE_MEMORY = np.array([p.memory_bytes for p in PLATFORMS])
OVER_REQUEST = (1.0, 1.8)
"""Cores requested over what is used at full load, by app."""
BUILT_IN_APPS = 24
PAIR_SIZES = (4.0, 8.0)
"""Cores that workloads of a matrix request, by app."""
PAIR_USE = (0.5, 0.9)
"""What of it they use at full load."""
SIGNALS = 4
"""Resources that aggressors' factors are shown as: cache, memory bandwidth, disk and network."""
SIGNAL_NOISE = 0.2
LOUDEST = 0.5
"""Share of a machine's resource that the loudest workload uses, filling half of the machine."""


@dataclass(frozen=True)
class World:
    """One law over apps 0..a-1.

    Args:
        name: of the law, with its way to put pairs together.
        law: who slows whom down.
        best_effort: (a,) class of each app.
        request: (a, 2) cores and bytes of memory that a container of each requests.
        apart: (a, a) which two apps may not share a node; symmetric.
    """

    name: str
    law: Law
    best_effort: Flags
    request: Floats
    apart: Flags

    @property
    def apps(self) -> int:
        """How many there are."""
        return len(self.best_effort)


def built_in_world(law: str, seed: int) -> World:
    """A law of LAWS over apps drawn from a seed."""
    rng = np.random.default_rng([seed, 10])
    apps = draw_apps(BUILT_IN_APPS, np.random.default_rng([seed, 0]))
    request = _requested(apps.demand[:, 0] * rng.uniform(*OVER_REQUEST, BUILT_IN_APPS), apps)
    no_pairs = np.zeros((BUILT_IN_APPS, BUILT_IN_APPS), np.bool_)
    return World(law, LAWS[law](apps), apps.best_effort, request, no_pairs)


def pair_world(pairs: Pairs, compose: str, seed: int) -> World:
    """A matrix as a law; what its workloads request, and what counters show of them, is drawn from a seed.

    Args:
        pairs: measured.
        compose: how the harm of several adds up, a name in ingest.simulator.pair_law.COMPOSED.
        seed: draws requests, noise and what has nothing to do with interference.

    Returns:
        The world. Workloads that are aggressors only are BE. Two workloads may not share a node where one of them was
        not measured co-located with the other. Their counters show `alone`, else a factorisation of the slowdown they
        cause, with noise.

    Raises:
        Nothing; an unknown way to put pairs together fails when the law is asked.

    Source: ours, docs/decisions/0036-closed-loop.md.
    """
    count, rng = len(pairs.workloads), np.random.default_rng([seed, 11])
    excess = np.maximum(pairs.slowdown - 1.0, 0.0)
    cores = rng.choice(PAIR_SIZES, count)
    apps = _described(pairs, excess, cores, rng)
    size = WHOLE_MACHINE * cores[:, None] / NODE_CORES
    law = PairLaw(apps, np.nan_to_num(excess), scale_of(excess), size, compose)
    return World(f"{pairs.name}-{compose}", law, apps.best_effort, _requested(cores, apps), _apart(pairs))


def _requested(cores: Floats, apps: Apps) -> Floats:
    """(a, 2) cores in halves, and memory a quarter above what is used."""
    memory = GB * (1.0 + apps.demand[:, 0])
    return np.column_stack([np.ceil(2.0 * cores) / 2.0, 1.25 * memory])


def _apart(pairs: Pairs) -> Flags:
    """(a, a) whether a pair was not measured although one of it is a victim elsewhere."""
    measured = pairs.measured()
    degrades = measured.sum(axis=1) > 0
    unknown = degrades[:, None] & ~measured
    return np.asarray(unknown | unknown.T, np.bool_)


def _over_platforms(excess: Floats) -> Floats:
    """(a, a) means over the platforms that a pair was measured on; NaN where it was on none."""
    count = np.isfinite(excess).sum(axis=0)
    return np.where(count > 0, np.nansum(excess, axis=0) / np.maximum(count, 1), np.nan)


def _described(pairs: Pairs, excess: Floats, cores: Floats, rng: np.random.Generator) -> Apps:
    count = len(pairs.workloads)
    best_effort = pairs.measured().sum(axis=1) == 0
    machine = capacities_of(PLATFORMS)[0]
    loud = pairs.alone if pairs.alone is not None else factors(_over_platforms(excess).T, SIGNALS, rng)
    scaled = loud / np.maximum(np.nanmax(loud, axis=0, initial=0.0), np.finfo(np.float64).tiny)
    shown = scaled if pairs.alone is not None else scaled * rng.lognormal(0.0, SIGNAL_NOISE, scaled.shape)
    of_half = WHOLE_MACHINE * cores / PLATFORMS[0].cores
    others = LOUDEST * shown * of_half[:, None] * machine[1:]
    cpu = cores * rng.uniform(*PAIR_USE, count)
    serves = ~best_effort
    return Apps(
        demand=np.column_stack([cpu, others]),
        pressure=np.zeros((count, 1 + SIGNALS)),
        sensitivity=np.zeros((count, 1 + SIGNALS)),
        cpi=rng.uniform(0.6, 2.2, count),
        rt_ms=np.where(serves, rng.lognormal(2.0, 0.8, count), np.nan),
        qps=np.where(serves, rng.lognormal(5.0, 1.0, count), np.nan),
        cpi_blind=np.zeros(count, np.bool_),
        best_effort=best_effort,
    )


def platforms_of(nodes: int) -> Ints:
    """(n,) platform of each node, in turn, as `empty_cluster` has them."""
    return np.arange(nodes, dtype=np.int64) % len(PLATFORMS)
