"""Bodies of bills as JSON: price books, months, what accounts owe, and their containers."""

from collections.abc import Mapping
from typing import Literal

from advisor.api.http.base_schema import Body
from advisor.billing.ledger.breakdown import Account
from advisor.billing.ledger.periods import Period, State
from advisor.billing.ledger.price_book_records import Kept


class PriceRow(Body):
    """Cost of a resource relative to the others."""

    resource: str
    """cpu, memory, gpu, network or disk."""
    unit: str
    """Unit of a quantity."""
    weight_micros: int
    """Price per unit and hour."""


class TierRow(Body):
    """A quality of service class and the weight of its quantities, in millionths."""

    name: str
    """Name of the class, as in container records."""
    ppm: int
    """Weight in millionths; 1,000,000 is full weight."""


class BookReply(Body):
    """A version of the price book."""

    version: str
    """Name of the version."""
    currency: str
    """ISO 4217."""
    state: Literal["proposed", "approved", "withdrawn"]
    """State; only an approved version applies."""
    start_us: int
    """First hour it applies to, microseconds since 1970."""
    end_us: int | None
    """First hour after the version, microseconds since 1970; null until another version begins."""
    prices: list[PriceRow]
    """Prices by resource."""
    tiers: list[TierRow]
    """Weights by quality of service class."""
    recovery: Literal["full", "remainder"]
    """`full`: billed accounts pay all of a pool's cost; `remainder`: the price book assigns idle cost."""
    kappa: float
    """Weight of the unused part of a request (kappa), 0 to 1."""
    beta: float
    """Cost of a unit used above the request (beta), in requested units."""
    proposed_by: str
    """Author of the proposal."""
    approved_by: str | None
    """Approver, other than the author; null before approval."""


class PricesReply(Body):
    """All versions except withdrawn ones, by start."""

    books: list[BookReply]
    """Versions, oldest first."""


class MonthRow(Body):
    """A month."""

    period: str
    """YYYY-MM."""
    state: State
    """Billing state."""
    changed_us: int
    """Time of the last change of state, microseconds since 1970."""


class MonthsReply(Body):
    """Closed and closing months, newest first."""

    statements: list[MonthRow]
    """Months, without accounts."""


class AccountRow(Body):
    """Charges of an account in a month."""

    account: str
    """A team, `platform` or `unattributed`."""
    owed_micros: int
    """Charges, in millionths of the currency."""
    minor: int | None
    """Payment in the smallest coins; null until the month is closed."""
    by_kind: dict[str, int]
    """Charges by type, in millionths of the currency."""
    lines: int
    """Number of charge records."""


class StatementReply(MonthRow):
    """A month, by account."""

    currency: str
    """ISO 4217."""
    digest: str
    """Digest of its draft."""
    accounts: list[AccountRow]
    """Accounts by name."""


class ContainerRow(Body):
    """Charges of a container in a month, of one type; null for charge records without a container."""

    container: str | None
    """Its name in records."""
    kind: str
    """Charge type."""
    amount_micros: int
    """Charges, in millionths of the currency."""
    lines: int
    """Number of charge records."""


class TeamReply(MonthRow):
    """Charges of one account in a month, by container."""

    currency: str
    """ISO 4217."""
    account: AccountRow
    """Total of the account, in millionths of the currency."""
    matching: int
    """Number of matches; the reply has `limit` of them from `offset` on, the most expensive first."""
    containers: list[ContainerRow]
    """Containers, most expensive first."""


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
    """A month, without accounts."""
    return MonthRow(period=one.period, state=one.state, changed_us=one.changed_us)


def account_row(one: Account, paid: Mapping[str, tuple[int, int, str]]) -> AccountRow:
    """Charges of an account, and its payment once the month is closed."""
    minor = paid[one.name][1] if one.name in paid else None
    return AccountRow(account=one.name, owed_micros=one.owed_micros, minor=minor, by_kind=one.by_kind, lines=one.lines)
