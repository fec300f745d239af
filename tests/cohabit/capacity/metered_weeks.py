"""Weeks of metered hours of one pool: services with days and weekends that grow, and batch jobs at night."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.schema.tables import METERED, POOL_HOURS, TABLES
from ingest.lake.tables import Lake

END = datetime(2026, 11, 30, tzinfo=UTC)
UNIT_HOUR = 60_000_000
CORES = 64.0


def services(hours: int) -> NDArray[np.float64]:
    """Cores that services request: 20 and 6 more by day, less at weekends, 1.5 % more each week."""
    at = np.arange(hours)
    shape = 20 + 6 * np.sin(2 * np.pi * (at - 8) / 24) - 4 * (at // 24 % 7 >= 5)
    noise = np.exp(0.03 * np.random.default_rng(1).standard_normal(hours))
    return np.asarray(shape * 1.015 ** (at / 168) * noise)


def lake_of(folder: Path, weeks: int = 12, *, missing: slice | None = None, cores: float = CORES) -> Lake:
    """A lake with `metered` and `pool_hours` of the weeks before END; the hours of `missing` were not metered."""
    lake = Lake.open(folder, TABLES)
    hours = weeks * 168
    start = END - timedelta(hours=hours)
    kept = [at for at in range(hours) if missing is None or at not in range(hours)[missing]]
    web = services(hours)
    rows = []
    for at in kept:
        night = 12.0 if at % 24 < 6 else 0.0
        rows.append(_row(start + timedelta(hours=at), "web-1", "web", "LS", web[at], 0.6 * web[at]))
        if night:
            rows.append(_row(start + timedelta(hours=at), "crawl-1", "crawl", "BE", night, 1.1 * night))
    pools = [
        {
            "cluster": "c",
            "hour": start + timedelta(hours=at),
            "pool": "std@a",
            "nodes": 4,
            "cost_micros": None,
            "cost_source": None,
            "capacity": [("cpu", round(cores * UNIT_HOUR))],
        }
        for at in kept
    ]
    lake.replace("metered", start, END, "metering", pa.Table.from_pylist(rows, METERED.schema))
    lake.replace("pool_hours", start, END, "metering", pa.Table.from_pylist(pools, POOL_HOURS.schema))
    return lake


def _row(hour: datetime, container: str, app: str, qos: str, requested: float, used: float) -> dict[str, object]:
    return {
        "cluster": "c",
        "hour": hour,
        "node": "n1",
        "container": container,
        "resource": "cpu",
        "pool": "std@a",
        "app": app,
        "team": "shop",
        "qos": qos,
        "requested": round(requested * UNIT_HOUR),
        "within": round(min(requested, used) * UNIT_HOUR),
        "beyond": round(max(0.0, used - requested) * UNIT_HOUR),
        "minutes": 60,
        "gap_minutes": 0,
    }
