"""Forecasts of a cluster: demand of each series until a horizon, and when each pool is full. An edge around kernels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.capacity.demand_series import DemandSeries
from features.metering.units import HOUR_US
from models.demand.days_to_full import DaysToFull, days_to_full
from models.demand.demand_forecast import LEVELS, forecast_demand
from models.demand.observed import demand_of, full_hours
from models.demand.planner_inputs import Event, event_factors, growth_factors
from models.demand.rolling_origin import LEAST_HOURS

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

DAY = 24
LEAST_KNOWN = 0.5
"""Share of hours of a series that must be known."""
TOGETHER, HOURS_TOGETHER = 20, 40_000
"""Series, and their hours ahead, that are forecast together, so that paths fit into memory."""
KNOWN_OF_DAY = 12
"""Hours of a day that must be known before its largest one is."""
MEASURES = ("requests", "use")


@dataclass(frozen=True)
class Asked:
    """What is asked for.

    Args:
        horizon: hours ahead.
        days_ahead: that days to full look ahead.
        growth: yearly, beyond what the past shows; 0.2 is a fifth more.
        signed_by: who said so; empty without growth.
        events: of the planner.
        seed: of paths.
    """

    horizon: int
    days_ahead: int
    growth: float
    signed_by: str
    events: Sequence[Event]
    seed: int = 0


@dataclass(frozen=True)
class SeriesForecast:
    """Demand of a class of apps in a pool.

    Args:
        app_class: of apps.
        pool: it runs in.
        resource: cpu (cores), gpu (GPUs) or memory (GiB).
        measure: requests, with pending pods, or use.
        largest_week: largest known hour of the last week.
        maximum: quantile of the largest hour until the horizon by level, with the planner's inputs.
        without_inputs: the same by the past alone.
        rule: that was chosen.
        loss: its weighted quantile loss at earlier origins; None where demand was 0.
        naive_loss: of the seasonal naive rule.
        windows: independent earlier windows.
        full_hours: in which the pool had no room, so that requests are what ran and what waited.
        unknown_hours: that were not metered, or full without known pending pods.
    """

    app_class: str
    pool: str
    resource: str
    measure: str
    largest_week: float
    maximum: dict[str, float]
    without_inputs: dict[str, float]
    rule: str
    loss: float | None
    naive_loss: float | None
    windows: float
    full_hours: int
    unknown_hours: int


@dataclass(frozen=True)
class PoolDays:
    """When requests reach the capacity of a pool, as models.demand.days_to_full.DaysToFull says.

    Days are None where they lie beyond those looked ahead.
    """

    pool: str
    resource: str
    capacity: float
    largest_week: float
    low: float | None
    middle: float | None
    high: float | None
    full_share: float


@dataclass(frozen=True)
class LeftOut:
    """A series or pool of which nothing is said, and why."""

    app_class: str
    pool: str
    resource: str
    measure: str
    why: str


@dataclass(frozen=True)
class Forecasts:
    """What was found.

    Args:
        hours: of the past that were looked at.
        calibrated_hours: hours ahead that earlier windows had; beyond, bounds grow as of a random walk.
        series: forecasts, by key.
        pools: days to full, by pool and resource.
        left_out: with reasons.
    """

    hours: int
    calibrated_hours: int
    series: list[SeriesForecast]
    pools: list[PoolDays]
    left_out: list[LeftOut]


@dataclass(frozen=True)
class _Demand:
    """(n, t) demand of a measure without past events, what it was at least, and hours without room."""

    known: Floats
    least: Floats
    full: Flags


def forecasts(past: DemandSeries, pending: Floats | None, asked: Asked) -> Forecasts:
    """Forecast every series and pool.

    Args:
        past: of the cluster.
        pending: (n, t) requests of pods that waited, NaN where not known; None: not known at all.
        asked: horizon and the planner's inputs.

    Returns:
        See Forecasts; the same past, inputs and seed give the same to the digit.
    """
    taken_off = _event_factors(past, past.hours_us, asked)
    requests = _requests(past, pending, taken_off)
    use = _Demand(past.use / taken_off, past.use / taken_off, np.zeros(requests.full.shape, np.bool_))
    demand = {"requests": requests, "use": use}
    left_out = list[LeftOut]()
    series, calibrated = list[SeriesForecast](), 0
    together = min(TOGETHER, max(1, HOURS_TOGETHER // asked.horizon))
    for measure in MEASURES:
        kept = _usable(past, demand[measure], measure, left_out)
        for resource in dict.fromkeys(past.keys[row][2] for row in kept):
            of = [row for row in kept if past.keys[row][2] == resource]
            for start in range(0, len(of), together):
                found, calibrated = _forecast(past, demand[measure], measure, of[start : start + together], asked)
                series += found
    pools = _pool_days(past, demand["requests"], asked, left_out)
    order = sorted(series, key=lambda one: (one.app_class, one.pool, one.resource, one.measure))
    return Forecasts(len(past.hours_us), calibrated, order, pools, left_out)


@dataclass(frozen=True)
class PoolDemand:
    """Requests for a resource of a pool: its past, and quantiles of each hour ahead.

    Args:
        pool: it.
        resource: cpu (cores), gpu (GPUs) or memory (GiB).
        past: (t,) by hour; NaN where not known.
        ahead: (5, h) by level of models.demand.demand_forecast.LEVELS.
        maximum: (5,) of the largest hour ahead.
        rule: that was chosen.
    """

    pool: str
    resource: str
    past: Floats
    ahead: Floats
    maximum: Floats
    rule: str


def pool_demand(past: DemandSeries, pending: Floats | None, asked: Asked) -> list[PoolDemand]:
    """Requests of all classes together, of each pool and resource of which enough is known."""
    demand = _requests(past, pending, _event_factors(past, past.hours_us, asked))
    found = list[PoolDemand]()
    for pool, resource in sorted({key[1:] for key in past.keys}):
        rows = [row for row, key in enumerate(past.keys) if key[1:] == (pool, resource)]
        total, least = demand.known[rows].sum(axis=0, keepdims=True), demand.least[rows].sum(axis=0, keepdims=True)
        factors = _pool_factors(past, demand, rows, asked, asked.horizon)[None]
        rng = np.random.default_rng(asked.seed)
        try:
            ahead = forecast_demand(total, asked.horizon, rng=rng, least=least, factors=factors)
        except ValueError:
            continue
        quantiles, maximum = ahead.quantiles[0], ahead.maximum[0]
        found.append(PoolDemand(pool, resource, total[0], quantiles, maximum, ahead.rule[0]))
    return found


def _requests(past: DemandSeries, pending: Floats | None, taken_off: Floats) -> _Demand:
    """Requests with those of pods that waited, without the effect of past events."""
    waited = np.full(past.requests.shape, np.nan) if pending is None else pending
    full = _full(past, np.arange(len(past.keys)))
    seen, least = demand_of(past.requests, waited, full)
    return _Demand(seen / taken_off, least / taken_off, full)


def _event_factors(past: DemandSeries, hours_us: NDArray[np.int64], asked: Asked) -> Floats:
    return event_factors(hours_us, [(app_class, pool) for app_class, pool, _ in past.keys], asked.events)


def _full(past: DemandSeries, rows: NDArray[np.int64]) -> Flags:
    """(n, t) whether the pool of each series had no room."""
    found = np.zeros((len(rows), len(past.hours_us)), np.bool_)
    for pool, resource in {key[1:] for key in past.keys}:
        own = [row for row in rows if past.keys[row][1:] == (pool, resource)]
        capacity = past.capacity.get((pool, resource), np.full(len(past.hours_us), np.nan))
        found[own] = full_hours(past.requests[own].sum(axis=0), capacity)
    return found


def _usable(past: DemandSeries, demand: _Demand, measure: str, left_out: list[LeftOut]) -> list[int]:
    """Rows of which enough is known; the others are named."""
    kept = list[int]()
    for row, key in enumerate(past.keys):
        known = np.isfinite(demand.known[row])
        why = ""
        if len(known) < LEAST_HOURS:
            why = f"{len(known)} hours are metered, {LEAST_HOURS} are needed"
        elif known.mean() < LEAST_KNOWN and (demand.full[row] & ~known).sum() > 0:
            why = f"full in {int(demand.full[row].sum())} of {len(known)} hours: give --pending with pods that waited"
        elif known.mean() < LEAST_KNOWN or not known[-LEAST_HOURS // 2 :].any():
            why = f"{int(known.sum())} of {len(known)} hours are known"
        if why:
            left_out.append(LeftOut(*key, measure, why))
        else:
            kept.append(row)
    return kept


def _forecast(
    past: DemandSeries, demand: _Demand, measure: str, rows: list[int], asked: Asked
) -> tuple[list[SeriesForecast], int]:
    """Forecasts of some series of one resource."""
    ahead = past.hours_us[-1] + HOUR_US * np.arange(1, asked.horizon + 1)
    factors = _event_factors(past, ahead, asked)[rows] * growth_factors(asked.horizon, asked.growth)
    with_inputs, alone = (
        forecast_demand(
            demand.known[rows],
            asked.horizon,
            rng=np.random.default_rng(asked.seed),
            least=demand.least[rows],
            factors=of,
        )
        for of in (factors, None)
    )
    last_week = demand.least[rows, -7 * DAY :] * _event_factors(past, past.hours_us[-7 * DAY :], asked)[rows]
    found = [
        SeriesForecast(
            *past.keys[row],
            measure,
            _largest(last_week[at]),
            _by_level(with_inputs.maximum[at]),
            _by_level(alone.maximum[at]),
            with_inputs.rule[at],
            _finite(with_inputs.loss[at]),
            _finite(with_inputs.naive_loss[at]),
            float(with_inputs.windows[at]),
            int(demand.full[row].sum()),
            int((~np.isfinite(demand.known[row])).sum()),
        )
        for at, row in enumerate(rows)
    ]
    return found, with_inputs.calibrated_hours


def _by_level(values: Floats) -> dict[str, float]:
    return {f"p{round(100 * level)}": float(value) for level, value in zip(LEVELS, values, strict=True)}


def _largest(hours: Floats) -> float:
    known = hours[np.isfinite(hours)]
    return float(known.max()) if len(known) else 0.0


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _pool_days(past: DemandSeries, demand: _Demand, asked: Asked, left_out: list[LeftOut]) -> list[PoolDays]:
    """Days to full of each pool and resource with a known capacity."""
    found = list[PoolDays]()
    for pool, resource in sorted({key[1:] for key in past.keys}):
        rows = [row for row, key in enumerate(past.keys) if key[1:] == (pool, resource)]
        capacity = past.capacity.get((pool, resource), np.empty(0))
        known = capacity[np.isfinite(capacity)]
        total = np.where(np.isfinite(demand.known[rows]), demand.known[rows], demand.least[rows]).sum(axis=0)
        largest = _days(total)
        if not len(known):
            left_out.append(LeftOut("", pool, resource, "days to full", "capacity is not known: send topic nodes"))
            continue
        try:
            full = days_to_full(
                largest,
                np.full(asked.days_ahead, known[-1]),
                rng=np.random.default_rng(asked.seed),
                factors=_pool_factors(past, demand, rows, asked, asked.days_ahead * DAY).reshape(-1, DAY).max(axis=1),
            )
        except ValueError as error:
            left_out.append(LeftOut("", pool, resource, "days to full", str(error)))
            continue
        found.append(_pool_day(pool, resource, float(known[-1]), _largest(largest[-7:]), full))
    return found


def _pool_day(pool: str, resource: str, capacity: float, largest: float, full: DaysToFull) -> PoolDays:
    days = (_finite(full.low), _finite(full.middle), _finite(full.high))
    return PoolDays(pool, resource, capacity, largest, *days, full.full_share)


def _pool_factors(past: DemandSeries, demand: _Demand, rows: list[int], asked: Asked, hours: int) -> Floats:
    """(hours,) the factor of each hour ahead; classes weigh by their demand of the last week."""
    ahead = past.hours_us[-1] + HOUR_US * np.arange(1, hours + 1)
    weight = np.nan_to_num(demand.least[rows, -7 * DAY :]).sum(axis=1)
    share = weight / weight.sum() if weight.sum() > 0 else np.full(len(rows), 1 / len(rows))
    return np.asarray(share @ _event_factors(past, ahead, asked)[rows] * growth_factors(hours, asked.growth))


def _days(total: Floats) -> Floats:
    """(d,) largest hour of each whole day up to the last hour; NaN where too few are known."""
    days = len(total) // DAY
    hours = total[len(total) - days * DAY :].reshape(days, DAY)
    known = np.isfinite(hours)
    enough = known.sum(axis=1) >= KNOWN_OF_DAY
    return np.where(enough, np.where(known, hours, -np.inf).max(axis=1), np.nan)
