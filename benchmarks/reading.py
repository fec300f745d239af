"""Reading: the most memory that training rows take on their way from a lake, all of them or a sample."""

from collections.abc import Callable
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import micros
from features.schema.tables import TABLES
from features.training.sample_reader import draw_local
from features.training.stratified_sample import PROPORTIONAL
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import Lake
from ingest.schema.tables import TIMESTAMP

SAMPLE_SHARE = 0.05
HOUR_US = 3_600_000_000
Read = Callable[[Lake, int], None]


def peaks(folder: Path, table: pa.Table, rows: int) -> dict[str, float]:
    """Peak memory of reading about so many rows, made of a table's, and of drawing a twentieth of them, in MB.

    Beside them what a process holds that has only imported and opened.
    """
    lake = Lake.open(folder / "many", TABLES)
    write_many(lake, table, rows)
    kept = round(SAMPLE_SHARE * rows)
    return {f"read_{name}_mb": peak_mb(folder / "many", read, kept) for name, read in READS.items()}


def write_many(lake: Lake, table: pa.Table, rows: int) -> None:
    """Rows of a table over and over, each time later than the time before, hour by hour as jobs write them."""
    first, last = (value.as_py() for value in pc.min_max(table["window_end"]).values())
    span_us = (last - first).total_seconds() * 1e6 // HOUR_US * HOUR_US + HOUR_US
    for number in range(max(1, round(rows / table.num_rows))):
        moved = pa.array(micros(table["window_end"]) + round(number * span_us), TIMESTAMP)
        again = table.set_column(table.column_names.index("window_end"), "window_end", moved)
        ends = pc.min_max(again["window_end"])
        lake.replace("training", _moment(ends["min"], 0), _moment(ends["max"], 1), "features", again)


def peak_mb(folder: Path, read: Read, kept: int) -> float:
    """The most memory a process of its own ever held."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak, (folder, read, kept))


def _peak(folder: Path, read: Read, kept: int) -> float:
    read(Lake.open(folder, TABLES), kept)
    return _high_water_mb()


def _high_water_mb() -> float:
    """The most this process held since it was started; getrusage would tell its parent's, where that is more."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def nothing(lake: Lake, _: int) -> None:
    """Count the rows."""
    lake.count("training", EPOCH, FOREVER)


def everything(lake: Lake, _: int) -> None:
    """Read all rows."""
    lake.read("training")


def sample(lake: Lake, kept: int) -> None:
    """Draw so many."""
    draw_local(lake, kept, power=PROPORTIONAL)


READS: dict[str, Read] = {"nothing": nothing, "everything": everything, "sample": sample}


def _moment(value: pa.Scalar, later_us: int) -> datetime:
    moment: datetime = pa.scalar(value.cast(pa.int64()).as_py() + later_us, TIMESTAMP).as_py()
    return moment
