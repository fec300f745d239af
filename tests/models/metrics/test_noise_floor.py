"""Noise: pairs that should have measured the same, and the floor they prove."""

import numpy as np
import pytest

from models.metrics.noise_floor import LOAD_TOLERANCE, MIN_PAIRS, PRESSURE_TOLERANCE, noise_floor, replicates

NONE = np.full(4, np.nan)


def test_neighbouring_windows_of_one_container_in_near_equal_state_are_replicates() -> None:
    container, window = np.array([1, 1, 1, 2]), np.array([7, 5, 6, 8])
    still = np.zeros((4, 2))

    assert replicates(container, window, still, NONE).tolist() == [[1, 2], [2, 0]]


@pytest.mark.parametrize("window", [[5, 7, 9, 11], [5, 5, 5, 5]])
def test_windows_that_are_not_neighbours_in_time_are_none(window: list[int]) -> None:
    assert replicates(np.zeros(4, np.int64), np.array(window), np.zeros((4, 1)), NONE).tolist() == []


def test_a_pressure_or_a_load_that_moved_is_another_state() -> None:
    pressure = np.array([[0.0], [0.9 * PRESSURE_TOLERANCE], [2.0 * PRESSURE_TOLERANCE], [2.0 * PRESSURE_TOLERANCE]])
    load = np.array([0.5, 0.5, 0.5, 0.5 + 1.1 * LOAD_TOLERANCE])

    found = replicates(np.zeros(4, np.int64), np.arange(4), pressure, load)

    assert found.tolist() == [[0, 1]]


def test_a_pressure_that_is_known_in_one_window_only_is_another_state() -> None:
    pressure = np.array([[0.1, np.nan], [0.1, 0.1], [0.1, 0.1]])

    assert replicates(np.zeros(3, np.int64), np.arange(3), pressure, NONE[:3]).tolist() == [[1, 2]]


@pytest.mark.parametrize("draw", ["normal", "laplace", "uniform"])
def test_not_even_the_truth_is_below_the_guaranteed_floor(draw: str) -> None:
    rng = np.random.default_rng(0)
    truth, noise = np.repeat(rng.normal(size=20_000), 2), getattr(rng, draw)(size=40_000)
    pairs = np.arange(40_000).reshape(-1, 2)

    floor = noise_floor(truth + noise, pairs)

    assert floor is not None
    assert floor.pairs == 20_000
    best = np.abs(noise - np.median(noise)).mean()
    assert floor.guaranteed < best
    if draw == "normal":
        assert floor.if_normal == pytest.approx(best, rel=0.02)


def test_few_pairs_prove_nothing() -> None:
    pairs = np.zeros((MIN_PAIRS - 1, 2), np.int64)

    assert noise_floor(np.zeros(1), pairs) is None
