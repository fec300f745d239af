"""Health, readiness and metrics."""

from collections.abc import Callable

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from advisor.api.http.roles import allowed
from advisor.diagnosis.coverage import rounded_down
from advisor.placement.model_state import Serving


def ops_routes(serving: Serving, registry: CollectorRegistry, problem: Callable[[], str] | None = None) -> APIRouter:
    """Routes for operators; `problem` is why schedulers may get all 0, by default that of `serving`."""
    asked = serving.problem if problem is None else problem
    router = APIRouter()

    @router.get("/healthz")
    @allowed("anyone")
    async def healthz() -> dict[str, str]:
        """The process is alive; independent of its scores."""
        return {"status": "alive"}

    @router.get("/readyz", responses={503: {"model": dict[str, str], "description": "No preference, with the reason"}})
    @allowed("anyone")
    def readyz(response: Response) -> dict[str, str]:
        """200 when scores come from a model over a fresh snapshot; 503 with the reason when all scores are 0.

        503 also as `no_table`, before the first score table: until then the scores that a scheduler gets may all be 0.

        Also 200 as `last_good`, while a newer file is unreadable and the loaded one is not too old, and as `by_load`,
        during the load-aware fallback. `looked_at` is the share of running container time that the newest diagnoses
        have labels for, as 0.61, or `unknown`; it never makes the advisor unready.
        """
        reason = asked()
        response.status_code = 503 if reason else 200
        found = serving.coverage()
        looked = {"looked_at": "unknown" if found is None else f"{rounded_down(found.share) / 100:.2f}"}
        if reason:
            return {"status": "neutral", "reason": reason} | looked
        if kept := next(iter(serving.refused), ""):
            return {"status": "last_good", "reason": kept} | looked
        by_load = {"status": "by_load", "reason": "fallen_back"}
        return (by_load if serving.by_load else {"status": "ready", "reason": ""}) | looked

    @router.get("/metrics", response_class=PlainTextResponse)
    @allowed("anyone")
    def metrics() -> Response:
        """Prometheus metrics."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router
