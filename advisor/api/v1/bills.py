"""Bills: price books, months, and charges of accounts, as JSON. Role team reads its own only."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from advisor.api.http.openapi import refusals
from advisor.api.http.roles import allowed
from advisor.api.v1.bill_schemas import (
    ContainerRow,
    MonthsReply,
    PricesReply,
    StatementReply,
    TeamReply,
    account_row,
    book_row,
    month_row,
)
from advisor.api.v1.budgets import budget_routes
from advisor.auth.principal import Caller
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.price_book_records import in_force
from advisor.billing.quotes.dependencies import BILLED, KEEPERS, BillOffice, opened_bills, own_team

MOST = 1000
"""Containers in one reply."""
MAX_BEFORE = 10_000_000
MAX_NAME = 253
Month = Annotated[str, Path(pattern="^20[0-9]{2}-(0[1-9]|1[0-2])$")]
Team = Annotated[str, Query(min_length=1, max_length=MAX_NAME, description="Team; any characters are allowed.")]
Limit = Annotated[int, Query(ge=1, le=MOST)]
Offset = Annotated[int, Query(ge=0, le=MAX_BEFORE)]


def bill_routes(bills: BillOffice | None) -> APIRouter:
    """Routes of bills; without a ledger all report the missing setting. They run in threads, since they read files."""
    router = APIRouter()
    router.include_router(budget_routes(bills))

    @router.get("/v1/prices", responses=refusals(503))
    @allowed(*KEEPERS)
    def prices() -> PricesReply:
        """Versions of the price book that are approved or wait for approval."""
        kept = book_store.kept_books(opened_bills(bills).closing.engine)
        ends = {book.version: book.end_us for book in in_force(kept)}
        shown = [one for one in kept if one.state != "withdrawn"]
        return PricesReply(books=[book_row(one, ends.get(one.book.version, one.book.end_us)) for one in shown])

    @router.get("/v1/statements", responses=refusals(403, 503))
    @allowed(*BILLED)
    def statements(request: Request) -> MonthsReply:
        """Closed and closing months, newest first; for a team only closed ones."""
        of, team = opened_bills(bills).closing, own_team(_caller(request))
        found = ledger_store.periods(of.engine, of.cluster)
        return MonthsReply(
            statements=[month_row(one) for one in found if one.state == "closed" or (team is None and one.draft)]
        )

    router.include_router(_month_routes(bills))
    return router


def _month_routes(bills: BillOffice | None) -> APIRouter:
    """Routes of one month: all accounts, and one of them."""
    router = APIRouter()

    @router.get("/v1/statements/{period}", responses=refusals(403, 404, 422, 503))
    @allowed(*BILLED)
    def statement(period: Month, request: Request) -> StatementReply:
        """Charges of accounts in a month, to the micro-unit and in coins."""
        at = opened_bills(bills)
        month, accounts = at.billed(period, _caller(request))
        assert month.draft is not None  # noqa: S101 - a month without has no statement
        paid = ledger_store.paid(at.closing.engine, at.closing.cluster, period)
        return StatementReply(
            **month_row(month).model_dump(),
            currency=month.draft.currency,
            digest=month.digest,
            accounts=[account_row(one, paid) for one in accounts],
        )

    @router.get("/v1/statements/{period}/team", responses=refusals(403, 404, 422, 503))
    @allowed(*BILLED)
    def of_team(period: Month, team: Team, request: Request, limit: Limit = 100, offset: Offset = 0) -> TeamReply:
        """Charges of one account in a month, by container and type, most expensive first."""
        at = opened_bills(bills)
        month, account = at.account(period, team, _caller(request))
        assert month.draft is not None  # noqa: S101 - a month without has no statement
        containers = at.drilling.containers(month.draft.batches, team)
        return TeamReply(
            **month_row(month).model_dump(),
            currency=month.draft.currency,
            account=account_row(account, ledger_store.paid(at.closing.engine, at.closing.cluster, period)),
            matching=containers.num_rows,
            containers=[ContainerRow(**row) for row in containers.slice(offset, limit).to_pylist()],
        )

    return router


def _caller(request: Request) -> Caller | None:
    """The principal; None is any client of an open listener."""
    return getattr(request.state, "caller", None)
