"""Upkeep: few files in the place of many, rows that expire, and files that no version needs any more. An edge.

Every change is a commit through the fence, and each step may be the last. Rows stay as they are, duplicates included:
which of them counts depends on what had arrived `as_of` a moment. Readers of older versions keep their files until
these have been out of use for as long as the table's log keeps versions.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

import pyarrow as pa

from ingest.lake.data_files import DataFile, Origin, origin_of
from ingest.lake.fence import FAR_US, retention_days
from ingest.lake.row_filter import FOREVER, between, microseconds
from ingest.lake.tables import EXPIRED, GENTLY, Lake, unreadable
from ingest.schema.errors import DamagedLake
from ingest.schema.tables import UNKNOWN_FIELDS

MAX_ROWS = 4_000_000
"""Most rows of one compacted file."""
FEW_FILES = 8
"""So many files may stay next to a larger one before it is written anew with them."""
UNTRACKED = timedelta(days=7)
"""Files that no version ever named are a frozen writer's, who may still name them, until they are so old."""

Progress = Callable[[int, int], None]
"""Called with how many of how many files are done."""


@dataclass(frozen=True, slots=True)
class When:
    """Which files are left alone.

    Args:
        now: the present.
        older_than: files that were written since are left alone, so that few rows are written anew often.
    """

    now: datetime
    older_than: timedelta = timedelta(minutes=15)

    @property
    def limit_ms(self) -> int:
        """Newest time of writing that is taken, milliseconds since 1970."""
        return microseconds(self.now - self.older_than) // 1000


@dataclass(frozen=True, slots=True)
class Compacted:
    """What one run did to a table: files, into how many, and their rows."""

    table: str
    files: int
    into: int
    rows: int


@dataclass(frozen=True, slots=True)
class Freed:
    """Files, their bytes, and for expiry the rows that go with them."""

    files: int
    size_bytes: int
    rows: int = 0


def compact(lake: Lake, table: str, when: When, progress: Progress) -> Compacted:
    """Put few files in the place of many, hour by hour; the rows stay the same, and streams read none again.

    Args:
        lake: the lake.
        table: name of the table.
        when: what is left alone.
        progress: called for each file read.

    Raises:
        DamagedLake: a file that counts cannot be read; nothing is changed of its hour.
    """
    bins = list(_bins(lake, table, when))
    total, done, rows, into = sum(map(len, bins)), 0, 0, 0
    for chosen in bins:
        merged = _merged(lake, table, chosen)
        lost = _commit_merged(lake, table, chosen, merged)
        done += len(chosen)
        progress(done, total)
        if not lost:
            into, rows = into + len(merged), rows + sum(file.rows for file in merged)
    fence = lake.fence(table)
    if fence.version > 0:
        fence.checkpoint()
    return Compacted(table, total, into, rows)


