"""Base: charge records of a pool's hours, from the columns of charges. Kernel."""

import pyarrow as pa

from advisor.billing.lines.charge_rows import lines_of
from advisor.billing.lines.line import Line, Stamp
from advisor.billing.pricing.charges import bill_pool_hours
from advisor.billing.pricing.price_book import PriceBook


def base_lines(
    metered: pa.Table, pools: pa.Table, book: PriceBook, stamp: Stamp, *, idle: pa.Table | None = None
) -> tuple[Line, ...]:
    """Lines of one pool that sum to its cost, for when there are few; see `bill_pool_hours`."""
    rows = bill_pool_hours(metered, pools, book, idle=idle)
    return lines_of(rows, stamp, {price.resource: price.unit for price in book.prices})
