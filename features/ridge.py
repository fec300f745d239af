"""Non-negative ridge regression of a few columns. Kernel."""

import numpy as np

from features.arrow import Floats

RIDGE = 0.02
SWEEPS = 200


def non_negative_ridge(x: Floats, y: Floats, ridge: Floats | float = RIDGE) -> Floats:
    """Weights >= 0 that minimise |y - x w|^2 / n + sum(ridge_j * mean(x_j^2) * w_j^2), by cyclic coordinate descent.

    Args:
        x: (n, p) finite.
        y: (n,) finite.
        ridge: (p,) or one penalty, relative to each column's mean square.

    Returns:
        (p,) weights; 0 for a column that is all zero.

    Source: Franc, Hlavac, Navara, "Sequential coordinate-wise algorithm for the non-negative least squares problem",
    CAIP 2005, with a ridge term scaled to each column.
    """
    gram = x.T @ x / len(y)
    target = x.T @ y / len(y)
    scale = np.diag(gram) * (1.0 + ridge)
    weights = np.zeros(x.shape[1])
    for _ in range(SWEEPS):
        for j in np.flatnonzero(scale > 0):
            slope = target[j] - gram[j] @ weights + gram[j, j] * weights[j]
            weights[j] = max(0.0, slope / scale[j])
    return weights
