"""Drafts and actors that tests of the ledger share, and ways to draw them."""

from collections.abc import Sequence
from hashlib import sha256

import pyarrow as pa
from hypothesis import strategies as st

from advisor.billing.ledger.drafts import FORMAT, Batch, Draft
from advisor.billing.ledger.postings import postings_of
from advisor.billing.lines.schema import SCHEMA
from advisor.plans.plan_service import Actor

ANN, BOB = Actor("ann", "finance", "r1"), Actor("bob", "finance", "r2")
NOW_US = 1_796_083_200_000_000  # 2026-12-01 00:00 UTC
PERIOD = "2026-11"


def lines(*rows: tuple[str, str, int]) -> pa.Table:
    """Of (account, kind, micro-units)."""
    filled = [
        dict.fromkeys(SCHEMA.names) | {"account": account, "kind": kind, "amount_micros": amount}
        for account, kind, amount in rows
    ]
    return pa.Table.from_pylist(filled, schema=SCHEMA)


def batch(pool: str, *rows: tuple[str, str, int], cost_micros: int | None = None, day: int = 1) -> Batch:
    """Made of those lines; of a pool that cost what they sum to, unless said otherwise."""
    total = sum(amount for _, _, amount in rows)
    return Batch(
        about=PERIOD,
        pool=pool,
        start_us=day,
        sha256=sha256(f"{pool} {day} {rows}".encode()).hexdigest(),
        inputs_sha256="0" * 64,
        rows=len(rows),
        cost_micros=total if cost_micros is None else cost_micros,
        book="2026-11",
        policy="policy-1",
        model="",
        postings=postings_of(lines(*rows), pool),
    )


def draft(*batches: Batch, period: str = PERIOD, currency: str = "EUR") -> Draft:
    return Draft(FORMAT, "c", period, currency, batches)


SMALL = draft(
    batch("std@a", ("search", "base", 1_250_001), ("ads", "base", 750_000), ("platform", "idle_headroom", 499_999)),
    batch("gpu@a", ("ads", "base", 10), ("unattributed", "unattributed", 5)),
)

ROWS = st.lists(
    st.tuples(
        st.sampled_from(("search", "ads", "batch", "platform", "unattributed")),
        st.sampled_from(("base", "rebate", "surcharge", "idle_headroom")),
        st.integers(-(10**12), 10**12),
    ),
    min_size=1,
    max_size=12,
)


@st.composite
def drafts(draw: st.DrawFn, periods: Sequence[str] = (PERIOD,)) -> Draft:
    days = draw(st.integers(1, 3))
    made = [batch("std@a", *draw(ROWS), day=day) for day in range(days)]
    return draft(*made, period=draw(st.sampled_from(periods)))
