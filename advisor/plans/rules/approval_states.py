"""States: what can become of a proposal, and by whom. Kernel: each function gives the proposal as it is afterwards.

drafted → approved, partly (some steps), rejected or expired; approved and partly → exported, rejected or expired;
exported → confirmed, refuted, or expired without a measurable outcome.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from unicodedata import category

from advisor.errors import Conflict, Invalid
from advisor.plans.rules.errors import NothingHolds
from advisor.plans.rules.plan_record import Decided, Decision, Plan, Proposal, State

NEXT: dict[State, tuple[State, ...]] = {
    "drafted": ("approved", "partly", "rejected", "expired"),
    "approved": ("exported", "rejected", "expired"),
    "partly": ("exported", "rejected", "expired"),
    "rejected": (),
    "exported": ("confirmed", "refuted", "expired"),
    "confirmed": (),
    "refuted": (),
    "expired": (),
}
WAITING: tuple[State, ...] = ("drafted", "approved", "partly")
"""States that still need an action."""
UNSEEN = {"Cc", "Cf", "Cs"}
"""Control characters, what turns text round or cannot be seen, and halves of characters."""
LEAST_REASON, MAX_REASON = 3, 500
ALL_HELD_BACK = "all of its steps are in the holdout"


def drafted(plan: Plan) -> Proposal:
    """A plan put before people; one of which every step is held back has nothing to decide."""
    decided = tuple(Decided(step.number, "holdout" if step.number in plan.holdout else "open") for step in plan.steps)
    if not plan.open_steps:
        return Proposal(plan, "expired", 1, decided, ALL_HELD_BACK, plan.created_us)
    return Proposal(plan, "drafted", 1, decided, "", plan.created_us)


def approved(of: Proposal, steps: Collection[int], stale: Mapping[int, str], at_us: int) -> Proposal:
    """Some steps are approved, the other open ones rejected.

    Args:
        of: a drafted proposal.
        steps: numbers of those to approve, one at least.
        stale: why some of these do not hold any more, by number; they are not approved.
        at_us: when.

    Returns:
        The proposal: approved where all its open steps are, partly else.

    Raises:
        Conflict: it is not drafted, or it is too late.
        Invalid: it does not have such a step to decide on.
        NothingHolds: all that were to be approved are stale.
    """
    _may(of, "approved", at_us)
    there = [step.number for step in of.plan.open_steps]
    if not steps or set(steps) - set(there):
        raise Invalid(
            f"proposal {of.plan.plan} has no steps {', '.join(map(str, sorted(set(steps) - set(there))))} to decide "
            f"on: choose from {', '.join(map(str, there)) or 'none'}"
        )
    if not set(steps) - set(stale):
        raise NothingHolds(of.plan.plan, [stale[number] for number in sorted(steps)])

    def decision(one: Decided) -> Decided:
        if one.number not in there:
            return one
        if one.number in steps:
            return Decided(one.number, "stale", stale[one.number]) if one.number in stale else _yes(one)
        return Decided(one.number, "rejected", "not selected at approval")

    decided = tuple(decision(one) for one in of.decided)
    whole = all(one.decision == "approved" for one in decided if one.number in there)
    return _changed(of, "approved" if whole else "partly", at_us, decided=decided)


def rejected(of: Proposal, reason: str, at_us: int) -> Proposal:
    """Nothing of it shall be done, also where it was approved and is not exported yet.

    Raises:
        Conflict: it is too late.
        Invalid: no reason is given.
    """
    _may(of, "rejected", at_us)
    text = reason_of(reason)
    undecided: tuple[Decision, ...] = ("open", "approved")
    decided = tuple(Decided(one.number, "rejected", text) if one.decision in undecided else one for one in of.decided)
    return _changed(of, "rejected", at_us, decided=decided, reason=text)


def reason_of(said: str) -> str:
    """A reason in one line, without what no database or terminal takes.

    Raises:
        Invalid: it is none, or too long.
    """
    text = " ".join("".join(" " if category(c) in UNSEEN else c for c in said).split())
    if not LEAST_REASON <= len(text) <= MAX_REASON:
        raise Invalid("the reason is missing: give 3 to 500 characters; the next plan takes it into account")
    return text


def exported(of: Proposal, at_us: int) -> Proposal:
    """It was given to those who carry it out.

    Raises:
        Conflict: it is not approved, or too late.
    """
    _may(of, "exported", at_us)
    return _changed(of, "exported", at_us)


def concluded(of: Proposal, *, confirmed: bool | None, reason: str) -> Proposal:
    """Record its outcome; None where it could not be measured. The time of the decision stays.

    Raises:
        Conflict: it was not exported, or this is known already.
    """
    state: State = "expired" if confirmed is None else "confirmed" if confirmed else "refuted"
    if of.state != "exported":
        raise _wrong_state(of.plan.plan, of.state, state)
    return _changed(of, state, of.changed_us, reason=reason)


def lapsed(of: Proposal, reason: str, at_us: int) -> Proposal:
    """Nothing of it holds any more.

    Raises:
        Conflict: it has ended, or was exported.
    """
    if of.state not in WAITING:
        raise _wrong_state(of.plan.plan, of.state, "expired")
    return _changed(of, "expired", at_us, reason=reason[:MAX_REASON])


def expired(of: Proposal, at_us: int) -> Proposal:
    """The proposal, expired if it was not exported in time; else unchanged."""
    if of.state not in WAITING or at_us < of.plan.expires_us:
        return of
    return _changed(of, "expired", at_us, reason="it was not exported in time")


def _may(of: Proposal, wanted: State, at_us: int) -> None:
    if expired(of, at_us).state == "expired":
        raise _wrong_state(of.plan.plan, "expired", wanted)
    if wanted not in NEXT[of.state]:
        raise _wrong_state(of.plan.plan, of.state, wanted)


def _yes(one: Decided) -> Decided:
    return Decided(one.number, "approved")


def _changed(
    of: Proposal, state: State, at_us: int, *, decided: tuple[Decided, ...] | None = None, reason: str = ""
) -> Proposal:
    return replace(
        of,
        state=state,
        version=of.version + 1,
        decided=of.decided if decided is None else decided,
        reason=reason,
        changed_us=at_us,
    )


def _wrong_state(name: str, state: str, wanted: str) -> Conflict:
    what = "approve it first" if (state, wanted) == ("drafted", "exported") else f"it cannot be {wanted} any more"
    return Conflict(f"proposal {name} is {state}: {what}")
