"""Observed demand: what runs and what waits, without mistaking a full pool for satisfied demand. Kernel."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FULL_SHARE = 0.98
"""Share of capacity from which on a pool counts as full: what is left rarely fits a pod."""


def full_hours(running: Floats, capacity: Floats) -> Flags:
    """(t,) hours in which requests of running pods leave no room; False where either is unknown."""
    with np.errstate(invalid="ignore"):
        return np.asarray(running >= FULL_SHARE * capacity, np.bool_)


def demand_of(running: Floats, pending: Floats, full: Flags) -> tuple[Floats, Floats]:
    """Demand of each hour, and the least that it was.

    Args:
        running: (…, t) requests of running pods, any unit; NaN where not measured.
        pending: (…, t) requests of pods that waited for room, the same unit; NaN where not known.
        full: (…, t) hours without room.

    Returns:
        (…, t) running + pending; where a pool had room, unknown pending counts as none; where it was full, demand is
        then unknown: NaN. And (…, t) what ran and is known to have waited, NaN where that is unknown.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0076-demand.md; demand that capacity cuts off is censored.
    """
    least = running + np.nan_to_num(pending)
    return np.where(full & ~np.isfinite(pending), np.nan, least), least
