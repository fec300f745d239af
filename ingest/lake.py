"""The lake: tables as parquet files, and which of those files count. The only module that knows file layout.

A file counts when a link, a finished batch or a range manifest names it; any other file is an orphan of a writer that
died, and is never read. Layout below the root:

    data/<table>/v<version>/date=YYYY-MM-DD/hour=HH/*.parquet      rows of landed batches and of replaced ranges
    links/<topic>/<partition>/<start>.json                         one landed stretch: its end and its files
    batches/<table>/<job>/<batch>/*.parquet, _SUCCESS              one streaming batch of a job
    staged/<table>/<job>-<id>/*.parquet                            rows of replaced ranges that a job wrote by itself
    ranges/<table>/<job>/<n>.json                                  which files hold which time; the newest n counts
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ingest.atomic import create_exclusively
from ingest.errors import BrokenChain, DamagedLake, LinkTaken, RowsOutsideRange, UnknownTable, UnsupportedLake
from ingest.origin import BatchId, Link, checked_name
from ingest.schema import TIMESTAMP, Table
from ingest.selection import EPOCH, FOREVER, between, condition, each_key_once, microseconds, needed_schema, within


@dataclass(frozen=True, slots=True)
class DataFile:
    """One parquet file and the stretch of time [start, end] its rows lie in, microseconds since 1970."""

    table: str
    path: str
    rows: int
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """What a link's file holds: where it ends, what it landed, and what it saw."""

    end: int
    kind: Literal["batch", "gap"]
    files: tuple[DataFile, ...]
    unknown_fields: dict[str, int]

    @staticmethod
    def parse(content: bytes) -> "LinkFacts":
        """Read a link's JSON."""
        facts = json.loads(content)
        files = tuple(DataFile(**file) for file in facts.pop("files"))
        return LinkFacts(files=files, **facts)


