"""A purchase in which every pod has its place: packed machines near the least possible cost."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from advisor.purchase.column_generation import generated
from advisor.purchase.device_bound import Bound, device_bound
from advisor.purchase.first_fit import Machines, cost_of, first_fit, unplaced
from advisor.purchase.instance import NO_LIMIT, Flags, Floats, Instance, Ints
from advisor.purchase.linear_program import solved
from advisor.purchase.packed_columns import Columns, Wanted, configuration_program
from advisor.purchase.pricing import compile_now

SEARCH, GENERATION, ROUNDING, WHOLE_PART = 0.97, 0.35, 0.1, 0.3
"""Parts of the time: until parts are packed anew, for columns, for first whole numbers, and for better ones."""
PARTS = (10, 40)
"""Machines whose pods are packed anew together, from and to."""
PART_GENERATION_S, PART_ROUNDING_S = 0.4, 1.5
WHOLE, LEAST_WASTE = 1e-6, 1e-9


class Purchase(NamedTuple):
    """Machines and what is on each.

    Args:
        machines: each one's type and pods; together no more pods than there are.
        unplaced: (n,) pods on no machine.
        cost: of all machines.
        bound: what no purchase can cost less than.
        relaxed: cost of the configuration program over the columns found, were machines divisible.
        columns: how many ways to pack one machine were found.
    """

    machines: Machines
    unplaced: Ints
    cost: float
    bound: Bound
    relaxed: float
    columns: int

    @property
    def gap(self) -> float | None:
        """How far above the least possible the cost may be, as a part of it; None where no purchase holds all pods."""
        if not np.isfinite(self.bound.cost):
            return None
        return self.cost / self.bound.cost - 1.0 if self.bound.cost > 0 else float(self.cost > 0)


class Search(NamedTuple):
    """How long a purchase is sought, with which seed, and where progress goes.

    Args:
        seconds: after which the best so far is returned; compiling, once for a state of the sources, comes before.
        seed: of all draws.
        clock: seconds that only rise.
        report: gets a line of progress now and then.
    """

    seconds: float
    seed: int
    clock: Callable[[], float]
    report: Callable[[str], None]

    def until(self, part: float) -> Callable[[], bool]:
        """Whether a part of the time is over, counted from now on."""
        end = self.clock() + part * self.seconds
        return lambda: self.clock() >= end


def purchase(instance: Instance, search: Search) -> Purchase:
    """Machines that hold all pods, at little cost.

    Args:
        instance: shapes, machine types and where each shape may go.
        search: for how long.

    Returns:
        The purchase; pods that no machine takes, or for which limited types do not suffice, are counted as unplaced.

    Raises:
        Nothing.

    Source: column generation with a residual mixed-integer program, then large neighbourhood search over the packed
    machines (Shaw, CP 1998); the start is first fit decreasing.
    """
    compile_now()
    over, rng = search.until(SEARCH), np.random.default_rng(search.seed)
    bound, first = device_bound(instance), first_fit(instance)
    (columns, _), wanted = _columns(instance, first), Wanted(instance.shapes.pods, instance.types.most)
    found = generated(columns, wanted, bound.worth, rng, search.until(GENERATION))
    search.report(
        f"{len(columns)} ways to pack a machine; least possible cost {bound.cost:.1f}, of these {found.cost:.1f}"
    )
    rounded = _rounded(columns, wanted, found.used, ROUNDING * search.seconds)
    number = _chosen(columns, wanted, rounded, WHOLE_PART * search.seconds)
    best = min(first, _trimmed(columns, wanted.pods, number), key=lambda one: _value(instance, one))
    search.report(f"whole machines cost {cost_of(instance, best):.1f}")
    while not over() and len(best.kind) > 1:
        best = _part_anew(instance, best, found.worth, rng, search)
    search.report(f"after parts were packed anew {cost_of(instance, best):.1f}")
    return Purchase(best, unplaced(instance, best), cost_of(instance, best), bound, found.cost, len(columns))


def generated_patterns(instance: Instance, search: Search) -> list[Ints]:
    """Good ways to pack a machine of each type, for pods that are too many to list all ways.

    Args:
        instance: shapes, machine types and where each shape may go.
        search: for how long, after the first fit.

    Returns:
        By type, (p, n) pods of each shape; to none of the program's own could a pod be added that pays.

    Raises:
        Nothing.

    Source: the columns of `generated`.
    """
    compile_now()
    rng, bound = np.random.default_rng(search.seed), device_bound(instance)
    columns, _ = _columns(instance, first_fit(instance))
    generated(columns, Wanted(instance.shapes.pods, instance.types.most), bound.worth, rng, search.until(1.0))
    return [columns.matrix[columns.kinds == kind] for kind in range(len(instance.types.name))]


def _columns(instance: Instance, machines: Machines) -> tuple[Columns, Ints]:
    """The columns of machines, and how many machines are of each."""
    found = Columns(instance)
    at = [found.add(kind, packed) for kind, packed in zip(machines.kind.tolist(), machines.packed, strict=True)]
    return found, np.bincount(np.array(at, np.int64), minlength=len(found))


def _value(instance: Instance, machines: Machines) -> tuple[int, float]:
    """Fewer pods without a place are better, then less cost."""
    return int(unplaced(instance, machines).sum()), cost_of(instance, machines)


def _rounded(columns: Columns, wanted: Wanted, used: Floats, seconds: float) -> Ints:
    """Whole machines of each column: what is used wholly, and for the pods that are left a mixed-integer program."""
    whole = np.floor(used + WHOLE).astype(np.int64)
    spent = np.bincount(columns.kinds, whole, len(wanted.most)).astype(np.int64)
    left = Wanted(np.maximum(wanted.pods - whole @ columns.matrix, 0), _left(wanted.most, spent))
    return whole + _chosen(columns, left, np.zeros(len(columns), np.int64), seconds)


def _left(most: Ints, spent: Ints) -> Ints:
    """Machines that can still be had."""
    return np.where(most < NO_LIMIT, most - spent, most)


def _chosen(columns: Columns, wanted: Wanted, start: Ints, seconds: float) -> Ints:
    """Whole machines of each column, at no more cost than at the start."""
    missing = np.maximum(wanted.pods - start @ columns.matrix, 0)
    begin = np.concatenate([missing, start]).astype(np.float64)
    program = configuration_program(columns, wanted)
    found = solved(program, np.ones(len(begin), bool), seconds, start=begin)
    return np.rint(found.variable[len(missing) :]).astype(np.int64) if len(found.variable) else start


def _trimmed(columns: Columns, count: Ints, number: Ints) -> Machines:
    """Machines of columns, each one for itself, without pods beyond those that there are, nor empty machines."""
    at = np.repeat(np.arange(len(number)), number)
    packed = columns.matrix[at]
    before = np.cumsum(packed, axis=0) - packed
    packed = np.clip(count - before, 0, packed)
    held = packed.any(axis=1)
    return Machines(columns.kinds[at][held], packed[held])


def _part_anew(instance: Instance, best: Machines, worth: Floats, rng: np.random.Generator, search: Search) -> Machines:
    """The machines after the pods of a few were packed anew, never at more cost."""
    part = _wasteful(instance, best, worth, rng)
    old, missing = Machines(best.kind[part], best.packed[part]), unplaced(instance, best)
    rest = np.bincount(best.kind[~part], minlength=len(instance.types.name))
    wanted = Wanted(old.packed.sum(axis=0) + missing, _left(instance.types.most, rest))
    columns, number = _columns(instance, old)
    end = search.clock() + PART_GENERATION_S
    generated(columns, wanted, worth, rng, lambda: search.clock() >= end)
    start = np.append(number, np.zeros(len(columns) - len(number), np.int64))
    new = _trimmed(columns, wanted.pods, _chosen(columns, wanted, start, PART_ROUNDING_S))
    homeless = int((wanted.pods - new.packed.sum(axis=0)).sum())
    if (homeless, cost_of(instance, new)) > (int(missing.sum()), cost_of(instance, old)):
        return best
    return Machines(np.concatenate([best.kind[~part], new.kind]), np.concatenate([best.packed[~part], new.packed]))


def _wasteful(instance: Instance, machines: Machines, worth: Floats, rng: np.random.Generator) -> Flags:
    """(k,) some machines, the likelier the less their pods are worth relative to their price."""
    size = min(int(rng.integers(*PARTS)), len(machines.kind))
    waste = np.maximum(instance.types.price[machines.kind] - machines.packed @ worth, 0.0)
    likely = waste + max(float(waste.mean()), LEAST_WASTE)
    part = np.zeros(len(machines.kind), bool)
    part[rng.choice(len(machines.kind), size, replace=False, p=likely / likely.sum())] = True
    return part
