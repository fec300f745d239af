"""Guards: of whom something may be proposed, by what was done before. Kernel."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from advisor.plans.rules.plan_record import Identity, State, Step
from advisor.plans.rules.policy import DAY_US, HOUR_US, Rules
from advisor.remediation.action import MOVES

REMEMBERED_US = 14 * DAY_US
"""How long a move is not taken back without new evidence."""


@dataclass(frozen=True, slots=True)
class Past:
    """A step of an earlier plan.

    Args:
        step: what it was.
        state: of its proposal.
        decision: on it.
        at_us: when it was decided on last, or proposed.
        exported: whether its plan was exported: its steps may have been executed, even without a measured outcome.
    """

    step: Step
    state: State
    decision: str
    at_us: int
    exported: bool = False

    @property
    def counts(self) -> bool:
        """Whether something was done or may still be; also who was held back is let alone until it is compared."""
        if self.decision == "holdout":
            return True
        if self.decision == "approved" and self.exported:
            return True
        return self.decision in {"open", "approved"} and self.state not in {"rejected", "expired"}


def refused(step: Step, left_alone: Mapping[str, str], past: Sequence[Past], rules: Rules, at_us: int) -> str:
    """Why a step may not be proposed now, whatever it gains.

    Args:
        step: what might be done.
        left_alone: why some containers are not moved, by uid.
        past: steps of earlier plans of the cluster.
        rules: what may be proposed.
        at_us: when.

    Returns:
        The reason, in words; empty where nothing speaks against it.

    Raises:
        Nothing.
    """
    who = step.who.container
    if step.kind in MOVES and who in left_alone:
        return left_alone[who]
    own = [one for one in past if _is_of(step, one)]
    if any(cools_down(one, rules, at_us) for one in own):
        return "it is within the cooldown after a recent step or proposal"
    if step.kind in MOVES and any(_takes_back(step, one, at_us) for one in own):
        return "it would be moved back, and its last move was not refuted"
    budgets = [one for one in past if one.step.who.budget and one.step.who.budget == step.who.budget]
    same = [one for one in budgets if one.step.who.namespace == step.who.namespace and one.step.kind in MOVES]
    if step.kind in MOVES and any(one.counts and one.at_us > at_us - HOUR_US for one in same):
        return f"its disruption budget {step.who.budget} is in use"
    return ""


def cools_down(one: Past, rules: Rules, at_us: int) -> bool:
    """Whether whom an earlier step was about is to be let alone for what was done to it, or may be."""
    return one.counts and one.at_us > at_us - rules.cooldown_us


def _is_of(step: Step, one: Past) -> bool:
    """Whether an earlier step was done to the same container; who was moved has another uid where it went."""
    if one.step.who.container == step.who.container:
        return True
    moved = one.step.kind in MOVES and one.decision == "approved" and one.step.target == step.source
    same = one.step.who.app is not None and one.step.who.app == step.who.app
    return moved and same and (one.step.who.namespace, one.step.who.team) == (step.who.namespace, step.who.team)


def _takes_back(step: Step, one: Past, at_us: int) -> bool:
    """Whether a step undoes an earlier move that was not found to be wrong."""
    moved = one.step.kind in MOVES and one.counts and one.decision == "approved"
    return moved and one.step.source == step.target and one.at_us > at_us - REMEMBERED_US and one.state != "refuted"


def shares_budget(one: Identity, others: Collection[Identity]) -> bool:
    """Whether a container and some others may not be disrupted at the same time: one budget, or one app that serves."""
    if one.budget is not None:
        return any(other.budget == one.budget and other.namespace == one.namespace for other in others)
    if one.best_effort or one.app is None:
        return False
    return any(other.app == one.app and other.team == one.team and not other.best_effort for other in others)


def left(rules: Rules, containers: int, past: Sequence[Past], at_us: int) -> int:
    """How many more steps there may be now in a cluster of so many containers."""
    within_a_day = sum(one.counts and one.at_us > at_us - DAY_US for one in past)
    return max(0, min(rules.max_steps, max(1, int(rules.max_daily_share * containers)) - within_a_day))
