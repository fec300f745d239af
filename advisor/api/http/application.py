"""Applications: routers behind a limit of bodies, with errors as status codes."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from advisor.api.http.body_limits import BodyLimit
from advisor.api.http.openapi import described
from advisor.api.http.roles import Door, allowed, doors_of, roles_of
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

STATUS: dict[type[AdvisorError], int] = {
    BadRequest: 400,
    Forbidden: 403,
    NotFound: 404,
    NothingDiagnosed: 404,
    Conflict: 409,
    Invalid: 422,
    Frozen: 423,
    StoreUnavailable: 503,
    TooBusy: 503,
    Unavailable: 503,
    UnreadableDiagnoses: 503,
}
MAX_PROBLEMS = 5


def assembled(
    title: str,
    routers: list[APIRouter],
    *,
    max_body_bytes: int,
    more_status: Mapping[type[AdvisorError], int] = MappingProxyType({}),
    inside: Collection[Callable[[ASGIApp], ASGIApp]] = (),
) -> FastAPI:
    """An application of some routers behind a limit of bodies.

    Args:
        title: of the interface.
        routers: with their routes.
        max_body_bytes: of one request.
        more_status: status codes of errors that STATUS does not have.
        inside: middleware that the limit of bodies holds for.

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

    for middleware in inside:
        app.add_middleware(middleware)
    app.add_middleware(BodyLimit, limit_bytes=max_body_bytes)
    app.exception_handler(AdvisorError)(_answering({**STATUS, **more_status}))
    app.exception_handler(HTTPException)(_telling_methods(doors_of(roles_of(app))))
    app.exception_handler(RequestValidationError)(_validation_error)
    return app


def _answering(status: Mapping[type[AdvisorError], int]) -> Callable[[Request, AdvisorError], JSONResponse]:
    """Returns errors as replies with their status codes."""

    def advisor_error(_: Request, error: AdvisorError) -> JSONResponse:
        headers = {"Retry-After": str(error.retry_s)} if isinstance(error, TooBusy) else None
        return JSONResponse({"error": str(error)}, status.get(type(error), 500), headers)

    return advisor_error


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
