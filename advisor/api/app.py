"""The two applications: one listener for schedulers, one for all else. Errors become status codes here."""

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse

from advisor.api.extender import extender_routes
from advisor.api.ops import ops_routes
from advisor.api.roles import allowed, roles_of
from advisor.api.scores import score_routes
from advisor.errors import AdvisorError, BadRequest, UnknownNode
from advisor.serving import Serving

STATUS: dict[type[AdvisorError], int] = {BadRequest: 400, UnknownNode: 404}


def create_scheduler_app(serving: Serving) -> FastAPI:
    """The listener for scheduler protocols."""
    return _app("Cohabit for schedulers", extender_routes(serving))


def create_app(serving: Serving) -> FastAPI:
    """The listener for everything else."""
    return _app("Cohabit", score_routes(serving), ops_routes(serving))


def _app(title: str, *routers: APIRouter) -> FastAPI:
    app = FastAPI(title=title, docs_url=None, redoc_url=None, openapi_url=None)
    for router in routers:
        app.include_router(router)

    @app.get("/openapi.json", include_in_schema=False)
    @allowed("anyone")
    def openapi() -> JSONResponse:
        """The interface as OpenAPI."""
        return JSONResponse(app.openapi())

    app.add_exception_handler(AdvisorError, _as_status)
    roles_of(app)
    return app


def _as_status(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": str(error)}, STATUS.get(type(error), 500))  # type: ignore[arg-type]
