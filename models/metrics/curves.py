"""Curves: how an error or a slowdown changes along something, bin by bin, with intervals. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.metrics.errors_and_ranks import Estimate, Resamples

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

FEWEST_ROWS = 20
"""Bins with fewer rows are left out."""


@dataclass(frozen=True)
class Curve:
    """Bins in rising order, (b,) each: the mean position of their rows, the mean value, and how many there are."""

    at: tuple[float, ...]
    mean: tuple[Estimate, ...]
    rows: tuple[int, ...]


def deciles_of(position: Floats, count: int = 10) -> Ints:
    """(n,) which of `count` bins of equally many rows each finite position falls into, 0 the lowest."""
    return np.searchsorted(np.quantile(position, np.arange(1, count) / count), position, side="right")


def curve(position: Floats, value: Floats, bin_of: Ints, again: Resamples) -> Curve:
    """Mean value in each bin.

    Args:
        position: (n,) finite.
        value: (n,) finite.
        bin_of: (n,) bin of each row, 0 the lowest.
        again: resamples of the rows.

    Returns:
        The bins with at least FEWEST_ROWS rows.

    Raises:
        Nothing.

    Source: binned means, intervals by cluster bootstrap (Cameron et al., REStat 2008).
    """
    bins = [k for k, size in enumerate(np.bincount(bin_of)) if size >= FEWEST_ROWS]
    flags = [(bin_of == k).astype(np.float64) for k in bins]
    return Curve(
        at=tuple(float(position[bin_of == k].mean()) for k in bins),
        mean=tuple(again.ratio(value * flag, flag) for flag in flags),
        rows=tuple(int(flag.sum()) for flag in flags),
    )
