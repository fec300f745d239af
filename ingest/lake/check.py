"""Checking a lake: is all there that counts, and is it what links and manifests say? An edge; changes nothing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.lake import manifests as journal
from ingest.lake.checkpoints import REMEDY, Chain, all_checkpoints, wrong_of
from ingest.lake.layout import Compaction, DataFile, LinkFacts, Part, batch_files, finished_batches
from ingest.lake.tables import Lake
from ingest.schema.errors import DamagedLake
from ingest.schema.tables import Table

RESTORE = "restore it from a copy"
UNREADABLE = "it cannot be read"
Read = TypeVar("Read")
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
        links: links read.
        gaps: stretches that the broker had dropped unread.
        gap_offsets: offsets in them.
        files: files that count.
        rows: rows in them, duplicates included.
        orphans: files that nothing names: of writers that died or came second, or replaced ranges. Harmless.
        waiting: files that were compacted or have expired, and wait to be deleted.
        damage: what is wrong.
    """

    links: int = 0
    gaps: int = 0
    gap_offsets: int = 0
    files: int = 0
    rows: int = 0
    orphans: Heap = Heap()
    waiting: Heap = Heap()
    damage: list[Damage] = field(default_factory=list)


def check(lake: Lake, progress: Progress, depth: Literal["footers", "rows"] = "footers") -> Report:
    """Look at every chain, manifest, batch and file that counts.

    Args:
        lake: the lake.
        progress: called for each file looked at.
        depth: `footers` compares counts and times with each file's footer; `rows` also reads every row.
    """
    report = Report()
    checkpoints = all_checkpoints(lake.layout)  # before all that they stand for
    compactions = {name: _compactions(lake, name, report) for name in lake.tables}  # before the links they speak of
    chains = {place: _check_chain(lake, *place, report) for place in lake.layout.partitions()}
    horizons_us = {name: _try(report, partial(lake.horizon_us, name), 0) for name in lake.tables}
    if not report.damage:
        for path, base in checkpoints.items():
            wrong = wrong_of(base, chains, compactions, horizons_us, lake.layout.is_there) if base else [UNREADABLE]
            report.damage += [Damage(lake.layout.relative(path), what, REMEDY) for what in wrong]
    landed = [file for links in chains.values() for _, facts in links for file in facts.files]
    by_table = {name: [file for file in landed if file.table == name] for name in lake.tables}
    plans = [
        _check_table(lake, name, _Said(by_table[name], compactions[name], horizons_us[name]), report)
        for name in sorted(lake.tables)
    ]
    everything = [(plan.kind, expected) for plan in plans for expected in plan.counting]
    for done, (kind, item) in enumerate(everything, start=1):
        _check_file(lake, kind, item, report, depth)
        progress(done, len(everything))
    for plan in plans:
        _count_the_rest(lake, plan, report)
    return report


@dataclass(frozen=True, slots=True)
class _Said:
    """What links, compactions and the newest horizon say of a table."""

    landed: Sequence[DataFile]
    compactions: Sequence[Compaction]
    horizon_us: int


@dataclass(frozen=True, slots=True)
class _Expected:
    """One file that counts, and what is said of it; None where nothing is."""

    path: str
    facts: DataFile | None = None


@dataclass(slots=True)
class _Plan:
    """Files of one table: those that count, and all that something names."""

    kind: Table
    counting: list[_Expected]
    named: set[str]


def _try(report: Report, read: Callable[[], Read], otherwise: Read) -> Read:
    """What can be read, or else a report of the damage."""
    try:
        return read()
    except DamagedLake as error:
        report.damage.append(Damage(str(error.path), error.reason))
        return otherwise


def _check_chain(lake: Lake, topic: str, partition: int, report: Report) -> Chain:
    """Read every link of a chain, whether or not it follows the one before."""
    links: list[tuple[int, LinkFacts]] = []
    end: int | None = 0
    for start in sorted(lake.layout.starts(topic, partition)):
        path = lake.layout.link(topic, partition, start)
        report.links += 1
        if end is not None and start != end:
            what = f"links from {end} to {start} are missing" if start > end else f"it overlaps the link up to {end}"
            report.damage.append(Damage(lake.layout.relative(path), what, f"restore {path.parent} from a copy"))
        try:
            facts = journal.parsed(path, LinkFacts.parse)
        except DamagedLake as error:
            report.damage.append(Damage(lake.layout.relative(path), error.reason))
            end = None  # not known
            continue
        if facts.kind == "gap":
            report.gaps += 1
            report.gap_offsets += facts.end - start
        end = facts.end
        links.append((start, facts))
    return links


