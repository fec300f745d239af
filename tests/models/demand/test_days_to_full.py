"""Days to full: when growth reaches capacity, and how sure that is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.demand.days_to_full import DaysToFull, days_to_full, future_days

Floats = NDArray[np.float64]


def growing(daily: float = 1.0, days: int = 140, noise: float = 2.0, seed: int = 0) -> Floats:
    """Largest hours from 100 on, with noise and quieter weekends."""
    at, rng = np.arange(days), np.random.default_rng(seed)
    return np.asarray(100 + daily * at + noise * rng.standard_normal(days) - 5 * (at % 7 >= 5))


def until(largest: Floats, capacity: float, horizon: int = 400, factors: Floats | None = None) -> DaysToFull:
    return days_to_full(largest, np.full(horizon, capacity), rng=np.random.default_rng(0), factors=factors, paths=300)


def test_a_steady_growth_reaches_capacity_when_it_says() -> None:
    found = until(growing(), 300.0)

    assert found.low <= 60 <= found.high
    assert found.high - found.low < 15
    assert found.full_share == 1.0
    assert found.weeks == 20


def test_without_growth_a_pool_with_room_is_not_full_within_the_horizon() -> None:
    found = until(growing(0.0, noise=0.5), 300.0, 90)

    assert found.low == np.inf
    assert found.full_share < 0.05


def test_a_pool_that_is_full_now_is_full_tomorrow() -> None:
    assert until(growing(), 200.0).low == 1


def test_more_noise_makes_the_interval_wider() -> None:
    calm, noisy = until(growing(noise=1.0), 280.0), until(growing(noise=15.0), 280.0)

    assert noisy.high - noisy.low > 2 * (calm.high - calm.low)


@settings(max_examples=10)
@given(capacity=st.floats(150.0, 400.0), more=st.floats(1.0, 100.0), seed=st.integers(0, 100))
def test_more_capacity_is_never_full_sooner_and_the_interval_is_in_order(
    capacity: float, more: float, seed: int
) -> None:
    largest = growing(0.5, 84, seed=seed)

    small, large = until(largest, capacity), until(largest, capacity + more)

    assert 1 <= small.low <= small.middle <= small.high
    assert small.low <= large.low
    assert small.high <= large.high
    assert small.full_share >= large.full_share


def test_an_order_that_arrives_in_time_moves_the_day() -> None:
    capacity = np.where(np.arange(400) < 30, 300.0, 400.0)

    found = days_to_full(growing(), capacity, rng=np.random.default_rng(0), paths=300)

    assert found.middle > 120


def test_a_planned_event_fills_the_pool_on_its_day() -> None:
    factors = np.where(np.arange(400) >= 20, 1.5, 1.0)

    assert until(growing(), 300.0, factors=factors).middle == 21


def test_unknown_days_are_left_out() -> None:
    largest = growing()
    largest[np.random.default_rng(1).random(len(largest)) < 0.3] = np.nan

    found = until(largest, 300.0)

    assert found.low <= 60 <= found.high


def test_futures_scale_with_the_past() -> None:
    one, other = (future_days(growing() * by, 60, rng=np.random.default_rng(0), paths=50) for by in (1.0, 1024.0))

    np.testing.assert_allclose(other, one * 1024.0, rtol=1e-6)


def test_five_weeks_are_too_few() -> None:
    with pytest.raises(ValueError, match="5 weeks have a known day, 6 are needed"):
        until(growing(days=35), 300.0)
