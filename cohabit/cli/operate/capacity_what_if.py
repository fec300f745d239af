"""`cohabit capacity what-if`: what runs short, and what a plan costs, after a change."""

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
    from cohabit.capacity.purchases.purchase_inputs import PurchaseInputs
    from cohabit.capacity.purchases.what_if import WhatIf


@reports_blindness
def what_if_command(
    *,
    skus: Annotated[Path, typer.Option(metavar="FILE", help="SKUs that are or were sold (CSV).")],
    racks: Annotated[Path, typer.Option(metavar="FILE", help="Racks with kW, units and ports (CSV).")],
    demand: Annotated[Path, typer.Option(metavar="FILE", help="Pods at once by month and shape (CSV).")],
    change: Annotated[
        list[str],
        typer.Option(metavar="CHANGE", help="machines:SKU:RACK:+4, grow:30, grow:APP:30, lose:ZONE or without:SKU."),
    ],
    fleet: Annotated[Path | None, typer.Option(metavar="FILE", help="Machines of today (CSV).")] = None,
    in_flight: Annotated[Path | None, typer.Option(metavar="FILE", help="Orders on their way (CSV).")] = None,
    retire: Annotated[Path | None, typer.Option(metavar="FILE", help="Machines that go (CSV).")] = None,
    events: Annotated[Path | None, typer.Option(metavar="FILE", help="Dated uplifts of demand (CSV).")] = None,
    seconds: Annotated[float, typer.Option(min=1.0, max=86_400.0, help="Time for the search, about.")] = 60.0,
    apps: Annotated[Path | None, typer.Option(metavar="FILE", help="Pods by shape and app (CSV).")] = None,
    survive: Annotated[
        str, typer.Option(metavar="zone|room|rack|none", help="What may be lost with prod pods still packing.")
    ] = "zone",
    order_from: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="First day of orders. Default: the first of demand."),
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish for the page of `cohabit serve`, next to the snapshots.")
    ] = False,
    currency: Annotated[str, typer.Option(help="Unit of prices, for the page.")] = "",
) -> None:
    """Compare changes: machines more or less, demand that grows, a lost zone, a SKU that is no longer sold.

    For each change alone, and for none: pods short in the worst month if nothing is ordered, the first month of that,
    and the plan that would cure it. Of several demand paths the hardest of each month counts. Files are those of
    `cohabit capacity plan`. Nothing is changed or ordered.

    [dim]cohabit capacity what-if --skus skus.csv --racks racks.csv --fleet fleet.csv --demand demand.csv --change
    grow:30 --change lose:a[/]

    Exit codes: 0, no change leaves pods short without orders; 1, one does; 3, a file or change was refused.
    docs/purchases.md has the files and an example.
    """
    from cohabit.capacity.purchases.purchase_inputs import DOMAINS, PurchaseFiles, purchase_inputs
    from cohabit.cli.operate.capacity_plan import refuse_without_solver

    if survive not in DOMAINS:
        raise CohabitError(f"--survive {survive}: choose from {', '.join(DOMAINS)}")
    refuse_without_solver()
    from advisor.purchase.orders.order_problem import Limits
    from cohabit.capacity.purchases.what_if import what_if

    files = PurchaseFiles(skus, racks, demand, fleet, in_flight, retire, events, apps)
    inputs = purchase_inputs(files, survive, Limits(), order_from.date() if order_from else None)
    found = what_if(inputs, change, seconds, lambda what: complaints.print(what, markup=False, soft_wrap=True))

    _show(inputs, found)
    if publish:
        _publish(inputs, found, currency)
    raise typer.Exit(FOUND if any(one.short for one in found) else 0)


def _show(inputs: "PurchaseInputs", found: "Sequence[WhatIf]") -> None:
    def row(one: "WhatIf") -> tuple[str, ...]:
        first = f"{one.first_short:%Y-%m}" if one.first_short else "-"
        if one.cost is None:
            return (printable(one.change), f"{one.short:,}", first, "not found in time", "", "", "")
        pairs = zip(inputs.skus, one.machines, strict=True)
        machines = " + ".join(f"{count:,} {sku.name}" for sku, count in pairs if count) or "none"
        plan = (f"{one.cost:,.2f}", f"{one.outlay:,.2f}", printable(machines), f"{one.left:,}")
        return (printable(one.change), f"{one.short:,}", first, *plan)

    columns = ("change", "short without orders", "from", "amortised cost", "outlay", "machines", "still short")
    months = f"{inputs.months[0]:%Y-%m} to {inputs.months[-1]:%Y-%m}"
    paths = "1 path" if len(inputs.paths) == 1 else f"{len(inputs.paths)} paths"
    console.print(f"looked at {len(inputs.months)} months, {months}, and {paths} of demand")
    show_amounts("what if", columns, [row(one) for one in found])


def _publish(inputs: "PurchaseInputs", found: "Sequence[WhatIf]", currency: str) -> None:
    from advisor.capacity.capacity_reports import write_capacity_report
    from cohabit.capacity.purchases.published_purchase import published_what_if

    own = settings()
    report = published_what_if(inputs, found, cluster=own.cluster, unit=currency, now_us=time_ns() // 1000)
    console.print(f"published: {write_capacity_report(own.snapshots, report)}", soft_wrap=True)
