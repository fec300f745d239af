"""Grouped means over sorted rows. Kernel."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Floats, Ints
from features.columnar.asof_join import key_codes

LONGEST = 8
"""Rows of a run, beyond which numpy adds in another order than one after the other."""


def group_codes(rows: pa.Table, columns: list[str]) -> Ints:
    """(n,) codes 0..g-1, equal for rows equal in all columns."""
    return key_codes(rows, rows.slice(0, 0), columns)[0]


def group_starts(code: Ints) -> Ints:
    """(g,) first row of each run of equal codes; rows of a group must stand together."""
    return np.flatnonzero(np.diff(code, prepend=-1))


@dataclass(frozen=True)
class Runs:
    """Sums and largest values of runs of sorted rows, of one column after the other.

    Short runs are taken row by row of all runs at once, which is many times quicker than one run after the other; the
    numbers are those of ufunc.reduceat, to the bit.

    Args:
        starts: (g,) first row of each run.
        count: how many rows there are.
    """

    starts: Ints
    count: int

    @cached_property
    def _later(self) -> tuple[tuple[Ints | slice, Ints | slice], ...] | None:
        """For the second row of each run, the third and so on: which runs have one, and where; None for long runs."""
        size = np.diff(np.append(self.starts, self.count))
        if not len(size) or size.max() > LONGEST:
            return None
        if size.min() == size.max():
            return tuple((slice(None), slice(i, None, int(size[0]))) for i in range(1, int(size[0])))
        having = [np.flatnonzero(size > i) for i in range(1, int(size.max()))]
        return tuple((runs, self.starts[runs] + i) for i, runs in enumerate(having, 1))

    def added(self, values: Floats) -> Floats:
        """(g,) sum of (n,) values in each run."""
        if self._later is None:
            return np.add.reduceat(values, self.starts)
        rest = np.zeros(len(self.starts))
        for runs, rows in self._later:
            rest[runs] += values[rows]
        return values[self.starts] + rest

    def largest(self, values: Floats) -> Floats:
        """(g,) largest of (n,) values in each run; NaN is left out."""
        if self._later is None:
            return np.fmax.reduceat(values, self.starts)
        top = values[self.starts]
        for runs, rows in self._later:
            top[runs] = np.fmax(top[runs], values[rows])
        return top


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
    def runs(self) -> Runs:
        """The groups as runs of rows."""
        return Runs(self.starts, len(self.weight))

    @cached_property
    def _whole(self) -> Floats:
        """(g,) weight of each group, where all values are known."""
        return self.runs.added(self.weight)

    def __call__(self, values: Floats) -> Floats:
        """(g,) mean of (n,) values in each group. NaN values are left out; the mean of a group without a value is NaN.

        Source: the definition of a weighted mean.
        """
        known = np.isfinite(values)
        if known.all():
            whole: Floats = self.runs.added(values * self.weight) / self._whole
            return whole
        if not known.any():
            return np.full(len(self.starts), np.nan)
        total = self.runs.added(np.where(known, values * self.weight, 0.0))
        support = self.runs.added(np.where(known, self.weight, 0.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Floats = total / support
        return mean


def group_means(values: Floats, weight: Floats, starts: Ints) -> Floats:
    """(g,) weighted means of (n,) values of one column; see GroupMeans."""
    return GroupMeans(weight, starts)(values)
