"""The program of orders: how many of each SKU are ordered when for which rack, and how each case packs on the machines.

Orders are shared by all cases. A case packs by patterns, whose number is at most the machines that it has; or, for a
bound, by pods in parts whose sums of sizes fit the machines.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from advisor.purchase.instance import DEVICE, NO_LIMIT, Floats, Ints
from advisor.purchase.orders.integer_program import Label, Program
from advisor.purchase.orders.order_problem import (
    NOTHING_LOST,
    Case,
    OrderProblem,
    groups_of,
    most_in_a_domain,
    room_of_racks,
)
from advisor.purchase.orders.packed_patterns import without_needless

DUAL_FEASIBLE = (1, 2, 3, 4)
"""Of the dual feasible functions that bound how shares fill devices."""


class OrderChoice(NamedTuple):
    """An order that can be made: a type for a rack, in a period, which serves from another one on."""

    machine: int
    rack: int
    ordered: int
    serves: int


class Pattern(NamedTuple):
    """A variable: machines of a type, in a group of racks, that hold the same pods."""

    variable: int
    machine: int
    group: int
    counts: Ints


@dataclass(frozen=True)
class Written:
    """A program, and what its variables mean.

    Args:
        program: rows of orders, then of each case.
        choices: orders, by variable from 0 on.
        packings: patterns of each case; empty where cases pack in parts.
        short: (cases, n) variables of pods that are not placed.
    """

    program: Program
    choices: list[OrderChoice]
    packings: list[list[Pattern]] = field(default_factory=list)
    short: list[Ints] = field(default_factory=list)


Packing = Callable[[Written, OrderProblem, Case, Sequence[Ints]], list[tuple[Ints, Floats]]]
"""Adds variables of how a case packs; returns by group the (v,) variables and (v, n) pods that one of each places."""


def choices_of(problem: OrderProblem) -> list[OrderChoice]:
    """All orders that can be made and that serve before the end."""
    terms, types = problem.terms, problem.of.types
    found = []
    for machine in np.flatnonzero(types.most > 0).tolist():
        lead, last = int(terms.lead[machine]), min(int(terms.last[machine]), problem.periods - 1)
        first = max(int(terms.first[machine]), -lead)
        for ordered in range(first, min(last, problem.periods - 1 - lead) + 1):
            found += [
                OrderChoice(machine, rack, ordered, ordered + lead) for rack in _racks_with_room(problem, machine)
            ]
    return found


def _racks_with_room(problem: OrderProblem, machine: int) -> list[int]:
    """Racks that hold one more machine at the end; others never do, as orders stay."""
    terms = problem.terms
    power, units, ports = room_of_racks(problem, problem.periods - 1)
    fits = (power >= terms.power_w[machine]) & (units >= terms.units[machine])
    fits &= (ports[:, : int(terms.speed[machine]) + 1] >= terms.ports[machine]).all(axis=1)
    return [int(rack) for rack in np.flatnonzero(fits)]


def written(problem: OrderProblem, cases: Sequence[Case], packing: Packing) -> Written:
    """The program of some cases.

    Args:
        problem: with limits of all orders.
        cases: what must pack.
        packing: `packs_by(patterns)`, or `packs_in_parts` for a bound.

    Returns:
        A program whose least cost is that of the cheapest orders; pods that are not placed are 0 until their bound is
        raised.

    Raises:
        Nothing.

    Source: reservations of Newell et al., "RAS", SOSP 2021, with patterns in place of sums of sizes.
    """
    program = Program()
    choices = choices_of(problem)
    price = problem.of.types.price
    most = max((int(case.pods.sum()) for case in cases), default=0) + int(problem.terms.lot.max(initial=1))
    program.add([float(price[one.machine]) * (problem.periods - one.serves) for one in choices], float(most))
    found = Written(program, choices)
    _limit_orders(found, problem)
    _limit_racks(found, problem)
    for case in cases:
        _cover(found, problem, case, packing)
    return found


def _limit_orders(found: Written, problem: OrderProblem) -> None:
    """Lots, most of each SKU, the budget, and most SKUs."""
    program, terms = found.program, problem.terms
    of = np.array([one.machine for one in found.choices], np.int64)
    ordered = np.array([one.ordered for one in found.choices], np.int64)
    for machine in np.unique(of).tolist():
        own, lot, most = np.flatnonzero(of == machine), float(terms.lot[machine]), int(problem.of.types.most[machine])
        if most < NO_LIMIT:
            program.limit(own, 1.0, -np.inf, most, Label("most", item=machine))
        for period in np.unique(ordered[own]).tolist() if lot > 1 else ():
            lots = program.add([0.0])
            some = own[ordered[own] == period]
            program.limit(np.append(some, lots), np.append(np.ones(len(some)), -lot), 0.0, 0.0)
    if np.isfinite(problem.limits.budget) and len(of):
        program.limit(np.arange(len(of)), terms.outlay[of], -np.inf, problem.limits.budget, Label("budget"))
    if problem.limits.kinds < len(np.unique(of)):
        _limit_kinds(found, problem, of)


def _limit_kinds(found: Written, problem: OrderProblem, of: Ints) -> None:
    program, machines = found.program, np.unique(of)
    used = program.add(np.zeros(len(machines)), 1.0)
    program.limit(used, 1.0, -np.inf, problem.limits.kinds, Label("kinds"))
    for machine, kind in zip(machines.tolist(), used.tolist(), strict=True):
        own = np.flatnonzero(of == machine)
        most = float(min(int(problem.of.types.most[machine]), _most_in_racks(problem, machine)))
        program.limit(np.append(own, kind), np.append(np.ones(len(own)), -most), -np.inf, 0.0)


def _most_in_racks(problem: OrderProblem, machine: int) -> int:
    """Machines of a type that all racks hold at the end, or pods that ever run at once if that is less."""
    power, units, _ = room_of_racks(problem, problem.periods - 1)
    needs = problem.terms.power_w[machine], problem.terms.units[machine]
    room = [int((left // need).sum()) for left, need in zip((power, units), needs, strict=True) if need > 0]
    lot = int(problem.terms.lot[machine])
    pods = (1 + len(problem.racks.domains)) * int(problem.demand.pods.sum(axis=2).max(initial=0))
    return min([*room, pods + lot])


def _limit_racks(found: Written, problem: OrderProblem) -> None:
    """Power, units and ports of each rack; a period whose next one leaves no more needs no row, as orders stay."""
    terms = problem.terms
    rack = np.array([one.rack for one in found.choices], np.int64)
    of = np.array([one.machine for one in found.choices], np.int64)
    serves = np.array([one.serves for one in found.choices], np.int64)
    rooms = [room_of_racks(problem, period) for period in range(problem.periods)]
    speeds = problem.racks.ports.shape[1]
    needs = [("power", terms.power_w), ("units", terms.units)]
    needs += [("ports", np.where(terms.speed >= speed, terms.ports, 0)) for speed in range(speeds)]
    for at, (resource, need) in enumerate(needs):
        room = np.array([[*power, *units, *ports.T.ravel()] for power, units, ports in rooms])
        room = room.reshape(problem.periods, len(needs), -1)[:, at]
        for period in range(problem.periods):
            for one in range(room.shape[1]):
                own = np.flatnonzero((rack == one) & (serves <= period) & (need[of] > 0))
                if len(own) and (period + 1 == problem.periods or room[period, one] < room[period + 1, one]):
                    label = Label(resource, rack=one, period=period, item=max(at - 2, 0))
                    found.program.limit(own, need[of[own]].astype(float), -np.inf, float(room[period, one]), label)


def _cover(found: Written, problem: OrderProblem, case: Case, packing: Packing) -> None:
    """Every pod of a case is placed, or short."""
    program, groups = found.program, groups_of(problem, case)
    found.packings.append([])
    places = packing(found, problem, case, groups)
    short = program.add(np.zeros(len(case.pods)), 0.0, integer=False)
    found.short.append(short)
    most = most_in_a_domain(problem.demand, case.pods)
    resource = "demand" if case.lost == NOTHING_LOST else "domain"
    for shape in np.flatnonzero(case.pods).tolist():
        label = Label(resource, period=case.period, item=shape if case.lost == NOTHING_LOST else case.lost)
        if len(groups) > 1 and most[shape] < case.pods[shape]:
            counted = program.add(np.zeros(len(groups)), float(most[shape]), integer=False)
            for one, (variables, placed) in zip(counted.tolist(), places, strict=True):
                program.limit(np.append(variables, one), np.append(placed[:, shape], -1.0), 0.0, np.inf)
            row, factors = counted, np.ones(len(counted))
        else:
            row = np.concatenate([variables for variables, _ in places])
            factors = np.concatenate([placed[:, shape] for _, placed in places])
        program.limit(np.append(row, short[shape]), np.append(factors, 1.0), float(case.pods[shape]), np.inf, label)


def _machines(found: Written, problem: OrderProblem, case: Case, racks: Ints, machine: int) -> tuple[Ints, int]:
    """Orders of a type that serve a case in some racks, and machines there without an order."""
    own = [
        at
        for at, one in enumerate(found.choices)
        if one.machine == machine and one.serves <= case.period and one.rack in set(racks.tolist())
    ]
    return np.array(own, np.int64), int(problem.standing[machine, racks, case.period].sum())


def packs_by(patterns: Sequence[Ints]) -> Packing:
    """Cases pack by patterns; (p, n) pods of each pattern by type."""
    kept = dict[tuple[int, bytes], Ints]()

    def packing(found: Written, problem: OrderProblem, case: Case, groups: Sequence[Ints]) -> list[tuple[Ints, Floats]]:
        places = []
        for group, racks in enumerate(groups):
            variables, placed = [np.empty(0, np.int64)], [np.empty((0, len(case.pods)))]
            for machine, own in enumerate(patterns):
                orders, standing = _machines(found, problem, case, racks, machine)
                key = machine, case.pods.tobytes()
                if key not in kept:
                    kept[key] = without_needless(own, case.pods)
                if not len(kept[key]) or not (len(orders) or standing):
                    continue
                used = found.program.add(np.zeros(len(kept[key])))
                row, factors = np.append(used, orders), np.append(np.ones(len(used)), -np.ones(len(orders)))
                found.program.limit(row, factors, -np.inf, float(standing))
                pairs = zip(used.tolist(), kept[key], strict=True)
                found.packings[-1].extend(Pattern(one, machine, group, counts) for one, counts in pairs)
                variables.append(used)
                placed.append(kept[key].astype(float))
            places.append((np.concatenate(variables), np.concatenate(placed)))
        return places

    return packing


def packs_in_parts(
    found: Written, problem: OrderProblem, case: Case, groups: Sequence[Ints]
) -> list[tuple[Ints, Floats]]:
    """Cases pack by sums of sizes alone, pods in parts: no plan costs less than what that leads to.

    Source: volumetric bound; devices by dual feasible functions of Fekete and Schepers, "New classes of fast lower
    bounds for bin packing problems", 2001: u(x) = x where (k+1)x is whole, else floor((k+1)x) / k.
    """
    sizes, places = _sizes(problem), []
    for racks in groups:
        variables, placed = [np.empty(0, np.int64)], [np.empty((0, len(case.pods)))]
        for machine in range(len(problem.of.types.name)):
            orders, standing = _machines(found, problem, case, racks, machine)
            shapes = np.flatnonzero(problem.of.allowed[:, machine] & (case.pods > 0))
            if not len(shapes) or not (len(orders) or standing):
                continue
            pods = found.program.add(np.zeros(len(shapes)), integer=False)
            for size, room in zip(sizes, _rooms(problem, machine), strict=True):
                row = np.append(pods, orders)
                factors = np.append(size[shapes], np.full(len(orders), -room))
                found.program.limit(row, factors, -np.inf, room * standing)
            variables.append(pods)
            placed.append(np.eye(len(case.pods), dtype=np.float64)[shapes])
        places.append((np.concatenate(variables), np.concatenate(placed)))
    return places


def _sizes(problem: OrderProblem) -> list[Floats]:
    shapes = problem.of.shapes
    part = shapes.share / DEVICE
    whole: Floats = shapes.devices.astype(np.float64)
    devices = [whole + part]
    for k in DUAL_FEASIBLE:
        times = (k + 1) * shapes.share
        devices.append(whole + np.where(times % DEVICE == 0, part, (times // DEVICE) / k))
    return [np.asarray(shapes.cpu / 1_000), np.asarray(shapes.memory / 1_024), *devices]


def _rooms(problem: OrderProblem, machine: int) -> list[float]:
    types = problem.of.types
    devices = float(types.devices[machine])
    return [types.cpu[machine] / 1_000, types.memory[machine] / 1_024, *[devices] * (1 + len(DUAL_FEASIBLE))]
