"""Billed hours: all lines of hours of a pool, in the order of lines. Kernel, for drafts and explaining alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.interference.adjustment import Transfers, transfers_of
from advisor.billing.lines.line import KINDS
from advisor.billing.lines.parquet import in_line_order
from advisor.billing.lines.schema import SCHEMA
from advisor.billing.pricing.charges import bill_pool_hours
from advisor.billing.pricing.price_book import PriceBook
from advisor.billing.pricing.surge_weights import scarcity_rows, true_up_rows
from features.columnar.arrow_columns import micros


@dataclass(frozen=True)
class Known:
    """All that lines of hours of a pool are made of.

    Args:
        metered: rows of table `metered`.
        pools: rows of table `pool_hours`.
        slowed: rows of table `slowed`.
        scarcity: rows of table `scarcity`.
        idle: rows of table `idle`.
    """

    metered: pa.Table
    pools: pa.Table
    slowed: pa.Table
    scarcity: pa.Table
    idle: pa.Table

    def in_hours(self, hours: pa.Array) -> "Known":
        """What of it is about some hours, microseconds since 1970."""
        tables = (self.metered, self.pools, self.slowed, self.scarcity, self.idle)
        return Known(*(rows.filter(pc.is_in(rows["hour"].cast(pa.int64()), hours)) for rows in tables))


def bill_hours(known: Known, book: PriceBook, spent: Mapping[str, int]) -> tuple[pa.Table, Transfers]:
    """Lines that sum to the pool's cost: hour by hour, but for scarcity, which does so over all of them.

    Args:
        known: of one pool, any order of rows.
        book: version that covers all hours.
        spent: what the platform added to rebates in the month before them, by team.

    Returns:
        Rows of line_table.SCHEMA, and which of them are transfers.

    Raises:
        As advisor.billing.pricing.charges.bill_pool_hours and advisor.billing.interference.adjustment.transfers_of.

    Source: ours, docs/decisions/0049-billing.md, 0050-transfers.md.
    """
    base = bill_pool_hours(known.metered, known.pools, book, idle=known.idle)
    moved = transfers_of(base, known.metered, known.slowed, book, spent)
    scarce = (
        scarcity_rows(base, known.scarcity, book.policy.gamma_ppm) if book.policy.gamma_ppm else SCHEMA.empty_table()
    )
    lines = merged([base, in_line_order(moved.lines), scarce])
    if scarce.num_rows:
        lines = pa.concat_tables([true_up_rows(base, scarce), lines]).combine_chunks()
    return lines, moved


def merged(parts: Sequence[pa.Table]) -> pa.Table:
    """Lines of several tables, each in the order of lines and none with a kind of another one, in that order."""
    some = [part for part in parts if part.num_rows]
    if len(some) <= 1:
        return (some or list(parts))[0]
    whole = pa.concat_tables(some)
    kind = np.asarray(pc.index_in(whole["kind"], pa.array(sorted(KINDS))), np.int64)
    return whole.take(pa.array(np.lexsort((kind, micros(whole["hour"]))))).combine_chunks()
