"""Bodies of proposals as JSON: decisions and replies."""

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from advisor.api.http.base_schema import Body
from advisor.plans.export import As
from advisor.plans.rules.plan_record import ChangeFreeze, Decided, Plan, Proposal, State, expected


def whole(value: object) -> object:
    """1.0 is a whole number in JSON; "1" and true are not."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Version = Annotated[
    int,
    Field(ge=1, le=2**31 - 1, description="Version that was read; rejected if the plan changed since."),
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
        description="Reason, shown to others and kept in the audit log.",
    ),
]


class Saves(Body):
    """Savings of all steps in an hour, with a 90 % interval."""

    expected: float
    """Saved interference cost; a latency-sensitive container at twice its baseline costs 2 an hour."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""


class PlanRow(Body):
    """A proposal, without its steps."""

    plan: str
    """Name of the plan."""
    state: State
    """State."""
    version: int
    """Version, which grows with each decision; a decision names the version that was read."""
    created_us: int
    """Time of creation, microseconds since 1970."""
    expires_us: int
    """Deadline of its approval and export, microseconds since 1970."""
    steps: int
    """Number of steps to decide on."""
    holdout: int
    """Number of held-out steps, the control group for the effect of the others."""
    saves: Saves
    """Expected savings of the steps to decide on."""
    reason: str
    """Reason of the state; empty if the state needs none."""
    changed_us: int
    """Time of the last decision, microseconds since 1970."""


class PlansReply(Body):
    """Proposals, newest first."""

    matching: int
    """Number of matches; the reply has at most `limit` of them."""
    plans: list[PlanRow]
    """Proposals, newest first."""


class ProposalReply(PlanRow):
    """A proposal with its steps and the decision on each."""

    document: Plan
    """Steps, their savings and costs, and the inputs of the plan."""
    decided: tuple[Decided, ...]
    """Decisions by step."""


class FreezeReply(Body):
    """State of the change freeze."""

    frozen: bool
    """Whether approvals and exports are frozen."""
    by: ChangeFreeze | None
    """Who froze changes, when and why; null without a freeze."""


class UnfreezeReply(Body):
    """Number of freezes that ended."""

    ended: int
    """Number of freezes that ended."""


class Ask(Body):
    """Fields of every decision."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Version


class ApproveAsk(Ask):
    """Approve steps, reject the other open ones; default: all open steps."""

    steps: Annotated[list[Number], Field(min_length=1, max_length=200)] | None = None
    """Step numbers."""


class RejectAsk(Ask):
    """Reject the whole proposal."""

    reason: Reason


class ExportAsk(Ask):
    """Export the proposal."""

    form: As
    """Format of the export."""


class FreezeRequest(Body):
    """Freeze all changes."""

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
    """A proposal with its steps."""
    return ProposalReply(**row_of(one).model_dump(), document=one.plan, decided=one.decided)
