"""Use ratios: how much of its request production uses, as a table, and a world that requests accordingly.

Computed by us from two public sets: CPU use of 16 machines by hour (Alibaba cluster trace 2018, machine_usage, eight
days) over the share of all cores that pods request (openb of Alibaba gpu-v2023, all pods of the list: 0.681).
Neither set has both sides, so that a ratio is that of a machine and hour, not of a container.
"""

from dataclasses import replace

import numpy as np

from cohabit.backtest.world import BUILT_IN_APPS, GB, World
from ingest.simulator.law import Apps, Floats, draw_apps
from ingest.simulator.laws import LAWS

QUANTILES = (0.10, 0.25, 0.50, 0.75, 0.90)
RATIOS = (0.083, 0.401, 0.528, 0.657, 0.785)
"""Use over request at these quantiles of machine-hours."""
MEAN_LOAD = 0.6
"""Of a day in the simulator, as a share of the peak."""
LARGEST_REQUEST = 16.0
"""Cores that a latency-sensitive container requests at most: half of the smallest node."""
SIZES = np.array([1.0, 2.0, 4.0])
"""Cores that best-effort pods request."""


def drawn_ratios(count: int, rng: np.random.Generator) -> Floats:
    """(count,) ratios of mean use to request, each in the range of RATIOS."""
    return np.interp(rng.uniform(QUANTILES[0], QUANTILES[-1], count), QUANTILES, RATIOS)


def offered_world(law: str, seed: int) -> World:
    """A law of LAWS over apps drawn from a seed, whose requests follow drawn_ratios.

    Args:
        law: name.
        seed: draws apps and ratios.

    Returns:
        The world. Latency-sensitive containers request their mean use over a ratio, in halves of a core; best-effort
        pods the least of SIZES that covers their use at full load, and those that would use more are cut to it.

    Raises:
        KeyError: no such law.

    Source: ours, docs/backtest.md.
    """
    apps = _cut(draw_apps(BUILT_IN_APPS, np.random.default_rng([seed, 0])))
    cores = apps.demand[:, 0]
    ratio = drawn_ratios(BUILT_IN_APPS, np.random.default_rng([seed, 40]))
    requested = np.minimum(np.ceil(2.0 * MEAN_LOAD * cores / ratio) / 2.0, LARGEST_REQUEST)
    size = SIZES[np.searchsorted(SIZES, cores[apps.best_effort])]
    requested[apps.best_effort] = size
    memory = 1.25 * GB * (1.0 + cores)
    no_pairs = np.zeros((BUILT_IN_APPS, BUILT_IN_APPS), np.bool_)
    return World(law, LAWS[law](apps), apps.best_effort, np.column_stack([requested, memory]), no_pairs)


def _cut(apps: Apps) -> Apps:
    """Best-effort apps use and press by no more cores than the largest size."""
    demand, pressure = apps.demand.copy(), apps.pressure.copy()
    share = np.where(apps.best_effort, np.minimum(1.0, SIZES[-1] / demand[:, 0]), 1.0)
    demand[:, 0] *= share
    pressure[:, 0] *= share
    return replace(apps, demand=demand, pressure=pressure)
