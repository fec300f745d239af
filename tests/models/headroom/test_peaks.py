"""Peaks: forecasts are exceeded as rarely as promised, know nothing of the future, and take no gap for idleness."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.headroom.peak_baselines import batch_usage, decayed_p95, largest_of_day, n_sigma, tuned_n
from models.headroom.peak_features import DAY, NAMES, can_be_asked, future_peaks, peak_features
from models.headroom.peak_offset import STEP, first_offset, followed
from models.training.fit_peak import PeakForecast, forecast_peaks

DAYS, NODES = 4.5, 8


@pytest.fixture(scope="module")
def use() -> np.ndarray:
    """Nodes whose load follows the day, with bursts that none can foresee."""
    rng = np.random.default_rng(1)
    bins = np.arange(round(DAYS * DAY))
    level = rng.uniform(0.2, 0.4, (NODES, 1))
    wave = 0.1 * np.sin(2 * np.pi * bins / DAY + rng.uniform(0, 6, (NODES, 1)))
    bursts = 0.2 * (rng.random((NODES, len(bins))) < 0.02)
    return np.asarray(np.clip(level + wave + bursts + rng.normal(0, 0.02, bursts.shape), 0.0, 1.0))


def test_the_oracle_is_the_largest_of_the_bins_that_follow() -> None:
    use = np.array([[0.5, 0.1, 0.4, np.nan, 0.3, 0.2]])

    np.testing.assert_array_equal(future_peaks(use, 2), [[0.4, 0.4, 0.3, 0.3, np.nan, np.nan]])
    assert np.isnan(future_peaks(use, 6)).all()


def test_features_are_what_they_are_called(use: np.ndarray) -> None:
    now = 3 * DAY
    row = dict(zip(NAMES, peak_features(use, 12)[2, now], strict=True))
    past = use[2, now - DAY + 1 : now + 1]

    assert row["max_24h"] == past.max()
    assert row["max_1h"] == past[-12:].max()
    assert row["p95_24h"] == np.sort(past)[-15]
    assert row["mean_24h"] == pytest.approx(past.mean())
    assert row["sd_24h"] == pytest.approx(past.std())
    assert row["max_yesterday"] == use[2, now - DAY + 1 : now - DAY + 13].max()
    assert row["pool_now"] == pytest.approx(use[:, now].mean())


@given(st.integers(1, DAY), st.integers(2 * DAY, round(DAYS * DAY) - 2))
def test_no_feature_knows_what_comes_after_it(bins: int, now: int) -> None:
    use = np.random.default_rng(bins).random((2, now + 2))
    later = use.copy()
    later[:, now + 1 :] = 9.0

    np.testing.assert_array_equal(peak_features(use, bins)[:, now], peak_features(later, bins)[:, now])


def test_a_bin_that_was_not_measured_is_not_an_idle_one() -> None:
    use = np.full((1, 2 * DAY), 0.6)
    use[0, ::3] = np.nan

    row = peak_features(use, 12)[0, -1]

    assert row[NAMES.index("mean_24h")] == pytest.approx(0.6)
    assert row[NAMES.index("sd_24h")] == pytest.approx(0.0, abs=1e-6)


def test_nothing_is_asked_in_the_first_day_or_after_a_day_without_measurements(use: np.ndarray) -> None:
    gone = use.copy()
    gone[0, DAY : 2 * DAY] = np.nan

    asked = can_be_asked(gone)

    assert not asked[:, : DAY - 1].any()
    assert asked[1:, DAY:].all()
    assert not asked[0, DAY : 2 * DAY + DAY // 2 - 1].any()


@pytest.fixture(scope="module")
def forecast(use: np.ndarray) -> PeakForecast:
    return forecast_peaks(use, 12, 0.1, fit_until=3 * DAY)


def test_forecasts_of_later_days_are_exceeded_as_rarely_as_promised(use: np.ndarray, forecast: PeakForecast) -> None:
    later = np.isfinite(forecast.peak) & np.isfinite(forecast.outcome)
    later[:, : 3 * DAY] = False

    assert forecast.by_trees
    assert (forecast.peak < forecast.outcome)[later].mean() <= 0.13
    assert forecast.peak[later].mean() < np.quantile(use, 0.999)


def test_a_forecast_is_the_same_to_the_digit_and_does_not_change_with_what_comes_after_it(
    use: np.ndarray, forecast: PeakForecast
) -> None:
    later = use.copy()
    later[:, 4 * DAY + 1 :] = 1.0

    again = forecast_peaks(later, 12, 0.1, fit_until=3 * DAY)

    np.testing.assert_array_equal(forecast.peak[:, : 4 * DAY], again.peak[:, : 4 * DAY])
    assert not np.array_equal(forecast.peak, again.peak, equal_nan=True)


def test_few_nodes_are_forecast_by_the_largest_use_of_their_day(use: np.ndarray) -> None:
    found = forecast_peaks(use[:2], 12, 0.05, fit_until=use.shape[1])

    assert not found.by_trees
    assert np.isfinite(found.peak[:, -1]).all()


def test_without_outcomes_nothing_is_forecast(use: np.ndarray) -> None:
    assert np.isnan(forecast_peaks(use[:, :DAY], 12, 0.05, fit_until=DAY).peak).all()


def test_an_offset_rises_after_misses_once_they_can_be_known_and_not_before() -> None:
    forecast, outcome = np.full((1, 40), 0.5), np.full((1, 40), 0.9)

    found = followed(forecast, outcome, 12, 0.1)[0]

    assert (found[:12] == 0.5).all()
    assert found[12] == pytest.approx(0.5 + STEP / 12 * 0.91)
    assert (np.diff(found[12:]) > 0).all()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=200), st.floats(0.01, 0.5))
def test_the_first_offset_covers_what_it_promises(shortfall: list[float], risk: float) -> None:
    values = np.array(shortfall)

    assert (values > first_offset(values, risk)).mean() <= risk


def test_peers_follow_their_rules(use: np.ndarray) -> None:
    features = peak_features(use, 12)
    outcome = future_peaks(use, 12)
    usable = can_be_asked(use) & np.isfinite(outcome)
    times = tuned_n(features, outcome, usable, 24, 0.05)

    assert (n_sigma(features, times, 24) < outcome)[usable].mean() == pytest.approx(0.05, abs=0.002)
    with pytest.raises(ValueError, match="more days"):
        tuned_n(features, outcome, np.zeros_like(usable), 24, 0.05)
    np.testing.assert_allclose(batch_usage(features), use + 0.4)
    assert largest_of_day(features)[0, -1] == use[0, -DAY:].max()
    assert decayed_p95(np.full((1, 50), 0.5))[0, -1] == pytest.approx(0.55)
