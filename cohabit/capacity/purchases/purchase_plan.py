"""A purchase planned from files: orders by date, their proof, and what speaks for them, as a report."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from hashlib import sha256

import orjson

from advisor.purchase.orders.case_packing import PackedCase
from advisor.purchase.orders.order_plan import OrderPlan, Patterns, patterns_of, planned
from advisor.purchase.orders.path_risk import planned_at_risk
from advisor.purchase.orders.plan_check import plan_faults
from advisor.purchase.orders.plan_reasons import (
    Alternative,
    Binding,
    alternatives,
    binding,
    other_worlds,
    pairs_of,
    runner_up,
)
from cohabit.capacity.purchases.purchase_inputs import PurchaseInputs, order_by
from cohabit.config.errors import CohabitError

BANDS = (0.5, 0.2, 0.05)
"""Risks of the costs P50, P80 and P95."""
FOR_PATTERNS, FOR_PLAN, FOR_RUNNER_UP, FOR_BANDS = 0.1, 0.4, 0.1, 0.2
"""Shares of the time; other demand and prices have the rest."""


@dataclass(frozen=True)
class Order:
    """Machines to order for a rack, the last day to order them and the day from which they serve."""

    sku: str
    machines: int
    rack: str
    zone: str
    order_by: date
    deliver_by: date
    price: float


@dataclass(frozen=True)
class Shortage:
    """Pods of a shape without a place in the worst case of a month; proved where no orders leave fewer without one.

    `least` is how many of the case's pods are without a place at least, whatever is ordered; 0 where that is unknown.
    """

    month: date
    shape: str
    pods: int
    lost: str
    before_delivery: bool
    proved: bool
    least: int


@dataclass(frozen=True)
class PurchaseReport:
    """What a purchase is decided by.

    Args:
        orders: by day of order.
        cost: price by machine and month over the months that ordered machines serve; `outlay` is what is paid for them.
        bound: no orders cost less; `gap` is the share by which the cost may exceed that.
        fingerprint: of where each pod was placed in each case.
        risk: probability that a path that was not seen is short; None of a single path, as are P50, P80 and P95.
        binding: limits in words, with what one more is worth a month.
        marginals: price a month by limit.
        sensitivity: plans of other demand, prices and lead times; `undecided` more were not decided in time.
    """

    orders: list[Order]
    cost: float
    outlay: float
    bound: float
    gap: float
    exact: bool
    packed: bool
    fingerprint: str
    shortages: list[Shortage]
    risk: float | None
    worst_short: float | None
    cost_by_band: dict[str, float]
    binding: list[str]
    marginals: list[Binding]
    runner_up: Alternative | None
    sensitivity: list[Alternative]
    undecided: int


def purchase_report(
    inputs: PurchaseInputs, risk: float, seconds: float, progress: Callable[[str], None]
) -> PurchaseReport:
    """Plan, check and explain a purchase.

    Args:
        inputs: of files.
        risk: of a shortage on any path, where demand has several.
        seconds: time at most, about.
        progress: is called with what is being done.

    Raises:
        CohabitError: the plan did not pass its check.
        NoOrdersInTime: none was found.
    """
    problem = inputs.problem
    progress("planning")
    patterns = _patterns(inputs, FOR_PATTERNS * seconds)
    pairs = [(0, period) for period in range(len(inputs.months))]
    by_risk = None
    if len(inputs.paths) > 1:
        by_risk = planned_at_risk(problem, risk, FOR_PLAN * seconds, progress, patterns=patterns)
    plan = by_risk.plan if by_risk else planned(problem, pairs, FOR_PLAN * seconds, patterns)
    progress("runner-up")
    better, second = runner_up(problem, plan, patterns, FOR_RUNNER_UP * seconds)
    plan = plan if by_risk else better
    progress("checking every pod's place")
    if faults := plan_faults(problem, plan, pairs_of(plan)):
        raise CohabitError(
            f"the plan did not pass its check, so it is not shown: {faults[0]}; report it with the files"
        )
    progress("what binds")
    limits = binding(problem, plan, patterns, 0.05 * seconds)
    rest = 1.0 - FOR_PATTERNS - FOR_PLAN - FOR_RUNNER_UP - (FOR_BANDS if by_risk else 0.0)
    worlds = other_worlds(problem, plan)
    other = alternatives(plan, worlds, patterns, rest * seconds, progress)
    return PurchaseReport(
        orders=_orders(inputs, plan),
        cost=plan.cost,
        outlay=float(sum(problem.terms.outlay[one.machine] * one.machines for one in plan.lines)),
        bound=plan.bound,
        gap=plan.gap,
        exact=plan.exact,
        packed=not plan.short,
        fingerprint=_fingerprint(plan),
        shortages=_shortages(inputs, plan),
        risk=by_risk.risk if by_risk else None,
        worst_short=by_risk.worst_short if by_risk else None,
        cost_by_band=_bands(inputs, patterns, FOR_BANDS * seconds, progress) if by_risk else {},
        binding=[_in_words(inputs, one) for one in limits if one.resource != "demand"],
        marginals=limits,
        runner_up=second,
        sensitivity=other,
        undecided=len(worlds) - len(other),
    )


def report_json(inputs: PurchaseInputs, report: PurchaseReport) -> bytes:
    """The report as JSON; machines of alternatives by SKU."""
    names = [one.name for one in inputs.skus]

    def plain(value: object) -> object:
        if isinstance(value, Alternative):
            machines = {name: count for name, count in zip(names, value.machines, strict=True) if count}
            return value._asdict() | {"machines": machines}
        if isinstance(value, Binding):
            return value._asdict() | {"at": place_of(inputs, value)}
        raise TypeError

    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_PASSTHROUGH_SUBCLASS
    return orjson.dumps(report, default=plain, option=options)


def place_of(inputs: PurchaseInputs, one: Binding) -> str:
    """Rack, SKU, domain or shape that a limit is of."""
    if one.resource in ("power", "units", "ports"):
        return inputs.racks[one.at].name
    names = {
        "most": [sku.name for sku in inputs.skus],
        "domain": list(inputs.problem.racks.domains),
        "demand": inputs.shapes,
    }
    return names[one.resource][one.at] if one.resource in names else ""


def _patterns(inputs: PurchaseInputs, seconds: float) -> Patterns:
    pairs = [(path, period) for path in range(len(inputs.paths)) for period in range(len(inputs.months))]
    return patterns_of(inputs.problem, pairs, seconds)


def _bands(
    inputs: PurchaseInputs, patterns: Patterns, seconds: float, progress: Callable[[str], None]
) -> dict[str, float]:
    found = {}
    for risk in BANDS:
        name = f"P{100 * (1 - risk):.0f}"
        progress(f"cost at {name}")
        found[name] = planned_at_risk(inputs.problem, risk, seconds / len(BANDS), patterns=patterns).plan.cost
    return found


def _orders(inputs: PurchaseInputs, plan: OrderPlan) -> list[Order]:
    found = []
    for one in plan.lines:
        sku, rack, serves = inputs.skus[one.machine], inputs.racks[one.rack], inputs.months[one.serves]
        last_day = order_by(serves, sku.lead_days)
        found.append(Order(sku.name, one.machines, rack.name, rack.zone, last_day, serves, sku.price))
    return sorted(found, key=lambda one: (one.order_by, one.deliver_by, one.sku, one.rack))


def _shortages(inputs: PurchaseInputs, plan: OrderPlan) -> list[Shortage]:
    """Of each month the case with most pods short, by shape."""
    problem = inputs.problem
    ahead = problem.terms.lead + problem.terms.first
    earliest = int(ahead[problem.of.types.most > 0].min(initial=len(inputs.months)))
    worst = dict[int, PackedCase]()
    for one in plan.cases:
        if one.short.sum() > (worst[one.case.period].short.sum() if one.case.period in worst else 0):
            worst[one.case.period] = one
    found = list[Shortage]()
    for period, one in sorted(worst.items()):
        lost = problem.racks.domains[one.case.lost] if one.case.lost >= 0 else ""
        early = period < earliest
        proved = plan.fewest or (early and int(one.short.sum()) <= one.least)
        for shape in one.short.nonzero()[0].tolist():
            pods, month = int(one.short[shape]), inputs.months[period]
            found.append(Shortage(month, inputs.shapes[shape], pods, lost, early, proved, one.least if early else 0))
    return found


def _fingerprint(plan: OrderPlan) -> str:
    found = sha256()
    for one in plan.cases:
        found.update(repr(one.case[:3]).encode())
        for machines in one.packed:
            found.update(repr((machines[:3], machines.counts.tolist())).encode())
    return found.hexdigest()[:16]


def _in_words(inputs: PurchaseInputs, one: Binding) -> str:
    place, price = place_of(inputs, one), f"{one.price:,.2f} a month"
    if one.resource in ("power", "units", "ports"):
        zone = inputs.racks[one.at].zone
        amount = {"power": "1 kW", "units": "1 unit", "ports": "1 port"}[one.resource]
        return f"{one.resource} of rack {place} (zone {zone}) binds: {amount} more is worth {price}"
    if one.resource == "most":
        return f"the number of {place} that can be had binds: 1 machine more is worth {price}"
    if one.resource == "budget":
        return f"the budget binds: 1,000 more is worth {price}"
    return f"the loss of {place} binds: a tenth fewer prod pods would save about {one.price / 10:,.2f} a month"
