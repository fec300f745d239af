"""Forecast: how scarce the resources of pools will be, as full as at the same hours of past weeks. Kernel."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.billing.pricing.price_book import HOUR_US
from advisor.billing.pricing.surge_weights import scarcity_ppm
from features.columnar.arrow_columns import micros, table
from features.schema.tables import SCARCITY

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WEEK, DAY = 168, 24


def forecast(metered: pa.Table, pools: pa.Table, hours: Ints, published_us: int) -> pa.Table:
    """What is published of hours to come.

    Args:
        metered: rows of table `metered` of some weeks of one cluster.
        pools: rows of `pool_hours` of these.
        hours: (h,) starts of whole days of hours, microseconds since 1970, rising.
        published_us: when it is said.

    Returns:
        Table `scarcity`, of each pool, resource that it has a capacity of, and hour: how scarce it is if as much is
        taken, request or use, whichever is more, as in the mean at that hour of the week, else of the day; 0 where
        nothing is known.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0051-scarcity.md.
    """
    taken = _taken(metered)
    found = [SCARCITY.schema.empty_table()]
    for (cluster, pool, resource), (starts, filled) in _filled(pools, taken).items():
        scarcity = scarcity_ppm(_expected(starts, filled, hours))
        count = len(hours)
        columns = {
            "cluster": [cluster] * count,
            "hour": hours,
            "pool": [pool] * count,
            "resource": [resource] * count,
            "scarcity_ppm": scarcity,
            "mean_ppm": np.repeat(scarcity.reshape(-1, DAY).mean(axis=1).astype(np.int64), DAY),
            "published_at": np.full(count, published_us),
        }
        found.append(table(columns, SCARCITY.schema))
    return pa.concat_tables(found)


def _taken(metered: pa.Table) -> dict[tuple[str, int, str], int]:
    """Micro-unit-minutes by pool, hour and resource."""
    by = ["pool", "hour", "resource"]
    sums = metered.group_by(by, use_threads=False).aggregate([("requested", "sum"), ("beyond", "sum")])
    totals = pc.add(sums["requested_sum"], sums["beyond_sum"]).to_pylist()
    keys = zip(sums["pool"].to_pylist(), micros(sums["hour"]).tolist(), sums["resource"].to_pylist(), strict=True)
    return dict(zip(keys, totals, strict=True))


Series = dict[tuple[str, str, str], tuple[Sequence[int], Sequence[float]]]


def _filled(pools: pa.Table, taken: dict[tuple[str, int, str], int]) -> Series:
    """By cluster, pool and resource the hours that are known, and which share of the capacity was taken in each."""
    found: dict[tuple[str, str, str], tuple[list[int], list[float]]] = {}
    starts = micros(pools["hour"]).tolist()
    hours = zip(*(pools[name].to_pylist() for name in ("cluster", "pool", "capacity")), starts, strict=True)
    for cluster, pool, capacity, start in hours:
        for resource, whole in capacity or ():
            if whole > 0:
                series = found.setdefault((cluster, pool, resource), ([], []))
                series[0].append(start)
                series[1].append(taken.get((pool, start, resource), 0) / whole)
    return dict(sorted(found.items()))


def _expected(starts: Sequence[int], filled: Sequence[float], hours: Ints) -> Floats:
    """(h,) mean share that was taken at the same hour of the week, else of the day; NaN where neither is known."""
    at, then, share = np.array(starts) // HOUR_US, hours // HOUR_US, np.array(filled)
    weekly, daily = (_means(at % length, share, then % length, length) for length in (WEEK, DAY))
    return np.where(np.isnan(weekly), daily, weekly)


def _means(group: Ints, values: Floats, wanted: Ints, length: int) -> Floats:
    count, total = np.bincount(group, minlength=length), np.bincount(group, values, length)
    means = np.divide(total, count, out=np.full(length, np.nan), where=count > 0)
    found: Floats = means[wanted]
    return found
