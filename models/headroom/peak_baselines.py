"""Peak baselines: how other systems foresee the largest use of a node, from node totals. Kernel."""

import numpy as np
from numpy.typing import NDArray

from models.headroom.peak_features import HOUR, NAMES, high_of_day

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

BATCH_MARGIN = 0.4
"""Koordinator's default: capacity times (100 - cpuReclaimThresholdPercent of 60)."""
HALF_LIFE = 12 * HOUR
"""Of the histogram of Koordinator's prediction of CPU."""
SAFETY = 1.1
"""Its safety margin."""


def n_sigma(features: Floats, times: float, hours: int) -> Floats:
    """(n, t) mean + N standard deviations of the last 2 or 24 hours. Source: Bashir et al., EuroSys 2021."""
    mean, sd = (features[:, :, NAMES.index(f"{name}_{hours}h")] for name in ("mean", "sd"))
    return np.asarray(mean + times * sd)


def tuned_n(features: Floats, outcome: Floats, usable: Flags, hours: int, risk: float) -> float:
    """The N that as many of the usable outcomes stay below as promised.

    Raises:
        ValueError: no outcome is usable.
    """
    mean = n_sigma(features, 0.0, hours)
    with np.errstate(invalid="ignore", divide="ignore"):
        times = (outcome - mean) / (n_sigma(features, 1.0, hours) - mean)
    known = times[usable & np.isfinite(times)]
    if not len(known):
        msg = "no outcome is usable, so that no N can be chosen: give more days"
        raise ValueError(msg)
    return float(np.quantile(known, 1 - risk))


def rc_like(parts: Floats, rank: int, sigma: Floats) -> Floats:
    """Borg's RC-like predictor: the sum of percentiles of what is on a node, and N-sigma where that is more.

    Args:
        parts: (n, parts, t) use of each resident as a share of the node.
        rank: of the bin of each one's last day that is taken, 3 for the 99th percentile, 15 for the 95th.
        sigma: (n, t) N-sigma of the node.

    Returns:
        (n, t) share of the node; residents that were measured in fewer bins than `rank` count as 0.

    Raises:
        Nothing.

    Source: Bashir et al., EuroSys 2021.
    """
    total = [np.nan_to_num(high_of_day(node, rank)).sum(axis=0) for node in parts]
    return np.asarray(np.fmax(np.array(total), sigma))


def peak_of_sums(parts: Floats) -> Floats:
    """(n, t) the sum of each resident's largest use of the last day; see rc_like."""
    return np.array([np.nan_to_num(high_of_day(node, 1)).sum(axis=0) for node in parts])


def largest_of_day(features: Floats) -> Floats:
    """(n, t) the largest use of the last 24 hours."""
    return np.asarray(features[:, :, NAMES.index("max_24h")])


def batch_usage(features: Floats) -> Floats:
    """(n, t) use now and the margin of Koordinator's batch tier, policy `usage`."""
    return np.asarray(features[:, :, NAMES.index("now")] + BATCH_MARGIN)


def decayed_p95(use: Floats) -> Floats:
    """(n, t) 1.1 times the 95th percentile of use, weights halved every 12 hours, as Koordinator predicts of a node."""
    found = np.full(use.shape, np.nan)
    edges = np.linspace(0.0, 1.0, 201)
    at = np.clip(np.searchsorted(edges, np.nan_to_num(use), side="left"), 0, len(edges) - 1)
    weight, known = np.zeros((len(use), len(edges))), np.isfinite(use)
    rows, keep = np.arange(len(use)), 0.5 ** (1 / HALF_LIFE)
    for now in range(use.shape[1]):
        weight *= keep
        weight[rows, at[:, now]] += known[:, now]
        total = weight.cumsum(axis=1)
        reached = (total >= 0.95 * total[:, -1:]).argmax(axis=1)
        found[:, now] = np.where(total[:, -1] > 0, SAFETY * edges[reached], np.nan)
    return found


def same_window_yesterday(features: Floats) -> Floats:
    """(n, t) the peak of the same stretch of the day before."""
    return np.asarray(features[:, :, NAMES.index("max_yesterday")])
