"""The forecast that servers and pages show: requests of each pool by day, their forecast, and days to full."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.capacity.capacity_reports import DaysUntilFull, ForecastReport, PoolForecast, SeriesPoint
from cohabit.capacity.forecasts import DAY, PoolDays, PoolDemand
from features.metering.units import HOUR_US
from models.demand.demand_forecast import LEVELS

Floats = NDArray[np.float64]
UNITS = {"cpu": "cores", "gpu": "GPUs", "memory": "GiB"}
LOW, MIDDLE, P95 = LEVELS.index(0.1), LEVELS.index(0.5), LEVELS.index(0.95)
HIGH = LEVELS.index(0.9)
MOST_DAYS = 120
"""Days of the past that are drawn."""


def published_forecast(
    cluster: str,
    end_us: int,
    pools: Sequence[PoolDemand],
    days: Sequence[PoolDays],
    *,
    inputs: Sequence[str],
    now_us: int,
) -> ForecastReport:
    """The report; each point is the largest hour of a day.

    Args:
        cluster: whose.
        end_us: end of the newest metered hour.
        pools: requests and their forecast.
        days: days to full.
        inputs: of the planner, in sentences.
        now_us: when it is made.
    """
    full = {(one.pool, one.resource): one for one in days}
    series = [_series(one, full.get((one.pool, one.resource)), end_us) for one in pools]
    horizon = pools[0].ahead.shape[1] if pools else 0
    return ForecastReport(
        cluster=cluster, at_us=end_us, created_us=now_us, horizon_h=horizon, inputs=tuple(inputs), series=tuple(series)
    )


def _series(one: PoolDemand, full: PoolDays | None, end_us: int) -> PoolForecast:
    past = one.past[len(one.past) % DAY :][-MOST_DAYS * DAY :]
    ahead = one.ahead[[LOW, MIDDLE, HIGH]]
    return PoolForecast(
        pool=one.pool,
        resource=one.resource,
        kind="request",
        unit=UNITS[one.resource],
        model=one.rule,
        capacity=full.capacity if full else None,
        measured=int(np.isfinite(one.past).sum()),
        past=tuple(_points(np.tile(past, (3, 1)), end_us - len(past) * HOUR_US)),
        future=tuple(_points(ahead, end_us)),
        peak_p50=float(one.maximum[MIDDLE]),
        peak_p95=float(one.maximum[P95]),
        full=DaysUntilFull(low=full.low, middle=full.middle, high=full.high) if full else NEVER,
    )


NEVER = DaysUntilFull(low=None, middle=None, high=None)


def _points(hours: Floats, start_us: int) -> Iterator[SeriesPoint]:
    """The largest known hour of each day of (3, h) quantiles; days without one are left out."""
    for first in range(0, hours.shape[1], DAY):
        day = hours[:, first : first + DAY]
        if np.isfinite(day).any():
            low, middle, high = np.nanmax(day, axis=1).tolist()
            yield SeriesPoint(at_us=start_us + first * HOUR_US, low=low, middle=middle, high=high)
