"""Fit novelty: where groups differ, which rows stand for all of them, and how far apart rows learnt from lie."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import LedoitWolf

from models.data.splits import random_rows
from models.forms.novelty import Novelty, distance, on_axes
from models.forms.power_law import signed_log

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
Flags = NDArray[np.bool_]

FALSE_FLAGS = 0.03
"""Share of rows left out that lie beyond the limit."""
KEPT = 0.95
"""Share of what lies between groups that the axes keep."""
MAX_POINTS = 256
"""Rows that stand for all: a live scheduler asks about hundreds of nodes at a time."""
FOLDS = 5
STEADY = 1e-12
"""Variance within groups, of a column's own, below which distance has no scale."""


def fit_novelty(features: Floats, group: Ints, *, free: Flags, seed: int) -> Novelty | None:
    """The limit of what rows teach.

    Args:
        features: (n, d) rows; NaN is missing.
        group: (n,) what is alike within.
        free: (d,) which columns may be looked at. A column with a sign must not be: a bound would move with it.
        seed: deals out the rows that set the limit.

    Returns:
        The limit, such that a FALSE_FLAGS share of rows left out at random exceeds it; None where groups do not differ
        or distance has no scale: fewer than two groups, no group of two rows, no column that varies, or none that
        varies within a group. An infinite value counts as missing.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0021-novelty.md; covariance within groups: Ledoit and Wolf, JMVA 2004.
    """
    features = np.where(np.isfinite(features), features, np.nan)
    columns = _telling(features, free)
    several = len(np.unique(group)) > 1 and len(group) > max(len(np.unique(group)), FOLDS)
    if not (several and len(columns)):
        return None
    whole = _placed(features, columns, group)
    apart = np.full(len(group), np.nan)
    for fold in random_rows(len(group), folds=FOLDS, rng=np.random.default_rng(seed)):
        part = _placed(features[fold.train], columns, group[fold.train])
        if part is not None:
            apart[fold.test] = distance(features[fold.test], part)
    if whole is None or np.isnan(apart).all():
        return None
    limit = float(np.nanquantile(apart, 1 - FALSE_FLAGS))
    return replace(whole, limit=limit) if limit > 0 else None


def _telling(features: Floats, free: Flags) -> NDArray[np.int64]:
    """Columns that take at least two known values."""
    varies = [len(np.unique(column[np.isfinite(column)])) > 1 for column in features.T]
    return np.flatnonzero(free & np.array(varies, np.bool_))


def _placed(features: Floats, columns: NDArray[np.int64], group: Ints) -> Novelty | None:
    """Axes and points, with a limit of one unit; None where nothing varies within groups."""
    values = features[:, columns]
    known = np.isfinite(values).any(axis=0)
    fills = np.zeros(len(columns))
    fills[known] = np.nanmedian(values[:, known], axis=0)
    size = np.abs(np.where(np.isnan(values), fills, values))
    scales = np.median(size, axis=0)
    scales = np.where(scales > 0, scales, np.where(size.max(axis=0) > 0, size.max(axis=0), 1.0))
    axes = _discriminants(signed_log(np.where(np.isnan(values), fills, values), scales), group)
    if axes is None:
        return None
    plain = Novelty(columns, scales, fills, axes, np.zeros((0, axes.shape[1])), 1.0)
    return replace(plain, points=_covering(on_axes(features, plain)))


def _discriminants(logs: Floats, group: Ints) -> Floats | None:
    """(n, k) -> (k, r): directions that keep most of what lies between groups, in deviations within a group."""
    width = logs.std(axis=0)
    width[width == 0] = 1.0
    standard = (logs - logs.mean(axis=0)) / width
    _, place, count = np.unique(group, return_inverse=True, return_counts=True)
    means = np.array([np.bincount(place, column) for column in standard.T]).T / count[:, None]
    inside = standard - means[place]
    if not (inside**2).mean() > STEADY:
        return None
    within = LedoitWolf(assume_centered=True).fit(inside).covariance_
    within *= len(place) / max(len(place) - len(count), 1)
    values, vectors = np.linalg.eigh(within)
    whiten = vectors / np.sqrt(np.maximum(values, values.max() * np.finfo(np.float64).eps))
    spread = np.sqrt(count)[:, None] * ((means - means.mean(axis=0)) @ whiten)
    _, sizes, directions = np.linalg.svd(spread, full_matrices=False)
    share = np.cumsum(sizes**2) / max(float((sizes**2).sum()), np.finfo(np.float64).tiny)
    kept = int(np.searchsorted(share, KEPT)) + 1
    axes: Floats = (whiten @ directions[:kept].T) / width[:, None]
    return axes


def _covering(placed: Floats) -> Floats:
    """At most MAX_POINTS rows such that no row is far from all of them: Gonzalez, TCS 1985."""
    chosen = [0]
    apart = ((placed - placed[0]) ** 2).sum(axis=1)
    while len(chosen) < MAX_POINTS and apart.max() > 0:
        chosen.append(int(apart.argmax()))
        apart = np.minimum(apart, ((placed - placed[chosen[-1]]) ** 2).sum(axis=1))
    return placed[chosen]
