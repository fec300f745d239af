"""What if: how much runs short without orders, and what a plan costs, after a change. An edge around kernels."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import NamedTuple

import numpy as np

from advisor.purchase.instance import Floats
from advisor.purchase.orders.case_packing import packed_alone
from advisor.purchase.orders.order_plan import (
    NoOrdersInTime,
    Patterns,
    patterns_of,
    planned,
    with_orders,
)
from advisor.purchase.orders.order_problem import OrderProblem, cases_of
from advisor.purchase.orders.order_program import packs_by
from advisor.purchase.orders.path_risk import hardness
from cohabit.capacity.purchases.purchase_inputs import PurchaseInputs
from cohabit.config.errors import CohabitError

UNCHANGED = "no change"
FORMS = "write machines:SKU:RACK:+4, grow:30, grow:SHAPE:30, grow:APP:30, lose:ZONE or without:SKU"
FOR_CASE, FOR_PATTERNS, FOR_PLAN = 0.02, 0.2, 0.5
"""Parts of a change's time: for each case without orders, for patterns, and for the plan."""


class WhatIf(NamedTuple):
    """A change.

    Args:
        change: as it was asked for.
        short: pods without a place in the worst month if nothing is ordered.
        first_short: the first month in which pods are short then; None where none are.
        cost: of the plan, price over life for each month that a machine serves; None where none was found in time.
        outlay: price of the plan's machines, paid once.
        machines: (m,) that the plan orders, by SKU.
        left: pods that the plan leaves short in the worst case.
    """

    change: str
    short: int
    first_short: date | None
    cost: float | None
    outlay: float
    machines: tuple[int, ...]
    left: int


def what_if(
    inputs: PurchaseInputs, changes: Sequence[str], seconds: float, progress: Callable[[str], None]
) -> list[WhatIf]:
    """Each change alone, after the problem as it is; of several paths the hardest of each month counts.

    Args:
        inputs: of files.
        changes: see `FORMS`.
        seconds: time at most, about, of all together.
        progress: is called with what is being done.

    Raises:
        CohabitError: a change cannot be read, or names what is in no file.
    """
    problems = {UNCHANGED: inputs.problem} | {text: changed(inputs, text) for text in changes}
    found = []
    for name, problem in problems.items():
        progress(name)
        found.append(_of(inputs, name, problem, seconds / len(problems)))
    return found


def changed(inputs: PurchaseInputs, text: str) -> OrderProblem:
    """The problem after a change.

    Raises:
        CohabitError: it cannot be read, or names what is in no file.
    """
    kind, *words = text.split(":")
    if kind == "machines" and len(words) == 3:
        return _machines(inputs, text, words)
    if kind == "grow" and len(words) in (1, 2):
        return _grown(inputs, text, words)
    if kind == "lose" and len(words) == 1:
        return _lost(inputs, text, words[0])
    if kind == "without" and len(words) == 1:
        at = _index(text, "SKU", words[0], [one.name for one in inputs.skus])
        of = inputs.problem.of
        most = np.where(np.arange(len(inputs.skus)) == at, 0, of.types.most)
        return inputs.problem._replace(of=of._replace(types=of.types._replace(most=most)))
    raise CohabitError(f"--change {text}: {FORMS}")


def _machines(inputs: PurchaseInputs, text: str, words: Sequence[str]) -> OrderProblem:
    sku = _index(text, "SKU", words[0], [one.name for one in inputs.skus])
    rack = _index(text, "rack", words[1], [one.name for one in inputs.racks])
    standing = inputs.problem.standing.copy()
    standing[sku, rack] += int(_number(text, words[2]))
    if standing[sku, rack].min() < 0:
        raise CohabitError(f"--change {text}: fewer stand there in some month: take away at most what stands")
    return inputs.problem._replace(standing=standing)


def _grown(inputs: PurchaseInputs, text: str, words: Sequence[str]) -> OrderProblem:
    more = _number(text, words[-1]) / 100.0
    if more < -1:
        raise CohabitError(f"--change {text}: demand cannot fall by more than 100 %")
    demand = inputs.problem.demand
    pods = np.ceil(demand.pods * (1.0 + more * _part(inputs, text, words)) - 1e-9).astype(np.int64)
    return inputs.problem._replace(demand=demand._replace(pods=pods))


