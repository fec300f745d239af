"""Cooling: how long a search stays at which temperature. NumPy only.

A first, short search cools evenly and shows at which temperatures its costs fall. There a longer one stays longer: most
of an even schedule is spent where nothing is decided.
"""

from dataclasses import dataclass

import numpy as np

from advisor.optimizer.problem import Floats

BINS = 24
POWER = 0.7
"""Of the fall in cost over a step of log temperature, to which time is given in proportion."""
LEAST = 0.1
"""Share of the time that is divided evenly."""
TAIL, COLDER = 0.1, 0.01
"""Share of the time after the coldest of these temperatures, and the temperature at its end, as a share of that one."""


@dataclass(frozen=True)
class Cooling:
    """Temperatures of a search.

    Args:
        share: (s,) of the time, from 0 to 1, ascending.
        log_heat: (s,) log temperature at each; between them it is linear. Minus infinity takes nothing that costs more.
    """

    share: Floats
    log_heat: Floats

    def heat(self, share: float) -> float:
        """The temperature after a share of the time, in units of cost."""
        return float(np.exp(np.interp(share, self.share, self.log_heat)))


NO_HEAT = Cooling(np.zeros(1), np.full(1, -np.inf))


def even(hot: float, cold: float) -> Cooling:
    """From one temperature to another, falling by the same factor in the same time."""
    return Cooling(np.array([0.0, 1.0]), np.log([hot, cold]))


def learnt(log_heat: Floats, cost: Floats, most: float) -> Cooling:
    """Slow where the cost falls.

    Args:
        log_heat: (m,) log temperatures of an even search, m >= 1.
        cost: (m,) what the assignment cost at the end of each.
        most: falls above it do not count; what the start of the longer search costs, since heat that undoes a good
            start gains nothing when that is regained.

    Returns:
        Over the same temperatures, and a tail of colder ones.

    Raises:
        Nothing.

    Source: ours; that time belongs where the energy changes is what adaptive schedules have in common, Lam and Delosme,
    "An efficient simulated annealing schedule", 1988; Salamon et al., "Simulated annealing with constant thermodynamic
    speed", 1988.
    """
    edges = np.linspace(log_heat.min(), log_heat.max(), BINS + 1)
    bins = np.clip(np.searchsorted(edges, log_heat, side="right") - 1, 0, BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    seen = np.flatnonzero(count)
    means = np.interp(np.arange(BINS), seen, np.bincount(bins, np.minimum(cost, most), BINS)[seen] / count[seen])
    rise = np.gradient(np.maximum.accumulate(means))
    slow = np.convolve(np.pad(rise**POWER, 1, mode="edge"), np.full(3, 1 / 3), "valid")
    slow = slow if slow.any() else np.ones(BINS)
    time = LEAST / BINS + (1 - LEAST) * slow / slow.sum()
    share = np.append(0.0, np.cumsum(time[::-1]) / time.sum()) * (1 - TAIL)
    return Cooling(np.append(share, 1.0), np.append(edges[::-1], edges[0] + np.log(COLDER)))
