"""Postings: lines of a file added up by account and kind, against the pool that they share out. Kernel.

Double entry: what accounts owe and what the pool is owed sum to zero, file by file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from advisor.billing.lines.accounts import POOL, ROUNDING
from advisor.billing.lines.money import Payable, payable
from advisor.errors import AdvisorError

COST = "cost"
"""What a pool gives: minus all that its lines share out."""


@dataclass(frozen=True, slots=True)
class Posting:
    """What one account owes for one kind of line in one file.

    Args:
        account: a team, `platform`, `unattributed` or a pool's own.
        kind: see advisor.billing.lines.line.Kind, or COST.
        amount_micros: positive is owed by the account.
        memo_micros: what it would be of lines that are only shown.
        lines: how many there are.
    """

    account: str
    kind: str
    amount_micros: int
    memo_micros: int
    lines: int


def postings_of(lines: pa.Table, pool: str) -> tuple[Posting, ...]:
    """Postings of a file of lines.

    Args:
        lines: rows of advisor.billing.lines.schema.SCHEMA, any order.
        pool: that they are of.

    Returns:
        One for each account and kind, and the pool's own, `ordered`; their sum is zero. A missing memo counts as 0.

    Raises:
        AdvisorError: lines are of an account of the ledger's own.

    Source: double entry; ours, docs/decisions/0049-billing.md.
    """
    by = ["account", "kind"]
    sums = [("amount_micros", "sum"), ("memo_micros", "sum"), ("amount_micros", "count")]
    grouped = lines.group_by(by, use_threads=False).aggregate(sums).to_pylist()
    found = [
        Posting(
            row["account"],
            row["kind"],
            row["amount_micros_sum"],
            row["memo_micros_sum"] or 0,
            row["amount_micros_count"],
        )
        for row in grouped
    ]
    for one in found:
        refuse_reserved(one.account)
    total = sum(one.amount_micros for one in found)
    own = Posting(POOL + pool, COST, -total, 0, lines.num_rows)
    return ordered([*found, own])


def ordered(postings: Iterable[Posting]) -> tuple[Posting, ...]:
    """By account and kind, as Python orders text; a database may order it otherwise."""
    return tuple(sorted(postings, key=lambda one: (one.account, one.kind)))


def reversed_of(postings: Iterable[Posting]) -> tuple[Posting, ...]:
    """The same with other signs: what takes a batch back."""
    return tuple(Posting(one.account, one.kind, -one.amount_micros, -one.memo_micros, one.lines) for one in postings)


def refuse_reserved(account: str) -> None:
    """Nothing, for an account name that is allowed.

    Raises:
        AdvisorError: it is the ledger's own.
    """
    if account.startswith(POOL) or account == ROUNDING:
        raise AdvisorError(
            f"account name {account[:80]!r} is reserved: the ledger uses `rounding` and names that begin with `pool:`; "
            f"a team of that name has account {'team:' + account[:80]!r}"
        )


def refuse_unbalanced(pool: str, postings: Iterable[Posting]) -> None:
    """Nothing, for postings that sum to zero.

    Raises:
        AdvisorError: they do not.
    """
    total = sum(one.amount_micros for one in postings)
    if total:
        raise AdvisorError(f"postings of pool {pool} sum to {total} micro-units instead of 0: no posting was written")


def owed(postings: Iterable[Posting]) -> dict[str, int]:
    """What each account that is billed owes, micro-units, by name; pools are not billed."""
    found: dict[str, int] = {}
    for one in postings:
        if not one.account.startswith(POOL):
            found[one.account] = found.get(one.account, 0) + one.amount_micros
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Payables:
    """What accounts pay for a month, in coins.

    Args:
        minor: minor units (cents, yen) by account.
        owed_micros: what it owes to the micro-unit, by account.
        residue_micros: what no coin can pay.
    """

    minor: Mapping[str, int]
    owed_micros: Mapping[str, int]
    residue_micros: int


def payables(postings: Sequence[Posting], exponent: int) -> Payables:
    """What accounts pay, in whole coins, of all postings of a month.

    Args:
        postings: of all batches.
        exponent: digits behind the point of the currency.

    Returns:
        See Payables: coins and residue together are what is owed.

    Raises:
        AdvisorError: the exponent is outside its range.

    Source: advisor.billing.lines.money.payable.
    """
    amounts = owed(postings)
    found: Payable = payable(list(amounts.values()), list(amounts), exponent)
    return Payables(dict(zip(amounts, found.minor.tolist(), strict=True)), amounts, found.residue_micros)
