"""Utilisation: the baseline of an app that reports no load, by how hard its container works itself. Kernel."""

import numpy as np
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats
from features.labels.baseline import MAX_BINS, MIN_BIN, Curve, middle
from features.schema.errors import refuse_other_lengths

CONSISTENT = 1.4826
"""Standard deviation over the median absolute deviation, of normal noise."""
MEDIAN_COST = np.pi / 2.0
"""Variance of a median over that of a mean, of normal noise."""
ALIKE = 4.0
"""Windows of a container go along with the ones before: so many count as one."""


def fit_use(use: Floats, value: Floats, whole: float) -> Curve:
    """Normal of a signal against own use, from calm rows, by bins that are drawn to the whole.

    Args:
        use: (n,) CPU of the container itself, cores; NaN where it was not measured.
        value: (n,) signal > 0; NaN where it was not measured.
        whole: the signal's normal over all use, > 0.

    Returns:
        A curve through the medians of log signal in equal-count bins of use, each drawn to the whole by how much of its
        distance is noise, and level beyond the outermost; with too few rows for two bins, the whole alone.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/decisions/0025-contrast.md; bins of utilisation as in Intel's workload-collocation-agent, the
    weights are those of a random-effects mean (DerSimonian and Laird, 1986).
    """
    refuse_other_lengths(use=use, value=value)
    known = np.flatnonzero(np.isfinite(use) & np.isfinite(value))
    count = min(MAX_BINS, len(known) // MIN_BIN)
    if count < 2:
        return Curve(np.zeros(0), np.array([whole]), -np.inf, np.inf)
    bins = np.array_split(known[np.argsort(use[known], kind="stable")], count)
    logs = [np.log(value[rows]) for rows in bins]
    apart = np.array([middle(log) for log in logs]) - np.log(whole)
    knots = np.array([middle(use[rows]) for rows in bins])
    return Curve(knots, whole * np.exp(trust(logs, apart) * apart), -np.inf, np.inf)


def normal_by_use(curve: Curve, use: Floats, whole: float) -> Floats:
    """(n,) the curve's value at each use of (n,), cores; the whole's where use is missing."""
    if not len(curve.load):
        return np.full(len(use), whole)
    known: NDArray[np.bool_] = np.isfinite(use)
    return np.where(known, np.interp(np.where(known, use, 0.0), curve.load, curve.value), whole)


def trust(logs: list[Floats], apart: Floats) -> Floats:
    """Weight of each bin's own estimate compared with the whole's.

    Args:
        logs: log signals of the rows of each bin, none empty and none missing.
        apart: (bins,) distance of each bin's median from the whole's, in log.

    Returns:
        (bins,) shares from 0 to 1: variance between bins over that and the noise of a bin; they rise with rows.

    Source: DerSimonian and Laird, 1986; noise from absolute deviations, since a signal has long tails.
    """
    spread = [CONSISTENT * middle(np.abs(log - middle(log))) for log in logs]
    noise = MEDIAN_COST * ALIKE * np.square(spread).mean() / np.array([len(log) for log in logs])
    between = max(0.0, float((apart**2).mean() - noise.mean()))
    return between / (between + noise) if between > 0 else np.zeros(len(logs))
