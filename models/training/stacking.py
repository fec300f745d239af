"""Blend: forests and a smooth surface, most of them on a trend, weighed by how they do on groups they never saw.

For data whose signs are not known. Which kind predicts an unseen group best differs from data to data; the
weights are learnt, but drawn towards a fixed blend, the more so the fewer groups there are to learn them from.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from models.data.dataset import Dataset
from models.data.splits import Split
from models.estimator.fitted_model import Beyond
from models.forms.kernel_residual import Near, near_value
from models.forms.novelty import Novelty, distance
from models.forms.power_law import Trend, trend_inputs, trend_sum
from models.forms.tree_arrays import Forest
from models.training.fit_kernel import fit_near
from models.training.fit_novelty import fit_novelty
from models.training.fit_power_law import fit_trend, with_near
from models.training.fit_power_law import scaled as scaled_trend
from models.training.lightgbm_forest import Recipe, grow, joined, predict, scaled

Floats = NDArray[np.float64]

RECIPES = (
    Recipe(True, 250, 8, 0.06, 10, column_share=0.3, row_share=0.7, random_splits=True),
    Recipe(True, 150, 31, 0.1, 8, column_share=0.6, row_share=0.8),
    Recipe(False, 200, 31, 0.08, 8, column_share=0.6, row_share=0.8),
    Recipe(False, 100, 511, 1.0, 1, column_share=0.8, row_share=0.632, averaged=True),
)
"""Random and deep corrections of the trend, deep trees alone, and averaged trees, which go no further than was seen."""
ON_TREND = np.array([*(recipe.on_trend for recipe in RECIPES), True])
"""Which parts correct the trend; the last part is the surface."""
PRIOR = np.array([0.35, 0.2, 0.1, 0.1, 0.25])
"""The blend that many groups may overrule."""
PULL = 0.5
"""Strength of the prior for one group, as a share of the smallest mean squared error of any part."""
SMALLEST = 0.01
"""A part that weighs less than this is left out."""
WORSE = 1.25
"""Far rows are left to the trend unless that makes errors on far rows left out larger by more than this factor."""


@dataclass(frozen=True)
class Fitted:
    """The blend on all rows, and what blends that never saw a row's group say of it.

    Args:
        start: trend of the blend.
        forest: trees of the blend.
        beyond: the blend of what goes beyond the rows seen; None where far rows are not predicted separately.
        log_mean: (n,) out-of-fold log slowdown.
        distance: (n,) out-of-fold distance from the rows seen, in limits; 0 where it is unknown.
    """

    start: Trend
    forest: Forest
    beyond: Beyond | None
    log_mean: Floats
    distance: Floats


def fit_blend(data: Dataset, folds: list[Split], *, seed: int, threads: int) -> Fitted:
    """Learn the weights out of fold, then every part on all rows.

    Args:
        data: n rows without signs; NaN is missing.
        folds: whose test parts cover every row once, by group.
        seed: of everything drawn.
        threads: cores.

    Returns:
        One trend and one forest: the weights are multiplied into them, so that the blend is exported like any model.

    Raises:
        lightgbm.basic.LightGBMError: the data cannot be binned.

    Source: stacked regression, Breiman, Machine Learning 1996; ours, docs/decisions/0016-blend.md.
    """
    said, apart = np.empty((len(data.weight), len(PRIOR))), np.zeros(len(data.weight))
    for fold in folds:
        seen, unseen = data.rows(fold.train), data.features[fold.test]
        said[fold.test] = _parts(seen, seed=seed, threads=threads).say(unseen)
        limit = _limit(seen, seed)
        apart[fold.test] = 0.0 if limit is None else distance(unseen, limit)
    weights = blend_weights(said, data.log_slowdown, data.weight, groups=len(np.unique(data.group)))
    far = far_weights(weights, said[apart > 1], data.log_slowdown[apart > 1])
    limit, parts = _limit(data, seed), _parts(data, seed=seed, threads=threads)
    beyond = Beyond(limit, *parts.blended(far)) if limit else None
    return Fitted(*parts.blended(weights), beyond, np.where(apart > 1, said @ far, said @ weights), apart)


def far_weights(weights: Floats, said: Floats, truth: Floats) -> Floats:
    """Shares for rows like none learnt from: of those parts only that follow the trend beyond what was seen.

    Args:
        weights: (len(PRIOR),) shares for other rows.
        said: (m, len(PRIOR)) out-of-fold log slowdown of far rows; there may be none.
        truth: (m,) their labels.

    Returns:
        (len(PRIOR),) shares that sum to one; the same shares where no part follows the trend, or where the trend goes
        astray: far rows left out are less far than what may come, so a little worse is no proof, WORSE is.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0021-novelty.md.
    """
    on_trend: Floats = weights * ON_TREND
    total = float(on_trend.sum())
    if not total:
        return weights
    error, plain = (float(((said @ shares - truth) ** 2).sum()) for shares in (on_trend / total, weights))
    return weights if error > WORSE**2 * plain else on_trend / total


def blend_weights(said: Floats, truth: Floats, weight: Floats, *, groups: int) -> Floats:
    """Shares of a blend that do well out of fold.

    Args:
        said: (n, len(PRIOR)) out-of-fold log slowdown.
        truth: (n,) labels.
        weight: (n,) importance, >= 0.
        groups: how many groups the folds left out; the fewer, the closer to PRIOR.

    Returns:
        (len(PRIOR),) shares >= 0 that sum to one; shares below SMALLEST are zero.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0016-blend.md.
    """
    share = weight / weight.sum()
    least = float((share @ (said - truth[:, None]) ** 2).min()) or 1.0

    def loss(logits: Floats) -> tuple[float, Floats]:
        w = _softmax(logits)
        residual = said @ w - truth
        value = float(share @ residual**2) / least + PULL / groups * float(((w - PRIOR) ** 2).sum())
        slope = 2 * said.T @ (share * residual) / least + 2 * PULL / groups * (w - PRIOR)
        return value, w * (slope - slope @ w)

    found = _softmax(minimize(loss, np.log(PRIOR), jac=True, method="L-BFGS-B").x)
    found[found < SMALLEST] = 0.0
    shares: Floats = found / found.sum()
    return shares


@dataclass(frozen=True)
class _Parts:
    """Everything that is blended."""

    trend: Trend
    forests: list[Forest]
    near: Near | None

    def say(self, features: Floats) -> Floats:
        """(n, len(PRIOR)) log slowdown by each part alone."""
        logs = trend_inputs(features, self.trend)
        surface = np.zeros(len(features)) if self.near is None else near_value(logs, self.near)
        own = np.column_stack([*(predict(forest, features) for forest in self.forests), surface])
        said: Floats = own + trend_sum(logs, self.trend)[:, None] * ON_TREND
        return said

    def blended(self, weights: Floats) -> tuple[Trend, Forest]:
        """One trend and one forest with the weights multiplied in."""
        start = scaled_trend(self.trend, float(weights @ ON_TREND))
        kept = [scaled(forest, w) for forest, w in zip(self.forests, weights, strict=False) if w]
        forest = joined(kept or [scaled(self.forests[0], 0.0)])
        return (with_near(start, self.near, float(weights[-1])) if self.near and weights[-1] else start), forest


def _limit(data: Dataset, seed: int) -> Novelty | None:
    return fit_novelty(data.features, data.kinds(), free=np.ones(data.features.shape[1], np.bool_), seed=seed)


def _parts(data: Dataset, *, seed: int, threads: int) -> _Parts:
    trend = fit_trend(data.features, data.log_slowdown, data.weight, data.group)
    logs = trend_inputs(data.features, trend)
    left = data.log_slowdown - trend_sum(logs, trend)
    forests = [
        grow(r, data.features, left if r.on_trend else data.log_slowdown, data.weight, seed=seed, threads=threads)
        for r in RECIPES
    ]
    return _Parts(trend, forests, fit_near(logs, left, seed=seed) if logs.shape[1] else None)


def _softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max())
    shares: Floats = raised / raised.sum()
    return shares
