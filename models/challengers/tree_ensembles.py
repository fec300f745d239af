"""Challenger trees: forests and boosting as libraries grow them, on the same imputed rows. All say log slowdown."""

from collections.abc import Callable
from typing import Protocol

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor

from models.calibration.conformal import conformal_quantile
from models.data.dataset import Dataset
from models.data.splits import leave_group_out
from models.training.fit import TrainConfig, raw_score, tree_parameters

Floats = NDArray[np.float64]
Says = Callable[[Dataset], Floats]
Loss = Callable[[Floats, Floats], Floats]
Grow = Callable[[Dataset, int], lgb.Booster]
TREES, LEAF_ROWS, COLUMN_SHARE = 100, 5, 1 / 3
STEPS = 10
"""Numbers of trees that are tried on groups left out."""


class Regressor(Protocol):
    """What scikit-learn's estimators can do."""

    def fit(self, x: Floats, y: Floats, sample_weight: Floats) -> "Regressor":
        """Learn from weighted rows."""
        ...

    def predict(self, x: Floats) -> Floats:
        """(n,) values of (n, d) rows."""
        ...


def random_forest(seen: Dataset, config: TrainConfig) -> Says:
    """Bagged trees; Breiman, Machine Learning 2001."""
    sizes = {"n_estimators": TREES, "min_samples_leaf": LEAF_ROWS, "max_features": COLUMN_SHARE}
    return _fitted(RandomForestRegressor(**sizes, random_state=config.seed, n_jobs=config.threads), seen)


def extra_trees(seen: Dataset, config: TrainConfig) -> Says:
    """Trees with random thresholds; Geurts et al., Machine Learning 2006."""
    sizes = {"n_estimators": TREES, "min_samples_leaf": LEAF_ROWS, "max_features": COLUMN_SHARE}
    return _fitted(ExtraTreesRegressor(**sizes, random_state=config.seed, n_jobs=config.threads), seen)


def hist_boosting(seen: Dataset, config: TrainConfig) -> Says:
    """Histogram gradient boosting at its defaults; it stops early only beyond 10,000 rows, on random ones."""
    return _fitted(HistGradientBoostingRegressor(random_state=config.seed), seen)


def lightgbm_alone(seen: Dataset, config: TrainConfig) -> Says:
    """Our trees, signs and loss, from zero instead of from the base."""
    loss = {"objective": config.objective, "alpha": config.huber_log_ratio}

    def grow(rows: Dataset, rounds: int) -> lgb.Booster:
        train = lgb.Dataset(rows.features, rows.log_slowdown, weight=rows.weight)
        return lgb.train({**tree_parameters(rows, config), **loss}, train, rounds)

    rounds, _ = rounds_by_groups(seen, config, grow, lambda truth, said: np.abs(said - truth))
    trees = grow(seen, rounds)
    return lambda rows: raw_score(trees, rows.features)


def quantile_shifted(*, shift: bool) -> Callable[[Dataset, TrainConfig], Says]:
    """LightGBM's own quantile objective, which refuses signs; perhaps shifted to hold on groups left out.

    Source: Romano et al., "Conformalized quantile regression", NeurIPS 2019; out of groups as in
    models.calibration.conformal.
    """

    def fit(seen: Dataset, config: TrainConfig) -> Says:
        def grow(rows: Dataset, rounds: int) -> lgb.Booster:
            free = {k: v for k, v in tree_parameters(rows, config).items() if not k.startswith("monotone")}
            train = lgb.Dataset(rows.features, rows.log_slowdown, weight=rows.weight)
            return lgb.train({**free, "objective": "quantile", "alpha": config.level}, train, rounds)

        rounds, left_out = rounds_by_groups(seen, config, grow, lambda t, s: _pinball(t, s, config.level))
        trees = grow(seen, rounds)
        moved = conformal_quantile(seen.log_slowdown - left_out, config.level) if shift else 0.0
        return lambda rows: raw_score(trees, rows.features) + moved

    return fit


def rounds_by_groups(seen: Dataset, config: TrainConfig, grow: Grow, loss: Loss) -> tuple[int, Floats]:
    """How many trees have the smallest weighted loss on groups left out.

    Args:
        seen: n rows of at least two groups.
        config: at most `rounds` trees, `folds` folds.
        grow: trees of rows.
        loss: of (n,) truths and (n,) predictions, per row.

    Returns:
        The number, and (n,) what that many say of every row by trees that never saw its group.

    Raises:
        InconsistentDataset: one group only.

    Source: early stopping by groups, as `models.training.fit.out_of_fold_mean` does for ours.
    """
    kept = np.unique(np.geomspace(1, config.rounds, STEPS).astype(np.int64))
    said = np.empty((len(kept), len(seen.weight)))
    for fold in leave_group_out(seen.group, folds=config.folds):
        trees = grow(seen.rows(fold.train), config.rounds)
        unseen = seen.features[fold.test]
        said[:, fold.test] = [raw_score(trees, unseen, rounds=int(count)) for count in kept]
    lost = [float(loss(seen.log_slowdown, path) @ seen.weight) for path in said]
    best = int(np.argmin(lost))
    return int(kept[best]), said[best]


def _pinball(truth: Floats, said: Floats, level: float) -> Floats:
    short = truth - said
    lost: Floats = np.maximum(level * short, (level - 1) * short)
    return lost


def _fitted(regressor: Regressor, seen: Dataset) -> Says:
    fitted = regressor.fit(seen.features, seen.log_slowdown, sample_weight=seen.weight)
    return lambda rows: np.asarray(fitted.predict(rows.features), np.float64)
