"""Oracle: the policy that knows the law, and looks one placement ahead. Kernel."""

import numpy as np

from cohabit.backtest.closed_loop import VIOLATED
from cohabit.backtest.sight import Floats, Ints, Policy, Sight
from cohabit.backtest.world import World
from ingest.simulator.simulated_cluster import load_at

SLOWDOWN_COUNTS = 0.1
"""Weight of a slowdown of 1 relative to a violation: it breaks ties between nodes with equal violations."""


def oracle(world: World) -> Policy:
    """The node on which the pending container adds least to true violations of LS containers, its own included.

    Args:
        world: whose law it knows.
    """
    degrades = ~world.best_effort

    def cost(sight: Sight, app: int, nodes: Ints) -> Floats:
        before, platform = sight.counts[nodes], sight.platform[nodes]
        after = before.copy()
        after[:, app] += 1
        load = load_at(np.arange(world.apps), sight.time_s)
        return _harm(after, platform, load) - _harm(before, platform, load)

    def _harm(counts: Ints, platform: Ints, load: Floats) -> Floats:
        """(k,) of nodes: violations, and a little for each slowdown."""
        node, who = np.nonzero((counts > 0) & degrades)
        others = (counts * load)[node]
        others[np.arange(len(who)), who] -= load[who]
        ratio = world.law.slowdown(who, np.maximum(others, 0.0), load[who], platform[node])
        harm = (ratio > VIOLATED) + SLOWDOWN_COUNTS * (ratio - 1.0)
        return np.bincount(node, counts[node, who] * harm, minlength=len(counts)).astype(np.float64)

    return cost