def _part(inputs: PurchaseInputs, text: str, words: Sequence[str]) -> Floats:
    """(n,) share of each shape's pods that grows: all, those of a shape, or those of an app by today's pods."""
    found = np.zeros(len(inputs.shapes))
    if len(words) == 1:
        return found + 1.0
    if words[0] in inputs.shapes:
        found[inputs.shapes.index(words[0])] = 1.0
        return found
    if words[0] not in inputs.apps:
        known = f"shapes such as {', '.join(inputs.shapes[:9])}"
        known += f", or apps such as {', '.join(sorted(inputs.apps)[:9])}" if inputs.apps else "; give --apps for apps"
        raise CohabitError(f"--change {text}: there is no shape or app {words[0]}: {known}")
    for shape, pods in inputs.apps[words[0]].items():
        if shape in inputs.shapes:
            of_all = sum(app.get(shape, 0) for app in inputs.apps.values())
            found[inputs.shapes.index(shape)] = pods / of_all if of_all else 0.0
    return found


def _lost(inputs: PurchaseInputs, text: str, zone: str) -> OrderProblem:
    """Racks of a zone hold nothing, and take nothing; what is left need not survive another loss."""
    if all(rack.zone != zone for rack in inputs.racks):
        _index(text, "zone", zone, sorted({rack.zone for rack in inputs.racks}))
    gone = np.array([rack.zone == zone for rack in inputs.racks])
    if gone.all():
        raise CohabitError(f"--change {text}: no other zone is left")
    problem, racks = inputs.problem, inputs.problem.racks
    kept = np.flatnonzero(~gone)
    domains = sorted(set(racks.domain[kept].tolist()))
    left = racks._replace(
        name=tuple(racks.name[at] for at in kept.tolist()),
        domain=np.searchsorted(domains, racks.domain[kept]),
        domains=tuple(racks.domains[at] for at in domains),
        power_w=racks.power_w[kept],
        units=racks.units[kept],
        ports=racks.ports[kept],
    )
    demand = problem.demand._replace(protected=np.zeros_like(problem.demand.protected))
    return problem._replace(racks=left, standing=problem.standing[:, kept], demand=demand)


def _of(inputs: PurchaseInputs, name: str, problem: OrderProblem, seconds: float) -> WhatIf:
    pairs = [(int(path), period) for period, path in enumerate(hardness(problem).argmax(axis=0))]
    patterns = patterns_of(problem, pairs, FOR_PATTERNS * seconds)
    short = _short(problem, pairs, patterns, seconds)
    first = next((month for month, pods in zip(inputs.months, short, strict=True) if pods), None)
    try:
        plan = planned(problem, pairs, FOR_PLAN * seconds, patterns)
    except NoOrdersInTime:
        return WhatIf(name, max(short), first, None, 0.0, (), 0)
    machines = np.zeros(len(inputs.skus), np.int64)
    for one in plan.lines:
        machines[one.machine] += one.machines
    outlay = float(machines @ problem.terms.outlay)
    return WhatIf(name, max(short), first, plan.cost, outlay, tuple(machines.tolist()), plan.short)


def _short(problem: OrderProblem, pairs: Sequence[tuple[int, int]], patterns: Patterns, seconds: float) -> list[int]:
    """Pods short by month if nothing is ordered, after the worst loss."""
    standing, packing = with_orders(problem, []), packs_by(patterns.by_type)

    def short(pair: tuple[int, int]) -> int:
        packed = (packed_alone(standing, case, packing, FOR_CASE * seconds) for case in cases_of(problem, [pair]))
        return max(int(one.short.sum()) for one in packed)

    return [short(pair) for pair in pairs]


def _index(text: str, what: str, name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise CohabitError(f"--change {text}: there is no {what} {name}: name one of {', '.join(names[:9])}")
    return names.index(name)


def _number(text: str, word: str) -> float:
    try:
        found = float(word)
    except ValueError:
        found = float("nan")
    if not -1e6 <= found <= 1e6:
        raise CohabitError(f"--change {text}: {word!r} is no number; {FORMS}")
    return found