def worth_merging(files: Sequence[DataFile], max_rows: int = MAX_ROWS) -> list[tuple[DataFile, ...]]:
    """Which files of one hour to merge with which. Kernel.

    Files are taken in order until their rows reach `max_rows`. A bin is worth it when it holds many files, or when its
    largest file has at most half of the rows: else a late record would have its whole hour written anew.

    Args:
        files: files of one table and hour.
        max_rows: most rows of a merged file.

    Returns:
        Bins of two files or more; each file in one bin at most.
    """
    bins: list[list[DataFile]] = [[]]
    for file in (file for file in files if file.rows <= max_rows // 2):
        if bins[-1] and sum(f.rows for f in bins[-1]) + file.rows > max_rows:
            bins.append([])
        bins[-1].append(file)
    return [tuple(chosen) for chosen in bins if len(chosen) > 1 and _pays(chosen)]


def _pays(files: Sequence[DataFile]) -> bool:
    return len(files) > FEW_FILES or 2 * max(f.rows for f in files) <= sum(f.rows for f in files)


def expiring(lake: Lake, table: str, before: datetime) -> Freed:
    """What expiry would take away: rows before a time, and files that hold no others."""
    limit_us, files = microseconds(before), lake.fence(table).files()
    gone = [file for file in files if file.end_us < limit_us]
    rows = sum(file.rows for file in gone)
    if straddling := [file for file in files if file.start_us < limit_us <= file.end_us]:
        with unreadable(lake.uri):
            early = between(lake.table(table).time, -FAR_US, limit_us)
            rows += lake.dataset(table, straddling).count_rows(filter=early)
    return Freed(len(gone), sum(file.size_bytes for file in gone), rows)


def expire(lake: Lake, table: str, before: datetime) -> None:
    """Take rows before a time out of a table, for every reader; what lands later of such times does not count."""
    limit_us = microseconds(before)

    def choose() -> tuple[list[DataFile], list[DataFile]]:
        if limit_us <= lake.horizon_us(table):
            return [], []
        files = [one for one in lake.fence(table).files() if one.start_us < limit_us]
        straddling = [one for one in files if one.end_us >= limit_us]
        kept = [new for one in straddling for new in lake.rewritten(table, one, before, FOREVER)]
        nothing = lake.table(table).schema.empty_table()
        kept += [new for one in _computed(files, limit_us) for new in lake.written(table, [({}, [nothing])], one)]
        return files, kept

    lake.rewrite(table, choose, moves={EXPIRED: limit_us})


def _computed(files: Sequence[DataFile], limit_us: int) -> Iterator[Origin]:
    """Ranges before a moment that jobs put rows into: that they did is remembered when the rows have expired."""
    ranges = sorted(
        {
            (one.job, one.start_us, min(one.end_us, limit_us))
            for one in map(origin_of, (file.path for file in files))
            if one.start_us is not None and one.end_us is not None
        }
    )
    for job, some in groupby(ranges, key=lambda one: one[0]):
        spans = [(start, end) for _, start, end in some]
        low, high = spans[0]
        for start, end in spans[1:]:
            if start > high:
                yield Origin(job, low, high)
                low = start
            high = max(high, end) if start <= high else end
        yield Origin(job, low, high)


def vacuum(lake: Lake, table: str, *, everything: bool = False, retention: timedelta | None = None) -> Freed:
    """Delete files that no version needs which the log still keeps.

    Args:
        lake: the lake.
        table: name of the table.
        everything: also those that no version ever named, once they are UNTRACKED old, and older than the versions
            that the table keeps.
        retention: instead of the table's own, how long files have been out of use; older versions cannot be read then.
    """
    fence = lake.fence(table)
    kept = retention if retention is not None else timedelta(days=retention_days(lake.table(table)))
    if fence.version < 0:
        return Freed(0, 0)
    there = lake.store.sizes(table)
    fence.vacuum(full=everything, hours=_hours(max(kept, UNTRACKED) if everything else retention))
    left = lake.store.sizes(table)
    gone = [size for path, size in there.items() if path not in left]
    return Freed(len(gone), sum(gone))


def _hours(retention: timedelta | None) -> int | None:
    return None if retention is None else int(retention / timedelta(hours=1))


def _bins(lake: Lake, table: str, when: When) -> Iterator[tuple[DataFile, ...]]:
    """Files of streams by hour, the running one's too, and batches of a job."""
    apart: dict[tuple[str, tuple[tuple[str, str | None], ...]], list[DataFile]] = defaultdict(list)
    for file in lake.fence(table).files():
        origin = origin_of(file.path)
        if origin.start_us is None:
            apart[origin.job, tuple(sorted(file.partition.items()))].append(file)
    for _, files in sorted(apart.items()):
        ordered = sorted(files, key=lambda one: (origin_of(one.path).batch or 0, one.start_us, one.path))
        settled = [file for file in ordered if file.written_ms <= when.limit_ms]
        for _, run in groupby(settled, key=lambda one: one.rows > MAX_ROWS // 2):  # none is merged past another
            yield from worth_merging(list(run))


def _merged(lake: Lake, table: str, chosen: Sequence[DataFile]) -> list[DataFile]:
    """One durable file with the rows of all; of batches the newest first, as readers take them.

    It is as old as the oldest: a stream that begins with what is there reads files by age, and would take rows of an
    hour that was merged after later ones for late.
    """
    lake.refuse_older(table, chosen)
    newest = max((origin_of(file.path) for file in chosen), key=lambda one: one.batch or 0)
    origin = Origin(newest.job, batch=newest.batch)
    ordered = list(reversed(chosen)) if newest.job else list(chosen)
    with unreadable(lake.uri):
        tables = (
            pa.Table.from_batches([batch])
            for batch in lake.dataset(table, ordered).to_batches(**{**GENTLY, "batch_size": 1 << 16})
        )
        counted = _added_up(tables) if table == UNKNOWN_FIELDS.name else tables
        merged = lake.written(table, [(chosen[0].partition, counted)], origin)
    held, said = (sum(file.rows for file in files) for files in (merged, chosen))
    if held != said and table != UNKNOWN_FIELDS.name:
        raise DamagedLake(lake.store.address(f"{table}/{chosen[0].path}"), f"files hold {held} rows, not {said}")
    return [replace(file, written_ms=min(one.written_ms for one in chosen)) for file in merged]


def _added_up(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Counts of unknown fields of many batches as one."""
    rows = pa.concat_tables(tables)
    keys = ["topic", "partition", "field"]
    summed = rows.group_by(keys, use_threads=False).aggregate([("start", "min"), ("seen", "sum")])
    named = summed.rename_columns({"start_min": "start", "seen_sum": "seen"})
    yield named.select(rows.column_names).cast(rows.schema)


def _commit_merged(lake: Lake, table: str, chosen: Sequence[DataFile], merged: Sequence[DataFile]) -> bool:
    """Commit the merged file, unless some of what it holds was taken away meanwhile; whether that was so."""
    lost = False

    def choose() -> tuple[Sequence[DataFile], Sequence[DataFile]]:
        nonlocal lost
        there = {file.path for file in lake.fence(table).files()}
        lost = any(file.path not in there for file in chosen)
        return ((), ()) if lost else (chosen, merged)

    lake.rewrite(table, choose, data_change=False)
    return lost
