"""Cost estimates: cost of a container before it is created, resized or moved, as JSON. Requests are not saved."""

from typing import Annotated

from fastapi import APIRouter, Body, Request

from advisor.api.http.concurrency_limit import ConcurrencyLimit
from advisor.api.http.openapi import refusals
from advisor.api.http.roles import allowed
from advisor.api.v1.quote_schemas import QuoteAsk, QuoteReply, reply_of
from advisor.billing.quotes.dependencies import BILLED, BillOffice, opened_bills, own_team
from advisor.billing.quotes.service import Ask, answered, grounds_of
from advisor.placement.model_state import Serving

AT_ONCE, WAITING = 1, 16
"""An estimate prices an hour of a whole pool: 0.1 s for 50,000 containers."""


def quote_routes(serving: Serving, bills: BillOffice | None) -> APIRouter:
    """The route of cost estimates; without a ledger it reports the missing setting."""
    router = APIRouter()
    limit = ConcurrencyLimit(AT_ONCE, WAITING, serving.quotes_turned_away)

    @router.post("/v1/quotes", responses=refusals(400, 403, 404, 408, 409, 413, 422, 503))
    @allowed(*BILLED)
    async def quotes(ask: Annotated[QuoteAsk, Body()], request: Request) -> QuoteReply:
        """Cost of a new container, or of another request or node for a running one."""
        own = own_team(getattr(request.state, "caller", None))
        return await limit.run(request, lambda: _quoted(ask.ask(), own))

    def _quoted(ask: Ask, own: str | None) -> QuoteReply:
        return reply_of(answered(ask, grounds_of(opened_bills(bills), serving), own))

    return router
