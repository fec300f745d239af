"""`cohabit bill`: what is known before a month is billed: meter, judge, publish, import; others in own modules."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.cli.bill.budget import budget_app
from cohabit.cli.bill.close import ledger_app
from cohabit.cli.bill.quote import quote_app
from cohabit.terminal.console import complaints, console
from cohabit.terminal.options import LakeOption, flowing, reports_errors, settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

bill_app = typer.Typer(
    no_args_is_help=True,
    help=flowing("""Meter what containers reserve and use, price it, and close months that add up.

    Once: [bold]propose-book[/] and, by another person, [bold]approve-book[/]. Hourly: [bold]meter[/]. Daily:
    [bold]judge[/]. Each month: [bold]draft[/], [bold]close[/]. Any time: [bold]explain[/] a line, [bold]quote[/] a
    container.
    """),
    rich_markup_mode="rich",
)
bill_app.add_typer(ledger_app)
bill_app.add_typer(budget_app)
bill_app.add_typer(quote_app)

DAY_FORMATS = ["%Y-%m-%d"]
HOUR_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%SZ"]


@bill_app.command("meter")
@reports_errors
def meter_command(
    start: Annotated[
        datetime | None,
        typer.Option("--from", formats=HOUR_FORMATS, help="First hour, UTC; default: the first one not metered."),
    ] = None,
    end: Annotated[
        datetime | None,
        typer.Option("--to", formats=HOUR_FORMATS, help="End, exclusive; hours that have not ended are skipped."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Meter nothing and exit 1 while an hour before --to has not ended.")
    ] = False,
    lake: LakeOption = None,
    spark: Annotated[bool, typer.Option("--spark", help="Use Spark; the tables are bit-identical.")] = False,
) -> None:
    """Meter requests and use of each container, and capacity and cost of each pool, by the hour.

    Writes tables metered and pool_hours, without prices. Metering an hour again replaces its rows; use --from to
    include late usage and bills. A container without usage is metered by its request, one without a request by its
    use; minutes with neither are reported as gaps. The cost of a pool is cost_micros_per_hour of its nodes, or an
    imported bill.
    """
    from cohabit.billing.metering import hours_to_meter, meter_hours, refuse_part
    from cohabit.terminal.locations import existing_lake

    own = settings()
    opened = existing_lake(own, lake)
    hours = hours_to_meter(opened, start, end, datetime.now(UTC))
    if whole:
        refuse_part(hours, end)
    if not hours.count:
        console.print("nothing to meter: every hour that is over was; --from meters hours again")
        return
    first, last = (datetime.fromtimestamp(us / 1e6, UTC) for us in (hours.start_us, hours.end_us))
    complaints.print(f"metering {first:%Y-%m-%dT%H} to {last:%Y-%m-%dT%H} UTC; --from and --to name others")
    rows = meter_hours(opened, hours, own.spark if spark or own.spark.master is not None else None)
    console.print(f"{hours.count:,} hours: {rows['metered']:,} rows metered, {rows['pool_hours']:,} hours of pools")


@bill_app.command("judge")
@reports_errors
def judge_command(
    start: Annotated[
        datetime | None,
        typer.Option("--from", formats=DAY_FORMATS, help="First day, UTC; default: the first one not judged."),
    ] = None,
    end: Annotated[
        datetime | None,
        typer.Option("--to", formats=DAY_FORMATS, help="End, exclusive; days that have not ended are skipped."),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Find slowed containers and their antagonists for each hour of past days, as input of rebates.

    Writes table slowed, without prices, from the labels of `cohabit features`, with the rules of `cohabit victims`: a
    second signal must confirm, a container throttled by its own limit is not a victim, and neighbours must explain
    nearly all of the slowdown. Judging a day again replaces its rows.
    """
    from cohabit.billing.slowed_days import days_to_judge, judge_days
    from cohabit.terminal.console import bar
    from cohabit.terminal.locations import existing_lake

    opened = existing_lake(settings(), lake)
    days = days_to_judge(opened, start, end, datetime.now(UTC))
    if not days:
        console.print(
            "nothing to judge: every day that labels cover whole was; `cohabit features` labels later ones, --from and "
            "--to judge days again, and those that labels cover in part",
            soft_wrap=True,
        )
        return
    missing = list[str]()
    with bar("judging") as shown:

        def progress(day: datetime, rows: int | None) -> None:
            shown.advance(f"{day:%Y-%m-%d} judged", days.index(day) + 1, len(days))
            if rows is None:
                missing.append(f"{day:%Y-%m-%d}")

        rows = judge_days(opened, days, progress)
    console.print(f"{len(days) - len(missing):,} days: {rows:,} container-hours were slowed down by neighbours")
    if missing:
        console.print(f"without labels, not judged: {', '.join(missing)}; see `cohabit features --help`")


