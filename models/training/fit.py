"""Train: what trees start from, trees on top of it, trees for the size of the error, and the margins of a bound.

The start is the sum of pressures where a catalogue gives the columns signs, else the trend. The same data and
configuration give the same model.
"""

from dataclasses import dataclass, replace
from typing import Literal

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from features.columnar.thread_map import in_threads
from models.calibration.conformal import calibrate
from models.calibration.log_link import log_mean
from models.calibration.log_link import spread as spread_of
from models.data.dataset import Dataset
from models.data.impute import impute, training_medians
from models.data.splits import Split, leave_group_out
from models.estimator.fitted_model import Beyond, Placement
from models.forms.power_law import Trend
from models.forms.pressure_base import BaseTerms, base_sum
from models.forms.tree_arrays import Forest, parse_forest
from models.training.fit_base import fit_base
from models.training.stacking import fit_blend

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TrainConfig:
    """How to train."""

    rounds: int = 300
    """At most this many residual trees; how many are kept is chosen by the error on groups left out."""
    spread_rounds: int = 50
    leaves: int = 7
    learning_rate: float = 0.05
    min_rows_in_leaf: int = 20
    objective: Literal["huber", "regression"] = "huber"
    huber_log_ratio: float = 0.2
    """Residuals beyond this count linearly, in log slowdown."""
    smallest_residual: float = 1e-3
    """Out-of-fold residuals are raised to this before the spread is learnt, in log slowdown."""
    tolerance: float = 0.02
    """More trees help groups seen: as many are kept as raise the error on groups left out by at most this share."""
    folds: int = 5
    level: float = 0.9
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True)
class Mean:
    """A trained model of log slowdown, and what models that never saw a row's group say of it.

    Args:
        start: what the trees start from.
        forest: the trees.
        out_of_fold: (n,) log slowdown.
        beyond: the model of rows far from those learnt from, where they are predicted separately.
        widening: (n,) >= 1, what a margin is multiplied with.
    """

    start: BaseTerms | Trend
    forest: Forest
    out_of_fold: Floats
    beyond: Beyond | None
    widening: Floats


@dataclass(frozen=True)
class Trained:
    """A model, and what it was made with, for those who calibrate it further.

    Args:
        placement: the model.
        known: imputed rows.
        folds: groups left out, their test parts cover every row once.
        spreads: of each fold, the size of errors as learnt from its first part.
        spread: as learnt from all rows.
    """

    placement: Placement
    known: Dataset
    folds: list[Split]
    spreads: list[lgb.Booster]
    spread: lgb.Booster


def fit_placement(data: Dataset, config: TrainConfig) -> Placement:
    """The model of `train` alone."""
    return train(data, config).placement


def train(data: Dataset, config: TrainConfig) -> Trained:
    """Train and calibrate a complete model.

    Args:
        data: n rows of at least two groups; missing values in base columns and columns with sign +1 are imputed.
            Without signs and without a base, a blend of forests on a trend is trained.
        config: sizes, loss, folds, level.

    Returns:
        The model, its calibration measured on residuals out of group folds, and what it was made with.

    Raises:
        InconsistentDataset: one group only, or an imputed column is never known.
        ModelsError: the trained trees could not be served exactly.

    Source: ours, docs/decisions/0008-model-form.md; Friedman, Annals of Statistics 2001 (boosting).
    """
    medians = training_medians(data.features, data.base | (data.signs > 0))
    known = data.with_features(impute(data.features, medians))
    folds = leave_group_out(known.group, folds=config.folds)
    mean = _fit_mean(known, folds, config)
    error = known.log_slowdown - mean.out_of_fold
    relative = error / mean.widening
    spreads = list(in_threads(lambda f: fit_spread(known.rows(f.train), relative[f.train], config), folds))
    scores = error / (spread_out_of_fold(known.features, folds, spreads) * mean.widening)
    spread = fit_spread(known, relative, config)
    placement = Placement(
        names=data.names,
        signs=data.signs,
        medians=medians,
        terms=mean.start,
        residual=mean.forest,
        spread=parse_forest(spread.model_to_string()),
        calibration=calibrate(scores, known.group, known.node_window, level=config.level),
        beyond=mean.beyond,
    )
    return Trained(placement, known, folds, spreads, spread)


def _fit_mean(known: Dataset, folds: list[Split], config: TrainConfig) -> Mean:
    if not known.base.any():
        blend = fit_blend(known, folds, seed=config.seed, threads=config.threads)
        return Mean(blend.start, blend.forest, blend.log_mean, blend.beyond, blend.widening)
    terms = fit_base_of(known, config)
    rounds, out_of_fold = out_of_fold_mean(known, folds, config)
    residual = fit_residual(known, terms, replace(config, rounds=rounds))
    return Mean(terms, parse_forest(residual.model_to_string()), out_of_fold, None, np.ones(len(out_of_fold)))


