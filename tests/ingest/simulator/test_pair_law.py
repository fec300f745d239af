"""Pair law: slowdown beside several, from what was measured beside one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.simulator.law import PLATFORMS, draw_apps
from ingest.simulator.pair_law import COMPOSED, PairLaw, scale_of

EXCESS = np.array([[[0.2, 0.6, 0.0], [0.1, 0.4, 0.3], [0.0, 0.0, 0.0]]])
"""Of three apps, the last of which never suffers."""


def law(compose: str, size: float = 1.0) -> PairLaw:
    apps = draw_apps(3, np.random.default_rng(0))
    return PairLaw(apps, EXCESS, scale_of(EXCESS), np.full((3, len(PLATFORMS)), size), compose)


def beside(compose: str, victim: int, neighbours: list[float], load: float = 1.0, size: float = 1.0) -> float:
    found = law(compose, size).slowdown(
        np.array([victim]), np.array([neighbours]), np.array([load]), np.zeros(1, np.int64)
    )
    return float(found[0])


@pytest.mark.parametrize("compose", ["additive", "max"])
def test_beside_one_at_full_load_that_fills_half_the_machine_it_is_what_was_measured(compose: str) -> None:
    assert beside(compose, 0, [0, 1, 0]) == pytest.approx(1.6)


def test_several_add_up_or_the_worst_counts_or_they_level_off_or_count_beyond_the_median() -> None:
    neighbours, total, median = [1.0, 1.0, 0.0], 0.2 + 0.6, 0.1

    assert beside("additive", 0, neighbours) == pytest.approx(1 + total)
    assert beside("max", 0, neighbours) == pytest.approx(1.6)
    assert beside("saturating", 0, neighbours) == pytest.approx(1 + 1.2 * (1 - np.exp(-total / 1.2)))
    assert beside("threshold", 0, neighbours) == pytest.approx(1 + total - median)


def test_who_was_never_measured_as_a_victim_does_not_suffer() -> None:
    assert {compose: beside(compose, 2, [5.0, 5.0, 5.0]) for compose in COMPOSED} == dict.fromkeys(COMPOSED, 1.0)


def test_a_container_that_takes_a_quarter_of_the_measured_share_presses_a_quarter_as_hard() -> None:
    assert beside("additive", 0, [0, 1, 0], size=0.25) == pytest.approx(1.15)


def test_a_victim_without_load_suffers_three_fifths() -> None:
    assert beside("additive", 0, [0, 1, 0], load=0.0) == pytest.approx(1 + 0.6 * 0.6)


def test_a_pair_that_was_not_measured_says_nothing_of_sizes() -> None:
    told = scale_of(np.array([[0.1, np.nan], [0.3, 0.5]]))

    assert (told.limit, told.knee) == (1.0, 0.3)


@given(
    compose=st.sampled_from(sorted(COMPOSED)),
    neighbours=st.lists(st.floats(0, 20), min_size=3, max_size=3),
    more=st.floats(0, 5),
    which=st.integers(0, 2),
)
def test_one_more_neighbour_never_speeds_anybody_up(
    compose: str, neighbours: list[float], more: float, which: int
) -> None:
    with_more = [n + more * (i == which) for i, n in enumerate(neighbours)]

    assert 1.0 <= beside(compose, 1, neighbours) <= beside(compose, 1, with_more) + 1e-12
