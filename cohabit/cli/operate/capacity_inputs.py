"""`cohabit capacity inputs`: the files of a purchase plan, from what a lake knows."""

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.config.errors import CohabitError
from cohabit.terminal.console import console, printable
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from cohabit.capacity.purchases.purchase_start import Bearable, Floats
    from cohabit.config.settings import Settings
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
    most_slowed: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Derate cores: the share of containers that may be slowed beyond 1.25. Default: none.",
        ),
    ] = None,
) -> None:
    """Write skus.csv, racks.csv, fleet.csv, demand.csv and apps.csv for `cohabit capacity plan`.

    Pods of the newest minute are counted by what they request, or by what their app uses where they request nothing.
    With 16 days or more of metered hours (`cohabit bill meter`), demand has 100 forecast paths; with fewer, one path
    that grows by --growth alone. DaemonSets are taken off the machines.

    With --most-slowed, cores of each platform are derated by the promoted model over the newest snapshot: machines are
    filled with today's mix only until that share of latency-sensitive containers is expected beyond 1.25 times its
    baseline.

    Fill in what a lake does not know: lead times and prices of SKUs, and, where racks are limited, their kW, units and
    ports and those of SKUs. Add SKUs that you could buy. An empty price or lead time is refused with its line.

    [dim]cohabit capacity inputs --out inputs --months 6[/]
    """
    from cohabit.capacity.headroom import newest_measured
    from cohabit.capacity.purchases.purchase_start import NOTHING_KNOWN, next_months, purchase_start, write_start
    from cohabit.terminal.locations import existing_lake

    if growth and not signed_by.strip():
        raise CohabitError(f"--growth {growth:g}: name who expects it with --signed-by")
    own = settings()
    opened = existing_lake(own, lake, reads=True)
    at = newest_measured(opened, own.cluster)
    first = next_months(at.date(), months)
    paths, why = _paths(opened, own.cluster, at, first, growth)
    bearable = NOTHING_KNOWN if most_slowed is None else _bearable(own, at, most_slowed)
    start = purchase_start(opened, own.cluster, at, first, paths, bearable=bearable)
    written = write_start(out, start)
    console.print(
        f"at {at:%Y-%m-%d %H:%M} UTC: {start.pods:,} pods by request, {start.by_use:,} by what their app uses ("
        f"{start.by_few:,} of them by less than a day of minutes), "
        f"{start.everywhere:,} of DaemonSets, {start.unknown:,} unknown and left out; {start.nodes:,} nodes, "
        f"{start.unknown_nodes:,} of unknown size left out",
        soft_wrap=True,
    )
    for platform, share in start.derates.items():
        console.print(f"{printable(platform)}: {share:.0%} of cores count, by interference", soft_wrap=True)
    by = f", growth of {growth:+.0%} a year, says {printable(signed_by.strip())}" if growth else ""
    number = "1 path" if len(paths) == 1 else f"{len(paths)} paths"
    console.print(f"demand: {number} over {months} months{why}{by}", soft_wrap=True)
    console.print(f"written: {', '.join(str(path) for path in written)}", soft_wrap=True)
    console.print(
        f"next: fill in prices and lead_days in skus.csv, then run `cohabit capacity plan --order-from {at:%Y-%m-%d}`",
        soft_wrap=True,
    )


def _bearable(own: "Settings", at: datetime, most_slowed: float) -> "Bearable":
    """Cores in use that each platform bears.

    Raises:
        CohabitError: there is no model or snapshot, or more residents are slowed however empty nodes are.
    """
    from advisor.capacity.interference_derate import LEVELS, MIN_RESIDENTS, bearable_fullness
    from cohabit.capacity.purchases.purchase_start import Bearable
    from cohabit.cli.operate.newest_scorer import newest_scorer

    scorer, why = newest_scorer(own, at)
    if scorer is None or why:
        raise CohabitError(f"--most-slowed {most_slowed:g}: {why}")
    found, share = bearable_fullness(scorer, most_slowed), dict[str, float]()
    if not found:
        raise CohabitError(
            f"--most-slowed {most_slowed:g}: no platform has {MIN_RESIDENTS} latency-sensitive containers to judge by"
        )
    for one in found:
        console.print(
            f"{printable(one.platform)}: {one.nodes} nodes, {one.used:.0%} of cores in use; of {one.residents} "
            f"latency-sensitive containers {one.slowed_now:.0%} are expected beyond 1.25, on full nodes "
            f"{one.slowed[-1]:.0%}",
            soft_wrap=True,
        )
        if one.share is None:
            raise CohabitError(
                f"--most-slowed {most_slowed:g}: it is {one.slowed[0]:.0%} on {one.platform} with {LEVELS[0]:.0%} of "
                "cores in use: give a larger share"
            )
        share[one.platform] = one.share
    snapshot = scorer.snapshot
    return Bearable(share, dict(zip(snapshot.containers, snapshot.resident_use[:, 0].tolist(), strict=True)))


def _paths(opened: "Lake", cluster: str, at: datetime, months: list[date], growth: float) -> "tuple[Floats, str]":
    """(w, t) demand by path and month as a multiple of today's, and why there is one path alone."""
    from cohabit.capacity.demand_series import demand_series
    from cohabit.capacity.purchases.purchase_start import certain_growth, growth_paths

    try:
        past = demand_series(opened, cluster, 365, "qos")
        return growth_paths(past, months, growth, PATHS), ""
    except (CohabitError, ValueError) as error:
        return certain_growth(at.date(), months, growth), f" (no forecast: {printable(str(error))})"
