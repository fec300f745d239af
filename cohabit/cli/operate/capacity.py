"""`cohabit capacity`: what nodes can offer, what apps should request and will demand, and what to order."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.cli.operate.capacity_inputs import inputs_command
from cohabit.cli.operate.capacity_plan import plan_command
from cohabit.cli.operate.capacity_what_if import what_if_command
from cohabit.config.errors import CohabitError
from cohabit.terminal.console import console
from cohabit.terminal.options import BLIND, LakeOption, reports_blindness, reports_errors, settings

if TYPE_CHECKING:
    from cohabit.capacity.rightsize_apps import Sized

capacity_app = typer.Typer(
    no_args_is_help=True,
    help="What nodes offer, what apps should request, when pools are full, what to order. The cluster is not changed.",
    rich_markup_mode="rich",
)
capacity_app.command("inputs")(inputs_command)
capacity_app.command("plan")(plan_command)
capacity_app.command("what-if")(what_if_command)
FORMS = {"vpa": "VerticalPodAutoscalers", "resize": "resizes of pods"}


@capacity_app.command()
@reports_errors
def headroom(
    *,
    lake: LakeOption = None,
    horizon: Annotated[
        list[str] | None,
        typer.Option(metavar="5m|15m|1h|6h|24h", help="How far ahead; repeatable. Default: 5m, 1h and 24h."),
    ] = None,
    risk: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Share of forecasts that residents may exceed.")
    ] = 0.05,
    days: Annotated[int, typer.Option(min=3, max=31, help="Days of the past that forecasts are trained on.")] = 7,
    reserve: Annotated[float, typer.Option(min=0, max=0.9, help="Share of each node that is never offered.")] = 0.05,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all offers here.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish for `cohabit serve` and `refresh`, next to the snapshots.")
    ] = False,
    export: Annotated[
        tuple[str, Path] | None,
        typer.Option(
            metavar="koordinator|extended|annotations FILE",
            help="Also write kubectl patches, a line each, for review.",
        ),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write sums by pool for a Prometheus textfile collector."),
    ] = None,
    send: Annotated[
        bool, typer.Option("--send", help="Send each offer to Kafka, topic headroom [COHABIT_KAFKA__BOOTSTRAP].")
    ] = False,
    model: Annotated[bool, typer.Option(help="Limit offers by the predicted slowdown of residents.")] = True,
) -> None:
    """Show how much CPU and memory of each node best-effort containers may use, for how long and at which risk.

    Offered is what is left by the forecast peak of residents, the claims of those that came less than a day ago, the
    requests of best-effort containers and a reserve. A model (`cohabit model train`) and a snapshot (`cohabit refresh`)
    limit CPU further: no latency-sensitive resident's bound may rise above 1.25 times its baseline; residents already
    above do not count. A node of which too little is known offers nothing, with the reason. The horizon decides: what
    is safe for an hour is not for a day.

    Nodes need a day of history, and residents older than a day two days and the horizon: three days for 24h. It
    changes nothing in the cluster.
    docs/headroom.md has an example.
    """
    from cohabit.cli.operate.headroom_report import Asked, run_headroom

    own = settings()
    folder = own.snapshots if publish else None
    horizons = horizon or ["5m", "1h", "24h"]
    run_headroom(own, Asked(lake, horizons, risk, days, reserve, out, folder, export, metrics, send, model))


@capacity_app.command("rightsize")
@reports_blindness
def rightsize_command(
    *,
    lake: LakeOption = None,
    days: Annotated[float, typer.Option(min=0.01, max=366, help="Days up to the newest label.")] = 8.0,
    risk: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Share of container-minutes whose demand may exceed the request.")
    ] = 0.05,
    app: Annotated[str | None, typer.Option(help="Only this app.")] = None,
    memory_margin: Annotated[
        float, typer.Option(min=0.0, max=10.0, help="Added to the largest memory use, as a share of it.")
    ] = 0.15,
    cpu_floor: Annotated[float, typer.Option(min=0.0, max=1000.0, help="Smallest CPU request, cores.")] = 0.025,
    memory_floor: Annotated[float, typer.Option(min=0.0, max=1e6, help="Smallest memory request, MiB.")] = 250.0,
    price_book: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Price book (TOML); adds the saving of a month.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write all recommendations here.")
    ] = None,
    export: Annotated[
        tuple[str, Path] | None,
        typer.Option(metavar="vpa|resize FILE", help="Also write VPA objects or in-place resizes (YAML) for review."),
    ] = None,
) -> None:
    """Recommend a CPU and memory request for each app, with what it frees, for review.

    CPU is the quantile of demand at [bold]undisturbed speed[/]: what an app would use without neighbours and without
    its own limit. Minutes that a CPU limit throttled, or whose CPU queue never emptied, are raised, as use was hidden;
    minutes in which neighbours added CPU time to each request are lowered. Memory is the largest use plus a margin.
    A floor that binds is named. A recommendation may be a raise.

    [dim]cohabit capacity rightsize --risk 0.02 --price-book book.toml --export vpa recommendations.yaml[/]

    It begins with how much was looked at. An app needs 20 minutes beyond its quantile: 400 minutes at a risk of 5 %.
    Exit codes: 0, at least one app has a recommendation; 3, none has one, or the command failed. Run it after
    `cohabit features`. Nothing is changed in the cluster. docs/rightsizing.md explains the method.
    """
    from advisor.capacity.rightsize import MIB, Rule
    from cohabit.billing.price_book_file import read_price_book
    from cohabit.capacity.rightsize_apps import rightsized
    from cohabit.capacity.rightsize_export import as_json
    from cohabit.capacity.tables import show_sized
    from cohabit.cli.admin.token import local_name
    from cohabit.terminal.locations import existing_lake

    if export is not None and export[0] not in FORMS:
        raise CohabitError(f"--export {export[0]} {export[1]}: give vpa or resize, then a file")
    book = None if price_book is None else read_price_book(price_book, local_name())
    rule = Rule(risk, memory_margin, cpu_floor, memory_floor * MIB)
    opened = existing_lake(settings(), lake, reads=True)
    with console.status("reading node state and labels"):
        sized = rightsized(opened, days, rule, app)
    show_sized(sized, rule, book)
    if out is not None:
        out.write_bytes(as_json(sized, book))
        console.print(f"written: {out}", soft_wrap=True)
    if export is not None:
        _export(sized, *export)
    raise typer.Exit(0 if any(not one.reason for one in sized.found) else BLIND)


@capacity_app.command("forecast")
@reports_blindness
def forecast_command(
    *,
    lake: LakeOption = None,
    horizon: Annotated[
        str, typer.Option(metavar="48h|28d|12w", help="How far ahead: the time until what you order is there.")
    ] = "28d",
    days: Annotated[int, typer.Option(min=16, max=1100, help="Days of the past to look at.")] = 112,
    by: Annotated[
        str, typer.Option(metavar="class|app|team", help="What demand is split by in each pool; class is LS, BE, ...")
    ] = "class",
    growth: Annotated[
        float, typer.Option(min=-0.99, max=100, help="Yearly growth beyond what the past shows; 0.2 is a fifth more.")
    ] = 0.0,
    signed_by: Annotated[str, typer.Option(metavar="NAME", help="Who expects --growth.")] = "",
    events: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Dated events (CSV): at, until, class, pool, factor, who, why."),
    ] = None,
    pending: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Requests of pods that waited (CSV): ts, class, pool, resource, amount."),
    ] = None,
    days_ahead: Annotated[int, typer.Option(min=7, max=1100, help="Days to look ahead for full pools.")] = 365,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write everything here.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish for the page of `cohabit serve`, next to the snapshots.")
    ] = False,
) -> None:
    """Forecast the largest demand until a horizon, and the days until each pool is full.

    Demand is what metered containers request (with pending pods) and use, by the hour. [bold]P95[/] is exceeded by the
    largest hour of one window in twenty; [bold]by the past[/] is P95 without growth and events, which are yours: they
    are signed, and multiply what the past gives.

    [dim]cohabit capacity forecast --horizon 12w --growth 0.2 --signed-by eve --events events.csv[/]

    It begins with how much was looked at. Run it after `cohabit bill meter`; 16 days are needed, and 6 weeks for days
    to full. Exit codes: 0, at least one series has a forecast; 3, none has one, or the command failed. Nothing is
    changed in the cluster. docs/demand.md explains the method.
    """
    from cohabit.cli.operate.forecast_report import Options, run_forecast

    asked = Options(lake, horizon, days, by, growth, signed_by, events, pending, days_ahead, out, publish)
    raise typer.Exit(0 if run_forecast(settings(), asked) else BLIND)


def _export(sized: "Sized", form: str, file: Path) -> None:
    if sized.several:
        raise CohabitError(
            "--export: the lake holds several clusters, whose workloads may have the same names: name a lake of one"
        )
    from cohabit.capacity.rightsize_export import as_resizes, as_vpa

    text, count = as_vpa(sized) if form == "vpa" else as_resizes(sized)
    file.write_text(text)
    needs = "" if count else ": placements name no workload" if form == "vpa" else ": placements name no pod"
    console.print(
        f"written: {file}, {count:,} {FORMS[form]} of {len(sized.pods):,} running containers{needs}; review them, "
        "nothing was applied",
        soft_wrap=True,
    )
