"""The pages as an application of their own, served next to the one for tools."""

from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from advisor.api.app import STATUS
from advisor.api.http.roles import allowed, doors_of, roles_of
from advisor.auth.api_tokens import ROLES
from advisor.billing.quotes.dependencies import BillOffice
from advisor.errors import AdvisorError
from advisor.placement.model_state import Serving
from advisor.plans.plan_service import Office
from advisor.ui.site.assets import asset_routes, assets
from advisor.ui.site.auth_middleware import PageGate, Problem, Visit
from advisor.ui.site.identity import Entrance
from advisor.ui.site.login import HOME, login_routes
from advisor.ui.site.rendering import PLACES, Pages
from advisor.ui.views.finance.bills import bill_pages
from advisor.ui.views.finance.close_month import closing_pages
from advisor.ui.views.finance.prices import PLACE, price_pages
from advisor.ui.views.finance.quotes import quote_pages
from advisor.ui.views.planner.capacity import capacity_pages
from advisor.ui.views.sre.cluster import cluster_routes
from advisor.ui.views.sre.freeze import Freezing, freeze_routes
from advisor.ui.views.sre.node import node_routes
from advisor.ui.views.sre.plan_actions import deciding_pages
from advisor.ui.views.sre.plans import proposal_pages
from advisor.ui.views.sre.victims import victim_pages

SAID = {
    404: "There is no such page.",
    405: "There is no such page.",
    422: "The URL of this page, or its form, has an invalid value.",
}


def create_pages(
    serving: Serving, entrance: Entrance, office: Office | None = None, bills: BillOffice | None = None
) -> FastAPI:
    """All pages, behind their gate.

    Args:
        serving: what they show.
        entrance: who comes in how.
        office: where proposals are decided on; None where none are kept.
        bills: where bills are kept; None where none are.

    Raises:
        AdvisorError: a page does not say who may see it.
    """
    known = assets()
    freezing = Freezing(office, serving.now_us)
    pages = Pages(known, serving.now_us, freezing)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    for router in (
        home_routes(pages),
        asset_routes(known),
        login_routes(pages, entrance),
        cluster_routes(pages, serving),
        node_routes(pages, serving),
        victim_pages(pages, serving, office),
        capacity_pages(pages, serving),
        proposal_pages(pages, office),
        deciding_pages(office),
        bill_pages(pages, bills),
        closing_pages(bills),
        price_pages(pages, bills),
        quote_pages(pages, serving, bills),
        freeze_routes(freezing),
    ):
        app.include_router(router)
    _show_problems(app, pages)
    pages.doors = roles_of(app)
    app.add_middleware(PageGate, doors=doors_of(pages.doors), entrance=entrance, problem_page=pages.problem)
    return app


def home_routes(pages: Pages) -> APIRouter:
    """Where one begins."""
    router = APIRouter()

    @router.get("/")
    @allowed("anyone")
    async def root() -> Response:
        """To the pages."""
        return RedirectResponse(HOME, 303)

    @router.get("/ui")
    @router.get(HOME)
    @allowed(*ROLES)
    async def home(request: Request) -> Response:
        """To the first page that they may see; to the first of all where they may see none, which says so."""
        visit: Visit = request.state.visit
        own = [
            place.path
            for place in PLACES
            if visit.visitor is not None and visit.visitor.caller.may(pages.doors[f"GET {place.path}"])
        ]
        return RedirectResponse([*own, PLACES[0].path][0], 303)

    return router


def _show_problems(app: FastAPI, pages: Pages) -> None:
    """Errors under /ui are pages."""

    def advisor_error(request: Request, error: AdvisorError) -> Response:
        problem = Problem(STATUS.get(type(error), 500), str(error), back=_back(request))
        return pages.problem(request.scope, problem)

    def http_error(request: Request, error: HTTPException) -> Response:
        return pages.problem(request.scope, Problem(error.status_code, SAID.get(error.status_code, error.detail)))

    def validation_error(request: Request, _: RequestValidationError) -> Response:
        return pages.problem(request.scope, Problem(422, SAID[422]))

    app.exception_handler(AdvisorError)(advisor_error)
    app.exception_handler(HTTPException)(http_error)
    app.exception_handler(RequestValidationError)(validation_error)


def _back(request: Request) -> str:
    """Where one reads again what was decided on."""
    plan, period = request.path_params.get("plan"), request.path_params.get("period")
    if request.method != "POST":
        return ""
    if plan:
        return f"/ui/plans/{quote(plan, safe='')}"
    if period:
        return f"/ui/bills/{quote(period, safe='')}"
    return PLACE if request.url.path.startswith(PLACE) else ""


class PageRouter:
    """Two applications on one listener: what is under /ui, and / itself, are pages."""

    def __init__(self, app: ASGIApp, pages: ASGIApp) -> None:
        self.app, self.pages = app, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to one of them."""
        path = scope.get("path", "")
        paged = path in {"/", "/ui"} or path.startswith("/ui/")
        await (self.pages if paged else self.app)(scope, receive, send)
