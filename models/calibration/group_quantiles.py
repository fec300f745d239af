"""Grouped: residuals of groups: quantiles within each and over them, and how many windows they are worth. Kernel."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats.mstats import hdquantiles

from models.calibration.conformal import conformal_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

STEP_US = 450_000_000
"""Windows of a container further apart than one and a half labels are not neighbours in time."""
FEW_GROUPS = 12
"""From this number on, quantiles over groups are estimated from the groups alone."""


def group_quantiles(scores: Floats, group: Ints, share: float) -> tuple[NDArray[np.int64], Floats]:
    """Groups, (a,) sorted, and the conformal quantile of each one's (n,) scores at that share, (a,)."""
    order = np.argsort(group, kind="stable")
    names, starts = np.unique(group[order], return_index=True)
    parts = np.split(scores[order], starts[1:])
    return names.astype(np.int64), np.array([conformal_quantile(part, share) for part in parts])


def quantile_over_groups(needed: Floats, level: float) -> float:
    """What a further group will need no more of, with a probability of about the level.

    Args:
        needed: (a,) what each group needed, a >= 1, unitless.
        level: in (0.5, 1).

    Returns:
        The Harrell-Davis quantile at level (a + 1/3) / a: between two order statistics, one or the other group decides;
        here all near it do. Of fewer than FEW_GROUPS no less than the prediction bound for one more value of a normal
        distribution.

    Raises:
        ValueError: there are no groups, or what one needed is not finite.

    Source: Harrell and Davis, Biometrika 1982; the third is ours, docs/decisions/0033-smooth-margins.md; prediction
    bound, Hahn and Meeker, "Statistical Intervals", 1991.
    """
    count = len(needed)
    if not count:
        msg = "no group to learn a margin from"
        raise ValueError(msg)
    if not np.isfinite(needed).all():
        msg = "what a group needed is not finite: no margin covers that"
        raise ValueError(msg)
    if count == 1:
        return float(needed.max())
    near = float(hdquantiles(needed, prob=[min(level * (count + 1 / 3) / count, 1.0)])[0])
    if count >= FEW_GROUPS:
        return near
    beyond = stdtrit(count - 1, level) * needed.std(ddof=1) * np.sqrt(1 + 1 / count)
    return max(near, float(needed.mean() + beyond))


def effective_windows(scores: Floats, group: Ints, series: Ints, time: NDArray[np.int64]) -> Floats:
    """How many independent windows each group's rows are worth.

    Args:
        scores: (n,) finite; for the error of a quantile, 1.0 where it is exceeded and 0.0 elsewhere.
        group: (n,) app.
        series: (n,) container and node: what is near in time is alike within one.
        time: (n,) end of each window, microseconds.

    Returns:
        (a,) for each group in sorted order n (1 - r) / (1 + r), where r is the lag-1 autocorrelation within series
        about the group's mean; the larger of the group's own and that of all groups together, so that a short series
        that looks calm by chance earns nothing.

    Raises:
        ValueError: there are no rows.

    Source: Bayley and Hammersley, JRSS Supplement 1946; that a quantile's error follows the autocorrelation of what
    exceeds it: Heidelberger and Lewis, Operations Research 1984.
    """
    names, place, count = np.unique(group, return_inverse=True, return_counts=True)
    apart = scores - (np.bincount(place, scores) / count)[place]
    order = np.lexsort((time, series))
    before, after = order[:-1], order[1:]
    near = (series[before] == series[after]) & (time[after] - time[before] < STEP_US) & (place[before] == place[after])
    before, after = before[near], after[near]
    along = np.bincount(place[before], apart[before] * apart[after], minlength=len(names))
    size = np.bincount(place[before], (apart[before] ** 2 + apart[after] ** 2) / 2, minlength=len(names))
    alike = np.divide(along, size, out=np.zeros(len(names)), where=size > 0)
    overall = float(along.sum() / size.sum()) if size.sum() > 0 else 0.0
    r = np.clip(np.maximum(alike, overall), 0.0, 0.99)
    return np.asarray(count * (1 - r) / (1 + r), np.float64)
