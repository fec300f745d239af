"""Proposals: what is put before people, and what they decide, as JSON.

Whoever decides names the version that they read. Routes run in threads: an approval tries each step again first.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from advisor.api.described import refusals, telling
from advisor.api.roles import allowed
from advisor.proposals.desk import Actor
from advisor.proposals.export import As
from advisor.proposals.giving import given_as
from advisor.proposals.office import DECIDERS, READERS, Office, opened
from advisor.proposals.plans import Decided, Halt, Plan, Proposal, State, expected
from advisor.proposals.shown import all_shown, one_shown

MOST = 1000
"""Proposals in one reply."""
Name = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,100}$")]


def _whole(told: object) -> object:
    """1.0 is a whole number in JSON; "1" and true are none."""
    return int(told) if isinstance(told, float) and told.is_integer() else told


Version = Annotated[
    int,
    Field(ge=1, le=2**31 - 1, description="That was read; refused if somebody decided since."),
    BeforeValidator(_whole),
]
Number = Annotated[int, Field(ge=1, le=10_000), BeforeValidator(_whole)]
_SEEN = r"[^\s\x00-\x20\x7f-\xa0]"
Reason = Annotated[
    str,
    Field(
        min_length=3,
        max_length=500,
        pattern=rf"{_SEEN}{{3}}|{_SEEN}\s+{_SEEN}",
        description="Why, for the others and the audit.",
    ),
]
NOT_READ = (400, 408, 413)
"""Of bodies that cannot be read."""
REQUEST_ID = "X-Request-Id"


class Saves(BaseModel):
    """What steps save together in an hour, and a 90 % interval of it."""

    expected: float
    low: float
    high: float


class ProposalRow(BaseModel):
    """A proposal, without its steps."""

    plan: str
    state: State
    version: int
    made_us: int
    expires_us: int
    steps: int
    """That people decide on."""
    held_back: int
    """That nobody is to do, so that what the others achieve can be told."""
    saves: Saves
    """What the steps that people decide on do."""
    reason: str
    changed_us: int


class ProposalsReply(BaseModel):
    """Proposals, the newest first."""

    matching: int
    """How many there are, of which `limit` are told."""
    proposals: list[ProposalRow]


class ProposalReply(ProposalRow):
    """A proposal with what it proposes, and what was decided on each step."""

    document: Plan
    decided: tuple[Decided, ...]


class HaltReply(BaseModel):
    """Whether everything is halted."""

    halted: bool
    by: Halt | None


class ResumeReply(BaseModel):
    """How many halts were lifted."""

    lifted: int


class Ask(BaseModel):
    """What every decision says."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Version


class ApproveAsk(Ask):
    """Approve steps, reject the other open ones; all that are open where none are named."""

    steps: Annotated[list[Number], Field(min_length=1, max_length=200)] | None = None


class RejectAsk(Ask):
    """Reject all of it."""

    reason: Reason


class ExportAsk(Ask):
    """Give it out."""

    form: As


class HaltAsk(BaseModel):
    """Stop everything."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    reason: Reason


def proposal_routes(office: Office | None) -> APIRouter:
    """Routes of proposals; without an office all say what it needs."""
    router = APIRouter()
    router.include_router(_reading(office))
    router.include_router(_deciding(office))
    router.include_router(_halting(office))
    return router


def _reading(office: Office | None) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/proposals", responses=refusals(422, 503))
    @allowed(*READERS)
    def proposals(state: State | None = None, limit: Annotated[int, Query(ge=1, le=MOST)] = 100) -> ProposalsReply:
        """What was proposed, the newest first."""
        found = all_shown(opened(office).desk, () if state is None else (state,))
        return ProposalsReply(matching=len(found), proposals=[row_of(one) for one in found[:limit]])

    @router.get("/v1/proposals/{plan}", responses=refusals(404, 422, 503))
    @allowed(*READERS)
    def proposal(plan: Name) -> ProposalReply:
        """One of them, step by step."""
        return reply_of(one_shown(opened(office).desk, plan))

    return router


def _deciding(office: Office | None) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/proposals/{plan}/approve", responses=refusals(*NOT_READ, 404, 409, 422, 423, 503))
    @allowed(*DECIDERS)
    def approve(plan: Name, ask: ApproveAsk, request: Request, response: Response) -> ProposalReply:
        """Approve steps; each is tried again in the cluster as it is now, and left out where it does not hold."""
        at, actor = opened(office), _actor(office, request, response)
        return reply_of(at.desk.approve(plan, ask.version, ask.steps, actor, at.stale))

    @router.post("/v1/proposals/{plan}/reject", responses=refusals(*NOT_READ, 404, 409, 422, 503))
    @allowed(*DECIDERS)
    def reject(plan: Name, ask: RejectAsk, request: Request, response: Response) -> ProposalReply:
        """Say no, also after an approval while it is not exported."""
        at, actor = opened(office), _actor(office, request, response)
        return reply_of(at.desk.reject(plan, ask.version, ask.reason, actor))

    @router.post("/v1/proposals/{plan}/export", responses=refusals(*NOT_READ, 404, 409, 422, 423, 503))
    @allowed(*DECIDERS)
    @telling(dict)
    def export(plan: Name, ask: ExportAsk, request: Request) -> Response:
        """Give out an approved plan; what was given out before is given again, to the byte."""
        reply = Response(media_type="application/json")
        actor = _actor(office, request, reply)
        told = opened(office).desk.export(plan, ask.version, given_as(ask.form), actor)
        return Response(told, headers={REQUEST_ID: actor.request_id}, media_type="application/json")

    return router


def _halting(office: Office | None) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/halt", responses=refusals(503))
    @allowed(*READERS)
    def halted() -> HaltReply:
        """Whether everything is halted, by whom and why."""
        found = opened(office).desk.halted()
        return HaltReply(halted=found is not None, by=found)

    @router.post("/v1/halt", responses=refusals(*NOT_READ, 422, 503))
    @allowed(*DECIDERS)
    def halt(ask: HaltAsk, request: Request, response: Response) -> HaltReply:
        """Stop at once: nothing is drafted, approved or exported until somebody resumes."""
        at = opened(office)
        at.desk.halt(ask.reason, _actor(office, request, response))
        return HaltReply(halted=True, by=at.desk.halted())

    @router.post("/v1/resume", responses=refusals(503))
    @allowed(*DECIDERS)
    def resume(request: Request, response: Response) -> ResumeReply:
        """Go on."""
        return ResumeReply(lifted=opened(office).desk.resume(_actor(office, request, response)))

    return router


def _actor(office: Office | None, request: Request, response: Response) -> Actor:
    """Who decides; the reply names the event as the audit does."""
    actor = opened(office).actor(getattr(request.state, "caller", None))
    response.headers[REQUEST_ID] = actor.request_id
    return actor


def row_of(one: Proposal) -> ProposalRow:
    """A proposal, without its steps."""
    mean, low, high = expected(one.plan.open_steps)
    return ProposalRow(
        plan=one.plan.plan,
        state=one.state,
        version=one.version,
        made_us=one.plan.made_us,
        expires_us=one.plan.expires_us,
        steps=len(one.plan.open_steps),
        held_back=len(one.plan.held_back),
        saves=Saves(expected=mean, low=low, high=high),
        reason=one.reason,
        changed_us=one.changed_us,
    )


def reply_of(one: Proposal) -> ProposalReply:
    """A proposal with what it proposes."""
    return ProposalReply(**row_of(one).model_dump(), document=one.plan, decided=one.decided)
