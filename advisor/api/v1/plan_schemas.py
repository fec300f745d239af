"""Bodies of proposals as JSON: decisions and replies."""

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from advisor.api.http.base_schema import Body
from advisor.plans.export import As
from advisor.plans.rules.plan_record import ChangeFreeze, Decided, Plan, Proposal, State, expected


def whole(value: object) -> object:
    """1.0 is a whole number in JSON; "1" and true are none."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Version = Annotated[
    int,
    Field(ge=1, le=2**31 - 1, description="That was read; refused if somebody decided since."),
    BeforeValidator(whole),
]
Number = Annotated[int, Field(ge=1, le=10_000), BeforeValidator(whole)]
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


class Saves(Body):
    """What steps save together in an hour, and a 90 % interval of it."""

    expected: float
    """Cost saved; a latency-sensitive container at twice its normal costs 2 in an hour."""
    low: float
    """Of the interval."""
    high: float
    """Of the interval."""


class PlanRow(Body):
    """A proposal, without its steps."""

    plan: str
    """Its name."""
    state: State
    """What was decided."""
    version: int
    """Grows with each decision; a decision names the one it was made on."""
    created_us: int
    """Microseconds since 1970."""
    expires_us: int
    """Deadline of its approval and export, microseconds since 1970."""
    steps: int
    """That people decide on."""
    holdout: int
    """Number of held-out steps, the control group for the effect of the others."""
    saves: Saves
    """What the steps that people decide on do."""
    reason: str
    """Why it is in that state; empty where that says itself."""
    changed_us: int
    """Last decision, microseconds since 1970."""


class PlansReply(Body):
    """Proposals, the newest first."""

    matching: int
    """Number of matches; the reply has at most `limit` of them."""
    plans: list[PlanRow]
    """The newest first."""


class ProposalReply(PlanRow):
    """A proposal with what it proposes, and what was decided on each step."""

    document: Plan
    """Steps, their gains and costs, and what they were made of."""
    decided: tuple[Decided, ...]
    """By step."""


class FreezeReply(Body):
    """Whether everything is frozen."""

    frozen: bool
    """Whether approvals and exports are frozen."""
    by: ChangeFreeze | None
    """Who froze changes, when and why; null without a freeze."""


class UnfreezeReply(Body):
    """How many freezes were lifted."""

    ended: int
    """How many."""


class Ask(Body):
    """What every decision says."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Version


class ApproveAsk(Ask):
    """Approve steps, reject the other open ones; all that are open where none are named."""

    steps: Annotated[list[Number], Field(min_length=1, max_length=200)] | None = None
    """Their numbers."""


class RejectAsk(Ask):
    """Reject all of it."""

    reason: Reason


class ExportAsk(Ask):
    """Give it out."""

    form: As
    """For whom it is written."""


class FreezeRequest(Body):
    """Stop everything."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    reason: Reason


def row_of(one: Proposal) -> PlanRow:
    """A proposal, without its steps."""
    mean, low, high = expected(one.standing)
    return PlanRow(
        plan=one.plan.plan,
        state=one.state,
        version=one.version,
        created_us=one.plan.created_us,
        expires_us=one.plan.expires_us,
        steps=len(one.standing),
        holdout=len(one.plan.holdout),
        saves=Saves(expected=mean, low=low, high=high),
        reason=one.reason,
        changed_us=one.changed_us,
    )


def reply_of(one: Proposal) -> ProposalReply:
    """A proposal with what it proposes."""
    return ProposalReply(**row_of(one).model_dump(), document=one.plan, decided=one.decided)
