"""`cohabit capacity plan`: machines to order, by SKU, rack and date, with proof and reasons."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.config.errors import CohabitError
from cohabit.terminal.console import complaints, console, printable, show_amounts
from cohabit.terminal.options import FOUND, reports_blindness, settings

if TYPE_CHECKING:
    from advisor.purchase.orders.plan_reasons import Alternative
    from cohabit.capacity.purchases.purchase_inputs import PurchaseInputs
    from cohabit.capacity.purchases.purchase_plan import PurchaseReport, Shortage

MAX_BINDING = 8
"""Limits that are shown; JSON has all."""


@reports_blindness
def plan_command(
    *,
    skus: Annotated[Path, typer.Option(metavar="FILE", help="SKUs that are or were sold (CSV).")],
    racks: Annotated[Path, typer.Option(metavar="FILE", help="Racks with kW, units and ports (CSV).")],
    demand: Annotated[Path, typer.Option(metavar="FILE", help="Pods at once by month and shape (CSV).")],
    fleet: Annotated[Path | None, typer.Option(metavar="FILE", help="Machines of today (CSV).")] = None,
    in_flight: Annotated[Path | None, typer.Option(metavar="FILE", help="Orders on their way (CSV).")] = None,
    retire: Annotated[Path | None, typer.Option(metavar="FILE", help="Machines that go (CSV).")] = None,
    events: Annotated[Path | None, typer.Option(metavar="FILE", help="Dated uplifts of demand (CSV).")] = None,
    risk: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Share of demand paths that may be short, where there are several.")
    ] = 0.05,
    seconds: Annotated[float, typer.Option(min=1.0, max=86_400.0, help="Time for the search, about.")] = 60.0,
    budget: Annotated[float | None, typer.Option(min=0.0, help="Most that all orders may cost, by price.")] = None,
    most_kinds: Annotated[int | None, typer.Option(min=0, help="SKUs that are ordered at most.")] = None,
    survive: Annotated[
        str, typer.Option(metavar="zone|room|rack|none", help="What may be lost with prod pods still packing.")
    ] = "zone",
    order_from: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="First day of orders. Default: the first of demand."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the whole report here.")
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish for the page of `cohabit serve`, next to the snapshots.")
    ] = False,
    currency: Annotated[str, typer.Option(help="Unit of prices, for the page.")] = "",
) -> None:
    """Plan which machines to order, for which rack and by which day, so that demand packs in every month.

    Every pod of every month is placed on a machine, device by device, also after the loss of any one zone for prod
    pods; the plan is checked before it is shown. The outlay is paid once per machine; amortised cost is price over
    life, for each month that a machine serves. The bound says what no orders can cost less than. Pods without a place
    are listed. Nothing is ordered.

    [dim]cohabit capacity plan --skus skus.csv --racks racks.csv --fleet fleet.csv --demand demand.csv[/]

    Exit codes: 0, all demand packs; 1, some pods are short; 3, there is no plan, or a file was refused.
    docs/purchases.md has the files and an example.
    """
    from cohabit.capacity.purchases.purchase_inputs import DOMAINS, PurchaseFiles, purchase_inputs

    if survive not in DOMAINS:
        raise CohabitError(f"--survive {survive}: choose from {', '.join(DOMAINS)}")
    refuse_without_solver()
    from advisor.purchase.orders.order_problem import Limits
    from cohabit.capacity.purchases.purchase_plan import purchase_report, report_json

    files = PurchaseFiles(skus, racks, demand, fleet, in_flight, retire, events)
    limits = Limits(*(float("inf") if one is None else float(one) for one in (budget, most_kinds)))
    inputs = purchase_inputs(files, survive, limits, order_from.date() if order_from else None)
    report = purchase_report(inputs, risk, seconds, lambda what: complaints.print(what, markup=False, soft_wrap=True))
    _show(inputs, report, risk)
    if out is not None:
        out.write_bytes(report_json(inputs, report))
        console.print(f"written: {out}", soft_wrap=True)
    if publish:
        _publish(inputs, report, currency, risk)
    raise typer.Exit(FOUND if report.shortages else 0)


def _publish(inputs: "PurchaseInputs", report: "PurchaseReport", currency: str, risk: float) -> None:
    from advisor.capacity.capacity_reports import write_capacity_report
    from cohabit.capacity.purchases.published_purchase import published_purchase

    own = settings()
    found = published_purchase(inputs, report, cluster=own.cluster, unit=currency, risk=risk, now_us=time_ns() // 1000)
    console.print(f"published: {write_capacity_report(own.snapshots, found)}", soft_wrap=True)


def refuse_without_solver() -> None:
    """Before files are read.

    Raises:
        CohabitError: the solver is not installed.
    """
    from importlib.util import find_spec

    if find_spec("highspy") is None:
        raise CohabitError("the solver highspy is not installed here: install the extra optimise")


def _show(inputs: "PurchaseInputs", report: "PurchaseReport", risk: float) -> None:
    if report.orders:
        rows = [
            (f"{one.order_by}", f"{one.deliver_by}", one.sku, f"{one.machines:,}", f"{one.rack} ({one.zone})",
             f"{one.price * one.machines:,.2f}")
            for one in report.orders
        ]  # fmt: skip
        show_amounts("orders", ("order by", "deliver by", "SKU", "machines", "rack", "outlay"), rows)
    else:
        console.print("nothing is to be ordered")
    bound = f"bound {report.bound:,.2f}, gap {report.gap:.1%}" if report.bound else "no bound above 0 was found"
    least = "least possible" if report.gap == 0 else bound
    worst = max((sum(one.pods for one in report.shortages if one.month == month) for month in inputs.months), default=0)
    months = "1 month" if len(inputs.months) == 1 else f"{len(inputs.months)} months"
    where = "all pods" if report.risk is None else "all pods of the paths that it serves"
    console.print(
        f"amortised cost {report.cost:,.2f} over {months}, {least}; outlay {report.outlay:,.2f}; packed: "
        f"{f'all but {worst:,} pods of the worst month' if worst else where}, every place was checked "
        f"({report.fingerprint})",
        soft_wrap=True,
    )
    _show_risk(report, risk)
    for one in report.shortages:
        lost = f" after the loss of {one.lost}" if one.lost else ""
        console.print(
            printable(f"short in {one.month:%Y-%m}{lost}: {one.pods:,} × {one.shape}; {_cure(one)}"), soft_wrap=True
        )
    for line in report.binding[:MAX_BINDING]:
        console.print(printable(line), soft_wrap=True)
    _show_alternatives(inputs, report)


def _cure(one: "Shortage") -> str:
    if one.proved:
        why = "none is delivered earlier" if one.before_delivery else "racks, terms, budget or lots allow no more"
        return f"no order can cure it: {why}"
    if one.before_delivery:
        least = f"at least {one.least:,} pods have none" if one.least else "by sums of sizes all would fit"
        return f"none is delivered earlier, and no place was found; {least}"
    return "no order was found that cures it: give more --seconds"


def _show_risk(report: "PurchaseReport", risk: float) -> None:
    if report.risk is None:
        return
    console.print(
        f"risk: {report.risk:.1%} of paths that were not seen are short (asked: {risk:.1%}); in the worst {risk:.1%} "
        f"of paths {report.worst_short:.1%} of pods are short on average",
        soft_wrap=True,
    )
    if report.risk > risk:
        console.print("the risk is above the one asked for: give more paths, or see what is short", soft_wrap=True)
    bands = ", ".join(f"{name} {cost:,.2f}" for name, cost in report.cost_by_band.items())
    console.print(f"cost by share of paths served: {bands}", soft_wrap=True)


def _show_alternatives(inputs: "PurchaseInputs", report: "PurchaseReport") -> None:
    others = [*([report.runner_up] if report.runner_up else []), *report.sensitivity]
    rows = [(one.name, f"{one.cost:,.2f}", f"{one.cost - report.cost:+,.2f}", _machines(inputs, one), f"{one.short:,}")
            for one in others]  # fmt: skip
    if rows:
        columns: Sequence[str] = ("other plan", "cost", "difference", "machines", "pods short")
        title = "runner-up and sensitivity" if report.runner_up else "sensitivity"
        show_amounts(title, columns, rows)
    if report.undecided:
        number = "1 other plan was" if report.undecided == 1 else f"{report.undecided} other plans were"
        console.print(f"{number} not decided in time: give more --seconds", soft_wrap=True)


def _machines(inputs: "PurchaseInputs", one: "Alternative") -> str:
    pairs = zip(inputs.skus, one.machines, strict=True)
    return " + ".join(f"{count:,} {sku.name}" for sku, count in pairs if count) or "none"
