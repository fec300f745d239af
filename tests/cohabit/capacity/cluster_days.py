"""A lake with days of a small cluster: services whose load follows the day, and a best-effort container each node."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from features.jobs.job_plan import JOB
from features.schema.tables import NODE_STATE, TABLES
from ingest.lake.tables import Lake
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import NODES, PLACEMENTS, USAGE, Table
from tests.landed import land_rows

START = datetime(2026, 3, 1, tzinfo=UTC)
CORES, MEMORY = 16.0, 64e9
BINS_A_DAY = 288


@dataclass(frozen=True)
class Days:
    """How long, how many nodes; by container, minutes of the last hours that are missing, and what came late."""

    nodes: int = 8
    days: float = 3.0
    silent: str = ""
    young: str = ""
    requests: bool = True
    placed: bool = True
    described: tuple[tuple[str, object], ...] = ()
    """Columns of nodes that are as given."""
    late_node: str = ""
    apps: tuple[str, ...] = ("web", "search", "cart")
    extended: tuple[tuple[str, str], ...] = ()
    """What batch containers request in place of CPU and of a class."""

    @property
    def end(self) -> datetime:
        return START + timedelta(days=self.days)


def lake_of(folder: Path, days: Days, seed: int = 1) -> Lake:
    """The lake, with tables nodes, placements, usage and node_state."""
    lake = Lake.open(folder, TABLES)
    rng = np.random.default_rng(seed)
    names = [f"n{number}" for number in range(days.nodes)]
    since = {days.late_node: days.end - timedelta(hours=3)}
    size = {"cores": CORES, "memory_bytes": MEMORY, "allocatable_cores": 15.0, "pool": "std", "platform": "p"}
    nodes = [{"ts": since.get(node, START), "node": node, **size, **dict(days.described)} for node in names]
    land(lake, NODES, nodes)
    placed, minutes = list[dict[str, object]](), list[pa.Table]()
    for node in names:
        for app in (*days.apps, "batch"):
            uid, born = f"{app}-{node}", START
            if days.young in {uid, app} or node == days.late_node:
                born = days.end - timedelta(hours=2)
            asked = {"cpu_request_cores": 2.0, "memory_request_bytes": 4e9} if days.requests else {}
            request: dict[str, object] = {**asked}
            qos = "BE" if app == "batch" else "LS"
            if app == "batch" and days.extended:
                qos, request = "LS", {"cpu_request_cores": 0.0, "extended_requests": days.extended}
            who = {"node": node, "container": uid, "app": app, "qos": qos}
            placed.append({"ts": born, "event": "add", **who, **request})
            minutes.append(minutes_of(node, uid, app, qos, born=born, days=days, rng=rng))
    land(lake, PLACEMENTS, placed if days.placed else [])
    last = {"ts": days.end, "interval_s": 30.0, "node": "n0", "container": "web-n0", "app": "web", "cpu_cores": 1.0}
    land(lake, USAGE, [last])
    lake.replace(NODE_STATE.name, START, days.end + timedelta(seconds=1), JOB, pa.concat_tables(minutes))
    return lake


def minutes_of(
    node: str, uid: str, app: str, qos: str, *, born: datetime, days: Days, rng: np.random.Generator
) -> pa.Table:
    """A minute of every five."""
    bins = np.arange(1, round(days.days * BINS_A_DAY) + 1)
    ends = [START + timedelta(minutes=5) * int(number) for number in bins]
    wave = 0.12 + 0.05 * np.sin(2 * np.pi * bins / BINS_A_DAY) + rng.normal(0, 0.01, len(bins))
    keep = [born < end and not (days.silent in {uid, node} and end > days.end - timedelta(hours=1)) for end in ends]
    count = len(bins)
    table = pa.table(
        {
            "cluster": ["c"] * count,
            "node": [node] * count,
            "container": [uid] * count,
            "app": [app] * count,
            "qos": [qos] * count,
            "window_end": ends,
            "samples": [2] * count,
            "arrived_at": ends,
            "demand_cpu": np.clip(wave, 0.01, 1),
            "demand_memory": np.full(count, 0.08),
        }
    ).filter(pa.array(keep))
    nothing = {f.name: pa.nulls(table.num_rows, f.type) for f in NODE_STATE.schema}
    columns = nothing | {name: table[name] for name in table.column_names}
    return pa.table(columns).cast(NODE_STATE.schema)


def land(lake: Lake, table: Table, rows: list[dict[str, object]]) -> None:
    """Land rows as a stream does."""
    landing = [
        {"cluster": "c", "topic": table.name, "partition": 0, "offset": number, "arrived_at": row["ts"]}
        for number, row in enumerate(rows)
    ]
    none = dict.fromkeys(table.schema.names)
    filled = [none | where | row for where, row in zip(landing, rows, strict=True)]
    brought = pa.Table.from_pylist(filled, schema=table.schema)
    land_rows(lake, table.name, OffsetRange(table.name, 0, 0, len(rows)), brought)
