"""Checks a plan of orders without the program that found it: terms, racks, and every pod on a machine."""

from collections.abc import Iterator, Sequence

import numpy as np

from advisor.purchase.devices import placed_on_devices
from advisor.purchase.instance import DEVICE, Ints
from advisor.purchase.orders.case_packing import PackedCase, PackedMachines
from advisor.purchase.orders.order_plan import OrderLine, OrderPlan, cost_of
from advisor.purchase.orders.order_problem import OrderProblem, cases_of, groups_of, most_in_a_domain


def plan_faults(problem: OrderProblem, plan: OrderPlan, wanted: list[tuple[int, int]]) -> list[str]:
    """What is wrong with a plan.

    Args:
        problem: that it is for.
        plan: orders, and how each case packs.
        wanted: paths and periods that it should cover.

    Returns:
        A sentence for each fault; none where the plan can be followed.

    Raises:
        Nothing.

    Source: ours; shares are placed on devices one by one.
    """
    given = {(one.case.path, one.case.period, one.case.lost) for one in plan.cases}
    missing = [case for case in cases_of(problem, wanted) if (case.path, case.period, case.lost) not in given]
    found = [f"path {case.path}, period {case.period}, lost domain {case.lost}: not packed" for case in missing]
    found += _wrong_orders(problem, plan.lines)
    if abs(cost_of(problem, plan.lines) - plan.cost) > 1e-6 * max(plan.cost, 1.0):
        found.append(f"orders cost {cost_of(problem, plan.lines):,.2f}, not {plan.cost:,.2f}")
    stock = stock_of(problem, plan.lines)
    found += _overfull_racks(problem, stock)
    for one in plan.cases:
        found += _wrong_case(problem, one, stock)
    return found


def stock_of(problem: OrderProblem, lines: Sequence[OrderLine]) -> Ints:
    """(m, r, t) machines that serve: standing ones and orders from their first period of service on."""
    stock = problem.standing.copy()
    for one in lines:
        stock[one.machine, one.rack, one.serves :] += one.machines
    return stock


def _wrong_orders(problem: OrderProblem, lines: Sequence[OrderLine]) -> Iterator[str]:
    terms, types = problem.terms, problem.of.types
    total = np.zeros(len(types.name), np.int64)
    by_delivery = np.zeros((len(types.name), problem.periods), np.int64)
    for one in lines:
        total[one.machine] += one.machines
        by_delivery[one.machine, one.serves] += one.machines
        window = terms.first[one.machine] <= one.ordered <= terms.last[one.machine]
        if one.machines < 1 or not window or one.serves != one.ordered + terms.lead[one.machine]:
            yield f"{one.machines} {types.name[one.machine]} in period {one.ordered}: outside window or lead time"
    for machine in np.flatnonzero((by_delivery % terms.lot[:, None]).any(axis=1) | (total > types.most)).tolist():
        yield f"{total[machine]} {types.name[machine]}: not whole lots, or more than can be had"
    if terms.outlay @ total > problem.limits.budget * (1 + 1e-9) or (total > 0).sum() > problem.limits.kinds:
        yield "orders exceed the budget or the most SKUs"


def _overfull_racks(problem: OrderProblem, stock: Ints) -> Iterator[str]:
    """Racks in which orders exceed what is free; a rack that was overfull before takes none that needs more."""
    terms, racks = problem.terms, problem.racks
    needs = [terms.power_w, terms.units]
    have = [racks.power_w, racks.units]
    for speed in range(racks.ports.shape[1]):
        needs.append(np.where(terms.speed >= speed, terms.ports, 0))
        have.append(racks.ports[:, speed:].sum(axis=1))
    for need, most in zip(needs, have, strict=True):
        used = np.einsum("m,mrt->rt", need, stock)
        before = np.einsum("m,mrt->rt", need, problem.standing)
        for rack, period in np.argwhere(used > np.maximum(before, most[:, None])).tolist():
            yield f"rack {racks.name[rack]}, period {period}: {used[rack, period]} of {most[rack]} used"


def _wrong_case(problem: OrderProblem, one: PackedCase, stock: Ints) -> Iterator[str]:
    groups, case = groups_of(problem, one.case), one.case
    where = f"path {case.path}, period {case.period}, lost domain {case.lost}"
    placed = np.zeros((len(groups), len(case.pods)), np.int64)
    used = np.zeros((len(problem.of.types.name), len(groups)), np.int64)
    for machines in one.packed:
        used[machines.machine, machines.group] += machines.machines
        placed[machines.group] += machines.machines * machines.counts
        if not _holds(problem, machines):
            yield f"{where}: a {problem.of.types.name[machines.machine]} holds more than fits"
    there = np.stack([stock[:, racks, case.period].sum(axis=1) for racks in groups], axis=1)
    if (used > there).any() or any((problem.racks.domain[racks] == case.lost).any() for racks in groups):
        yield f"{where}: more machines hold pods than there are"
    if len(groups) > 1:
        placed = np.minimum(placed, most_in_a_domain(problem.demand, case.pods))
    if (placed.sum(axis=0) + one.short < case.pods).any():
        yield f"{where}: pods without a place"


def _holds(problem: OrderProblem, one: PackedMachines) -> bool:
    """Whether one machine holds its pods; the devices of shares are added up again."""
    shapes, types = problem.of.shapes, problem.of.types
    pods = np.repeat(np.arange(len(one.counts)), one.counts)
    if not problem.of.allowed[pods, one.machine].all():
        return False
    if shapes.cpu[pods].sum() > types.cpu[one.machine] or shapes.memory[pods].sum() > types.memory[one.machine]:
        return False
    free = int(types.devices[one.machine] - shapes.devices[pods].sum())
    shares = [int(share) for share in shapes.share[pods] if share]
    on = placed_on_devices(shares, free) if free >= 0 else None
    filled = None if on is None else np.bincount(np.array(on, np.int64), shares, minlength=1)
    return filled is not None and len(filled) <= max(free, 1) and bool((filled <= DEVICE).all())
