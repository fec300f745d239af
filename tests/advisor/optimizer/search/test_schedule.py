"""Cooling: slow where the cost falls, over the same temperatures, in all of the time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.optimizer.search.schedule import COLDER, LEAST, TAIL, even, learnt

HOT, COLD = 12.0, 2.0


def time_between(low: float, high: float, log_heat: np.ndarray, cost: np.ndarray, most: float = np.inf) -> float:
    """Share of the time spent between two log temperatures."""
    cooling = learnt(log_heat, cost, most)
    at = np.interp([-high, -low], -cooling.log_heat, cooling.share)
    return float(at[1] - at[0])


def test_an_even_cooling_falls_by_the_same_factor_in_the_same_time() -> None:
    assert [even(100.0, 0.01).heat(share) for share in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([100, 10, 1, 0.01])


def test_most_time_goes_to_where_the_cost_falls_and_some_to_everywhere() -> None:
    log_heat = np.linspace(HOT, COLD, 500)
    cost = 1e6 / (1 + np.exp(-4 * (log_heat - 8.0)))

    assert time_between(7.0, 9.0, log_heat, cost) > 0.6 * (1 - TAIL)
    assert time_between(2.0, 4.0, log_heat, cost) > 0.9 * LEAST * 0.2


@given(cost=arrays(np.float64, st.integers(1, 200), elements=st.floats(-1e12, 1e12)))
def test_whatever_costs_were_all_temperatures_are_passed_once_and_downwards(cost: np.ndarray) -> None:
    log_heat = np.linspace(HOT, COLD, len(cost))

    cooling = learnt(log_heat, cost, np.inf)

    heats = [cooling.heat(share) for share in np.linspace(0, 1, 50)]
    assert heats == sorted(heats, reverse=True)
    assert (heats[0], heats[-1]) == pytest.approx((np.exp(log_heat.max()), COLDER * np.exp(log_heat.min())))


def test_where_no_cost_falls_cooling_is_even() -> None:
    cooling = learnt(np.linspace(HOT, COLD, 100), np.full(100, 7.0), np.inf)

    assert cooling.heat(0.5 * (1 - TAIL)) == pytest.approx(np.exp((HOT + COLD) / 2))


def test_falls_above_what_the_start_costs_do_not_count() -> None:
    log_heat = np.linspace(HOT, COLD, 500)
    undone, gained = (1.0 / (1 + np.exp(-4 * (log_heat - at))) for at in (10.0, 4.0))

    assert time_between(3.0, 5.0, log_heat, 1e9 * undone + 1e6 * gained) < 0.1
    assert time_between(3.0, 5.0, log_heat, 1e9 * undone + 1e6 * gained, most=1e6) > 0.5
