"""Contention: how hard the other containers on a node press on one container.

Pure columnar functions: arrays in, arrays out. Batch, stream and live call the same ones, so training and serving
share one arithmetic. Sums run in row order: callers sort rows first, so that every runner gets the same bits.
"""

import numpy as np
from numpy.typing import NDArray

from features.schema.errors import refuse_other_lengths

LARGEST = 1 << 17
"""Numbers summed at once: of more, memory costs more than calls."""
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
    at_once = max(1, LARGEST // len(group))
    return np.concatenate([_sums(use[begin : begin + at_once], group) for begin in range(0, len(use), at_once)])


def _sums(use: Floats, group: Ints) -> Floats:
    """The same, of all at once."""
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
    largest: Floats = neighbour_maxima(use[None], group)[0]
    return largest


def neighbour_maxima(use: Floats, group: Ints) -> Floats:
    """`neighbour_max` of (r, n) uses of several resources."""
    if not use.size:
        return use
    order = slice(None) if (np.diff(group) >= 0).all() else np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    size = np.diff(np.append(starts, len(group)))
    run, alone = np.repeat(np.arange(len(starts)), size), np.empty(len(group), np.bool_)
    alone[order] = np.repeat(size == 1, size)
    found = np.full(use.shape, np.nan)
    for row, best in zip(use, found, strict=True):
        known = np.isfinite(row)
        if known.any():
            best[order] = _largest_other(np.where(known, row, -np.inf)[order], starts, run)
            best[~np.isfinite(best)] = np.nan
    found[:, alone] = 0.0
    return found


def _largest_other(value: Floats, starts: Ints, run: Ints) -> Floats:
    """(n,) largest other value of each run; -inf where there is none."""
    top = np.maximum.reduceat(value, starts)
    is_top = value == top[run]
    below = np.maximum.reduceat(np.where(is_top, -np.inf, value), starts)
    second = np.where(np.add.reduceat(is_top.astype(np.int64), starts) > 1, top, below)
    return np.where(is_top, second[run], top[run])


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
