"""Runs of rows: short ones are added up row by row of all runs, and give the same numbers to the bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from features.columnar.group_means import LONGEST, Runs

VALUES = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(st.lists(VALUES, min_size=1, max_size=LONGEST + 1), min_size=1, max_size=20))
def test_sums_and_largest_values_are_numpys_to_the_bit(groups: list[list[float]]) -> None:
    values = np.array([value for group in groups for value in group])
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    runs = Runs(starts, len(values))

    with np.errstate(all="ignore"):
        added, top = runs.added(values), runs.largest(values)
        wanted = np.add.reduceat(values, starts), np.fmax.reduceat(values, starts)

    assert np.array_equal(added, wanted[0], equal_nan=True)
    assert np.array_equal(top, wanted[1], equal_nan=True)


@given(st.integers(1, LONGEST), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_runs_of_one_length_too(length: int, count: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=length * count) * 10.0 ** np.arange(length * count) ** 0.5
    starts = np.arange(0, len(values), length)

    assert np.array_equal(Runs(starts, len(values)).added(values), np.add.reduceat(values, starts))
    assert np.array_equal(Runs(starts, len(values)).largest(values), np.fmax.reduceat(values, starts))


def test_no_rows_have_no_runs() -> None:
    none = np.zeros(0)

    assert not len(Runs(np.zeros(0, np.int64), 0).added(none))
