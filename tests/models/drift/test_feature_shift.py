"""Stability: what has not moved is told so, what has moved is too, and missing is a place of its own."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.drift.feature_shift import BINS, Spread, spread_of, stability_index

RNG = np.random.default_rng(1)


def test_the_same_values_have_not_moved() -> None:
    values = RNG.normal(size=5000)
    assert stability_index(spread_of(values), values) < 1e-6


def test_values_that_moved_by_their_own_width_have_moved_much() -> None:
    values = RNG.normal(size=5000)
    assert stability_index(spread_of(values), values + 1.0) > 0.25


def test_a_feature_that_is_missing_now_has_moved() -> None:
    values = RNG.normal(size=5000)
    gone = np.where(np.arange(5000) < 2500, np.nan, values)
    assert stability_index(spread_of(values), gone) > 0.25


def test_a_constant_feature_has_one_edge_and_a_feature_nobody_told_none() -> None:
    assert spread_of(np.ones(100)).edges == (1.0,)
    assert spread_of(np.full(100, np.nan)) == Spread(edges=(), shares=(0.0, 1.0))
    assert stability_index(spread_of(np.full(100, np.nan)), np.full(10, np.nan)) == 0.0


def test_nothing_newer_has_not_moved() -> None:
    assert stability_index(spread_of(RNG.normal(size=50)), np.zeros(0)) == 0.0


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=1, max_size=60), st.integers(0, 999))
def test_the_index_is_never_negative_and_shares_sum_to_one(values: list[float], seed: int) -> None:
    before = spread_of(np.array(values))
    assert abs(sum(before.shares) - 1.0) < 1e-9
    assert len(before.shares) == len(before.edges) + 2 <= BINS + 1
    assert stability_index(before, np.random.default_rng(seed).normal(size=30)) >= 0.0
