"""Expiry and sweeping: rows older than a horizon no longer count, and files that no longer count are deleted. An edge.

A horizon is a numbered file of its own; links, and with them the chains' ends, stay, so nothing is landed again. Files
are deleted only when a grace period has passed since they stopped counting: until then a reader may hold their names.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from ingest.lake import manifests as journal
from ingest.lake.arrow_dataset import ds
from ingest.lake.layout import Horizon
from ingest.lake.row_filter import EPOCH, between, microseconds
from ingest.lake.tables import Lake
from ingest.schema.errors import DamagedLake


@dataclass(frozen=True, slots=True)
class Freed:
    """Files, their bytes, and for expiry the rows that go with them."""

    files: int
    size_bytes: int
    rows: int = 0


def expiring(lake: Lake, table: str, before: datetime) -> Freed:
    """What a horizon would take away: rows before it, and files that hold no others.

    Raises:
        DamagedLake: a file that holds such rows cannot be read.
    """
    kind, rows = lake.table(table), 0
    for part in lake.parts(table, EPOCH, before):
        early = between(kind.time, max(part.start_us, lake.horizon_us(table)), min(part.end_us, microseconds(before)))
        paths = [str(lake.root / path) for path in part.paths]
        try:
            rows += ds.dataset(paths, schema=kind.schema).count_rows(filter=early)
        except (pa.ArrowInvalid, OSError) as error:
            raise DamagedLake(lake.root, str(error)) from error
    gone = (lake.root / path for path in _expired(lake, table, microseconds(before)))
    there = [path for path in gone if path.exists()]
    return Freed(len(there), sum(path.stat().st_size for path in there), rows)


def expire(lake: Lake, table: str, before: datetime, now: datetime) -> None:
    """Take rows before `before` out of the table at once, for every reader that lists files from now on."""
    folder, added = lake.layout.horizons(table), False
    while not added:
        number = journal.newest(folder)[0]  # before comparing: what is added meanwhile takes the next number
        if microseconds(before) <= lake.horizon_us(table):
            return
        added = journal.add(folder, number + 1, Horizon(microseconds(before), microseconds(now)).written())


def sweep(lake: Lake, table: str, now: datetime, grace: timedelta) -> Freed:
    """Delete the files that stopped counting longer than `grace` ago."""
    doomed = sorted(dead(lake, table, microseconds(now - grace)))
    emptied = _replaced_batches(lake, table, microseconds(now - grace))
    freed = Freed(len(doomed), sum(path.stat().st_size for path in doomed))
    for path in doomed:
        path.unlink(missing_ok=True)
    for folder in emptied:
        _remove_emptied(folder)
    return freed


def dead(lake: Lake, table: str, limit_us: int) -> set[Path]:
    """Files that are still there although they stopped counting at `limit_us` or before."""
    old = [one for one in lake.history().compacted(table).compactions if one.at_us <= limit_us]
    horizons = [journal.parsed(path, Horizon.parse) for path in journal.entries(lake.layout.horizons(table))]
    before_us = max((horizon.before_us for horizon in horizons if horizon.at_us <= limit_us), default=0)
    names = {path for compaction in old for path in compaction.replaced()}
    names |= set(_expired(lake, table, before_us))
    there = (path for path in lake.layout.rows_on_disk(table) if lake.layout.relative(path) in names)
    return {*there, *_lost(lake, table)}


def _lost(lake: Lake, table: str) -> Iterator[Path]:
    """What compactions left behind that died or came second: no manifest can name it any more."""
    compacted = lake.history().compacted(table)
    files = {file.path for compaction in compacted.compactions for file in compaction.files()}
    for path in lake.layout.compacted_files(table):
        if int(path.name.lstrip(".").partition("-")[0]) <= compacted.number and lake.layout.relative(path) not in files:
            yield path


def _expired(lake: Lake, table: str, before_us: int) -> Iterator[str]:
    """Files of which every row lies before a moment."""
    history = lake.history()
    compacted = [file for compaction in history.compacted(table).compactions for file in compaction.files()]
    yield from (file.path for file in (*history.chains.files(table), *compacted) if file.end_us < before_us)
    parts = list(lake.range_parts(table))
    later = {path for part in parts if part.end_us > before_us for path in part.paths}
    yield from (path for part in parts if part.end_us <= before_us for path in part.paths if path not in later)


def _replaced_batches(lake: Lake, table: str, limit_us: int) -> set[Path]:
    """Folders of batches whose rows have lain in a compacted file since `limit_us` or before."""
    old = (run for c in lake.history().compacted(table).compactions if c.at_us <= limit_us for run in c.runs)
    folders = {(lake.root / path).parent for run in old for path in run.replaces}
    return {folder for folder in folders if folder.exists()}


def _remove_emptied(folder: Path) -> None:
    """Remove a batch's folder, with its marker and check sums, unless rows were written into it anew."""
    with suppress(FileNotFoundError):  # another was quicker
        if not any(folder.glob("*.parquet")):
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
