"""Publishing: how scarce a month's hours will be, said once before it begins. An edge."""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.ledger import months
from advisor.billing.pricing.price_book import HOUR_US
from advisor.billing.pricing.scarcity_forecast import forecast
from cohabit.config.errors import CohabitError
from features.schema.tables import SCARCITY
from ingest.lake.row_filter import microseconds
from ingest.lake.tables import Lake
from ingest.schema.provenance import BatchId

LOOK_BACK = timedelta(weeks=4)


def publish(lake: Lake, cluster: str, period: str, now: datetime) -> tuple[bool, pa.Table]:
    """Say how scarce a month's hours will be, once and for good.

    Args:
        lake: where the last weeks were metered.
        cluster: whose pools.
        period: month, as in 2026-12.
        now: it has to begin later.

    Returns:
        Whether it is new, and the rows of table `scarcity` that count: those that were published first.

    Raises:
        Invalid: it is no month.
        CohabitError: it has begun, and nothing was published of it, or nothing was metered in the last weeks.
    """
    start, end = months.bounds(period)
    before = published(lake, cluster, period)
    if before.num_rows:
        return False, before
    if now >= start:
        raise CohabitError(
            f"{period} has begun, and scarcity must be published before a month begins: publish a later month; this "
            "one is billed without scarcity"
        )
    tables = (lake.read(name, now - LOOK_BACK, now) for name in ("metered", "pool_hours"))
    metered, pools = (rows.filter(pc.equal(rows["cluster"], cluster)) for rows in tables)
    if not pools.num_rows:
        raise CohabitError(
            f"cluster {cluster} has no metered hours since {now - LOOK_BACK:%Y-%m-%d %H:00} UTC to forecast scarcity "
            "from: run `cohabit bill meter`, and check COHABIT_CLUSTER"
        )
    hours = np.arange(microseconds(start), microseconds(end), HOUR_US)
    digest = hashlib.sha256(f"{cluster}\0{period}".encode()).hexdigest()[:32]
    lake.append(SCARCITY.name, forecast(metered, pools, hours, microseconds(now)), BatchId(f"scarcity-{digest}", 0))
    return True, published(lake, cluster, period)


def published(lake: Lake, cluster: str, period: str) -> pa.Table:
    """Rows of table `scarcity` of a month."""
    rows = lake.read(SCARCITY.name, *months.bounds(period))
    return rows.filter(pc.equal(rows["cluster"], cluster))


def by_hour(rows: pa.Table) -> Mapping[tuple[str, str], list[float]]:
    """By pool and resource, mean scarcity at each hour of the day, 0 to 1."""
    day = pa.array(rows["hour"].cast(pa.int64()).to_numpy() // HOUR_US % 24)
    sums = rows.append_column("at", day).group_by(["pool", "resource", "at"]).aggregate([("scarcity_ppm", "mean")])
    found: dict[tuple[str, str], list[float]] = {}
    for row in sums.sort_by([(name, "ascending") for name in ("pool", "resource", "at")]).to_pylist():
        found.setdefault((row["pool"], row["resource"]), []).append(row["scarcity_ppm_mean"] / 1e6)
    return found
