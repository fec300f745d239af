"""Grouped means over sorted rows. Kernel."""

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Floats, Ints
from features.columnar.asof_join import key_codes


def group_codes(rows: pa.Table, columns: list[str]) -> Ints:
    """(n,) codes 0..g-1, equal for rows equal in all columns."""
    return key_codes(rows, rows.slice(0, 0), columns)[0]


def group_starts(code: Ints) -> Ints:
    """(g,) first row of each run of equal codes; rows of a group must stand together."""
    return np.flatnonzero(np.diff(code, prepend=-1))


def group_means(values: Floats, weight: Floats, starts: Ints) -> Floats:
    """Weighted mean of each group.

    Args:
        values: (n,) or (n, k) values; NaN is left out.
        weight: (n,) weights > 0.
        starts: (g,) first row of each group.

    Returns:
        (g,) or (g, k) means; NaN where a group has no value.

    Source: the definition of a weighted mean.
    """
    by_row = weight if values.ndim == 1 else weight[:, None]
    known = np.isfinite(values)
    if not known.any():
        return np.full((len(starts), *values.shape[1:]), np.nan)
    total = np.add.reduceat(np.where(known, values * by_row, 0.0), starts)
    support = np.add.reduceat(np.where(known, by_row, 0.0), starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: Floats = total / support
    return mean