@dataclass
class Lake:
    """Tables under one root folder. Open with `Lake.open`."""

    root: Path
    tables: Mapping[str, Table]
    _links: dict[Path, LinkFacts] = field(default_factory=dict, repr=False)
    _ends: dict[tuple[str, int], int] = field(default_factory=dict, repr=False)

    @staticmethod
    def open(uri: str | Path, tables: Mapping[str, Table]) -> "Lake":
        """Open or create a lake.

        Args:
            uri: a folder, or file:///folder.
            tables: the tables that may lie in it, by name.

        Raises:
            UnsupportedLake: the file system has no atomic create-if-absent.
        """
        lake = Lake(_local_folder(str(uri)), tables)
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
            LinkTaken: somebody landed this start; the files stay orphans.
            BrokenChain: the chain does not end at this start.
        """
        end = self.position(link.topic, link.partition) or 0
        if end > link.start:
            raise LinkTaken(link.topic, link.partition, link.start)
        if end < link.start:
            raise BrokenChain(link.topic, link.partition, link.start, end)
        facts = {
            "end": link.end,
            "kind": kind,
            "files": [asdict(f) for f in files],
            "unknown_fields": dict(unknown_fields or {}),
        }
        if not create_exclusively(self._link_path(link.topic, link.partition, link.start), json.dumps(facts).encode()):
            raise LinkTaken(link.topic, link.partition, link.start)

    def position(self, topic: str, partition: int) -> int | None:
        """Where the chain of a partition ends, hence the next offset to read; None when nothing was landed."""
        end = self._ends.get((topic, partition))
        if end is None:
            starts = [int(path.stem) for path in self._link_path(topic, partition, 0).parent.glob("[0-9]*.json")]
            if not starts:
                return None
            end = max(starts)
        while (path := self._link_path(topic, partition, end)).exists() and (facts := self._link(path)).end > end:
            end = facts.end
        self._ends[topic, partition] = end
        return end

    def chain(self, topic: str, partition: int) -> Iterator[tuple[Link, LinkFacts]]:
        """Every link of a partition in order."""
        for path in sorted(self._link_path(topic, partition, 0).parent.glob("[0-9]*.json")):
            facts = self._link(path)
            yield Link(topic, partition, int(path.stem), facts.end), facts

    def partitions(self) -> list[tuple[str, int]]:
        """Every (topic, partition) that has a chain."""
        return sorted((p.parent.name, int(p.name)) for p in (self.root / "links").glob("*/*") if p.is_dir())

    def landed_rows(self, table: str) -> int:
        """Rows of a table that were landed, duplicates included."""
        return sum(file.rows for file in self._landed(table))

    def span(self, table: str) -> tuple[int, int] | None:
        """The first and the last time of a table's landed rows, microseconds since 1970; None where there are none."""
        files = list(self._landed(table))
        return (min(f.start_us for f in files), max(f.end_us for f in files)) if files else None

    def unknown_fields(self) -> Counter[str]:
        """How often each field outside the catalogue was seen in all that was landed."""
        seen: Counter[str] = Counter()
        for topic, partition in self.partitions():
            for _, facts in self.chain(topic, partition):
                seen.update(facts.unknown_fields)
        return seen

    def batch_path(self, table: str, job: str, batch_id: int) -> Path:
        """Folder a streaming batch writes parquet into; it counts once it holds `_SUCCESS`, as Spark leaves it."""
        return self.root / "batches" / self.table(table).name / checked_name(job) / f"{batch_id:012d}"

    def batch_rows(self, table: str, job: str, batch_id: int) -> int:
        """Rows of a finished streaming batch."""
        paths = [str(self.root / path) for path in self._batch_files(self.batch_path(table, job, batch_id))]
        return sum(pq.read_metadata(path).num_rows for path in paths)

    def stage(self, table: str, job: str) -> Path:
        """A new folder that a job writes parquet files into, to hand to `replace`; they do not count before."""
        return self.root / "staged" / self.table(table).name / f"{checked_name(job)}-{uuid.uuid4().hex}"

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
            RowsOutsideRange: the batch holds rows outside [start, end).
        """
        kind = self.table(table)
        own = batch if isinstance(batch, Path) else batch.select(kind.schema.names).cast(kind.schema)
        rows = ds.dataset(own, schema=kind.schema)
        count, inside = rows.count_rows(), rows.count_rows(filter=within(kind.time, start, end))
        if count != inside:
            raise RowsOutsideRange(table, count - inside)
        paths = self._staged_files(batch) if isinstance(batch, Path) else self._new_files(table, rows.to_table(), job)
        while not self._swap_range(table, job, _Part(paths, microseconds(start), microseconds(end))):
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
        wanted_rows = condition(kind, start, end, nodes=nodes, as_of=as_of)
        needed = needed_schema(kind, wanted)
        parts = [self._read_part(part, kind, wanted_rows, needed.names) for part in self._parts(table, start, end)]
        return each_key_once(pa.concat_tables([needed.empty_table(), *parts]), kind).select(wanted)

    def rows(self, table: str, start: datetime, end: datetime) -> pa.Table:
        """Rows whose time lies in [start, end), in no order, duplicates still in: for jobs that sort by themselves."""
        kind = self.table(table)
        wanted = within(kind.time, start, end)
        parts = [self._read_part(part, kind, wanted, kind.schema.names) for part in self._parts(table, start, end)]
        return pa.concat_tables([kind.schema.empty_table(), *parts])

    def count(self, table: str, start: datetime, end: datetime) -> int:
        """Rows of the files that overlap [start, end), duplicates included: how much there is to read."""
        return sum(pq.read_metadata(path).num_rows for path in self.files(table, start, end))

    def files(self, table: str, start: datetime = EPOCH, end: datetime = FOREVER) -> list[str]:
        """Absolute paths of the files that count and overlap [start, end); duplicates and edges are the reader's."""
        return [str(self.root / path) for part in self._parts(table, start, end) for path in part.paths]

    def landed_folder(self, table: str) -> Path:
        """Folder below which landed rows of a table lie, for a stream to follow; orphans repeat rows, never add any."""
        kind = self.table(table)
        folder = self.root / "data" / kind.name / f"v{kind.version}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def table(self, name: str) -> Table:
        """The table's facts."""
        if name not in self.tables:
            raise UnknownTable(name, sorted(self.tables))
        return self.tables[name]

    def _parts(self, table: str, start: datetime, end: datetime) -> Iterator["_Part"]:
        """Every set of files that counts, newest kind first: ranges, then batches, then landed links."""
        low, high = microseconds(start), microseconds(end)
        for job in sorted(self._folders("ranges", table)):
            for entry in self._ranges(job)[1]:
                if entry.start_us < high and entry.end_us > low and entry.paths:
                    yield entry
        for job in sorted(self._folders("batches", table)):
            done = sorted((p.parent for p in job.glob("[0-9]*/_SUCCESS")), reverse=True)
            yield from (_Part(files) for batch in done if (files := self._batch_files(batch)))
        landed = tuple(f.path for f in self._landed(table) if f.start_us < high and f.end_us >= low)
        if landed:
            yield _Part(landed)

    def _landed(self, table: str) -> Iterator[DataFile]:
        for topic, partition in self.partitions():
            for _, facts in self.chain(topic, partition):
                yield from (f for f in facts.files if f.table == table)

    def _batch_files(self, folder: Path) -> tuple[str, ...]:
        marker = (folder / "_SUCCESS").read_text()
        names = marker.split() if marker else [path.name for path in sorted(folder.glob("*.parquet"))]
        return tuple(str((folder / name).relative_to(self.root)) for name in names)

    def _read_part(self, part: "_Part", kind: Table, wanted: ds.Expression, columns: Sequence[str]) -> pa.Table:
        paths = [str(self.root / path) for path in part.paths]
        span = between(kind.time, part.start_us, part.end_us)
        try:
            return ds.dataset(paths, schema=kind.schema).to_table(list(columns), filter=wanted & span)
        except (pa.ArrowInvalid, OSError) as error:
            raise DamagedLake(self.root, str(error)) from error

    def _write_hours(self, table: str, rows: pa.Table, stem: str) -> Iterator[DataFile]:
        kind = self.table(table)
        hours = pc.floor_temporal(rows[kind.time], unit="hour")
        for hour in pc.unique(hours).sort().to_pylist():
            part = rows.filter(pc.equal(hours, pa.scalar(hour, TIMESTAMP)))
            folder = Path("data", table, f"v{kind.version}", f"date={hour:%Y-%m-%d}", f"hour={hour:%H}")
            yield self._write_file(kind, part, folder / f"{stem}.parquet")

    def _write_file(self, kind: Table, rows: pa.Table, path: Path) -> DataFile:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}")
        pq.write_table(rows, unfinished, compression="zstd")
        unfinished.replace(target)
        span = pc.min_max(rows[kind.time].cast(pa.int64()))
        return DataFile(kind.name, str(path), rows.num_rows, span["min"].as_py(), span["max"].as_py())

    def _append_batch(self, table: str, rows: pa.Table, origin: BatchId) -> tuple[DataFile, ...]:
        folder = self.batch_path(table, origin.job, origin.batch)
        if (folder / "_SUCCESS").exists():
            return ()
        name = folder.relative_to(self.root) / f"part-{uuid.uuid4().hex}.parquet"
        files = (self._write_file(self.table(table), rows, name),) if rows.num_rows else ()
        marked = create_exclusively(folder / "_SUCCESS", name.name.encode() if files else b"\n")
        if not marked:
            (self.root / name).unlink(missing_ok=True)
        return files if marked else ()

    def _new_files(self, table: str, rows: pa.Table, job: str) -> tuple[str, ...]:
        files = self._write_hours(table, rows, f"{checked_name(job)}-{uuid.uuid4().hex}")
        return tuple(file.path for file in files)

    def _staged_files(self, folder: Path) -> tuple[str, ...]:
        return tuple(str(path.relative_to(self.root)) for path in sorted(folder.glob("*.parquet")))

    def _swap_range(self, table: str, job: str, added: "_Part") -> bool:
        folder = self.root / "ranges" / table / checked_name(job)
        number, entries = self._ranges(folder)
        kept = [rest for entry in entries for rest in entry.without(added.start_us, added.end_us)]
        content = json.dumps([asdict(entry) for entry in (*kept, added)]).encode()
        return create_exclusively(folder / f"{number + 1:012d}.json", content)

    def _ranges(self, folder: Path) -> tuple[int, list["_Part"]]:
        newest = max(folder.glob("[0-9]*.json"), default=None)
        if newest is None:
            return 0, []
        try:
            entries = json.loads(newest.read_bytes())
            return int(newest.stem), [_Part(tuple(e["paths"]), e["start_us"], e["end_us"]) for e in entries]
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedLake(newest, repr(error)) from error

    def _folders(self, kind: str, table: str) -> Iterator[Path]:
        return (path for path in (self.root / kind / table).glob("*") if path.is_dir())

    def _link_path(self, topic: str, partition: int, start: int) -> Path:
        return self.root / "links" / checked_name(topic) / str(partition) / f"{start:020d}.json"

    def _link(self, path: Path) -> LinkFacts:
        if path not in self._links:
            try:
                self._links[path] = LinkFacts.parse(path.read_bytes())
            except (ValueError, TypeError, KeyError) as error:
                raise DamagedLake(path, repr(error)) from error
        return self._links[path]

    def _refuse_unless_exclusive(self, uri: str) -> None:
        probe = self.root / f".probe-{uuid.uuid4().hex}"
        try:
            won = [create_exclusively(probe, b"") for _ in range(2)]
        except OSError as error:
            raise UnsupportedLake(uri, f"creating a file only if absent failed ({error.strerror})") from error
        probe.unlink()
        if won != [True, False]:
            raise UnsupportedLake(uri, "creating a file twice succeeded twice")


@dataclass(frozen=True, slots=True)
class _Part:
    """Files that count together, and the stretch [start, end) of time in which they count."""

    paths: tuple[str, ...]
    start_us: int = 0
    end_us: int = 253_370_764_800_000_000

    def without(self, start_us: int, end_us: int) -> Iterator["_Part"]:
        """What is left of this part when [start_us, end_us) is taken out: none, one or two parts."""
        if self.start_us < min(self.end_us, start_us):
            yield _Part(self.paths, self.start_us, min(self.end_us, start_us))
        if max(self.start_us, end_us) < self.end_us:
            yield _Part(self.paths, max(self.start_us, end_us), self.end_us)


def _local_folder(uri: str) -> Path:
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return Path(uri).absolute()
    if scheme != "file" or not rest.startswith("/"):
        raise UnsupportedLake(uri, "only folders and file:// addresses can create a file only if absent")
    return Path(rest)
