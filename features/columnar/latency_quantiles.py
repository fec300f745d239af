"""Percentiles of response times from buckets of histograms, added up over routes and processes first. Kernel."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, Ints
from features.columnar.composite_keys import joint, rising
from features.columnar.group_means import group_starts

SHARES = (0.95, 0.99)
WIDEST = 1.6
"""Where the bounds of a percentile's bucket are farther apart it is not known: 2.5, as between 0.1 s and 0.25 s, may
hide a slowdown of the same size."""
FEWEST_PER_S = 0.1
"""Of fewer requests, 30 in five minutes, a percentile says nothing."""


class Buckets(NamedTuple):
    """(n,) bounds, s, and requests a second of buckets."""

    low: Floats
    high: Floats
    rate: Floats


def latency_quantiles(group: Ints, series: pa.Array | pa.ChunkedArray, rate: Floats) -> tuple[Ints, Floats]:
    """95th and 99th percentile of response times.

    Args:
        group: (n,) code of container and minute, any order.
        series: (n,) series of `rt_bucket_s`: `high` of all requests up to there, or `low:high`, s, then perhaps `/` and
            what else distinguishes it; what does not read so is left out. Of `high` each histogram must have infinity.
        rate: (n,) requests a second; NaN where not known, and then nothing is known of the group.

    Returns:
        (g,) groups, rising, and (g, 2) percentiles, ms, by linear interpolation in the bucket; NaN where it has no
        upper bound or none below, is wider than WIDEST, or there are fewer than FEWEST_PER_S.

    Source: Prometheus, histogram_quantile().
    """
    low, high, rest = _bounds(series)
    good = ~np.isnan(high)
    group, low, high, rate, rest = group[good], low[good], high[good], rate[good], rest[good]
    if not len(group):
        return np.zeros(0, np.int64), np.zeros((0, len(SHARES)))
    upto = np.isnan(low)
    parts = [
        (group[~upto], low[~upto], high[~upto], rate[~upto]),
        _apart(group[upto], rest[upto], high[upto], rate[upto]),
    ]
    group, low, high, rate = _added(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = rising(group, _codes(high), _codes(low))
    group, low, high, rate = group[order], low[order], high[order], rate[order]
    starts = group_starts(group)
    so_far = np.cumsum(np.nan_to_num(rate))
    begun = np.repeat((so_far - np.nan_to_num(rate))[starts], np.diff(np.append(starts, len(group))))
    found = [_quantile(share, starts, so_far - begun, Buckets(low, high, rate)) for share in SHARES]
    return group[starts], 1e3 * np.stack(found, axis=1)


def _quantile(share: float, starts: Ints, so_far: Floats, of: Buckets) -> Floats:
    """(g,) one percentile of each group, s."""
    total = np.add.reduceat(of.rate, starts)
    wanted = share * total
    reached = so_far >= np.repeat(wanted, np.diff(np.append(starts, len(so_far)))) * (1 - 1e-9)
    at = np.minimum.reduceat(np.where(reached & (of.rate > 0), np.arange(len(so_far)), len(so_far) - 1), starts)
    low, high = of.low[at], of.high[at]
    with np.errstate(invalid="ignore", divide="ignore"):
        value = low + (high - low) * np.clip(1 - (so_far[at] - wanted) / of.rate[at], 0.0, 1.0)
        known = np.isfinite(high) & (high <= (1 + 1e-6) * WIDEST * low) & (total >= FEWEST_PER_S)
    return np.where(known, value, np.nan)


def _added(group: Ints, low: Floats, high: Floats, rate: Floats) -> tuple[Ints, Floats, Floats, Floats]:
    """Equal buckets of a group added up."""
    if not len(group):
        return group, low, high, rate
    key = joint([group, _codes(low), _codes(high)])
    order = rising(key)
    starts = group_starts(key[order])
    first = order[starts]
    return group[first], low[first], high[first], np.add.reduceat(rate[order], starts)


def _apart(group: Ints, rest: Ints, high: Floats, rate: Floats) -> tuple[Ints, Floats, Floats, Floats]:
    """Buckets that have all requests up to a bound as those between two bounds, histogram by histogram.

    One whose last bound is finite gets a bucket above it, of which nothing is known.
    """
    if not len(group):
        return group, high, high, rate
    order = rising(group, rest, _codes(high))
    group, rest, high, upto = group[order], rest[order], high[order], rate[order]
    first = np.append([True], (np.diff(group) != 0) | (np.diff(rest) != 0))
    low = np.where(first, 0.0, np.append([0.0], high[:-1]))
    below = np.where(first, 0.0, np.append([0.0], upto[:-1]))
    open_ = np.append(first[1:], [True]) & np.isfinite(high)
    above = np.full(open_.sum(), np.inf), np.full(open_.sum(), np.nan)
    return (
        np.append(group, group[open_]),
        np.append(low, high[open_]),
        np.append(high, above[0]),
        np.append(np.maximum(upto - below, 0.0), above[1]),
    )


def _codes(values: Floats) -> Ints:
    """(n,) codes of numbers, in their order."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _bounds(series: pa.Array | pa.ChunkedArray) -> tuple[Floats, Floats, Ints]:
    """(n,) lower bounds, NaN where there is none, upper ones, NaN where it does not read so, and codes of the rest."""
    coded = pc.dictionary_encode(series)
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    words = [(text or "").partition("/") for text in coded.dictionary.to_pylist()]
    pairs = np.array([_pair(bounds.split(":")) for bounds, _, _ in words])
    pairs = np.append(pairs.reshape(-1, 2), [[np.nan, np.nan]], axis=0)
    numbered = {rest: number for number, rest in enumerate(dict.fromkeys(rest for _, _, rest in words))}
    rests = np.array([*(numbered[rest] for _, _, rest in words), 0])
    codes = np.asarray(pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False), np.int64)
    return pairs[codes, 0], pairs[codes, 1], rests[codes]


def _pair(words: Sequence[str]) -> tuple[float, float]:
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return np.nan, np.nan
    low, high = [np.nan, *numbers][-2:]
    return (low, high) if len(numbers) <= 2 else (np.nan, np.nan)
