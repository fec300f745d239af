"""Centres: the middle of the hours that follow a series of hours, each by one rule. Kernel.

A series is complete here: `filled` puts an estimate where an hour is unknown, so that a rule needs no cases.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Centre = Callable[[Floats, int], Floats]
"""(t,) complete hours and a horizon to (horizon,) hours; scaling the hours scales the answer."""

DAY, WEEK = 24, 168
"""Hours."""
WEEKS = 4
"""Of the pool; older weeks are another season."""
TOWARDS_DAY = 2.0
"""Weeks' worth of evidence that an hour of the week is like the same hour of other days."""
DAMPING = 0.995
"""Share of the slope that an hour keeps of the hour before."""
LIKELY = 4.0
"""Square of the slope's distance from 0 in standard deviations at which half of it counts."""


def filled(series: Floats) -> Floats:
    """(t,) the series with unknown hours as the mean of the same hour of the week, else of the day, else of all.

    Raises:
        ValueError: no hour is known.
    """
    known = np.isfinite(series)
    if not known.any():
        msg = "no hour of the series is known: give measured hours"
        raise ValueError(msg)
    found, hour = series.copy(), np.arange(len(series))
    for period in (WEEK, DAY, 1):
        phase = hour % period
        count = np.bincount(phase[known], minlength=period)
        total = np.bincount(phase[known], series[known], minlength=period)
        usable = ~np.isfinite(found) & (count[phase] > 0)
        found[usable] = (total / np.maximum(count, 1))[phase[usable]]
    return found


def seasonal_naive(hours: Floats, horizon: int) -> Floats:
    """(horizon,) the last week again; the last day where there is no week."""
    period = WEEK if len(hours) >= WEEK else min(DAY, len(hours))
    return hours[-period:][np.arange(horizon) % period]


def pool(hours: Floats, horizon: int) -> Floats:
    """(horizon,) the mean of the same hour of the week over the last four weeks."""
    weeks = min(WEEKS, len(hours) // WEEK)
    if not weeks:
        return seasonal_naive(hours, horizon)
    return np.asarray(hours[-weeks * WEEK :].reshape(weeks, WEEK).mean(axis=0)[np.arange(horizon) % WEEK])


def levelled_pool(hours: Floats, horizon: int) -> Floats:
    """(horizon,) the shape of the last four weeks at the level of the last one."""
    shape = pool(hours, horizon)
    last = min(WEEK, len(hours))
    past = pool(hours, WEEK)[np.arange(-last, 0) % WEEK].mean()
    return shape * (hours[-last:].mean() / past) if past > 0 else shape


def decomposed(hours: Floats, horizon: int) -> Floats:
    """(horizon,) level, shape of day and week, and what is left of the last hours' deviation; no slope."""
    return _decomposed(hours, horizon, sloped=False)


def trended(hours: Floats, horizon: int) -> Floats:
    """(horizon,) as `decomposed`, with a damped slope as far as the weeks support one."""
    return _decomposed(hours, horizon, sloped=True)


def blended(hours: Floats, horizon: int) -> Floats:
    """(horizon,) the mean of naive, pool and decomposition: errors of unlike rules cancel."""
    parts = (seasonal_naive, pool, decomposed)
    return np.asarray(np.mean([part(hours, horizon) for part in parts], axis=0))


def typical(hours: Floats, horizon: int) -> Floats:
    """(horizon,) median of the hour of the day, smoothed, and half of the weekday's departure: no burst moves it."""
    weeks = min(2 * WEEKS, len(hours) // WEEK)
    if not weeks:
        return seasonal_naive(hours, horizon)
    days = hours[-weeks * WEEK :].reshape(weeks, 7, DAY)
    of_day = np.median(days.reshape(-1, DAY), axis=0)
    smooth = (np.roll(of_day, 1) + 2 * of_day + np.roll(of_day, -1)) / 4
    week = smooth + 0.5 * np.median(days - smooth, axis=(0, 2))[:, None]
    return np.asarray(np.maximum(week.ravel(), 0.0)[np.arange(horizon) % WEEK])


def _decomposed(hours: Floats, horizon: int, *, sloped: bool) -> Floats:
    """See `decomposed`. Source: after Cleveland et al., STL, 1990, with trailing means in place of loess; ours."""
    if len(hours) < 2 * WEEK:
        return seasonal_naive(hours, horizon)
    weeks = min(2 * WEEKS, len(hours) // WEEK)
    recent = hours[-weeks * WEEK :]
    at, ahead = np.arange(len(recent)), len(recent) + np.arange(horizon)
    slope = _slope(recent, weeks) if sloped else 0.0
    level = recent - slope * (at - at[-1])
    shape = _shape(level, weeks)
    rest = level - shape[at % WEEK]
    last = rest[-WEEK:].mean()
    deviation, kept = rest - last, _persistence(rest)
    fast = deviation[-6:].mean() * kept ** (3 + np.arange(horizon))
    climbed = slope * DAMPING * (1 - DAMPING ** np.arange(1, horizon + 1)) / (1 - DAMPING)
    return np.asarray(shape[ahead % WEEK] + last + fast + climbed)


def _slope(recent: Floats, weeks: int) -> float:
    """Of the weeks' means, an hour; less of it the less sure it is."""
    mean, at = recent.reshape(weeks, WEEK).mean(axis=1), np.arange(weeks) - (weeks - 1) / 2
    if weeks < 3:
        return 0.0
    slope = float((at * mean).sum() / (at**2).sum())
    error = mean - mean.mean() - slope * at
    variance = float((error**2).sum() / (weeks - 2) / (at**2).sum())
    sure = slope**2 / (slope**2 + LIKELY * variance) if slope else 0.0
    return slope * sure / WEEK


def _shape(level: Floats, weeks: int) -> Floats:
    """(WEEK,) departure of each hour of the week from its week's mean, drawn towards the hour of the day."""
    by_week = level.reshape(weeks, 7, DAY)
    by_week = by_week - by_week.mean(axis=(1, 2), keepdims=True)
    of_day = by_week.mean(axis=(0, 1), keepdims=True)[0]
    whole_day = by_week.mean(axis=(0, 2))[:, None]
    expected = of_day + whole_day
    share = weeks / (weeks + TOWARDS_DAY)
    return np.asarray((share * by_week.mean(axis=0) + (1 - share) * expected).ravel())


def _persistence(rest: Floats) -> float:
    """How much of a deviation is left after an hour, by its correlation over six hours."""
    centred = rest - rest.mean()
    total = float((centred**2).sum())
    left = float((centred[6:] * centred[:-6]).sum()) / total if total else 0.0
    return float(np.clip(left, 0.0, 0.99) ** (1 / 6))


CENTRES: Mapping[str, Centre] = {
    "seasonal-naive": seasonal_naive,
    "pool": pool,
    "levelled-pool": levelled_pool,
    "decomposed": decomposed,
    "trended": trended,
    "blended": blended,
    "typical": typical,
}
