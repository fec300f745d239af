"""The lake: Delta tables below one address, and which of their rows count.

Streams land by `ingest.lake.landing`; jobs append numbered batches, or put rows in the place of a range of time. Rows
expire before a moment that the table's log keeps, in one commit for every reader; what lands later of before is hidden
by `read` alone.
"""

import errno
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.lake.arrow_dataset import ds
from ingest.lake.data_files import (
    FOREIGN,
    STREAMS,
    DataFile,
    Origin,
    by_hour,
    described,
    is_ours,
    new_path,
    origin_of,
    precedence,
    write,
)
from ingest.lake.fence import FAR_US, Fence, again_if_taken
from ingest.lake.folder import Folder
from ingest.lake.row_filter import EPOCH, FOREVER, condition, each_key_once, microseconds, needed_schema, within
from ingest.lake.store import first_line, unsupported_lake
from ingest.lake.stores import Store, store_of
from ingest.schema.errors import DamagedLake, IngestError
from ingest.schema.provenance import BatchId, checked_name
from ingest.schema.tables import LAKE_OWN, Table
from ingest.schema.unknown_fields import total_counts

PIECE_ROWS = 20_000
GENTLY = {"batch_size": PIECE_ROWS, "batch_readahead": 2, "fragment_readahead": 1, "use_threads": False}
"""How pieces are scanned: nothing much beyond the one at hand is in memory."""
OF_THE_SYSTEM = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EIO}
"""What has nothing to do with a file's content."""
EXPIRED = "expired"
"""Application whose transaction is the moment before which rows have expired, microseconds since 1970."""
REWRITE = "rewrite"
"""Application of all that removes files: two such commits never both succeed."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of time [start_us, end_us) of which a job put all rows into a table, microseconds since 1970."""

    job: str
    start_us: int
    end_us: int


