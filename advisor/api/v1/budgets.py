"""Budgets as JSON: their status by a closed or closing month. Role team reads its own only."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from advisor.api.http.base_schema import Body
from advisor.api.http.openapi import refusals
from advisor.api.http.roles import allowed
from advisor.api.v1.bill_schemas import MonthRow, month_row
from advisor.auth.principal import Caller
from advisor.billing.budgets.budget_status import Standing, State
from advisor.billing.quotes.dependencies import BILLED, BillOffice, opened_bills

Month = Annotated[str | None, Query(pattern="^20[0-9]{2}-(0[1-9]|1[0-2])$")]


class BudgetRow(Body):
    """A team's budget and its charges."""

    team: str
    """Team of the budget."""
    state: State
    """Status; `other currency` if the budget and the month differ in currency."""
    budget_micros: int
    """Amount, in millionths of the currency."""
    currency: str
    """Currency of the budget."""
    warn_ppm: int
    """Share of the budget at which a warning is sent, in millionths."""
    since: str
    """First month of the budget."""
    owed_micros: int
    """Charges so far, in millionths of the currency."""


class BudgetsReply(MonthRow):
    """A month, by teams with a budget in it."""

    currency: str
    """Billing currency of the month."""
    budgets: list[BudgetRow]
    """Budgets by team."""


def budget_routes(bills: BillOffice | None) -> APIRouter:
    """The route of budgets; without a ledger it reports the missing setting."""
    router = APIRouter()

    @router.get("/v1/budgets", responses=refusals(403, 404, 422, 503))
    @allowed(*BILLED)
    def budgets(request: Request, period: Month = None) -> BudgetsReply:
        """Status of budgets in a month, closed or closing; default: the newest month.

        For a team those that are closed, and its own budget.
        """
        caller: Caller | None = getattr(request.state, "caller", None)
        month, found = opened_bills(bills).standings(period, caller)
        assert month.draft is not None  # noqa: S101 - a month without has no statement
        rows = [budget_row(one) for one in found]
        return BudgetsReply(**month_row(month).model_dump(), currency=month.draft.currency, budgets=rows)

    return router


def budget_row(one: Standing) -> BudgetRow:
    """A budget, with the amount owed so far."""
    budget = one.budget
    return BudgetRow(
        team=budget.team,
        state=one.state,
        budget_micros=budget.amount_micros,
        currency=budget.currency,
        warn_ppm=budget.warn_ppm,
        since=budget.since,
        owed_micros=one.owed_micros,
    )
