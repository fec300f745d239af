"""A plan of orders: the cheapest ones with which demand packs, a bound, and what no order can cure."""

from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

import numpy as np

from advisor.errors import AdvisorError
from advisor.purchase.instance import Floats, Instance, Ints, MachineTypes
from advisor.purchase.orders.case_packing import (
    WHOLE,
    PackedCase,
    best_completed,
    let_short,
    nothing_packed,
    packed_alone,
    packed_by,
    worst_short,
)
from advisor.purchase.orders.integer_program import Solution
from advisor.purchase.orders.order_problem import Case, OrderProblem, cases_of
from advisor.purchase.orders.order_program import Packing, Written, choices_of, packs_by, packs_in_parts, written
from advisor.purchase.orders.packed_patterns import maximal_patterns
from advisor.purchase.packing import Search, generated_patterns

FOR_NOTHING_SHORT = 0.5
"""Share of the time after which pods may be short."""
SHORT = 100.0
"""Price of a pod short, in prices of the dearest lot."""
FOR_PATTERNS_S = 10.0
MAX_WHOLE = 20_000
"""Patterns of all cases that are whole numbers at once; beyond, orders come first and cases after."""
ROUNDS = 4
FOR_CASE = 1 / 20
"""Share of the time left that one case may take; most need far less."""
FOR_PRUNING = 0.1
"""Share of the time in which orders that are not needed are left out, before the bound."""
FOR_BOUND = 0.3
"""Share of the time that a bound may take where patterns are not all there are."""


class OrderLine(NamedTuple):
    """Machines of a type that are ordered in a period for a rack, and serve from another period on."""

    machine: int
    rack: int
    ordered: int
    serves: int
    machines: int


class OrderPlan(NamedTuple):
    """Orders and what proves them.

    Args:
        lines: orders.
        cases: how every case packs.
        cost: price by machine and period over the periods that ordered machines serve.
        bound: no orders that leave as few pods short cost less.
        exact: whether the bound was reached with all patterns, so that only time can leave a gap.
        fewest: whether it is proved that no orders leave fewer pods short.
    """

    lines: list[OrderLine]
    cases: list[PackedCase]
    cost: float
    bound: float
    exact: bool
    fewest: bool

    @property
    def gap(self) -> float:
        """Share by which the cost may exceed the least possible."""
        return 0.0 if self.cost <= self.bound + 1e-9 else (self.cost - self.bound) / self.cost

    @property
    def short(self) -> int:
        """Pods short in the worst case."""
        return max((int(one.short.sum()) for one in self.cases), default=0)


class Patterns(NamedTuple):
    """(p, n) pods of each pattern by type, and whether these are all there are."""

    by_type: list[Ints]
    complete: bool


