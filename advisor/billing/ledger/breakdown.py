"""Drill: lines of bills added up, from a month down to what one container owes hour by hour. Kernel."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.ledger.drafts import Batch
from advisor.billing.lines.accounts import POOL

IDLE = "idle_"
"""Prefix of the kinds of idle charge records; the rest of the name is the cause."""
FOLDED = 1 << 20
"""Rows of sums that may wait before they are added up."""


@dataclass(frozen=True, slots=True)
class Account:
    """What one account owes for a month.

    Args:
        name: a team, `platform` or `unattributed`.
        owed_micros: all of it.
        by_kind: the same by kind of line, in the order of their names.
        lines: how many make it up.
    """

    name: str
    owed_micros: int
    by_kind: dict[str, int]
    lines: int


def accounts_of(batches: Iterable[Batch]) -> tuple[Account, ...]:
    """What every account owes, by name; pools are not billed.

    Args:
        batches: of a month, with those that correct earlier ones; their postings have the signs they are billed with.

    Returns:
        One for each account; what they owe together is what the pools cost.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0049-billing.md.
    """
    sums: dict[str, dict[str, int]] = {}
    lines: dict[str, int] = {}
    for one in (posting for batch in batches for posting in batch.postings if not posting.account.startswith(POOL)):
        kinds = sums.setdefault(one.account, {})
        kinds[one.kind] = kinds.get(one.kind, 0) + one.amount_micros
        lines[one.account] = lines.get(one.account, 0) + one.lines
    return tuple(
        Account(name, sum(kinds.values()), dict(sorted(kinds.items())), lines[name])
        for name, kinds in sorted(sums.items())
    )


def idle_by_cause(accounts: Iterable[Account]) -> dict[str, int]:
    """Micro-units of idle cost, by cause, for any billed account."""
    found: dict[str, int] = {}
    for one in accounts:
        for kind, amount in one.by_kind.items():
            if kind.startswith(IDLE):
                cause = kind.removeprefix(IDLE)
                found[cause] = found.get(cause, 0) + amount
    return dict(sorted(found.items()))


def summed(signed: Iterable[tuple[int, pa.Table]], by: Sequence[str]) -> pa.Table:
    """What many pieces of lines come to.

    Args:
        signed: -1 for lines that are taken back, else 1; and lines with `amount_micros` and the columns named in `by`.
        by: columns to group sums by; null is a value like others.

    Returns:
        Those columns, amount_micros and lines (how many); the largest amount first, equal ones in the order of `by`.
        Pieces and their order make no difference, and of all rows only sums are kept.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0049-billing.md.
    """
    counts = [("amount_micros", pa.int64()), ("lines", pa.int64())]
    schema = pa.schema([(name, pa.string()) for name in by] + counts)
    total, waiting = schema.empty_table(), list[pa.Table]()
    for sign, piece in signed:
        grouped = _grouped(piece.append_column("lines", pa.array([1] * piece.num_rows, pa.int64())), by)
        signed_sums = pc.multiply(grouped["amount_micros"], sign)
        waiting.append(grouped.set_column(len(by), "amount_micros", signed_sums).cast(schema))
        if sum(one.num_rows for one in waiting) > FOLDED:
            total, waiting = _grouped(pa.concat_tables([total, *waiting]), by).cast(schema), []
    found = _grouped(pa.concat_tables([total, *waiting]), by)
    return found.sort_by([("amount_micros", "descending"), *((name, "ascending") for name in by)])


def _grouped(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    sums = rows.group_by(list(by), use_threads=False).aggregate([("amount_micros", "sum"), ("lines", "sum")])
    return sums.select([*by, "amount_micros_sum", "lines_sum"]).rename_columns([*by, "amount_micros", "lines"])
