"""Fit choice: by which order what neighbours do adds up, and its weight."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from features.together import ORDERS
from models.choice import Choice
from models.fit_base import fit_base

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
FEWEST_ROWS, FEWEST_ALIKE = 30, 8
"""Rows alike that are looked at, and how many such sets speak for anything."""


def fit_choice(together: Floats, log_slowdown: Floats, weight: Floats, alike: Ints) -> Choice | None:
    """How what neighbours do adds up, as far as rows alike tell it.

    Args:
        together: (n, len(ORDERS)) harm by all neighbours together by each order, NaN where not known.
        log_slowdown: (n,) labels.
        weight: (n,) importance, >= 0.
        alike: (n,) code of rows that differ by their neighbours only: one app on one platform. Between apps
            harm differs for other reasons.

    Returns:
        None where sums tell as much as any other order: the base adds pressures up, resource by resource, and does so
        better. Else the lowest order that is within one standard error of the best, with its weight.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0039-what-neighbours-do-together.md; one standard error: Breiman et al., 1984, 3.4.3.
    """
    known = np.flatnonzero(np.isfinite(together).all(axis=1) & (weight > 0))
    agreed, rows = _agreement(together[known], log_slowdown[known], alike[known])
    if len(rows) < FEWEST_ALIKE:
        return None
    mean = np.average(agreed, axis=0, weights=rows)
    best = int(mean.argmax())
    short = agreed[:, [best]] - agreed
    error = np.sqrt((rows**2) @ (short - _mean(short, rows)) ** 2) / rows.sum()
    column = int(np.flatnonzero(mean[best] - mean <= error)[0])
    if not column:
        return None
    chosen = together[known][:, [column]]
    terms = fit_base(chosen, log_slowdown[known], weight[known], np.zeros(1, np.int64))
    return Choice(ORDERS[column], float(terms.weights[0]))


def _mean(short: Floats, rows: Floats) -> Floats:
    """(k,) means of (g, k) values, each set counting by its (g,) rows."""
    mean: Floats = rows @ short / rows.sum()
    return mean


def _agreement(together: Floats, log_slowdown: Floats, alike: Ints) -> tuple[Floats, Floats]:
    """(g, orders) rank correlation of harm and label in each set of rows alike, and (g,) its rows.

    Ranks, since what an app's sensitivities err by is a factor, and outliers are many.
    """
    order = np.argsort(alike, kind="stable")
    sets = [rows for rows in np.split(order, np.flatnonzero(np.diff(alike[order])) + 1) if len(rows) >= FEWEST_ROWS]
    agreed = np.array([_correlations(together[rows], log_slowdown[rows]) for rows in sets])
    return agreed.reshape(-1, len(ORDERS)), np.array([len(rows) for rows in sets], np.float64)


def _correlations(together: Floats, log_slowdown: Floats) -> Floats:
    """(orders,) Spearman's correlation; 0 where nothing varies."""
    ranks = rankdata(np.column_stack([together, log_slowdown]), axis=0)
    apart = ranks - ranks.mean(axis=0)
    size = np.sqrt((apart**2).sum(axis=0))
    below = size[:-1] * size[-1]
    found: Floats = np.divide(apart[:, :-1].T @ apart[:, -1], below, out=np.zeros(len(ORDERS)), where=below > 0)
    return found
