"""`cohabit lake`: look after a lake. check, compact, expire."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.config.errors import BadOption
from cohabit.terminal.console import bar, console, show_table
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from ingest.lake.check import Report
    from ingest.lake.retention import Freed
    from ingest.lake.tables import Lake

KEPT = ("nodes", "placements")
"""Tables whose oldest rows still say what is true today: they expire only when they are named."""
MAX_DAMAGE = 50
MAX_HOURS, MAX_DAYS = 24 * 366 * 10, 366 * 50

lake_app = typer.Typer(no_args_is_help=True, help="Look after the lake: check it, make its files few, let old rows go.")

Grace = Annotated[
    float,
    typer.Option("--grace", min=0, max=MAX_HOURS, help="Hours for which replaced files stay; readers may hold them."),
]
TableOption = Annotated[list[str] | None, typer.Option("--table", help="Only this one; may be repeated.")]


@lake_app.command("check")
@reports_errors
def check_command(
    lake: LakeOption = None,
    rows: Annotated[bool, typer.Option("--rows", help="Read every row too, not only footers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Look at every chain, manifest and file that counts; exit 1 when something is damaged."""
    from cohabit.terminal.locations import existing_lake
    from ingest.lake.check import check

    opened = existing_lake(settings(), lake)
    with bar("checking") as shown:
        report = check(opened, shown.reach, "rows" if rows else "footers")
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        _show_report(opened, report)
    raise typer.Exit(bool(report.damage))


@lake_app.command("compact")
@reports_errors
def compact_command(
    lake: LakeOption = None,
    table: TableOption = None,
    older_than: Annotated[
        float,
        typer.Option("--older-than", min=0, max=MAX_HOURS, help="Hours; where something was written since stays."),
    ] = 2.0,
    grace: Grace = 1.0,
) -> None:
    """Put few files in the place of many; rows stay the same, readers notice nothing but speed.

    It also writes down what all that was landed comes to, so that the next to open the lake need not follow it all.

    Replaced files are deleted by a run after the grace period. It must be longer than `cohabit features --follow` is
    ever behind: that reads the files themselves.
    """
    from cohabit.terminal.locations import existing_lake
    from ingest.lake.checkpoint_writer import checkpoint
    from ingest.lake.compaction import When, compact

    opened, now = existing_lake(settings(), lake), datetime.now(UTC)
    when, lines = When(now, timedelta(hours=older_than)), []
    for name in _tables(opened, table, but=()):
        with bar(f"compacting {name}") as shown:
            done = compact(opened, name, when, shown.reach)
        freed = _sweep(opened, name, now, grace)
        result = f"{done.into:,}" if done.won else "another was quicker"
        if done.files or freed.files:
            lines.append((name, f"{done.files:,}", result, f"{done.rows:,}", f"{freed.files:,}", _size(freed)))
    checkpoint(opened, now)
    if not lines:
        console.print(f"nothing to compact in {opened.root}")
        return
    show_table("compacted", ("table", "files", "into", "rows", "deleted", "bytes freed"), lines)


@lake_app.command("expire")
@reports_errors
def expire_command(
    before: Annotated[datetime, typer.Option("--before", formats=["%Y-%m-%d"], help="A day, UTC; older rows go.")],
    *,
    keep_days: Annotated[
        int | None, typer.Option(min=30, max=MAX_DAYS, help="Keep so many days before that day too.")
    ] = None,
    lake: LakeOption = None,
    table: TableOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would go.")] = False,
    grace: Grace = 1.0,
) -> None:
    """Let rows older than a day go; without --yes only says what would.

    Chains keep their ends: nothing is landed again. Rows are gone at once, files after the grace period, by the next
    compact or expire. Nodes and placements go only when named: their oldest rows may still be true.

    A timer names its own day and what is to be kept: --before 2026-11-24 --keep-days 800.
    """
    from cohabit.terminal.locations import existing_lake
    from ingest.lake.retention import expire, expiring

    now = datetime.now(UTC)
    if before.replace(tzinfo=UTC) > now:
        raise BadOption(f"--before {before:%Y-%m-%d} lies in the future: name a day that is over")
    before -= timedelta(days=keep_days or 0)
    moment = before.replace(tzinfo=UTC)
    opened = existing_lake(settings(), lake)
    lines = []
    for name in _tables(opened, table, but=KEPT):
        going = expiring(opened, name, moment)
        if yes:
            expire(opened, name, moment, now)
        freed = _sweep(opened, name, now, grace) if yes else None
        if going.rows or (freed and freed.files):
            lines.append((name, f"{going.rows:,}", f"{going.files:,}", _size(going), _size(freed) if freed else "-"))
    if not lines:
        console.print(f"nothing in {opened.root} is older than {before:%Y-%m-%d}")
        return
    title = f"{'gone' if yes else 'would go'}: rows before {before:%Y-%m-%d}"
    show_table(title, ("table", "rows", "files", "bytes", "freed now"), lines)
    console.print("files go after the grace period, with the next run" if yes else "nothing was changed; add --yes")


def _tables(lake: "Lake", named: Sequence[str] | None, but: Sequence[str]) -> list[str]:
    if named:
        return [lake.table(name).name for name in named]
    return [name for name in lake.tables if name not in but]


def _sweep(lake: "Lake", table: str, now: datetime, grace_hours: float) -> "Freed":
    from ingest.lake.retention import sweep

    return sweep(lake, table, now, timedelta(hours=grace_hours))


def _size(freed: "Freed") -> str:
    return f"{freed.size_bytes:,}"


def _show_report(lake: "Lake", report: "Report") -> None:
    lines = [
        ("links", f"{report.links:,}", ""),
        ("gaps the broker left (offsets)", f"{report.gaps:,}", f"{report.gap_offsets:,}"),
        ("files that count (rows)", f"{report.files:,}", f"{report.rows:,}"),
        ("waiting to be deleted (bytes)", f"{report.waiting.files:,}", f"{report.waiting.size_bytes:,}"),
        ("orphans, harmless (bytes)", f"{report.orphans.files:,}", f"{report.orphans.size_bytes:,}"),
    ]
    show_table(f"lake {lake.root}", ("what", "number", "of"), lines)
    for damage in report.damage[:MAX_DAMAGE]:
        console.print(f"damaged: {damage.path}: {damage.what}; {damage.remedy}", soft_wrap=True)
    if len(report.damage) > MAX_DAMAGE:
        console.print(f"and {len(report.damage) - MAX_DAMAGE:,} more; --json lists all")
    console.print("damaged" if report.damage else "sound")


@lake_app.command()
@reports_errors
def metrics(
    mapping: Annotated[Path | None, typer.Option("--mapping", help="Your own metrics too [COHABIT_MAPPING].")] = None,
) -> None:
    """List the metrics of other exporters that are known, and what each becomes; the same for every format.

    Add your own with a file: [[metric]] with name, target, kind, and scale, where, series as docs/ingest.md shows.
    """
    from cohabit.config.topic_formats import show_metrics

    show_metrics(settings(), mapping)
