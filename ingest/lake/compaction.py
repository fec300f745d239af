"""Compaction: the rows of many small files into few, hour by hour and, for streaming jobs, run by run. An edge.

Each step may be the last: compacted files are written and on disk first; then one numbered manifest, created
exclusively, says whose rows they hold, and from there on readers take them instead; what was replaced is deleted by a
later run (`ingest.sweep`), when no reader can hold its name any more. Rows stay as they are, duplicates included: which
of them counts depends on what had arrived `as_of` a moment.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.lake import manifests as journal
from ingest.lake.arrow_dataset import ds
from ingest.lake.layout import BatchRun, Compaction, DataFile, Merged, batch_files, finished_batches
from ingest.lake.row_filter import microseconds
from ingest.lake.tables import Lake, refuse_older
from ingest.schema.errors import DamagedLake
from ingest.schema.tables import Table

MAX_ROWS = 4_000_000
"""Most rows of one compacted file."""
FEW_FILES = 8
"""So many files may stay next to a larger one before it is written anew with them."""
GROUP_ROWS = 1 << 17
"""Rows held in memory at once, and of one row group."""
FILES_AT_ONCE = 64
"""Files read together: each by itself takes three times as long."""
HOUR_US = 3_600_000_000

Progress = Callable[[int, int], None]
"""Called with how many of how many files are done."""


@dataclass(frozen=True, slots=True)
class When:
    """Which files are left alone.

    Args:
        now: the present.
        older_than: hours and batches in which something was written since are left alone.
    """

    now: datetime
    older_than: timedelta = timedelta(hours=2)

    @property
    def limit_us(self) -> int:
        """Newest time of writing that is taken, microseconds since 1970."""
        return microseconds(self.now - self.older_than)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What one run did to a table; `won` is False when another run was quicker, which then did it instead."""

    table: str
    files: int
    into: int
    rows: int
    won: bool


def compact(lake: Lake, table: str, when: When, progress: Progress) -> Compacted:
    """Put few files in the place of many; the rows stay the same.

    Args:
        lake: the lake.
        table: name of the table.
        when: what is left alone.
        progress: called for each file read.

    Raises:
        DamagedLake: a file that counts cannot be read, or does not hold the rows its link names; nothing is changed.
    """
    number = lake.history().compacted(table).number + 1  # before choosing: what is added meanwhile takes this number
    bins, runs = _hours(lake, table, when), _runs(lake, table, when)
    total = sum(map(len, bins)) + sum(len(run.folders) for run in runs)
    counter = _Counter(progress, total)
    merged = tuple(_merge(lake, table, number, chosen, counter) for chosen in bins)
    joined = tuple(_join(lake, table, number, run, counter) for run in runs)
    manifest = Compaction(microseconds(when.now), merged, joined)
    written = manifest.files()
    rows = sum(file.rows for file in written)
    if not total:
        return Compacted(table, 0, 0, 0, won=True)
    won = journal.add(lake.layout.compactions(table), number, manifest.written())
    if not won:
        for file in written:
            (lake.root / file.path).unlink(missing_ok=True)
    return Compacted(table, total, len(written), rows, won=won)


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


@dataclass(slots=True)
class _Counter:
    """Counts files for a progress bar."""

    progress: Progress
    total: int
    done: int = 0

    def one_more(self) -> None:
        self.done += 1
        self.progress(self.done, self.total)


@dataclass(frozen=True, slots=True)
class _Run:
    """Finished batches of one job, oldest first, that become one file."""

    job: str
    folders: tuple[Path, ...]


