"""The pages of victims: all of them, and one with what was seen."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from advisor.api.http.roles import allowed
from advisor.api.v1.victims import WHO, Wanted
from advisor.diagnosis.report_file import no_victim
from advisor.diagnosis.slowdown_causes import Diagnosis, Suspect
from advisor.errors import StoreUnavailable
from advisor.placement.model_state import Serving
from advisor.plans.listing import helping
from advisor.plans.plan_service import Office
from advisor.plans.rules.plan_record import Proposal
from advisor.remediation.options_file import kept_ladder
from advisor.scoring.score_scale import LIMIT_SLOWDOWN
from advisor.ui.site.data_source import look
from advisor.ui.site.intervals import Interval, intervals
from advisor.ui.site.paging import sheet
from advisor.ui.site.rendering import Pages
from advisor.ui.views.sre.heatmap import VERDICTS

ROWS = 50
Text = Annotated[str, Query(max_length=253)]
Number = Annotated[int, Query(ge=1, le=1_000_000)]


def victim_pages(pages: Pages, serving: Serving, office: Office | None = None) -> APIRouter:
    """Routes of victims."""
    router = APIRouter()

    @router.get("/ui/victims")
    @allowed(*WHO)
    def victims(request: Request, verdict: Text = "", node: Text = "", app: Text = "", page: Number = 1) -> Response:
        """Slowed containers."""
        seen = look(serving)
        wanted = Wanted(verdict, node, app)
        found = wanted.among(seen.report) if seen.report else []
        facts = {
            "seen": seen,
            "wanted": wanted,
            "query": urlencode({"verdict": verdict, "node": node, "app": app}),
            "verdicts": VERDICTS,
            "sheet": sheet(found, page, ROWS),
        }
        partly = "hx-request" in request.headers
        return pages.page(request, "victims_table.html" if partly else "victims.html", facts)

    @router.get("/ui/victims/{container}")
    @allowed(*WHO)
    def victim(request: Request, container: str) -> Response:
        """One of them, and why."""
        seen = look(serving)
        one = seen.report.of(container) if seen.report else None
        if one is None:
            raise no_victim(container)
        facts = {
            "seen": seen,
            "one": one,
            "suspects": drawn(one),
            "limit": LIMIT_SLOWDOWN,
            "ladder": kept_ladder(serving.snapshots, container),
            "plans": _helping(office, container),
        }
        return pages.page(request, "victim.html", facts)

    return router


def drawn(one: Diagnosis) -> list[tuple[Suspect, Interval]]:
    """Suspects with their intervals, all on one scale that begins at nothing."""
    values = [(of.added, of.low, of.high) for of in one.suspects]
    return list(zip(one.suspects, intervals(values), strict=True))


def _helping(office: Office | None, container: str) -> list[Proposal]:
    """Proposals that would help; none while the store does not answer."""
    if office is None:
        return []
    try:
        return helping(office.desk, container)
    except StoreUnavailable:
        return []
