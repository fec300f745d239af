"""The command `victims`: slowed containers with their antagonists, as a table and as JSON."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

import orjson
import typer

from cohabit.config.settings import Settings
from cohabit.terminal.console import console, printable, show_table
from cohabit.terminal.locations import existing_lake
from cohabit.terminal.options import BLIND, FOUND

if TYPE_CHECKING:
    import pyarrow as pa

    from advisor.diagnosis.coverage import Coverage
    from advisor.diagnosis.slowdown_causes import Diagnosis, Suspect

MAX_SHOWN, MAX_UNCONFIRMED = 40, 10
"""Rows for people; files have all."""
VICTIM_COLUMNS = ("container", "node", "slowdown", "verdict", "by", "through", "sure")
BARS = "▁▂▃▄▅▆▇█"
BLIND_TEXT = (
    "not measured: no container has a label, so victims are unknown; `cohabit doctor labels` names what exporters lack"
)
NO_VICTIMS = (
    "no latency-sensitive container was slower than 1.25 times its baseline and showed it in a second signal (CPU time "
    "per request, cycles per instruction or waiting), or waited more than is usual of its app, in three of its last "
    "five windows; --container NAME says what is known of one"
)


def run_victims(
    settings: Settings,
    *,
    lake: str | None,
    at: datetime | None,
    container: str | None,
    out: Path | None,
    publish_to: Path | None,
) -> None:
    """See `cohabit victims`."""
    from advisor.diagnosis.coverage import coverage
    from cohabit.config.errors import CohabitError
    from cohabit.diagnosis.diagnose import diagnosed, looked_at, newest_window, stale, unconfirmed, window_until

    opened = existing_lake(settings, lake, reads=True)
    until = newest_window(opened) if at is None else window_until(at.replace(tzinfo=at.tzinfo or UTC))
    with console.status("finding victims"):
        found = diagnosed(opened, until)
    ran, containers = looked_at(opened, until)
    shown = found
    if container is None:
        covered = coverage(ran)
        _show_all(found, until, covered)
        _show_unconfirmed(unconfirmed(opened, until, (one.container for one in found)))
    else:
        if container not in containers:
            raise CohabitError(
                f"--container {container}: none of the {len(containers):,} containers measured in the 25 minutes "
                f"before {until:%Y-%m-%d %H:%M} UTC has this id; `cohabit victims` lists the victims, --at names "
                "another time"
            )
        shown, covered = (
            [one for one in found if one.container == container],
            coverage(_where(ran, "container", container)),
        )
        _show_one(shown, container, covered)
        _show_unconfirmed([one for one in unconfirmed(opened, until, (v.container for v in shown)) if one == container])
        show_ladder(settings.snapshots, container)
    if out is not None:
        written = {"until": until, "coverage": coverage(ran), "victims": found}
        out.write_bytes(orjson.dumps(written, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        console.print(f"written: {out}")
    if publish_to is not None:
        _publish(publish_to, settings.cluster, found, until, coverage(_where(ran, "cluster", settings.cluster)))
    if at is None and (old := stale(opened, until)):
        console.print(old)
        raise typer.Exit(BLIND)
    raise typer.Exit(exit_code(covered, found=bool(shown)))


def exit_code(covered: "Coverage", *, found: bool) -> int:
    """Of commands that look for victims: 0 where none is among what was looked at, else FOUND or BLIND."""
    return FOUND if found else 0 if covered.looked.labelled else BLIND


def _where(ran: "pa.Table", column: str, value: str) -> "pa.Table":
    import pyarrow.compute as pc

    return ran.filter(pc.equal(ran[column], value))


def show_ladder(folder: Path, container: str) -> None:
    """What can be done for a container, as `cohabit plan create` found last."""
    from advisor.remediation.options_file import kept_ladder

    found = kept_ladder(folder, container)
    if found is None:
        console.print("remedies: run `cohabit plan create`")
        return
    if found.rest:
        console.print(f"remedies: {found.rest}")
    for one in found.remedies:
        where = f" to {one.target}" if one.target else ""
        enough = "unknown" if one.sufficient is None else f"{one.sufficient:.0%}"
        text = (
            f"  {one.kind}, {one.container}{where}: saves {one.gain:.2f} an hour ({one.low:.2f} to {one.high:.2f}), "
            f"costs {one.cost:.2f}, enough: {enough}; {one.why}"
        )
        console.print(printable(text))
        for field in one.fields:
            console.print(f"    {field.where}: {field.name} = {field.value}")


def _publish(folder: Path, cluster: str, found: Sequence["Diagnosis"], until: datetime, covered: "Coverage") -> None:
    """Publish the report of its cluster to the folder that `serve` reads."""
    from advisor.diagnosis.report_file import DiagnosisReport, write_report

    here = tuple(one for one in found if one.cluster == cluster)
    report = DiagnosisReport(cluster, round(until.timestamp() * 1e6), time_ns() // 1000, here, covered)
    path = write_report(folder, report)
    others = ", ".join(sorted({one.cluster for one in found} - {cluster}))
    left_out = f"; other clusters, not published: {others} (set COHABIT_CLUSTER)" if others else ""
    console.print(f"published: {len(here)} of cluster {cluster} in {path}{left_out}", soft_wrap=True)


def show_coverage(covered: "Coverage", until: datetime) -> None:
    """How much was looked at, and why not the rest."""
    from advisor.diagnosis.coverage import sentences

    first, *rest = sentences(covered)
    console.print(f"up to {until:%Y-%m-%d %H:%M} UTC: {first}")
    for line in rest:
        console.print(printable(line))


def _show_all(found: Sequence["Diagnosis"], until: datetime, covered: "Coverage") -> None:
    show_coverage(covered, until)
    if not found:
        console.print(f"no victims among them: {NO_VICTIMS}" if covered.looked.labelled else BLIND_TEXT)
        return
    rows = [victim_row(one) for one in found[:MAX_SHOWN]]
    show_table(f"victims, {until:%Y-%m-%d %H:%M} UTC", VICTIM_COLUMNS, rows)
    counts = Counter(one.verdict for one in found)
    console.print(", ".join(f"{verdict}: {number}" for verdict, number in counts.most_common()))
    if len(found) > MAX_SHOWN:
        console.print(f"{len(found) - MAX_SHOWN} more with less slowdown; --json FILE has all")
    console.print("it adds: of slowdown, with a 90 % interval; --container NAME explains one, with all suspects")


def _show_unconfirmed(containers: Sequence[str]) -> None:
    if containers:
        more = ", …" if len(containers) > MAX_UNCONFIRMED else ""
        console.print(
            "unconfirmed, as no second signal shows it, but slower than 1.25 times the baseline in three windows: "
            f"{len(containers)} ({printable(', '.join(containers[:MAX_UNCONFIRMED]))}{more})"
        )


def victim_row(one: "Diagnosis") -> tuple[str, ...]:
    """A row for people."""
    slowdown = f"{one.slowdown:.2f}" if isfinite(one.slowdown) else "hidden"
    top = one.suspects[0] if one.suspects else None
    suspected = (top.app or top.container, top.resource, f"{top.surely:.0%}") if top else ("", "", "")
    return (one.container, one.node, slowdown, one.verdict, *suspected)


def _not_found(covered: "Coverage") -> str:
    """Why a container is no victim, or why that is not known."""
    from advisor.diagnosis.coverage import WHY

    if not covered.looked.windows:
        return "is best-effort, which is never a victim"
    of = covered.looked
    if of.labelled:
        return (
            f"is no victim by the {of.labelled} of its last {of.windows} windows that have a label: fewer than three "
            "are slower than 1.25 times its baseline and confirmed by a second signal"
        )
    reasons = "; ".join(WHY.get(one.reason, one.reason) for one in covered.unseen)
    return f"whether it is a victim is unknown, none of its last {of.windows} windows has a label: {reasons}"


def _added(suspect: "Suspect") -> str:
    return f"{suspect.added:.2f} ({suspect.low:.2f} to {suspect.high:.2f})"


def _show_one(found: Sequence["Diagnosis"], container: str, covered: "Coverage") -> None:
    if not found:
        console.print(printable(f"{container}: {_not_found(covered)}"))
    for one in found:
        console.print(printable(f"{one.container} of {one.app} on {one.node}: {one.verdict}, since {one.reason}"))
        rows = [
            (s.container, s.app or "", s.qos or "", s.resource, _added(s), f"{s.surely:.0%}", bars(s.used))
            for s in one.suspects
        ]
        rows.append(("itself", one.app or "", "LS", "slowdown", "", "", bars([x - 1.0 for x in one.slowdowns])))
        columns = ("container", "app", "class", "through", "it adds", "adds most", f"use, up to {_time(one)}")
        show_table("its neighbours, and itself, window by window", columns, rows)


def _time(one: "Diagnosis") -> str:
    return f"{datetime.fromtimestamp(one.ends_us[-1] / 1e6, UTC):%H:%M}"


def bars(values: Sequence[float]) -> str:
    """A picture of numbers side by side, the largest full, nothing and below as the lowest; a dot where not known."""
    top = max((value for value in values if isfinite(value)), default=0.0)

    def bar(value: float) -> str:
        if not isfinite(value):
            return "·"
        return BARS[round((len(BARS) - 1) * max(value, 0.0) / top) if top > 0 else 0]

    return "".join(map(bar, values))
