"""Capacity: what nodes offer to best-effort containers, demand and purchases, as JSON."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from advisor.api.http.base_schema import Body
from advisor.api.http.openapi import refusals
from advisor.api.http.roles import Role, allowed
from advisor.capacity.capacity_reports import ForecastReport, NewestCapacity, PublishedPurchase, PublishedWhatIf
from advisor.capacity.offer_file import NewestOffers, OfferReport
from advisor.capacity.offers import NodeOffer
from advisor.errors import Unavailable

WHO: tuple[Role, ...] = ("planner", "scheduler", "sre", "admin")
"""Roles that may read offers."""
PLANNERS: tuple[Role, ...] = ("planner", "sre", "finance", "admin")
"""Roles that may read demand and purchases."""
MOST = 5000
"""Offers in one reply."""


class OfferReply(Body):
    """What a node offers of one resource until one horizon."""

    node: str
    """Node."""
    pool: str
    """Pool of the node."""
    resource: Literal["cpu", "memory"]
    """Resource: `cpu` in cores, `memory` in bytes."""
    horizon_s: int
    """Forecast window, in seconds."""
    risk: float
    """Share of forecasts that residents may exceed."""
    offered: float
    """Cores or bytes that best-effort containers may request in addition."""
    total: float
    """Cores or bytes that best-effort containers may request in all, those that are there included."""
    peak: float | None
    """Cores or bytes that other residents are forecast to use at most; null where unknown."""
    capacity: float | None
    """Cores or bytes that may be placed on the node; null where unknown."""
    booked: float
    """Cores or bytes of best-effort containers that are there."""
    bound_by: str
    """What limits the offer: `peak`, `interference`, `full`, or why it is 0: `stale`, `young`, `unknown`, `closed`."""
    reason: str
    """The limit in a sentence."""


class CorrectionReply(Body):
    """A best-effort container that gives resources back first."""

    node: str
    """Node that holds more than it can offer."""
    container: str
    """Its name in records."""
    resource: Literal["cpu", "memory"]
    """Resource."""
    action: Literal["throttle", "evict"]
    """`throttle` gives CPU back and keeps the work; memory comes back by `evict` alone."""
    frees: float
    """Cores or bytes."""
    needed: float
    """Cores or bytes that are missing."""


class HeadroomReply(Body):
    """Offers of the nodes of a cluster."""

    cluster: str
    """Cluster."""
    at_us: int
    """End of the newest measurements, microseconds since 1970."""
    age_s: float
    """Age of the offers, in seconds; beyond half of its horizon, 10 minutes to an hour, an offer is 0."""
    nodes: int
    """Number of nodes that were looked at."""
    matching: int
    """Number of matches; the reply has at most `limit` of them."""
    offers: list[OfferReply]
    """Offers, sorted by node, resource and horizon."""
    corrections: list[CorrectionReply]
    """Containers that give back first, one for each node that holds too much."""


def capacity_routes(snapshots: Path, now_us: Callable[[], int]) -> APIRouter:
    """Routes for capacity.

    Args:
        snapshots: folder that offers are published to.
        now_us: the clock.
    """
    router, newest = APIRouter(), NewestOffers(snapshots)
    forecasts, purchases = NewestCapacity(snapshots, ForecastReport), NewestCapacity(snapshots, PublishedPurchase)
    changes = NewestCapacity(snapshots, PublishedWhatIf)

    @router.get("/v1/capacity/headroom", responses=refusals(422, 503))
    @allowed(*WHO)
    def headroom(
        node: Annotated[str | None, Query(max_length=253)] = None,
        pool: Annotated[str | None, Query(max_length=253)] = None,
        resource: Literal["cpu", "memory"] | None = None,
        horizon_s: Annotated[int | None, Query(ge=300, le=86_400)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 1000,
    ) -> HeadroomReply:
        """What nodes offer to best-effort containers, for how long and at which risk."""
        now, wanted = now_us(), (node, pool, resource, horizon_s)
        report = _found(newest.report()).standing(now)
        return _reply(report, [one for one in report.offers if _matches(one, wanted)], limit, now)

    @router.get("/v1/capacity/forecast", responses=refusals(503))
    @allowed(*PLANNERS)
    def forecast() -> ForecastReport:
        """Forecast demand and days until full by pool and resource, as published last."""
        return forecasts.published()

    @router.get("/v1/capacity/purchases", responses=refusals(503))
    @allowed(*PLANNERS)
    def purchase() -> PublishedPurchase:
        """The purchase plan that was published last."""
        return purchases.published()

    @router.get("/v1/capacity/what-if", responses=refusals(503))
    @allowed(*PLANNERS)
    def what_if() -> PublishedWhatIf:
        """Changes of demand, machines, zones and SKUs, and what runs short after each, as published last."""
        return changes.published()

    return router


def _reply(report: OfferReport, found: list[NodeOffer], limit: int, now: int) -> HeadroomReply:
    return HeadroomReply(
        cluster=report.cluster,
        at_us=report.at_us,
        age_s=(now - report.at_us) / 1e6,
        nodes=len({one.node for one in report.offers}),
        matching=len(found),
        offers=[_offer(one) for one in found[:limit]],
        corrections=[] if report.stale(0, now) else [_correction(one) for one in report.corrections],
    )


def _found(report: OfferReport | None) -> OfferReport:
    if report is None:
        raise Unavailable("no headroom was published yet: run `cohabit capacity headroom --publish`")
    return report


def _matches(one: NodeOffer, wanted: tuple[str | None, str | None, str | None, int | None]) -> bool:
    found = (one.node, one.pool, one.resource, one.horizon_s)
    return all(asked is None or asked == have for asked, have in zip(wanted, found, strict=True))


def _offer(one: NodeOffer) -> OfferReply:
    return OfferReply(**{name: getattr(one, name) for name in OfferReply.model_fields})


def _correction(one: object) -> CorrectionReply:
    return CorrectionReply(**{name: getattr(one, name) for name in CorrectionReply.model_fields})
