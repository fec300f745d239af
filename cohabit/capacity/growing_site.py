"""A simulated cluster that grows, as finished tables: weeks of metered hours, and its newest pods and nodes. An edge.

For the demo of capacity: nothing is simulated sample by sample, so that a quarter of a year takes seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.jobs.job_plan import JOB
from features.metering.units import GIB, HOUR_US, MICROS, MINUTES
from features.schema.tables import METERED, NODE_STATE, POOL_HOURS
from ingest.lake.landing import Positions, RangeRows
from ingest.lake.row_filter import microseconds
from ingest.lake.tables import Lake
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import NODES, PLACEMENTS, USAGE

Floats = NDArray[np.float64]

CLUSTER, POOL, METERING = "shop", "std", "metering"
ZONES, RACKS, NODES_A_RACK = ("a", "b", "c"), 2, 3
CORES, NODE_GIB = 32.0, 128.0
PRICE_MICROS_AN_HOUR = 380_000
UNIT_HOUR = MICROS * MINUTES


@dataclass(frozen=True)
class GrowingApp:
    """An app whose pods become more.

    Args:
        name: of the app.
        team: its team.
        qos: LS or BE.
        cores: that a pod requests.
        gib: of memory that a pod requests.
        pods: at the end, at the daily peak.
        weekly: growth of a week.
        night: share of the daily peak that runs at night.
    """

    name: str
    team: str
    qos: str
    cores: float
    gib: float
    pods: int
    weekly: float
    night: float


APPS = (
    GrowingApp("web", "shop", "LS", 2.0, 4.0, 57, 0.02, 0.5),
    GrowingApp("cart", "shop", "LS", 1.0, 4.0, 34, 0.02, 0.6),
    GrowingApp("search", "search", "LS", 4.0, 16.0, 20, 0.01, 0.7),
    GrowingApp("ads", "ads", "LS", 2.0, 8.0, 18, 0.03, 0.7),
    GrowingApp("database", "platform", "LS", 4.0, 24.0, 8, 0.0, 1.0),
    GrowingApp("reports", "finance", "BE", 2.0, 8.0, 16, 0.01, 1.0),
)


def write_growing_site(lake: Lake, end: datetime, weeks: int, seed: int = 0) -> tuple[int, int]:
    """Write tables metered, pool_hours, nodes, placements, and the newest minute of node_state.

    Args:
        lake: empty.
        end: a full hour; the newest minute ends then.
        weeks: that were metered before.
        seed: of the noise.

    Returns:
        Nodes and pods.
    """
    start, hours = end - timedelta(weeks=weeks), weeks * 168
    rng = np.random.default_rng(seed)
    counts = [pods_of(app, start, hours, rng) for app in APPS]
    lake.replace("metered", start, end, METERING, _metered(start, counts))
    lake.replace("pool_hours", start, end, METERING, _pool_hours(start, hours))
    nodes = [f"{zone}{rack}-{at}" for zone in ZONES for rack in range(RACKS) for at in range(NODES_A_RACK)]
    _land(lake, NODES.name, [_node(name, start) for name in nodes])
    pods = [
        {"node": nodes[(3 * number + at) % len(nodes)], "container": f"{app.name}-{number}", "app": app.name,
         "team": app.team, "qos": app.qos, "cpu_request_cores": app.cores, "memory_request_bytes": app.gib * GIB}
        for at, (app, running) in enumerate(zip(APPS, counts, strict=True))
        for number in range(int(running[-1]))
    ]  # fmt: skip
    _land(lake, PLACEMENTS.name, [{"ts": end - timedelta(days=2), "event": "add"} | pod for pod in pods])
    first = {name: pods[0][name] for name in ("node", "container", "app")}
    _land(lake, USAGE.name, [{"ts": end, "interval_s": 30.0, "cpu_cores": 1.0} | first])
    lake.replace(NODE_STATE.name, end - timedelta(minutes=1), end + timedelta(seconds=1), JOB, _minute(pods, end))
    return len(nodes), len(pods)


def pods_of(app: GrowingApp, start: datetime, hours: int, rng: np.random.Generator) -> Floats:
    """(hours,) pods that run in each: they grow by the week, and are fewer at night and at weekends."""
    at = np.arange(hours) + start.hour
    day = np.sin(np.pi * (at % 24) / 24) ** 2
    weekend = np.where((start.weekday() + at // 24) % 7 >= 5, 0.9, 1.0)
    busy = (app.night + (1 - app.night) * day) * weekend
    grown = (1 + app.weekly) ** ((np.arange(hours) - hours) / 168)
    noise = np.exp(0.02 * rng.standard_normal(hours))
    return np.asarray(np.maximum(1, np.round(app.pods * grown * busy * noise)))


def _metered(start: datetime, counts: Sequence[Floats]) -> pa.Table:
    """A row for each app, zone, hour and resource; as many of an app's pods in each zone."""
    parts = list[pa.Table]()
    for (app, pods), zone in product(zip(APPS, counts, strict=True), ZONES):
        for resource, size in (("cpu", app.cores), ("memory", app.gib)):
            requested = np.round(pods * size * UNIT_HOUR / len(ZONES)).astype(np.int64)
            texts = {"cluster": CLUSTER, "node": zone, "container": f"{app.name}-{zone}", "resource": resource,
                     "pool": f"{POOL}@{zone}", "app": app.name, "team": app.team, "qos": app.qos}  # fmt: skip
            numbers = {"hour": microseconds(start) + np.arange(len(pods)) * HOUR_US, "requested": requested,
                       "within": requested * 3 // 5, "beyond": 0, "minutes": MINUTES, "gap_minutes": 0}  # fmt: skip
            parts.append(_filled(texts | numbers, len(pods), METERED.schema))
    return pa.concat_tables(parts)


def _pool_hours(start: datetime, hours: int) -> pa.Table:
    count = RACKS * NODES_A_RACK
    capacity = [(name, round(count * size * UNIT_HOUR)) for name, size in (("cpu", CORES), ("memory", NODE_GIB))]
    first = microseconds(start)
    rows = [
        {"cluster": CLUSTER, "hour": first + at * HOUR_US, "pool": f"{POOL}@{zone}", "nodes": count,
         "capacity": capacity}
        for at in range(hours)
        for zone in ZONES
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, POOL_HOURS.schema)


def _node(name: str, since: datetime) -> dict[str, object]:
    return {
        "ts": since, "node": name, "cores": CORES, "memory_bytes": NODE_GIB * GIB, "platform": "std", "pool": POOL,
        "zone": name[0], "rack": name[:2], "cost_micros_per_hour": PRICE_MICROS_AN_HOUR,
    }  # fmt: skip


def _minute(pods: Sequence[dict[str, object]], end: datetime) -> pa.Table:
    """The newest minute of each pod, at three fifths of its request."""
    texts = {name: [pod[name] for pod in pods] for name in ("node", "container", "app", "team", "qos")}
    cores, memory = (np.array([pod[name] for pod in pods]) for name in ("cpu_request_cores", "memory_request_bytes"))
    use = {"demand_cpu": 0.6 * cores / CORES, "demand_memory": 0.6 * memory / (NODE_GIB * GIB)}
    at = {"window_end": microseconds(end), "arrived_at": microseconds(end), "cluster": CLUSTER, "samples": 2}
    return _filled(texts | use | at, len(pods), NODE_STATE.schema)


def _filled(columns: dict[str, object], count: int, schema: pa.Schema) -> pa.Table:
    """A table of columns, some of them one value; others are null."""
    found = []
    for field in schema:
        value = columns.get(field.name)
        whole = value if isinstance(value, list | np.ndarray) else [value] * count
        found.append(pa.array(whole).cast(field.type) if value is not None else pa.nulls(count, field.type))
    return pa.table(found, schema=schema)


def _land(lake: Lake, name: str, rows: Sequence[dict[str, object]]) -> None:
    """As a stream lands them."""
    table = lake.table(name)
    none = dict.fromkeys(table.schema.names)
    filled = [
        none | {"cluster": CLUSTER, "topic": name, "partition": 0, "offset": at, "arrived_at": row["ts"]} | row
        for at, row in enumerate(rows)
    ]
    brought = pa.Table.from_pylist(filled, schema=table.schema)
    Positions(lake).land(name, [RangeRows(OffsetRange(name, 0, 0, len(rows)), brought)])
