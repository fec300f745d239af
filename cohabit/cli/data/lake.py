"""`cohabit lake`: look after a lake. check, compact, expire."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.config.errors import CohabitError
from cohabit.terminal.console import bar, console, show_table
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from ingest.lake.check import Heap, Report
    from ingest.lake.tables import Lake
    from ingest.lake.upkeep import Freed

KEPT = ("nodes", "placements")
"""Tables whose oldest rows still say what is true today: they expire only when they are named."""
MAX_DAMAGE = 50
MAX_HOURS, MAX_DAYS = 24 * 366 * 10, 366 * 50

lake_app = typer.Typer(no_args_is_help=True, help="Maintain the lake: check it, compact its files, expire old rows.")

TableOption = Annotated[list[str] | None, typer.Option("--table", help="Only this table; repeatable.")]


@lake_app.command("check")
@reports_errors
def check_command(
    lake: LakeOption = None,
    rows: Annotated[bool, typer.Option("--rows", help="Read every row too, not only footers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Check every table's log and every file that it names. Exits 1 if any is damaged."""
    from cohabit.terminal.locations import existing_lake
    from ingest.lake.check import check

    opened = existing_lake(settings(), lake, reads=True)
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
        typer.Option("--older-than", min=0, max=MAX_HOURS, help="Minimum age of a file, in hours."),
    ] = 0.25,
    full: Annotated[
        bool, typer.Option("--full", help="Also delete files that no version names, of writers that died; weekly.")
    ] = False,
) -> None:
    """Merge small files (OPTIMIZE) and delete unused ones (VACUUM). Rows and running readers are not affected.

    Replaced files are deleted once the table's log no longer keeps the versions that name them: after 2 days for raw
    tables, 30 for derived ones. Files that no version names are kept for 7 days, in derived tables for 30, since their
    writer may only be slow.
    """
    from cohabit.terminal.locations import existing_lake
    from ingest.lake.upkeep import UNTRACKED, When, compact, vacuum
    from ingest.schema.tables import LAKE_OWN

    opened, now = existing_lake(settings(), lake), datetime.now(UTC)
    when, lines = When(now, timedelta(hours=older_than)), []
    for name in [*_tables(opened, table, but=()), *(() if table else LAKE_OWN)]:
        with bar(f"compacting {name}") as shown:
            done = compact(opened, name, when, shown.reach)
        freed = vacuum(opened, name, everything=full)
        if done.files or freed.files:
            files, into, rows = f"{done.files:,}", f"{done.into:,}", f"{done.rows:,}"
            lines.append((name, files, into, rows, f"{freed.files:,}", _size(freed)))
    if full:
        opened.store.tidy(now - UNTRACKED)
    if not lines:
        console.print(f"nothing to compact in {opened.uri}")
        return
    show_table("compacted", ("table", "files", "into", "rows", "deleted", "bytes freed"), lines)


@lake_app.command("expire")
@reports_errors
def expire_command(
    before: Annotated[
        datetime, typer.Option("--before", formats=["%Y-%m-%d"], help="Day, UTC; older rows are deleted.")
    ],
    *,
    keep_days: Annotated[int | None, typer.Option(min=30, max=MAX_DAYS, help="Days before that day to keep.")] = None,
    lake: LakeOption = None,
    table: TableOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only list.")] = False,
) -> None:
    """Delete rows older than a day. Without --yes it only lists them.

    Committed offsets stay, so no record is ingested again. Rows disappear at once, their files when `cohabit lake
    compact` finds that no version that the log keeps names them. Nodes and placements are deleted only if named: their
    oldest rows may still be valid.

    A scheduled job gives its own day and the days to keep: --before 2026-11-24 --keep-days 800.
    """
    from cohabit.terminal.locations import existing_lake
    from ingest.lake.upkeep import expire, expiring
    from ingest.schema.tables import LAKE_OWN

    now = datetime.now(UTC)
    if before.replace(tzinfo=UTC) > now:
        raise CohabitError(f"--before {before:%Y-%m-%d} is in the future: name a past day")
    try:
        before -= timedelta(days=keep_days or 0)
    except OverflowError as error:
        raise CohabitError(f"--keep-days {keep_days} days before {before:%Y-%m-%d} are before all dates") from error
    moment = before.replace(tzinfo=UTC)
    opened = existing_lake(settings(), lake)
    lines = []
    timeless = [name for name in opened.tables if not opened.table(name).time]
    if timeless_named := sorted({*(table or ())} & {*timeless, *LAKE_OWN}):
        raise CohabitError(f"--table {timeless_named[0]}: its rows have no time, and do not expire")
    for name in _tables(opened, table, but=(*KEPT, *timeless)):
        going = expiring(opened, name, moment)
        if yes:
            expire(opened, name, moment)
        if going.rows:
            lines.append((name, f"{going.rows:,}", f"{going.files:,}", _size(going)))
    if not lines:
        console.print(f"nothing in {opened.uri} is older than {before:%Y-%m-%d}")
        return
    title = f"{'gone' if yes else 'would go'}: rows before {before:%Y-%m-%d}"
    show_table(title, ("table", "rows", "files", "bytes"), lines)
    console.print("`cohabit lake compact` deletes the files later" if yes else "nothing was changed; add --yes")


