"""Adapt: in the long run as many miss as promised, however errors drift; keys, order and broken labels do no harm."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.calibration.adaptive_conformal import NARROWEST, STEP, WIDEST, Tracked, adapt, replay, untouched

Floats = NDArray[np.float64]
PER_WINDOW = 10


def drifting(scale: Floats, seed: int) -> tuple[Floats, NDArray[np.int64]]:
    """Scores whose 0.9 quantile is the scale of their window, PER_WINDOW a window, and their times."""
    rng = np.random.default_rng(seed)
    scores = rng.exponential(1 / np.log(10), (len(scale), PER_WINDOW)) * scale[:, None]
    return scores.ravel(), np.repeat(np.arange(len(scale)), PER_WINDOW)


def covered(scores: Floats, time: NDArray[np.int64]) -> Floats:
    """(n,) 1 where a bound that follows would have held."""
    _, stretch = replay(untouched(1, 0.9), np.zeros(len(scores), np.int64), scores, time=time)
    return (scores <= stretch).astype(float)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "scale",
    [np.ones(4000), np.repeat([1.0, 2.5], 2000), np.linspace(1, 3, 4000), 1.6 + 0.6 * np.sin(np.arange(4000) / 200)],
    ids=["steady", "jump", "drift", "waves"],
)
def test_as_many_hold_as_promised_however_errors_drift(scale: Floats, seed: int) -> None:
    scores, time = drifting(scale, seed)

    assert covered(scores, time).mean() == pytest.approx(0.9, abs=0.01)


def test_margins_that_do_not_follow_would_not_hold() -> None:
    scores, _ = drifting(np.repeat([1.0, 2.5], 500), seed=0)

    assert (scores <= 1.0).mean() < 0.8


def test_after_a_jump_the_promise_is_kept_again() -> None:
    scores, time = drifting(np.repeat([1.0, 2.5], 500), seed=1)

    held = covered(scores, time)

    assert held[5000:5200].mean() < 0.8
    assert held[7000:].mean() == pytest.approx(0.9, abs=0.02)


def test_where_errors_shrink_far_the_bound_keeps_most_of_its_width() -> None:
    scores, time = drifting(np.full(1000, 0.1), seed=2)

    state, _ = replay(untouched(1, 0.9), np.zeros(len(scores), np.int64), scores, time=time)

    assert state.log_stretch.tolist() == [NARROWEST]


windows = st.lists(st.lists(st.floats(0, 1.1), min_size=1, max_size=4), min_size=1, max_size=20)


@given(windows)
def test_the_state_is_the_account_of_misses_beyond_those_promised(given_windows: list[list[float]]) -> None:
    """Exact while no limit is met, as within so few labels; what makes long-run coverage certain."""
    state, beyond = untouched(1, 0.9), 0.0
    for window in given_windows:
        scores = np.array(window)
        beyond += (scores > state.stretch(np.zeros(1, int))[0]).sum() - 0.1 * len(scores)
        state = adapt(state, np.zeros(len(scores), np.int64), scores)

    assert NARROWEST < state.log_stretch[0] < WIDEST
    assert state.log_stretch[0] / STEP == pytest.approx(beyond, abs=1e-6)


@given(st.floats(NARROWEST, WIDEST), st.lists(st.floats(0, 5), min_size=1, max_size=20))
def test_neither_the_order_within_a_window_nor_another_key_matters(start: float, values: list[float]) -> None:
    state, scores = Tracked(np.array([start, 0.3]), 0.9), np.array(values)
    order = np.argsort(np.random.default_rng(len(values)).random(len(values)))

    one = adapt(state, np.zeros(len(values), np.int64), scores)
    other = adapt(state, np.zeros(len(values), np.int64), scores[order])

    assert one.log_stretch == pytest.approx(other.log_stretch, abs=1e-12)
    assert one.log_stretch[1] == 0.3


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=300))
def test_broken_labels_move_a_bound_no_further_than_the_limits(values: list[float]) -> None:
    state = untouched(1, 0.9)
    for _ in range(10):
        state = adapt(state, np.zeros(len(values), np.int64), np.array(values, np.float64))

    assert NARROWEST <= state.log_stretch[0] <= WIDEST
    if np.isnan(values).all():
        assert state.log_stretch[0] == 0.0


def test_a_row_is_judged_by_what_had_come_true_before_it_was_decided() -> None:
    """Three windows of sure misses: with labels one window late, the third is the first to know of one."""
    scores, time = np.full(3, 9.0), np.array([3, 1, 2])
    key = np.zeros(3, np.int64)

    late, at_once = (replay(untouched(1, 0.9), key, scores, time=time, late=late)[1] for late in (1, 0))

    assert late == pytest.approx([np.exp(0.9 * STEP), 1.0, 1.0])
    assert at_once == pytest.approx([np.exp(2 * 0.9 * STEP), 1.0, np.exp(0.9 * STEP)])


def test_thousands_of_labels_of_one_moment_do_not_throw_the_bound_to_its_limit() -> None:
    """A large cluster, of which one bad moment is no reason to give up."""
    state = adapt(untouched(1, 0.9), np.zeros(5000, np.int64), np.full(5000, 9.0))

    assert 0 < state.log_stretch[0] < WIDEST / 4


def test_without_rows_nothing_changes() -> None:
    state, stretch = replay(untouched(2, 0.9), np.zeros(0, int), np.zeros(0), time=np.zeros(0, np.int64))

    assert (state.log_stretch.tolist(), stretch.tolist()) == ([0.0, 0.0], [])
