"""Fit base: how much each pressure slows a container down, all else added on top."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from models.forms.pressure_base import BaseTerms

Floats = NDArray[np.float64]

SMALLEST_WEIGHT = 1e-3
"""Excess ratio that a typical (root mean square) amount of any pressure adds at least."""


def fit_base(
    features: Floats,
    log_slowdown: Floats,
    weight: Floats,
    base_columns: NDArray[np.integer],
    *,
    huber_log_ratio: float = 0.2,
) -> BaseTerms:
    """Positive weights that bring log1p(Σ weight × pressure) close to the log slowdown.

    Args:
        features: (n, d) rows without missing values in the base columns, which are >= 0.
        log_slowdown: (n,) measured log slowdown.
        weight: (n,) importance of each row, >= 0, not all zero.
        base_columns: (k,) columns of the base, in catalogue order.
        huber_log_ratio: residuals beyond this count linearly.

    Returns:
        One weight per column, strictly positive: more pressure always means more predicted slowdown, also where
        the data show none. A column that is zero in every row gets the smallest weight.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0008-model-form.md; Huber, AMS 1964; bounded L-BFGS, Byrd et al., SISC 1995.
    """
    pressure = features[:, base_columns]
    share = weight / weight.sum()
    scale = _root_mean_square(pressure, share)
    scaled = pressure / scale

    def loss(coefficients: Floats) -> tuple[float, Floats]:
        total = scaled @ coefficients
        residual = np.log1p(total) - log_slowdown
        pull = np.clip(residual, -huber_log_ratio, huber_log_ratio)
        value = float(share @ (pull * (residual - pull / 2)))
        return value, scaled.T @ (share * pull / (1 + total))

    start = np.full(len(base_columns), max(SMALLEST_WEIGHT, 0.1 / len(base_columns)))
    bounds = [(SMALLEST_WEIGHT, None)] * len(base_columns)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
    return BaseTerms(np.asarray(base_columns, dtype=np.int64), np.maximum(found.x, SMALLEST_WEIGHT) / scale)


def _root_mean_square(pressure: Floats, share: Floats) -> Floats:
    size = np.sqrt(share @ pressure**2)
    return np.where(size > 0, size, 1.0)
