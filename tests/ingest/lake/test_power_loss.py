"""Power loss: what was reported is there once, and landing goes on, whatever a disk kept of the rest.

While batches land, the power may go before each fsync. A disk then holds what was flushed; of all else it may hold
nothing, a name without content, a part of the content, or all.
"""

import os
import random
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.lake import fence
from ingest.lake.check import check
from ingest.lake.landing import Positions, RangeRows
from ingest.lake.store import LOG
from ingest.lake.tables import Lake
from ingest.lake.upkeep import When, compact, vacuum
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import DEAD_LETTERS, USAGE

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
TABLES = {USAGE.name: USAGE, DEAD_LETTERS.name: DEAD_LETTERS}
FEWER = replace(USAGE, columns=tuple(one for one in USAGE.columns if one.name != "cpu_cores"))
PARTITIONS = (0, 1)
OFFSETS = 3
"""Offsets of each partition in one batch: the first is a gap; in every other one the last offset is a dead letter."""
LAKE = "data/lake"
"""Place of the lake below the disk's folder, which is there, while these two are not."""

_UNIQUE = re.compile(r"[0-9a-f]{32}")

Inode = tuple[int, int, int]
"""Number, time of writing and size of a file: others for each content."""
Names = Mapping[str, Inode | None]
"""What lies in a folder; None: a folder."""
Kept = Callable[[str, bytes], bytes | None]
"""What a disk holds of a file, by its path and content, that was not flushed; None: not even its name."""


class Died(Exception):
    """A process ends here, and another goes on."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A disk just before something is flushed.

    Args:
        names: folders as processes see them, by path.
        flushed_names: folders as they were when they were flushed last.
        flushed: files whose content was.
        reported: position of each partition that was reported as landed.
    """

    names: Mapping[str, Names]
    flushed_names: Mapping[str, Names]
    flushed: frozenset[Inode]
    reported: Mapping[int, int]


@dataclass
class Disk:
    """A folder whose flushes are recorded.

    Args:
        root: the folder.
    """

    root: Path
    content: dict[Inode, bytes] = field(default_factory=dict)
    flushed_names: dict[str, Names] = field(default_factory=dict)
    flushed: set[Inode] = field(default_factory=set)
    moments: list[Moment] = field(default_factory=list)
    reported: dict[int, int] = field(default_factory=dict)
    deadly: str = ""

    def fsync(self, descriptor: int) -> None:
        """Record a moment and what is flushed then; the system has nothing to do, as no power goes.

        Raises:
            Died: the process dies before it flushes a new file of the folder `deadly`.
        """
        names, about = self.look(), os.fstat(descriptor)
        if self.deadly and _inode(about) in {*names[self.deadly].values()} - self.flushed:
            raise Died
        if stat.S_ISDIR(about.st_mode):
            [folder] = [one for one in names if (self.root / one).stat().st_ino == about.st_ino]
            self.flushed_names[folder] = names[folder]
        else:
            self.flushed.add(_inode(about))

    def look(self) -> dict[str, Names]:
        """Record a moment; the folders as they are."""
        found: dict[str, Names] = {}
        for place, folders, files in os.walk(self.root):
            inodes = {file: _inode((Path(place) / file).stat()) for file in files}
            for file in files:
                if inodes[file] not in self.content:
                    self.content[inodes[file]] = (Path(place) / file).read_bytes()
            found[os.path.relpath(place, self.root)] = {**dict.fromkeys(folders), **inodes}
        self.moments.append(Moment(found, dict(self.flushed_names), frozenset(self.flushed), dict(self.reported)))
        return found

    def left(self, moment: Moment, kept: Kept, folder: str = ".") -> Iterator[tuple[str, bytes]]:
        """Path and content of each file that a disk holds after a power loss."""
        now, before = moment.names.get(folder, {}), moment.flushed_names.get(folder, {})
        for name in now.keys() | before.keys():
            path = os.path.normpath(f"{folder}/{name}")
            newest = self.content.get(now.get(name) or (0, 0, 0), b"")
            named = kept(path, newest) is not None
            there, inode = (name in now, now.get(name)) if named else (name in before, before.get(name))
            if there and inode is None:
                yield from self.left(moment, kept, path)
            elif there and inode in moment.flushed:
                yield path, self.content[inode]
            elif there and inode is not None:
                yield path, kept(path, self.content[inode]) or b""


def _inode(about: os.stat_result) -> Inode:
    return about.st_ino, about.st_mtime_ns, about.st_size


def nothing(_path: str, _content: bytes) -> None:
    """Not even the name."""


def no_content(_path: str, _content: bytes) -> bytes:
    return b""


