"""Patterns: counts of pods by shape that fit one machine together, checked device by device."""

from collections.abc import Iterator

import numpy as np

from advisor.purchase.devices import placed_on_devices
from advisor.purchase.instance import Flags, Instance, Ints

MAX_PATTERNS = 1_500
"""Of one type: beyond, good ones are generated instead."""
MAX_SHAPES = 14
"""Shapes that fit a type: with more, its patterns are not enumerated."""


def fits_machine(of: Instance, machine: int, counts: Ints) -> bool:
    """Whether pods fit one machine of a type.

    Args:
        of: shapes and types.
        machine: index of the type.
        counts: (n,) pods by shape.

    Returns:
        True where CPU, memory and whole devices suffice, shares can be placed on devices, and each shape is allowed.

    Raises:
        Nothing.

    Source: see `placed_on_devices`.
    """
    shapes, types = of.shapes, of.types
    if (counts > 0)[~of.allowed[:, machine]].any():
        return False
    if counts @ shapes.cpu > types.cpu[machine] or counts @ shapes.memory > types.memory[machine]:
        return False
    free = int(types.devices[machine] - counts @ shapes.devices)
    if not (shapes.share * counts).any():
        return free >= 0
    shared = np.repeat(shapes.share, counts)
    return free >= 0 and placed_on_devices(shared[shared > 0].tolist(), free) is not None


def maximal_patterns(of: Instance, machine: int, most: Ints, limit: int = MAX_PATTERNS) -> Ints | None:
    """All patterns of a type to which no pod can be added.

    Args:
        of: shapes and types.
        machine: index of the type.
        most: (n,) pods of each shape that are ever wanted; a pattern holds no more.
        limit: patterns at most.

    Returns:
        (p, n) counts; None where there are more than the limit, or more than `MAX_SHAPES` shapes fit.

    Raises:
        Nothing.

    Source: patterns of Gilmore and Gomory, "A linear programming approach to the cutting-stock problem", 1961.
    """
    found = list[Ints]()
    if np.count_nonzero(of.allowed[:, machine] & (most > 0)) > MAX_SHAPES:
        return None
    for visited, counts in enumerate(_leaves(of, machine, most)):
        if visited > 10 * limit or len(found) > limit:
            return None
        if not _addable(of, machine, counts, most).any():
            found.append(counts)
    return np.array(found, np.int64).reshape(-1, len(most)) if len(found) <= limit else None


def without_needless(patterns: Ints, most: Ints) -> Ints:
    """(q, n) patterns clipped to what a case wants, without those that another one contains."""
    clipped = np.unique(np.minimum(patterns, most), axis=0)
    if len(clipped) > 2 * MAX_PATTERNS:
        return clipped
    contained = (clipped[:, None, :] <= clipped[None, :, :]).all(axis=2)
    needed: Ints = clipped[(contained.sum(axis=1) == 1) & clipped.any(axis=1)]
    return needed


def _leaves(of: Instance, machine: int, most: Ints) -> Iterator[Ints]:
    """Fillings in which the last shape is taken as often as it fits, and each other any number of times."""
    shapes = [int(one) for one in np.flatnonzero(of.allowed[:, machine] & (most > 0))]

    def go(at: int, counts: Ints) -> Iterator[Ints]:
        if at == len(shapes):
            yield counts.copy()
            return
        top = _most_more(of, machine, counts, shapes[at], int(most[shapes[at]]))
        for some in range(top, -1 if at + 1 < len(shapes) else top - 1, -1):
            counts[shapes[at]] = some
            yield from go(at + 1, counts)
        counts[shapes[at]] = 0

    yield from go(0, np.zeros(len(most), np.int64))


def _most_more(of: Instance, machine: int, counts: Ints, shape: int, most: int) -> int:
    """Pods of a shape that fit with the others, its own count being 0."""
    low, high = 0, most
    trial = counts.copy()
    while low < high:
        trial[shape] = (low + high + 1) // 2
        low, high = (int(trial[shape]), high) if fits_machine(of, machine, trial) else (low, int(trial[shape]) - 1)
    return low


def _addable(of: Instance, machine: int, counts: Ints, most: Ints) -> Flags:
    """(n,) whether one more pod of each shape is wanted and fits."""
    more = np.eye(len(counts), dtype=np.int64)
    wanted = (counts < most) & of.allowed[:, machine]
    return np.array([wanted[one] and fits_machine(of, machine, counts + more[one]) for one in range(len(counts))])
