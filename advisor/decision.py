"""Decision: from slowdown and harm to one absolute score of 0 to 10. Kernel."""

import numpy as np
from numpy.typing import NDArray

from advisor.scoring import Compared, Scores

Floats = NDArray[np.float64]

LS_WEIGHT, BE_WEIGHT = 1.0, 0.2
"""What a container's slowdown of 1 is worth, by class."""
VETO_SLOWDOWN = 4.0
"""A latency-sensitive newcomer is not sent where somebody may become this slow."""
HIGHEST = 10
"""kube-scheduler's MaxExtenderPriority."""


def cost(scores: Scores | Compared, *, best_effort: bool, resident_best_effort: NDArray[np.bool_]) -> Floats:
    """Expected cost of placing the newcomer on each node: its own slowdown and the added harm of the residents.

    Args:
        scores: of n candidates.
        best_effort: whether the newcomer is BE.
        resident_best_effort: (m,) class of the snapshot's residents.

    Returns:
        (n,) weighted slowdown - 1, summed; NaN where nothing is known. A candidate's cost does not depend on the
        others in the request, to the bit.

    Source: ours; harm counted in both directions; docs/decisions/0034-choice-by-base.md.
    """
    own = (BE_WEIGHT if best_effort else LS_WEIGHT) * np.maximum(scores.choice - 1.0, 0.0)
    weight = np.where(resident_best_effort[scores.harm.resident], BE_WEIGHT, LS_WEIGHT)
    candidate = np.repeat(np.arange(len(own)), np.diff(scores.harm.offsets))
    total: Floats = own + np.bincount(candidate, weight * (scores.harm.ratio - 1.0), minlength=len(own))
    return total


def points(costs: Floats, exceeds: NDArray[np.bool_], *, best_effort: bool) -> NDArray[np.int64]:
    """Scores from 0 to 10, the same for the same cost on any day.

    Args:
        costs: (n,) from `cost`; NaN where nothing is known.
        exceeds: (n,) whether the bound on everybody of the node is above VETO_SLOWDOWN.
        best_effort: whether the newcomer is BE; only others are vetoed.

    Returns:
        (n,) round(10 exp(-cost)): 10 without harm, 4 at a cost of one container slowed to twice its normal; 0 where a
        latency-sensitive newcomer's node bound exceeds it. A node of which nothing is known gets the
        median of the others, or 0 where nothing is known of any.

    Source: ours; absolute, so that a cluster without a good node shows as one.
    """
    known = ~np.isnan(costs)
    value = np.rint(HIGHEST * np.exp(-np.maximum(np.where(known, costs, 0.0), 0.0))).astype(np.int64)
    if not best_effort:
        value = np.where(exceeds, 0, value)
    middle = int(np.sort(value[known])[(known.sum() - 1) // 2]) if known.any() else 0
    return np.where(known, value, middle)
