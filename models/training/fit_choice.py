"""Fit choice: by which order what neighbours do adds up, where it begins to slow anybody down, and its weight."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from features.schema.catalog import ORDERS
from models.forms.co_runner_choice import Choice, bent
from models.training.fit_base import fit_base

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
FEWEST_ROWS, FEWEST_ALIKE = 30, 8
"""Rows alike that are looked at, and how many such sets speak for anything."""
KNEES = np.linspace(0.1, 0.8, 8)
"""Quantiles of harm that are tried as knees, in addition to none."""
HUBER_LOG_RATIO = 0.2
"""Residuals beyond this count linearly, as in fit_base."""


def fit_choice(together: Floats, log_slowdown: Floats, weight: Floats, alike: Ints) -> Choice | None:
    """How neighbours' effects add up, as far as rows alike show it.

    Args:
        together: (n, len(ORDERS)) harm by all neighbours together by each order, NaN where not known.
        log_slowdown: (n,) labels.
        weight: (n,) importance, >= 0.
        alike: (n,) code of rows that differ by their neighbours only: one app on one platform. Between apps
            harm differs for other reasons.

    Returns:
        Where sums lose more without a knee than with the best one, by more than a standard error: order 1 with that
        knee. Else the lowest order whose ranks are within a standard error of the best, without one. None where that is
        order 1: the base adds pressures up too, resource by resource, and does so better.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0039-what-neighbours-do-together.md and 0040-a-knee-in-harm.md; one standard error:
    Breiman et al., 1984, 3.4.3.
    """
    known = np.flatnonzero(np.isfinite(together).all(axis=1) & (weight > 0))
    sets = _sets(alike[known])
    if len(sets) < FEWEST_ALIKE:
        return None
    target, share = log_slowdown[known], weight[known]
    bent_sum = _bent(together[known][:, 0], target, share, sets)
    if bent_sum is not None:
        return bent_sum
    agreed = np.array([_correlations(together[known][rows], target[rows]) for rows in sets])
    column = int(_good_enough(-agreed, sets)[1].argmax())
    return Choice(ORDERS[column], _weight(together[known][:, column], target, share)) if column else None


def _sets(alike: Ints) -> list[Ints]:
    """Rows of each set of enough rows alike."""
    order = np.argsort(alike, kind="stable")
    sets = np.split(order, np.flatnonzero(np.diff(alike[order])) + 1)
    return [rows for rows in sets if len(rows) >= FEWEST_ROWS]


def _correlations(together: Floats, log_slowdown: Floats) -> Floats:
    """(orders,) Spearman's correlation of harm and label; 0 where nothing varies.

    Ranks, since what an app's sensitivities err by is a factor, and outliers are many.
    """
    ranks = rankdata(np.column_stack([together, log_slowdown]), axis=0)
    apart = ranks - ranks.mean(axis=0)
    size = np.sqrt((apart**2).sum(axis=0))
    below = size[:-1] * size[-1]
    found: Floats = np.divide(apart[:, :-1].T @ apart[:, -1], below, out=np.zeros(len(ORDERS)), where=below > 0)
    return found


def _good_enough(losses: Floats, sets: Sequence[Ints]) -> tuple[int, NDArray[np.bool_]]:
    """The best of k candidates, and (k,) whether each loses no more, but for a standard error of the difference.

    The losses are (g, k); each set counts by its rows.
    """
    rows = np.array([len(one) for one in sets], np.float64)
    best = int((rows @ losses).argmin())
    over = losses - losses[:, [best]]
    mean = rows @ over / rows.sum()
    error: Floats = np.sqrt((rows**2) @ (over - mean) ** 2) / rows.sum()
    return best, mean <= error


def _bent(harm: Floats, log_slowdown: Floats, weight: Floats, sets: Sequence[Ints]) -> Choice | None:
    """The sum with the knee of least loss, if it is better than without one."""
    knees = np.unique(np.append(0.0, np.quantile(harm, KNEES)))
    over = np.column_stack([bent(harm, float(knee)) for knee in knees])
    weights = [_weight(column, log_slowdown, weight) for column in over.T]
    residual = np.log1p(over * weights) - log_slowdown[:, None]
    pull = np.clip(residual, -HUBER_LOG_RATIO, HUBER_LOG_RATIO)
    loss = pull * (residual - pull / 2)
    best, good = _good_enough(np.array([np.average(loss[r], axis=0, weights=weight[r]) for r in sets]), sets)
    return None if good[0] else Choice(ORDERS[0], weights[best], float(knees[best]))


def _weight(harm: Floats, log_slowdown: Floats, weight: Floats) -> float:
    fit = fit_base(harm[:, None], log_slowdown, weight, np.zeros(1, np.int64), huber_log_ratio=HUBER_LOG_RATIO)
    return float(fit.weights[0])
