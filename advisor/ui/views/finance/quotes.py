"""The page of cost estimates: cost of a container before it is created, resized or moved. Requests are not saved."""

from fastapi import APIRouter, Request, Response

from advisor.api.app import STATUS
from advisor.api.http.concurrency_limit import ConcurrencyLimit
from advisor.api.http.roles import allowed
from advisor.api.v1.quotes import AT_ONCE, WAITING
from advisor.billing.quotes.dependencies import BILLED, NO_BILLS, BillOffice, opened_bills, own_team
from advisor.billing.quotes.errors import NoLakeToQuote
from advisor.billing.quotes.service import Answer, answered, grounds_of
from advisor.errors import AdvisorError, Conflict, Invalid, NotFound
from advisor.placement.model_state import Serving
from advisor.ui.site.auth_middleware import Visit
from advisor.ui.site.rendering import Pages
from advisor.ui.views.finance.bills import caller_of
from advisor.ui.views.finance.quote_form import RESOURCES, ask_of

PLACE = "/ui/quotes"
UNANSWERED = (Conflict, Invalid, NoLakeToQuote, NotFound)
"""Errors that are shown next to the form, which keeps its values."""


def quote_pages(pages: Pages, serving: Serving, bills: BillOffice | None) -> APIRouter:
    """Routes of quotes."""
    router = APIRouter()
    limit = ConcurrencyLimit(AT_ONCE, WAITING, serving.quotes_turned_away)

    def shown(request: Request, answer: Answer | None = None, wrong: AdvisorError | None = None) -> Response:
        visit: Visit = request.state.visit
        facts = {
            "lacking": "" if bills is not None else NO_BILLS,
            "own": own_team(caller_of(request)),
            "filled": visit.form,
            "resources": RESOURCES,
            "answer": answer,
            "wrong": "" if wrong is None else str(wrong),
        }
        return pages.page(request, "quotes.html", facts, 200 if wrong is None else STATUS.get(type(wrong), 500))

    @router.get(PLACE)
    @allowed(*BILLED)
    def quotes(request: Request) -> Response:
        """Forms of cost estimates."""
        return shown(request)

    @router.post(PLACE)
    @allowed(*BILLED)
    async def quoted(request: Request) -> Response:
        """The estimate, above the forms."""
        return await limit.run(request, lambda: _answered(request))

    def _answered(request: Request) -> Response:
        visit: Visit = request.state.visit
        own = own_team(caller_of(request))
        try:
            answer = answered(ask_of(visit.form, own), grounds_of(opened_bills(bills), serving), own)
        except UNANSWERED as error:
            return shown(request, wrong=error)
        return shown(request, answer)

    return router
