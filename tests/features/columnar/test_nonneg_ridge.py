"""Non-negative ridge: the conditions that the one minimum of a convex problem fulfils."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from features.columnar.nonneg_ridge import non_negative_ridge


def problem(seed: int, n: int, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pressures, their saturated form and an intercept: columns that hardly differ, as labels regress on; a target."""
    rng = np.random.default_rng(seed)
    pressure = rng.gamma(1.0, 0.4, (n, p)) * 10.0 ** rng.integers(-3, 4, p)
    x = np.column_stack([np.ones(n), pressure, -np.expm1(-pressure / 0.3)])
    y = x @ (rng.normal(0, 1, x.shape[1]) / np.sqrt((x**2).mean(axis=0))) + rng.normal(0, 0.3, n)
    return x, y, np.append([0.0], np.full(2 * p, 0.02))


@given(seed=st.integers(0, 10**6), n=st.integers(8, 200), p=st.integers(1, 8))
def test_no_small_step_improves_it(seed: int, n: int, p: int) -> None:
    x, y, ridge = problem(seed, n, p)

    weights = non_negative_ridge(x, y, ridge)

    scale = np.sqrt((x**2).mean(axis=0))
    slope = (x.T @ (x @ weights - y) / n + ridge * scale**2 * weights) / scale
    assert (weights >= 0).all()
    np.testing.assert_allclose(slope[weights > 0], 0, atol=1e-8)
    assert (slope >= -1e-8).all()


@given(seed=st.integers(0, 10**6))
def test_it_is_non_negative_least_squares_with_a_penalty_row_for_each_column(seed: int) -> None:
    x, y, ridge = problem(seed, 50, 3)

    penalty = np.diag(np.sqrt(len(y) * ridge * (x**2).mean(axis=0)))
    expected, _ = nnls(np.vstack([x, penalty]), np.append(y, np.zeros(x.shape[1])))

    scale = np.sqrt((x**2).mean(axis=0))
    np.testing.assert_allclose(non_negative_ridge(x, y, ridge) * scale, expected * scale, atol=1e-6)


def test_a_column_that_is_all_zero_weighs_nothing() -> None:
    weights = non_negative_ridge(np.array([[0.0, 1.0], [0.0, 2.0]]), np.array([1.0, 2.0]), 1e-9)

    assert weights.tolist() == pytest.approx([0.0, 1.0])


def test_what_only_harms_weighs_nothing() -> None:
    assert non_negative_ridge(np.array([[1.0], [2.0]]), np.array([-1.0, -2.0])).tolist() == [0.0]
