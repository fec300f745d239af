"""The page of the cluster: a map of its nodes, and the same as a table."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from advisor.api.http.roles import allowed
from advisor.api.v1.victims import WHO
from advisor.placement.model_state import Serving
from advisor.ui.site.data_source import look
from advisor.ui.site.paging import sheet
from advisor.ui.site.rendering import Pages
from advisor.ui.views.sre.heatmap import counted
from advisor.ui.views.sre.overview import Overviews

ROWS = 50
Text = Annotated[str, Query(max_length=253)]
Number = Annotated[int, Query(ge=1, le=1_000_000)]


def cluster_routes(pages: Pages, serving: Serving) -> APIRouter:
    """Routes of the cluster."""
    router, overviews = APIRouter(), Overviews()

    @router.get("/ui/cluster")
    @allowed(*WHO)
    def cluster(request: Request, filter: Text = "", page: Number = 1) -> Response:  # noqa: A002
        """All nodes."""
        seen = look(serving)
        rows = overviews.of(seen.snapshot, seen.report).called(filter) if seen.snapshot else []
        facts = {
            "seen": seen,
            "filter": filter,
            "sheet": sheet(rows, page, ROWS),
            "counted": counted(seen.report),
        }
        partly = "hx-request" in request.headers
        return pages.page(request, "cluster_table.html" if partly else "cluster.html", facts)

    @router.get("/ui/cluster/map")
    @allowed(*WHO)
    def drawn() -> Response:
        """What the map is drawn from."""
        seen = look(serving)
        if seen.snapshot is None:
            return Response(b"{}", media_type="application/json", status_code=404)
        return Response(overviews.of(seen.snapshot, seen.report).drawn, media_type="application/json")

    return router
