"""Billed hours: all lines of hours of a pool, in the order of lines. Kernel, for drafts and explaining alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.pricing.book import PriceBook
from advisor.pricing.charges import bill_pool_hours
from advisor.pricing.interference import Transfers, transfers_of
from advisor.pricing.line_file import in_line_order
from advisor.pricing.lines import KINDS
from features.arrow import micros


@dataclass(frozen=True)
class Known:
    """All that lines of hours of a pool are made of.

    Args:
        metered: rows of table `metered`.
        pools: rows of table `pool_hours`.
        slowed: rows of table `slowed`.
    """

    metered: pa.Table
    pools: pa.Table
    slowed: pa.Table


def bill_hours(known: Known, book: PriceBook, spent: Mapping[str, int]) -> tuple[pa.Table, Transfers]:
    """Lines that sum to the pool's cost, hour by hour.

    Args:
        known: of one pool, any order of rows.
        book: version that covers all hours.
        spent: what the platform added to rebates in the month before them, by team.

    Returns:
        Rows of line_table.SCHEMA, and which of them are transfers.

    Raises:
        As advisor.pricing.charges.bill_pool_hours and advisor.pricing.interference.transfers_of.

    Source: ours, docs/decisions/0049-billing.md, 0050-transfers.md.
    """
    base = bill_pool_hours(known.metered, known.pools, book)
    moved = transfers_of(base, known.metered, known.slowed, book, spent)
    return merged([base, in_line_order(moved.lines)]), moved


def merged(parts: Sequence[pa.Table]) -> pa.Table:
    """Lines of several tables, each in the order of lines and none with a kind of another one, in that order."""
    some = [part for part in parts if part.num_rows]
    if len(some) <= 1:
        return (some or list(parts))[0]
    whole = pa.concat_tables(some)
    kind = np.asarray(pc.index_in(whole["kind"], pa.array(sorted(KINDS))), np.int64)
    return whole.take(pa.array(np.lexsort((kind, micros(whole["hour"]))))).combine_chunks()
