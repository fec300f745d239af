"""A lake in a folder: durable once files, then the folders that name them, are flushed. An edge."""

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from glob import iglob
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from ingest.lake.arrow_dataset import dataset_of, ds
from ingest.lake.store import LINES, LOG, unsupported_lake
from ingest.schema.errors import DamagedLake, IngestError

log = structlog.get_logger(__name__)

CHECKED = 100
"""Newest log entries that are looked at when a table is opened; those before them lie in a checkpoint."""
CHECKPOINT = ".checkpoint.parquet"
_ENTRY = re.compile(r"[0-9]+\.json")
SCRATCH = ".unfinished"
"""Folder below a lake's root for files that belong to no table yet."""


class Folder:
    """A lake in a local folder."""

    options: Mapping[str, str] = {}

    def __init__(self, root: Path) -> None:
        self.root = root
        self.uri = str(root)

    def is_there(self) -> bool:
        """Whether a lake was ever made there."""
        return self.root.is_dir()

    def probe(self) -> None:
        """Refuse a file system on which two writers can both create one file, by creating one twice."""
        scratch = self.root / f".probe-{uuid.uuid4().hex}"
        target = scratch.with_suffix(".made")
        try:
            new = [one for one in (self.root, *self.root.parents) if not one.exists()]
            self.root.mkdir(parents=True, exist_ok=True)
            for folder in new:
                flush(folder.parent)
            scratch.write_bytes(b"")
            os.link(scratch, target)
            with suppress(FileExistsError):
                os.link(scratch, target)
                raise unsupported_lake(self.uri, "creating a file twice succeeded twice")
        except OSError as error:
            raise unsupported_lake(self.uri, f"creating a file only if absent failed ({error.strerror})") from error
        finally:
            for path in (scratch, target):
                with suppress(OSError):
                    path.unlink()

    def address(self, name: str) -> str:
        """The address of a table, or of another folder."""
        return str(self.root / name)

    def scratch(self) -> Path:
        """A new folder for files that may become part of a table, on the same file system: nothing is copied."""
        folder = self.root / SCRATCH / uuid.uuid4().hex
        folder.mkdir(parents=True)
        return folder

    def tidy(self, before: datetime) -> None:
        """Remove such folders that processes left which died before a time."""
        scratch = self.root / SCRATCH
        for folder in scratch.iterdir() if scratch.is_dir() else ():
            with suppress(FileNotFoundError):  # its process ended meanwhile
                if folder.stat().st_mtime < before.timestamp():
                    shutil.rmtree(folder, ignore_errors=True)

    def adopt(self, table: str, files: Sequence[tuple[Path, str]]) -> None:
        """Give local files their paths in a table: flush them, rename them, and flush the folders that name them."""
        targets = [(local, self.root / table / path) for local, path in files]
        for local, target in targets:
            flush(local)
            target.parent.mkdir(parents=True, exist_ok=True)
            local.rename(target)
        folders = {folder for _, target in targets for folder in target.relative_to(self.root).parents}
        for folder in sorted(folders, key=lambda one: -len(one.parts)):
            flush(self.root / folder)

    def dataset(self, table: str, paths: Sequence[str], schema: pa.Schema | None) -> ds.Dataset:
        """Rows of files of a table; None: in the schema of the first."""
        return dataset_of([str(self.root / table / path) for path in paths], schema)

    def sizes(self, table: str) -> dict[str, int]:
        """Bytes of each Parquet file of a table that is there, whether or not it counts."""
        root = self.root / table
        found: dict[str, int] = {}
        for name in iglob("**/*.parquet", root_dir=root, recursive=True):  # folders may be links to other disks
            if not name.startswith(f"{LOG}/"):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    found[name] = (root / name).stat().st_size
        return found

    def delete(self, table: str, paths: Sequence[str]) -> None:
        """Delete files of a table; some may be gone already."""
        for path in paths:
            (self.root / table / path).unlink(missing_ok=True)

    def flush_log(self, table: str, versions: range, *, checkpoint: bool) -> None:
        """Make the log entries of versions durable, and the newest checkpoint if asked."""
        folder = self.root / table / LOG
        paths = [folder / f"{version:020d}.json" for version in versions]
        if checkpoint:
            newest = max(name for name in os.listdir(folder) if name.endswith(CHECKPOINT))
            paths += [folder / newest, folder / "_last_checkpoint"]
        for path in paths:
            with suppress(FileNotFoundError):  # cleaned up meanwhile
                flush(path)
        flush(folder)
        if 0 in versions:
            flush(folder.parent)
            flush(folder.parent.parent)

    def mend(self, table: str) -> None:
        """Rename what a power loss left half written at the end of a table's log.

        Only what came last can be torn: entries before it were flushed before it was written.
        """
        folder = self.root / table / LOG
        if not folder.is_dir():
            return
        try:
            self._mend(folder)
        except OSError as error:
            raise IngestError(
                f"the log of lake {self.uri} cannot be read ({error.strerror}: {error.filename}): nothing was changed; "
                "let this user read all files there, and, after a power loss, write to the folder"
            ) from error

    def _mend(self, folder: Path) -> None:
        names = sorted(os.listdir(folder))
        entries = [folder / name for name in [one for one in names if _ENTRY.fullmatch(one)][-CHECKED:]]
        while entries and _rename_if_torn(entries[-1], _read_entry):
            entries.pop()
        for path in entries[:-1]:
            with suppress(FileNotFoundError):  # cleaned up meanwhile
                if path.stat().st_size == 0:  # readers of Delta Lake take it for a commit of nothing
                    raise DamagedLake(path, "it is empty")
        if checkpoint := max((name for name in names if name.endswith(CHECKPOINT)), default=None):
            _rename_if_torn(folder / checkpoint, pq.read_metadata)
        last = folder / "_last_checkpoint"
        if not _is_whole(last, _read_last_checkpoint):
            with suppress(PermissionError):  # a hint alone: readers do without
                last.unlink(missing_ok=True)

    def log_names(self, table: str) -> list[str]:
        """Names of the files of a table's log, in order."""
        folder = self.root / table / LOG
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def entry_is_whole(self, table: str, name: str) -> bool:
        """Whether all lines of a log entry are there."""
        return _is_whole(self.root / table / LOG / name, _read_entry)


def _rename_if_torn(path: Path, read: Callable[[Path], object]) -> bool:
    if _is_whole(path, read):
        return False
    path.rename(path.with_name(f"{path.name}.torn"))
    log.warning("renamed what a power loss left half written", path=str(path))
    return True


def _is_whole(path: Path, read: Callable[[Path], object]) -> bool:
    """Whether a file is as it was written, or gone; raises OSError where that cannot be seen."""
    try:
        read(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:  # what Arrow cannot make out has no number
            raise
        return False
    return True


def _read_entry(path: Path) -> None:
    """Read a log entry; raises ValueError unless it has all lines that it says it has, each of them an object."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise ValueError(path)
    about = (line.get("commitInfo") for line in lines)
    if [one[LINES] for one in about if isinstance(one, dict) and LINES in one] not in ([], [str(len(lines))]):
        raise ValueError(path)


def _read_last_checkpoint(path: Path) -> None:
    """Read which checkpoint is the last; raises ValueError where it does not say so, or there is none."""
    said = json.loads(path.read_bytes())
    version = said.get("version") if isinstance(said, dict) else None
    names = os.listdir(path.parent)
    if not isinstance(version, int) or not any(
        re.fullmatch(rf"{version:020d}\.checkpoint.*\.parquet", n) for n in names
    ):
        raise ValueError(path)


def flush(path: Path) -> None:
    """Make a file's content, or a folder's names, survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
