"""Rolling origin: what a rule would have said at earlier times, and by how much it would have been wrong. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.demand.centres import DAY, WEEK, Centre

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_HOURS = 2 * WEEK + 2 * DAY
"""Two weeks of them are before the first origin: a rule needs each hour of the week twice."""
BEFORE = 2 * WEEK
MOST_ORIGINS = 48
EVERY = 6
"""Hours between origins at least."""
HALF_LIFE = 0.5
"""Of an origin's weight, as a share of the time between the first and the last: rules get better with more weeks."""


@dataclass(frozen=True)
class Origins:
    """Where a forecast could have been made.

    Args:
        at: (r,) hours before each origin, ascending; no forecast uses later ones.
        weight: (r,) sum 1, the newest weighs most.
        horizon: hours that follow an origin and are known by now.
        independent: windows that do not overlap, at least 1.
    """

    at: Ints
    weight: Floats
    horizon: int
    independent: float


def origins(hours: int, horizon: int) -> Origins:
    """Earlier origins of a series, the horizon cut to half of what is known after two weeks.

    Raises:
        ValueError: fewer than LEAST_HOURS hours, or no hour ahead.
    """
    if hours < LEAST_HOURS or horizon < 1:
        needed = f"{LEAST_HOURS} and 1 are needed; give a longer past"
        msg = f"{hours} hours of history and {horizon} hours ahead: {needed}"
        raise ValueError(msg)
    known = min(horizon, (hours - BEFORE) // 2)
    span = hours - known - BEFORE
    step = -(-max(EVERY, span // MOST_ORIGINS) // EVERY) * EVERY
    at = np.arange(hours - known, BEFORE - 1, -step)[:MOST_ORIGINS][::-1].astype(np.int64)
    weight = 0.5 ** ((at[-1] - at) / max(HALF_LIFE * float(at[-1] - at[0]), 1.0))
    return Origins(at, weight / weight.sum(), known, 1.0 + float(at[-1] - at[0]) / known)


@dataclass(frozen=True)
class Rolled:
    """What a rule said at origins.

    Args:
        centre: (r, k) what it said.
        unit: (r, k) what errors are measured in, see `unit_of`.
        error: (r, k) (what came - centre) / unit; NaN where the hour is unknown.
    """

    centre: Floats
    unit: Floats
    error: Floats


def unit_of(centre: Floats) -> Floats:
    """(…, k) half the hour's centre and half the window's mean: errors grow with demand, and 0 does not divide."""
    size = np.abs(centre)
    return np.asarray(0.5 * size + 0.5 * size.mean(axis=-1, keepdims=True))


def rolled(series: Floats, complete: Floats, centre: Centre, where: Origins) -> Rolled:
    """What a rule says at each origin.

    Args:
        series: (t,) demand by hour, NaN where unknown; errors are of known hours.
        complete: (t,) the same with an estimate in unknown hours, which the rule reads.
        centre: the rule.
        where: from `origins(t, horizon)`.

    Returns:
        See Rolled. Only hours before an origin are in its row.

    Raises:
        Nothing.

    Source: rolling-origin evaluation, Tashman, "Out-of-sample tests of forecasting accuracy", IJF 2000.
    """
    said = np.stack([centre(complete[:at], where.horizon) for at in where.at])
    unit = np.maximum(unit_of(said), np.finfo(np.float64).tiny)
    return Rolled(said, unit, (windows(series, where) - said) / unit)


def windows(series: Floats, where: Origins) -> Floats:
    """(r, k) what came after each origin."""
    return np.asarray(series[where.at[:, None] + np.arange(where.horizon)])
