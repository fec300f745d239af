"""Lake: how long it takes to learn which files count, after so many landed batches, with checkpoints and without."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow as pa

from benchmarks.runner import OURS, Benchmark, Result
from ingest.lake.checkpoint_writer import checkpoint
from ingest.lake.compaction import When, compact
from ingest.lake.layout import DataFile
from ingest.lake.retention import sweep
from ingest.lake.tables import Lake
from ingest.schema.provenance import Link
from ingest.schema.tables import LANDED, USAGE

T0 = datetime(2026, 3, 1, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
EACH = timedelta(seconds=1)
FOLLOWED = "without_checkpoints"
OPENED = 3
"""Times that the lake is opened each way; the quickest counts."""


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Land a batch a second, with compaction as often as asked for, and open the lake after the last of it."""
    with TemporaryDirectory(prefix="cohabit-lake-") as name:
        lake, took = Lake.open(Path(name), LANDED), [0.0]
        for first in range(0, arguments.links, arguments.every):
            for number in range(first, min(first + arguments.every, arguments.links)):
                _land(lake, number)
            compact(lake, USAGE.name, When(LATER), lambda _done, _of: None)
            sweep(lake, USAGE.name, LATER, timedelta())
            took.append(_seconds(lambda: checkpoint(lake, LATER)))
        _land(lake, arguments.links)
        ours = min(_seconds(lambda: _opened(lake.root)) for _ in range(OPENED))
        files = _opened(lake.root)
        lake.layout.checkpoints().rename(lake.root / "aside")
        followed = min(_seconds(lambda: _opened(lake.root)) for _ in range(OPENED))
        if files != _opened(lake.root):
            raise AssertionError("checkpoints lead to other files than links do")
    return {
        OURS: {"open_ms": 1000 * ours, "times_as_quick": followed / ours, "checkpoint_ms": 1000 * max(took)},
        FOLLOWED: {"open_ms": 1000 * followed, "times_as_quick": 1.0, "checkpoint_ms": 0.0},
    }


def _land(lake: Lake, number: int) -> None:
    link = Link("usage", 0, number, number + 1)
    lake.commit(link, lake.append(USAGE.name, _row(number), link))


def _row(number: int) -> pa.Table:
    moment = T0 + number * EACH
    row = {
        "cluster": "c",
        "node": "n",
        "container": "u",
        "interval_s": 30.0,
        "ts": moment,
        "topic": "usage",
        "partition": 0,
        "offset": number,
        "arrived_at": moment,
    }
    return pa.Table.from_pylist([row], schema=USAGE.schema)


def _opened(root: Path) -> list[DataFile]:
    return sorted(Lake.open(root, LANDED).counting(USAGE.name), key=lambda file: file.path)


def _seconds(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--links", type=int, default=20_000, help="batches that were landed (20000)")
    parser.add_argument("--every", type=int, default=2_000, help="batches between two compactions (2000)")


BENCHMARK = Benchmark(
    "lake",
    "time to learn which files count after so many landed batches, with checkpoints and without",
    run,
    runs=1,
    add_arguments=_arguments,
)