@dataclass
class Lake:
    """Tables below one address. Open with `Lake.open`.

    Args:
        store: where they lie.
        tables: those that may lie there, by name.
    """

    store: Store
    tables: Mapping[str, Table]
    _fences: dict[str, Fence] = field(default_factory=dict, repr=False)
    _older: dict[str, bool] = field(default_factory=dict, repr=False)
    _small: dict[str, tuple[int, pa.Table]] = field(default_factory=dict, repr=False)

    @staticmethod
    def open(uri: str | Path, tables: Mapping[str, Table]) -> "Lake":
        """Open or create a lake.

        Args:
            uri: a folder, file:///folder, or a bucket: s3://, gs://, az://.
            tables: the tables that may lie in it, by name.

        Raises:
            IngestError: two writers could both make the same commit there, or it cannot be written to.
        """
        lake = Lake.to_read(uri, tables)
        lake.store.probe()
        return lake

    @staticmethod
    def to_read(uri: str | Path, tables: Mapping[str, Table]) -> "Lake":
        """As `open`, for who only reads: nothing is written, and nothing created.

        Raises:
            IngestError: its address names none, or it is of an earlier version.
        """
        store = store_of(uri)
        if isinstance(store, Folder) and (store.root / "links").is_dir():
            raise unsupported_lake(store.uri, "an earlier version wrote it, in a format of its own")
        return Lake(store, tables)

    @property
    def uri(self) -> str:
        """Its address."""
        return self.store.uri

    @property
    def root(self) -> Path:
        """Its folder.

        Raises:
            IngestError: it lies in a bucket.
        """
        if "://" in self.uri:
            raise IngestError(f"lake {self.uri} lies in a bucket, and this needs a folder")
        return Path(self.uri)

    def table(self, name: str) -> Table:
        """The table's facts."""
        if name in self.tables:
            return self.tables[name]
        if name in LAKE_OWN:
            return LAKE_OWN[name]
        raise IngestError(f"no table {name!r}; tables are {', '.join(sorted(self.tables))}")

    def fence(self, table: str) -> Fence:
        """What commits to a table, looked at anew."""
        found = self._held(table)
        found.refresh()
        return found

    def last_seen(self, table: str) -> Fence:
        """What commits to a table, as it was last looked at; what is committed to it is refused where that is old."""
        found = self._held(table)
        return found if found.version >= 0 else self.fence(table)

    def _held(self, table: str) -> Fence:
        """What commits to a table, as it was last looked at, if it ever was."""
        return self._fences.setdefault(table, Fence(self.store, self.table(table)))

    def version(self, table: str) -> int:
        """Of a table, as engines that read Delta Lake count; -1 where there is none."""
        return self.fence(table).version

    def at(self, versions: Mapping[str, int]) -> "Lake":
        """The same lake, to read only, with tables as they were; those that are not named, or had no version, as now.

        Raises:
            IngestError: while reading: a version is gone.
        """
        pinned = {n: Fence(self.store, self.table(n), version) for n, version in versions.items() if version >= 0}
        return Lake(self.store, self.tables, pinned)

    def missing(self, table: str) -> tuple[int, int]:
        """How many files of a table are gone, of how many that its version names."""
        files, there = self.fence(table).files(), self.store.sizes(table)
        return sum(file.path not in there for file in files), len(files)

    def append(self, table: str, batch: pa.Table, origin: BatchId) -> bool:
        """Write a numbered batch of a job, once only.

        Args:
            table: name of the table.
            batch: rows in the table's schema.
            origin: the job and its number; numbers of a job rise.

        Returns:
            Whether this call wrote it; False where it was there.
        """
        kind = self.table(table)
        rows = batch.select(kind.schema.names).cast(kind.schema)
        files = self.files_of(table, rows, Origin(origin.job, batch=origin.batch)) if rows.num_rows else []
        return self._append(table, files, origin)

    def append_staged(self, table: str, folder: Path, origin: BatchId) -> int:
        """Write a numbered batch from a folder of `stage`, once only; how many rows that added."""
        last = self.fence(table).at(f"batch/{origin.job}")
        if last is not None and last >= origin.batch:
            shutil.rmtree(folder.parent, ignore_errors=True)
            return 0
        files = self._adopted(table, folder, Origin(origin.job, batch=origin.batch))
        return sum(file.rows for file in files) if self._append(table, files, origin) else 0

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
            DamagedLake: another engine wrote a file, and whose rows it holds is not known.
        """
        kind, range_ = self.table(table), Origin(job, microseconds(start), microseconds(end))
        own = batch if isinstance(batch, Path) else batch.select(kind.schema.names).cast(kind.schema)
        rows = ds.dataset(own, schema=kind.schema)
        count, inside = rows.count_rows(), rows.count_rows(filter=within(kind.time, start, end))
        if count != inside:
            raise IngestError(
                f"{count - inside} rows of {table!r} lie outside the stretch they would replace: filter the batch first"
            )
        if isinstance(own, Path):
            files = self._adopted(table, own, range_)
        else:
            files = self.files_of(table, own, range_) if own.num_rows else []
        self.rewrite(table, lambda: self._cut(table, start, end, [job]), files)
        return int(count)

    def rewrite(
        self,
        table: str,
        choose: Callable[[], tuple[Sequence[DataFile], Sequence[DataFile]]],
        added: Sequence[DataFile] = (),
        moves: Mapping[str, int] | None = None,
        *,
        data_change: bool = True,
    ) -> None:
        """Commit what takes files away, choosing them anew as often as others are quicker.

        Args:
            table: name of the table.
            choose: gives files to remove, and durable ones that hold of them what stays.
            added: durable files that come in any case.
            moves: further applications, and how far they move unless they are there.
            data_change: whether rows change.
        """

        def attempt() -> bool:
            fence = self.fence(table)
            if added and {file.path for file in added} <= {file.path for file in fence.files()}:
                return True  # what was quicker was this very commit, of which the store's first answer was lost
            last = fence.at(REWRITE)
            further = {name: (at, to) for name, to in (moves or {}).items() if ((at := fence.at(name)) or 0) < to}
            removed, kept = choose()
            if removed or kept or added or further:
                steps = {REWRITE: (last, (last or 0) + 1), **further}
                fence.commit(steps, [*added, *kept], removed, data_change=data_change)
            return True

        again_if_taken(attempt)

    def stage(self, table: str, job: str) -> Path:
        """A new local folder that a job writes parquet files into, to hand to `replace`; they do not count before."""
        return self.store.scratch() / f"{self.table(table).name}-{checked_name(job)}"

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
        needed = needed_schema(kind, wanted)
        rows = self._rows(kind, start, end, needed.names, nodes=nodes, as_of=as_of)
        return each_key_once(rows, kind).select(wanted)

    def rows(
        self,
        table: str,
        start: datetime = EPOCH,
        end: datetime = FOREVER,
        columns: Sequence[str] | None = None,
        *,
        nodes: Sequence[str] | None = None,
        coded: bool = False,
    ) -> pa.Table:
        """Rows whose time lies in [start, end), in no order, duplicates still in: for jobs that sort by themselves.

        With `coded`, texts are dictionaries, each with the same values in all of a column.
        """
        kind = self.table(table)
        names = list(columns) if columns is not None else kind.schema.names
        if not coded:
            return self._rows(kind, start, end, names, nodes=nodes, as_of=None)
        return self._rows(kind.coded, start, end, names, nodes=nodes, as_of=None).unify_dictionaries()

    def pieces(self, table: str, columns: Sequence[str] | None = None, end: datetime = FOREVER) -> Iterator[pa.Table]:
        """Rows of before a time, in pieces of at most PIECE_ROWS, in no order, with duplicates: for more than memory.

        Raises:
            DamagedLake: a file cannot be read.
        """
        kind, fence = self.table(table), self.fence(table)
        names = list(columns) if columns is not None else kind.schema.names
        files = self._files(fence, EPOCH, end)
        wanted = within(kind.time, _since(fence, EPOCH), end)
        with unreadable(self.uri):
            for file in files:
                batches = self._dataset(kind, [file]).to_batches(filter=wanted, columns=names, **GENTLY)
                yield from (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)

    def count(self, table: str, start: datetime = EPOCH, end: datetime = FOREVER) -> int:
        """Rows of the files that overlap [start, end), duplicates included: how much there is to read."""
        return sum(file.rows for file in self._files(self.fence(table), start, end))

    def unmeasured(self, table: str, start: datetime = EPOCH, end: datetime = FOREVER) -> set[str]:
        """Columns that may be null in which no file that overlaps [start, end) has a value, as their footers say."""
        kind, files = self.table(table), self._files(self.fence(table), start, end)
        unseen = {one.name for one in kind.schema if one.nullable}
        with unreadable(self.uri):
            for fragment in self._dataset(kind, files).get_fragments():
                groups = (fragment.metadata.row_group(i) for i in range(fragment.metadata.num_row_groups))
                chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
                unseen -= {one.path_in_schema for one in chunks if not _is_empty(one)}
        return unseen

    def files(self, table: str, start: datetime = EPOCH, end: datetime = FOREVER) -> list[str]:
        """Addresses of the files that count and overlap [start, end); duplicates and edges are the reader's.

        Raises:
            IngestError: the table has columns of other names.
        """
        return [self.store.address(f"{table}/{file.path}") for file in self._files(self.fence(table), start, end)]

    def span(self, table: str) -> tuple[int, int] | None:
        """The first and the last time of rows of streams, to 1 ms, microseconds since 1970; None where there are none.

        Times lie at most 1 ms outside.
        """
        if not self.table(table).is_landed:
            return None
        files = [
            one for one in self._files(self.fence(table), EPOCH, FOREVER) if one.rows and origin_of(one.path) == STREAMS
        ]
        if not files:
            return None
        return max(min(f.start_us for f in files), self.horizon_us(table)), max(f.end_us for f in files)

    def landed_rows(self, table: str) -> int:
        """Rows of streams in a table, duplicates included."""
        return sum(one.rows for one in self._files(self.fence(table), EPOCH, FOREVER) if origin_of(one.path) == STREAMS)

    def unknown_fields(self) -> Counter[str]:
        """How often each field outside the catalogue was seen in all that was landed."""
        rows = self.rows("unknown_fields", columns=["field", "seen"])
        return Counter(total_counts({row["field"]: row["seen"]} for row in rows.to_pylist()))

    def range_parts(self, table: str) -> Iterator[Part]:
        """Each range that a job put rows into, expired ones included; one without any has none."""
        self.fence(table)
        origins = {origin_of(file.path) for file in self._held(table).files()}
        for one in sorted(origins, key=lambda one: (one.job, one.start_us or 0, one.end_us or 0)):
            if one.start_us is not None and one.end_us is not None:
                yield Part(one.job, one.start_us, one.end_us)

    def horizon_us(self, table: str) -> int:
        """Rows before this moment have expired, microseconds since 1970."""
        return self.fence(table).at(EXPIRED) or 0

    def small(self, table: str) -> pa.Table:
        """All rows of a table that fits into memory, kept until it changes."""
        version = self.fence(table).version
        if table not in self._small or self._small[table][0] != version:
            self._small[table] = version, self.rows(table)
        return self._small[table][1]

    def files_of(self, table: str, rows: pa.Table, origin: Origin = STREAMS) -> list[DataFile]:
        """Write rows into durable files, which count once they are committed."""
        kind = self.table(table)
        return self.written(table, [(part, [some]) for part, some in by_hour(kind, rows)], origin)

    def written(
        self,
        table: str,
        parts: Iterable[tuple[Mapping[str, str | None], Iterable[pa.Table]]],
        origin: Origin,
    ) -> list[DataFile]:
        """Write one durable file for each partition's rows, which counts once it is committed."""
        kind, folder = self.table(table), self.store.scratch()
        self._held(table).create()
        files: list[tuple[Path, DataFile]] = []
        try:
            for partition, tables in parts:
                local = folder / f"{len(files)}.parquet"
                write(local, kind.schema, tables)
                files.append((local, described(local, new_path(origin, partition), kind, partition)))
            self.store.adopt(table, [(local, file.path) for local, file in files])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return [file for _, file in files]

    def rewritten(self, table: str, file: DataFile, start: datetime, end: datetime) -> list[DataFile]:
        """What of a file lies in [start, end), in a durable file of its own; none where that is nothing.

        A range keeps a file where no row of it is left but time is: that it was computed counts too.
        """
        kind, origin = self.table(table), origin_of(file.path)
        if origin.start_us is not None and origin.end_us is not None:
            low, high = max(origin.start_us, microseconds(start)), min(origin.end_us, microseconds(end))
            if low >= high:
                return []
            origin = Origin(origin.job, low, high)
        self.refuse_older(table, [file])
        batches = self._dataset(kind, [file]).to_batches(filter=within(kind.time, start, end))
        tables = (pa.Table.from_batches([batch]) for batch in batches)
        return self.written(table, [(file.partition, tables)], origin)

    def refuse_older(self, table: str, files: Sequence[DataFile]) -> None:
        """Refuse files of a computed table in which columns have other names: these would read as missing.

        Raises:
            IngestError: there is one; streamed tables are never refused, since columns are only added to them.
        """
        kind, there = self.table(table), self._held(table).columns
        known = frozenset(kind.schema.names)
        if not kind.is_landed and there - known and any(self._is_older(table, file.path, known) for file in files):
            again = "cohabit bill judge" if table == "slowed" else "cohabit features"
            raise IngestError(
                f"table {table} of lake {self.uri} was written by another version, with columns of other names: "
                f"compute it again with `{again}`; remove hours whose raw records have expired with `cohabit lake "
                "expire`"
            )

    def _is_older(self, table: str, path: str, known: frozenset[str]) -> bool:
        """Whether columns of a file were renamed since: it has some that are not known, and lacks some that are."""
        if path not in self._older:
            with unreadable(self.uri):
                names = frozenset(self.store.dataset(table, [path], None).schema.names)
            self._older[path] = bool(names - known and known - names)
        return self._older[path]

    def dataset(self, table: str, files: Sequence[DataFile]) -> ds.Dataset:
        """Rows of files, in the table's schema."""
        return self._dataset(self.table(table), files)

    def _append(self, table: str, files: Sequence[DataFile], origin: BatchId) -> bool:
        application = f"batch/{origin.job}"

        def attempt() -> bool:
            fence = self.fence(table)
            last = fence.at(application)
            if last is not None and last >= origin.batch:
                return False
            fence.commit({application: (last, origin.batch)}, files)
            return True

        return again_if_taken(attempt)

    def _adopted(self, table: str, folder: Path, origin: Origin) -> list[DataFile]:
        """Make files of a staged folder files of the table; those of streamed tables are written anew, hour by hour."""
        kind, locals_ = self.table(table), sorted(folder.glob("*.parquet"))
        try:
            if kind.is_landed:
                return [one for local in locals_ for one in self.files_of(table, pq.read_table(local), origin)]
            self.fence(table).create()
            files = [(local, described(local, new_path(origin, {}), kind, {})) for local in locals_]
            self.store.adopt(table, [(local, file.path) for local, file in files])
        finally:
            shutil.rmtree(folder.parent, ignore_errors=True)
        return [file for _, file in files]

    def _cut(
        self, table: str, start: datetime, end: datetime, jobs: Sequence[str]
    ) -> tuple[list[DataFile], list[DataFile]]:
        """Ranges of jobs that overlap [start, end), and new files with what of them lies outside."""
        low, high = microseconds(start), microseconds(end)
        removed, kept = [], []
        for file in self._held(table).files():
            if not is_ours(file.path):
                raise self._foreign(table, file)
            one = origin_of(file.path)
            if one.job not in jobs or one.start_us is None or one.end_us is None:
                continue
            if one.start_us < high and one.end_us > low:
                removed.append(file)
                kept += [*self.rewritten(table, file, EPOCH, start), *self.rewritten(table, file, end, FOREVER)]
        return removed, kept

    def _foreign(self, table: str, file: DataFile) -> DamagedLake:
        return DamagedLake(
            self.store.address(f"{table}/{file.path}"),
            f"{FOREIGN}: restore the table's version before it, or, if it is computed, remove its folder and compute "
            "it again; other engines may write to tables of your own",
        )

    def _files(self, fence: Fence, start: datetime, end: datetime) -> list[DataFile]:
        """Files that overlap [start, end), in the order in which they are read."""
        self.refuse_older(fence.kind.name, fence.files())
        for one in fence.files() if fence.kind.time else ():
            if one.start_us == -FAR_US and not is_ours(one.path):  # its rows may have no time, and would be left out
                raise self._foreign(fence.kind.name, one)
        low, high = microseconds(_since(fence, start)), microseconds(end)
        found = (one for one in fence.files() if not fence.kind.time or (one.start_us < high and one.end_us >= low))
        return sorted(found, key=precedence)

    def _rows(
        self,
        kind: Table,
        start: datetime,
        end: datetime,
        columns: Sequence[str],
        *,
        nodes: Sequence[str] | None,
        as_of: datetime | None,
    ) -> pa.Table:
        fence = self.fence(kind.name)
        files = self._files(fence, start, end)
        if not files:
            return kind.schema.empty_table().select(columns)
        wanted = condition(kind, _since(fence, start), end, nodes=nodes, as_of=as_of) if kind.time else None
        with unreadable(self.uri):
            return self._dataset(kind, files).to_table(list(columns), filter=wanted)

    def _dataset(self, kind: Table, files: Sequence[DataFile]) -> ds.Dataset:
        return self.store.dataset(kind.name, [file.path for file in files], kind.schema)


def _is_empty(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether a column chunk holds nulls alone."""
    about = chunk.statistics
    return about is not None and about.has_null_count and about.null_count == chunk.num_values


def _since(fence: Fence, start: datetime) -> datetime:
    """A time, or the moment before which a table's rows have expired if that is later."""
    return max(start, EPOCH + timedelta(microseconds=fence.at(EXPIRED) or 0))


@contextmanager
def unreadable(uri: str) -> Iterator[None]:
    """Errors of reading files as ours.

    Raises:
        DamagedLake: a file is not what was written.
        IngestError: the system does not let it be read, or written.
    """
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno in OF_THE_SYSTEM:
            raise IngestError(
                f"files of lake {uri} cannot be read or written ({first_line(error)}): the lake is not damaged; see to "
                "the disk, or to what this user may do there, then try again"
            ) from error
        raise DamagedLake(uri, str(error)) from error