def half(_path: str, content: bytes) -> bytes:
    return content[: len(content) // 2]


def first_line(_path: str, content: bytes) -> bytes:
    return content.partition(b"\n")[0]


def all_lines_but_the_last(_path: str, content: bytes) -> bytes:
    return content.rpartition(b"\n")[0]


def everything(_path: str, content: bytes) -> bytes:
    return content


def even_entries(path: str, content: bytes) -> bytes:
    return b"" if re.search(r"[13579]\.json$", path) else content


def odd_entries(path: str, content: bytes) -> bytes:
    return b"" if re.search(r"[02468]\.json$", path) else content


ALIKE = (nothing, no_content, half, first_line, all_lines_but_the_last, even_entries, odd_entries, everything)


def of_each_file_something_else(seed: int) -> Kept:
    def kept(path: str, content: bytes) -> bytes | None:
        return random.Random(f"{seed} {_UNIQUE.sub('', path)}").choice(ALIKE)(path, content)

    return kept


def what(partition: int, offset: int) -> str:
    """What lies at an offset."""
    if offset < OFFSETS:
        return "gap"
    return "letter" if partition == 0 and offset % (2 * OFFSETS) == OFFSETS - 1 else "row"


def batch(partition: int, start: int) -> RangeRows:
    """What the offsets from `start` on bring."""
    offsets = range(start, start + OFFSETS)
    rows = [
        {
            "cluster": "c",
            "node": "n",
            "container": f"u{partition}-{offset}",
            "interval_s": 30.0,
            "ts": T0 + timedelta(hours=start // OFFSETS % 2),
            "topic": "usage",
            "partition": partition,
            "offset": offset,
            "arrived_at": T0,
        }
        for offset in offsets
        if what(partition, offset) == "row"
    ]
    letters = [
        {"item": "", "reason": "json", "topic": "usage", "partition": partition, "offset": offset, "arrived_at": T0}
        for offset in offsets
        if what(partition, offset) == "letter"
    ]
    whole = OffsetRange("usage", partition, start, start + OFFSETS)
    return RangeRows(
        whole,
        pa.Table.from_pylist(rows, schema=USAGE.schema),
        pa.Table.from_pylist(letters, schema=DEAD_LETTERS.schema),
        gaps=() if start else (whole,),
    )


def positions(lake: Lake) -> dict[int, int]:
    return {partition: Positions(lake).position("usage", partition) or 0 for partition in PARTITIONS}


def land_next(lake: Lake, starts: Mapping[int, int]) -> dict[int, int]:
    """Land a batch of each partition; the positions after it."""
    brings = [batch(partition, start) for partition, start in starts.items()]
    assert Positions(lake).land("usage", brings) == []
    return {one.range.partition: one.range.end for one in brings}


def landed(lake: Lake, table: str) -> list[tuple[int, int]]:
    """(partition, offset) of all rows that count, duplicates included."""
    rows = lake.rows(table, columns=["partition", "offset"])
    return sorted(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))


def brought(kind: str, ends: Mapping[int, int]) -> list[tuple[int, int]]:
    """(partition, offset) of what batches brought up to positions."""
    places = [(partition, offset) for partition, end in ends.items() for offset in range(end)]
    return [place for place in places if what(*place) == kind]


def silent(_done: int, _total: int) -> None:
    """Print nothing."""


def assert_recovers(root: Path, reported: Mapping[int, int]) -> None:
    """Open what is left of a lake: all that was reported is there once, and landing goes on."""
    lake = Lake.open(root, TABLES)
    found = positions(lake)
    assert all(found[partition] >= position for partition, position in reported.items())
    assert landed(lake, "usage") == brought("row", found)

    after = land_next(lake, found)

    assert landed(lake, "usage") == brought("row", after)
    assert landed(lake, "dead_letters") == brought("letter", after)
    assert sorted(lake.rows("gaps")["partition"].to_pylist()) == [*PARTITIONS]
    assert check(lake, silent).damage == []


def recorded(root: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Land batches, each by a new process: a column comes with the second, the third dies, the fourth compacts."""
    root.mkdir()
    disk = Disk(root)
    monkeypatch.setattr(fence, "CHECKPOINT_EVERY", 3)
    monkeypatch.setattr(os, "fsync", disk.fsync)
    for number in range(5):
        lake = Lake.open(root / LAKE, TABLES if number else {**TABLES, USAGE.name: FEWER})
        Positions(lake).topic_ids.check("usage", "id-1")
        starts = positions(lake)
        if number == 2:
            disk.deadly = f"{LAKE}/usage/{LOG}"
            with pytest.raises(Died):
                land_next(lake, starts)
            disk.deadly = ""
            continue
        disk.reported |= land_next(lake, starts)
        if number == 3:
            assert compact(lake, "usage", When(LATER), silent).files == 2
            assert vacuum(lake, "usage", retention=timedelta()).files == 2
    disk.look()
    return disk


def as_read(files: Mapping[str, bytes]) -> frozenset[tuple[str, bytes]]:
    """Of files what a lake reads: logs, the files that they name, and whether a table has any."""
    logs = b"".join(content for path, content in files.items() if LOG in path)
    return frozenset(
        (path, content) if LOG in path or Path(path).name.encode() in logs else (path.split("/")[2], b"")
        for path, content in files.items()
    )


def test_after_a_power_loss_all_that_was_reported_is_there_once_and_landing_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = recorded(tmp_path / "disk", monkeypatch)
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    seen: set[tuple[object, ...]] = set()
    for number, moment in enumerate(disk.moments):
        for kept in (*ALIKE, of_each_file_something_else(number)):
            files = dict(disk.left(moment, kept))
            state = as_read(files), *moment.reported.items()
            if state not in seen:
                seen.add(state)
                root = tmp_path / f"{number} {kept.__name__}"
                for path, content in files.items():
                    (root / path).parent.mkdir(parents=True, exist_ok=True)
                    (root / path).write_bytes(content)
                assert_recovers(root / LAKE, moment.reported)
    assert len(seen) > 60
