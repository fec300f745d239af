"""Spread: how far hours fall from their centre, by lead, hour of the day and quantile. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.demand.centres import DAY
from models.demand.rolling_origin import Origins, Rolled

Floats = NDArray[np.float64]

OWN_PHASE = 0.75
"""How much the hour of the day has of its own spread; the rest is the spread of all hours."""


@dataclass(frozen=True)
class Spread:
    """Of one rule on one series, in its units.

    Args:
        lead: (k,) spread by hour ahead, never falling.
        phase: (DAY,) factor by hour of the day, counted from the start of the series.
        standard: (m,) errors over their spread, ascending.
        rank: (m,) probability of each, in (0, 1).
    """

    lead: Floats
    phase: Floats
    standard: Floats
    rank: Floats

    def of_hours(self, start: int, horizon: int) -> Floats:
        """(horizon,) spread of the hours from `start` on; beyond the last lead as of a random walk."""
        ahead = np.arange(horizon)
        last = len(self.lead)
        beyond = np.sqrt(np.maximum(1.0, (ahead + 1) / last))
        return np.asarray(self.lead[np.minimum(ahead, last - 1)] * beyond * self.phase[(start + ahead) % DAY])

    def quantile(self, level: Floats) -> Floats:
        """Errors over their spread at levels in (0, 1)."""
        return np.interp(level, self.rank, self.standard)


def spread_of(past: Rolled, where: Origins) -> Spread:
    """Learn the spread from errors at earlier origins.

    Args:
        past: from `rolled`, NaN in unknown hours, which are left out.
        where: the origins of it.

    Returns:
        See Spread. Few independent windows widen it, as their mean square is uncertain itself.

    Raises:
        ValueError: no error is known.

    Source: ours, docs/decisions/0076-demand.md; split conformal prediction, Lei et al., JASA 2018.
    """
    known = np.isfinite(past.error)
    if not known.any():
        msg = "no hour after an origin is known: give measured hours"
        raise ValueError(msg)
    weight = np.where(known, where.weight[:, None], 0.0)
    square = np.where(known, past.error, 0.0) ** 2
    day = np.arange(where.horizon) // DAY
    by_day = _mean(square, weight, np.broadcast_to(day, square.shape), int(day[-1]) + 1)
    few = 1.0 + 1.0 / where.independent
    lead = np.sqrt(few * np.maximum.accumulate(by_day) + np.finfo(np.float64).tiny)[day]
    phase = (where.at[:, None] + np.arange(where.horizon)) % DAY
    relative = _mean(square / lead**2 * few, weight, phase, DAY)
    factor = np.sqrt(OWN_PHASE * relative + 1.0 - OWN_PHASE)
    standard = (past.error * np.sqrt(few) / lead / factor[phase])[known]
    order = np.argsort(standard, kind="stable")
    share = weight[known][order]
    total = np.cumsum(share)
    return Spread(lead, factor, standard[order], (total - 0.5 * share) / total[-1])


def _mean(values: Floats, weight: Floats, group: NDArray[np.int64], count: int) -> Floats:
    """(count,) weighted mean by group; the mean of all where a group has no weight."""
    total = np.bincount(group.ravel(), weight.ravel(), count)
    found = np.bincount(group.ravel(), (weight * values).ravel(), count)
    overall = float((weight * values).sum() / weight.sum())
    return np.where(total > 0, found / np.maximum(total, np.finfo(np.float64).tiny), overall)
