"""`cohabit capacity inputs`: the files of a purchase plan, from what a lake knows."""

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.config.errors import CohabitError
from cohabit.terminal.console import console, printable
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from cohabit.capacity.purchases.purchase_start import Floats
    from ingest.lake.tables import Lake

PATHS = 100
"""Paths of demand, where the past is long enough to forecast them."""


@reports_errors
def inputs_command(
    *,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files go; none is overwritten.")],
    lake: LakeOption = None,
    months: Annotated[int, typer.Option(min=1, max=12, help="Months to plan, from the next one on.")] = 6,
    growth: Annotated[
        float, typer.Option(min=-0.99, max=100, help="Yearly growth beyond what the past shows; 0.2 is a fifth more.")
    ] = 0.0,
    signed_by: Annotated[str, typer.Option(metavar="NAME", help="Who expects --growth.")] = "",
) -> None:
    """Write skus.csv, racks.csv, fleet.csv and demand.csv for `cohabit capacity plan`.

    Pods of the newest minute are counted by what they request, or by what their app uses where they request nothing.
    With 16 days or more of metered hours (`cohabit bill meter`), demand has 100 forecast paths; with fewer, one path
    that grows by --growth alone. DaemonSets are taken off the machines.

    Fill in what a lake does not know: lead times and prices of SKUs, and watts, units and ports, which are 0 for no
    limit. Add SKUs that you could buy. An empty cell is refused with its line and column.

    [dim]cohabit capacity inputs --out inputs --months 6[/]
    """
    from cohabit.capacity.headroom import newest_measured
    from cohabit.capacity.purchases.purchase_start import next_months, purchase_start, write_start
    from cohabit.terminal.locations import existing_lake

    if growth and not signed_by.strip():
        raise CohabitError(f"--growth {growth:g}: name who expects it with --signed-by")
    own = settings()
    opened = existing_lake(own, lake, reads=True)
    at = newest_measured(opened, own.cluster)
    first = next_months(at.date(), months)
    paths, why = _paths(opened, own.cluster, at, first, growth)
    start = purchase_start(opened, own.cluster, at, first, paths)
    written = write_start(out, start)
    console.print(
        f"at {at:%Y-%m-%d %H:%M} UTC: {start.pods:,} pods by request, {start.by_use:,} by what their app uses, "
        f"{start.everywhere:,} of DaemonSets, {start.unknown:,} unknown and left out; {start.nodes:,} nodes, "
        f"{start.unknown_nodes:,} of unknown size left out",
        soft_wrap=True,
    )
    by = f", growth of {growth:+.0%} a year, says {printable(signed_by.strip())}" if growth else ""
    number = "1 path" if len(paths) == 1 else f"{len(paths)} paths"
    console.print(f"demand: {number} over {months} months{why}{by}", soft_wrap=True)
    console.print(f"written: {', '.join(str(path) for path in written)}", soft_wrap=True)
    console.print("next: fill in empty cells of skus.csv, then run `cohabit capacity plan`", soft_wrap=True)


def _paths(opened: "Lake", cluster: str, at: datetime, months: list[date], growth: float) -> "tuple[Floats, str]":
    """(w, t) demand by path and month as a multiple of today's, and why there is one path alone."""
    from cohabit.capacity.demand_series import demand_series
    from cohabit.capacity.purchases.purchase_start import certain_growth, growth_paths

    try:
        past = demand_series(opened, cluster, 365, "qos")
        return growth_paths(past, months, growth, PATHS), ""
    except (CohabitError, ValueError) as error:
        return certain_growth(at.date(), months, growth), f" (no forecast: {printable(str(error))})"
