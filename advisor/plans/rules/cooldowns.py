"""Cooldowns: containers that are left alone for a time after a step. Kernel."""

from collections.abc import Mapping, Sequence

from advisor.plans.rules.disruption_budgets import budget_uses
from advisor.plans.rules.past_steps import Past
from advisor.plans.rules.plan_record import Step
from advisor.plans.rules.policy import DAY_US, Rules
from advisor.remediation.action import MOVES

REMEMBERED_US = 14 * DAY_US
"""How long a move is not taken back without new evidence."""


def refused(
    step: Step, left_alone: Mapping[str, str], past: Sequence[Past], rules: Rules, at_us: int, *, allowed: int = 1
) -> str:
    """Why a step may not be proposed now, whatever it gains.

    Args:
        step: what might be done.
        left_alone: why some containers are not moved, by uid.
        past: steps of earlier plans of the cluster.
        rules: what may be proposed.
        at_us: when.
        allowed: disruptions that its disruption budget allows at once; 1 where that is not known.

    Returns:
        The reason, in words; empty where nothing speaks against it.

    Raises:
        Nothing.
    """
    who = step.who.container
    if step.kind in MOVES and who in left_alone:
        return left_alone[who]
    own = [one for one in past if _is_of(step, one)]
    if pending := next((one for one in own if one.pending), None):
        return pending.in_plan
    if any(cools_down(one, rules, at_us) for one in own):
        return "it is within the cooldown after a recent step or proposal"
    if step.kind in MOVES and any(_takes_back(step, one, at_us) for one in own):
        return "it would be moved back, and its last move was not refuted"
    if step.kind in MOVES and step.who.budget and budget_uses(step.who, past, at_us) >= allowed:
        return f"its disruption budget {step.who.budget} is in use"
    return ""


def in_plan(container: str, past: Sequence[Past]) -> str:
    """In which plan a container is, to be moved or helped, whose outcome is not known; empty where it is in none."""
    concerned = (one for one in past if container in {one.step.who.container, *one.step.victims})
    return next((one.in_plan for one in concerned if one.pending), "")


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
