"""Rules, their choice, censored demand and the planner's inputs, by numbers that can be checked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.demand.centres import CENTRES, DAY, WEEK, decomposed, filled, pool, seasonal_naive, trended, typical
from models.demand.choice import CLEARLY, chosen, quantile_loss
from models.demand.observed import demand_of, full_hours
from models.demand.paths import lifted
from models.demand.planner_inputs import ANY, NEVER, Event, event_factors, growth_factors
from models.demand.rolling_origin import origins, rolled

HOUR_US = 3_600_000_000


def test_seasonal_naive_is_the_last_week_again() -> None:
    hours = np.arange(3.0 * WEEK)

    assert (seasonal_naive(hours, WEEK + 1) == [*range(2 * WEEK, 3 * WEEK), 2 * WEEK]).all()


def test_the_pool_is_the_mean_of_the_same_hour_of_four_weeks() -> None:
    hours = np.repeat([9.0, 1.0, 2.0, 3.0, 4.0], WEEK)

    assert (pool(hours, 5) == 2.5).all()


def test_a_decomposition_continues_a_season_exactly() -> None:
    at = np.arange(6 * WEEK)
    hours = 10 + np.sin(2 * np.pi * at / DAY) + (at % WEEK < DAY)

    np.testing.assert_allclose(decomposed(hours[:-WEEK], WEEK), hours[-WEEK:], atol=1e-9)


def test_a_burst_does_not_move_what_is_typical() -> None:
    hours = np.tile(np.arange(float(DAY)), 28)
    burst = hours.copy()
    burst[-DAY:] += 1000

    np.testing.assert_array_equal(typical(burst, DAY), typical(hours, DAY))
    assert typical(hours, DAY)[12] == 12


def test_a_slope_is_continued_where_weeks_support_it_and_fades() -> None:
    hours = 100.0 + np.arange(8.0 * WEEK) * 0.1

    ahead = trended(hours, 2 * WEEK)

    assert ahead[0] == pytest.approx(hours[-1], rel=0.1)
    assert 0 < ahead[-1] - ahead[0] < 0.1 * 2 * WEEK


@pytest.mark.parametrize("name", CENTRES)
@given(factor=st.integers(-10, 20))
def test_every_rule_scales_and_gives_the_hours_asked_for(name: str, factor: int) -> None:
    hours = 5 + np.random.default_rng(0).random(3 * WEEK)

    found = CENTRES[name](hours * 2.0**factor, 30)

    np.testing.assert_allclose(found, CENTRES[name](hours, 30) * 2.0**factor)
    assert found.shape == (30,)


def test_unknown_hours_are_filled_by_the_same_hour_of_other_weeks_then_days() -> None:
    hours = np.tile(np.arange(float(DAY)), 14)
    hours[WEEK:] += 10
    known = hours.copy()
    known[[5, 6, WEEK + 6]] = np.nan

    found = filled(known)

    assert found[5] == 15
    assert found[6] == pytest.approx(np.delete(hours[6::DAY], [0, 7]).mean())


def test_origins_leave_two_weeks_before_and_the_horizon_after() -> None:
    where = origins(6 * WEEK, 48)

    assert where.at.min() >= 2 * WEEK
    assert where.at.max() == 6 * WEEK - 48
    assert where.weight.sum() == pytest.approx(1)
    assert (np.diff(where.weight) > 0).all()


def test_what_was_said_at_an_origin_uses_no_later_hour() -> None:
    series = 10 + np.random.default_rng(1).random(4 * WEEK)
    where = origins(len(series), 24)
    changed = series.copy()
    changed[where.at[3] :] *= 7

    before, after = (rolled(one, one, decomposed, where).centre for one in (series, changed))

    assert (before[:4] == after[:4]).all()
    assert (before[4:] != after[4:]).any()


def test_the_loss_of_a_perfect_forecast_is_zero_and_a_miss_counts_by_its_level() -> None:
    came = np.array([10.0, 10.0, np.nan])

    assert quantile_loss(came, np.full((3, 3), 10.0)) == 0
    assert quantile_loss(came, np.full((1, 3), 8.0), (0.9,)) == pytest.approx(2 * 0.9 * 2 / 10)
    assert quantile_loss(came, np.full((1, 3), 12.0), (0.9,)) == pytest.approx(2 * 0.1 * 2 / 10)


def test_another_rule_is_chosen_where_it_is_clearly_better() -> None:
    clearly = np.exp(-CLEARLY)

    assert chosen(np.array([[1.0, 0.9 * clearly], [1.0, 0.9 * clearly]]), 0) == [1, 1]
    assert chosen(np.array([[1.0, 0.99], [1.0, 0.99]]), 0) == [0, 0]
    assert chosen(np.array([[np.nan, 1.0]]), 0) == [0]


def test_a_full_pools_demand_is_what_runs_and_what_waits() -> None:
    running, capacity = np.array([50.0, 100.0, 100.0, np.nan]), np.full(4, 100.0)
    pending = np.array([np.nan, 30.0, np.nan, 5.0])

    full = full_hours(running, capacity)
    demand, least = demand_of(running, pending, full)

    assert full.tolist() == [False, True, True, False]
    np.testing.assert_array_equal(demand, [50, 130, np.nan, np.nan])
    np.testing.assert_array_equal(least, [50, 130, 100, np.nan])


def test_lifted_paths_have_the_maxima_given_in_their_own_order() -> None:
    paths = np.array([[1.0, 2.0, 6.0], [1.0, 1.0, 4.0]])

    found = lifted(paths, np.array([5.0, 9.0]))

    assert found.max(axis=1).tolist() == [9.0, 5.0]
    assert found[:, 0].tolist() == [1.0, 1.0]


def test_events_multiply_what_they_concern_while_they_last() -> None:
    hours = np.arange(4) * HOUR_US
    launch = Event(HOUR_US, 3 * HOUR_US, "web", ANY, 2.0, "eve", "launch")
    move = Event(2 * HOUR_US, NEVER, ANY, "a", 1.5, "eve", "region b closes")

    found = event_factors(hours, [("web", "a"), ("batch", "b")], [launch, move])

    assert found.tolist() == [[1, 2, 3, 1.5], [1, 1, 1, 1]]


def test_growth_of_a_fifth_is_reached_after_a_year() -> None:
    found = growth_factors(8760, 0.2)

    assert found[-1] == pytest.approx(1.2)
    assert (np.diff(found) > 0).all()
