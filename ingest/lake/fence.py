"""The fence: the only place that commits to a table, exactly once for each application transaction. An edge.

Delta Lake refuses a transaction that is not the next one only where it is handed the table as it was when the position
was looked at; by a table's path it takes it twice. So a table is held, its positions are looked at, and what was held
is what commits.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ingest.lake.data_files import DataFile, is_ours, partition_columns, stats_columns
from ingest.lake.store import LINES, LOG, first_line
from ingest.lake.stores import Store
from ingest.schema.errors import DamagedLake, IngestError
from ingest.schema.tables import Table

if TYPE_CHECKING:
    from deltalake import DeltaTable, PostCommitHookProperties
    from deltalake.transaction import AddAction, RemoveAction

CHECKPOINT_EVERY = 6
"""Commits between checkpoints, which spare a reader the entries before."""
STREAM_DAYS, DERIVED_DAYS = 2, 30
"""How long older versions of streamed and of computed tables can be read, at least. A stream commits every ten seconds,
and every reader lists these commits; a computed table commits once a run, and models name its versions."""
TRIES = 50
"""Of committing what others may commit before."""
FLOORED_US = 999
"""By so much less than the last time other engines may write into the log."""
NEWER = ("reader version", "writer version", "is not supported")
FAR_US = 1 << 62
"""Before and after all times: of files whose writer said nothing of their times."""


class Taken(IngestError):
    """Another process committed first: look at the table again."""

    def __init__(self, table: str) -> None:
        super().__init__(f"another process committed to table {table} first: try again")


def again_if_taken(attempt: Callable[[], bool]) -> bool:
    """The answer of an attempt to commit, which is made anew as often as others are quicker.

    Raises:
        Taken: they were each time, TRIES times.
    """
    for _ in range(TRIES - 1):
        with contextlib.suppress(Taken):
            return attempt()
    return attempt()


@dataclass(slots=True)
class Fence:
    """One table of a lake.

    Args:
        store: where it lies.
        kind: its schema.
        pinned: the version that is looked at, and never committed to; None: always the newest.
    """

    store: Store
    kind: Table
    pinned: int | None = None
    _delta: "DeltaTable | None" = None
    _files: tuple[int, tuple[DataFile, ...]] = (-1, ())
    _moved: tuple[int, dict[str, int | None]] = (-1, {})
    _flushed: int = -1
    _since: int = -1
    _lock: RLock = field(default_factory=RLock)

    def refresh(self) -> bool:
        """Look at the table anew; False where there is none yet."""
        with self._lock, self._failures("read"):
            if self._delta is not None and self.version - self._since >= CHECKPOINT_EVERY:
                self._delta = None  # it keeps each entry since it was opened, and takes longer with each
            if self._delta is None:
                self._delta = self._opened() if self.pinned is None else self._at(self.pinned)
                self._since = self.version
            elif self.pinned is None:
                self._delta.update_incremental()
            return self._delta is not None

    @property
    def version(self) -> int:
        """Of the table as it was last looked at; -1 where there is none."""
        return -1 if self._delta is None else int(self._delta.version())

    @property
    def columns(self) -> frozenset[str]:
        """Names of its columns in the log, as it was last looked at; none where there is none."""
        return frozenset() if self._delta is None else frozenset(one.name for one in self._delta.schema().fields)

    def at(self, application: str) -> int | None:
        """The last transaction of an application; None where there was none."""
        with self._lock, self._failures("read"):
            if self._delta is None:
                return None
            if self._moved[0] != self.version:
                self._moved = self.version, {}
            known = self._moved[1]
            if application not in known:  # reads log entries, each a request to a bucket
                known[application] = self._delta.transaction_version(application)
            return known[application]

    def files(self) -> tuple[DataFile, ...]:
        """Files that count, as the table was last looked at, in no order."""
        with self._lock:
            if self._delta is None:
                return ()
            if self._files[0] != self.version:
                self._files = self.version, tuple(_files(self._delta, self.kind))
            return self._files[1]

    def commit(
        self,
        moves: Mapping[str, tuple[int | None, int]],
        added: Sequence[DataFile] = (),
        removed: Sequence[DataFile] = (),
        *,
        data_change: bool = True,
    ) -> None:
        """Commit to the table as it was last looked at; durable when it returns.

        Args:
            moves: by application, its last transaction and its next.
            added: files that lie there, durable.
            removed: files that count.
            data_change: whether rows change; False for the same rows in other files, which streams need not read.

        Raises:
            Taken: one of the applications moved since, or is not where it should be.
            IngestError: the store cannot be written to.
        """
        with self._lock:
            self.create()
            for name, (last, next_) in moves.items():
                if self.at(name) != last or (last is not None and last + bool(added) > next_):
                    raise Taken(self.kind.name)
            self._flush()  # what others wrote, and ours comes after
            before = self.version
            known = self._moved[1] if self._moved[0] == before else {}
            self._write(moves, added, removed, data_change=data_change)
            self.refresh()
            if self.version == before + 1:  # no other process committed, so the rest is as it was
                self._moved = self.version, {**known, **{name: next_ for name, (_, next_) in moves.items()}}
            self._flush()
            if self.version // CHECKPOINT_EVERY > max(before, 0) // CHECKPOINT_EVERY:
                self.checkpoint()

    def checkpoint(self) -> None:
        """Write down what the log comes to."""
        with self._lock, self._failures("written to"):
            self._table().create_checkpoint()
            self.store.flush_log(self.kind.name, range(0), checkpoint=True)

    def unused(self, *, full: bool) -> list[str]:
        """Files that are there and do not count: those that once did, or all."""
        with self._lock, self._failures("read"):
            return self._table().vacuum(0, enforce_retention_duration=False, full=full) if self._delta else []

    def vacuum(self, *, full: bool, hours: int | None) -> None:
        """Delete files that no version needs; see `ingest.lake.upkeep.vacuum`."""
        with self._lock, self._failures("vacuumed"):
            unused = self._table().vacuum(hours, enforce_retention_duration=False, full=full)
            self.store.delete(self.kind.name, unused)
            self._table().cleanup_metadata()

    def _table(self) -> "DeltaTable":
        if self._delta is None:
            raise IngestError(f"lake {self.store.uri} has no table {self.kind.name} yet: ingest into it first")
        return self._delta

    def _write(
        self,
        moves: Mapping[str, tuple[int | None, int]],
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        *,
        data_change: bool,
    ) -> None:
        from deltalake import CommitProperties, Transaction

        table = self._table()
        about = CommitProperties(
            app_transactions=[Transaction(name, next_) for name, (_, next_) in moves.items()],
            custom_metadata={LINES: str(1 + len(added) + len(removed) + len(moves))},
        )
        with self._failures("written to"):
            table.create_write_transaction(
                [*(_added(file, data_change) for file in added), *(_removed(file, data_change) for file in removed)],
                "append",
                table.schema(),
                partition_columns(self.kind),
                commit_properties=about,
                post_commithook_properties=_no_hooks(),
            )

    def _opened(self) -> "DeltaTable | None":
        from deltalake.exceptions import TableNotFoundError

        self.store.mend(self.kind.name)
        with contextlib.suppress(TableNotFoundError):
            return self._loaded()
        if not self.store.sizes(self.kind.name):
            return None
        with contextlib.suppress(TableNotFoundError):  # another process created it between the two looks
            return self._loaded()
        where = self.store.address(f"{self.kind.name}/{LOG}")
        raise DamagedLake(where, "it is missing, and files of the table are there")

    def _loaded(self, version: int | None = None) -> "DeltaTable":
        from deltalake import DeltaTable

        return DeltaTable(self.store.address(self.kind.name), version, storage_options=dict(self.store.options))

    def _at(self, version: int) -> "DeltaTable":
        from deltalake.exceptions import DeltaError

        try:
            return self._loaded(version)
        except DeltaError as error:
            raise IngestError(
                f"version {version} of table {self.kind.name} of lake {self.store.uri} is gone: its log keeps versions "
                f"of {retention_days(self.kind)} days"
            ) from error

    def create(self) -> None:
        """Create the table unless it is there, and add the columns that it has since.

        That is before its first file, since files without a log are damage, and before a stream reads it, which ends
        where columns come later.

        Raises:
            Taken: others changed its columns each time.
            IngestError: the store cannot be written to.
        """
        from deltalake import CommitProperties, DeltaTable
        from deltalake.exceptions import CommitFailedError

        kind = self.kind
        if self._delta is not None:
            if self._missing():
                again_if_taken(self._add_columns)
            return
        with self._failures("created"):
            try:
                self._delta = DeltaTable.create(
                    self.store.address(kind.name),
                    _delta_schema(kind),
                    "ignore",
                    partition_by=partition_columns(kind) or None,
                    description=kind.meaning or None,
                    configuration=_properties(kind),
                    storage_options=dict(self.store.options),
                    commit_properties=CommitProperties(custom_metadata={LINES: "3"}, max_commit_retries=0),
                )
            except CommitFailedError:  # another process was quicker
                self._delta = self._opened()
        self.refresh()
        self._flush()
        if self._missing():
            again_if_taken(self._add_columns)

    def _missing(self) -> list[pa.Field]:
        """Columns that the table's log does not have."""
        there = self.columns
        return [one.with_nullable(True) for one in _delta_schema(self.kind) if one.name not in there]

    def _add_columns(self) -> bool:
        """Add columns that the log does not have; no older file has them."""
        from deltalake import Schema

        self.refresh()
        if missing := self._missing():
            table = self._table()
            with self._failures("changed"):
                table.alter.add_columns(
                    Schema.from_arrow(pa.schema(missing)).fields, post_commithook_properties=_no_hooks()
                )
            self.refresh()
        return True

    def _flush(self) -> None:
        """Make log entries durable, but for old ones, which those were that wrote them."""
        flushed = max(self._flushed, self.version - 2 * CHECKPOINT_EVERY)
        if flushed < self.version:
            self.store.flush_log(self.kind.name, range(flushed + 1, self.version + 1), checkpoint=False)
        self._flushed = self.version

    @contextlib.contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        """Errors of the library as ours."""
        try:
            from deltalake.exceptions import CommitFailedError, DeltaError
        except ModuleNotFoundError as error:
            raise IngestError("tables of the lake need deltalake: pip install 'cohabit[read]'") from error

        try:
            yield
        except CommitFailedError as error:
            raise Taken(self.kind.name) from error
        except (DeltaError, OSError) as error:
            reason = first_line(error)
            if any(word in reason for word in NEWER):
                raise IngestError(
                    f"table {self.kind.name} of lake {self.store.uri} was written by a newer engine ({reason}): "
                    "upgrade Cohabit to read it"
                ) from error
            raise IngestError(
                f"table {self.kind.name} of lake {self.store.uri} cannot be {what} ({reason}): check that the store "
                "can be reached and what its credentials allow, then try again; `cohabit lake check` names damage"
            ) from error


