"""Fit familiar: a model of apps that were learnt from, which may keep each app's own level and shape.

Trees for apps never seen stop early, since what they learn of known apps does not carry over. Known apps deserve the
rest: deeper trees, on a part of the base only, since monotone trees can add to a base and not take away.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from features.columnar.thread_map import in_threads
from models.calibration.log_link import log_mean
from models.data.dataset import Dataset
from models.data.splits import Split, as_many_origins
from models.errors import InconsistentDataset
from models.estimator.fitted_model import Familiar
from models.forms.pressure_base import BaseTerms, base_sum
from models.forms.tree_arrays import parse_forest
from models.training.fit import TrainConfig, fit_base_of, fit_residual, log_means, raw_score

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SHARE = 0.7
"""Of the base that familiar trees start from, in log slowdown."""
ROUNDS, LEAVES = 150, 31
ORIGINS, KEPT_ORIGINS = 3, 2
"""Times from which models could look ahead, evenly spread, and how many of the last do: models of few hours err more
than the one that is served."""


@dataclass(frozen=True)
class Ahead:
    """What models of the past said of times they had not seen.

    Args:
        chosen: (n,) which rows they judged.
        error: (m,) log slowdown minus what they said, of the chosen rows.
        rounds: how many familiar trees did best; 0 where the model for apps never seen is no worse.
    """

    chosen: Flags
    error: Floats
    rounds: int


def look_ahead(known: Dataset, rounds: int, config: TrainConfig) -> Ahead | None:
    """Judge models of the past on what came after.

    Args:
        known: n imputed rows with a base.
        rounds: trees of the model for apps never seen.
        config: how that model was trained.

    Returns:
        The errors of the better one of both kinds of models; None where the rows cover too little time.

    Raises:
        lightgbm.basic.LightGBMError: the data cannot be binned.

    Source: ours, docs/decisions/0023-familiar.md.
    """
    try:
        splits: Sequence[Split] = as_many_origins(known.time, most=ORIGINS)[-KEPT_ORIGINS:]
    except InconsistentDataset:
        return None
    kept = np.unique(np.geomspace(5, ROUNDS, 8).astype(np.int64))
    said = np.full((1 + len(kept), len(known.weight)), np.nan)

    def means(split: Split) -> Floats:
        past, later = known.rows(split.train), known.features[split.test]
        few = log_means(past, later, np.array([rounds]), config=replace(config, rounds=rounds))
        return np.vstack([few, _familiar_means(past, later, kept, config)])

    for split, log in zip(splits, in_threads(means, splits), strict=True):
        said[:, split.test] = log
    chosen = np.isfinite(said[0])
    error = known.log_slowdown[chosen] - said[:, chosen]
    best = int((np.abs(error) @ known.weight[chosen]).argmin())
    return Ahead(chosen, error[best], int(np.append(0, kept)[best]))


def fit_familiar(known: Dataset, terms: BaseTerms, rounds: int, config: TrainConfig) -> Familiar | None:
    """The model of apps learnt from, of imputed rows; None for no rounds."""
    if not rounds:
        return None
    return Familiar(SHARE, parse_forest(familiar_trees(known, terms, rounds, config).model_to_string()))


def familiar_trees(known: Dataset, terms: BaseTerms, rounds: int, config: TrainConfig) -> lgb.Booster:
    """Monotone trees of imputed rows, deeper than those of `fit_residual`, on SHARE of the base's log."""
    deeper = replace(config, rounds=rounds, leaves=max(LEAVES, config.leaves))
    return fit_residual(known, terms, deeper, share=SHARE)


def _familiar_means(seen: Dataset, later: Floats, kept: NDArray[np.int64], config: TrainConfig) -> Floats:
    """(len(kept), m) log slowdown of imputed rows by each number of trees."""
    terms = fit_base_of(seen, config)
    trees = familiar_trees(seen, terms, int(kept[-1]), config)
    base = base_sum(later, terms)
    return np.array([log_mean(base, raw_score(trees, later, rounds=int(rounds)), SHARE) for rounds in kept])
