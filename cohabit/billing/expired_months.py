"""Forgotten: months of which a lake has let hours go, so that they cannot be billed from it any more. An edge."""

from datetime import timedelta

from advisor.billing.ledger.drafts import not_ready
from advisor.billing.ledger.months import bounds
from ingest.lake.row_filter import EPOCH, microseconds
from ingest.lake.tables import Lake

TABLES = ("metered", "pool_hours", "idle", "slowed")
"""Each written hour by hour; what expired of them counts as nothing."""


def refuse_forgotten(lake: Lake, period: str) -> None:
    """Nothing, for a month of which all that was ever metered and judged is still there.

    Raises:
        Invalid: it is no month.
        Conflict: some of it expired: it would be billed as if that had never been, or taken back.
    """
    start_us, end_us = map(microseconds, bounds(period))
    for table in TABLES:
        gone_us = min(lake.horizon_us(table), end_us)
        if any(max(part.start_us, start_us) < min(part.end_us, gone_us) for part in lake.range_parts(table)):
            before = EPOCH + timedelta(microseconds=gone_us)
            reason = f"the lake has let rows of {table} before {before:%Y-%m-%d} go (`cohabit lake expire`)"
            raise not_ready(period, [reason])
