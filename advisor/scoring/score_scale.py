"""Decision: from slowdown and interference cost to one absolute score of 0 to 10. Kernel."""

import numpy as np
from numpy.typing import NDArray

from advisor.scoring.scorer import Compared, Expected, Harm, Scores

Floats = NDArray[np.float64]

LS_WEIGHT, BE_WEIGHT = 1.0, 0.2
"""What a container's slowdown of 1 is worth, by class."""
LIMIT_SLOWDOWN = 1.25
"""A latency-sensitive container that is slower than this is in violation of what its users were promised."""
VIOLATION_WEIGHT = 1.0
"""Cost of a latency-sensitive container in violation, relative to one slowed to twice its baseline."""
LIMIT_WIDTH = 0.06
"""Of log slowdown: how far from the limit an expectation must be before it is about certain on which side we are."""
VETO_SLOWDOWN = 4.0
"""A node is vetoed for a latency-sensitive pending pod where a slowdown may reach this ratio."""
HIGHEST = 10
"""kube-scheduler's MaxExtenderPriority."""
COST_SCALE = 2.0
"""Cost by which points fall to 37 %: that of a latency-sensitive container slowed to twice its normal, and so in
violation."""


def cost(scores: Scores | Compared, *, best_effort: bool, resident_best_effort: NDArray[np.bool_]) -> Floats:
    """Expected cost of the pending pod on each node: its slowdown and violations plus those of the residents.

    Args:
        scores: of n candidates.
        best_effort: whether the pending pod is BE.
        resident_best_effort: (m,) class of the snapshot's residents.

    Returns:
        (n,) weighted slowdown - 1, summed, and VIOLATION_WEIGHT times the violations that are expected more of LS
        containers; NaN where nothing is known. A candidate's cost does not depend on the others in the request, to the
        bit.

    Source: ours; harm counted in both directions; docs/decisions/0034-choice-by-base.md, 0036-closed-loop.md.
    """
    own = cost_of_pending(scores, best_effort=best_effort)
    added = cost_of_harm(scores.harm, resident_best_effort)
    candidate = np.repeat(np.arange(len(own)), np.diff(scores.harm.offsets))
    total: Floats = own + np.bincount(candidate, added, minlength=len(own))
    return total


def cost_of_pending(scores: Scores | Compared, *, best_effort: bool) -> Floats:
    """(n,) cost of the pending pod's own slowdown on each candidate, as `cost` counts it."""
    return _degradation(scores.choice, scores.mean, np.full(len(scores.mean), best_effort))


def cost_of_harm(harm: Harm, resident_best_effort: NDArray[np.bool_]) -> Floats:
    """(k,) cost of the pending pod to each resident of the candidates, as `cost` counts it."""
    calm = resident_best_effort[harm.resident]
    more = np.where(calm, 0.0, violation(harm.before * harm.ratio) - violation(harm.before))
    added: Floats = np.where(calm, BE_WEIGHT, LS_WEIGHT) * (harm.ratio - 1.0) + VIOLATION_WEIGHT * more
    return added


def cost_of_residents(expected: Expected, *, best_effort: NDArray[np.bool_]) -> Floats:
    """(k,) what the slowdowns and violations of residents cost, as `cost` counts a pending pod's; NaN in, NaN out."""
    return _degradation(np.exp(expected.log_choice), expected.ratio, best_effort)


def _degradation(choice: Floats, mean: Floats, best_effort: NDArray[np.bool_]) -> Floats:
    """(n,) of containers that are slowed down so much, as nodes are compared by and as is expected."""
    slowed = np.where(best_effort, BE_WEIGHT, LS_WEIGHT) * np.maximum(choice - 1.0, 0.0)
    total: Floats = slowed + np.where(best_effort, 0.0, VIOLATION_WEIGHT * violation(mean))
    return total


def violation(slowdown: Floats) -> Floats:
    """How likely containers that are expected to be so slow are slower than LIMIT_SLOWDOWN.

    Args:
        slowdown: (n,) ratios > 0; NaN where not known.

    Returns:
        (n,) 0 to 1, rising, 0.5 at the limit. NaN in, NaN out.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0036-closed-loop.md; the logistic curve stands for the error of what is expected.
    """
    likely: Floats = 0.5 + 0.5 * np.tanh((np.log(slowdown) - np.log(LIMIT_SLOWDOWN)) / (2.0 * LIMIT_WIDTH))
    return likely


def points_at(costs: Floats) -> NDArray[np.int64]:
    """(n,) 0 to 10 of known costs, whatever a bound says."""
    return np.asarray(np.rint(HIGHEST * np.exp(-np.maximum(costs, 0.0) / COST_SCALE)), np.int64)


def points(costs: Floats, exceeds: NDArray[np.bool_], *, best_effort: bool) -> NDArray[np.int64]:
    """Scores from 0 to 10, the same for the same cost on any day.

    Args:
        costs: (n,) from `cost`; NaN where nothing is known.
        exceeds: (n,) whether the bound over all containers of the node is above VETO_SLOWDOWN.
        best_effort: whether the pending pod is BE; only others are vetoed.

    Returns:
        (n,) round(10 exp(-cost / 2)): 10 without harm, 4 where one container is slowed to twice its baseline; 0 where
        a latency-sensitive pending pod's node bound exceeds it. A node of which nothing is known gets the
        median of the others, or 0 where nothing is known of any.

    Source: ours; absolute, so that a cluster without a good node shows as one.
    """
    known = ~np.isnan(costs)
    value = points_at(np.where(known, costs, 0.0))
    if not best_effort:
        value = np.where(exceeds, 0, value)
    middle = int(np.sort(value[known])[(known.sum() - 1) // 2]) if known.any() else 0
    return np.where(known, value, middle)
