"""Closing months by forms that name what was looked at, and lead back to the month."""

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from advisor.api.http.roles import allowed
from advisor.billing.quotes.dependencies import KEEPERS, BillOffice, opened_bills
from advisor.ui.site.auth_middleware import Visit
from advisor.ui.views.finance.bills import caller_of
from advisor.ui.views.sre.plan_actions import seen


def closing_pages(bills: BillOffice | None) -> APIRouter:
    """Routes that close months, or take that back."""
    router = APIRouter()

    @router.post("/ui/bills/{period}/close")
    @allowed(*KEEPERS)
    def close(request: Request, period: str) -> Response:
        """Close a month with the reviewed draft; final."""
        visit: Visit = request.state.visit
        at = opened_bills(bills)
        seen = at.closing.one(period)
        if seen.state == "closing" and seen.draft is not None:
            at.drilling.refuse_missing(period, seen.draft.batches)
        at.closing.close(period, visit.form.get("digest", ""), at.actor(caller_of(request)))
        return RedirectResponse(f"/ui/bills/{period}", 303)

    @router.post("/ui/bills/{period}/reopen")
    @allowed(*KEEPERS)
    def reopen(request: Request, period: str) -> Response:
        """Discard the draft of a month."""
        visit: Visit = request.state.visit
        at = opened_bills(bills)
        at.closing.reopen(period, seen(visit.form), at.actor(caller_of(request)))
        return RedirectResponse("/ui/bills", 303)

    return router