@lake_app.command("accept-topic")
@reports_errors
def accept_topic_command(
    topic: Annotated[str, typer.Argument(help="Topic that was deleted and created again, as it is named in Kafka.")],
    lake: LakeOption = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", help="Kafka, host:port [COHABIT_KAFKA__BOOTSTRAP].")
    ] = None,
) -> None:
    """Accept a recreated topic: ingestion starts at its offset 0.

    `cohabit ingest` refuses a topic with another id than the one it ingested, since equal offsets are other records. It
    also refuses a partition that ends before what was ingested, as after a loss of the broker's records. All rows stay.
    """
    from cohabit.ingestion.accepted_topics import accept_topic
    from cohabit.terminal.locations import existing_lake
    from ingest.lake.topic_ids import TopicIds

    own = settings()
    opened = existing_lake(own, lake)
    accept_topic(opened, topic, own.kafka.brokers(bootstrap))
    console.print(
        f"topic {topic} accepted; `cohabit ingest` starts at its offset 0, as {TopicIds(opened).origin(topic)}"
    )


def _tables(lake: "Lake", named: Sequence[str] | None, but: Sequence[str]) -> list[str]:
    if named:
        return [lake.table(name).name for name in named]
    return [name for name in lake.tables if name not in but]


def _heap(heap: "Heap") -> tuple[str, str]:
    return f"{heap.files:,}", f"{heap.size_bytes:,}"


def _size(freed: "Freed") -> str:
    return f"{freed.size_bytes:,}"


def _show_report(lake: "Lake", report: "Report") -> None:
    lines = [
        ("tables (commits)", f"{report.tables:,}", f"{report.commits:,}"),
        ("offsets deleted by the broker before ingestion", f"{report.gaps:,}", f"{report.gap_offsets:,}"),
        ("live files (rows)", f"{report.files:,}", f"{report.rows:,}"),
        (
            "replaced files, kept for older versions (bytes)",
            f"{report.waiting.files:,}",
            f"{report.waiting.size_bytes:,}",
        ),
        ("torn by a power loss, renamed to .torn", f"{report.torn:,}", ""),
        ("orphan files, harmless (bytes)", f"{report.orphans.files:,}", f"{report.orphans.size_bytes:,}"),
    ]
    show_table(f"lake {lake.uri}", ("what", "number", "of"), lines)
    for damage in report.damage[:MAX_DAMAGE]:
        console.print(f"damaged: {damage.path}: {damage.what}; {damage.remedy}", soft_wrap=True)
    if len(report.damage) > MAX_DAMAGE:
        console.print(f"and {len(report.damage) - MAX_DAMAGE:,} more; --json lists all")
    console.print("damaged" if report.damage else "sound")


@lake_app.command()
@reports_errors
def metrics(
    mapping: Annotated[
        Path | None, typer.Option("--mapping", help="Include your own mapping [COHABIT_MAPPING].")
    ] = None,
) -> None:
    """List the third-party metrics Cohabit recognises and the column each maps to.

    Add your own with a file: tables `metric` with name, target, kind, and scale, where, series as docs/ingest.md shows.
    """
    from cohabit.config.topic_formats import show_metrics

    show_metrics(settings(), mapping)