def out_of_fold_mean(known: Dataset, folds: list[Split], config: TrainConfig) -> tuple[int, Floats]:
    """How many trees help on groups never seen, and what they say there.

    Args:
        known: imputed rows with a base.
        folds: whose test parts cover every row once, by group.
        config: as for `fit_placement`.

    Returns:
        The largest number of trees whose weighted mean absolute error is within the tolerance of the smallest, and (n,)
        log slowdown of every row with that many, by models that never saw its group. One number chosen on the rows
        that also calibrate: an optimism far below the width of a margin.

    Raises:
        Nothing.

    Source: cross-conformal prediction, Vovk, AMAI 2015.
    """
    kept = np.unique(np.geomspace(1, config.rounds, 14).astype(np.int64))
    paths = np.empty((len(kept), len(known.weight)))

    def said(fold: Split) -> Floats:
        return log_means(known.rows(fold.train), known.features[fold.test], kept, config=config)

    for fold, path in zip(folds, in_threads(said, folds), strict=True):
        paths[:, fold.test] = path
    lost = np.abs(paths - known.log_slowdown) @ known.weight
    best = int(np.flatnonzero(lost <= (1 + config.tolerance) * lost.min())[-1])
    return int(kept[best]), paths[best]


def spread_out_of_fold(features: Floats, folds: list[Split], spreads: list[lgb.Booster]) -> Floats:
    """(n,) spread > 0 of (n, d) imputed rows, each by the trees of the fold that leaves out its group."""
    spread = np.empty(len(features))
    for fold, trees in zip(folds, spreads, strict=True):
        spread[fold.test] = spread_of(raw_score(trees, features[fold.test]))
    return spread


def fit_base_of(known: Dataset, config: TrainConfig) -> BaseTerms:
    """The base of imputed rows, see `fit_base`."""
    columns = np.flatnonzero(known.base)
    return fit_base(known.features, known.log_slowdown, known.weight, columns, huber_log_ratio=config.huber_log_ratio)


def fit_residual(known: Dataset, terms: BaseTerms, config: TrainConfig, *, share: float = 1.0) -> lgb.Booster:
    """Monotone trees that correct the base.

    Args:
        known: imputed rows.
        terms: the base they start from.
        config: rounds, leaves, loss.
        share: of the base's log that they start from.

    Returns:
        A booster whose raw score is added to share x log1p(base_sum). NaN in a free column is learnt as its own side.

    Raises:
        lightgbm.basic.LightGBMError: the data cannot be binned.

    Source: ours, docs/decisions/0008-model-form.md; the monotone method is "basic", 0004-monotone-basic.md there.
    """
    start = log_mean(base_sum(known.features, terms), np.zeros(len(known.weight)), share)
    train = lgb.Dataset(known.features, known.log_slowdown, weight=known.weight, init_score=start)
    loss = {"objective": config.objective, "alpha": config.huber_log_ratio}
    return lgb.train({**tree_parameters(known, config), **loss}, train, config.rounds)


def fit_spread(known: Dataset, error: Floats, config: TrainConfig) -> lgb.Booster:
    """Monotone trees for the typical size of an out-of-fold error.

    Args:
        known: imputed rows.
        error: (n,) log slowdown minus its out-of-fold prediction.
        config: rounds, leaves, the smallest error.

    Returns:
        A booster whose exponentiated raw score is the spread. It follows the signs of the mean, so that the upper
        bound is monotone too.

    Raises:
        lightgbm.basic.LightGBMError: the data cannot be binned.

    Source: ours, docs/decisions/0008-model-form.md; scaled residuals, Lei et al., JASA 2018.
    """
    size = np.maximum(np.abs(error), config.smallest_residual)
    train = lgb.Dataset(known.features, size, weight=known.weight)
    return lgb.train({**tree_parameters(known, config), "objective": "gamma"}, train, config.spread_rounds)


def raw_score(trees: lgb.Booster, features: Floats, rounds: int | None = None) -> Floats:
    """LightGBM's own raw score of all trees or of the first `rounds`, (n, d) -> (n,), on one thread."""
    raw = trees.predict(features, raw_score=True, num_iteration=rounds, num_threads=1)
    return np.asarray(raw, dtype=np.float64)


def log_means(seen: Dataset, unseen: Floats, kept: NDArray[np.int64], *, config: TrainConfig) -> Floats:
    """(len(kept), n) log_mean of (n, d) imputed rows by a model of the seen ones, for each number of trees kept."""
    terms = fit_base_of(seen, config)
    trees = fit_residual(seen, terms, config)
    base = base_sum(unseen, terms)
    return np.array([log_mean(base, raw_score(trees, unseen, rounds=int(rounds))) for rounds in kept])


def tree_parameters(data: Dataset, config: TrainConfig) -> dict[str, object]:
    """What all of LightGBM's trees here have in common: their size, the signs of the columns, and that they repeat."""
    return {
        "num_leaves": config.leaves,
        "learning_rate": config.learning_rate,
        "min_data_in_leaf": config.min_rows_in_leaf,
        "monotone_constraints": data.signs.tolist(),
        "monotone_constraints_method": "basic",
        "seed": config.seed,
        "num_threads": config.threads,
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }
