"""The purchase plan and the what-ifs that servers and pages show."""

from collections import Counter
from collections.abc import Sequence
from datetime import date

from advisor.capacity.capacity_reports import (
    ChangeOutcome,
    CostChange,
    PeriodShortage,
    PlannedOrder,
    PublishedPurchase,
    PublishedWhatIf,
)
from cohabit.capacity.purchases.purchase_inputs import PurchaseInputs
from cohabit.capacity.purchases.purchase_plan import PurchaseReport
from cohabit.capacity.purchases.what_if import WhatIf


def published_purchase(
    inputs: PurchaseInputs, report: PurchaseReport, *, cluster: str, unit: str, risk: float, now_us: int
) -> PublishedPurchase:
    """The report.

    Args:
        inputs: what was planned from.
        report: the plan.
        cluster: whose.
        unit: of prices; empty where none was given.
        risk: that was asked for.
        now_us: when it was made.
    """
    short, incurable = Counter[date](), Counter[date]()
    for one in report.shortages:
        short[one.month] += one.pods
        incurable[one.month] += one.pods if one.before_delivery and one.proved else 0
    pods = inputs.problem.demand.pods.sum(axis=2).max(axis=0).tolist()
    others = [*([report.runner_up] if report.runner_up else []), *report.sensitivity]
    return PublishedPurchase(
        cluster=cluster,
        created_us=now_us,
        unit=unit,
        risk=risk,
        risk_stated=report.risk,
        orders=tuple(
            PlannedOrder(
                sku=one.sku,
                count=one.machines,
                rack=f"{one.rack} ({one.zone})",
                order_by=str(one.order_by),
                deliver_by=str(one.deliver_by),
                cost=round(one.price * one.machines, 2),
            )
            for one in report.orders
        ),
        cost=round(report.cost, 2),
        outlay=round(report.outlay, 2),
        bound=round(report.bound, 2),
        packed=report.packed,
        unplaced=max(short.values(), default=0),
        periods=tuple(
            PeriodShortage(starts=str(month), pods=count, short=short[month], incurable=incurable[month])
            for month, count in zip(inputs.months, pods, strict=True)
        ),
        binding=tuple(report.binding),
        changes=tuple(CostChange(change=one.name, cost=round(one.cost, 2), short=one.short) for one in others),
    )


def published_what_if(
    inputs: PurchaseInputs, found: Sequence[WhatIf], *, cluster: str, unit: str, now_us: int
) -> PublishedWhatIf:
    """The changes.

    Args:
        inputs: what they change.
        found: one each.
        cluster: whose.
        unit: of prices; empty where none was given.
        now_us: when they were looked at.
    """
    return PublishedWhatIf(
        cluster=cluster,
        created_us=now_us,
        unit=unit,
        from_month=str(inputs.months[0]),
        to_month=str(inputs.months[-1]),
        paths=len(inputs.paths),
        changes=tuple(
            ChangeOutcome(
                change=one.change,
                short=one.short,
                first_short=str(one.first_short) if one.first_short else None,
                cost=None if one.cost is None else round(one.cost, 2),
                outlay=round(one.outlay, 2),
                machines={sku.name: n for sku, n in zip(inputs.skus, one.machines, strict=False) if n},
                left=one.left,
            )
            for one in found
        ),
    )
