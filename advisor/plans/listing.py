"""Listing: proposals with their state at a time, expiry included; and their effect on nodes."""

from collections.abc import Collection
from dataclasses import dataclass

from advisor.plans.plan_service import Desk
from advisor.plans.rules import approval_states as states
from advisor.plans.rules.plan_record import Proposal, State


@dataclass(frozen=True, slots=True)
class OnNode:
    """What a plan changes on a node, as cost an hour.

    Args:
        node: which.
        before: what those whom it helps lose there now.
        after: what those whom it moves there will cost.
    """

    node: str
    before: float
    after: float


def one_shown(desk: Desk, name: str) -> Proposal:
    """A proposal, expired if it is too late for it.

    Raises:
        NotFound: there is none.
    """
    return states.expired(desk.one(name), desk.now_us())


def all_shown(desk: Desk, wanted: Collection[State] = ()) -> list[Proposal]:
    """Proposals, the newest first; those in some states only, where any are named."""
    looked_for = {*wanted, *states.WAITING} if "expired" in wanted else set(wanted)
    found = (states.expired(one, desk.now_us()) for one in desk.listed(looked_for))
    return [one for one in found if not wanted or one.state in wanted]


def helping(desk: Desk, container: str) -> list[Proposal]:
    """Proposals that would help or move a container: open ones, and exported ones until their outcome is known."""
    return [one for one in all_shown(desk, (*states.WAITING, "exported")) if _concerns(one, container)]


def _concerns(of: Proposal, container: str) -> bool:
    return any(container in {step.who.container, *step.victims} for step in of.standing)


def on_nodes(of: Proposal) -> list[OnNode]:
    """What the steps that it is about do to each node, by its name."""
    before, after = dict[str, float](), dict[str, float]()
    for step in of.standing:
        before[step.source] = before.get(step.source, 0.0) + max(step.gain + step.there, 0.0)
        if step.target is not None:
            after[step.target] = after.get(step.target, 0.0) + step.there
    return [OnNode(node, before.get(node, 0.0), after.get(node, 0.0)) for node in sorted({*before, *after})]
