"""Evaluate: metrics by hand, intervals that widen with dependence, splits that do not leak."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models.data.dataset import Dataset
from models.data.splits import leave_group_out, time_forward
from models.errors import InconsistentDataset
from models.metrics.baselines import fit_constant, fit_group_mean, fit_ridge, fit_sum_of_pressure
from models.metrics.errors_and_ranks import coverage, evaluate, spearman

Draw = Callable[..., Dataset]


def test_metrics_are_what_one_computes_by_hand() -> None:
    truth = np.log([1.0, 2.0, 1.0, 2.0])
    predicted = np.log([1.1, 2.0, 1.0, 1.0])

    ours = evaluate(truth, {"ours": predicted}, np.arange(4), rng=np.random.default_rng(0))["ours"]

    assert ours["mape_ratio"].value == pytest.approx((0.1 + 0.5) / 4)
    assert ours["mae_log"].value == pytest.approx((np.log(1.1) + np.log(2.0)) / 4)
    assert ours["mae_log"].low < ours["mae_log"].value < ours["mae_log"].high


def test_coverage_counts_rows_at_or_below_the_bound() -> None:
    found = coverage(np.array([0.1, 0.2, 0.3, 0.4]), np.full(4, 0.3), np.arange(4), rng=np.random.default_rng(0))

    assert found.value == 0.75


def test_rows_of_one_cluster_count_as_one_observation() -> None:
    rng = np.random.default_rng(0)
    by_cluster = np.repeat(rng.normal(size=20), 50)

    def width(cluster: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        found = evaluate(np.zeros(1000), {"m": by_cluster}, cluster, rng=np.random.default_rng(1))["m"]["mae_log"]
        return found.high - found.low

    assert width(np.repeat(np.arange(20), 50)) > 4 * width(np.arange(1000))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=40))
def test_rank_correlation_equals_the_textbook_one(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, dtype=np.float64).T
    constant = len(set(first)) == 1 or len(set(second)) == 1

    expected = 0.0 if constant else stats.spearmanr(first, second).statistic

    assert spearman(first, second) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=60).filter(lambda g: len(set(g)) > 1), st.integers(2, 6))
def test_every_row_is_judged_once_and_by_a_model_that_never_saw_its_group(groups: list[int], folds: int) -> None:
    group = np.array(groups)

    splits = leave_group_out(group, folds=folds)

    assert np.sum([split.test for split in splits], axis=0).tolist() == [1] * len(groups)
    for split in splits:
        assert not set(group[split.train]) & set(group[split.test])
        assert (split.train == ~split.test).all()


def test_time_splits_learn_from_the_past_and_skip_the_embargo() -> None:
    time = np.random.default_rng(0).permutation(100)

    splits = time_forward(time, origins=4, embargo_us=5)

    assert [int(time[s.train].max()) for s in splits] == [19, 39, 59, 79]
    assert [int(time[s.test].min()) for s in splits] == [25, 45, 65, 85]
    assert [int(time[s.test].max()) for s in splits] == [39, 59, 79, 99]


def test_an_embargo_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InconsistentDataset, match="empty"):
        time_forward(np.arange(100), origins=4, embargo_us=50)


def test_the_group_mean_falls_back_to_all_rows_for_a_new_group(placements: Draw) -> None:
    data = placements(seed=5, groups=3, rows_per_group=4)
    seen = data.rows(data.group < 2)

    predicted = fit_group_mean(seen).predict(data)

    for group in (0, 1):
        rows = data.group == group
        expected = np.average(data.log_slowdown[rows], weights=data.weight[rows])
        np.testing.assert_allclose(predicted[rows], expected)
    np.testing.assert_allclose(predicted[8:], np.average(seen.log_slowdown, weights=seen.weight))


def test_linear_baselines_recover_a_line(placements: Draw) -> None:
    data = placements(seed=6, groups=2, rows_per_group=50)
    known = data.with_features(np.nan_to_num(data.features, nan=0.5))
    total = known.features[:, :3].sum(axis=1)

    by_pressure = fit_sum_of_pressure(_labelled(known, np.log(1.05 + 0.3 * total)))
    by_ridge = fit_ridge(_labelled(known, 0.2 + 0.1 * known.features[:, 4]), penalty=1e-9)

    assert (by_pressure.intercept, by_pressure.slope) == pytest.approx((0.05, 0.3))
    np.testing.assert_allclose(by_ridge.predict(known), 0.2 + 0.1 * known.features[:, 4])


def test_the_constant_is_the_median(placements: Draw) -> None:
    data = placements(seed=7, groups=2, rows_per_group=3)

    predicted = fit_constant(_labelled(data, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 9.0]))).predict(data)

    assert predicted.tolist() == [0.0] * 6


def _labelled(data: Dataset, log_slowdown: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Dataset:
    return Dataset(**{**vars(data), "log_slowdown": log_slowdown})
