"""Bodies of bills as JSON: price books, months, what accounts owe, and their containers."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel

from advisor.ledger.books import Kept
from advisor.ledger.drill import Account
from advisor.ledger.periods import Period, State


class PriceRow(BaseModel):
    """What a resource costs beside the others."""

    resource: str
    unit: str
    weight_micros: int
    """For a unit and hour."""


class TierRow(BaseModel):
    """A class of service, and what a quantity of it counts, in millionths of a full one."""

    name: str
    ppm: int


class BookReply(BaseModel):
    """A version of the price book."""

    version: str
    currency: str
    state: Literal["proposed", "approved", "withdrawn"]
    start_us: int
    end_us: int | None
    """First hour it does not apply to any more; null until another version begins."""
    prices: list[PriceRow]
    tiers: list[TierRow]
    recovery: Literal["full", "remainder"]
    kappa: float
    beta: float
    proposed_by: str
    approved_by: str | None


class PricesReply(BaseModel):
    """All versions but withdrawn ones, by when they begin."""

    books: list[BookReply]


class MonthRow(BaseModel):
    """A month."""

    period: str
    state: State
    changed_us: int


class MonthsReply(BaseModel):
    """Months that are closed or being closed, the newest first."""

    statements: list[MonthRow]


class AccountRow(BaseModel):
    """What an account owes for a month."""

    account: str
    owed_micros: int
    minor: int | None
    """What it pays, in the smallest coins; null until the month is closed."""
    by_kind: dict[str, int]
    lines: int


class StatementReply(MonthRow):
    """A month, by account."""

    currency: str
    digest: str
    """Of what it was closed with, or is to be."""
    accounts: list[AccountRow]


class ContainerRow(BaseModel):
    """What a container owes for a month, of one kind; null for lines about none."""

    container: str | None
    kind: str
    amount_micros: int
    lines: int


class TeamReply(MonthRow):
    """What one account owes for a month, by container."""

    currency: str
    account: AccountRow
    matching: int
    """How many there are, of which `limit` from `offset` on are told, the most expensive first."""
    containers: list[ContainerRow]


def book_row(one: Kept, end_us: int | None) -> BookReply:
    """A version; it ends where the next one begins."""
    book = one.book
    return BookReply(
        version=book.version,
        currency=book.currency,
        state=one.state,  # type: ignore[arg-type]
        start_us=book.start_us,
        end_us=end_us,
        prices=[PriceRow(resource=p.resource, unit=p.unit, weight_micros=p.weight_micros) for p in book.prices],
        tiers=[TierRow(name=tier.name, ppm=tier.ppm) for tier in book.tiers],
        recovery=book.policy.recovery,
        kappa=book.policy.rule.kappa,
        beta=round(book.policy.rule.beta, 6),
        proposed_by=book.proposed_by,
        approved_by=book.approved_by,
    )


def month_row(one: Period) -> MonthRow:
    """A month, without what is owed."""
    return MonthRow(period=one.period, state=one.state, changed_us=one.changed_us)


def account_row(one: Account, paid: Mapping[str, tuple[int, int, str]]) -> AccountRow:
    """What an account owes, and pays where that is settled."""
    minor = paid[one.name][1] if one.name in paid else None
    return AccountRow(account=one.name, owed_micros=one.owed_micros, minor=minor, by_kind=one.by_kind, lines=one.lines)
