"""Targets: the log of a lake's tables, which says what of it counts."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from ingest.lake.check import check
from ingest.lake.landing import Positions
from ingest.lake.tables import Lake
from ingest.lake.upkeep import When, compact, expire
from ingest.schema.errors import IngestError
from ingest.schema.provenance import BatchId
from tests.fuzzing.target import Target, in_folder
from tests.ingest.lake.test_upkeep import HOUR, LATER, T0, TABLES, land, silent, states


def lake_targets(folder: Path) -> Iterator[Target]:
    """A lake that has all there is: ranges of streams and of jobs, batches, what was compacted and what expired."""
    lake = Lake.open(folder / "lake", TABLES)
    for number in range(3):
        land(lake, 0, [(0, number), (1, number)])
        lake.append("state", states((f"n{number}", 1, 1.0)), BatchId("job", number))
    lake.replace("state", T0, T0 + HOUR, "daily", states(("d", 0, 1.0)))
    for table in ("usage", "state"):
        compact(lake, table, When(LATER), silent)
        expire(lake, table, T0 + timedelta(minutes=1))
    log = [path.relative_to(lake.root).as_posix() for path in sorted(lake.root.rglob("*.json"))]
    yield in_folder("lake", "ingest.lake.fence", lake.root, _read, (IngestError,), log)


def _read(folder: Path) -> object:
    check(Lake.open(folder, TABLES), silent)  # tells of all and raises nothing
    lake = Lake.open(folder, TABLES)
    return [(lake.read(name), Positions(lake).position("usage", 0), lake.horizon_us(name)) for name in TABLES]
