"""Disruption budgets: containers that may not be moved at the same time. Kernel."""

from collections.abc import Collection, Sequence

from advisor.plans.rules.past_steps import Past
from advisor.plans.rules.plan_record import Identity
from advisor.plans.rules.policy import HOUR_US
from advisor.remediation.action import MOVES


def budget_uses(who: Identity, past: Sequence[Past], at_us: int) -> int:
    """Moves that took a container's disruption budget within the last hour, or may take it still.

    Args:
        who: the container.
        past: steps of earlier plans of the cluster.
        at_us: the time, microseconds since 1970.
    """
    moves = (one for one in past if takes_budget(one, at_us))
    return sum(_same(who, one.step.who) for one in moves) if who.budget else 0


def takes_budget(one: Past, at_us: int) -> bool:
    """Whether an earlier step is a move of the last hour, or one that may still come."""
    return one.step.kind in MOVES and one.counts and (one.waits or one.at_us > at_us - HOUR_US)


def shares_budget(one: Identity, others: Collection[Identity], allowed: int = 1) -> bool:
    """Whether a container and some others may not be disrupted at the same time: one budget, or one serving app.

    Args:
        one: the container.
        others: who else is disrupted.
        allowed: disruptions that its budget allows at once.
    """
    if one.budget is not None:
        return sum(_same(one, other) for other in others) >= allowed
    if one.best_effort or one.app is None:
        return False
    return any(other.app == one.app and other.team == one.team and not other.best_effort for other in others)


def _same(one: Identity, other: Identity) -> bool:
    return (one.budget, one.namespace) == (other.budget, other.namespace)
