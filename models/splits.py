"""Splits: which rows a model may learn from and which it is judged on. Never a random row of time-ordered data."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.errors import InconsistentDataset

Flags = NDArray[np.bool_]
Ints = NDArray[np.integer]


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


def _dealt(sizes: Ints, folds: int) -> Ints:
    filled = np.zeros(folds, dtype=np.int64)
    fold_of_group = np.empty(len(sizes), dtype=np.int64)
    for i in np.argsort(-sizes, kind="stable"):
        fold_of_group[i] = filled.argmin()
        filled[fold_of_group[i]] += sizes[i]
    return fold_of_group
