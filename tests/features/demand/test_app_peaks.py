"""App peaks: what containers of an app rarely exceed, from any number of tables; too little is not known."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.demand.app_peaks import FEWEST, RATIO, AppPeaks


def added(*parts: tuple[Sequence[str | None], Sequence[float | None], float]) -> AppPeaks:
    peaks = AppPeaks()
    for app, share, whole in parts:
        columns = (pa.chunked_array([app], pa.string()), pa.chunked_array([share], pa.float64()))
        peaks.add(*columns, np.full(len(app), whole))
    return peaks


def test_a_peak_is_a_size_just_above_the_99th_percentile_in_absolute_units() -> None:
    shares = np.linspace(0.001, 1.0, 2000)

    found = added((["web"] * 2000, shares.tolist(), 16.0)).of(pa.array(["web"]))[0]

    assert 0.99 * 16 <= found <= 0.99 * 16 * RATIO**2


def test_nodes_of_different_size_count_together_and_tables_add_up() -> None:
    small, large = (["web"] * FEWEST, [0.5] * FEWEST, 8.0), (["web"] * FEWEST, [0.25] * FEWEST, 64.0)

    assert added(small, large).of(pa.array(["web"]))[0] == added(large, small).of(pa.array(["web"]))[0]
    assert 16 <= added(small, large).of(pa.array(["web"]))[0] <= 16 * RATIO


def test_an_app_of_which_too_little_was_measured_is_not_known() -> None:
    few = added(([*["web"] * (FEWEST - 1), None, "web"], [*[0.5] * FEWEST, None], 8.0))

    assert np.isnan(few.of(pa.array(["web", "other", None], pa.string()))).all()


@given(st.lists(st.floats(0.01, 1.0), min_size=5, max_size=20))
def test_at_most_one_minute_in_a_hundred_lies_above_it(shares: list[float]) -> None:
    many = shares * (FEWEST // len(shares) + 1)

    found = added((["web"] * len(many), many, 10.0)).of(pa.array(["web"]))[0]

    assert (np.array(many) * 10.0 > found * (1 + 1e-9)).mean() <= 0.01


@pytest.mark.parametrize("share", [0.0, -1.0, float("nan")])
def test_what_is_no_use_is_left_out(share: float) -> None:
    assert np.isnan(added((["web"] * FEWEST, [share] * FEWEST, 8.0)).of(pa.array(["web"]))).all()
