"""Data without signs: the trend, the forests, their blend, and that all of it is served as it was trained."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV

from models.data.dataset import Dataset
from models.data.splits import leave_group_out
from models.errors import ModelsError
from models.estimator.fitted_model import Placement
from models.estimator.onnx_session import load_graph
from models.forms.kernel_residual import near_value
from models.forms.power_law import Trend, signed_log, trend_inputs, trend_sum
from models.metrics.errors_and_ranks import spearman
from models.onnx_export.exporter import TREND_SUM, export_placement
from models.training.fit import TrainConfig, fit_placement
from models.training.fit_kernel import MAX_POINTS, fit_near
from models.training.fit_power_law import PENALTIES, _best_penalty, fit_trend
from models.training.lightgbm_forest import Recipe, grow, joined, predict, scaled
from models.training.stacking import PRIOR, blend_weights
from models.training.trainer import open_fitted

Floats = NDArray[np.float64]
QUICK = TrainConfig(folds=3, spread_rounds=10)
AVERAGED = Recipe(False, 16, 31, 1.0, 1, row_share=0.632, averaged=True)
BOOSTED = Recipe(True, 30, 7, 0.1, 5, column_share=0.5)


def trend_of(features: Floats, trend: Trend) -> Floats:
    return trend_sum(trend_inputs(features, trend), trend)


def counters(rng: np.random.Generator, groups: int = 8, rows: int = 30) -> Dataset:
    """A latency that is a power law of two of five counters of very different sizes, with a kink."""
    group = np.repeat(np.arange(groups), rows)
    features = np.exp(rng.normal(0, 1, (len(group), 5)) + rng.normal(0, 0.5, (groups, 5))[group])
    features *= np.array([1e9, 1e-3, 1.0, 50.0, 1e4])
    log = 0.8 * np.log(features[:, 0] / 1e9) - 0.4 * np.log(features[:, 3] / 50.0) + 0.5 * (features[:, 2] > 1)
    features[rng.random(features.shape) < 0.02] = np.nan
    n = len(group)
    return Dataset(
        features=features,
        names=tuple("abcde"),
        signs=np.zeros(5, np.int8),
        base=np.zeros(5, np.bool_),
        log_slowdown=log + rng.normal(0, 0.05, n),
        weight=np.ones(n),
        group=group.astype(np.int32),
        node_window=np.arange(n),
        time=np.arange(n),
    )


@pytest.fixture(scope="module")
def data() -> Dataset:
    return counters(np.random.default_rng(3))


@pytest.fixture(scope="module")
def placement(data: Dataset) -> Placement:
    return fit_placement(data, QUICK)


@given(st.lists(st.floats(-1e12, 1e12), min_size=2, max_size=20), st.floats(1e-6, 1e6))
def test_the_signed_log_is_odd_and_never_falls(values: list[float], scale: float) -> None:
    x = np.sort(np.array(values))[:, None]
    scales = np.array([scale])

    logs = signed_log(x, scales)

    assert (np.diff(logs[:, 0]) >= 0).all()
    assert (signed_log(-x, scales) == -logs).all()


def test_a_power_law_is_found_and_goes_on_beyond_what_was_seen() -> None:
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(6, 9, (400, 1)))
    trend = fit_trend(x, 0.5 * np.log(x[:, 0]), np.ones(400), np.arange(400) // 40)

    near, far, farther = np.exp(np.array([[9.7], [11.0], [700.0]]))

    truth, last_seen = 0.5 * np.log(near), 0.5 * np.log(x.max())
    assert np.abs(trend_of(near[None], trend) - truth) < 0.5 * np.abs(last_seen - truth)
    assert trend_of(far[None], trend) == trend_of(farther[None], trend)  # a quarter of the range beyond it says no more


@pytest.mark.parametrize(("rows", "columns", "noise"), [(400, 3, 0.5), (60, 40, 2.0), (50, 80, 1.0)])
def test_the_penalty_is_the_one_that_a_search_over_all_fits_finds(rows: int, columns: int, noise: float) -> None:
    rng = np.random.default_rng(columns)
    x, weight, group = rng.normal(size=(rows, columns)), rng.uniform(0.2, 2, rows), np.arange(rows) % 7
    y = x[:, 0] + 0.3 * x[:, 1] + noise * rng.normal(size=rows)

    folds = leave_group_out(group, folds=5)
    parts = [(np.flatnonzero(fold.train), np.flatnonzero(fold.test)) for fold in folds]
    searched = RidgeCV(PENALTIES, cv=parts).fit(x, y, sample_weight=weight)

    assert _best_penalty(x, y, weight, folds) == searched.alpha_


def test_a_surface_fills_in_between_rows_and_fades_out_far_from_them() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(300, 2))
    surface = fit_near(logs, np.sin(2 * logs[:, 0]) * logs[:, 1], seed=0)
    between = rng.uniform(-1, 1, (200, 2))

    said = near_value(between, surface)

    assert np.abs(said - np.sin(2 * between[:, 0]) * between[:, 1]).mean() < 0.05
    assert near_value(np.full((1, 2), 1e3), surface)[0] == 0.0
    assert [near_value(row[None], surface)[0] for row in between] == said.tolist()


def test_a_surface_through_many_rows_is_thinned_out() -> None:
    logs = np.random.default_rng(0).normal(size=(MAX_POINTS + 50, 1))

    assert len(fit_near(logs, logs[:, 0], seed=0).points) == MAX_POINTS


def test_columns_without_values_or_without_variation_are_left_out(data: Dataset) -> None:
    dull = np.column_stack([np.full(len(data.weight), 7.0), data.features[:, 0], np.full(len(data.weight), np.nan)])

    assert fit_trend(dull, data.log_slowdown, data.weight, data.group).columns.tolist() == [1, 1]
    level = fit_trend(dull[:, ::2], data.log_slowdown, data.weight, data.group)
    assert trend_of(dull[:, ::2], level) == pytest.approx(data.log_slowdown.mean())


def test_columns_that_say_nothing_give_a_model_that_says_the_same_of_every_row(data: Dataset) -> None:
    dull = data.with_features(np.full_like(data.features, 3.0))

    said = open_fitted(fit_placement(dull, QUICK)).predict(dull.features)

    assert np.ptp(said.log_mean) == 0
    assert abs(said.log_mean[0] - data.log_slowdown.mean()) < data.log_slowdown.std()


@pytest.mark.parametrize("recipe", [AVERAGED, BOOSTED], ids=["averaged", "boosted"])
def test_a_forest_that_is_split_up_scaled_and_joined_says_the_same(data: Dataset, recipe: Recipe) -> None:
    forest = grow(recipe, data.features, data.log_slowdown, data.weight, seed=1, threads=1)

    halves = joined([scaled(forest, 0.25), scaled(forest, 0.75)])

    assert predict(halves, data.features) == pytest.approx(predict(forest, data.features), abs=1e-12)


def test_averaged_trees_stay_within_what_they_saw_and_fit_it(data: Dataset) -> None:
    forest = grow(AVERAGED, data.features, data.log_slowdown, data.weight, seed=1, threads=1)

    said = predict(forest, data.features * 100)

    assert data.log_slowdown.min() <= said.min() <= said.max() <= data.log_slowdown.max()
    assert spearman(predict(forest, data.features), data.log_slowdown) > 0.9


@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_blend_weights_are_shares(seed: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    said, truth = rng.normal(size=(40, len(PRIOR))), rng.normal(size=40)

    found = blend_weights(said, truth, np.ones(40), groups=groups)

    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1.0)


def test_a_better_part_weighs_more_the_more_groups_tell() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=300)
    said = truth[:, None] + rng.normal(size=(300, len(PRIOR)))
    said[:, 2] = truth + rng.normal(scale=0.5, size=300)

    many = blend_weights(said, truth, np.ones(300), groups=1000)
    few = blend_weights(said, truth, np.ones(300), groups=1)

    assert PRIOR[2] < few[2] < many[2]
    assert many[2] == many.max()
    assert PRIOR.sum() == pytest.approx(1.0)


def test_what_is_served_is_the_trend_and_the_forest_to_the_bit(data: Dataset, placement: Placement) -> None:
    assert isinstance(placement.terms, Trend)
    rows = data.features.copy()
    rows[::7, 0] = np.nan
    graph = load_graph(export_placement(placement)["mean"])
    inputs = trend_inputs(rows, placement.terms)

    said = graph.predict(np.hstack([rows, inputs]))
    served = open_fitted(placement).predict(rows)

    assert (said[TREND_SUM] == trend_sum(inputs, placement.terms)).all()
    assert (served.log_mean == said[TREND_SUM] + said["tree_raw"]).all()
    singly = np.concatenate([open_fitted(placement).predict(row[None]).log_mean for row in rows[:20]])
    assert (singly == served.log_mean[:20]).all()


def test_groups_never_seen_are_predicted_and_bounded() -> None:
    data = counters(np.random.default_rng(5), groups=12)
    unseen = data.group >= 9

    placement = fit_placement(data.rows(~unseen), QUICK)
    said = open_fitted(placement).predict(data.features[unseen])
    truth = data.log_slowdown[unseen]

    assert np.abs(said.log_mean - truth).mean() < 0.5 * np.abs(truth - truth.mean()).mean()
    assert (truth <= said.log_mean + placement.calibration.hierarchical * said.spread).mean() > 0.8


def test_the_same_data_give_the_same_model(data: Dataset, placement: Placement) -> None:
    again = fit_placement(data, QUICK)

    assert export_placement(again) == export_placement(placement)


def test_a_model_on_a_trend_says_that_it_has_no_base(placement: Placement) -> None:
    with pytest.raises(ModelsError, match="trend"):
        placement.base()
