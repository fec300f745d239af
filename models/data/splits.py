"""Splits: which rows a model may learn from and which it is judged on.

A random row of time-ordered data is judged for one purpose only: to see how much easier that is, a sign of leaks.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.errors import InconsistentDataset

Flags = NDArray[np.bool_]
Ints = NDArray[np.integer]
EMBARGO_US = 600 * 1_000_000
"""Twice a label window: nothing that began before the origin is judged."""


@dataclass(frozen=True)
class Split:
    """(n,) flags of the rows to learn from and of the rows to judge on; disjoint."""

    train: Flags
    test: Flags


def time_forward(time: NDArray[np.int64], *, origins: int, embargo_us: int) -> list[Split]:
    """Learn from the past, skip an embargo, judge on what follows until the next origin.

    Args:
        time: (n,) microseconds, any order.
        origins: number of splits; origins divide the covered time evenly.
        embargo_us: rows this close after the origin are in neither part, microseconds.

    Returns:
        One split per origin, earliest first. Missing values are not allowed.

    Raises:
        InconsistentDataset: a split has no rows to learn from or to judge on.

    Source: rolling origin evaluation, Tashman, Int. J. Forecasting 2000, with a gap after each origin.
    """
    edges = np.linspace(time.min(), time.max() + 1, origins + 2).astype(np.int64)
    splits = [
        Split(train=time < origin, test=(time >= origin + embargo_us) & (time < end))
        for origin, end in pairwise(edges[1:])
    ]
    if not all(split.train.any() and split.test.any() for split in splits):
        raise InconsistentDataset("a time split is empty", "use fewer origins, a shorter embargo or more days")
    return splits


def as_many_origins(time: NDArray[np.int64], *, most: int) -> list[Split]:
    """`time_forward` with as many origins as the covered time allows, and an embargo of EMBARGO_US.

    Raises:
        InconsistentDataset: not even one.
    """
    for origins in range(most, 1, -1):
        try:
            return time_forward(time, origins=origins, embargo_us=EMBARGO_US)
        except InconsistentDataset:
            continue
    return time_forward(time, origins=1, embargo_us=EMBARGO_US)


def leave_group_out(group: Ints, *, folds: int) -> list[Split]:
    """Judge each group by a model that never saw it.

    Args:
        group: (n,) id of the group of each row.
        folds: number of splits; at most as many as there are groups are made.

    Returns:
        Splits whose test parts cover every row once. Groups are dealt out largest first to the smallest fold,
        so folds are of similar size and the same for the same rows. Missing values are not allowed.

    Raises:
        InconsistentDataset: fewer than two groups.

    Source: leave-group-out cross-validation, Roberts et al., Ecography 2017.
    """
    names, place, sizes = np.unique(group, return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InconsistentDataset("all rows are of one group", "out-of-group error needs at least two groups")
    fold_of_group = _dealt(sizes, min(folds, len(names)))
    return [
        Split(train=fold_of_group[place] != k, test=fold_of_group[place] == k) for k in range(fold_of_group.max() + 1)
    ]


def random_rows(count: int, *, folds: int, rng: np.random.Generator) -> list[Split]:
    """Judge random rows by models that saw their neighbours in time: a leak alarm and nothing else.

    Args:
        count: number of rows, at least `folds`.
        folds: number of splits.
        rng: deals the rows out.

    Returns:
        Splits whose test parts cover every row once.

    Raises:
        InconsistentDataset: fewer rows than folds.

    Source: k-fold cross-validation; why it misleads here: Roberts et al., Ecography 2017.
    """
    if count < folds:
        raise InconsistentDataset(f"there are {count} rows for {folds} folds", "land more hours")
    fold = rng.permutation(np.arange(count) % folds)
    return [Split(train=fold != k, test=fold == k) for k in range(folds)]


def beyond(value: NDArray[np.float64], quantile: float) -> Split:
    """Learn where a value is ordinary, judge where it is larger than ever seen.

    Args:
        value: (n,) such as total pressure, finite.
        quantile: the share of rows to learn from, in (0, 1).

    Returns:
        Rows up to that quantile to learn from, the rows above it to judge on.

    Raises:
        InconsistentDataset: no row lies above it.

    Source: ours, docs/evaluation.md: denser packing than in history.
    """
    high = value > np.quantile(value, quantile)
    if not high.any():
        raise InconsistentDataset("no row lies above the others", "give rows of differing value")
    return Split(train=~high, test=high)


def axis_ends(values: NDArray[np.float64], *, axes: int, share: float) -> list[Split]:
    """Judge rows at one end of what varies most, by models of the others: what lies beyond all that is known.

    Args:
        values: (n, k) finite, n >= 2; standardised here.
        axes: how many principal axes, at most.
        share: of the rows at each of the two ends, in (0, 0.5).

    Returns:
        Two splits an axis, the axis with most variance first; none where an end holds fewer rows than half its share or
        more than twice that, as of columns with few values.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0073-far-rows.md; principal axes, Pearson 1901.
    """
    width = values.std(axis=0)
    standard = (values - values.mean(axis=0)) / np.where(width > 0, width, 1.0)
    _, axis = np.linalg.eigh(standard.T @ standard)
    placed = standard @ axis[:, ::-1][:, :axes]
    low, high = np.quantile(placed, [share, 1 - share], axis=0)
    found = [end for i, at in enumerate(placed.T) for end in (at <= low[i], at >= high[i])]
    return [held_apart(end) for end in found if share / 2 < end.mean() < 2 * share]


def held_apart(flag: Flags) -> Split:
    """Judge the flagged rows, learn from the others.

    Raises:
        InconsistentDataset: no row is flagged, or every one is.
    """
    if flag.all() or not flag.any():
        raise InconsistentDataset(f"{'every' if flag.any() else 'no'} row is flagged", "flag some")
    return Split(train=~flag, test=flag)


def _dealt(sizes: Ints, folds: int) -> Ints:
    filled = np.zeros(folds, dtype=np.int64)
    fold_of_group = np.empty(len(sizes), dtype=np.int64)
    for i in np.argsort(-sizes, kind="stable"):
        fold_of_group[i] = filled.argmin()
        filled[fold_of_group[i]] += sizes[i]
    return fold_of_group
