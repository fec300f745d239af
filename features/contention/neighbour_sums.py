"""Contention: how hard the other containers on a node press on one container.

Pure columnar functions: arrays in, arrays out. Batch, stream and live call the same ones, so training and serving
share one arithmetic. Sums run in row order: callers sort rows first, so that every runner gets the same bits.
"""

import numpy as np
from numpy.typing import NDArray

from features.schema.errors import refuse_other_lengths

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def neighbour_sum(use: Floats, group: Ints) -> Floats:
    """What all others of the same group use together.

    Args:
        use: (n,) use of one resource, >= 0; NaN where it was not measured.
        group: (n,) group codes 0..g-1, one group being one node at one time.

    Returns:
        (n,) sum over the others. A neighbour that was not measured counts as the mean of those that were; NaN where
        there are neighbours and none was measured; 0 where there are none.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/decisions/0005-missing-neighbours.md.
    """
    refuse_other_lengths(use=use, group=group)
    sums: Floats = neighbour_sums(use[None], group)[0]
    return sums


def neighbour_sums(use: Floats, group: Ints) -> Floats:
    """`neighbour_sum` of (r, n) uses of several resources, to the bit: of few rows it is calls that cost, not sums."""
    if not use.size:
        return use
    known = np.isfinite(use)
    own = use if known.all() else np.where(known, use, 0.0)
    others = np.maximum(_totals(own, group) - own, 0.0)
    if own is use:
        return others
    others_all = np.bincount(group)[group] - 1
    others_known = _totals(known, group) - known
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = others * np.where(others_known == others_all, 1.0, others_all / others_known)
    return np.where(others_all == 0, 0.0, np.where(others_known == 0, np.nan, scaled))


def _totals(rows: NDArray[np.float64] | NDArray[np.bool_], group: Ints) -> Floats:
    """(r, n) sums of each row over each entry's group."""
    return np.stack([np.bincount(group, row)[group] for row in rows])


def neighbour_max(use: Floats, group: Ints) -> Floats:
    """The largest use among all others of the same group.

    Args:
        use: (n,) use of one resource; NaN where it was not measured.
        group: (n,) group codes 0..g-1.

    Returns:
        (n,) maximum over the others; NaN where none of them was measured, 0 where there are none.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours; the largest of a group, or its runner-up for the largest itself.
    """
    refuse_other_lengths(use=use, group=group)
    if not len(use):
        return use
    count = np.bincount(group)[group]
    if not np.isfinite(use).any():
        return np.where(count == 1, 0.0, np.nan)
    order = np.arange(len(use)) if (np.diff(group) >= 0).all() else np.argsort(group, kind="stable")
    value = np.where(np.isfinite(use), use, -np.inf)[order]
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    top = np.maximum.reduceat(value, starts)
    run = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(use))))
    is_top = value == top[run]
    below = np.maximum.reduceat(np.where(is_top, -np.inf, value), starts)
    second = np.where(np.add.reduceat(is_top.astype(np.int64), starts) > 1, top, below)
    best = np.empty(len(use))
    best[order] = np.where(is_top, second[run], top[run])
    return np.where(count == 1, 0.0, np.where(np.isfinite(best), best, np.nan))


def core_pressure(cpu_cores: Floats, allowed: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """CPU use of the neighbours on a container's own cores, and on the node's other cores.

    Each container spreads its use evenly over the cores it may run on.

    Args:
        cpu_cores: (k,) CPU use of the containers of one node; NaN where it was not measured.
        allowed: (k, c) which cores each may run on, at least one each.

    Returns:
        (k,) share of the container's own cores that others use, and (k,) what others use on the remaining cores as a
        share of the whole node. Missing neighbours as in `neighbour_sum`.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/decisions/0005-missing-neighbours.md.
    """
    refuse_other_lengths(cpu_cores=cpu_cores, allowed=allowed)
    one_node = np.zeros(len(cpu_cores), np.int64)
    total: Floats = neighbour_sum(cpu_cores, one_node)
    spread = np.where(np.isfinite(cpu_cores), cpu_cores, 0.0) / allowed.sum(axis=1)
    by_core = spread @ allowed
    own = np.where(allowed, by_core - spread[:, None], 0.0).sum(axis=1)
    known = own + np.where(allowed, 0.0, by_core).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(known > 0, np.minimum(own / known, 1.0), 1.0)
    whole_node = allowed.all(axis=1)
    on_own: Floats = np.where(whole_node, total, total * share) / allowed.sum(axis=1)
    elsewhere: Floats = np.where(whole_node, 0.0, total * (1.0 - share)) / allowed.shape[1]
    return on_own, elsewhere
