"""Blame: what of a container's slowdown is whose, by how it moved with what each neighbour used. Kernel.

What is known before: how sensitive the victim is to each resource, so that a neighbour's use of it is expected to slow
it down by the product. What is seen: its slowdown window by window, while neighbours came, went and changed. Both are
put together as a Gaussian process over time, in which a neighbour may press harder than its use tells, and the victim
be more sensitive than thought, so that every contribution has a spread and "who most" a probability.
"""

from dataclasses import dataclass
from math import erfc

import numpy as np
from numpy.typing import NDArray

from advisor.errors import UnusableEvidence

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MISJUDGED = 0.6
"""Spread of a sensitivity, as a share of it: the profile may be that wrong about a resource."""
UNTOLD = 0.4
"""Spread of a neighbour's pressure, as a share of its use: cache and queues are pressed by more than volume."""
LEAST_SENSITIVITY = 0.15
"""Slowdown - 1 per share of the node by which a sensitivity is doubted at least, also one believed to be 0."""
NOISE = 0.06
"""Spread of a window's slowdown about what its neighbours explain."""
LEVEL = 0.1
"""Spread of the level over the whole stretch: a normal that is slightly wrong."""


@dataclass(frozen=True, slots=True)
class Blame:
    """What j neighbours add to a victim's slowdown, on the mean over the windows in which it suffered.

    Args:
        added: (j,) slowdown - 1, may be slightly negative.
        spread: (j,) standard deviation of each.
        surely: (j,) probability that it adds most; at most that of adding more than the strongest other one.
        by_resource: (j, r) what it adds through each resource, on the mean; sums to `added`.
        suffered: mean slowdown - 1 in these windows.
        level: what of it is the victim's own, not its neighbours'.
    """

    added: Floats
    spread: Floats
    surely: Floats
    by_resource: Floats
    suffered: float
    level: float


def blame(suffered: Floats, use: Floats, sensitivity: Floats, bad: Flags) -> Blame:
    """Who adds how much.

    Args:
        suffered: (t,) slowdown - 1 of the victim, window by window; NaN where not known.
        use: (t, j, r) what each neighbour used of each resource just before and in the window, shares of the node; 0
            where it was not there. NaN counts as 0.
        sensitivity: (r,) of the victim, slowdown - 1 per share of the node, >= 0; NaN where not known.
        bad: (t,) windows that are to be explained, known ones, one at least.

    Returns:
        Contributions; of no neighbours empty arrays. Their order and that of windows make no difference.

    Raises:
        UnusableEvidence: shapes do not fit, or no bad window is known.

    Source: regression with a Gaussian prior, Rasmussen and Williams, "Gaussian processes for machine learning", 2006,
        chapter 2; which prior is ours, docs/decisions/0042-diagnosis.md.
    """
    known = np.isfinite(suffered)
    if use.shape[:1] + use.shape[2:] != suffered.shape + sensitivity.shape or bad.shape != suffered.shape:
        raise UnusableEvidence(f"{suffered.shape} windows, use {use.shape}, {sensitivity.shape} resources")
    if not (bad & known).any():
        raise UnusableEvidence("no window in which the victim is known to have suffered")
    told, x = np.nan_to_num(sensitivity), np.nan_to_num(use[known])
    doubt = np.maximum(told, LEAST_SENSITIVITY) ** 2
    mean = x[bad[known]].mean(axis=0)
    together = x.sum(axis=1)
    shared = MISJUDGED**2 * doubt
    own = UNTOLD**2 * doubt
    seen = (together * shared) @ together.T + np.einsum("tjr,r,sjr->ts", x, own, x)
    seen += LEVEL**2 + NOISE**2 * np.eye(len(x))
    through = mean[:, :, None] * (shared[:, None] * together.T + own[:, None] * x.transpose(1, 2, 0))
    missing = np.linalg.solve(seen, suffered[known] - together @ told)
    by_resource = mean * told + through @ missing
    link = through.sum(axis=1)
    before = (mean * shared) @ mean.T + np.diag((mean**2) @ own)
    after = before - link @ np.linalg.solve(seen, link.T)
    added = by_resource.sum(axis=1)
    return Blame(
        added=added,
        spread=np.sqrt(np.maximum(np.diag(after), 0.0)),
        surely=_most(added, after),
        by_resource=by_resource,
        suffered=float(suffered[known & bad].mean()),
        level=float(LEVEL**2 * missing.sum()),
    )


def _most(added: Floats, covariance: Floats) -> Floats:
    """(j,) bound of the probability that each adds most: the least of those of adding more than one other."""
    variance = np.diag(covariance)
    apart = np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 1e-18))
    score = (added[:, None] - added[None, :]) / apart
    np.fill_diagonal(score, np.inf)
    least = np.minimum(score.min(axis=1, initial=np.inf), added / np.sqrt(np.maximum(variance, 1e-18)))
    return np.array([0.5 * erfc(-value / 2**0.5) for value in least])
