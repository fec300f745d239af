"""Why a plan of orders is as it is: what binds and what one more is worth, and plans of other demand or prices."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from advisor.purchase.orders.case_packing import worst_short
from advisor.purchase.orders.order_plan import NoOrdersInTime, OrderPlan, Patterns, cost_of, patterns_of, planned
from advisor.purchase.orders.order_problem import OrderProblem, cases_of
from advisor.purchase.orders.order_program import packs_by, written

WORTH_SHOWING = 1e-6
PER = {"power": 1_000.0, "units": 1.0, "ports": 1.0, "most": 1.0, "budget": 1_000.0}
"""Amount of a resource for which a price is given: a kW, a unit, a port, a machine, a thousand of the budget."""
Pairs = list[tuple[int, int]]
"""Paths and periods that a plan is made from."""


class Binding(NamedTuple):
    """A limit that keeps the cost up.

    Args:
        resource: power, units, ports, most, budget; domain or demand for what must be served.
        at: rack of power, units and ports; type of most; domain or shape of those; -1 of the budget.
        item: speed of ports from 0; 0 of all else.
        price: a period, of one kW, unit, port, machine or thousand of budget more, or of all that must be served.
    """

    resource: str
    at: int
    item: int
    price: float


DECIDED_WITHIN = 0.2
"""Gap up to which another plan is compared."""


class Alternative(NamedTuple):
    """Another plan.

    Args:
        name: what differs.
        cost: over all periods.
        short: pods short in the worst case.
        machines: (m,) that it orders, by type.
    """

    name: str
    cost: float
    short: int
    machines: tuple[int, ...]


def pairs_of(plan: OrderPlan) -> Pairs:
    """Paths and periods of the plan's cases."""
    return sorted({(one.case.path, one.case.period) for one in plan.cases})


def binding(problem: OrderProblem, plan: OrderPlan, patterns: Patterns, seconds: float) -> list[Binding]:
    """Limits with a shadow price, the dearest first.

    Args:
        problem: of the plan.
        plan: pods that it leaves short stay short.
        patterns: that it was made from.
        seconds: time at most.

    Returns:
        One for each limit of a rack, a type or all orders; prices are by period.

    Raises:
        Nothing.

    Source: dual of the linear relaxation, in which orders and machines may be parts.
    """
    pairs = pairs_of(plan)
    found = written(problem, cases_of(problem, pairs), packs_by(patterns.by_type))
    short = {one.case[:3]: one.short for one in plan.cases}
    for case, variables in zip(cases_of(problem, pairs), found.short, strict=True):
        for variable, most in zip(variables.tolist(), short[case[:3]].tolist(), strict=True):
            found.program.high[variable] = float(most)
    worth = dict[tuple[str, int, int], float]()
    program = found.program
    for label, price, (low, _) in zip(program.labels, program.shadow_prices(seconds), program.bounds, strict=True):
        if abs(price) > WORTH_SHOWING and label.resource:
            served = label.resource in ("demand", "domain")
            key = label.resource, label.item if label.rack < 0 else label.rack, label.item if label.rack >= 0 else 0
            worth[key] = worth.get(key, 0.0) + (price * low if served else -price * PER.get(label.resource, 1.0))
    rows = [Binding(*key, float(price) / problem.periods) for key, price in worth.items()]
    return sorted((one for one in rows if one.price > WORTH_SHOWING), key=lambda one: -one.price)


def runner_up(
    problem: OrderProblem, plan: OrderPlan, patterns: Patterns, seconds: float
) -> tuple[OrderPlan, Alternative | None]:
    """The cheapest plan without one of the SKUs that are ordered; None where none is ordered, or found in time.

    Also the plan: one that is cheaper without a SKU, and leaves no more pods short in any month, takes its place.
    """
    types, best = problem.of.types, dict[str, OrderPlan]()
    for again in (False, True):
        worlds = dict[str, OrderProblem]()
        for machine in sorted({one.machine for one in plan.lines}):
            most = np.where(np.arange(len(types.name)) == machine, 0, types.most)
            without = problem.of._replace(types=types._replace(most=most))
            worlds[f"without {types.name[machine]}"] = problem._replace(of=without)
        best = dict(_others(plan, worlds, patterns, seconds / 2, lambda _: None))
        better = min((one for one in best.values() if _betters(one, plan)), key=lambda one: one.cost, default=None)
        if again or better is None:
            break
        plan = better._replace(bound=plan.bound, exact=plan.exact, fewest=plan.fewest)
    rows = [_row(problem, name, one) for name, one in best.items()]
    return plan, min(rows, key=lambda one: (one.short, one.cost), default=None)


