"""Move limit: the number of steps of all kinds that a cluster may have within a day. Kernel."""

from collections.abc import Sequence

from advisor.plans.rules.past_steps import Past
from advisor.plans.rules.policy import DAY_US, Rules


def steps_left(rules: Rules, containers: int, past: Sequence[Past], at_us: int) -> int:
    """Number of further steps allowed now in a cluster, over all kinds of step.

    Args:
        rules: `max_steps` of one plan and `max_daily_share` of containers.
        containers: in the cluster; at least one step a day is allowed.
        past: steps of earlier plans of the cluster; those executed or pending in the last 24 hours count.
        at_us: the time, microseconds since 1970.
    """
    within_a_day = sum(one.counts and one.at_us > at_us - DAY_US for one in past)
    return max(0, min(rules.max_steps, max(1, int(rules.max_daily_share * containers)) - within_a_day))
