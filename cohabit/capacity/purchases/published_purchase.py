"""The purchase plan that servers and pages show."""

from collections import Counter
from datetime import date

from advisor.capacity.capacity_reports import CostChange, PeriodShortage, PlannedOrder, PublishedPurchase
from cohabit.capacity.purchases.purchase_inputs import PurchaseInputs
from cohabit.capacity.purchases.purchase_plan import PurchaseReport


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
                cost=one.price * one.machines,
            )
            for one in report.orders
        ),
        cost=report.cost,
        outlay=report.outlay,
        bound=report.bound,
        packed=report.packed,
        unplaced=max(short.values(), default=0),
        periods=tuple(
            PeriodShortage(starts=str(month), pods=count, short=short[month], incurable=incurable[month])
            for month, count in zip(inputs.months, pods, strict=True)
        ),
        binding=tuple(report.binding),
        changes=tuple(CostChange(change=one.name, cost=one.cost, short=one.short) for one in others),
    )
