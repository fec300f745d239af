"""Budgets as JSON: how teams stand to them by a month that is closed or being closed. Role team sees its own alone."""

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
    """A team's budget, and what it owes."""

    team: str
    """Whose."""
    state: State
    """`other currency` where the budget is in another one than the month is billed in, and cannot be compared."""
    budget_micros: int
    """Millionths of the currency."""
    currency: str
    """Of the budget."""
    warn_ppm: int
    """From this share of it on it counts as warned, in millionths."""
    since: str
    """First month that it is for."""
    owed_micros: int
    """So far, millionths of the currency."""


class BudgetsReply(MonthRow):
    """A month, by the teams that have a budget in it."""

    currency: str
    """That it is billed in."""
    budgets: list[BudgetRow]
    """By team."""


def budget_routes(bills: BillOffice | None) -> APIRouter:
    """The route of budgets; without an office it says what it needs."""
    router = APIRouter()

    @router.get("/v1/budgets", responses=refusals(403, 404, 422, 503))
    @allowed(*BILLED)
    def budgets(request: Request, period: Month = None) -> BudgetsReply:
        """How teams stand to their budgets in a month, the newest one when left out: closed, or being closed.

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
