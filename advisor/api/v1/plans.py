"""Proposals: plans for review, and decisions on them, as JSON.

A decision names the version that was read. Routes run in threads: an approval tries each step again first.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from advisor.api.http.openapi import refusals, telling
from advisor.api.http.roles import allowed
from advisor.api.v1.plan_schemas import (
    ApproveAsk,
    ExportAsk,
    FreezeReply,
    FreezeRequest,
    PlansReply,
    ProposalReply,
    RejectAsk,
    UnfreezeReply,
    reply_of,
    row_of,
)
from advisor.plans.issue import given_as, must_be
from advisor.plans.listing import all_shown, one_shown
from advisor.plans.plan_service import DECIDERS, READERS, Actor, Office, opened
from advisor.plans.rules.plan_record import State

MOST = 1000
"""Proposals in one reply."""
Name = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,100}$")]
NOT_READ = (400, 408, 413)
"""Status of bodies that cannot be parsed."""
REQUEST_ID = "X-Request-Id"


def proposal_routes(office: Office | None) -> APIRouter:
    """Routes of proposals; without a database all report the missing setting."""
    router = APIRouter()
    router.include_router(_reading(office))
    router.include_router(_deciding(office))
    router.include_router(_freezing(office))
    return router


def _reading(office: Office | None) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/plans", responses=refusals(422, 503))
    @allowed(*READERS)
    def proposals(state: State | None = None, limit: Annotated[int, Query(ge=1, le=MOST)] = 100) -> PlansReply:
        """Proposals, newest first."""
        found = all_shown(opened(office).desk, () if state is None else (state,))
        return PlansReply(matching=len(found), plans=[row_of(one) for one in found[:limit]])

    @router.get("/v1/plans/{plan}", responses=refusals(404, 422, 503))
    @allowed(*READERS)
    def proposal(plan: Name) -> ProposalReply:
        """One proposal, step by step."""
        return reply_of(one_shown(opened(office).desk, plan))

    return router


def _deciding(office: Office | None) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/plans/{plan}/approve", responses=refusals(*NOT_READ, 404, 409, 422, 423, 503))
    @allowed(*DECIDERS)
    def approve(plan: Name, ask: ApproveAsk, request: Request, response: Response) -> ProposalReply:
        """Approve steps; each is validated against the current cluster, and left out if it is no longer valid."""
        at, actor = opened(office), _actor(office, request, response)
        return reply_of(at.desk.approve(plan, ask.version, ask.steps, actor, at.stale))

    @router.post("/v1/plans/{plan}/reject", responses=refusals(*NOT_READ, 404, 409, 422, 503))
    @allowed(*DECIDERS)
    def reject(plan: Name, ask: RejectAsk, request: Request, response: Response) -> ProposalReply:
        """Reject a proposal, also after an approval until it is exported."""
        at, actor = opened(office), _actor(office, request, response)
        return reply_of(at.desk.reject(plan, ask.version, ask.reason, actor))

    @router.post("/v1/plans/{plan}/export", responses=refusals(*NOT_READ, 404, 409, 422, 423, 503))
    @allowed(*DECIDERS)
    @telling(dict)
    def export(plan: Name, ask: ExportAsk, request: Request) -> Response:
        """Export an approved plan; a repeated export returns the first one, to the byte."""
        reply = Response(media_type="application/json")
        actor = _actor(office, request, reply)
        document = opened(office).desk.export(plan, ask.version, given_as(ask.form), actor)
        must_be(document, plan, ask.form)
        return Response(document, headers={REQUEST_ID: actor.request_id}, media_type="application/json")

    return router


def _freezing(office: Office | None) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/freeze", responses=refusals(503))
    @allowed(*READERS)
    def frozen() -> FreezeReply:
        """The active change freeze, its author and its reason."""
        found = opened(office).desk.frozen()
        return FreezeReply(frozen=found is not None, by=found)

    @router.post("/v1/freeze", responses=refusals(*NOT_READ, 422, 503))
    @allowed(*DECIDERS)
    def freeze(ask: FreezeRequest, request: Request, response: Response) -> FreezeReply:
        """Freeze changes at once: no plan is drafted, approved or exported until the freeze ends."""
        at = opened(office)
        at.desk.freeze(ask.reason, _actor(office, request, response))
        return FreezeReply(frozen=True, by=at.desk.frozen())

    @router.post("/v1/unfreeze", responses=refusals(503))
    @allowed(*DECIDERS)
    def unfreeze(request: Request, response: Response) -> UnfreezeReply:
        """End the change freeze."""
        return UnfreezeReply(ended=opened(office).desk.unfreeze(_actor(office, request, response)))

    return router


def _actor(office: Office | None, request: Request, response: Response) -> Actor:
    """The actor of a decision; the reply has the event id of the audit log."""
    actor = opened(office).actor(getattr(request.state, "caller", None))
    response.headers[REQUEST_ID] = actor.request_id
    return actor
