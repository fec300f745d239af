"""Where things lie below a lake's root, and what its small files say. The only module that knows file layout.

    data/<table>/v<version>/date=YYYY-MM-DD/hour=HH/*.parquet       rows of landed batches and of replaced ranges
    links/<topic>/<partition>/<start>.json                          one landed stretch: its end and its files
    topic-ids/<topic>/<n>.json                                      the ingested topic of that name; newest n counts
    batches/<table>/<job>/<batch>/*.parquet, _SUCCESS               one streaming batch of a job
    staged/<table>/<job>-<id>/*.parquet                             rows of replaced ranges that a job wrote by itself
    ranges/<table>/<job>/<n>.json                                   which files hold which time; the newest n counts
    compacted/<table>/v<version>/*.parquet                          rows of many files, in few; below no landed folder
    compactions/<table>/<n>.json                                    which file's rows lie in which compacted file
    horizons/<table>/<n>.json                                       older rows have expired; the newest n counts
    lake-checkpoints/<n>.json                                       what links and compactions come to; may be deleted

Everything that is numbered or named by a start is created exclusively and never changed.
"""

import errno
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from ingest.schema.errors import IngestError
from ingest.schema.provenance import checked_name, checked_origin
from ingest.schema.tables import Table

Record = TypeVar("Record")
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
FOREVER_US = 253_370_764_800_000_000
"""The year 9999, microseconds since 1970."""
Moment = Annotated[int, msgspec.Meta(ge=-FOREVER_US, le=FOREVER_US)]
"""Microseconds since 1970, of which a date can be made."""
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""Rows, or an offset of Kafka."""
INSIDE = r"\A(?!/)(?!(?:[^\x00]*/)?\.\.(?:/|\Z))[^\x00]+\Z"
Name = Annotated[str, msgspec.Meta(pattern=INSIDE, max_length=2000)]
"""A path below a lake's root, and out of it never."""


def record(content: bytes, kind: type[Record]) -> Record:
    """Read a small file's JSON.

    Raises:
        ValueError: it is not JSON, lacks something, has something that is not known or of another type.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error


class Small(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a small file says, or a part of that; a field that is not known is refused, for what it may mean."""

    def written(self) -> bytes:
        """Its JSON."""
        return msgspec.json.encode(self)


class DataFile(Small, frozen=True):
    """One parquet file and the stretch of time [start, end] its rows lie in, microseconds since 1970."""

    table: str
    path: Name
    rows: Count
    start_us: Moment
    end_us: Moment


class LinkFacts(Small, frozen=True):
    """What a link's file holds: where it ends, what it landed, and what it saw."""

    end: Count
    kind: Literal["batch", "gap"]
    files: tuple[DataFile, ...]
    unknown_fields: dict[str, Count]

    @staticmethod
    def parse(content: bytes) -> "LinkFacts":
        """Read a link's JSON."""
        return record(content, LinkFacts)


class Part(Small, frozen=True):
    """Files that count together, and the stretch [start, end) of time in which they count."""

    paths: tuple[Name, ...]
    start_us: Moment = 0
    end_us: Moment = FOREVER_US

    def without(self, start_us: int, end_us: int) -> Iterator["Part"]:
        """What is left of this part when [start_us, end_us) is taken out: none, one or two parts."""
        if self.start_us < min(self.end_us, start_us):
            yield Part(self.paths, self.start_us, min(self.end_us, start_us))
        if max(self.start_us, end_us) < self.end_us:
            yield Part(self.paths, max(self.start_us, end_us), self.end_us)


class Merged(Small, frozen=True):
    """One compacted file, and the files whose rows it holds, all of them and no others."""

    file: DataFile
    replaces: tuple[Name, ...]


class BatchRun(Small, frozen=True):
    """One compacted file with the rows of a job's batches up to `through`, newest first; None where they had none."""

    job: str
    through: Count
    file: DataFile | None
    replaces: tuple[Name, ...]


class Compaction(Small, frozen=True):
    """What one run of compaction changed, and when."""

    at_us: Moment
    merged: tuple[Merged, ...]
    runs: tuple[BatchRun, ...]

    def replaced(self) -> set[str]:
        """Files whose rows lie in those it wrote."""
        return {path for one in self.merged for path in one.replaces} | {p for run in self.runs for p in run.replaces}

    def files(self) -> list[DataFile]:
        """The files it wrote."""
        return [*(one.file for one in self.merged), *(run.file for run in self.runs if run.file)]

    @staticmethod
    def parse(content: bytes) -> "Compaction":
        """Read a manifest's JSON."""
        return record(content, Compaction)


class Horizon(Small, frozen=True):
    """Rows of a table before this moment have expired; recorded at `at_us`. Microseconds since 1970."""

    before_us: Moment
    at_us: Moment

    @staticmethod
    def parse(content: bytes) -> "Horizon":
        """Read a horizon's JSON."""
        return record(content, Horizon)