def _betters(one: OrderPlan, plan: OrderPlan) -> bool:
    """Whether a plan of the same cases costs less and leaves no more pods short in the worst case of any month."""
    before, after = worst_short(plan.cases), worst_short(one.cases)
    return one.cost < plan.cost - 1e-9 and all(short <= before[key] for key, short in after.items())


def other_worlds(problem: OrderProblem, plan: OrderPlan) -> dict[str, OrderProblem]:
    """The problem with a tenth more or less demand, with another price of its main SKU, and a period more of lead."""
    types, terms = problem.of.types, problem.terms
    spent = np.bincount([one.machine for one in plan.lines], _spent(problem, plan), minlength=len(types.name))
    main = int(spent.argmax())
    found = {}
    for name, factor in (("+10 %", 1.1), ("-10 %", 0.9)):
        pods = np.ceil(problem.demand.pods * factor - 1e-9).astype(np.int64)
        found[f"demand {name}"] = problem._replace(demand=problem.demand._replace(pods=pods))
    for name, factor in (("+10 %", 1.1), ("-10 %", 0.9)):
        change = np.where(np.arange(len(types.name)) == main, factor, 1.0)
        dearer = problem._replace(of=problem.of._replace(types=types._replace(price=types.price * change)))
        if plan.lines:
            found[f"price of {types.name[main]} {name}"] = dearer._replace(
                terms=terms._replace(outlay=terms.outlay * change)
            )
    found["lead times +30 days"] = problem._replace(terms=terms._replace(lead=terms.lead + 1))
    return found


def alternatives(
    plan: OrderPlan,
    worlds: dict[str, OrderProblem],
    patterns: Patterns,
    seconds: float,
    progress: Callable[[str], None],
) -> list[Alternative]:
    """A plan of each problem for the paths and periods that a plan rests on.

    One that was not decided in time is left out: whether fewer pods can be short, or whether it costs a fifth less.
    Where patterns are not all there are, neither can be decided of a full site: one as near its bound as the plan
    stays.
    """
    return [_row(worlds[name], name, one) for name, one in _others(plan, worlds, patterns, seconds, progress)]


def _others(
    plan: OrderPlan,
    worlds: dict[str, OrderProblem],
    patterns: Patterns,
    seconds: float,
    progress: Callable[[str], None],
) -> Iterator[tuple[str, OrderPlan]]:
    for name, problem in worlds.items():
        progress(name)
        pairs = pairs_of(plan)
        known = patterns_of(problem, pairs, seconds / len(worlds)) if patterns.complete else patterns
        try:
            other = planned(problem, pairs, seconds / len(worlds), known)
        except NoOrdersInTime:
            continue
        within = DECIDED_WITHIN if patterns.complete else max(DECIDED_WITHIN, plan.gap)
        if other.gap > within or (patterns.complete and not other.fewest):
            continue
        same = _same_orders(problem, plan) if name.startswith(("price", "demand -")) else None
        better = same is not None and (plan.short, same) < (other.short, other.cost)
        yield name, plan._replace(cost=same) if better and same is not None else other


def _row(problem: OrderProblem, name: str, plan: OrderPlan) -> Alternative:
    of, count = [one.machine for one in plan.lines], [one.machines for one in plan.lines]
    machines = np.bincount(of, count, minlength=len(problem.of.types.name))
    return Alternative(name, plan.cost, plan.short, tuple(int(one) for one in machines))


def _same_orders(problem: OrderProblem, plan: OrderPlan) -> float | None:
    """What a plan's own orders cost in another world; None where they exceed its budget."""
    outlay = sum(float(problem.terms.outlay[one.machine]) * one.machines for one in plan.lines)
    return cost_of(problem, plan.lines) if outlay <= problem.limits.budget else None


def _spent(problem: OrderProblem, plan: OrderPlan) -> list[float]:
    return [float(problem.of.types.price[one.machine] * one.machines) for one in plan.lines]
