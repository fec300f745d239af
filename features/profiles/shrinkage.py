"""Moments: means of groups within a whole, drawn towards the whole's by how little groups differ. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums of values of one whole and of one of its groups, (n, k) each.

    Args:
        count: values of the whole, grouped or not.
        total: their sum.
        grouped: values that are in a group.
        sum: of those.
        squares: of those, the sum of their squares.
        between: over groups the sum of total^2 / count.
        crowd: over groups the sum of count^2.
        groups: how many there are.
        own_count: values of the one group.
        own_total: their sum.
    """

    count: Floats
    total: Floats
    grouped: Floats
    sum: Floats
    squares: Floats
    between: Floats
    crowd: Floats
    groups: Floats
    own_count: Floats
    own_total: Floats

    def without(self, values: Floats, inside: NDArray[np.bool_]) -> "Moments":
        """The same without (n, k) values, NaN for none; (n,) whether they are in the group or in none."""
        gone = np.isfinite(values).astype(np.float64)
        value = np.where(gone > 0, values, 0.0)
        gone_here, value_here = gone * inside[:, None], value * inside[:, None]
        own_count, own_total = self.own_count - gone_here, self.own_total - value_here
        return Moments(
            count=self.count - gone,
            total=self.total - value,
            grouped=self.grouped - gone_here,
            sum=self.sum - value_here,
            squares=self.squares - value_here**2,
            between=self.between - _over(self.own_total**2, self.own_count) + _over(own_total**2, own_count),
            crowd=self.crowd - self.own_count**2 + own_count**2,
            groups=self.groups - ((gone_here > 0) & (own_count == 0)),
            own_count=own_count,
            own_total=own_total,
        )

    def weight(self, *, untold: float) -> Floats:
        """Weight of the group's own mean compared with the whole's.

        Args:
            untold: where no two groups are known, or no group has two values.

        Returns:
            (n, k) in [0, 1]: variance between groups over that and the variance of the group's mean. 0 for an empty
            group.

        Raises:
            Nothing.

        Source: variance components of unbalanced groups by the method of moments, never below 0: Searle, Casella and
        McCulloch, "Variance Components", 1992, chapter 3; the weight is that of Efron and Morris, JASA 1973.
        """
        across_df, inside = self.groups - 1, self.grouped - self.groups
        usable = (across_df > 0) & (inside > 0)
        within = _over(np.maximum(self.squares - self.between, 0.0), inside)
        across = _over(self.between - _over(self.sum**2, self.grouped), across_df)
        size = _over(self.grouped - _over(self.crowd, self.grouped), across_df)
        variance = np.maximum(_over(across - within, size), 0.0)
        weight = _over(variance, variance + _over(within, self.own_count))
        return np.where(self.own_count > 0, np.where(usable, weight, untold), 0.0)

    def mean(self) -> Floats:
        """(n, k) of the whole, NaN where nothing is known of it."""
        return np.where(self.count > 0, _over(self.total, self.count), np.nan)

    def own_mean(self) -> Floats:
        """(n, k) of the group, 0 where it is empty."""
        return _over(self.own_total, self.own_count)


@dataclass(frozen=True, slots=True)
class Nested:
    """Sums of values in groups within wholes, by whole (w, k) and by group (g, k); see Moments."""

    whole: dict[str, Floats]
    own_count: Floats
    own_total: Floats

    def at(self, whole: Ints, group: Ints) -> Moments:
        """The moments of (n,) wholes and one group of each, a negative one being empty."""
        empty = (group < 0)[:, None]
        return Moments(
            **{name: sums[whole] for name, sums in self.whole.items()},
            own_count=np.where(empty, 0.0, self.own_count[group]),
            own_total=np.where(empty, 0.0, self.own_total[group]),
        )


def nested(values: Floats, whole: Ints, group: Ints, *, wholes: int, groups: int) -> Nested:
    """Add values up by whole and by group.

    Args:
        values: (n, k), NaN is left out. Each sum adds them in the order of the rows.
        whole: (n,) 0..wholes-1.
        group: (n,) 0..groups-1, each within one whole; -1 for a value in no group.
        wholes: how many there are.
        groups: how many there are.

    Returns:
        The sums.

    Raises:
        Nothing.

    Source: ours.
    """
    count, total = sums(np.isfinite(values), whole, wholes), sums(values, whole, wholes)
    inside = group >= 0
    some, of, code = values[inside], whole[inside], group[inside]
    own_count, own_total = sums(np.isfinite(some), code, groups), sums(some, code, groups)
    whole_of = np.zeros(groups, np.int64)
    whole_of[code] = of
    by_whole = {
        "count": count,
        "total": total,
        "grouped": sums(np.isfinite(some), of, wholes),
        "sum": sums(some, of, wholes),
        "squares": sums(some**2, of, wholes),
        "between": sums(_over(own_total**2, own_count), whole_of, wholes),
        "crowd": sums(own_count**2, whole_of, wholes),
        "groups": sums(own_count > 0, whole_of, wholes),
    }
    return Nested(by_whole, own_count, own_total)


def sums(values: Floats | NDArray[np.bool_], code: Ints, size: int) -> Floats:
    """(size, k) sums of the known of (n, k) values by (n,) code; one after the other, so that zeros change no bit."""
    known = np.nan_to_num(values, nan=0.0).astype(np.float64)
    columns = [np.bincount(code, column, size) for column in known.T]
    return np.stack(columns, axis=1) if columns else np.zeros((size, 0))


def _over(above: Floats, below: Floats) -> Floats:
    """The quotient, 0 where nothing stands below."""
    return np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=below > 0)
