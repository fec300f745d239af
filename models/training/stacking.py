"""Blend: forests and smooth surfaces, some of them on a trend, weighed by how they do on groups they never saw.

For data whose signs are not known. Which kind predicts an unseen group best differs from data to data; the
weights are learnt, but drawn towards a fixed blend, the more so the fewer groups there are to learn them from.
Rows unlike all learnt from have weights of their own, by how the parts do on rows beyond an end of all others.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from models.calibration.conformal import conformal_quantile
from models.data.dataset import Dataset
from models.data.splits import Split, axis_ends
from models.estimator.fitted_model import Beyond
from models.forms.kernel_residual import Near, near_value
from models.forms.novelty import Novelty, Widths, distance
from models.forms.power_law import Trend, trend_inputs, trend_sum
from models.forms.tree_arrays import Forest
from models.training.fit_kernel import fit_near
from models.training.fit_novelty import fit_novelty
from models.training.fit_power_law import SCALES, fit_trend, reached, with_near
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
ON_TREND = np.array([*(recipe.on_trend for recipe in RECIPES), True, False])
"""Which parts correct the trend; the last two are surfaces, which fade to the trend and to the mean."""
PRIOR = np.array([0.2, 0.15, 0.1, 0.15, 0.15, 0.25])
"""The blend that many groups may overrule."""
PULL = 0.5
"""Strength of the prior for one group, as a share of the smallest mean squared error of any part."""
SMALLEST = 0.01
"""A part that weighs less than this is left out."""
END_AXES, END_SHARE = 2, 0.25
"""Directions of largest variance, and the share of rows at each end that is left out to judge what goes beyond."""
FEWEST_FAR = 10
"""So many far rows of ends left out are needed to learn anything from."""
USUAL, REACHED = 0.5, 0.75
"""Shares of rows of groups left out, up to whose distance bounds are as calibrated and predictions as of other rows."""
LEVEL, MOST = 0.9, 5.0
"""Quantile at which errors of far rows are compared with those of others, and the largest ratio that is believed."""


@dataclass(frozen=True)
class Fitted:
    """The blend on all rows, and what blends that never saw a row's group say of it.

    Args:
        start: trend of the blend.
        forest: trees of the blend.
        beyond: the blend of what goes beyond the rows seen; None where far rows are not predicted separately.
        log_mean: (n,) out-of-fold log slowdown.
        widening: (n,) >= 1, what margins of rows that were far out of fold are multiplied with at least. What distance
            adds, see models.forms.novelty, is left out: calibrated, it would only shrink all margins by as much.
    """

    start: Trend
    forest: Forest
    beyond: Beyond | None
    log_mean: Floats
    widening: Floats


@dataclass(frozen=True)
class LeftOut:
    """m rows left out, and what is said of them by models of the others.

    Args:
        said: (m, len(PRIOR)) log slowdown by each part.
        truth: (m,) measured.
        apart: (m,) distance from the rows seen, in limits; 0 where it is unknown.
        fold: (m,) which fold left the row out.
    """

    said: Floats
    truth: Floats
    apart: Floats
    fold: NDArray[np.int64]

    def far(self) -> "LeftOut":
        """The rows beyond the limit."""
        far = self.apart > 1
        return LeftOut(self.said[far], self.truth[far], self.apart[far], self.fold[far])


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
    left = _left_out(data, folds, seed=seed, threads=threads)
    order = np.argsort(np.concatenate([np.flatnonzero(fold.test) for fold in folds]))
    said, apart = left.said[order], left.apart[order]
    weights = blend_weights(said, data.log_slowdown, data.weight, groups=len(np.unique(data.group)))
    limit, parts = _limit(data, seed), _parts(data, seed=seed, threads=threads)
    if limit is None:
        return Fitted(*parts.blended(weights), None, said @ weights, np.ones(len(apart)))
    beyond = _left_out(data, _ends(parts.trend, data), seed=seed, threads=threads).far()
    far = far_weights(weights, beyond)
    usual, reach = np.maximum(1.0, np.quantile(apart, [USUAL, REACHED])).tolist()
    log_mean = np.where(apart > reach, said @ far, said @ weights)
    wide = _wide(np.abs(data.log_slowdown - log_mean)[apart <= reach], np.abs(beyond.truth - beyond.said @ far))
    separate = Beyond(limit, Widths(usual, reach, wide), *parts.blended(far))
    return Fitted(*parts.blended(weights), separate, log_mean, np.where(apart > reach, wide, 1.0))


def far_weights(weights: Floats, beyond: LeftOut) -> Floats:
    """Shares for rows like none learnt from.

    Args:
        weights: (len(PRIOR),) shares for other rows.
        beyond: far rows of ends left out; there may be none.

    Returns:
        (len(PRIOR),) shares that sum to one: those that do well on these rows, every fold counting the same; the shares
        for other rows where there are fewer than FEWEST_FAR.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0073-far-rows.md.
    """
    if len(beyond.truth) < FEWEST_FAR:
        return weights
    _, place, count = np.unique(beyond.fold, return_inverse=True, return_counts=True)
    return blend_weights(beyond.said, beyond.truth, 1 / count[place], groups=len(count))


def _wide(error: Floats, beyond: Floats) -> float:
    """How much larger errors of far rows of ends left out are than those of rows that are not far; from 1 to MOST."""
    if len(error) < FEWEST_FAR or len(beyond) < FEWEST_FAR:
        return 1.0
    usual = conformal_quantile(error, LEVEL)
    return float(np.clip(conformal_quantile(beyond, LEVEL) / usual, 1.0, MOST)) if usual > 0 else 1.0


def _ends(trend: Trend, data: Dataset) -> list[Split]:
    """Ends of what varies most, in signed logs at one scale."""
    logs = trend_inputs(data.features, trend)
    return axis_ends(logs[:, : max(1, logs.shape[1] // len(SCALES))], axes=END_AXES, share=END_SHARE)


def _left_out(data: Dataset, folds: list[Split], *, seed: int, threads: int) -> LeftOut:
    """What models of the first part of each fold say of the second, one fold after the other."""
    parts = [LeftOut(np.zeros((0, len(PRIOR))), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))]
    for number, fold in enumerate(folds):
        seen, unseen = data.rows(fold.train), data.features[fold.test]
        said, limit = _parts(seen, seed=seed, threads=threads).say(unseen), _limit(seen, seed)
        apart = np.zeros(len(unseen)) if limit is None else distance(unseen, limit)
        parts.append(LeftOut(said, data.log_slowdown[fold.test], apart, np.full(len(unseen), number)))
    arrays = {n: np.concatenate([getattr(part, n) for part in parts]) for n in ("said", "truth", "apart", "fold")}
    return LeftOut(**arrays)


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
    """Everything that is blended.

    Args:
        trend: of the log slowdown.
        forests: one a recipe.
        level: mean log slowdown, which the last surface starts from.
        near: surfaces, on the trend and on the level.
        within: smallest and largest log slowdown that is said.
    """

    trend: Trend
    forests: list[Forest]
    level: float
    near: tuple[Near, Near]
    within: tuple[float, float]

    def say(self, features: Floats) -> Floats:
        """(n, len(PRIOR)) log slowdown by each part alone."""
        logs = trend_inputs(features, self.trend)
        on_trend, on_level = (near_value(logs, near) for near in self.near)
        own = np.column_stack([*(predict(f, features) for f in self.forests), on_trend, self.level + on_level])
        said: Floats = np.clip(own + trend_sum(logs, self.trend)[:, None] * ON_TREND, *self.within)
        return said

    def blended(self, weights: Floats) -> tuple[Trend, Forest]:
        """One trend and one forest with the weights multiplied in."""
        start = replace(scaled_trend(self.trend, float(weights @ ON_TREND)), within=self.within)
        kept = [scaled(forest, w) for forest, w in zip(self.forests, weights, strict=False) if w]
        start = replace(start, intercept=start.intercept + float(weights[-1]) * self.level)
        for near, weight in zip(self.near, weights[-len(self.near) :], strict=True):
            start = with_near(start, near, float(weight)) if weight else start
        return start, joined(kept or [scaled(self.forests[0], 0.0)])


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
    level = float(np.average(data.log_slowdown, weights=data.weight))
    low, high = reached(data.log_slowdown)
    near = (fit_near(logs, left, seed=seed), fit_near(logs, data.log_slowdown - level, seed=seed))
    return _Parts(trend, forests, level, near, (float(low), float(high)))


def _softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max())
    shares: Floats = raised / raised.sum()
    return shares
