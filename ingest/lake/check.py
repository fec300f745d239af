"""Checking a lake: is all there that counts, and is it what the log says? An edge.

It changes nothing, but renames what a power loss left half written at the end of a log, as every reader does.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from ingest.lake.data_files import FOREIGN, DataFile, is_ours
from ingest.lake.store import LOG
from ingest.lake.tables import Lake
from ingest.schema.errors import DamagedLake, IngestError
from ingest.schema.tables import GAPS, LAKE_OWN

RESTORE = "restore it from a copy"
SLACK_US = 1000
"""The log has times to the millisecond."""
_ENTRY = re.compile(r"[0-9]{20}\.json")
Progress = Callable[[int, int], None]
"""Called with how many of how many files are done."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is not as it should be.

    Args:
        path: the file.
        what: what is wrong with it.
        remedy: what to do.
    """

    path: str
    what: str
    remedy: str = RESTORE


@dataclass(frozen=True, slots=True)
class Heap:
    """Files and their bytes."""

    files: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class Report:
    """What a check found.

    Args:
        tables: that are there.
        commits: to them.
        gaps: ranges of offsets that the broker had dropped unread.
        gap_offsets: offsets in them.
        files: files that count.
        rows: rows in them, duplicates included.
        torn: log entries and checkpoints that were half written when the power failed, and were renamed.
        orphans: files that no version names: of writers that died or came second. Harmless.
        waiting: files that were compacted, replaced or have expired, and wait to be deleted.
        damage: what is wrong.
    """

    tables: int = 0
    commits: int = 0
    gaps: int = 0
    gap_offsets: int = 0
    files: int = 0
    rows: int = 0
    torn: int = 0
    orphans: Heap = Heap()
    waiting: Heap = Heap()
    damage: list[Damage] = field(default_factory=list)


def check(lake: Lake, progress: Progress, depth: Literal["footers", "rows"] = "footers") -> Report:
    """Look at every table and file that counts.

    Args:
        lake: the lake.
        progress: called for each file looked at.
        depth: `footers` compares sizes and counts with each file's footer; `rows` also reads every row.
    """
    report = Report()
    counting: list[tuple[str, DataFile]] = []
    for table in sorted({*lake.tables, *LAKE_OWN}):
        counting += [(table, file) for file in _look(lake, table, report)]
    for done, (table, file) in enumerate(counting, start=1):
        _check_file(lake, table, file, report, depth)
        progress(done, len(counting))
    return report


def _look(lake: Lake, table: str, report: Report) -> tuple[DataFile, ...]:
    """Files of a table that count; damage where its log cannot be read."""
    try:
        lake.store.mend(table)
        _look_at_log(lake, table, report)
        fence = lake.fence(table)
        if fence.version < 0:
            return ()
        files, sizes = fence.files(), lake.store.sizes(table)
        once, unused = set(fence.unused(full=False)), sizes.keys() - {file.path for file in files}
        gaps = lake.rows(table) if table == GAPS.name else None
    except DamagedLake as error:
        report.damage.append(Damage(str(error.path), error.reason))
        return ()
    except IngestError as error:
        report.damage.append(Damage(lake.store.address(table), str(error)))
        return ()
    report.tables, report.commits = report.tables + 1, report.commits + fence.version + 1
    if gaps is not None:
        lost = pc.sum(pc.subtract(gaps["end"], gaps["start"])).as_py() or 0
        report.gaps, report.gap_offsets = report.gaps + gaps.num_rows, report.gap_offsets + lost
    report.waiting = _more(report.waiting, [sizes[path] for path in unused & once])
    report.orphans = _more(report.orphans, [sizes[path] for path in unused - once])
    for file in files:
        if not is_ours(file.path):
            report.damage.append(Damage(lake.store.address(f"{table}/{file.path}"), FOREIGN))
        if file.path not in sizes:
            report.damage.append(Damage(lake.store.address(f"{table}/{file.path}"), "it is missing"))
        elif sizes[file.path] != file.size_bytes:
            what = f"it has {sizes[file.path]} bytes, {file.size_bytes} were written"
            report.damage.append(Damage(lake.store.address(f"{table}/{file.path}"), what))
    return tuple(file for file in files if sizes.get(file.path) == file.size_bytes)


def _look_at_log(lake: Lake, table: str, report: Report) -> None:
    """Entries that are cut, or missing between others; and those that a power loss had torn."""
    names = lake.store.log_names(table)
    report.torn += sum(name.endswith(".torn") for name in names)
    entries = {int(name[:20]): name for name in names if _ENTRY.fullmatch(name)}
    for name in entries.values():
        if not lake.store.entry_is_whole(table, name):
            place = lake.store.address(f"{table}/{LOG}/{name}")
            report.damage.append(Damage(place, "lines of it are missing, and the rows of the files that they named"))
    if missing := sorted({*range(min(entries, default=0), max(entries, default=0))} - entries.keys()):
        place = lake.store.address(f"{table}/{LOG}/{missing[0]:020d}.json")
        report.damage.append(Damage(place, f"{len(missing)} log entries from here on are missing"))


def _check_file(lake: Lake, table: str, file: DataFile, report: Report, depth: Literal["footers", "rows"]) -> None:
    kind, path = lake.table(table), lake.store.address(f"{table}/{file.path}")
    try:
        rows = lake.dataset(table, [file])
        count = rows.count_rows()
        times = rows.to_table([kind.time] if kind.time and depth == "footers" else None)
    except (pa.ArrowException, OSError) as error:
        report.damage.append(Damage(path, str(error)))
        return
    report.files += 1
    report.rows += count
    span = pc.min_max(times[kind.time].cast(pa.int64())) if kind.time and count else None
    if span is not None and span["min"].as_py() is None:
        report.damage.append(Damage(path, f"none of its rows has a {kind.time}: another engine wrote it"))
        return
    if count != file.rows:
        report.damage.append(Damage(path, f"it holds {count} rows, {file.rows} were written"))
    elif span is not None and not _within(file, span["min"].as_py(), span["max"].as_py()):
        said = file.start_us, file.end_us
        report.damage.append(Damage(path, f"its times are {span['min']}, {span['max']}, {said} were written"))


def _within(file: DataFile, low_us: int, high_us: int) -> bool:
    return low_us - SLACK_US <= file.start_us <= low_us and high_us <= file.end_us <= high_us + SLACK_US


def _more(heap: Heap, sizes: list[int]) -> Heap:
    return Heap(heap.files + len(sizes), heap.size_bytes + sum(sizes))