def _no_hooks() -> "PostCommitHookProperties":
    """Checkpoints are ours to flush, and log entries ours to keep until they are."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def retention_days(kind: Table) -> int:
    """How long a table's log keeps versions that are not the newest."""
    return STREAM_DAYS if kind.is_landed else DERIVED_DAYS


def _properties(kind: Table) -> dict[str, str | None]:
    kept = f"interval {retention_days(kind)} days"
    found: dict[str, str | None] = {"delta.logRetentionDuration": kept, "delta.deletedFileRetentionDuration": kept}
    if names := stats_columns(kind):
        found["delta.dataSkippingStatsColumns"] = ",".join(names)
    return found


def _delta_schema(kind: Table) -> pa.Schema:
    fields = [
        pa.field(one.name, one.type, nullable=not one.required, metadata={"comment": _comment(one.meaning, one.unit)})
        for one in kind.columns
    ]
    if kind.is_landed:
        fields.append(pa.field("date", pa.date32(), metadata={"comment": f"day of {kind.time}, UTC"}))
        fields.append(pa.field("hour", pa.int32(), metadata={"comment": f"hour of {kind.time}, UTC"}))
    return pa.schema(fields)


def _comment(meaning: str, unit: str) -> str:
    return f"{meaning} ({unit})" if unit else meaning


