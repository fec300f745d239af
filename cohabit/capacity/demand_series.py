"""Demand series: requests and use by hour, of each class of apps, pool and resource, from metered hours. An edge."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cohabit.config.errors import CohabitError
from features.columnar.arrow_columns import micros
from features.metering.units import HOUR_US, MICROS, MINUTES
from ingest.lake.row_filter import microseconds
from ingest.lake.tables import Lake

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Key = tuple[str, str, str]
"""Class of apps, pool and resource."""

RESOURCES = ("cpu", "gpu", "memory")
"""Those that pools have a capacity of: cores, GPUs and GiB."""
AT_ONCE = timedelta(days=7)
GAP_SHARE = 0.1
"""Share of a series' container-minutes without request and use from which on its hour is unknown."""
UNIT_HOUR = MICROS * MINUTES
READ = ["cluster", "hour", "resource", "pool", "requested", "within", "beyond", "minutes", "gap_minutes"]


@dataclass(frozen=True)
class DemandSeries:
    """What is known of demand, hour by hour.

    Args:
        hours_us: (t,) starts of hours without a break, microseconds since 1970.
        keys: (n,) of each series, sorted.
        requests: (n, t) cores, GPUs or GiB requested, mean over the hour; NaN where the hour was not metered.
        use: (n, t) the same of use.
        capacity: (t,) allocatable by pool and resource; NaN where not known.
        rows: metered hours of containers and resources.
    """

    hours_us: Ints
    keys: list[Key]
    requests: Floats
    use: Floats
    capacity: dict[tuple[str, str], Floats]
    rows: int


def demand_series(lake: Lake, cluster: str, days: int, by: str) -> DemandSeries:
    """Demand of a cluster up to its newest metered hour.

    Args:
        lake: with tables metered and pool_hours.
        cluster: whose.
        days: how far back at most.
        by: column of `metered` that is a class of apps: qos, app or team.

    Returns:
        See DemandSeries. A class without containers in a metered hour demanded nothing; an hour in which nothing of
        the pool was metered is unknown.

    Raises:
        CohabitError: nothing is metered.
    """
    end_us = max((part.end_us for part in lake.range_parts("metered")), default=None)
    if end_us is None:
        raise _nothing(lake, cluster)
    end = datetime.fromtimestamp(end_us / 1e6, UTC)
    parts, pools, start = list[pa.Table](), list[pa.Table](), end - timedelta(days=days)
    while start < end:
        until = min(start + AT_ONCE, end)
        parts.append(_summed(_of(lake.read("metered", start, until, [*READ, by]), cluster), by))
        pools.append(_of(lake.read("pool_hours", start, until, ["cluster", "hour", "pool", "capacity"]), cluster))
        start = until
    rows = pa.concat_tables(parts)
    if not rows.num_rows:
        raise _nothing(lake, cluster)
    return _laid_out(rows, pa.concat_tables(pools))


def _nothing(lake: Lake, cluster: str) -> CohabitError:
    return CohabitError(
        f"the lake {lake.uri} has no metered hours of cluster {cluster}, so no demand is known: run `cohabit bill "
        "meter`, and check COHABIT_CLUSTER"
    )


def _of(rows: pa.Table, cluster: str) -> pa.Table:
    return rows.filter(pc.equal(rows["cluster"], cluster))


def _summed(rows: pa.Table, by: str) -> pa.Table:
    """A row for each hour, class, pool and resource."""
    rows = rows.filter(pc.is_in(rows["resource"], pa.array(RESOURCES)))
    named = rows.set_column(rows.schema.get_field_index(by), by, pc.fill_null(rows[by], ""))
    sums = [(name, "sum") for name in ("requested", "within", "beyond", "minutes", "gap_minutes")]
    found = named.group_by(["hour", by, "pool", "resource"], use_threads=False).aggregate([*sums, ("minutes", "count")])
    return found.rename_columns({by: "class"})


def _laid_out(rows: pa.Table, pools: pa.Table) -> DemandSeries:
    at_us = micros(rows["hour"])
    first, hours = int(at_us.min()), int((at_us.max() - at_us.min()) // HOUR_US) + 1
    names = list(zip(*(rows[name].to_pylist() for name in ("class", "pool", "resource")), strict=True))
    keys = sorted(set(names))
    row_of = {key: row for row, key in enumerate(keys)}
    row, column = np.array([row_of[name] for name in names]), (at_us - first) // HOUR_US
    metered = {pool: np.zeros(hours, np.bool_) for pool in {key[1] for key in keys}}
    for (_, pool, _), at in zip(names, column.tolist(), strict=True):
        metered[pool][at] = True
    blank = np.where(np.stack([metered[pool] for _, pool, _ in keys]), 0.0, np.nan)
    requests, use = blank.copy(), blank.copy()
    amounts = {name: np.asarray(rows[f"{name}_sum"], np.float64) for name in ("requested", "within", "beyond")}
    minutes, gaps = (np.asarray(rows[f"{name}_sum"], np.float64) for name in ("minutes", "gap_minutes"))
    known = gaps <= GAP_SHARE * (minutes + gaps)
    requests[row, column] = np.where(known, amounts["requested"] / UNIT_HOUR, np.nan)
    use[row, column] = np.where(known, (amounts["within"] + amounts["beyond"]) / UNIT_HOUR, np.nan)
    hours_us = first + np.arange(hours, dtype=np.int64) * HOUR_US
    count = int(np.asarray(rows["minutes_count"], np.int64).sum())
    return DemandSeries(hours_us, keys, requests, use, _capacities(pools, first, hours), count)


def _capacities(pools: pa.Table, first_us: int, hours: int) -> dict[tuple[str, str], Floats]:
    """(t,) of each pool and resource."""
    found: dict[tuple[str, str], Floats] = {}
    at = (micros(pools["hour"]) - first_us) // HOUR_US
    for name, hour, amounts in zip(pools["pool"].to_pylist(), at.tolist(), pools["capacity"].to_pylist(), strict=True):
        if 0 <= hour < hours:
            for resource, amount in amounts or ():
                found.setdefault((name, resource), np.full(hours, np.nan))[hour] = amount / UNIT_HOUR
    return found


def hour_of(time: datetime) -> int:
    """Start of the hour of a time, microseconds since 1970."""
    return microseconds(time) // HOUR_US * HOUR_US
