"""Equality: no bit differs, at every threshold and batch size, and the check can fail."""

from dataclasses import replace

import numpy as np
import pytest

from models.data.impute import impute
from models.estimator.feature_matrix import Rows
from models.estimator.fitted_model import Placement
from models.evaluation.onnx_parity import compare, on_thresholds, reaching
from models.forms.tree_arrays import ZERO_BAND, parse_forest
from models.training.fit import fit_residual
from tests.models.simulated import CONFIG, Simulated


@pytest.fixture(scope="module")
def forest_of_many(learnt: Simulated, placement: Placement) -> Placement:
    """The same model with all the trees that training may make, where it kept a few."""
    known = learnt.rows.dataset(placement.medians[: learnt.rows.raw.shape[1]])
    known = known.with_features(impute(known.features, placement.medians))
    trees = fit_residual(known, placement.base(), replace(CONFIG, rounds=120))
    return replace(placement, residual=parse_forest(trees.model_to_string()))


def test_every_split_is_tried_on_its_threshold_and_beside_it(learnt: Simulated, forest_of_many: Placement) -> None:
    known = learnt.rows.dataset(forest_of_many.medians[: learnt.rows.raw.shape[1]])
    features, forest = impute(known.features, forest_of_many.medians), forest_of_many.residual

    rows = on_thresholds(features, forest)

    assert len(rows) == 3 * len(forest.feature)
    assert (reaching(rows, forest) >= 0).all()


def test_no_row_differs_in_any_bit(learnt: Simulated, placement: Placement, forest_of_many: Placement) -> None:
    for model in (placement, forest_of_many):
        found = compare(learnt.rows, model, CONFIG)

        assert found.differing == 0
        assert found.rows > 4 * len(learnt.rows.group)  # each row and an awkward copy of it, in batches of two sizes


def a_quarter(learnt: Simulated) -> Rows:
    return learnt.rows.take(np.arange(len(learnt.rows.group)) % 4 == 0)


@pytest.mark.parametrize(
    ("share", "towards"), [(0.0, -np.inf), (0.33, np.inf), (0.71, -np.inf), (0.999, np.inf)], ids=str
)
def test_one_threshold_moved_by_one_unit_in_the_last_place_is_found(
    learnt: Simulated, forest_of_many: Placement, share: float, towards: float
) -> None:
    forest = forest_of_many.residual
    threshold = forest.threshold.copy()
    beyond = np.flatnonzero(np.abs(threshold) > 2 * ZERO_BAND)  # nearer to zero a move decides nothing
    which = beyond[int(share * len(beyond))]
    threshold[which] = np.nextafter(threshold[which], towards)

    moved = replace(forest_of_many, residual=replace(forest, threshold=threshold))

    assert compare(a_quarter(learnt), moved, CONFIG).differing > 0


def test_the_leaves_of_one_tree_moved_by_one_unit_in_the_last_place_are_found(
    learnt: Simulated, forest_of_many: Placement
) -> None:
    forest = forest_of_many.residual
    leaves, second = forest.leaf_value.copy(), forest.roots[1]
    of_first = ~np.concatenate([forest.left[:second], forest.right[:second]])
    of_first = of_first[of_first >= 0]  # sums of many rows, of which some show a last bit moved
    leaves[of_first] = np.nextafter(leaves[of_first], np.inf)

    moved = replace(forest_of_many, residual=replace(forest, leaf_value=leaves))

    assert compare(a_quarter(learnt), moved, CONFIG).differing > 0
