"""The application of people and tools: the management API."""

from collections.abc import Callable

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from advisor.api.http import application
from advisor.api.http.application import assembled
from advisor.api.http.auth_middleware import Gate, Guard
from advisor.api.http.health import ops_routes
from advisor.api.http.query_parameters import strict
from advisor.api.http.roles import doors_of, roles_of
from advisor.api.v1.bills import bill_routes
from advisor.api.v1.capacity import capacity_routes
from advisor.api.v1.gangs import gang_routes
from advisor.api.v1.plans import proposal_routes
from advisor.api.v1.quotes import quote_routes
from advisor.api.v1.scores import score_routes
from advisor.api.v1.victims import victim_routes
from advisor.billing.lines.errors import BadBookText, BadPriceBook
from advisor.billing.quotes.dependencies import BillOffice
from advisor.billing.quotes.errors import NoLakeToQuote
from advisor.errors import AdvisorError
from advisor.gangs.gang_desk import GangDesk
from advisor.placement.model_state import Serving
from advisor.plans.plan_service import Office
from advisor.plans.rules.errors import ChangedMeanwhile, NothingHolds, UnreadablePlan

STATUS: dict[type[AdvisorError], int] = {
    **application.STATUS,
    ChangedMeanwhile: 409,
    NothingHolds: 409,
    BadBookText: 422,
    BadPriceBook: 422,
    NoLakeToQuote: 503,
    UnreadablePlan: 503,
}
MAX_BODY_BYTES = 4 << 20
"""10,000 names of 253 characters take 2.6 MB."""


def create_app(
    serving: Serving,
    guard: Guard | None = None,
    metrics: CollectorRegistry | None = None,
    office: Office | None = None,
    *,
    bills: BillOffice | None = None,
    gangs: GangDesk | None = None,
    problem: Callable[[], str] | None = None,
) -> FastAPI:
    """The management API; without a guard any client that reaches it has all rights.

    Args:
        serving: what is answered from.
        guard: who may do what.
        metrics: source of /metrics; None exposes this process alone.
        office: where proposals are decided on; None where none are kept.
        bills: where bills are kept; None where none are.
        gangs: where gangs are reserved; None where no reservations are kept.
        problem: why schedulers may get all 0; None for what `serving` says.
    """
    ops = ops_routes(serving, serving.metrics if metrics is None else metrics, problem)
    victims = victim_routes(serving.report, serving.snapshots, serving.now_us)
    money = [bill_routes(bills), quote_routes(serving, bills)]
    capacity = capacity_routes(serving.snapshots, serving.now_us)
    own = strict(
        [
            score_routes(serving),
            victims,
            capacity,
            proposal_routes(office),
            gang_routes(gangs, serving.gangs_turned_away),
            *money,
        ]
    )
    routers = [own, ops]
    app = assembled("Cohabit", routers, max_body_bytes=MAX_BODY_BYTES, more_status=STATUS)
    return app if guard is None else guarded(app, guard)


def guarded(app: FastAPI, guard: Guard) -> FastAPI:
    """The application, of which each route from now on asks for one of its roles."""
    app.state.doors = roles_of(app)  # for the description
    app.add_middleware(Gate, doors=doors_of(app.state.doors), guard=guard)
    return app