def _hours(lake: Lake, table: str, when: When) -> list[tuple[DataFile, ...]]:
    by_hour: dict[int, list[DataFile]] = defaultdict(list)
    for file in lake.counting(table):
        by_hour[file.start_us // HOUR_US].append(file)
    found = [chosen for hour in sorted(by_hour) for chosen in worth_merging(by_hour[hour])]
    quiet = {_hour(chosen): _written_us(lake, by_hour[_hour(chosen)]) <= when.limit_us for chosen in found}
    return [chosen for chosen in found if quiet[_hour(chosen)]]


def _hour(files: Sequence[DataFile]) -> int:
    return files[0].start_us // HOUR_US


def _written_us(lake: Lake, files: Iterable[DataFile]) -> int:
    return max(_changed_us(lake.root / file.path) for file in files)


def _changed_us(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1000
    except FileNotFoundError as error:
        raise DamagedLake(path, "it is missing") from error


def _runs(lake: Lake, table: str, when: When) -> list[_Run]:
    return [run for job in lake.jobs(table) for run in _job_runs(lake, table, job, when)]


def _job_runs(lake: Lake, table: str, job: str, when: When) -> Iterator[_Run]:
    """Runs of finished batches without one between that is not; never the last written, which may be written again."""
    replaced = {path for run in lake.batch_runs(table, job) for path in run.replaces}
    finished = finished_batches(lake.layout.batches(table) / job)
    newest = max(finished, key=lambda folder: _changed_us(folder / "_SUCCESS"), default=None)
    chosen: list[Path] = []
    rows = 0
    for folder in sorted((lake.layout.batches(table) / job).glob("[0-9]*")):
        if folder == newest or not (folder / "_SUCCESS").exists() or _changed_us(folder / "_SUCCESS") > when.limit_us:
            break
        files = batch_files(folder)
        if not files or lake.layout.relative(files[0]) in replaced:
            continue
        size = sum(_metadata(path).num_rows for path in files)
        if chosen and rows + size > MAX_ROWS:
            yield _Run(job, tuple(chosen))
            chosen, rows = [], 0
        chosen.append(folder)
        rows += size
    if len(chosen) > 1:
        yield _Run(job, tuple(chosen))


def _metadata(path: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DamagedLake(path, str(error)) from error


def _merge(lake: Lake, table: str, number: int, files: Sequence[DataFile], counter: _Counter) -> Merged:
    kind = lake.table(table)
    target = lake.layout.compacted(kind, number)
    said = [(lake.root / file.path, file.rows) for file in files]
    rows = _write(target, kind, _read(said, kind, counter))
    start_us, end_us = min(f.start_us for f in files), max(f.end_us for f in files)
    written = DataFile(table, lake.layout.relative(target), rows, start_us, end_us)
    return Merged(written, tuple(file.path for file in files))


def _join(lake: Lake, table: str, number: int, run: _Run, counter: _Counter) -> BatchRun:
    """Newest batch first, so that of equal keys the newest stays the first, as it is for readers of batches.

    Raises:
        IngestError: a batch has columns of other names, whose values would be lost.
    """
    kind = lake.table(table)
    target = lake.layout.compacted(kind, number)
    paths = [path for folder in reversed(run.folders) for path in batch_files(folder)]
    said = [(path, _metadata(path).num_rows) for path in paths]
    span = _Span(kind.time)
    refuse_older(lake.root, kind, map(lake.layout.relative, paths))
    rows = _write(target, kind, map(span.seen, _read(said, kind, counter)))
    counter.done += len(run.folders) - len(paths)
    through, replaces = int(run.folders[-1].name), tuple(map(lake.layout.relative, paths))
    if rows == 0:
        target.unlink()
        return BatchRun(run.job, through, None, replaces)
    file = DataFile(table, lake.layout.relative(target), rows, span.start_us, span.end_us)
    return BatchRun(run.job, through, file, replaces)


@dataclass(slots=True)
class _Span:
    """The stretch of time of the rows that passed by."""

    time: str
    start_us: int = 1 << 62
    end_us: int = -(1 << 62)

    def seen(self, rows: pa.Table) -> pa.Table:
        if rows.num_rows:
            span = pc.min_max(rows[self.time].cast(pa.int64()))
            self.start_us = min(self.start_us, span["min"].as_py())
            self.end_us = max(self.end_us, span["max"].as_py())
        return rows


def _read(files: Sequence[tuple[Path, int]], kind: Table, counter: _Counter) -> Iterator[pa.Table]:
    """Rows of files in order, in the table's present schema, some files at a time.

    Raises:
        DamagedLake: a file cannot be read, or does not hold as many rows as is said of it.
    """
    for chosen in _at_once(files):
        try:
            read = ds.dataset([str(path) for path, _ in chosen], schema=kind.schema).to_table()
        except (pa.ArrowInvalid, OSError) as error:
            raise DamagedLake(chosen[0][0].parent, str(error)) from error
        if read.num_rows != sum(rows for _, rows in chosen):
            _refuse_other_counts(chosen)
        for _ in chosen:
            counter.one_more()
        yield read


def _at_once(files: Sequence[tuple[Path, int]]) -> Iterator[list[tuple[Path, int]]]:
    held: list[tuple[Path, int]] = []
    for file in files:
        if held and (len(held) == FILES_AT_ONCE or sum(rows for _, rows in held) + file[1] > GROUP_ROWS):
            yield held
            held = []
        held.append(file)
    if held:
        yield held


def _refuse_other_counts(files: Sequence[tuple[Path, int]]) -> None:
    for path, said in files:
        if (rows := _metadata(path).num_rows) != said:
            raise DamagedLake(path, f"it holds {rows} rows, its link says {said}")


def _write(target: Path, kind: Table, tables: Iterable[pa.Table]) -> int:
    """Write a file that appears under its name when it is whole and on disk; how many rows it holds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}")
    rows = 0
    with pq.ParquetWriter(unfinished, kind.schema, compression="zstd") as writer:
        for group in _groups(tables):
            writer.write_table(group, row_group_size=GROUP_ROWS)
            rows += group.num_rows
    for path in (unfinished, target.parent):
        _flush(path)
    unfinished.replace(target)
    _flush(target.parent)
    return rows


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(t.num_rows for t in held) >= GROUP_ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
