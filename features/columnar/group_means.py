"""Grouped means over sorted rows. Kernel."""

from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True)
class GroupMeans:
    """Weighted means of the groups of sorted rows, of one column after the other.

    Args:
        weight: (n,) weights > 0.
        starts: (g,) first row of each group.
    """

    weight: Floats
    starts: Ints

    @cached_property
    def _whole(self) -> Floats:
        """(g,) weight of each group, where all values are known."""
        return np.add.reduceat(self.weight, self.starts)

    def __call__(self, values: Floats) -> Floats:
        """(g,) mean of (n,) values in each group. NaN values are left out; the mean of a group without a value is NaN.

        Source: the definition of a weighted mean.
        """
        known = np.isfinite(values)
        if known.all():
            whole: Floats = np.add.reduceat(values * self.weight, self.starts) / self._whole
            return whole
        if not known.any():
            return np.full(len(self.starts), np.nan)
        total = np.add.reduceat(np.where(known, values * self.weight, 0.0), self.starts)
        support = np.add.reduceat(np.where(known, self.weight, 0.0), self.starts)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Floats = total / support
        return mean


def group_means(values: Floats, weight: Floats, starts: Ints) -> Floats:
    """(g,) weighted means of (n,) values of one column; see GroupMeans."""
    return GroupMeans(weight, starts)(values)
