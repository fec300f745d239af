"""Data files of a table: how they are called, what is said of them in the log, and how rows become files. An edge.

    date=YYYY-MM-DD/hour=H/<id>.parquet             rows of streams, by the hour of their time
    ranges/<job>/<start>_<end>/<id>.parquet         what a job put in the place of all its rows of [start, end)
    batches/<job>/<number>/<id>.parquet             one numbered batch of a job

Start and end are microseconds since 1970. Streamed tables keep the folders of date and hour below those of a job too.
"""

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.schema.provenance import checked_name
from ingest.schema.tables import TIMESTAMP, Table

HOUR_US = 3_600_000_000
GROUP_ROWS = 1 << 17
"""Rows held in memory at once, and of one row group."""
_RANGE = re.compile(r"ranges/([^/]+)/(-?\d+)_(-?\d+)/")
_BATCH = re.compile(r"batches/([^/]+)/(\d+)/")
_OURS = re.compile(r"(?:.*/)?[0-9a-f]{32}\.parquet")
FOREIGN = "another engine wrote it, so rows may be there twice"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table, as the log describes it.

    Args:
        path: below the table's folder.
        rows: in it, duplicates included.
        size_bytes: its length.
        written_ms: when it was written, milliseconds since 1970.
        start_us: first time of its rows, or up to 1 ms before, microseconds since 1970.
        end_us: last time of its rows, or up to 1 ms after.
        partition: values of the partition columns, as the log writes them.
        stats: what else is known of its rows, as the log writes it.
    """

    path: str
    rows: int
    size_bytes: int
    written_ms: int
    start_us: int
    end_us: int
    partition: Mapping[str, str | None] = field(default_factory=dict)
    stats: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows of a file come from: a job's range or batch; streams where there is no job.

    Args:
        job: the job.
        start_us: of a range, microseconds since 1970.
        end_us: of a range.
        batch: number of the batch.
    """

    job: str = ""
    start_us: int | None = None
    end_us: int | None = None
    batch: int | None = None

    @property
    def folder(self) -> str:
        """Of its files, with a slash at the end."""
        if self.batch is not None:
            return f"batches/{checked_name(self.job)}/{self.batch}/"
        return f"ranges/{checked_name(self.job)}/{self.start_us}_{self.end_us}/" if self.job else ""


STREAMS = Origin()


def origin_of(path: str) -> Origin:
    """What a file's path says."""
    if found := _RANGE.match(path):
        return Origin(found[1], int(found[2]), int(found[3]))
    if found := _BATCH.match(path):
        return Origin(found[1], batch=int(found[2]))
    return STREAMS


def is_ours(path: str) -> bool:
    """Whether a file is called as Cohabit calls them: OPTIMIZE of another engine forgets whose rows are in one."""
    return _OURS.fullmatch(path) is not None


def precedence(file: DataFile) -> tuple[int, str, int, str]:
    """Order in which files are read, since of equal keys the first row counts: ranges, newest batches, streams."""
    origin = origin_of(file.path)
    if origin.batch is not None:
        return 1, origin.job, -origin.batch, file.path
    return (0, origin.job, origin.start_us or 0, file.path) if origin.job else (2, "", file.start_us, file.path)


def partition_columns(kind: Table) -> list[str]:
    """Columns by which a table's files are apart: date and hour of streamed rows."""
    return ["date", "hour"] if kind.is_landed else []


def stats_columns(kind: Table) -> list[str]:
    """Columns of which the log says the least and greatest value of each file."""
    return [name for name in dict.fromkeys((kind.time, "arrived_at", "partition", "offset")) if name in kind.by_name]


def by_hour(kind: Table, rows: pa.Table) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Rows apart by their partition's values; all together where a table has none."""
    if not kind.is_landed:
        yield {}, rows
        return
    hours = pc.floor_temporal(rows[kind.time], unit="hour")
    for hour in pc.unique(hours).sort().to_pylist():
        part = rows.filter(pc.equal(hours, pa.scalar(hour, TIMESTAMP)))
        yield {"date": f"{hour:%Y-%m-%d}", "hour": str(hour.hour)}, part


def new_path(origin: Origin, partition: Mapping[str, str | None]) -> str:
    """A path that no other file has."""
    folders = "".join(f"{name}={value}/" for name, value in partition.items())
    return f"{origin.folder}{folders}{uuid.uuid4().hex}.parquet"


def write(target: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write rows into one local file, some at a time.

    Measured values hardly ever repeat: a dictionary of them makes files larger, and takes five times as long to write.
    """
    repeating = [one.name for one in schema if not pa.types.is_floating(one.type) and one.name != "offset"]
    with pq.ParquetWriter(target, schema, compression="zstd", use_dictionary=repeating) as writer:
        for group in _groups(tables):
            writer.write_table(group, row_group_size=GROUP_ROWS)


def described(local: Path, path: str, kind: Table, partition: Mapping[str, str | None]) -> DataFile:
    """What the log is to say of a local file, by its footer.

    Raises:
        pa.ArrowInvalid, OSError: it cannot be read.
    """
    footer, about = pq.read_metadata(local), local.stat()
    spans = {name: span for name in stats_columns(kind) if (span := _span(local, footer, name))}
    stats = {
        "numRecords": footer.num_rows,
        "minValues": {name: _bound(kind, name, span[0], 1) for name, span in spans.items()},
        "maxValues": {name: _bound(kind, name, span[1], -1) for name, span in spans.items()},
        "nullCount": dict.fromkeys(spans, 0),
    }
    low, high = spans.get(kind.time, (0, -1))
    return DataFile(
        path,
        footer.num_rows,
        about.st_size,
        about.st_mtime_ns // 1_000_000,
        low // 1000 * 1000,
        -(-high // 1000) * 1000,
        partition,
        json.dumps(stats),
    )


def _span(local: Path, footer: pq.FileMetaData, name: str) -> tuple[int, int] | None:
    """Least and greatest value of a column of whole numbers or times; by its rows where the footer lacks them."""
    column = next((i for i in range(footer.num_columns) if footer.schema.column(i).name == name), None)
    if column is None or footer.num_rows == 0:
        return None
    found = [footer.row_group(i).column(column).statistics for i in range(footer.num_row_groups)]
    if all(one is not None and one.has_min_max for one in found):
        return min(one.min_raw for one in found), max(one.max_raw for one in found)
    values = pq.read_table(local, columns=[name])[name]
    span = pc.min_max(values.cast(TIMESTAMP).cast(pa.int64()) if pa.types.is_timestamp(values.type) else values)
    return (span["min"].as_py(), span["max"].as_py()) if span["min"].is_valid else None


def _bound(kind: Table, name: str, value: int, step: int) -> int | str:
    """A least value with step 1, a greatest one with step -1: times of the log have milliseconds only."""
    if kind.by_name[name].type != TIMESTAMP:
        return value
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=step * value // 1000 * step)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(t.num_rows for t in held) >= GROUP_ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)
