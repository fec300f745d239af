"""Days to full: when the largest hour of a day first reaches capacity, with an interval. Kernel.

Weeks follow a local linear trend: a level and a slope that both wander, seen with noise. How much each wanders is not
known from some weeks, so every setting of a grid counts by its likelihood, on the scale of demand and on its logarithm.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DAYS = 7
"""Of a week; its mean has no weekday in it."""
LEAST_WEEKS = 6
PATHS = 2000
LEVEL_SHARES = (0.0, 0.1, 0.5, 2.0)
"""Standard deviation of a level's step over that of the noise of a week."""
SLOPE_SHARES = (0.0, 0.02, 0.05, 0.12)
"""Of a slope's step; none above: a growth that turns within a month cannot be planned for."""
INTERVAL = (0.1, 0.5, 0.9)
RECENT_DAYS = 182
"""Whose departures from their week make the days of a path."""
DIFFUSE = 1e6
FIRST = 2
"""Weeks that only find level and slope: they say nothing of settings."""


@dataclass(frozen=True)
class DaysToFull:
    """Of one pool and resource.

    Args:
        low: days until it is full, exceeded with probability 0.9; inf where that is beyond the horizon.
        middle: with probability 0.5.
        high: with probability 0.1; low to high is the 80 % interval.
        full_share: probability that it is full within the horizon.
        horizon: days looked ahead.
        weeks: of the past that were known.
    """

    low: float
    middle: float
    high: float
    full_share: float
    horizon: int
    weeks: int


def days_to_full(
    largest: Floats, capacity: Floats, *, rng: np.random.Generator, factors: Floats | None = None, paths: int = PATHS
) -> DaysToFull:
    """When demand first reaches capacity.

    Args:
        largest: (d,) largest hour of each past day, any unit, > 0; NaN where unknown. Without dated events.
        capacity: (h,) of each day ahead, in the same unit; orders that arrive raise it from their day on.
        rng: for paths; the same seed gives the same to the digit.
        factors: (h,) what the planner's growth and events multiply demand by; None: nothing.
        paths: number of simulated futures.

    Returns:
        See DaysToFull; 1 is tomorrow. A pool that is full now gives low = 1.

    Raises:
        ValueError: fewer than LEAST_WEEKS weeks with a known day.

    Source: local linear trend, Harvey, "Forecasting, structural time series models and the Kalman filter", 1989;
    mixed over a grid, docs/decisions/0076-demand.md.
    """
    week = _weeks(largest)
    known = int(np.isfinite(week).sum())
    if known < LEAST_WEEKS:
        msg = f"{known} weeks have a known day, {LEAST_WEEKS} are needed: give a longer past"
        raise ValueError(msg)
    horizon = len(capacity)
    daily = future_days(largest, horizon, rng=rng, paths=paths) * (1.0 if factors is None else factors)
    full = daily >= capacity
    when = np.where(full.any(axis=1), full.argmax(axis=1) + 1.0, np.inf)
    low, middle, high = np.quantile(when, INTERVAL, method="inverted_cdf")
    return DaysToFull(float(low), float(middle), float(high), float(np.isfinite(when).mean()), horizon, known)


