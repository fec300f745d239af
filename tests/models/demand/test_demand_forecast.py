"""The demand forecast: laws that hold for any series, and what unknown and censored hours mean."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.demand.demand_forecast import LEVELS, DemandForecast, forecast_demand
from models.demand.rolling_origin import LEAST_HOURS

Floats = NDArray[np.float64]
WEEK = 168
P90, P95 = LEVELS.index(0.9), LEVELS.index(0.95)


def weekly(seed: int, hours: int = 4 * WEEK, noise: float = 0.05) -> Floats:
    """Days and weekends of about 100, with noise."""
    at, rng = np.arange(hours), np.random.default_rng(seed)
    shape = 1 + 0.3 * np.sin(2 * np.pi * at / 24) - 0.2 * (at // 24 % 7 >= 5)
    return np.asarray(100 * shape * np.exp(noise * rng.standard_normal(hours)))


def forecast(
    series: Floats, horizon: int = 48, *, least: Floats | None = None, factors: Floats | None = None
) -> DemandForecast:
    rng = np.random.default_rng(0)
    return forecast_demand(np.atleast_2d(series), horizon, rng=rng, least=least, factors=factors, paths=100)


@settings(max_examples=8)
@given(seed=st.integers(0, 1000), noise=st.floats(0.0, 1.0), horizon=st.integers(1, 400))
def test_quantiles_do_not_cross_and_the_maximum_is_at_least_every_hour(seed: int, noise: float, horizon: int) -> None:
    found = forecast(weekly(seed, noise=noise), horizon)

    assert (np.diff(found.quantiles, axis=1) >= 0).all()
    assert (np.diff(found.maximum, axis=1) >= 0).all()
    assert (found.maximum[:, :, None] >= found.quantiles).all()
    assert (found.paths >= 0).all()
    assert np.isfinite(found.paths).all()


@settings(max_examples=8)
@given(seed=st.integers(0, 1000), power=st.integers(-20, 40))
def test_scaling_a_series_scales_its_forecast(seed: int, power: int) -> None:
    series, factor = weekly(seed), 2.0**power

    one, other = forecast(series), forecast(series * factor)

    assert one.rule == other.rule
    np.testing.assert_allclose(other.quantiles, one.quantiles * factor, rtol=1e-9)
    np.testing.assert_allclose(other.maximum, one.maximum * factor, rtol=1e-9)
    np.testing.assert_allclose(other.paths, one.paths * factor, rtol=1e-9)


def test_shapes_are_series_levels_and_hours() -> None:
    found = forecast(np.stack([weekly(0), weekly(1), weekly(2)]), 72)

    assert found.quantiles.shape == (3, len(LEVELS), 72)
    assert found.maximum.shape == (3, len(LEVELS))
    assert found.paths.shape == (3, 100, 72)
    assert len(found.rule) == 3


def test_the_same_seed_gives_the_same_to_the_digit() -> None:
    assert (forecast(weekly(3)).paths == forecast(weekly(3)).paths).all()


def test_unknown_hours_are_not_zero() -> None:
    series = weekly(4)
    holes = series.copy()
    holes[np.random.default_rng(0).random(len(series)) < 0.2] = np.nan

    whole, patchy, zeros = forecast(series), forecast(holes), forecast(np.nan_to_num(holes))

    assert patchy.quantiles[0, 1].mean() == pytest.approx(whole.quantiles[0, 1].mean(), rel=0.03)
    assert zeros.quantiles[0, 0].mean() < 0.9 * whole.quantiles[0, 0].mean()


def test_a_full_pool_raises_what_is_expected_of_the_hours_it_hid() -> None:
    series = weekly(5)
    hidden = series > 110
    seen = np.where(hidden, np.nan, series)

    without = forecast(seen)
    with_least = forecast(seen, least=np.where(hidden, 110.0, np.nan)[None])

    assert with_least.quantiles[0, 1].max() > without.quantiles[0, 1].max()


def test_the_planners_factors_multiply_hours_paths_and_the_maximum() -> None:
    series, factors = weekly(6), np.ones((1, 48))
    factors[:, 10:20] = 3.0

    plain, event = forecast(series), forecast(series, factors=factors)

    np.testing.assert_allclose(event.quantiles, plain.quantiles * factors)
    np.testing.assert_allclose(event.paths, plain.paths * factors)
    assert event.maximum[0, P95] > 2 * plain.maximum[0, P95]


def test_the_stated_maximum_is_exceeded_as_rarely_as_promised() -> None:
    short, hours_short = list[bool](), list[bool]()
    for start in range(6):
        series = np.stack([weekly(100 + 10 * start + seed, 8 * WEEK, 0.15) for seed in range(10)])
        found, came = forecast(series[:, :-48]), series[:, -48:]
        short += (came.max(axis=1) > found.maximum[:, P95]).tolist()
        hours_short += (came.max(axis=1) > found.quantiles[:, P90].max(axis=1)).tolist()

    assert np.mean(short) <= 0.1
    assert np.mean(hours_short) > 0.2


def test_paths_follow_each_hour_and_rise_together_where_the_past_did() -> None:
    rng = np.random.default_rng(7)
    days = np.repeat(np.exp(0.2 * rng.standard_normal(42)), 24)
    series = np.stack([weekly(8, 42 * 24) * days, weekly(9, 42 * 24) * days])

    found = forecast(series, 24)

    totals = found.paths.sum(axis=2)
    assert np.corrcoef(totals)[0, 1] > 0.5
    np.testing.assert_allclose(np.median(found.paths, axis=1), found.quantiles[:, 1], rtol=0.05)


def test_a_horizon_beyond_the_past_is_wider_and_says_what_was_calibrated() -> None:
    found = forecast(weekly(10), 8 * WEEK)

    assert found.calibrated_hours == WEEK
    width = found.quantiles[0, P90] - found.quantiles[0, 0]
    assert width[-WEEK:].mean() > 1.5 * width[:WEEK].mean()


def test_too_short_a_past_is_refused_with_what_is_needed() -> None:
    with pytest.raises(ValueError, match=f"{LEAST_HOURS} and 1 are needed"):
        forecast(np.ones(LEAST_HOURS - 1))


def test_a_series_without_a_known_hour_is_refused() -> None:
    with pytest.raises(ValueError, match="no hour of the series is known"):
        forecast(np.full(LEAST_HOURS, np.nan))
