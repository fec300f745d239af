"""Patterns: counts of pods by shape that fit one machine together, checked device by device."""

from collections.abc import Iterator

import numpy as np

from advisor.purchase.devices import placed_on_devices
from advisor.purchase.instance import Flags, Instance, Ints

MAX_PATTERNS = 1_500
"""Of one type: beyond, patterns are drawn instead of enumerated."""
DRAWN = 80
"""Patterns of one type that are drawn."""


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
        (p, n) counts; None where there are more than the limit.

    Raises:
        Nothing.

    Source: patterns of Gilmore and Gomory, "A linear programming approach to the cutting-stock problem", 1961.
    """
    found = list[Ints]()
    for visited, counts in enumerate(_leaves(of, machine, most)):
        if visited > 10 * limit or len(found) > limit:
            return None
        if not _addable(of, machine, counts, most).any():
            found.append(counts)
    return np.array(found, np.int64).reshape(-1, len(most)) if len(found) <= limit else None


def drawn_patterns(of: Instance, machine: int, most: Ints, rng: np.random.Generator, drawn: int = DRAWN) -> Ints:
    """Some patterns of a type: of one shape alone as far as it goes, and of shapes in a random order.

    Args:
        of: shapes and types.
        machine: index of the type.
        most: (n,) pods of each shape that are ever wanted.
        rng: draws orders and amounts.
        drawn: random patterns.

    Returns:
        (p, n) counts, each once; to none a pod can be added.

    Raises:
        Nothing.

    Source: ours; greedy filling in random order.
    """
    shapes = np.flatnonzero(of.allowed[:, machine] & (most > 0))
    first = [np.concatenate([[one], rng.permutation(shapes[shapes != one])]) for one in shapes]
    found = {tuple(_filled(of, machine, most, order, 1.0)) for order in first}
    for _ in range(drawn if len(shapes) else 0):
        found.add(tuple(_filled(of, machine, most, rng.permutation(shapes), rng.uniform(0.2, 1.0))))
    return np.array(sorted(found), np.int64).reshape(-1, len(most))


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


def _filled(of: Instance, machine: int, most: Ints, order: Ints, eagerness: float) -> Ints:
    """Counts when shapes come in an order, each up to a share of what fits, and then all as far as they go."""
    counts = np.zeros(len(most), np.int64)
    for share in (eagerness, 1.0):
        for shape in order.tolist():
            had, counts[shape] = int(counts[shape]), 0
            fits = _most_more(of, machine, counts, shape, int(most[shape]))
            counts[shape] = max(had, int(np.ceil(share * fits)))
    return counts
