"""The lake: tables as parquet files, and which of those files count.

A file counts when a link, a finished batch or a range manifest names it; any other file is an orphan of a writer that
died, and is never read. Compaction puts one file in the place of many; a horizon says which rows have expired.
`ingest.lake.layout` says where everything lies.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.lake import manifests as journal
from ingest.lake.arrow_dataset import ds
from ingest.lake.checkpoints import is_newest
from ingest.lake.commit_log import Chains
from ingest.lake.commits import Ends
from ingest.lake.layout import (
    BatchRun,
    DataFile,
    Horizon,
    Layout,
    LinkFacts,
    Part,
    batch_files,
    finished_batches,
    local_folder,
    parse_range,
    unsupported_lake,
)
from ingest.lake.log_replay import History
from ingest.lake.row_filter import (
    EPOCH,
    FOREVER,
    between,
    condition,
    each_key_once,
    microseconds,
    needed_schema,
    within,
)
from ingest.lake.topic_ids import TopicIds
from ingest.schema.atomic_file import create_exclusively
from ingest.schema.errors import DamagedLake, IngestError
from ingest.schema.provenance import BatchId, Link, checked_name
from ingest.schema.tables import TIMESTAMP, Table

PIECE_ROWS = 20_000
GENTLY = {"batch_size": PIECE_ROWS, "batch_readahead": 2, "fragment_readahead": 1, "use_threads": False}
"""How pieces are scanned: nothing much beyond the one at hand is in memory."""


@dataclass
class Lake:
    """Tables under one root folder. Open with `Lake.open`."""

    root: Path
    tables: Mapping[str, Table]
    _history: History | None = field(default=None, repr=False)

    @cached_property
    def layout(self) -> Layout:
        """Where things lie."""
        return Layout(self.root)

    @cached_property
    def ends(self) -> Ends:
        """How far each partition was landed."""
        return Ends(self.layout)

    @cached_property
    def topic_ids(self) -> TopicIds:
        """Which topic of each name is ingested."""
        return TopicIds(self.layout)

    @property
    def chains(self) -> Chains:
        """Which stretches of which partitions were landed."""
        return self.history().chains

    def history(self) -> History:
        """What all links and manifests say; begun anew where there is a newer checkpoint, so that it never grows."""
        if self._history is None or not is_newest(self.layout, self._history.found):
            self._history = History.begun(self.layout)
        return self._history

    @staticmethod
    def open(uri: str | Path, tables: Mapping[str, Table]) -> "Lake":
        """Open or create a lake.

        Args:
            uri: a folder, or file:///folder.
            tables: the tables that may lie in it, by name.

        Raises:
            IngestError: the file system has no atomic create-if-absent.
        """
        lake = Lake(local_folder(str(uri)), tables)
        lake._refuse_unless_exclusive(str(uri))
        return lake

    def append(self, table: str, batch: pa.Table, origin: Link | BatchId) -> tuple[DataFile, ...]:
        """Write a batch. Rows of a Link count once `commit` names their files; a BatchId counts at once, and once only.

        Args:
            table: name of the table.
            batch: rows in the table's schema.
            origin: where the rows come from.

        Returns:
            The files written; empty for a batch without rows or one already written.
        """
        rows = batch.select(self.table(table).schema.names).cast(self.table(table).schema)
        if isinstance(origin, BatchId):
            return self._append_batch(table, rows, origin)
        stem = f"{origin.topic}-{origin.partition}-{origin.start:020d}-{uuid.uuid4().hex}"
        return tuple(self._write_hours(table, rows, stem))

    def commit(
        self,
        link: Link,
        files: Sequence[DataFile],
        *,
        kind: Literal["batch", "gap"] = "batch",
        unknown_fields: Mapping[str, int] | None = None,
    ) -> None:
        """Make a landed stretch count: exactly one writer wins each start.

        Raises:
            LinkTaken: another writer landed this start; the files stay orphans.
            IngestError: the chain does not end at this start.
        """
        self.ends.commit(link, files, kind=kind, unknown_fields=unknown_fields or {})

    def position(self, topic: str, partition: int) -> int | None:
        """Where the chain of a partition ends, hence the next offset to read; None when nothing was landed."""
        return self.ends.end(topic, partition)

    def chain(self, topic: str, partition: int) -> Iterator[tuple[Link, LinkFacts]]:
        """Every link of a partition in order."""
        return self.chains.links(topic, partition)

    def partitions(self) -> list[tuple[str, int]]:
        """Every (topic, partition) that has a chain."""
        return self.chains.partitions()

    def landed_rows(self, table: str) -> int:
        """Rows of a table that were landed, duplicates included."""
        return sum(file.rows for file in self.counting(table))

    def span(self, table: str) -> tuple[int, int] | None:
        """The first and the last time of a table's landed rows, microseconds since 1970; None where there are none."""
        files, horizon_us = self.counting(table), self.horizon_us(table)
        if not files:
            return None
        return max(min(f.start_us for f in files), horizon_us), max(f.end_us for f in files)

    def unknown_fields(self) -> Counter[str]:
        """How often each field outside the catalogue was seen in all that was landed."""
        return self.chains.unknown_fields()

    def batch_path(self, table: str, job: str, batch_id: int) -> Path:
        """Folder a streaming batch writes parquet into; it counts once it holds `_SUCCESS`, as Spark leaves it."""
        return self.layout.batch(self.table(table).name, job, batch_id)

    def batch_rows(self, table: str, job: str, batch_id: int) -> int:
        """Rows of a finished streaming batch."""
        return sum(pq.read_metadata(path).num_rows for path in batch_files(self.batch_path(table, job, batch_id)))

    def stage(self, table: str, job: str) -> Path:
        """A new folder that a job writes parquet files into, to hand to `replace`; they do not count before."""
        return self.layout.staged(self.table(table).name, job)

    def replace(self, table: str, start: datetime, end: datetime, job: str, batch: pa.Table | Path) -> int:
        """Put `batch` in the place of all rows of `job` whose time lies in [start, end); all at once.

        Args:
            table: name of the table.
            start: first time, inclusive.
            end: last time, exclusive.
            job: whose rows are replaced; rows of other jobs stay.
            batch: the rows, or a folder from `stage` that holds them.

        Returns:
            Rows written.

        Raises:
            IngestError: the batch holds rows outside [start, end).
        """
        kind = self.table(table)
        own = batch if isinstance(batch, Path) else batch.select(kind.schema.names).cast(kind.schema)
        rows = ds.dataset(own, schema=kind.schema)
        count, inside = rows.count_rows(), rows.count_rows(filter=within(kind.time, start, end))
        if count != inside:
            raise IngestError(
                f"{count - inside} rows of {table!r} lie outside the stretch they would replace: filter the batch first"
            )
        paths = self._staged_files(batch) if isinstance(batch, Path) else self._new_files(table, rows.to_table(), job)
        while not self._swap_range(table, job, Part(paths, microseconds(start), microseconds(end))):
            pass
        return int(count)

    def read(
        self,
        table: str,
        start: datetime = EPOCH,
        end: datetime = FOREVER,
        columns: Sequence[str] | None = None,
        *,
        nodes: Sequence[str] | None = None,
        as_of: datetime | None = None,
    ) -> pa.Table:
        """Rows whose time lies in [start, end), each key once (of duplicates the lowest topic, partition, offset).

        Args:
            table: name of the table.
            start: first time, inclusive.
            end: last time, exclusive.
            columns: columns to return; all by default.
            nodes: only these nodes.
            as_of: only rows that had arrived by then.

        Returns:
            Rows sorted by the table's time, then by its key.
        """
        kind = self.table(table)
        wanted = list(columns) if columns is not None else kind.schema.names
        wanted_rows = condition(kind, self._unexpired(table, start), end, nodes=nodes, as_of=as_of)
        needed = needed_schema(kind, wanted)
        parts = [self._read_part(part, kind, wanted_rows, needed.names) for part in self.parts(table, start, end)]
        return each_key_once(pa.concat_tables([needed.empty_table(), *parts]), kind).select(wanted)

    def rows(
        self,
        table: str,
        start: datetime,
        end: datetime,
        columns: Sequence[str] | None = None,
        *,
        nodes: Sequence[str] | None = None,
    ) -> pa.Table:
        """Rows whose time lies in [start, end), in no order, duplicates still in: for jobs that sort by themselves."""
        kind = self.table(table)
        names = list(columns) if columns is not None else kind.schema.names
        wanted = condition(kind, self._unexpired(table, start), end, nodes=nodes, as_of=None)
        parts = [self._read_part(part, kind, wanted, names) for part in self.parts(table, start, end)]
        return pa.concat_tables([kind.schema.empty_table().select(names), *parts])

    def pieces(self, table: str, columns: Sequence[str] | None = None, end: datetime = FOREVER) -> Iterator[pa.Table]:
        """Rows of before a time, in pieces of at most PIECE_ROWS, in no order, with duplicates: for more than memory.

        Raises:
            DamagedLake: a file cannot be read.
        """
        kind = self.table(table)
        wanted = within(kind.time, self._unexpired(table, EPOCH), end)
        names = list(columns) if columns is not None else kind.schema.names
        try:
            for part in self.parts(table, EPOCH, end):
                rows = self._dataset(part, kind).to_batches(filter=wanted & _span(part, kind), columns=names, **GENTLY)
                yield from (pa.Table.from_batches([batch]) for batch in rows if batch.num_rows)
        except (pa.ArrowInvalid, OSError) as error:
            raise DamagedLake(self.root, str(error)) from error

    def count(self, table: str, start: datetime, end: datetime) -> int:
        """Rows of the files that overlap [start, end), duplicates included: how much there is to read.

        Raises:
            DamagedLake: a file cannot be read.
        """
        files = self.files(table, start, end)
        try:
            return sum(pq.read_metadata(path).num_rows for path in files)
        except (pa.ArrowInvalid, OSError) as error:
            raise DamagedLake(self.root, str(error)) from error

    def files(self, table: str, start: datetime = EPOCH, end: datetime = FOREVER) -> list[str]:
        """Absolute paths of the files that count and overlap [start, end); duplicates and edges are the reader's.

        Raises:
            IngestError: a file has columns of other names.
        """
        kind, parts = self.table(table), list(self.parts(table, start, end))
        for part in parts:
            refuse_older(self.root, kind, part.paths[:1])
        return [str(self.root / path) for part in parts for path in part.paths]

    def landed_folder(self, table: str) -> Path:
        """Folder below which landed rows of a table lie, for a stream to follow; orphans repeat rows, never add any."""
        folder = self.layout.data(self.table(table))
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def table(self, name: str) -> Table:
        """The table's facts."""
        if name not in self.tables:
            raise IngestError(f"no table {name!r}; tables are {', '.join(sorted(self.tables))}")
        return self.tables[name]

    def counting(self, table: str) -> list[DataFile]:
        """Landed files that count: those that links name, or the compacted file in their place; none that expired."""
        if not self.table(table).is_landed:
            return []  # following every chain would take time and memory without end, and find none
        history = self.history()
        named = history.chains.files(table)  # before the manifests: what they replace was named before
        merged = [merged for compaction in history.compacted(table).compactions for merged in compaction.merged]
        replaced = {path for one in merged for path in one.replaces}
        horizon_us = self.horizon_us(table)
        files = (*named, *(one.file for one in merged))
        return [file for file in files if file.end_us >= horizon_us and file.path not in replaced]

    def batch_runs(self, table: str, job: str) -> list[BatchRun]:
        """Every run of a job's batches that was compacted, oldest first."""
        compactions = self.history().compacted(table).compactions
        return [run for compaction in compactions for run in compaction.runs if run.job == job]

    def compacted_through(self, table: str, job: str) -> int:
        """The newest batch of a job whose rows lie in a compacted file; -1 where none does."""
        return max((run.through for run in self.batch_runs(table, job)), default=-1)

    def horizon_us(self, table: str) -> int:
        """Rows before this moment have expired, microseconds since 1970."""
        path = journal.newest(self.layout.horizons(table))[1]
        return journal.parsed(path, Horizon.parse).before_us if path else 0

    def jobs(self, table: str) -> list[str]:
        """Jobs that wrote streaming batches of a table."""
        return sorted(path.name for path in self.layout.batches(table).glob("*") if path.is_dir())

    def range_parts(self, table: str) -> Iterator[Part]:
        """What the newest range manifest of each job names, expired stretches included."""
        for folder in sorted(path for path in self.layout.ranges(table).glob("*") if path.is_dir()):
            yield from (part for part in self._ranges(folder)[1] if part.paths)

    def _unexpired(self, table: str, start: datetime) -> datetime:
        return max(start, EPOCH + timedelta(microseconds=self.horizon_us(table)))

    def parts(self, table: str, start: datetime, end: datetime) -> Iterator[Part]:
        """Every set of files that counts, newest kind first: ranges, then batches, then landed links."""
        low, high = microseconds(self._unexpired(table, start)), microseconds(end)
        yield from (part for part in self.range_parts(table) if part.start_us < high and part.end_us > low)
        for job in self.jobs(table):
            yield from self._batch_parts(table, job)
        landed = tuple(f.path for f in self.counting(table) if f.start_us < high and f.end_us >= low)
        if landed:
            yield Part(landed)

    def _batch_parts(self, table: str, job: str) -> Iterator[Part]:
        """Batches that are not compacted, newest first, then what was compacted, newest first."""
        runs, horizon_us = self.batch_runs(table, job), self.horizon_us(table)
        replaced = {path for run in runs for path in run.replaces}
        for folder in finished_batches(self.layout.batches(table) / job):
            names = map(self.layout.relative, batch_files(folder))
            if files := tuple(name for name in names if name not in replaced):
                yield Part(files)
        yield from (Part((r.file.path,)) for r in reversed(runs) if r.file and r.file.end_us >= horizon_us)

    def _read_part(self, part: Part, kind: Table, wanted: ds.Expression, columns: Sequence[str]) -> pa.Table:
        try:
            return self._dataset(part, kind).to_table(list(columns), filter=wanted & _span(part, kind))
        except (pa.ArrowInvalid, OSError) as error:
            raise DamagedLake(self.root, str(error)) from error

    def _dataset(self, part: Part, kind: Table) -> ds.Dataset:
        refuse_older(self.root, kind, part.paths[:1])  # a part is of one job
        return ds.dataset([str(self.root / path) for path in part.paths], schema=kind.schema)

    def _write_hours(self, table: str, rows: pa.Table, stem: str) -> Iterator[DataFile]:
        kind = self.table(table)
        hours = pc.floor_temporal(rows[kind.time], unit="hour")
        for hour in pc.unique(hours).sort().to_pylist():
            part = rows.filter(pc.equal(hours, pa.scalar(hour, TIMESTAMP)))
            yield self._write_file(kind, part, self.layout.hour(kind, hour) / f"{stem}.parquet")

    def _write_file(self, kind: Table, rows: pa.Table, target: Path) -> DataFile:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}")
        pq.write_table(rows, unfinished, compression="zstd")
        unfinished.replace(target)
        span = pc.min_max(rows[kind.time].cast(pa.int64()))
        return DataFile(
            kind.name, self.layout.relative(target), rows.num_rows, span["min"].as_py(), span["max"].as_py()
        )

    def _append_batch(self, table: str, rows: pa.Table, origin: BatchId) -> tuple[DataFile, ...]:
        folder = self.batch_path(table, origin.job, origin.batch)
        if origin.batch <= self.compacted_through(table, origin.job) or (folder / "_SUCCESS").exists():
            return ()
        name = folder / f"part-{uuid.uuid4().hex}.parquet"
        files = (self._write_file(self.table(table), rows, name),) if rows.num_rows else ()
        marked = create_exclusively(folder / "_SUCCESS", name.name.encode() if files else b"\n")
        if not marked:
            name.unlink(missing_ok=True)
        return files if marked else ()

    def _new_files(self, table: str, rows: pa.Table, job: str) -> tuple[str, ...]:
        files = self._write_hours(table, rows, f"{checked_name(job)}-{uuid.uuid4().hex}")
        return tuple(file.path for file in files)

    def _staged_files(self, folder: Path) -> tuple[str, ...]:
        return tuple(self.layout.relative(path) for path in sorted(folder.glob("*.parquet")))

    def _swap_range(self, table: str, job: str, added: Part) -> bool:
        folder = self.layout.ranges(table) / checked_name(job)
        number, entries = self._ranges(folder)
        kept = [rest for entry in entries for rest in entry.without(added.start_us, added.end_us)]
        content = msgspec.json.encode([*kept, added])
        return journal.add(folder, number + 1, content)

    def _ranges(self, folder: Path) -> tuple[int, list[Part]]:
        number, newest = journal.newest(folder)
        return number, journal.parsed(newest, parse_range) if newest else []

    def _refuse_unless_exclusive(self, uri: str) -> None:
        probe = self.root / f".probe-{uuid.uuid4().hex}"
        try:
            won = [create_exclusively(probe, b"") for _ in range(2)]
        except OSError as error:
            raise unsupported_lake(uri, f"creating a file only if absent failed ({error.strerror})") from error
        probe.unlink()
        if won != [True, False]:
            raise unsupported_lake(uri, "creating a file twice succeeded twice")


def refuse_older(root: Path, kind: Table, paths: Iterable[str]) -> None:
    """Refuse files of a computed table in which columns have other names: these would read as missing.

    Args:
        root: of the lake.
        kind: the table as it is now.
        paths: of its files, from the root.

    Raises:
        IngestError: there is one; raw tables are never refused, since columns are only added to them.
    """
    known = frozenset(kind.schema.names)
    if not kind.is_landed and any(_older(str(root / path), known) for path in paths):
        again = "cohabit bill judge" if kind.name == "slowed" else "cohabit features"
        raise IngestError(
            f"table {kind.name} of lake {root} was written by another version, with columns of other names: compute it "
            f"again with `{again}`; remove hours whose raw records have expired with `cohabit lake expire`"
        )


@lru_cache(maxsize=1 << 16)
def _older(path: str, known: frozenset[str]) -> bool:
    """Whether columns of a file were renamed since: it has some that are not known, and lacks some that are."""
    try:
        names = {*pq.read_schema(path).names}
    except (pa.ArrowInvalid, OSError):
        return False  # the reader says so
    return bool(names - known and known - names)


def _span(part: Part, kind: Table) -> ds.Expression:
    return between(kind.time, part.start_us, part.end_us)
