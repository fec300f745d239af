"""Fit near: the surface through training rows, by kernel ridge regression."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from models.forms.kernel_residual import Near

Floats = NDArray[np.float64]

MAX_POINTS = 800
"""More rows than that are thinned out: the cost grows with the cube of their number."""
REACHES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Widths that are tried, in typical distances along one column."""
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)


def fit_near(logs: Floats, beyond: Floats, *, seed: int) -> Near:
    """Kernel ridge regression, its reach and penalty chosen by leaving each row out.

    Args:
        logs: (n, k) signed logs, n >= 2, k >= 1.
        beyond: (n,) log slowdown beyond the trend.
        seed: of the thinning.

    Returns:
        The surface through at most MAX_POINTS rows.

    Raises:
        numpy.linalg.LinAlgError: rows are not finite.

    Source: Saunders et al., "Ridge regression learning algorithm in dual variables", ICML 1998; the closed form of
        leaving one out is Allen's, Technometrics 1974.
    """
    kept = np.arange(len(logs))
    if len(logs) > MAX_POINTS:
        kept = np.sort(np.random.default_rng(seed).choice(len(logs), MAX_POINTS, replace=False))
    centre, width = logs[kept].mean(axis=0), logs[kept].std(axis=0)
    width[width == 0] = 1.0
    points, target = (logs[kept] - centre) / width, beyond[kept]
    apart = _squared_distances(points)
    tried = [_leave_one_out(np.exp(-apart / _reach(r, points)), target, _reach(r, points)) for r in REACHES]
    _, coefficients, reach = min(tried, key=lambda one: one[0])
    return Near(centre, width, points, coefficients, reach)


def _reach(width: float, points: Floats) -> float:
    return float(2 * width**2 * points.shape[1])


def _leave_one_out(kernel: Floats, target: Floats, reach: float) -> tuple[float, Floats, float]:
    """The smallest mean squared error of leaving one out over the penalties, and the coefficients that gave it."""
    values, vectors = eigh(kernel)
    turned = vectors.T @ target
    best = (np.inf, np.zeros(len(target)), reach)
    for penalty in PENALTIES:
        inverse = 1 / (np.maximum(values, 0.0) + penalty)
        coefficients = vectors @ (inverse * turned)
        error = float(((coefficients / ((vectors**2) @ inverse)) ** 2).mean())
        if error < best[0]:
            best = (error, coefficients, reach)
    return best


def _squared_distances(points: Floats) -> Floats:
    size = (points**2).sum(axis=1)
    apart: Floats = np.maximum(size[:, None] + size - 2 * points @ points.T, 0.0)
    return apart
