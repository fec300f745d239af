"""Request rules: what others recommend from the same use, by VPA's histogram and by a plain percentile. Kernel."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FIRST_CORES, GROWTH, BUCKETS = 0.01, 1.05, 176
"""VPA's buckets: of 0.01 cores, each 5 % wider than the one below it, up to 1,000 cores."""
FIRST_BYTES = 1e7
HALF_LIFE_S = 86_400.0
TARGET, MARGIN = 0.9, 0.15
MIN_CORES, MIN_BYTES = 0.025, 250 * 2.0**20


def vpa_cores(cores: Floats, time_s: Floats) -> float:
    """Target of CPU of the Vertical Pod Autoscaler.

    Args:
        cores: (n,) CPU use, n >= 1.
        time_s: (n,) of each.

    Returns:
        The end of the bucket that holds P90 of use by a weight that halves in 24 h, plus 15 %, at least 25 millicores.

    Source: kubernetes/autoscaler, vertical-pod-autoscaler/pkg/recommender: histogram options, estimator and logic.
    """
    return max(_percentile(cores, time_s, FIRST_CORES) * (1.0 + MARGIN), MIN_CORES)


def vpa_bytes(used: Floats, time_s: Floats) -> float:
    """The same of memory: P90 of the largest use of each 24 h, at least 250 MiB."""
    day = (time_s // HALF_LIFE_S).astype(np.int64)
    days = np.unique(day).astype(np.float64)
    peaks = np.array([used[day == one].max() for one in days])
    return max(_percentile(peaks, days * HALF_LIFE_S, FIRST_BYTES) * (1.0 + MARGIN), MIN_BYTES)


def percentile_98(values: Floats) -> float:
    """P98 of all use in the days looked at, which are 8 at most."""
    return float(np.quantile(values, 0.98))


def _percentile(values: Floats, time_s: Floats, first: float) -> float:
    """The end of the bucket that holds the P90."""
    edges = first * (GROWTH ** np.arange(BUCKETS + 1) - 1.0) / (GROWTH - 1.0)
    bucket = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, BUCKETS - 1)
    weight = np.bincount(bucket, 2.0 ** ((time_s - time_s.max()) / HALF_LIFE_S), minlength=BUCKETS).cumsum()
    return float(edges[int(np.searchsorted(weight, TARGET * weight[-1])) + 1])
