"""Peak features: what the past of nodes says of the largest use until a horizon. Kernel.

Use comes in bins of five minutes: the largest minute or sample in each, as a share of the node. A bin without a
measurement is NaN, never 0; statistics leave it out.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

BIN_US = 300_000_000
HOUR, DAY = 12, 288
"""Bins."""
KNOWN_SHARE = 0.5
"""Share of the bins of a stretch that must be measured before anything is said of it."""
HIGH_RANK = 15
"""The bin of a day that is as high as its 95th percentile, counted from the largest."""
NAMES = (
    "mean_24h",
    "sd_24h",
    "mean_2h",
    "sd_2h",
    "max_1h",
    "max_6h",
    "max_24h",
    "max_48h",
    "p95_24h",
    "now",
    "5_minutes_ago",
    "10_minutes_ago",
    "max_yesterday",
    "mean_yesterday",
    "pool_now",
    "pool_max_24h",
)
"""Columns of `peak_features`."""
MAX_24H = NAMES.index("max_24h")


def future_peaks(use: Floats, bins: int) -> Floats:
    """The oracle: what nodes used at most in the bins that follow each bin.

    Args:
        use: (n, t) share of the node by bin, NaN where not measured.
        bins: horizon, at least 1.

    Returns:
        (n, t) largest use of the next `bins` bins; NaN where fewer than KNOWN_SHARE of them were measured, or they are
        not over.

    Raises:
        Nothing.

    Source: Bashir et al., "Take it to the limit", EuroSys 2021 (peak oracle), of node totals.
    """
    peaks = np.full(use.shape, np.nan)
    if use.shape[1] > bins:
        ahead = sliding_window_view(use[:, 1:], bins, axis=1)
        known = np.isfinite(ahead).sum(axis=-1) >= KNOWN_SHARE * bins
        largest = _largest(use[:, 1:], bins)[:, bins - 1 :]
        peaks[:, : largest.shape[1]] = np.where(known, largest, np.nan)
    return peaks


def can_be_asked(use: Floats) -> Flags:
    """(n, t) bins at which a peak is forecast: measured, after a day of which KNOWN_SHARE was measured."""
    known = _sums(np.isfinite(use).astype(np.float64), DAY) >= KNOWN_SHARE * DAY
    known[:, : DAY - 1] = False
    return np.asarray(known & np.isfinite(use), np.bool_)


def peak_features(use: Floats, bins: int) -> Floats:
    """What is known of each node at the end of each bin.

    Args:
        use: (n, t) share of the node by bin, NaN where not measured; the nodes are one pool.
        bins: horizon, at least 1; yesterday's bins of the same time of day are two of the columns.

    Returns:
        (n, t, len(NAMES)); NaN where nothing behind a column was measured. Nothing later than a bin is in its row.

    Raises:
        Nothing.

    Source: ours, after the predictors of Bashir et al., EuroSys 2021.
    """
    mean_day, sd_day = _mean_sd(use, DAY)
    mean_short, sd_short = _mean_sd(use, 2 * HOUR)
    max_day = _largest(use, DAY)
    columns = (
        mean_day,
        sd_day,
        mean_short,
        sd_short,
        _largest(use, HOUR),
        _largest(use, 6 * HOUR),
        max_day,
        _largest(use, 2 * DAY),
        _high(use),
        use,
        _earlier(use, 1),
        _earlier(use, 2),
        _earlier(_ahead(_largest(use, bins), bins), DAY),
        _earlier(_ahead(_mean_sd(use, bins)[0], bins), DAY),
        _of_pool(use),
        _of_pool(max_day),
    )
    return np.stack(columns, axis=-1)


def _sums(values: Floats, bins: int) -> Floats:
    """(n, t) sums over the last bins."""
    total = np.cumsum(values, axis=1)
    return total - _earlier(total, bins, 0.0)


def _earlier(values: Floats, bins: int, fill: float = np.nan) -> Floats:
    """(n, t) the value so many bins before."""
    shifted = np.full(values.shape, fill)
    if bins < values.shape[1]:
        shifted[:, bins:] = values[:, : values.shape[1] - bins]
    return shifted


def _ahead(values: Floats, bins: int) -> Floats:
    """(n, t) the value so many bins after; only for what is shifted back by more, or as much."""
    shifted = np.full(values.shape, np.nan)
    if bins < values.shape[1]:
        shifted[:, : values.shape[1] - bins] = values[:, bins:]
    return shifted


def _mean_sd(use: Floats, bins: int) -> tuple[Floats, Floats]:
    """(n, t) each, over the last bins that were measured."""
    known = np.isfinite(use)
    count = _sums(known.astype(np.float64), bins)
    filled = np.where(known, use, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count > 0.5, _sums(filled, bins) / count, np.nan)
        square = _sums(filled * filled, bins) / count - mean * mean
    return mean, np.sqrt(np.maximum(square, 0.0))


def _largest(use: Floats, bins: int) -> Floats:
    """(n, t) largest over the last bins that were measured: doubling windows, each from two of half its length."""
    largest, length = np.where(np.isfinite(use), use, -np.inf), 1
    while length < bins:
        step = min(length, bins - length)
        largest, length = np.maximum(largest, _earlier(largest, step, -np.inf)), length + step
    return np.where(np.isfinite(largest), largest, np.nan)


def _high(use: Floats) -> Floats:
    """(n, t) the HIGH_RANK-th largest bin of the last day; NaN where fewer were measured."""
    return high_of_day(use, HIGH_RANK)


def high_of_day(use: Floats, rank: int) -> Floats:
    """(n, t) the so-many-th largest bin of the last day of each row; NaN where fewer were measured."""
    padded = np.concatenate([np.full((len(use), DAY - 1), -np.inf), np.where(np.isfinite(use), use, -np.inf)], axis=1)
    found = np.empty(use.shape)
    for node, row in enumerate(padded):  # one node at a time: a day of each bin is held
        days = sliding_window_view(row, DAY)
        found[node] = np.partition(days, DAY - rank, axis=1)[:, DAY - rank]
    return np.where(np.isfinite(found), found, np.nan)


def _of_pool(values: Floats) -> Floats:
    """(n, t) mean over the nodes that were measured, the same for all."""
    known = np.isfinite(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count > 0, total / count, np.nan)
    return np.broadcast_to(mean, values.shape)