def _files(table: "DeltaTable", kind: Table) -> Iterator[DataFile]:
    listed = pa.table(table.get_add_actions(flatten=True))
    if not listed.num_rows:
        return
    columns = {name: listed[name].to_pylist() for name in ("path", "num_records", "size_bytes", "modification_time")}
    low, high = (_times(listed, f"{end}.{kind.time}") for end in ("min", "max"))
    names = [name for name in partition_columns(kind) if f"partition.{name}" in listed.schema.names]
    values = [[None if v is None else str(v) for v in listed[f"partition.{name}"].to_pylist()] for name in names]
    for at, path in enumerate(columns["path"]):
        yield DataFile(
            path,
            columns["num_records"][at] or 0,
            columns["size_bytes"][at] or 0,
            columns["modification_time"][at] or 0,
            -FAR_US if (first := low[at]) is None else first,
            FAR_US if (last := high[at]) is None else last + (0 if is_ours(path) else FLOORED_US),
            {name: column[at] for name, column in zip(names, values, strict=True)},
        )


def _times(listed: pa.Table, name: str) -> list[int | None]:
    if name not in listed.schema.names:
        return [None] * listed.num_rows
    values: list[int | None] = pc.cast(listed[name], pa.int64()).to_pylist()
    return values


def _added(file: DataFile, data_change: bool) -> "AddAction":  # noqa: FBT001
    from deltalake.transaction import AddAction

    return AddAction(file.path, file.size_bytes, file.partition, file.written_ms, data_change, file.stats)


def _removed(file: DataFile, data_change: bool) -> "RemoveAction":  # noqa: FBT001
    from deltalake.transaction import RemoveAction

    return RemoveAction(file.path, data_change, file.written_ms, file.size_bytes, dict(file.partition))