def _check_table(lake: Lake, table: str, said: _Said, report: Report) -> _Plan:
    """What counts in a table, by its manifests; each is read by itself, so that one bad one hides no other."""
    landed, compactions, horizon_us = said.landed, said.compactions, said.horizon_us
    known = {file.path: file.rows for file in landed}
    replaced: set[str] = set()
    for compaction in compactions:
        for one in compaction.merged:
            _check_sum(one.file, one.replaces, known, replaced, report)
            known[one.file.path] = one.file.rows
            replaced |= set(one.replaces)
    merged = [one.file for compaction in compactions for one in compaction.merged]
    runs = [run.file for compaction in compactions for run in compaction.runs if run.file]
    files = [file for file in (*landed, *merged, *runs) if file.path not in replaced and file.end_us >= horizon_us]
    counting = [_Expected(file.path, file) for file in files]
    none: list[Part] = []
    ranged = _try(report, lambda: list(lake.range_parts(table)), none)
    named = {path for part in ranged for path in part.paths}
    counting += [_Expected(path) for path in sorted({p for r in ranged if r.end_us > horizon_us for p in r.paths})]
    batches = {path for job in lake.jobs(table) for path in _batch_paths(lake, table, job)}
    in_runs = {path for compaction in compactions for run in compaction.runs for path in run.replaces}
    counting += [_Expected(path) for path in sorted(batches - in_runs)]
    named |= batches | in_runs
    return _Plan(
        lake.table(table), counting, named | set(known) | {file.path for file in runs} | {e.path for e in counting}
    )


def _check_sum(
    file: DataFile, replaces: Sequence[str], known: dict[str, int], replaced: set[str], report: Report
) -> None:
    strangers, twice = [p for p in replaces if p not in known], [p for p in replaces if p in replaced]
    rows = sum(known.get(path, 0) for path in replaces)
    if strangers:
        report.damage.append(Damage(file.path, f"it replaces {strangers[0]}, which no link names", "restore the links"))
    elif twice:
        report.damage.append(
            Damage(file.path, f"it replaces {twice[0]}, which another file replaces", "delete neither")
        )
    elif rows != file.rows:
        report.damage.append(Damage(file.path, f"its manifest says {file.rows} rows, the files it replaces had {rows}"))


def _compactions(lake: Lake, table: str, report: Report) -> list[Compaction]:
    """Every manifest that can be read; a missing number is damage."""
    folder, found = lake.layout.compactions(table), []
    newest = journal.newest(folder)[0]
    for path in (journal.entry_path(folder, number) for number in range(1, newest + 1)):
        try:
            found.append(journal.parsed(path, Compaction.parse))
        except DamagedLake as error:
            report.damage.append(Damage(lake.layout.relative(path), error.reason))
    return found


def _batch_paths(lake: Lake, table: str, job: str) -> Iterator[str]:
    for folder in finished_batches(lake.layout.batches(table) / job):
        yield from map(lake.layout.relative, batch_files(folder))


def _check_file(
    lake: Lake, kind: Table, expected: _Expected, report: Report, depth: Literal["footers", "rows"]
) -> None:
    path = lake.root / expected.path
    try:
        footer = pq.read_metadata(path)
        span = _span(path, footer, kind.time)
        if depth == "rows":
            pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        missing = isinstance(error, FileNotFoundError)
        report.damage.append(Damage(expected.path, "it is missing" if missing else str(error)))
        return
    report.files += 1
    report.rows += footer.num_rows
    said = expected.facts
    if said and footer.num_rows != said.rows:
        report.damage.append(Damage(expected.path, f"it holds {footer.num_rows} rows, {said.rows} were written"))
    elif said and span != (said.start_us, said.end_us):
        report.damage.append(Damage(expected.path, f"its times are {span}, {said.start_us, said.end_us} were written"))


def _span(path: Path, footer: pq.FileMetaData, time: str) -> tuple[int, int] | None:
    """First and last time of a file, by the statistics of its footer, or by its rows where there are none."""
    column = next((i for i in range(footer.num_columns) if footer.schema.column(i).name == time), None)
    if column is None or footer.num_rows == 0:
        return None
    found = [footer.row_group(i).column(column).statistics for i in range(footer.num_row_groups)]
    if all(one is not None and one.has_min_max for one in found):
        return min(one.min_raw for one in found), max(one.max_raw for one in found)
    span = pc.min_max(pq.read_table(path, columns=[time])[time].cast(pa.int64()))
    return span["min"].as_py(), span["max"].as_py()


def _count_the_rest(lake: Lake, plan: _Plan, report: Report) -> None:
    counting = {expected.path for expected in plan.counting}
    sizes = {lake.layout.relative(path): path.stat().st_size for path in lake.layout.rows_on_disk(plan.kind.name)}
    orphans = [size for path, size in sizes.items() if path not in plan.named]
    waiting = [size for path, size in sizes.items() if path in plan.named and path not in counting]
    report.orphans = Heap(report.orphans.files + len(orphans), report.orphans.size_bytes + sum(orphans))
    report.waiting = Heap(report.waiting.files + len(waiting), report.waiting.size_bytes + sum(waiting))
