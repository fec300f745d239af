"""One way of landing, measured in a process of its own: `ours`, the `before` of another checkout, or `bare` files.

python lake_child.py ours|before|bare ADDRESS BATCHES COMMITS, with the checkout that is measured first on PYTHONPATH.
"""

import json
import os
import resource
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START = datetime(2026, 3, 2, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
NODES, INTERVALS = 200, 12
"""Of a batch: 4,000 containers, six minutes, 48,000 rows."""
AT_EACH_END = 100
"""Commits of which the mean is compared."""
Land = Callable[[int, pa.Table], None]
"""Lands rows that begin at an offset."""


def main(way: str, address: str, batches: int, commits: int) -> dict[str, float]:
    """Land large batches, then many small ones, then read; figures by name."""
    land, lake = WAYS[way](address)
    usage = import_module("benchmarks.usage_data")
    size, offset, took_s = usage.Size(NODES, INTERVALS * batches), 0, 0.0
    for number in range(batches):
        rows = usage._usage(
            size, np.arange(number * INTERVALS, (number + 1) * INTERVALS), np.random.default_rng(number)
        )
        began = process_time()
        land(offset, rows)
        took_s += process_time() - began
        offset += rows.num_rows
    found = {"landed_rows_s": offset / took_s}
    cpu, wall = [], []
    for number in range(commits):
        began, clock = process_time(), perf_counter()
        land(offset + number, rows.slice(number, 1))
        cpu.append(process_time() - began)
        wall.append(perf_counter() - clock)
    found |= {
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "commit_first_cpu_ms": 1000 * float(np.mean(cpu[1 : 1 + AT_EACH_END])),
        "commit_last_cpu_ms": 1000 * float(np.mean(cpu[-AT_EACH_END:])),
        "commit_p95_ms": 1000 * float(np.quantile(wall[-AT_EACH_END:], 0.95)),
    }
    return found | (_reading(way, lake) if lake is not None else {})


def _reading(way: str, lake: Any) -> dict[str, float]:
    upkeep = import_module("ingest.lake.upkeep" if way == "ours" else "ingest.lake.compaction")
    began = process_time()
    upkeep.compact(lake, "usage", upkeep.When(LATER), lambda _done, _of: None)
    took_s = process_time() - began
    filters = import_module("ingest.lake.row_filter")
    hour = _quickest(lambda: lake.read("usage", START, START + timedelta(hours=1)))
    scan = _quickest(lambda: lake.rows("usage", filters.EPOCH, filters.FOREVER))
    return {"compaction_cpu_s": took_s, "hour_ms": 1000 * hour, "scan_ms": 1000 * scan}


def _quickest(work: Callable[[], object], times: int = 5) -> float:
    took = []
    for _ in range(times):
        began = perf_counter()
        work()
        took.append(perf_counter() - began)
    return min(took)


def _ours(address: str) -> tuple[Land, Any]:
    landing = import_module("ingest.lake.landing")
    lake, range_of = _opened(address), import_module("ingest.schema.provenance").OffsetRange
    positions = landing.Positions(lake)

    def land(offset: int, rows: pa.Table) -> None:
        range_ = range_of("usage", 0, offset, offset + rows.num_rows)
        if positions.land("usage", [landing.RangeRows(range_, rows)]):
            raise AssertionError(f"{range_} was refused")

    return land, lake


def _before(address: str) -> tuple[Land, Any]:
    lake, link_of = _opened(address), import_module("ingest.schema.provenance").Link

    def land(offset: int, rows: pa.Table) -> None:
        link = link_of("usage", 0, offset, offset + rows.num_rows)
        lake.commit(link, lake.append("usage", rows, link))

    return land, lake


def _opened(address: str) -> Any:
    return import_module("ingest.lake.tables").Lake.open(address, import_module("ingest.schema.tables").LANDED)


def _bare(address: str) -> tuple[Land, Any]:
    folder = Path(address)
    folder.mkdir(parents=True)

    def land(offset: int, rows: pa.Table) -> None:
        path = folder / f"{offset:012d}.parquet"
        pq.write_table(rows, path, compression="zstd")
        for place in (path, folder):
            descriptor = os.open(place, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    return land, None


WAYS: dict[str, Callable[[str], tuple[Land, Any]]] = {"ours": _ours, "before": _before, "bare": _bare}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
