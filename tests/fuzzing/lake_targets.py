"""Targets: the small files of a lake, which say what of it counts."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from ingest.lake.check import check
from ingest.lake.checkpoint_writer import checkpoint
from ingest.lake.compaction import When, compact
from ingest.lake.retention import dead, expire
from ingest.lake.row_filter import microseconds
from ingest.lake.tables import Lake
from ingest.schema.errors import DamagedLake
from ingest.schema.provenance import BatchId
from tests.fuzzing.target import Target, in_folder
from tests.ingest.lake.test_upkeep import HOUR, LATER, T0, TABLES, land, silent, states


def lake_targets(folder: Path) -> Iterator[Target]:
    """A lake that has all there is: links, compactions of links and of batches, horizons, ranges, a checkpoint."""
    lake = Lake.open(folder / "lake", TABLES)
    for number in range(3):
        land(lake, 0, [(0, number), (1, number)])
        lake.append("state", states((f"n{number}", 1, 1.0)), BatchId("job", number))
    lake.replace("state", T0, T0 + HOUR, "daily", states(("d", 0, 1.0)))
    for table in ("usage", "state"):
        compact(lake, table, When(LATER), silent)
        expire(lake, table, T0 + timedelta(minutes=1), LATER)
    small = [path.relative_to(lake.root).as_posix() for path in sorted(lake.root.rglob("*.json"))]
    yield in_folder("lake", "ingest.lake.layout", lake.root, _read, (DamagedLake,), small)
    checkpoint(lake, LATER)
    last = [path.relative_to(lake.root).as_posix() for path in sorted(lake.layout.checkpoints().iterdir())]
    yield in_folder("lake checkpoint", "ingest.lake.checkpoints", lake.root, _read, (DamagedLake,), last)


def _read(folder: Path) -> object:
    check(Lake.open(folder, TABLES), silent)  # tells of all and raises nothing
    lake = Lake.open(folder, TABLES)
    return [(lake.read(name), lake.position("usage", 0), dead(lake, name, microseconds(LATER))) for name in TABLES]
