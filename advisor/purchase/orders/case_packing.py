"""How a case packs on standing machines: by a program over patterns, then pod by pod; and how few can be short."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np

from advisor.purchase.instance import DEVICE, Flags, Floats, Ints
from advisor.purchase.orders.order_problem import Case, OrderProblem, groups_of, most_in_a_domain
from advisor.purchase.orders.order_program import Packing, Written, packs_in_parts, written
from advisor.purchase.orders.packed_patterns import fits_machine

WHOLE = 1e-6


class PackedMachines(NamedTuple):
    """Machines of a type in a group of racks (`groups_of`), of which each holds the same pods, (n,) by shape."""

    machine: int
    group: int
    machines: int
    counts: Ints


class PackedCase(NamedTuple):
    """A case, what its machines hold, (n,) pods without a place, and how many must be without one at least."""

    case: Case
    packed: list[PackedMachines]
    short: Ints
    least: int = 0


def packed_alone(
    standing: OrderProblem, case: Case, packing: Packing, seconds: float, *, exact: bool = False
) -> PackedCase:
    """How a case packs on standing machines, with as few pods short as was found in time.

    Args:
        standing: with nothing to order.
        case: what should pack.
        packing: by patterns.
        seconds: time at most, about, of each of three programs.
        exact: whether patterns are all there are, so that the program can prove how few are short.

    Returns:
        That of `best_completed` where no more pods can have a place, else the better of it and of the program's,
        completed. Where pods are short, `least` is proved by sums of sizes, or by the program.

    Raises:
        Nothing.

    Source: ours. Where it is not exact, whole machines of the program without whole numbers stay.
    """
    first = best_completed(standing, nothing_packed(case))
    least = least_short(standing, case, seconds) if first.short.any() else 0
    if first.short.sum() <= least:
        return first._replace(least=least)
    found = written(standing, [case], packing)
    program, whole = found.program, found.program.integer
    let_short(found, found.short[0], case.pods.astype(float))
    for variable in found.short[0].tolist():
        program.cost[variable] = 1.0
    if not exact:
        program.integer = [False] * len(whole)
        parts = program.solve(seconds)
        program.integer = whole
        for one in found.packings[0] if len(parts.value) else ():
            program.low[one.variable] = float(int(parts.value[one.variable] + WHOLE))
    solution = program.solve(seconds)
    by_program = packed_by(found, 0, case, solution.value) if len(solution.value) else nothing_packed(case)
    best = min(first, best_completed(standing, by_program), key=lambda one: int(one.short.sum()))
    return best._replace(least=max(least, ceil(solution.bound - WHOLE) if exact else 0))


def let_short(found: Written, variables: Ints, high: Floats) -> None:
    """Allow pods short, up to a number each."""
    for variable, most in zip(variables.tolist(), high.tolist(), strict=True):
        found.program.high[variable] = most


def packed_by(found: Written, at: int, case: Case, value: Floats) -> PackedCase:
    """A case as a solution packs it."""
    counts = ((one, round(value[one.variable])) for one in found.packings[at])
    packed = [PackedMachines(one.machine, one.group, count, one.counts) for one, count in counts if count]
    return PackedCase(case, packed, np.ceil(value[found.short[at]] - WHOLE).astype(np.int64))


def worst_short(cases: Sequence[PackedCase]) -> dict[tuple[int, int], int]:
    """Pods short in the worst case of each path and period."""
    found = dict[tuple[int, int], int]()
    for one in cases:
        key = one.case.path, one.case.period
        found[key] = max(int(one.short.sum()), found.get(key, 0))
    return found


def nothing_packed(case: Case) -> PackedCase:
    """A case before any pod has a place."""
    return PackedCase(case, [], case.pods)


def least_short(standing: OrderProblem, case: Case, seconds: float) -> int:
    """Pods that have no place by sums of sizes alone, so by no packing.

    Args:
        standing: machines, with nothing to order.
        case: what should pack.
        seconds: for the program.

    Returns:
        How many at least; 0 where time ended before.

    Raises:
        Nothing.

    Source: `packs_in_parts`.
    """
    found = written(standing, [case], packs_in_parts)
    let_short(found, found.short[0], case.pods.astype(float))
    for variable in found.short[0].tolist():
        found.program.cost[variable] = 1.0
    return max(0, ceil(found.program.solve(seconds).bound - WHOLE))


def best_completed(standing: OrderProblem, one: PackedCase) -> PackedCase:
    """The best of several ways to put pods short where room is left.

    Args:
        standing: machines.
        one: how it packs so far; pods beyond the case's, and machines beyond those that stand, are taken off first.

    Returns:
        The first way after which no pod is short, else the one with fewest; each pod is on a machine that holds it
        device by device.

    Raises:
        Nothing.

    Source: best fit decreasing, and dot products of pods and free room: Panigrahy et al., "Heuristics for vector bin
    packing", 2011, by CPU, memory, sum and largest part; smallest first leaves fewest short where not all have a place.
    """
    best = None
    for rule in RULES:
        found = completed(standing, one, rule)
        if best is None or found.short.sum() < best.short.sum():
            best = found
        if not best.short.any():
            break
    return one if best is None else best


class Rule(NamedTuple):
    """In which order shapes are taken, weighing CPU, memory and devices, and whether machines are chosen by product."""

    weights: tuple[float, float, float]
    product: bool
    largest_first: bool = True


LARGEST_PART = (0.0, 0.0, 0.0)
"""Weights that stand for the largest part of any of them."""
RULES = (
    Rule(LARGEST_PART, product=False),
    Rule((1.0, 0.0, 1.0), product=True),
    Rule((0.0, 1.0, 1.0), product=True),
    Rule((1.0, 1.0, 1.0), product=True),
    Rule(LARGEST_PART, product=True),
    Rule(LARGEST_PART, product=False, largest_first=False),
)


def completed(standing: OrderProblem, one: PackedCase, rule: Rule = RULES[0]) -> PackedCase:
    """The case with pods short put where room is left, by one rule; idle machines last where it is not by product."""
    room, of = _Room(standing, one), standing.of.shapes
    sizes = (of.cpu, of.memory, of.devices * DEVICE + of.share)
    parts = np.stack([size / max(int(size.max()), 1) for size in sizes])
    rank = parts.max(axis=0) if rule.weights == LARGEST_PART else np.array(rule.weights) @ parts
    short = np.maximum(one.case.pods - room.placed(), 0)
    for shape in np.argsort(-rank if rule.largest_first else rank, kind="stable").tolist():
        if short[shape]:
            (room.put_by_product if rule.product else room.put)(shape, int(short[shape]))
    return PackedCase(one.case, room.machines(), np.maximum(one.case.pods - room.placed(), 0))


class _Room:
    """Machines one by one, and what they hold."""

    def __init__(self, standing: OrderProblem, one: PackedCase) -> None:
        self.problem, self.case = standing, one.case
        groups = groups_of(standing, one.case)
        self.groups = len(groups)
        self.most = most_in_a_domain(standing.demand, one.case.pods) if self.groups > 1 else one.case.pods
        idle = np.stack([standing.standing[:, racks, one.case.period].sum(axis=1) for racks in groups], axis=1)
        rows = list[tuple[int, int, int, Ints]]()
        for row in sorted(one.packed, key=lambda row: -int(row.counts.sum())):
            count = min(row.machines, int(idle[row.machine, row.group]))
            idle[row.machine, row.group] -= count
            rows.append((row.machine, row.group, count, row.counts))
        none = np.zeros(len(one.case.pods), np.int64)
        idle = np.minimum(idle, int(one.case.pods.sum()))
        rows += [(int(at), int(group), int(idle[at, group]), none) for at, group in np.argwhere(idle > 0)]
        number = [count for _, _, count, _ in rows]
        self.machine = np.repeat([at for at, _, _, _ in rows], number).astype(np.int64)
        self.group = np.repeat([group for _, group, _, _ in rows], number).astype(np.int64)
        counts = np.array([counts for *_, counts in rows], np.int64).reshape(len(rows), len(none))
        self.counts = np.repeat(counts, number, axis=0)
        self._trim()

    def by_group(self) -> Ints:
        """(g, n) pods in each group."""
        found = np.zeros((self.groups, len(self.case.pods)), np.int64)
        np.add.at(found, self.group, self.counts)
        return found

    def placed(self) -> Ints:
        """(n,) pods that count: of each group as many as it may hold."""
        return np.asarray(np.minimum(self.by_group(), self.most).sum(axis=0))

    def _trim(self) -> None:
        """Take off pods beyond what a group may hold, then beyond the case's."""
        for group in range(self.groups):
            self._take_off(self.group == group, self.by_group()[group] - self.most)
        self._take_off(np.ones(len(self.group), bool), self.by_group().sum(axis=0) - self.case.pods)

    def _take_off(self, own: Flags, surplus: Ints) -> None:
        for shape in np.flatnonzero(surplus > 0).tolist():
            held = np.where(own, self.counts[:, shape], 0)
            before = np.cumsum(held) - held
            self.counts[:, shape] -= np.clip(surplus[shape] - before, 0, held)

    def _sizes(self, shape: int) -> tuple[Ints, Ints, Ints]:
        """(3,) of a pod, (k, 3) used and (k, 3) in all: CPU, memory and whole devices."""
        types, shapes = self.problem.of.types, self.problem.of.shapes
        used = np.stack([self.counts @ size for size in (shapes.cpu, shapes.memory, shapes.devices)], axis=1)
        have = np.stack([size[self.machine] for size in (types.cpu, types.memory, types.devices)], axis=1)
        return np.array([shapes.cpu[shape], shapes.memory[shape], shapes.devices[shape]]), used, have

    def _holds(self, at: int, shape: int, count: int) -> bool:
        """Whether a machine that has CPU and memory for more pods of a shape holds them; then it does from now on."""
        self.counts[at, shape] += count
        shapes = self.problem.of.shapes
        if not (shapes.share[shape] or shapes.devices[shape]):
            return True
        if fits_machine(self.problem.of, int(self.machine[at]), self.counts[at]):
            return True
        self.counts[at, shape] -= count
        return False

    def put_by_product(self, shape: int, wanted: int) -> None:
        """Up to so many pods of a shape, each where the product of its size and the free room is largest."""
        size, used, have = self._sizes(shape)
        free, scale = have - used, np.maximum(have.sum(axis=0), 1)
        left = self.most[shape] - self.by_group()[:, shape]
        may = self.problem.of.allowed[shape, self.machine] & (free >= size).all(axis=1)
        product = (free / scale) @ (size / scale)
        while wanted and (open_ones := may & (left[self.group] > 0)).any():
            at = int(np.where(open_ones, product, -np.inf).argmax())
            if not self._holds(at, shape, 1):
                may[at] = False
                continue
            free[at] -= size
            may[at], product[at] = bool((free[at] >= size).all()), float((free[at] / scale) @ (size / scale))
            left[self.group[at]] -= 1
            wanted -= 1

    def put(self, shape: int, wanted: int) -> None:
        """Up to so many pods of a shape, on the fullest machines that take them."""
        size, used, have = self._sizes(shape)
        free = have - used
        fits = np.min(np.where(size > 0, free // np.maximum(size, 1), wanted), axis=1)
        fits[~self.problem.of.allowed[shape, self.machine]] = 0
        left = self.most[shape] - self.by_group()[:, shape]
        fullness = np.where(self.counts.any(axis=1), used[:, 0] / np.maximum(have[:, 0], 1), -1.0)
        for at in np.argsort(-fullness, kind="stable").tolist():
            count = min(int(fits[at]), wanted, int(left[self.group[at]]))
            while count > 0 and not self._holds(at, shape, count):
                count -= 1
            if count > 0:
                wanted, left[self.group[at]] = wanted - count, left[self.group[at]] - count
            if not wanted:
                break

    def machines(self) -> list[PackedMachines]:
        """Machines that hold something, equal ones together."""
        held = self.counts.any(axis=1)
        keys = np.column_stack([self.machine, self.group, self.counts])[held]
        rows, number = np.unique(keys, axis=0, return_counts=True)
        return [
            PackedMachines(int(row[0]), int(row[1]), int(count), row[2:].astype(np.int64))
            for row, count in zip(rows, number, strict=True)
        ]
