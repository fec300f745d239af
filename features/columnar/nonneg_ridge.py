"""Non-negative ridge regression of a few columns. Kernel."""

import numpy as np
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats

RIDGE = 0.02
TOLERANCE = 1e-11
"""Slopes below this, with columns and target scaled to a mean square of one, count as zero."""


def non_negative_ridge(x: Floats, y: Floats, ridge: Floats | float = RIDGE) -> Floats:
    """Weights >= 0 that minimise |y - x w|^2 / n + sum(ridge_j * mean(x_j^2) * w_j^2), exactly.

    Args:
        x: (n, p) finite, n >= 1.
        y: (n,) finite.
        ridge: (p,) or one penalty, relative to each column's mean square; positive, but for one column at most.

    Returns:
        (p,) weights; 0 for a column that is all zero.

    Source: Bro, de Jong, "A fast non-negativity-constrained least squares algorithm", J. Chemometrics 1997, with a
    ridge term scaled to each column. Coordinate descent needs thousands of sweeps where columns hardly differ.
    """
    size = np.sqrt((x**2).mean(axis=0))
    used = np.flatnonzero(size > 0)
    level = float(np.sqrt((y**2).mean()))
    weights = np.zeros(x.shape[1])
    if len(used) and level > 0:
        scaled = x[:, used] / size[used]
        gram = scaled.T @ scaled / len(y)
        gram[np.diag_indices(len(used))] += np.broadcast_to(ridge, len(weights))[used]
        weights[used] = least_within(gram, scaled.T @ (y / level) / len(y)) * level / size[used]
    return weights


def least_within(gram: Floats, target: Floats, start: Floats | None = None) -> Floats:
    """Weights >= 0 that minimise w gram w / 2 - target w, exactly.

    Args:
        gram: (p, p) positive definite, its diagonal about one.
        target: (p,) about one at most.
        start: (p,) weights >= 0, such as those of a few rows less: near the result it is found in few steps.

    Returns:
        (p,) weights.

    Source: see `non_negative_ridge`.
    """
    weights = np.zeros(len(target)) if start is None else start
    free = weights > 0
    if free.any():
        weights = _inside(gram, target, weights, free)
    for _ in range(10 * len(target)):
        slope = np.where(free, -np.inf, target - gram @ weights)
        if slope.max() <= TOLERANCE:
            break
        free[slope.argmax()] = True
        weights = _inside(gram, target, weights, free)
    return weights


def _inside(gram: Floats, target: Floats, weights: Floats, free: NDArray[np.bool_]) -> Floats:
    """Go to the minimum over the free columns; a column that would fall below zero on the way is set to it."""
    while True:
        goal = np.zeros(len(target))
        inside = np.flatnonzero(free)
        goal[inside] = np.linalg.solve(gram[inside[:, None], inside], target[inside])
        falling = free & (goal <= 0)
        if not falling.any():
            return goal
        step = (weights[falling] / np.maximum(weights[falling] - goal[falling], TOLERANCE)).min()
        weights = np.maximum(weights + step * (goal - weights), 0.0)
        free &= ~(falling & (weights <= TOLERANCE))
