"""Demand forecast: quantiles of hours, of a window's largest hour, and paths, for series forecast together. Kernel."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.demand.centres import CENTRES, Centre, filled
from models.demand.choice import chosen, loss_at_origins
from models.demand.paths import lifted, mixtures, standard_ranks
from models.demand.rolling_origin import Origins, Rolled, origins, rolled, unit_of, windows
from models.demand.spread import Spread, spread_of

Floats = NDArray[np.float64]

LEVELS = (0.1, 0.5, 0.8, 0.9, 0.95)
"""Of quantiles of hours and of the window's maximum."""
PATHS = 400
DEFAULT = "decomposed"
HIGHEST = 0.98
"""Level that a conformal step lifts a quantile of maxima to at most: the largest of all is of one series alone."""


@dataclass(frozen=True)
class DemandForecast:
    """Of n series and h hours ahead, in the unit of the series.

    Args:
        rule: (n,) name of the rule that was chosen for each.
        loss: (n,) its weighted quantile loss at earlier origins, no unit.
        naive_loss: (n,) that of the seasonal naive rule.
        windows: (n,) independent windows of the past that maxima rest on.
        calibrated_hours: hours ahead that earlier windows had; beyond, spread grows as of a random walk.
        quantiles: (n, LEVELS, h) of each hour.
        maximum: (n, LEVELS) of the window's largest hour.
        paths: (n, N, h) windows as they may come; the i-th paths of all series belong together.
    """

    rule: list[str]
    loss: Floats
    naive_loss: Floats
    windows: Floats
    calibrated_hours: int
    quantiles: Floats
    maximum: Floats
    paths: Floats


def forecast_demand(
    series: Floats,
    horizon: int,
    *,
    rng: np.random.Generator,
    least: Floats | None = None,
    factors: Floats | None = None,
    paths: int = PATHS,
    rules: Mapping[str, Centre] = CENTRES,
) -> DemandForecast:
    """Forecast hours, the window's largest hour and paths of series of demand.

    Args:
        series: (n, t) demand by hour up to now, >= 0, any unit; NaN where unknown, which is not 0. Without the effect
            of dated events, see models.demand.planner_inputs. At least LEAST_HOURS hours.
        horizon: h >= 1 hours ahead.
        rng: for paths; the same seed, series and horizon give the same to the digit.
        least: (n, t) what demand was at least in unknown hours, as in a full pool; NaN or None: not known either.
        factors: (n, h) what the planner's growth and events multiply demand by; None: nothing.
        paths: N, at least 20; some six arrays of N x h numbers are held, and n of them in the end.
        rules: rules to choose from, by name; DEFAULT is one of them.

    Returns:
        See DemandForecast. Rules are chosen, and spreads and maxima calibrated, on windows that are over. Quantiles
        do not cross, and a maximum's quantile is at least the same quantile of every hour.

    Raises:
        ValueError: too few hours, no hour known in the past of a series or after its origins, or too few paths.

    Source: rolling origin, conformal quantiles and ensemble copula coupling; ours, docs/decisions/0076-demand.md.
    """
    if paths < 20:
        msg = f"{paths} paths cannot hold a 95th percentile: ask for at least 20"
        raise ValueError(msg)
    where = origins(series.shape[1], horizon)
    floors = np.full(series.shape, np.nan) if least is None else least
    fits = [_fits(one, _complete(one, floor), rules, where) for one, floor in zip(series, floors, strict=True)]
    names = list(rules)
    loss = np.array([[fit[name].loss for name in names] for fit in fits])
    picked = chosen(loss, names.index(DEFAULT))
    own = [fit[names[at]] for fit, at in zip(fits, picked, strict=True)]
    excess = np.sort(np.concatenate([fit.excess for fit in own]))
    weights = mixtures(paths, len(where.at), -(-horizon // where.horizon), rng)
    total = where.independent * np.sqrt(len(own))  # series of one cluster share shocks
    found = [_paths(fit, where, horizon, weights, _tail(excess, total, paths)) for fit in own]
    factor = np.ones((len(series), horizon)) if factors is None else factors
    hours = np.stack([quantiles for quantiles, _ in found]) * factor[:, None]
    many = np.stack([each for _, each in found]) * factor[:, None]
    largest = np.moveaxis(np.quantile(many.max(axis=2), LEVELS, axis=1), 0, 1)
    return DemandForecast(
        rule=[names[at] for at in picked],
        loss=loss[np.arange(len(loss)), picked],
        naive_loss=loss[:, names.index("seasonal-naive")],
        windows=np.full(len(own), where.independent),
        calibrated_hours=where.horizon,
        quantiles=hours,
        maximum=np.maximum(largest, hours.max(axis=2)),
        paths=many,
    )


@dataclass(frozen=True)
class _Fit:
    """A rule on one series: what it says next, what it said, its spread, and how far maxima were above centres."""

    complete: Floats
    centre: Centre
    past: Rolled
    spread: Spread
    loss: float
    excess: Floats


def _fits(series: Floats, complete: Floats, rules: Mapping[str, Centre], where: Origins) -> dict[str, _Fit]:
    came = _largest(windows(series, where))
    found = dict[str, _Fit]()
    for name, centre in rules.items():
        past = rolled(series, complete, centre, where)
        spread = spread_of(past, where)
        above = (came - past.centre.max(axis=1)) / past.unit.mean(axis=1) / spread.lead[-1]
        found[name] = _Fit(
            complete, centre, past, spread, loss_at_origins(past, spread, where), above[np.isfinite(above)]
        )
    return found


def _complete(series: Floats, least: Floats) -> Floats:
    """(t,) unknown hours by the same hours of other weeks, and never below what they were at least."""
    return np.where(np.isfinite(series), series, np.fmax(filled(series), least))


def _largest(hours: Floats) -> Floats:
    """(r,) largest known hour of windows of which at least half is known, else NaN."""
    known = np.isfinite(hours)
    enough = 2 * known.sum(axis=1) >= hours.shape[1]
    return np.where(enough, np.where(known, hours, -np.inf).max(axis=1), np.nan)


def _tail(excess: Floats, independent: float, count: int) -> Floats:
    """(count,) ascending excesses of maxima at the levels of paths, each a conformal step higher."""
    if not len(excess):
        return np.full(count, np.nan)
    level = (np.arange(count) + 0.5) / count
    return np.quantile(excess, np.minimum(np.maximum(level, HIGHEST), level * (1.0 + 1.0 / independent)))


def _paths(fit: _Fit, where: Origins, horizon: int, weights: Floats, tail: Floats) -> tuple[Floats, Floats]:
    """(LEVELS, h) quantiles of hours and (N, h) paths of one series, without the planner's inputs."""
    start = len(fit.complete)
    centre = np.maximum(fit.centre(fit.complete, horizon), 0.0)
    unit = unit_of(centre)
    width = unit * fit.spread.of_hours(start, horizon)
    hours = np.maximum(centre + width * fit.spread.quantile(np.array(LEVELS))[:, None], 0.0)
    rank = standard_ranks(fit.past, fit.spread, weights, horizon)
    many = np.maximum(centre + width * fit.spread.quantile(rank), 0.0)
    if np.isfinite(tail).all():
        near = slice(0, where.horizon)
        scale = unit[near].mean() * fit.spread.lead[-1]
        seen = np.sort(many[:, near].max(axis=1))
        shift = centre[near].max() + scale * tail - seen
        many = lifted(many, np.maximum(np.sort(many.max(axis=1)) + shift, 0.0))
    return hours, many
