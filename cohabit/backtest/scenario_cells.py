"""Cells: on how few nodes the same containers live no worse. Kernel.

Cell compaction, by which Verma et al., "Large-scale cluster management at Google with Borg", EuroSys 2015, compare
policies: nodes are taken away until the workload no longer fits, packed anew from an empty cluster each time, eleven
times over. Fitting means here that containers wait no longer, and are in violation no more, than on the whole cluster
under the default policy.
"""

from collections.abc import Callable, Mapping

import numpy as np

from cohabit.backtest.closed_loop import Tally

SHARE = 0.9
"""Of draws that a cell suffices for."""
LEAST = 0.65
"""Smallest share of the nodes that is tried: requests exceed that share."""
Attempt = Callable[[int], Tally]
"""What becomes of the containers on so many nodes."""


def fits(tally: Tally, whole: Tally) -> bool:
    """Whether no container is worse off than on the whole cluster under the default policy."""
    return tally.pending_minutes <= whole.pending_minutes and tally.violation_minutes <= whole.violation_minutes


def smallest(attempt: Attempt, whole: Tally, nodes: int) -> float:
    """Share of the nodes that suffices.

    Args:
        attempt: runs a policy on so many nodes.
        whole: the default policy on all of them.
        nodes: how many all are.

    Returns:
        The smallest share of nodes by bisection, which assumes that what fits on some nodes fits on more; NaN where all
        are not enough.
    """
    low, high = int(LEAST * nodes), nodes
    if not fits(attempt(high), whole):
        return float("nan")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(attempt(middle), whole) else (middle, high)
    return high / nodes


def sufficient(shares: Mapping[int, float]) -> float:
    """The share of nodes that suffices in SHARE of all draws; NaN where it does not suffice in so many.

    Args:
        shares: by draw, NaN where all nodes were not enough.
    """
    found = np.sort(np.nan_to_num(np.array(list(shares.values())), nan=np.inf))
    quantile = float(np.quantile(found, SHARE, method="higher")) if len(found) else np.inf
    return quantile if np.isfinite(quantile) else float("nan")
