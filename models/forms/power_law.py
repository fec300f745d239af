"""Trend: slowdown as a product of powers of the features, for data whose signs are not known.

The signed logarithm makes counters of any scale comparable and a straight line in it a power law, which extrapolates
far better than a line in the counters themselves and does not stop at the last value seen as trees do.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.forms.kernel_residual import Near, near_value

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Trend:
    """intercept + sum of weights[i] x signed log of features[:, columns[i]] / scales[i], missing as fills[i].

    A signed log counts as `low` below and as `high` above: a counter ten times what was ever seen says no more than
    that it is beyond. For each surface of `near` there is one weight more, at the end, for its value.
    """

    columns: Ints
    scales: Floats
    fills: Floats
    weights: Floats
    intercept: float
    low: Floats
    high: Floats
    near: tuple[Near, ...] = ()
    within: tuple[float, float] = (-np.inf, np.inf)
    """Smallest and largest log slowdown that is said of any row, trees included."""


def signed_log(values: Floats, scales: Floats) -> Floats:
    """sign(x) log1p(|x| / scale), (n, k) and (k,) > 0 -> (n, k); odd, rising, about x / scale near zero. NaN stays."""
    return np.sign(values) * np.log1p(np.abs(values) / scales)


def trend_inputs(features: Floats, trend: Trend) -> Floats:
    """What the trend weighs, computed here for training and serving alike.

    Args:
        features: (n, d) raw values; NaN is missing.
        trend: k columns below d.

    Returns:
        (n, k) signed logs from low to high, finite; the value of each surface in one column more.

    Raises:
        IndexError: a column lies outside features.

    Source: ours, docs/decisions/0016-blend.md and 0073-far-rows.md.
    """
    values = features[:, trend.columns]
    logs = np.clip(signed_log(np.where(np.isnan(values), trend.fills, values), trend.scales), trend.low, trend.high)
    return np.column_stack([logs, *(near_value(logs, near) for near in trend.near)]) if trend.near else logs


def trend_sum(inputs: Floats, trend: Trend) -> Floats:
    """Log slowdown of the trend.

    Args:
        inputs: from `trend_inputs`, one column a weight.
        trend: its weights.

    Returns:
        (n,) intercept, then weight x input from the first to the last, added in this order so that the rounding is
        defined; the ONNX graph adds in the same order. NaN in, NaN out.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0016-blend.md.
    """
    total = np.full(len(inputs), trend.intercept)
    for i, weight in enumerate(trend.weights):
        total = total + inputs[:, i] * weight
    return total
