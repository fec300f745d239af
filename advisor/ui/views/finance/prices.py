"""The pages of price books: all versions, what a new one would change, and two people who agree on it."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import RedirectResponse

from advisor.api.http.roles import allowed
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.price_book_diff import compared
from advisor.billing.ledger.price_book_records import in_force, refuse_far, summary
from advisor.billing.lines.errors import BadBookText, BadPriceBook
from advisor.billing.pricing.price_book import PriceBook, refuse_wrong
from advisor.billing.pricing.price_book_toml import EXAMPLE, price_book_from
from advisor.billing.quotes.dependencies import KEEPERS, NO_BILLS, BillOffice, opened_bills
from advisor.ui.site.auth_middleware import Visit
from advisor.ui.site.rendering import Pages
from advisor.ui.views.finance.bills import caller_of

Version = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")]
PLACE = "/ui/prices"


def price_pages(pages: Pages, bills: BillOffice | None) -> APIRouter:
    """Routes of price books."""
    router = APIRouter()

    @router.get(PLACE)
    @allowed(*KEEPERS)
    def prices(request: Request) -> Response:
        """All versions that were ever proposed."""
        return _listed(pages, bills, request)

    @router.post("/ui/prices/preview")
    @allowed(*KEEPERS)
    def preview(request: Request) -> Response:
        """Changes of a proposed version; it is not saved."""
        visit: Visit = request.state.visit
        text = visit.form.get("text", "")
        try:
            book = _book(text, "not proposed yet")
        except (BadBookText, BadPriceBook) as error:
            return _listed(pages, bills, request, text=text, said=str(error))
        before = _before(book_store.books(opened_bills(bills).closing.engine), book.start_us)
        facts = {"book": book, "before": before, "rows": compared(before, book), "text": text, "when": summary(book)}
        return pages.page(request, "price_preview.html", facts)

    router.include_router(_decision_routes(bills))
    return router


def _decision_routes(bills: BillOffice | None) -> APIRouter:
    """Routes that propose, approve and withdraw a version."""
    router = APIRouter()

    @router.post("/ui/prices/propose")
    @allowed(*KEEPERS)
    def propose(request: Request) -> Response:
        """Propose a version to a second person."""
        visit: Visit = request.state.visit
        at = opened_bills(bills)
        actor = at.actor(caller_of(request))
        book = _book(visit.form.get("text", ""), actor.who)
        entry = at.entry(actor, "propose price book", book.version)
        book_store.propose(at.closing.engine, book, at.closing.now_us(), entry)
        return RedirectResponse(PLACE, 303)

    @router.post("/ui/prices/{version}/approve")
    @allowed(*KEEPERS)
    def approve(request: Request, version: Version) -> Response:
        """Approve the proposal of another person."""
        at = opened_bills(bills)
        actor = at.actor(caller_of(request))
        entry = at.entry(actor, "approve price book", version)
        book_store.approve(at.closing.engine, version, actor.who, at.closing.now_us(), entry)
        return RedirectResponse(PLACE, 303)

    @router.post("/ui/prices/{version}/withdraw")
    @allowed(*KEEPERS)
    def withdraw(request: Request, version: Version) -> Response:
        """Withdraw a version that has not begun."""
        at = opened_bills(bills)
        actor = at.actor(caller_of(request))
        entry = at.entry(actor, "withdraw price book", version)
        book_store.withdraw(at.closing.engine, version, actor.who, at.closing.now_us(), entry)
        return RedirectResponse(PLACE, 303)

    return router


def _listed(
    pages: Pages, bills: BillOffice | None, request: Request, *, text: str = EXAMPLE.strip(), said: str = ""
) -> Response:
    kept = [] if bills is None else book_store.kept_books(bills.closing.engine)
    force = {book.version: book for book in in_force(kept)}
    facts = {
        "lacking": "" if bills is not None else NO_BILLS,
        "books": [(one, summary(force.get(one.book.version, one.book))) for one in reversed(kept)],
        "now_us": pages.now_us() if bills is None else bills.closing.now_us(),
        "text": text,
        "said": said,
    }
    return pages.page(request, "prices.html", facts, 422 if said else 200)


def _book(text: str, by: str) -> PriceBook:
    book = price_book_from(text, by)
    refuse_wrong(book)
    refuse_far(book)
    return book


def _before(books: tuple[PriceBook, ...], start_us: int) -> PriceBook | None:
    """The version in force when another one would begin; None where there is none."""
    return next((one for one in books if one.covers(start_us)), None)
