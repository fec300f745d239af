"""Disruption budgets: containers that may not be moved at the same time. Kernel."""

from collections.abc import Collection, Sequence

from advisor.plans.rules.past_steps import Past
from advisor.plans.rules.plan_record import Identity, Step
from advisor.plans.rules.policy import HOUR_US
from advisor.remediation.action import MOVES


def budget_in_use(step: Step, past: Sequence[Past], at_us: int) -> bool:
    """Whether a move would violate a disruption budget that another one took within the last hour, or may take.

    Args:
        step: to be proposed; only moves disrupt.
        past: steps of earlier plans of the cluster.
        at_us: the time, microseconds since 1970.
    """
    if step.kind not in MOVES or not step.who.budget:
        return False
    own = step.who.budget, step.who.namespace
    same = [one for one in past if (one.step.who.budget, one.step.who.namespace) == own]
    return any(one.step.kind in MOVES and one.counts and (one.waits or one.at_us > at_us - HOUR_US) for one in same)


def shares_budget(one: Identity, others: Collection[Identity]) -> bool:
    """Whether a container and some others may not be disrupted at the same time: one budget, or one serving app."""
    if one.budget is not None:
        return any(other.budget == one.budget and other.namespace == one.namespace for other in others)
    if one.best_effort or one.app is None:
        return False
    return any(other.app == one.app and other.team == one.team and not other.best_effort for other in others)
