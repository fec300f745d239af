"""A lake of usage as a busy cluster lands it: what the features benchmark reads."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from features.jobs.job_plan import Stretch
from features.schema.tables import SIGNAL_NAMES, TABLES
from ingest.lake.landing import Positions, RangeRows
from ingest.lake.tables import Lake
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import NODES, TIMESTAMP, USAGE, Table

START = datetime(2026, 3, 2, tzinfo=UTC)
INTERVAL_S = 30
CONTAINERS = 20
"""On each node."""
APPS = 50
MEASURED = (
    "cpu_cores",
    "cpu_throttled_frac",
    "run_delay_frac",
    "memory_bytes",
    "memory_bandwidth_bytes_s",
    "llc_occupancy_bytes",
    "cpi",
    "llc_mpki",
    "net_rx_bytes_s",
    "net_tx_bytes_s",
    "disk_read_bytes_s",
    "disk_write_bytes_s",
    "disk_ios_s",
    "psi_cpu_some_frac",
    "qps",
    "rt_mean_ms",
    "rt_p99_ms",
)
"""What of a container is measured; the rest of the catalogue is missing, as on most clusters."""
CAPACITY = {
    "cores": 64.0,
    "memory_bytes": 1e3,
    "memory_bandwidth_bytes_s": 1e3,
    "llc_bytes": 1e3,
    "nic_bytes_s": 1e3,
    "disk_bytes_s": 1e3,
    "disk_ios_s": 1e3,
}


@dataclass(frozen=True, slots=True)
class Size:
    """How much: every container of every node reports every INTERVAL_S."""

    nodes: int
    intervals: int

    @property
    def rows(self) -> int:
        """Rows of usage."""
        return self.nodes * CONTAINERS * self.intervals

    @property
    def stretch(self) -> Stretch:
        """The time it covers, whole label windows."""
        windows = -(-self.intervals * INTERVAL_S // 300)
        return Stretch(START, START + timedelta(seconds=300 * windows))


def write_lake(folder: Path, size: Size, rng: np.random.Generator) -> Lake:
    """Land nodes and usage, an hour a batch."""
    lake = Lake.open(folder, TABLES)
    _land(lake, NODES, _nodes(size), 0)
    per_batch = 3600 // INTERVAL_S
    for first in range(0, size.intervals, per_batch):
        steps = np.arange(first, min(first + per_batch, size.intervals))
        _land(lake, USAGE, _usage(size, steps, rng), int(first) * size.nodes * CONTAINERS)
    return lake


def _land(lake: Lake, kind: Table, rows: pa.Table, start: int) -> None:
    link = OffsetRange(kind.name, 0, start, start + rows.num_rows)
    Positions(lake).land(kind.name, [RangeRows(link, rows)])


def _nodes(size: Size) -> pa.Table:
    names = [f"node-{i:05d}" for i in range(size.nodes)]
    known = {"cluster": pa.array(["c"] * size.nodes), "node": pa.array(names), "platform": pa.array(["p"] * size.nodes)}
    known |= {name: pa.array([value] * size.nodes) for name, value in CAPACITY.items()}
    return _filled(NODES, size.nodes, known | _origin(NODES, np.full(size.nodes, _micros(START)), 0))


def _usage(size: Size, steps: np.ndarray, rng: np.random.Generator) -> pa.Table:
    containers = size.nodes * CONTAINERS
    which = np.tile(np.arange(containers), len(steps))
    ts = _micros(START) + (np.repeat(steps, containers) + 1) * INTERVAL_S * 1_000_000
    known = {
        "cluster": _texts(which * 0, "c", 1),
        "node": _texts(which // CONTAINERS, "node-{:05d}", size.nodes),
        "container": _texts(which, "pod-{:08d}-6f1c9b", containers),
        "app": _texts(which % APPS, "app-{}", APPS),
        "team": _texts(which % 7, "team-{}", 7),
        "qos": pa.DictionaryArray.from_arrays(pa.array((which % 3 == 0).astype(np.int32)), ["LS", "BE"]),
        "interval_s": pa.array(np.full(len(which), float(INTERVAL_S))),
    }
    known |= {name: pa.array(rng.random(len(which))) for name in SIGNAL_NAMES if name in MEASURED}
    return _filled(USAGE, len(which), known | _origin(USAGE, ts, int(steps[0]) * containers))


def _origin(kind: Table, ts: np.ndarray, start: int) -> dict[str, pa.Array]:
    count = len(ts)
    return {
        "ts": pa.array(ts, TIMESTAMP),
        "arrived_at": pa.array(ts + 1_000_000, TIMESTAMP),
        "topic": pa.array([kind.name] * count),
        "partition": pa.array(np.zeros(count, np.int32)),
        "offset": pa.array(np.arange(start, start + count)),
    }


def _filled(kind: Table, count: int, known: dict[str, pa.Array]) -> pa.Table:
    columns = [known[f.name].cast(f.type) if f.name in known else pa.nulls(count, f.type) for f in kind.schema]
    return pa.table(columns, schema=kind.schema)


def _texts(codes: np.ndarray, form: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), [form.format(i) for i in range(count)])


def _micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000
