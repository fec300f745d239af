"""The commands of capacity planners: `capacity headroom`."""

from pathlib import Path
from typing import Annotated

import typer

from cohabit.terminal.options import LakeOption, reports_errors, settings

capacity_app = typer.Typer(
    no_args_is_help=True,
    help="What nodes can offer besides what runs on them, and what apps should request.",
    rich_markup_mode="rich",
)


@capacity_app.command()
@reports_errors
def headroom(
    lake: LakeOption = None,
    horizon: Annotated[
        list[str] | None,
        typer.Option(metavar="5m|15m|1h|6h|24h", help="How far ahead; repeatable. Default: 5m, 1h and 24h."),
    ] = None,
    risk: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Share of forecasts that residents may exceed.")
    ] = 0.05,
    days: Annotated[int, typer.Option(min=2, max=31, help="Days of the past that forecasts are learnt from.")] = 7,
    reserve: Annotated[float, typer.Option(min=0, max=0.9, help="Share of each node that is never offered.")] = 0.05,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all offers here.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish for `cohabit serve` and `refresh`, next to the snapshots.")
    ] = False,
    export: Annotated[
        str | None,
        typer.Option(
            metavar="koordinator|extended|annotations", help="Write kubectl patches to --to; nothing is applied."
        ),
    ] = None,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="File of patches, one JSON object a line.")] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write sums by pool for a Prometheus textfile collector."),
    ] = None,
    model: Annotated[bool, typer.Option(help="Limit offers by the predicted slowdown of residents.")] = True,
) -> None:
    """Show how much CPU and memory of each node best-effort containers may use, for how long and at which risk.

    Offered is what is left by the forecast peak of residents, the requests of those that came less than a day ago, the
    requests of best-effort containers and a reserve. A model (`cohabit model train`) and a snapshot (`cohabit refresh`)
    limit it further: no resident's bound may pass 1.25 times its baseline. A node of which too little is known offers
    nothing, with the reason. The horizon decides: what is safe for an hour is not for a day.

    It needs two days of `cohabit features`, and three for a horizon of a day. It changes nothing in the cluster.
    docs/headroom.md has an example.
    """
    from cohabit.cli.operate.headroom_report import Asked, run_headroom

    own = settings()
    folder = own.snapshots if publish else None
    horizons = horizon or ["5m", "1h", "24h"]
    run_headroom(own, Asked(lake, horizons, risk, days, reserve, out, folder, export, to, metrics, model))
