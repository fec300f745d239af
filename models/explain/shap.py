"""Attribution: how much each feature adds to a prediction. Pure kernels: rows in, contributions out.

`path_attribution` is fast, for thousands of rows; `tree_shap` is exact, for the few rows that people look at.
What they mean and how they differ: docs/onnx.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.data.dataset import refuse_other_widths
from models.explain.tree_paths import Alike, Paths
from models.forms.pressure_base import BaseTerms, base_sum

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
_LANES = 1 << 16
"""How many (row, tree) pairs walk down together; more no longer fit the processor's cache."""


@dataclass(frozen=True)
class Attribution:
    """What each feature adds to a prediction: `expected + by_feature.sum(axis=1)`."""

    expected: float
    """The prediction before anything is known of a row."""
    by_feature: Floats
    """(n, d), in the unit of the prediction."""


def path_attribution(features: Floats, paths: Paths) -> Attribution:
    """What each split on a row's way changes in the mean of the training rows, counted for the split's feature.

    Args:
        features: (n, d) as the graph reads them; NaN goes where the trees send it.
        paths: of the forest.

    Returns:
        Contributions to the raw score of the forest; a feature without splits has exactly 0. Which split comes first
        in a tree matters, so features that work together share unevenly; `tree_shap` does not have this flaw.

    Raises:
        ModelsError: features are not (n, d).

    Source: Saabas, "Interpreting random forests", 2014; the same as Lundberg et al. 2020 call Saabas' method.
    """
    refuse_other_widths(features, paths.forest.width)
    size = max(1, _LANES // len(paths.forest.roots))
    parts = [_walk(features[i : i + size], paths) for i in range(0, len(features), size)]
    return Attribution(paths.expected, np.concatenate([np.empty((0, paths.forest.width)), *parts]))


def tree_shap(features: Floats, paths: Paths) -> Attribution:
    """Shapley values of the features, where an unknown feature goes both ways as the training rows did.

    Args:
        features: (n, d) as the graph reads them; NaN goes where the trees send it.
        paths: of the forest.

    Returns:
        Contributions to the raw score of the forest, those of LightGBM's `pred_contrib` up to rounding; a feature
        without splits has exactly 0.

    Raises:
        ModelsError: features are not (n, d).

    Source: the values of Lundberg et al., Nature Machine Intelligence 2020, algorithm 2. Computed for each path by
        itself, as the integral of its multilinear extension along the diagonal, Owen, Management Science 1972, with a
        Gauss-Legendre rule that is exact for its degree: every factor is >= 0, so nothing cancels.
    """
    refuse_other_widths(features, paths.forest.width)
    by_feature = np.empty(features.shape)
    for i, row in enumerate(features):  # one row already is some hundred thousand numbers
        by_feature[i] = _shapley(row, paths)
    return Attribution(paths.expected, by_feature)


def base_attribution(features: Floats, terms: BaseTerms) -> Floats:
    """What each feature adds to log1p(base_sum).

    Args:
        features: (n, d) imputed rows, in the units of the catalogue.
        terms: of the base.

    Returns:
        (n, d) log1p(S) × term / S, where S is the sum of the terms: in log ratio, adding up to log1p(S), all 0
        where every term is 0. NaN in a term's column makes the row's terms NaN.

    Raises:
        Nothing; a sum of -1 or less gives -inf or NaN as NumPy does.

    Source: Aumann and Shapley, "Values of non-atomic games", 1974: ∫ term / (1 + t S) dt over t from 0 to 1. The same
        are integrated gradients from zero pressure, Sundararajan et al., ICML 2017.
    """
    total = base_sum(features, terms)
    rate = np.log1p(total) / np.where(total == 0, 1.0, total)
    by_feature = np.zeros(features.shape)
    np.add.at(by_feature.T, terms.columns, features.T[terms.columns] * terms.weights[:, None] * rate)
    return by_feature


def _walk(features: Floats, paths: Paths) -> Floats:
    """(n, d) changes of value on the way down, all trees of all rows side by side, one level at a time."""
    forest, (n, width) = paths.forest, features.shape
    # a second copy of each column has -inf for NaN, which is below every threshold: nodes that send NaN left read it
    twice = np.concatenate([features, np.where(np.isnan(features), -np.inf, features)], axis=1).ravel()
    column = forest.feature + width * forest.nan_left
    at, row = np.tile(forest.roots, n), np.repeat(np.arange(n), len(forest.roots))
    changed = np.zeros(n * width)
    while len(at):
        right = ~(twice[row * (2 * width) + column[at]] <= paths.threshold[at])
        below = paths.children.ravel()[2 * at + right]
        change = paths.value[below] - paths.value[at]
        changed += np.bincount(row * width + forest.feature[at], change, n * width)
        under_way = below < len(forest.feature)
        at, row = below[under_way], row[under_way]
    return changed.reshape(n, width)


def _shapley(row: Floats, paths: Paths) -> Floats:
    """(d,) Shapley values of one row."""
    forest = paths.forest
    value = row[forest.feature]
    left = np.where(np.isnan(value), forest.nan_left, value <= paths.threshold)
    follows = left[paths.node] == paths.goes_left
    met = np.logical_and.reduceat(follows, paths.first_edge) if len(follows) else follows
    gained = np.zeros(forest.width)
    for alike in paths.alike:
        gain = _gain(met[alike.step], alike)
        gained += np.bincount(paths.feature[alike.step].ravel(), gain.ravel(), forest.width)
    return gained


def _gain(met: Flags, alike: Alike) -> Floats:
    """(k, p) what each step of each path gains, where (k, p) flags say which steps the row meets.

    A path's extension is leaf value × product of share + t (met - share); its derivative by one step is the product
    of the others times (met - share), and its integral over t from 0 to 1 that step's Shapley value.
    """
    known = met[:, :, None]
    factor = alike.share * (1 - alike.at) + known * alike.at
    others = np.ones_like(factor)
    np.cumprod(factor[:-1], axis=0, out=others[1:])
    others[:-1] *= np.cumprod(factor[:0:-1], axis=0)[::-1]
    gain: Floats = (others @ alike.weight) * (met - alike.share[:, :, 0]) * alike.leaf_value
    return gain
