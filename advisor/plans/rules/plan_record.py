"""Plans: what is put before people to decide, step by step, and in which state it is. Facts and their JSON."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal, get_args

import msgspec

from advisor.diagnosis.slowdown_causes import TWO_SIDED_90
from advisor.plans.rules.errors import UnreadablePlan
from advisor.remediation.action import Field, Kind

State = Literal["drafted", "approved", "partly", "rejected", "exported", "confirmed", "refuted", "expired"]
STATES: tuple[State, ...] = get_args(State)
ENDED: tuple[State, ...] = ("rejected", "confirmed", "refuted", "expired")
Decision = Literal["open", "approved", "rejected", "stale", "holdout"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)
FORMAT = 2
COMMON_ERROR = 0.3
"""By how much the steps of a plan are all misjudged alike, by one model at one time: standard deviation, a share. Of 35
simulated plans 83 % saved the lower end of what was promised with 0.2, 89 % with 0.25, all with 0.3."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A container as its orchestrator calls it.

    Args:
        container: its uid.
        namespace: None where unknown.
        name: the same.
        app: the same.
        team: the same.
        best_effort: its class.
        budget: its disruption budget, None without one.
        cpu_request_cores: what it requests, None where unknown.
        memory_request_bytes: the same.
    """

    container: str
    namespace: str | None
    name: str | None
    app: str | None
    team: str | None
    best_effort: bool
    budget: str | None
    cpu_request_cores: float | None = None
    memory_request_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do.

    Args:
        number: from 1, in the order in which they are carried out.
        round: steps of one round can be executed in parallel, rounds one after the other.
        kind: what.
        who: to whom.
        source: node it is on.
        target: node it moves to; None for what is done where it is.
        fields: what is set; none for moves.
        kept: share of its use of a resource that a throttle leaves; 1 for all else.
        victims: uids of those whom it helps.
        verdict: reason of the first one's diagnosis, in words.
        why: what the remedy does, in words.
        gain: cost saved in an hour, expected; a latency-sensitive container at twice its normal costs 2 in an hour.
        low: of a 90 % interval.
        high: of it.
        there: cost an hour that it adds on the target, counted in `gain` already; so `gain + there` is what its own
            node is spared.
        cost: of doing it, for as long as it is meant to hold.
        sufficient: probability that the first victim is then not slower than allowed; None where that is not known.
    """

    number: int
    round: int
    kind: Kind
    who: Identity
    source: str
    target: str | None
    fields: tuple[Field, ...]
    kept: float
    victims: tuple[str, ...]
    verdict: str
    why: str
    gain: float
    low: float
    high: float
    there: float
    cost: float
    sufficient: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What was proposed; never changed.

    Args:
        format: of this record.
        plan: name, unique.
        cluster: where.
        created_us: when, microseconds since 1970.
        expires_us: until when it may be approved and exported.
        snapshot: version of the snapshot it was made from.
        bundle: name of the model.
        factor: by what gains were multiplied, after what earlier plans realised of theirs.
        hours: for how long steps are meant to hold; gains are of an hour, costs of all of them.
        steps: what to do.
        holdout: numbers of held-out steps, drawn at random as control group for the effect of the others.
        inputs: SHA-256 that identifies its inputs, see cohabit.plans.plan_inputs.digest_of.
    """

    format: int
    plan: str
    cluster: str
    created_us: int
    expires_us: int
    snapshot: int
    bundle: str
    factor: float
    hours: float
    steps: tuple[Step, ...]
    holdout: tuple[int, ...]
    inputs: str

    @property
    def open_steps(self) -> tuple[Step, ...]:
        """Steps that people decide on."""
        return tuple(step for step in self.steps if step.number not in self.holdout)


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided on a step.

    Args:
        number: of the step.
        decision: see Decision.
        reason: of a rejection, or why a step does not hold any more.
    """

    number: int
    decision: Decision
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan and what became of it.

    Args:
        plan: what was proposed.
        state: see State.
        version: rises with every change; a decision names the version that was read.
        decided: of each step, by number.
        reason: why it was rejected, or refuted.
        changed_us: when it was last decided on or exported; its outcome is recorded later.
    """

    plan: Plan
    state: State
    version: int
    decided: tuple[Decided, ...]
    reason: str
    changed_us: int

    def decision_of(self, number: int) -> Decision:
        """What was decided on a step."""
        return next(one.decision for one in self.decided if one.number == number)

    @property
    def standing(self) -> tuple[Step, ...]:
        """Steps that it is about: those that were approved, or as long as none was those that people decide on."""
        return self.approved or self.plan.open_steps

    @property
    def approved(self) -> tuple[Step, ...]:
        """Steps to carry out, in order."""
        chosen = {one.number for one in self.decided if one.decision == "approved"}
        return tuple(sorted((s for s in self.plan.steps if s.number in chosen), key=lambda s: (s.round, s.number)))


@dataclass(frozen=True, slots=True)
class ChangeFreeze:
    """Nothing is drafted, approved or exported.

    Args:
        who: frozen everything.
        reason: why.
        at_us: since when.
    """

    who: str
    reason: str
    at_us: int


def expected(steps: Sequence[Step]) -> tuple[float, float, float]:
    """What steps save together in an hour, and a 90 % interval of it.

    Args:
        steps: of one plan.

    Returns:
        Mean, lower and upper end: errors of single steps are independent, in addition to one common error.

    Raises:
        Nothing.
    """
    mean = sum(step.gain for step in steps)
    single = sum((step.gain - step.low) ** 2 for step in steps)
    half = sqrt(single + (TWO_SIDED_90 * COMMON_ERROR * mean) ** 2)
    return mean, mean - half, mean + half


def plan_json(plan: Plan) -> bytes:
    """The plan as it is kept and shown: the same bytes for the same plan."""
    return msgspec.json.encode(plan, order="deterministic")


def plan_from(content: bytes) -> Plan:
    """A plan from its JSON.

    Raises:
        UnreadablePlan: it is none of this format.
    """
    try:
        plan = msgspec.json.decode(content, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadablePlan(str(error)) from error
    if plan.format != FORMAT:
        raise UnreadablePlan(f"format {plan.format}, this Cohabit reads {FORMAT}")
    return plan


def named(cluster: str, created_us: int, steps: tuple[Step, ...]) -> str:
    """Name of a plan: short, and its own."""
    digest = hashlib.sha256(msgspec.json.encode((cluster, created_us, steps), order="deterministic")).hexdigest()
    return f"p{created_us // 1_000_000:x}-{digest[:8]}"
