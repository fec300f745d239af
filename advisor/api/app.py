"""The two applications: one listener for schedulers, one for all else. Errors become status codes here."""

from collections.abc import Callable, Collection

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException

from advisor.api.http.auth_middleware import Door, Gate, Guard, doors_of
from advisor.api.http.body_limits import BodyLimit
from advisor.api.http.health import ops_routes
from advisor.api.http.openapi import described
from advisor.api.http.query_parameters import strict
from advisor.api.http.roles import allowed, roles_of
from advisor.api.scheduler.extender import extender_routes
from advisor.api.scheduler.extender_filter import filter_routes
from advisor.api.scheduler.load_watcher import watcher_routes
from advisor.api.scheduler.peers import booking_routes
from advisor.api.scheduler.volcano import volcano_routes
from advisor.api.v1.bills import bill_routes
from advisor.api.v1.plans import proposal_routes
from advisor.api.v1.quotes import quote_routes
from advisor.api.v1.scores import score_routes
from advisor.api.v1.victims import victim_routes
from advisor.billing.lines.errors import BadBookText, BadPriceBook
from advisor.billing.quotes.dependencies import BillOffice
from advisor.billing.quotes.errors import NoLakeToQuote
from advisor.errors import (
    AdvisorError,
    BadRequest,
    Conflict,
    Forbidden,
    Frozen,
    Invalid,
    NotFound,
    NothingDiagnosed,
    StoreUnavailable,
    TooBusy,
    Unavailable,
    UnreadableDiagnoses,
)
from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from advisor.plans.plan_service import Office
from advisor.plans.rules.errors import ChangedMeanwhile, NothingHolds, UnreadablePlan

STATUS: dict[type[AdvisorError], int] = {
    BadRequest: 400,
    Forbidden: 403,
    NotFound: 404,
    NothingDiagnosed: 404,
    ChangedMeanwhile: 409,
    Conflict: 409,
    NothingHolds: 409,
    BadBookText: 422,
    BadPriceBook: 422,
    Invalid: 422,
    Frozen: 423,
    NoLakeToQuote: 503,
    StoreUnavailable: 503,
    TooBusy: 503,
    Unavailable: 503,
    UnreadableDiagnoses: 503,
    UnreadablePlan: 503,
}
MAX_SCHEDULER_BODY_BYTES = 64 << 20
"""Whole Node objects of 5,000 nodes, as sent with nodeCacheCapable: false, take about 58 MB."""
MAX_BODY_BYTES = 4 << 20
"""10,000 names of 253 characters take 2.6 MB."""
MAX_PROBLEMS = 5


def create_scheduler_app(prioritizer: Prioritizer, *, refusing: bool = False) -> FastAPI:
    """The extender API of schedulers; `refusing` sets whether its filter rejects nodes."""
    routers = [
        extender_routes(prioritizer),
        volcano_routes(prioritizer),
        watcher_routes(prioritizer.serving),
        booking_routes(prioritizer),
        filter_routes(prioritizer, refusing=refusing),
    ]
    return assembled("Cohabit for schedulers", routers, max_body_bytes=MAX_SCHEDULER_BODY_BYTES)


def create_app(
    serving: Serving,
    guard: Guard | None = None,
    metrics: CollectorRegistry | None = None,
    office: Office | None = None,
    *,
    bills: BillOffice | None = None,
    problem: Callable[[], str] | None = None,
) -> FastAPI:
    """The management API; without a guard any client that reaches it has all rights.

    Args:
        serving: what is answered from.
        guard: who may do what.
        metrics: source of /metrics; None exposes this process alone.
        office: where proposals are decided on; None where none are kept.
        bills: where bills are kept; None where none are.
        problem: why schedulers may get all 0; None for what `serving` says.
    """
    ops = ops_routes(serving, serving.metrics if metrics is None else metrics, problem)
    victims = victim_routes(serving.report, serving.snapshots, serving.now_us)
    money = [bill_routes(bills), quote_routes(serving, bills)]
    own = strict([score_routes(serving), victims, proposal_routes(office), *money])
    routers = [own, ops]
    app = assembled("Cohabit", routers, max_body_bytes=MAX_BODY_BYTES)
    return app if guard is None else guarded(app, guard)


def guarded(app: FastAPI, guard: Guard) -> FastAPI:
    """The application, of which each route from now on asks for one of its roles."""
    app.state.doors = roles_of(app)  # for the description
    app.add_middleware(Gate, doors=doors_of(app.state.doors), guard=guard)
    return app


def assembled(title: str, routers: list[APIRouter], *, max_body_bytes: int) -> FastAPI:
    """An application of some routers.

    Raises:
        AdvisorError: a route does not say who may call it.
    """
    app = FastAPI(title=title, docs_url=None, redoc_url=None, openapi_url=None)
    for router in routers:
        app.include_router(router)

    @app.get("/openapi.json", include_in_schema=False)
    @allowed("anyone")
    def openapi() -> JSONResponse:
        """The interface as OpenAPI."""
        return JSONResponse(described(app, getattr(app.state, "doors", None)))

    app.add_middleware(BodyLimit, limit_bytes=max_body_bytes)
    app.exception_handler(AdvisorError)(_advisor_error)
    app.exception_handler(HTTPException)(_telling_methods(doors_of(roles_of(app))))
    app.exception_handler(RequestValidationError)(_validation_error)
    return app


def _advisor_error(_: Request, error: AdvisorError) -> JSONResponse:
    headers = {"Retry-After": str(error.retry_s)} if isinstance(error, TooBusy) else None
    return JSONResponse({"error": str(error)}, STATUS.get(type(error), 500), headers)


def _telling_methods(doors: Collection[Door]) -> Callable[[Request, HTTPException], JSONResponse]:
    """Returns errors as replies; 405 lists all methods of a path that several routes share."""

    def http_error(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        if error.status_code == 405:
            here = {door.method for door in doors if door.pattern.match(request.url.path)}
            headers["Allow"] = ", ".join(sorted(here))
        return JSONResponse({"error": error.detail}, error.status_code, headers)

    return http_error


def _validation_error(request: Request, error: RequestValidationError) -> JSONResponse:
    """Where and what, without echoing the request."""
    problems = [f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors()]
    kind = request.headers.get("content-type", "").partition(";")[0]
    if not kind.endswith("json") and any(p["loc"][:1] == ("body",) for p in error.errors()):
        problems = ["a JSON body requires the header Content-Type: application/json"]
    more = [f"and {len(problems) - MAX_PROBLEMS} more"] if len(problems) > MAX_PROBLEMS else []
    return JSONResponse({"error": "; ".join(problems[:MAX_PROBLEMS] + more)}, 422)