@dataclass(frozen=True, slots=True)
class Layout:
    """Places below one root."""

    root: Path

    def links(self) -> Path:
        """Folder of all chains."""
        return self.root / "links"

    def chain(self, topic: str, partition: int) -> Path:
        """Folder of a partition's links."""
        return self.links() / checked_origin(topic) / str(partition)

    def link(self, topic: str, partition: int, start: int) -> Path:
        """File of the link that starts there."""
        return self.chain(topic, partition) / f"{start:020d}.json"

    def partitions(self) -> list[tuple[str, int]]:
        """Every (topic, partition) that has a chain."""
        return sorted((path.parent.name, int(path.name)) for path in self.links().glob("*/*") if path.is_dir())

    def starts(self, topic: str, partition: int) -> Iterator[int]:
        """Where links of a partition start, by the names of their files alone, in no order."""
        return (int(path.stem) for path in self.chain(topic, partition).glob("[0-9]*.json"))

    def topic_ids(self, topic: str) -> Path:
        """Folder of a topic's ids."""
        return self.root / "topic-ids" / checked_name(topic)

    def data(self, table: Table) -> Path:
        """Folder of a table's rows in its present version."""
        return self.root / "data" / table.name / f"v{table.version}"

    def hour(self, table: Table, hour: datetime) -> Path:
        """Folder of an hour of a table's rows."""
        return self.data(table) / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"

    def batches(self, table: str) -> Path:
        """Folder of a table's streaming jobs."""
        return self.root / "batches" / table

    def batch(self, table: str, job: str, number: int) -> Path:
        """Folder of one streaming batch."""
        return self.batches(table) / checked_name(job) / f"{number:012d}"

    def staged(self, table: str, job: str) -> Path:
        """A new folder for a job to write into."""
        return self.root / "staged" / table / f"{checked_name(job)}-{uuid.uuid4().hex}"

    def ranges(self, table: str) -> Path:
        """Folder of a table's range manifests, by job."""
        return self.root / "ranges" / table

    def compacted(self, table: Table, number: int) -> Path:
        """A new file for the compaction that hopes to be this one; once another is, the file can never count."""
        return self.root / "compacted" / table.name / f"v{table.version}" / f"{number:012d}-{uuid.uuid4().hex}.parquet"

    def compacted_files(self, table: str) -> Iterator[Path]:
        """What compactions of a table wrote, unfinished files included."""
        return (self.root / "compacted" / table).rglob("*.parquet")

    def compactions(self, table: str) -> Path:
        """Folder of a table's compaction manifests."""
        return self.root / "compactions" / table

    def horizons(self, table: str) -> Path:
        """Folder of a table's horizons."""
        return self.root / "horizons" / table

    def checkpoints(self) -> Path:
        """Folder of the checkpoints; those of Spark lie elsewhere."""
        return self.root / "lake-checkpoints"

    def is_there(self, name: str) -> bool:
        """Whether a file or folder exists, by its path as links and manifests name it.

        Raises:
            OSError: that cannot be checked.
        """
        try:
            (self.root / name).stat()
        except ValueError:
            return False  # no file is called so
        except OSError as error:
            if error.errno not in NOT_THERE:
                raise
            return False
        return True

    def relative(self, path: Path) -> str:
        """A path as links and manifests name it."""
        return str(path.relative_to(self.root))

    def rows_on_disk(self, table: str) -> Iterator[Path]:
        """Every finished parquet file of a table, whether or not it counts."""
        for kind in ("data", "batches", "staged", "compacted"):
            folder = self.root / kind / table
            yield from (path for path in folder.rglob("*.parquet") if not path.name.startswith("."))


def finished_batches(folder: Path) -> list[Path]:
    """Folders of a job's finished batches, newest first."""
    return sorted((marker.parent for marker in folder.glob("[0-9]*/_SUCCESS")), reverse=True)


def batch_files(folder: Path) -> list[Path]:
    """Files of a finished batch: those its marker names, or all where Spark left it empty."""
    marker = (folder / "_SUCCESS").read_text()
    return [folder / name for name in marker.split()] if marker else sorted(folder.glob("*.parquet"))


def parse_range(content: bytes) -> list[Part]:
    """Read a range manifest's JSON."""
    return record(content, list[Part])


def local_folder(uri: str) -> Path:
    """The folder a lake's address names.

    Raises:
        IngestError: it names something else.
    """
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return Path(uri).absolute()
    if scheme != "file" or not rest.startswith("/"):
        raise unsupported_lake(uri, "only folders and file:// addresses can create a file only if absent")
    return Path(rest)


def unsupported_lake(uri: str, reason: str) -> IngestError:
    """The lake's address names a file system without atomic create-if-absent."""
    return IngestError(f"lake {uri!r} cannot be used: {reason}; use a folder on a file system that can hard-link files")
