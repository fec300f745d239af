"""Forests: recipes for trees by LightGBM, and the trees themselves as plain arrays."""

from dataclasses import dataclass, fields, replace

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from models.estimator.onnx_session import load_graph
from models.forms.tree_arrays import Forest, moved, parse_forest
from models.onnx_export.exporter import TREE_RAW, export_spread

Floats = NDArray[np.float64]


ROWS_IN_BIN, BINS = 10, (63, 255)
"""Few rows need few thresholds: trees of some hundred rows and columns grow in half the time."""


@dataclass(frozen=True)
class Recipe:
    """How to grow a forest without signs.

    Args:
        on_trend: whether the trees correct the trend, or stand alone.
        rounds: how many trees.
        leaves: at most this many per tree.
        learning_rate: how much of a leaf's value counts.
        min_rows: rows in a leaf, at least.
        column_share: share of columns that a tree may look at.
        row_share: share of rows that a tree may look at.
        random_splits: thresholds drawn at random, the best of them kept.
        averaged: trees that each predict on their own and are averaged, instead of each correcting those before it.
    """

    on_trend: bool
    rounds: int
    leaves: int
    learning_rate: float
    min_rows: int
    column_share: float = 1.0
    row_share: float = 1.0
    random_splits: bool = False
    averaged: bool = False


def grow(recipe: Recipe, features: Floats, target: Floats, weight: Floats, *, seed: int, threads: int) -> Forest:
    """Trees for a target.

    Args:
        features: (n, d) rows; NaN is learnt as its own side.
        target: (n,) what is learnt, in log slowdown.
        weight: (n,) importance, >= 0.
        recipe: what kind of trees.
        seed: of everything drawn; the same seed gives the same forest.
        threads: cores.

    Returns:
        The forest; the sum of its leaves is the prediction.

    Raises:
        lightgbm.basic.LightGBMError: the data cannot be binned.

    Source: Friedman, Annals of Statistics 2001 (boosting); Breiman, Machine Learning 2001 (bags); Geurts et al.,
        Machine Learning 2006 (random splits).
    """
    parameters = {
        "boosting": "rf" if recipe.averaged else "gbdt",
        "objective": "regression",
        "num_leaves": recipe.leaves,
        "learning_rate": recipe.learning_rate,
        "min_data_in_leaf": recipe.min_rows,
        "min_data_in_bin": min(3, recipe.min_rows),
        "max_bin": int(np.clip(len(features) // ROWS_IN_BIN, *BINS)),
        "feature_fraction": recipe.column_share,
        "bagging_fraction": recipe.row_share,
        "bagging_freq": int(recipe.row_share < 1),
        "extra_trees": recipe.random_splits,
        "seed": seed,
        "num_threads": threads,
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }
    trees = lgb.train(parameters, lgb.Dataset(features, target, weight=weight), recipe.rounds)
    return _averaged(trees) if recipe.averaged else parse_forest(trees.model_to_string())


def _averaged(trees: lgb.Booster) -> Forest:
    """The average as a sum of smaller leaves: dividing at the end would not be exact in every runtime."""
    text = trees.model_to_string().replace("average_output\n", "", 1)
    return scaled(parse_forest(text), 1 / trees.num_trees())


def scaled(forest: Forest, factor: float) -> Forest:
    """The forest with every leaf times a factor."""
    return replace(forest, leaf_value=forest.leaf_value * factor)


def joined(forests: list[Forest]) -> Forest:
    """One forest that predicts the sum of several of the same width, in their order."""
    nodes = np.cumsum([0, *(len(f.feature) for f in forests)])
    leaves = np.cumsum([0, *(len(f.leaf_value) for f in forests)])
    parts = [
        replace(f, left=moved(f.left, n, m), right=moved(f.right, n, m), roots=f.roots + n)
        for f, n, m in zip(forests, nodes, leaves, strict=False)
    ]
    arrays = [field.name for field in fields(Forest) if field.name != "width"]
    return Forest(
        width=forests[0].width, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in arrays}
    )


def predict(forest: Forest, features: Floats) -> Floats:
    """What the forest's exported graph says, (n, d) -> (n,)."""
    return load_graph(export_spread(forest)).predict(features)[TREE_RAW]