def future_days(largest: Floats, horizon: int, *, rng: np.random.Generator, paths: int = PATHS) -> Floats:
    """(paths, horizon) largest hours of days ahead as they may come; see `days_to_full`."""
    week = _weeks(largest)
    ahead = -(-horizon // DAYS) + 1
    scales = [_Scale(week, logarithm=False)]
    if np.nanmin(week) > 0:
        scales.append(_Scale(week, logarithm=True))
    weight = np.concatenate([scale.log_weights() for scale in scales])
    share = np.exp(weight - weight.max())
    picks = rng.choice(len(share), size=paths, p=share / share.sum())
    levels = np.empty((paths, ahead + 1))
    settings = len(SETTINGS)
    for at in np.unique(picks):
        rows = np.flatnonzero(picks == at)
        levels[rows] = scales[at // settings].paths(int(at % settings), len(rows), ahead, rng)
    centre = (np.arange(1, horizon + 1) + (DAYS - 1) / 2) / DAYS  # a week's mean stands in its middle
    base = np.floor(centre).astype(np.int64)
    level = levels[:, base] * (1 - (centre - base)) + levels[:, base + 1] * (centre - base)
    return np.asarray(np.maximum(level * _departures(largest, week, horizon, paths, rng), 0.0))


SETTINGS = tuple(product(LEVEL_SHARES, SLOPE_SHARES))


class _Scale:
    """The local linear trend on weeks, or on their logarithm, for each setting of the grid."""

    def __init__(self, week: Floats, *, logarithm: bool) -> None:
        self.logarithm = logarithm
        self.seen = np.log(week) if logarithm else week
        known = self.seen[np.isfinite(self.seen)]
        self.jacobian = float(known[FIRST:].sum()) if logarithm else 0.0
        self.fits = [_filtered(self.seen, *setting) for setting in SETTINGS]

    def log_weights(self) -> Floats:
        """(settings,) log likelihood of the weeks themselves."""
        return np.array([fit.log_likelihood for fit in self.fits]) - self.jacobian

    def paths(self, setting: int, count: int, ahead: int, rng: np.random.Generator) -> Floats:
        """(count, ahead + 1) means of the last week and those ahead."""
        fit, (level_share, slope_share) = self.fits[setting], SETTINGS[setting]
        spread = np.sqrt(fit.scale * fit.freedom / rng.chisquare(fit.freedom, count))[:, None]
        state = fit.state + spread * rng.multivariate_normal(np.zeros(2), fit.covariance, count)
        slopes = state[:, 1:] + spread * slope_share * np.cumsum(rng.standard_normal((count, ahead)), axis=1)
        steps = slopes + spread * level_share * rng.standard_normal((count, ahead))
        levels = np.concatenate([state[:, :1], state[:, :1] + np.cumsum(steps, axis=1)], axis=1)
        levels = levels + spread * rng.standard_normal(levels.shape)  # weeks are seen with noise
        return np.exp(np.minimum(levels, 700.0)) if self.logarithm else levels


@dataclass(frozen=True)
class _Filtered:
    """State at the last week in units of the noise, and how likely the weeks are."""

    state: Floats
    covariance: Floats
    scale: float
    freedom: int
    log_likelihood: float


def _filtered(seen: Floats, level_share: float, slope_share: float) -> _Filtered:
    """The Kalman filter of a local linear trend, with the variance of the noise concentrated out."""
    step, noise = np.array([[1.0, 1.0], [0.0, 1.0]]), np.diag([level_share**2, slope_share**2])
    first = seen[np.isfinite(seen)]
    state, covariance = np.array([first[0], 0.0]), DIFFUSE * np.eye(2)
    squares, logs, count = 0.0, 0.0, 0
    for now, value in enumerate(seen):
        if now:
            state, covariance = step @ state, step @ covariance @ step.T + noise
        if not np.isfinite(value):
            continue
        variance, miss = covariance[0, 0] + 1.0, value - state[0]
        gain = covariance[:, 0] / variance
        state, covariance = state + gain * miss, covariance - np.outer(gain, covariance[0])
        count += 1
        if count > FIRST:
            squares, logs = squares + miss**2 / variance, logs + np.log(variance)
    freedom = count - FIRST
    scale = max(squares / freedom, np.finfo(np.float64).tiny)
    likelihood = -0.5 * (freedom * np.log(scale) + logs)
    return _Filtered(state, (covariance + covariance.T) / 2, scale, freedom, float(likelihood))


def _weeks(largest: Floats) -> Floats:
    """(w,) mean of the known days of each whole week up to the last day."""
    weeks = len(largest) // DAYS
    days = largest[len(largest) - weeks * DAYS :].reshape(weeks, DAYS)
    known = np.isfinite(days)
    total = np.where(known, days, 0.0).sum(axis=1)
    return np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)


def _departures(largest: Floats, week: Floats, horizon: int, paths: int, rng: np.random.Generator) -> Floats:
    """(paths, horizon) days over their week's mean, drawn from whole recent weeks so that weekdays stay in place."""
    weeks = min(len(week), RECENT_DAYS // DAYS)
    days = largest[len(largest) - weeks * DAYS :].reshape(weeks, DAYS) / week[-weeks:, None]
    whole = days[np.isfinite(days).all(axis=1)]
    if not len(whole):
        whole = np.ones((1, DAYS))
    drawn = whole[rng.integers(len(whole), size=(paths, -(-horizon // DAYS)))]
    return np.asarray(drawn.reshape(paths, -1)[:, :horizon])
