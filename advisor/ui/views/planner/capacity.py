"""The page of capacity: demand and its forecast, days until full, the purchase plan, and what nodes offer."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import APIRouter, Request, Response

from advisor.api.http.roles import allowed
from advisor.api.v1.capacity import PLANNERS
from advisor.capacity.capacity_reports import ForecastReport, NewestCapacity, PublishedPurchase, PublishedWhatIf
from advisor.capacity.offer_file import HOUR_S, NewestOffers
from advisor.capacity.offers import NodeOffer
from advisor.errors import Unavailable
from advisor.placement.model_state import Serving
from advisor.ui.site.rendering import Pages
from advisor.ui.views.planner.fan_chart import fan_chart

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class PoolOffer:
    """What the nodes of a pool offer to best-effort containers for an hour.

    Args:
        pool: it.
        resource: `cpu` in cores, `memory` in bytes.
        nodes: how many were looked at.
        offered: the sum.
        largest: the largest of one node; a pod needs one.
        capacity: the sum of what is known.
    """

    pool: str
    resource: str
    nodes: int
    offered: float
    largest: float
    capacity: float


def capacity_pages(pages: Pages, serving: Serving) -> APIRouter:
    """The route of capacity."""
    router, offers = APIRouter(), NewestOffers(serving.snapshots)
    forecasts = NewestCapacity(serving.snapshots, ForecastReport)
    purchases = NewestCapacity(serving.snapshots, PublishedPurchase)
    changes = NewestCapacity(serving.snapshots, PublishedWhatIf)

    @router.get("/ui/capacity")
    @allowed(*PLANNERS)
    def capacity(request: Request) -> Response:
        """Demand, purchases and headroom."""
        lacking = list[str]()
        forecast, plan = _read(forecasts.report, lacking), _read(purchases.report, lacking)
        offered = _read(offers.report, lacking)
        facts = {
            "lacking": lacking,
            "forecast": forecast,
            "charts": [fan_chart(one) for one in forecast.series if one.past or one.future] if forecast else [],
            "plan": plan,
            "what_if": _read(changes.report, lacking),
            "offers": by_pool(offered.standing(serving.now_us()).offers) if offered else [],
            "offered": offered,
        }
        return pages.page(request, "capacity.html", facts)

    return router


def by_pool(offers: tuple[NodeOffer, ...]) -> list[PoolOffer]:
    """Offers for an hour, by pool and resource."""
    parts = defaultdict[tuple[str, str], list[NodeOffer]](list)
    for one in offers:
        if one.horizon_s == HOUR_S:
            parts[one.pool, one.resource].append(one)
    return [
        PoolOffer(
            pool,
            resource,
            len(own),
            sum(one.offered for one in own),
            max(one.offered for one in own),
            sum(one.capacity or 0.0 for one in own),
        )
        for (pool, resource), own in sorted(parts.items())
    ]


def _read(ask: Callable[[], Read | None], lacking: list[str]) -> Read | None:
    """What is asked for; None where it is not there or cannot be read, and then the reason is added."""
    try:
        return ask()
    except Unavailable as error:
        lacking.append(str(error))
        return None