class NoOrdersInTime(AdvisorError):
    """The search ended before it had a plan."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no plan was found in {seconds:.0f} s: give more seconds, fewer periods, or fewer shapes")


def patterns_of(
    problem: OrderProblem, wanted: Sequence[tuple[int, int]], seconds: float = FOR_PATTERNS_S, seed: int = 0
) -> Patterns:
    """Patterns of every type for some paths and periods: all maximal ones, or good ones where these are too many.

    Args:
        problem: machines, SKUs, racks and demand.
        wanted: pairs of path and period.
        seconds: for finding good ones.
        seed: of that.
    """
    most = np.max([problem.demand.pods[one] for one in wanted], axis=0)
    found = [maximal_patterns(problem.of, machine, most) for machine in range(len(problem.of.types.name))]
    if all(one is not None for one in found):
        return Patterns([one for one in found if one is not None], complete=True)
    protected = np.where(problem.demand.protected, most, 0)
    demands = [most] if not protected.any() or (protected == most).all() else [most, protected]
    search = Search(seconds / len(demands), seed, monotonic, lambda _: None)
    good = [generated_patterns(_with_new(problem, one), search) for one in demands]
    types = len(found)
    both = [np.concatenate([of[at] for of in good for at in (machine, types + machine)]) for machine in range(types)]
    unique = [np.unique(one, axis=0) for one in both]
    return Patterns([b if one is None else one for one, b in zip(found, unique, strict=True)], complete=False)


def _with_new(problem: OrderProblem, most: Ints) -> Instance:
    """The most pods of each shape on machines that stand in the end, which cost nothing more, and on new ones."""
    types = problem.of.types
    stand = problem.standing[:, :, -1].sum(axis=1)
    both = MachineTypes(
        name=types.name + types.name,
        cpu=np.tile(types.cpu, 2),
        memory=np.tile(types.memory, 2),
        devices=np.tile(types.devices, 2),
        price=np.concatenate([np.zeros(len(stand)), types.price]),
        most=np.concatenate([stand, types.most]),
    )
    return Instance(problem.of.shapes._replace(pods=most), both, np.tile(problem.of.allowed, 2))


def planned(
    problem: OrderProblem, wanted: list[tuple[int, int]], seconds: float, patterns: Patterns | None = None
) -> OrderPlan:
    """The cheapest orders with which some paths and periods pack.

    Args:
        problem: machines, SKUs, racks and demand.
        wanted: pairs of path and period; each with all of its cases.
        seconds: time at most, about.
        patterns: of a packer; None: enumerated or drawn here.

    Returns:
        A plan whose pods short are as few as orders allow; among those the cheapest that was found.

    Raises:
        NoOrdersInTime: none was found.

    Source: ours; pods short before cost. What runs before the first delivery packs on what stands, case by case.
    """
    until = monotonic() + seconds
    known = patterns_of(problem, wanted) if patterns is None else patterns
    reached = min((one.serves for one in choices_of(problem)), default=problem.periods)
    both = cases_of(problem, wanted)
    early, cases = [one for one in both if one.period < reached], [one for one in both if one.period >= reached]
    standing, packing = with_orders(problem, []), packs_by(known.by_type)
    at_hand = [packed_alone(standing, one, packing, FOR_CASE * seconds, exact=known.complete) for one in early]
    fewest = all(int(one.short.sum()) <= one.least for one in at_hand)
    if not cases:
        return OrderPlan([], at_hand, 0.0, 0.0, known.complete, fewest)
    found = _found(problem, cases, known, seconds, until)
    if found is None:
        raise NoOrdersInTime(seconds)
    cost, packed = cost_of(problem, found.lines), [*at_hand, *found.packed]
    return OrderPlan(found.lines, packed, cost, max(found.bound, 0.0), known.complete, fewest and found.fewest)


class _Found(NamedTuple):
    lines: list[OrderLine]
    packed: list[PackedCase]
    bound: float
    fewest: bool

    @property
    def short(self) -> int:
        """Pods short in all cases."""
        return sum(int(one.short.sum()) for one in self.packed)

    def rank(self, problem: OrderProblem) -> tuple[int, float]:
        """Fewer pods short are better, then less cost."""
        return self.short, cost_of(problem, self.lines)


def _found(problem: OrderProblem, cases: list[Case], known: Patterns, seconds: float, until: float) -> _Found | None:
    """The best of what was found: by whole numbers of all cases together where patterns are all there are.

    Otherwise by sums of sizes first, which the program of the patterns that are known may better; then orders that are
    not needed are left out.
    """
    whole = sum(map(len, known.by_type)) * len(cases) <= MAX_WHOLE
    if whole and known.complete:
        return _at_once(problem, cases, known, until)
    ends = until - FOR_BOUND * seconds
    found = _in_steps(problem, cases, known, monotonic() + (ends - monotonic()) / (2 if whole else 1))
    if whole and (found is None or found.lines or found.short):
        other = _at_once(problem, cases, known, ends)
        found = min((one for one in (found, other) if one), key=lambda one: one.rank(problem), default=None)
    if found is None:
        return None
    found = _pruned(problem, found, monotonic() + FOR_PRUNING * seconds)
    return found._replace(bound=_bound(problem, found.packed, until), fewest=not found.short)


def _pruned(problem: OrderProblem, found: _Found, until: float) -> _Found:
    """Without orders that no case needs: those of the highest cost are left out first, a lot at a time."""
    price = problem.of.types.price
    for line in sorted(found.lines, key=lambda one: -price[one.machine] * (problem.periods - one.serves)):
        lot, base = int(problem.terms.lot[line.machine]), found
        spared, most = 0, line.machines // lot
        while spared < most and monotonic() < until:
            lots = (spared + most + 1) // 2
            fewer = _with_fewer(problem, base, base.lines.index(line), lots * lot)
            if fewer is None:
                most = lots - 1
            else:
                spared, found = lots, fewer
    return found


def _with_fewer(problem: OrderProblem, found: _Found, at: int, machines: int) -> _Found | None:
    """With so many machines fewer of a line; None where a case needs them."""
    line = found.lines[at]
    less = [line._replace(machines=line.machines - machines)] if line.machines > machines else []
    lines = [*found.lines[:at], *less, *found.lines[at + 1 :]]
    standing, packed = with_orders(problem, lines), list[PackedCase]()
    for one in found.packed:
        if one.case.period < line.serves:
            packed.append(one)
            continue
        starts = (best_completed(standing, start) for start in (one, nothing_packed(one.case)))
        new = next((new for new in starts if new.short.sum() <= one.short.sum()), None)
        if new is None:
            return None
        packed.append(new)
    return found._replace(lines=lines, packed=packed)


def _at_once(problem: OrderProblem, cases: list[Case], known: Patterns, until: float) -> _Found | None:
    """Orders and machines of all cases as whole numbers together."""
    program, solution, fewest = _solved(problem, cases, packs_by(known.by_type), until)
    if not len(solution.value):
        return None
    lines = _lines(program, solution.value)
    standing = with_orders(problem, lines)
    packed = [best_completed(standing, packed_by(program, at, case, solution.value)) for at, case in enumerate(cases)]
    return _Found(lines, packed, solution.bound, fewest)


def _in_steps(problem: OrderProblem, cases: list[Case], known: Patterns, until: float) -> _Found | None:
    """Orders by sums of sizes, then each case alone by patterns.

    What has no place then is asked for again in the next round, more of it from round to round.
    """
    asked, packing, best = list(cases), packs_by(known.by_type), None
    for again in range(ROUNDS):
        left = until - monotonic()
        program, solution, _ = _solved(problem, asked, packs_in_parts, monotonic() + left / 4)
        if not len(solution.value) or (left < 1.0 and best is not None):
            break
        lines = _lines(program, solution.value)
        standing = with_orders(problem, lines)
        packed = [packed_alone(standing, case, packing, (until - monotonic()) * FOR_CASE) for case in cases]
        found = _Found(lines, packed, 0.0, fewest=False)
        best = found if best is None else min(best, found, key=lambda one: one.rank(problem))
        had = [np.ceil(solution.value[short] - WHOLE).astype(np.int64) for short in program.short]
        more = [np.maximum(one.short - short, 0) for one, short in zip(packed, had, strict=True)]
        if not any(one.any() for one in more):
            break
        asked = [case._replace(pods=case.pods + (1 + again) * one) for case, one in zip(asked, more, strict=True)]
    return best


def with_orders(problem: OrderProblem, lines: Sequence[OrderLine]) -> OrderProblem:
    """The problem with ordered machines as standing ones, and nothing more to order."""
    standing = problem.standing.copy()
    for one in lines:
        standing[one.machine, one.rack, one.serves :] += one.machines
    types = problem.of.types._replace(most=np.zeros(len(problem.of.types.name), np.int64))
    return problem._replace(of=problem.of._replace(types=types), standing=standing)


def cost_of(problem: OrderProblem, lines: Sequence[OrderLine]) -> float:
    """Price by machine and period, over the periods that ordered machines serve."""
    price = problem.of.types.price
    return float(sum(price[one.machine] * one.machines * (problem.periods - one.serves) for one in lines))


def _solved(
    problem: OrderProblem, cases: Sequence[Case], packing: Packing, until: float
) -> tuple[Written, Solution, bool]:
    """With nothing short; where that is not found, at a price of pods short that is above that of any cure.

    Also whether it is proved that no less can be short. Cost and bound are of orders alone.
    """
    found = written(problem, cases, packing)
    solution = found.program.solve((until - monotonic()) * FOR_NOTHING_SHORT)
    if len(solution.value):
        return found, solution, True
    short = np.concatenate(found.short)
    price = SHORT * max(found.program.cost, default=1.0) * float(problem.terms.lot.max(initial=1)) or SHORT
    let_short(found, short, np.concatenate([case.pods for case in cases]).astype(float))
    for variable in short.tolist():
        found.program.cost[variable] = price
    least = found.program.solve(until - monotonic())
    if not len(least.value):
        return found, least, False
    penalty = price * float(least.value[short].sum())
    orders = least._replace(cost=least.cost - penalty, bound=least.bound - penalty)
    return found, orders, least.cost - least.bound < price / 2


def _bound(problem: OrderProblem, packed: Sequence[PackedCase], until: float) -> float:
    """The bound of packing in parts, with as many pods short in each case as in the worst one of its month."""
    relaxed, worst = written(problem, [one.case for one in packed], packs_in_parts), worst_short(packed)
    for one, short in zip(packed, relaxed.short, strict=True):
        if most := worst[one.case.path, one.case.period]:
            let_short(relaxed, short, one.case.pods.astype(float))
            relaxed.program.limit(short, 1.0, -np.inf, float(most))
    return relaxed.program.solve(until - monotonic()).bound


def _lines(found: Written, value: Floats) -> list[OrderLine]:
    counts = np.rint(value[: len(found.choices)]).astype(int).tolist()
    return [OrderLine(*one, count) for one, count in zip(found.choices, counts, strict=True) if count]
