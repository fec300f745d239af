"""Bodies of proposals as JSON: what decisions say, and what is told."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from advisor.proposals.export import As
from advisor.proposals.plans import Decided, Halt, Plan, Proposal, State, expected


def whole(told: object) -> object:
    """1.0 is a whole number in JSON; "1" and true are none."""
    return int(told) if isinstance(told, float) and told.is_integer() else told


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


def row_of(one: Proposal) -> ProposalRow:
    """A proposal, without its steps."""
    mean, low, high = expected(one.standing)
    return ProposalRow(
        plan=one.plan.plan,
        state=one.state,
        version=one.version,
        made_us=one.plan.made_us,
        expires_us=one.plan.expires_us,
        steps=len(one.standing),
        held_back=len(one.plan.held_back),
        saves=Saves(expected=mean, low=low, high=high),
        reason=one.reason,
        changed_us=one.changed_us,
    )


def reply_of(one: Proposal) -> ProposalReply:
    """A proposal with what it proposes."""
    return ProposalReply(**row_of(one).model_dump(), document=one.plan, decided=one.decided)
