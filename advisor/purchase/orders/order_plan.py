"""A plan of orders: the cheapest ones with which demand packs, a bound, and what no order can cure."""

from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

import numpy as np

from advisor.errors import AdvisorError
from advisor.purchase.instance import Floats, Instance, Ints, MachineTypes
from advisor.purchase.orders.integer_program import Solution
from advisor.purchase.orders.order_problem import Case, OrderProblem, cases_of
from advisor.purchase.orders.order_program import Packing, Written, choices_of, packs_by, packs_in_parts, written
from advisor.purchase.orders.packed_patterns import maximal_patterns
from advisor.purchase.packing import Search, generated_patterns

WHOLE = 1e-6
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
FOR_BOUND = 0.3
"""Share of the time that a bound may take where patterns are not all there are."""


class OrderLine(NamedTuple):
    """Machines of a type that are ordered in a period for a rack, and serve from another period on."""

    machine: int
    rack: int
    ordered: int
    serves: int
    machines: int


class PackedMachines(NamedTuple):
    """Machines of a type in a group of racks (`groups_of`), of which each holds the same pods, (n,) by shape."""

    machine: int
    group: int
    machines: int
    counts: Ints


class PackedCase(NamedTuple):
    """A case, what its machines hold, and (n,) pods that no order can place."""

    case: Case
    packed: list[PackedMachines]
    short: Ints


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
    good = generated_patterns(_with_new(problem, most), Search(seconds, seed, monotonic, lambda _: None))
    types = len(found)
    both = [np.concatenate([good[machine], good[types + machine]]) for machine in range(types)]
    return Patterns([b if one is None else one for one, b in zip(found, both, strict=True)], complete=False)


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
    at_hand = [packed_alone(standing, case, packing, FOR_CASE * seconds) for case in early]
    if not cases:
        return OrderPlan([], at_hand, 0.0, 0.0, known.complete, fewest=True)
    whole = sum(map(len, known.by_type)) * len(cases) <= MAX_WHOLE
    search_until = until if whole and known.complete else until - FOR_BOUND * seconds
    found = (_at_once if whole else _in_steps)(problem, cases, known, search_until)
    if found is None:
        raise NoOrdersInTime(seconds)
    bound, fewest = found.bound, found.fewest and known.complete
    if not (whole and known.complete):
        bound = _bound(problem, found.packed, until)
        fewest = not any(one.short.any() for one in found.packed)
    packed = [*at_hand, *found.packed]
    return OrderPlan(found.lines, packed, cost_of(problem, found.lines), max(bound, 0.0), known.complete, fewest)


class _Found(NamedTuple):
    lines: list[OrderLine]
    packed: list[PackedCase]
    bound: float
    fewest: bool


def _at_once(problem: OrderProblem, cases: list[Case], known: Patterns, until: float) -> _Found | None:
    """Orders and machines of all cases as whole numbers together."""
    program, solution, fewest = _solved(problem, cases, packs_by(known.by_type), until)
    if not len(solution.value):
        return None
    packed = [_packed(program, at, case, solution.value) for at, case in enumerate(cases)]
    return _Found(_lines(program, solution.value), packed, solution.bound, fewest)


def _in_steps(problem: OrderProblem, cases: list[Case], known: Patterns, until: float) -> _Found | None:
    """Orders by sums of sizes, then each case alone by patterns.

    What has no place then is asked for again in the next round, more of it from round to round.
    """
    asked, best, packing = list(cases), None, packs_by(known.by_type)
    for again in range(ROUNDS):
        left = until - monotonic()
        program, solution, _ = _solved(problem, asked, packs_in_parts, monotonic() + left / 4)
        if not len(solution.value) or (left < 1.0 and best is not None):
            break
        lines = _lines(program, solution.value)
        standing = with_orders(problem, lines)
        packed = [packed_alone(standing, case, packing, (until - monotonic()) * FOR_CASE) for case in cases]
        rank = sum(int(one.short.sum()) for one in packed), cost_of(problem, lines)
        if best is None or rank < best[0]:
            best = rank, _Found(lines, packed, 0.0, fewest=False)
        had = [np.ceil(solution.value[short] - WHOLE).astype(np.int64) for short in program.short]
        more = [np.maximum(one.short - short, 0) for one, short in zip(packed, had, strict=True)]
        if not any(one.any() for one in more):
            break
        asked = [case._replace(pods=case.pods + (1 + again) * one) for case, one in zip(asked, more, strict=True)]
    return None if best is None else best[1]


def with_orders(problem: OrderProblem, lines: Sequence[OrderLine]) -> OrderProblem:
    """The problem with ordered machines as standing ones, and nothing more to order."""
    standing = problem.standing.copy()
    for one in lines:
        standing[one.machine, one.rack, one.serves :] += one.machines
    types = problem.of.types._replace(most=np.zeros(len(problem.of.types.name), np.int64))
    return problem._replace(of=problem.of._replace(types=types), standing=standing)


def packed_alone(standing: OrderProblem, case: Case, packing: Packing, seconds: float) -> PackedCase:
    """How a case packs on standing machines, with as few pods short as was found in time.

    Whole machines of the program without whole numbers stay.
    """
    found = written(standing, [case], packing)
    program, whole = found.program, found.program.integer
    _set_highest(found, found.short[0], case.pods.astype(float))
    for variable in found.short[0].tolist():
        program.cost[variable] = 1.0
    program.integer = [False] * len(whole)
    parts = program.solve(seconds)
    program.integer = whole
    for one in found.packings[0] if len(parts.value) else ():
        program.low[one.variable] = float(int(parts.value[one.variable] + WHOLE))
    solution = program.solve(seconds)
    return _packed(found, 0, case, solution.value) if len(solution.value) else PackedCase(case, [], case.pods)


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
    _set_highest(found, short, np.concatenate([case.pods for case in cases]).astype(float))
    for variable in short.tolist():
        found.program.cost[variable] = price
    least = found.program.solve(until - monotonic())
    if not len(least.value):
        return found, least, False
    penalty = price * float(least.value[short].sum())
    orders = least._replace(cost=least.cost - penalty, bound=least.bound - penalty)
    return found, orders, least.cost - least.bound < price / 2


def _set_highest(found: Written, variables: Ints, high: Floats) -> None:
    for variable, most in zip(variables.tolist(), high.tolist(), strict=True):
        found.program.high[variable] = most


def _bound(problem: OrderProblem, packed: Sequence[PackedCase], until: float) -> float:
    """The bound of packing in parts, with as many pods short as the plan has."""
    relaxed = written(problem, [one.case for one in packed], packs_in_parts)
    for one, short in zip(packed, relaxed.short, strict=True):
        _set_highest(relaxed, short, one.short.astype(float))
    return relaxed.program.solve(until - monotonic()).bound


def _lines(found: Written, value: Floats) -> list[OrderLine]:
    counts = np.rint(value[: len(found.choices)]).astype(int).tolist()
    return [OrderLine(*one, count) for one, count in zip(found.choices, counts, strict=True) if count]


def _packed(found: Written, at: int, case: Case, value: Floats) -> PackedCase:
    counts = ((one, round(value[one.variable])) for one in found.packings[at])
    packed = [PackedMachines(one.machine, one.group, count, one.counts) for one, count in counts if count]
    return PackedCase(case, packed, np.ceil(value[found.short[at]] - WHOLE).astype(np.int64))
