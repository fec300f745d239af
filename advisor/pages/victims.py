"""The pages of victims: all of them, and one with what was seen."""

import math
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from advisor.api.roles import allowed
from advisor.api.victims import WHO, Wanted
from advisor.decision import LIMIT_SLOWDOWN
from advisor.diagnosis.verdicts import Diagnosis, Suspect
from advisor.errors import NoVictim
from advisor.pages.heat import VERDICTS
from advisor.pages.looking import look
from advisor.pages.paging import sheet
from advisor.pages.rendering import Pages
from advisor.remedies.kept import kept_ladder
from advisor.serving import Serving

ROWS = 50
Text = Annotated[str, Query(max_length=253)]
Number = Annotated[int, Query(ge=1, le=1_000_000)]
WIDTH = 200.0
"""Of the drawing of an interval, in units of its own."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 90 % interval as it is drawn: from, how wide, and where its middle is, of WIDTH."""

    low: float
    wide: float
    middle: float


def victim_pages(pages: Pages, serving: Serving) -> APIRouter:
    """Routes of victims."""
    router = APIRouter()

    @router.get("/ui/victims")
    @allowed(*WHO)
    def victims(request: Request, verdict: Text = "", node: Text = "", app: Text = "", page: Number = 1) -> Response:
        """Who suffers."""
        seen = look(serving)
        wanted = Wanted(verdict, node, app)
        found = wanted.among(seen.told) if seen.told else []
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
        one = seen.told.of(container) if seen.told else None
        if one is None:
            raise NoVictim(container)
        facts = {"seen": seen, "one": one, "suspects": drawn(one), "limit": LIMIT_SLOWDOWN}
        facts["ladder"] = kept_ladder(serving.snapshots, container)
        return pages.page(request, "victim.html", facts)

    return router


def drawn(one: Diagnosis) -> list[tuple[Suspect, Interval]]:
    """Suspects with their intervals, all on one scale that begins at nothing."""
    known = [max(of.high, of.added) for of in one.suspects if math.isfinite(of.high)]
    scale = WIDTH / max([*known, 0.01])

    def place(value: float) -> float:
        return min(max(value, 0.0) * scale, WIDTH) if math.isfinite(value) else 0.0

    return [(of, Interval(place(of.low), place(of.high) - place(of.low), place(of.added))) for of in one.suspects]
