"""Judging: who was slowed down by whom on days that are over, kept for the months they are billed in. An edge."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq

from advisor.diagnosis.analyse import COLUMNS, Evidence
from advisor.diagnosis.slowed_hours import BEFORE_US, slowed_hours
from cohabit.config.errors import CohabitError
from cohabit.diagnosis.diagnose import newest_window, node_pieces
from features.jobs.lake_facts import facts_between
from features.schema.tables import SLOWED
from ingest.lake.row_filter import EPOCH, microseconds
from ingest.lake.tables import Lake

JOB = "judging"
MEASURED = ("usage", "samples")
DAY = timedelta(days=1)
BEFORE = timedelta(microseconds=BEFORE_US)
TICK = timedelta(microseconds=1)

Progress = Callable[[datetime, int | None], None]
"""Called with each day and its number of slowed container-hours; None where it has no labels."""


def days_to_judge(lake: Lake, start: datetime | None, end: datetime | None, now: datetime) -> list[datetime]:
    """Days that options name; without, those from the last judged one on that are over by the newest label.

    A day that no label has passed, and that was not over a day ago, is left out: it would count as judged without what
    is to come of it.

    Raises:
        NothingMeasured: there are no labels of the last month.
        CohabitError: a time is within a day, or none lies between them.
    """
    known = [part.end_us for part in lake.range_parts(SLOWED.name)]
    landed = [span[0] for table in MEASURED if (span := lake.span(table))]
    first = _day("--from", start) or day_of(max(known) if known else min(landed, default=0))
    named, labelled = _day("--to", end), day_of(microseconds(newest_window(lake)))
    last = labelled if named is None else min(named, max(labelled, day_of(microseconds(now - DAY))))
    if last <= first and (start is not None or end is not None):
        raise CohabitError(
            "no day that is over lies between --from and --to: --to names the first day that is not judged any more"
        )
    return [first + number * DAY for number in range(max(0, (last - first) // DAY))]


def judge_days(lake: Lake, days: Sequence[datetime], progress: Progress) -> int:
    """Judge days, each as a whole; judging one again puts the same rows in their place, with what is known by now.

    Args:
        lake: with features.
        days: when each begins.
        progress: called day by day.

    Returns:
        Rows of table `slowed` that were written. A day without labels is skipped, and counts as not judged; but
        one on which nothing was measured, between others, is: no container surely was slower on it.
    """
    written = 0
    for day in days:
        if not lake.count("labels", day + TICK, day + DAY + TICK) and not _silent(lake, day):
            progress(day, None)
            continue
        rows = lake.replace(SLOWED.name, day, day + DAY, JOB, _staged(lake, day))
        written += rows
        progress(day, rows)
    return written


def unjudged(lake: Lake, start: datetime, end: datetime) -> list[datetime]:
    """Days between two that were not judged, rising."""
    parts = [(part.start_us, part.end_us) for part in lake.range_parts(SLOWED.name)]
    days = [start + number * DAY for number in range((end - start) // DAY)]
    return [day for day in days if not any(low <= microseconds(day) < high for low, high in parts)]


def _silent(lake: Lake, day: datetime) -> bool:
    """Whether nothing was measured on a day, while something was before and after it."""
    spans = [span for table in MEASURED if (span := lake.span(table))]
    first, last = min((low for low, _ in spans), default=0), max((high for _, high in spans), default=0)
    if not first < microseconds(day) < microseconds(day + DAY) <= last:
        return False
    return not any(lake.read(table, day, day + DAY, columns=["ts"]).num_rows for table in MEASURED)


def _staged(lake: Lake, day: datetime) -> Path:
    """A folder with rows of table `slowed` of a day; it has a file also where these are none, since it was judged."""
    folder = lake.stage(SLOWED.name, JOB)
    folder.mkdir(parents=True, exist_ok=True)
    start, end = day - BEFORE + TICK, day + DAY + TICK
    profiles, facts = lake.read("profiles"), facts_between(lake, start, end)
    pq.write_table(SLOWED.schema.empty_table(), folder / "none.parquet")
    for number, nodes in enumerate(node_pieces(lake, start, end, day + TICK)):
        state = lake.read("node_state", start, end, columns=COLUMNS, nodes=nodes)
        labels = lake.read("labels", start, end, nodes=nodes)
        evidence = Evidence(state, labels, profiles, facts)
        found = slowed_hours(evidence, microseconds(day), microseconds(day + DAY))
        pq.write_table(found, folder / f"{number:06d}.parquet", compression="zstd")
    return folder


def day_of(at_us: int) -> datetime:
    """When the day of a time begins, UTC."""
    return EPOCH + (timedelta(microseconds=at_us) // DAY) * DAY


def _day(option: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if moment.hour or moment.minute or moment.second:
        raise CohabitError(f"{option} {moment:%Y-%m-%dT%H:%M} lies within a day: name one, as in 2026-11-01")
    if moment.year < EPOCH.year:
        raise CohabitError(f"{option} {moment:%Y-%m-%d} lies before {EPOCH.year}: look at its year")
    return moment.replace(tzinfo=UTC)
