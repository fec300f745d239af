"""Attribution: each neighbour's share of a container's slowdown, by co-variation with its use. Kernel.

What is known before: how sensitive the victim is to each resource, so that a neighbour's use of it is expected to slow
it down by the product. The observation: its slowdown window by window, while neighbours came, went and changed. A
Gaussian process over time combines both. In it a neighbour may press harder than its use shows, and the victim be
more sensitive than expected. So every contribution has a spread, and "the largest" has a probability.
"""

from dataclasses import dataclass, replace
from math import erfc

import numpy as np
from numpy.typing import NDArray

from advisor.errors import AdvisorError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SCALES = (0.25, 0.5, 1.0, 2.0)
"""By how much all sensitivities of a victim may be off together; the likeliest is taken."""
DOUBLING = 0.5
"""What a doubling, squared, costs of log likelihood."""
MISJUDGED = 0.6
"""Spread of a sensitivity, as a share of it: the profile may be that wrong about a resource."""
UNTOLD = 0.4
"""Spread of a neighbour's pressure, as a share of its use: cache and queues are pressed by more than volume."""
UNKNOWN = 0.5
"""Sensitivity that is assumed where none is known."""
LEAST_SENSITIVITY = 0.15
"""Slowdown - 1 per share of the node by which a sensitivity is doubted at least, also one believed to be 0."""
NOISE = 0.06
"""Spread of a window's slowdown about what its neighbours explain, as a share of it."""
LEVEL = 0.1
"""Spread of the level over the whole stretch: a normal that is slightly wrong."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """What j neighbours add to a victim's slowdown, mean over the windows in which it was slowed down.

    Args:
        added: (j,) slowdown - 1, may be slightly negative.
        spread: (j,) standard deviation of each.
        surely: (j,) probability that it adds most; at most that of adding more than the strongest other one.
        by_resource: (j, r) what it adds through each resource, on the mean; sums to `added`.
        excess: mean slowdown - 1 in these windows.
        level: what of it is the victim's own, not its neighbours'.
        compared: windows in which the victim was not slowed down; they separate its own level from its neighbours'
            effect.
    """

    added: Floats
    spread: Floats
    surely: Floats
    by_resource: Floats
    excess: float
    level: float
    compared: int


def only(found: Attribution, which: NDArray[np.int64]) -> Attribution:
    """What some of the neighbours add, as it was found with all of them."""
    parts = {name: getattr(found, name)[which] for name in ("added", "spread", "surely", "by_resource")}
    return replace(found, **parts)


def attribute(excess: Floats, use: Floats, sensitivity: Floats, bad: Flags) -> Attribution:
    """Who adds how much.

    Args:
        excess: (t,) slowdown - 1 of the victim, window by window; NaN where not known.
        use: (t, j, r) what each neighbour used of each resource just before and in the window, shares of the node; 0
            where it was not there. NaN counts as 0.
        sensitivity: (r,) of the victim, slowdown - 1 per share of the node, >= 0; NaN where not known, which counts as
            UNKNOWN.
        bad: (t,) windows that are to be explained, known ones, one at least.

    Returns:
        Contributions; of no neighbours empty arrays. Their order and that of windows make no difference.

    Raises:
        AdvisorError: shapes do not fit, or no bad window is known.

    Source: regression with a Gaussian prior, Rasmussen and Williams, "Gaussian processes for machine learning", 2006,
        chapter 2; which prior is ours, docs/decisions/0042-diagnosis.md.
    """
    known = np.isfinite(excess)
    if use.shape[:1] + use.shape[2:] != excess.shape + sensitivity.shape or bad.shape != excess.shape:
        raise AdvisorError(
            f"invalid attribution input: {excess.shape} windows, use {use.shape}, {sensitivity.shape} resources"
        )
    if not (bad & known).any():
        raise AdvisorError("invalid attribution input: no window in which the victim was measured slow")
    prior, x, y = np.nan_to_num(sensitivity, nan=UNKNOWN), np.nan_to_num(use[known]), excess[known]
    fits: list[_Fit] = [
        _fitted(y, x, scale * prior, scale * np.maximum(prior, LEAST_SENSITIVITY), bad[known]) for scale in SCALES
    ]
    best = max(range(len(SCALES)), key=lambda k: fits[k].likelihood - DOUBLING * np.log2(SCALES[k]) ** 2)
    fit = fits[best]
    added = fit.by_resource.sum(axis=1)
    return Attribution(
        added=added,
        spread=np.sqrt(np.maximum(np.diag(fit.covariance), 0.0)),
        surely=_most(added, fit.covariance),
        by_resource=fit.by_resource,
        excess=float(y[bad[known]].mean()),
        level=fit.level,
        compared=int((known & ~bad).sum()),
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    """Contributions on the mean over bad windows, their (j, j) covariance, the level, and how likely all that is."""

    by_resource: Floats
    covariance: Floats
    level: float
    likelihood: float


def _fitted(y: Floats, x: Floats, prior: Floats, likely: Floats, bad: Flags) -> _Fit:
    """The posterior of weights of (t, j, r) use, which are (r,) `prior` give or take shares of `likely` before."""
    mean, together = x[bad].mean(axis=0), x.sum(axis=1)
    shared, own = np.diag((MISJUDGED * likely) ** 2), (UNTOLD * likely) ** 2
    seen = together @ shared @ together.T + np.einsum("tjr,r,sjr->ts", x, own, x)
    seen += LEVEL**2 + np.diag((NOISE * np.maximum(1.0 + y, 1.0)) ** 2)
    through = mean[:, :, None] * (shared @ together.T + own[:, None] * x.transpose(1, 2, 0))
    link, rest = through.sum(axis=1), y - together @ prior
    missing = np.linalg.solve(seen, rest)
    before = mean @ shared @ mean.T + np.diag((mean**2) @ own)
    return _Fit(
        by_resource=mean * prior + through @ missing,
        covariance=before - link @ np.linalg.solve(seen, link.T),
        level=float(LEVEL**2 * missing.sum()),
        likelihood=float(-0.5 * (rest @ missing + np.linalg.slogdet(seen)[1])),
    )


def _most(added: Floats, covariance: Floats) -> Floats:
    """(j,) bound of the probability that each adds most: the least of those of adding more than one other."""
    variance = np.diag(covariance)
    apart = np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 1e-18))
    score = (added[:, None] - added[None, :]) / apart
    np.fill_diagonal(score, np.inf)
    least = np.minimum(score.min(axis=1, initial=np.inf), added / np.sqrt(np.maximum(variance, 1e-18)))
    return np.array([0.5 * erfc(-value / 2**0.5) for value in least])
