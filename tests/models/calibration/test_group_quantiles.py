"""Grouped: quantiles that further groups keep to, and windows that count once however often they are repeated."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.calibration.conformal import conformal_quantile
from models.calibration.group_quantiles import FEW_GROUPS, effective_windows, group_quantiles, quantile_over_groups

Floats = NDArray[np.float64]
WINDOW_US = 300_000_000


def walks(along: float, series: int, length: int, seed: int) -> Floats:
    """(series, length) normal values, each a share `along` of the one before."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(series, length))
    steps[:, 1:] *= np.sqrt(1 - along**2)
    for i in range(1, length):
        steps[:, i] += along * steps[:, i - 1]
    return steps


def worth(values: Floats, group: NDArray[np.int64] | None = None) -> Floats:
    series, length = values.shape
    return effective_windows(
        values.ravel(),
        np.zeros(values.size, np.int64) if group is None else np.repeat(group, length),
        np.repeat(np.arange(series), length),
        np.tile(np.arange(length) * WINDOW_US, series),
    )


@pytest.mark.parametrize("along", [0.0, 0.5, 0.8])
def test_windows_that_go_along_with_the_one_before_count_for_less(along: float) -> None:
    found = worth(walks(along, series=40, length=100, seed=1))

    assert found[0] == pytest.approx(4000 * (1 - along) / (1 + along), rel=0.15)


def test_a_mean_errs_as_if_it_had_so_many_independent_windows() -> None:
    means = [walks(0.7, series=5, length=200, seed=seed).mean() for seed in range(300)]

    assert np.mean([worth(walks(0.7, 5, 200, seed))[0] for seed in range(20)]) == pytest.approx(
        1 / np.var(means), rel=0.25
    )


def test_a_short_series_that_looks_calm_by_chance_earns_nothing() -> None:
    """The second group is a coin thrown anew each time, but all others go along with the one before."""
    values = np.concatenate([walks(0.8, 40, 100, seed=2), walks(0.0, 1, 100, seed=3)])

    found = worth(values, np.append(np.zeros(40, np.int64), 1))

    assert found[1] < 20


def test_a_pause_and_another_container_are_no_neighbours_in_time() -> None:
    values, group = np.array([1.0, 1.0, -1.0, -1.0]), np.zeros(4, np.int64)
    apart = np.arange(4) * 10 * WINDOW_US

    assert effective_windows(values, group, np.zeros(4, np.int64), apart).tolist() == [4.0]
    assert effective_windows(values, group, np.arange(4), np.arange(4) * WINDOW_US).tolist() == [4.0]


@given(st.permutations(range(12)))
def test_the_order_of_rows_does_not_matter(order: list[int]) -> None:
    values = walks(0.5, 3, 4, seed=5).ravel()
    group, series, time = np.arange(12) // 8, np.arange(12) // 4, np.arange(12) % 4 * WINDOW_US

    straight = effective_windows(values, group, series, time)

    assert effective_windows(values[order], group[order], series[order], time[order]) == pytest.approx(straight)


def test_quantiles_are_those_of_each_group_alone() -> None:
    rng = np.random.default_rng(0)
    scores, group = rng.normal(size=90), rng.integers(0, 3, 90)

    names, found = group_quantiles(scores, group, 0.8)

    assert found.tolist() == [conformal_quantile(scores[group == name], 0.8) for name in names]


SHAPES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "skewed": lambda rng, size: rng.exponential(size=size),
    "a few sensitive": lambda rng, size: np.where(rng.random(size) < 0.15, rng.uniform(2, 5, size), rng.random(size)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("groups", [5, 11, 12, 20, 100])
def test_about_nine_in_ten_further_groups_need_no_more(groups: int, shape: str) -> None:
    """Not one draw a margin: the share of many draws below each, which is told more exactly by fewer margins."""
    rng = np.random.default_rng(groups)
    further = np.sort(SHAPES[shape](rng, 50_000))

    margins = [quantile_over_groups(SHAPES[shape](rng, groups), 0.9) for _ in range(600)]

    least = 0.84 if groups < FEW_GROUPS else 0.885
    assert least <= np.mean(np.searchsorted(further, margins)) / len(further) <= 0.925


def test_margins_of_one_group_more_or_less_are_steadier_than_an_order_statistic() -> None:
    rng = np.random.default_rng(5)
    drawn = SHAPES["a few sensitive"](rng, 14 * 500).reshape(500, 14)

    ours = [quantile_over_groups(one, 0.9) for one in drawn]
    order = [float(np.interp(15 * 0.9, np.arange(1, 15), np.sort(one))) for one in drawn]

    assert np.std(ours) < np.std(order)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 3)), min_size=12, max_size=40))
def test_a_group_that_needs_more_never_lowers_the_margin(needed: list[tuple[float, float]]) -> None:
    known, more = np.array(needed).T

    assert quantile_over_groups(known + more, 0.9) >= quantile_over_groups(known, 0.9) - 1e-9


def test_one_odd_group_does_not_set_the_bound_alone() -> None:
    needed = np.append(np.linspace(0.5, 1.5, 13), 8.0)

    assert 1.5 < quantile_over_groups(needed, 0.9) < 8.0


def test_a_single_group_is_all_there_is_and_none_is_an_error() -> None:
    assert quantile_over_groups(np.array([2.0]), 0.9) == 2.0
    with pytest.raises(ValueError, match="no group"):
        quantile_over_groups(np.zeros(0), 0.9)


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_a_need_that_is_not_finite_is_an_error_and_never_a_margin_of_nothing(odd: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        quantile_over_groups(np.append(np.ones(12), odd), 0.9)
