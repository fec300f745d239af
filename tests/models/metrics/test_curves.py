"""Curves: bins by hand."""

import numpy as np
import pytest

from models.metrics.curves import FEWEST_ROWS, curve, deciles_of
from models.metrics.errors_and_ranks import resamples_of


def test_deciles_hold_equally_many_rows_in_rising_order() -> None:
    position = np.random.default_rng(0).permutation(100).astype(np.float64)

    found = deciles_of(position)

    assert np.bincount(found).tolist() == [10] * 10
    assert found[np.argsort(position)].tolist() == sorted(found)


def test_a_bin_tells_the_means_of_its_rows_and_small_ones_are_left_out() -> None:
    bins = np.repeat([0, 1, 3], [FEWEST_ROWS, FEWEST_ROWS - 1, 2 * FEWEST_ROWS])
    position, value = bins + 0.5, np.where(bins == 0, 7.0, np.arange(len(bins)) % 2)

    found = curve(position, value, bins, resamples_of(np.arange(len(bins)), np.random.default_rng(0)))

    assert found.at == (0.5, 3.5)
    assert found.rows == (FEWEST_ROWS, 2 * FEWEST_ROWS)
    assert [e.value for e in found.mean] == pytest.approx([7.0, 0.5])
    assert found.mean[0].low == found.mean[0].high == pytest.approx(7.0)
    assert found.mean[1].low < 0.5 < found.mean[1].high
