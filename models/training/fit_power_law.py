"""Fit trend: ridge regression of log slowdown on signed logs, its penalty chosen by leaving groups out."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Ridge, RidgeCV

from models.data.splits import Split, leave_group_out
from models.forms.kernel_residual import Near
from models.forms.power_law import Trend, signed_log

Floats = NDArray[np.float64]
Groups = NDArray[np.integer]

PENALTIES = np.logspace(-3, 4, 15)
FOLDS = 5
SCALES = (0.5, 0.1)
"""Quantiles of the sizes above zero."""
REACH = 0.25
"""A trend goes on beyond the values seen for this share of their range, and so does what is said."""


def fit_trend(features: Floats, log_slowdown: Floats, weight: Floats, group: Groups) -> Trend:
    """A power law of every column that varies.

    Args:
        features: (n, d) rows; NaN is missing and counts as the column's median.
        log_slowdown: (n,) labels.
        weight: (n,) importance, >= 0, not all zero.
        group: (n,) what is left out together; of one group alone, single rows are.

    Returns:
        The trend; every column at two scales: by the median of its sizes, where half its values lie in the straight
        part of the signed log, and by a small quantile, where nearly all lie in the bent part, a power law. Together
        they bend as the data ask. Columns that never vary are left out.

    Raises:
        ValueError: there are no rows.

    Source: Hoerl and Kennard, Technometrics 1970; signed logs at two scales ours, docs/decisions/0016-blend.md.
    """
    known = np.isfinite(features)
    kept = np.flatnonzero([len(np.unique(column[row])) > 1 for column, row in zip(features.T, known.T, strict=True)])
    if not len(kept):
        return _level(float(np.average(log_slowdown, weights=weight)))
    values = np.where(known[:, kept], features[:, kept], np.nan)
    scales = np.concatenate([_scales(values, quantile) for quantile in SCALES])
    kept, values = np.tile(kept, len(SCALES)), np.tile(values, len(SCALES))
    fills = np.nanmedian(values, axis=0)
    logs = signed_log(np.where(np.isnan(values), fills, values), scales)
    centre = np.average(logs, axis=0, weights=weight)
    width = np.sqrt(np.average((logs - centre) ** 2, axis=0, weights=weight))
    width[width == 0] = 1.0
    fitted = _ridge((logs - centre) / width, log_slowdown, weight, group)
    weights = np.asarray(fitted.coef_, np.float64) / width
    low, high = reached(logs)
    return Trend(kept, scales, fills, weights, float(fitted.intercept_) - float(centre @ weights), low, high)


def reached(values: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest of (n,) or (n, k) values along the first axis, and REACH of their range beyond."""
    low, high = values.min(axis=0), values.max(axis=0)
    return low - REACH * (high - low), high + REACH * (high - low)


def _level(log_slowdown: float) -> Trend:
    """A trend that is the same everywhere: one column that counts for nothing, since a graph needs one."""
    nothing = np.zeros(1)
    return Trend(np.zeros(1, np.int64), np.ones(1), nothing, nothing, log_slowdown, nothing, nothing)


def scaled(trend: Trend, factor: float) -> Trend:
    """The trend times a factor."""
    return replace(trend, weights=trend.weights * factor, intercept=trend.intercept * factor)


def with_near(trend: Trend, near: Near, weight: float) -> Trend:
    """A trend, and one surface more times a weight."""
    return replace(trend, weights=np.append(trend.weights, weight), near=(*trend.near, near))


def _scales(values: Floats, quantile: float) -> Floats:
    """(n, k) -> (k,) > 0: a quantile of the sizes above zero."""
    size = np.abs(values)
    return np.nanquantile(np.where(size > 0, size, np.nan), quantile, axis=0)


def _ridge(x: Floats, y: Floats, weight: Floats, group: Groups) -> Ridge | RidgeCV:
    share = weight * len(weight) / weight.sum()
    if len(np.unique(group)) == 1:
        return RidgeCV(PENALTIES).fit(x, y, sample_weight=share)
    return Ridge(_best_penalty(x, y, share, leave_group_out(group, folds=FOLDS))).fit(x, y, sample_weight=share)


def _best_penalty(x: Floats, y: Floats, share: Floats, folds: list[Split]) -> float:
    """The penalty with the largest mean r2 on the folds; one decomposition of a fold serves all penalties.

    Source: Hastie et al., "The Elements of Statistical Learning", 2009, 3.4.1.
    """
    explained = np.zeros(len(PENALTIES))
    for fold in folds:
        (seen, label, weight), (asked, truth, counts) = ((x[p], y[p], share[p]) for p in (fold.train, fold.test))
        centre, level = np.average(seen, axis=0, weights=weight), np.average(label, weights=weight)
        apart = seen - centre
        strength, axes = np.linalg.eigh(apart.T @ (apart * weight[:, None]))
        pull = axes.T @ (apart.T @ (weight * (label - level)))
        slopes = axes @ (pull[:, None] / (np.maximum(strength, 0.0)[:, None] + PENALTIES))
        lost = counts @ (truth[:, None] - level - (asked - centre) @ slopes) ** 2
        varied = float(counts @ (truth - np.average(truth, weights=counts)) ** 2)
        explained += 1 - lost / varied if varied else 0.0
    return float(PENALTIES[np.argmax(explained)])