@bill_app.command("publish")
@reports_errors
def publish_command(
    month: Annotated[str, typer.Option("--month", metavar="YYYY-MM", help="Month; it must not have begun.")],
    lake: LakeOption = None,
) -> None:
    """Publish the scarcity of each hour of a future month, once and immutably, and show it.

    The forecast uses the utilisation of each pool at the same hours of the last four weeks. If section scarcity of the
    price book has a gamma above 0, base charges rise in full hours and fall in empty ones, as published; the sum of
    each day is unchanged. A month without published scarcity is billed without it.
    """
    from cohabit.billing.quotes.publish_scarcity import by_hour, publish
    from cohabit.cli.operate.victims import bars
    from cohabit.terminal.console import show_table
    from cohabit.terminal.locations import existing_lake

    own = settings()
    new, rows = publish(existing_lake(own, lake), own.cluster, month, datetime.now(UTC))
    published = [(pool, of, bars(hours), f"{max(hours):.3f}") for (pool, of), hours in by_hour(rows).items()]
    show_table(f"scarcity by hour of the day, {month}, UTC", ("pool", "resource", "0 to 23", "most"), published)
    console.print(f"{month} was published{'' if new else ' before, and is never changed'}")


def _amounts(costs: "Mapping[str, Decimal]") -> str:
    return ", ".join(f"{amount} {currency}" for currency, amount in sorted(costs.items()))


@bill_app.command("import")
@reports_errors
def import_command(
    file: Annotated[Path, typer.Argument(help="CSV with a header.", exists=True, dir_okay=False)],
    name: Annotated[
        str, typer.Option("--name", help="Name of the bill, such as aws-2026-11; recorded with each of its costs.")
    ],
    form: Annotated[
        str,
        typer.Option("--format", help="csv: pool,start,end,cost,currency. focus: FOCUS 1.x, cost and usage."),
    ] = "csv",
    pool_column: Annotated[
        str | None,
        typer.Option(help="Column of the pool; default for focus: ResourceName, else tag x_pool."),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            "--cost",
            help="FOCUS cost: BilledCost, as invoiced (default), or EffectiveCost, with commitments spread over use.",
        ),
    ] = None,
    lake: LakeOption = None,
) -> None:
    """Import the cost of pools from a bill: each row is spread over its hours, exact to the micro-unit.

    Pool names are class@site: node pool, else SKU, else CPU model, then the zone; `unknown` if missing. Times are whole
    hours, UTC. Importing the same bill again changes nothing; another bill needs another name. Then meter the hours
    again.
    """
    from cohabit.billing.metering import columns_of, import_bill, pools_described
    from cohabit.terminal.locations import existing_lake

    if form not in ("csv", "focus"):
        raise typer.BadParameter(f"--format {form}: there are csv and focus")
    if cost not in (None, "BilledCost", "EffectiveCost") or (cost and form == "csv"):
        raise typer.BadParameter(f"--cost {cost}: --format focus has BilledCost and EffectiveCost")
    own = settings()
    opened = existing_lake(own, lake)
    done = import_bill(opened, file, name, cluster=own.cluster, columns=columns_of(form, pool_column, cost))
    if not done.new:
        console.print(f"bill {name} was imported before, and is the same: nothing was changed")
        return
    hours = f"{done.rows:,} hours of pools, from {done.start:%Y-%m-%d %H:%M} UTC"
    console.print(f"bill {name}: {_amounts(done.totals)} over {hours}")
    if done.poolless:
        console.print(
            f"{done.poolless:,} rows name no pool, such as taxes, support and commitments: "
            f"{_amounts(done.poolless_costs)} is no node's cost and not imported",
            soft_wrap=True,
        )
    if done.strange:
        known = ", ".join(pools_described(opened, own.cluster)) or "none yet"
        console.print(
            f"no node is in {', '.join(done.strange)}: its cost is billed to `unattributed`; pools of nodes: {known}",
            soft_wrap=True,
        )
    console.print(
        f"now meter these hours: cohabit bill meter --from {done.start:%Y-%m-%dT%H} --to {done.end:%Y-%m-%dT%H}",
        soft_wrap=True,
    )
