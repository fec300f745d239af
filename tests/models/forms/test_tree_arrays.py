"""Trees: what a LightGBM model is, and what is refused because ONNX could not repeat it to the bit."""

from collections.abc import Callable
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import ModelsError
from models.forms.tree_arrays import ZERO_BAND, absorb_zero_flush, parse_forest

Train = Callable[..., lgb.Booster]
near_zero = st.sampled_from(
    [x for z in (0.0, ZERO_BAND, 1e-35, 5e-324) for y in (z, -z) for x in (y, np.nextafter(y, 1), np.nextafter(y, -1))]
)
doubles = st.one_of(near_zero, st.floats(allow_nan=False), st.floats(-1e-34, 1e-34))


def test_every_leaf_and_split_of_the_booster_is_read(train: Train) -> None:
    booster = train(rounds=3)

    forest = parse_forest(booster.model_to_string())

    table = booster.trees_to_dataframe()
    assert len(forest.roots) == 3
    assert len(forest.leaf_value) == table["left_child"].isna().sum()
    assert len(forest.feature) == table["left_child"].notna().sum()


def test_a_tree_that_never_splits_is_one_node_with_one_leaf(train: Train) -> None:
    forest = parse_forest(train(rounds=1, min_data_in_leaf=100_000).model_to_string())

    assert forest.left.tolist() == forest.right.tolist() == [-1]
    assert len(forest.leaf_value) == 1


def test_the_cover_of_a_leaf_is_the_rows_that_trained_it(train: Train) -> None:
    booster = train(rounds=3)

    forest = parse_forest(booster.model_to_string())

    table = booster.trees_to_dataframe()
    leaves = table[table["left_child"].isna()]
    assert sorted(forest.leaf_cover) == sorted(leaves["count"])
    assert forest.leaf_cover.sum() == 3 * 1200


def test_an_infinite_threshold_stays_infinite(train: Train) -> None:
    forest = parse_forest(train(missing_share=0.1).model_to_string())

    assert np.isinf(forest.threshold).any()
    assert 1e300 not in forest.threshold


@given(x=doubles, threshold=doubles)
def test_moved_thresholds_decide_as_if_values_near_zero_were_flushed(x: float, threshold: float) -> None:
    flushed = 0.0 if abs(x) <= ZERO_BAND else x

    moved = absorb_zero_flush(np.array([threshold]))[0]

    assert (x <= moved) == (flushed <= threshold)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"zero_as_missing": True, "missing_share": 0.1}, "zero_as_missing"),
        ({"linear_tree": True}, "linear_tree"),
        ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, "averages"),
        ({"categories": [4]}, "categories"),
    ],
)
def test_what_cannot_be_exact_is_refused_by_name(train: Train, parameters: dict[str, object], reason: str) -> None:
    booster = train(rounds=3, **parameters)

    with pytest.raises(ModelsError, match=reason):
        parse_forest(booster.model_to_string())


def test_several_classes_are_refused() -> None:
    features = np.arange(300.0)[:, None]
    data = lgb.Dataset(features, np.arange(300) % 3)
    booster = lgb.train({"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_threads": 1}, data, 2)

    with pytest.raises(ModelsError, match="classes"):
        parse_forest(booster.model_to_string())


def test_a_model_without_trees_is_refused() -> None:
    features = np.arange(300.0)[:, None]
    booster = lgb.Booster({"verbosity": -1}, lgb.Dataset(features, features[:, 0]))

    with pytest.raises(ModelsError, match="no trees"):
        parse_forest(booster.model_to_string())


def test_another_version_of_the_format_is_refused(train: Train) -> None:
    text = train(rounds=1).model_to_string().replace("version=v4", "version=v5")

    with pytest.raises(ModelsError, match="v5"):
        parse_forest(text)


def test_a_forest_cannot_be_changed(train: Train) -> None:
    forest = parse_forest(train(rounds=1).model_to_string())

    assert replace(forest, width=9).width == 9
    with pytest.raises(AttributeError):
        forest.width = 9  # type: ignore[misc]
