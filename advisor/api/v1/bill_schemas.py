"""Bodies of bills as JSON: price books, months, what accounts owe, and their containers."""

from collections.abc import Mapping
from typing import Literal

from advisor.api.http.base_schema import Body
from advisor.billing.ledger.breakdown import Account
from advisor.billing.ledger.periods import Period, State
from advisor.billing.ledger.price_book_versions import Kept


class PriceRow(Body):
    """Cost of a resource relative to the others."""

    resource: str
    """cpu, memory, gpu, network or disk."""
    unit: str
    """What a quantity of it is counted in."""
    weight_micros: int
    """For a unit and hour."""


class TierRow(Body):
    """A class of service, and what a quantity of it counts, in millionths of a full one."""

    name: str
    """As containers call their class."""
    ppm: int
    """Millionths; 1,000,000 is a full one."""


class BookReply(Body):
    """A version of the price book."""

    version: str
    """Its name."""
    currency: str
    """ISO 4217."""
    state: Literal["proposed", "approved", "withdrawn"]
    """Only an approved one applies."""
    start_us: int
    """First hour it applies to, microseconds since 1970."""
    end_us: int | None
    """First hour it does not apply to any more; null until another version begins."""
    prices: list[PriceRow]
    """By resource."""
    tiers: list[TierRow]
    """By class of service."""
    recovery: Literal["full", "remainder"]
    """`full`: billed accounts pay all of a pool's cost; `remainder`: the price book assigns idle cost."""
    kappa: float
    """Of use below the request, by how much the request counts, 0 to 1; the rest of it is use."""
    beta: float
    """What a unit used beyond the request costs, in units requested."""
    proposed_by: str
    """Who."""
    approved_by: str | None
    """Another person than the author; null before approval."""


class PricesReply(Body):
    """All versions but withdrawn ones, by when they begin."""

    books: list[BookReply]
    """The oldest first."""


class MonthRow(Body):
    """A month."""

    period: str
    """YYYY-MM."""
    state: State
    """How far it is billed."""
    changed_us: int
    """Since when, microseconds since 1970."""


class MonthsReply(Body):
    """Months that are closed or being closed, the newest first."""

    statements: list[MonthRow]
    """Without accounts."""


class AccountRow(Body):
    """What an account owes for a month."""

    account: str
    """A team, `platform` or `unattributed`."""
    owed_micros: int
    """Millionths of the currency."""
    minor: int | None
    """What it pays, in the smallest coins; null until the month is closed."""
    by_kind: dict[str, int]
    """The same by kind of posting, millionths of the currency."""
    lines: int
    """Lines that explain it."""


class StatementReply(MonthRow):
    """A month, by account."""

    currency: str
    """ISO 4217."""
    digest: str
    """Of what it was closed with, or is to be."""
    accounts: list[AccountRow]
    """By name."""


class ContainerRow(Body):
    """What a container owes for a month, of one kind; null for lines about none."""

    container: str | None
    """Its name in records."""
    kind: str
    """Of posting."""
    amount_micros: int
    """Millionths of the currency."""
    lines: int
    """Lines that explain it."""


class TeamReply(MonthRow):
    """What one account owes for a month, by container."""

    currency: str
    """ISO 4217."""
    account: AccountRow
    """All of it together."""
    matching: int
    """Number of matches; the reply has `limit` of them from `offset` on, the most expensive first."""
    containers: list[ContainerRow]
    """By what they owe, most first."""


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
