"""Fit margins: residuals of models that knew as little as those who are served will, and the multipliers they ask for.

An app that was learnt from is judged by models that saw it, but not yet that time; an app that was not, by models that
left it out; an app that never ran, by the same models on rows without its profile.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from features.columnar.thread_map import in_threads
from models.bundle.margins import FEW_WINDOWS, Margins, earned
from models.calibration.conformal import conformal_quantile
from models.calibration.group_quantiles import effective_windows, group_quantiles, quantile_over_groups
from models.calibration.log_link import spread as spread_of
from models.data.dataset import Dataset
from models.data.impute import impute
from models.data.splits import Split, leave_group_out
from models.estimator.feature_matrix import Rows
from models.training.fit import TrainConfig, Trained, log_means, raw_score, spread_out_of_fold
from models.training.fit_known_apps import Ahead

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FLOOR = 2.0
"""Median spreads that are added to every spread."""
APP_FOLDS = 6
"""So few apps are left out at once that the models are nearly as good as the one that is served."""
SHARE_OF_ROWS = 0.87
"""Of an app never seen, at least this share of rows is covered, in as many apps as the level says."""


def fit_margins(rows: Rows, fills: Floats, trained: Trained, ahead: Ahead | None, *, config: TrainConfig) -> Margins:
    """Multipliers of a model.

    Args:
        rows: what it was trained on, before anything is filled in.
        fills: (len(RAW),) what was filled in.
        trained: the model with what it was made with.
        ahead: errors on times not seen; None where the rows cover too little time to look ahead.
        config: how it was trained; the number of trees is the model's own.

    Returns:
        See models.bundle.margins. Without looking ahead every app is as one never seen.

    Raises:
        InconsistentDataset: fewer than two apps.

    Source: ours, docs/decisions/0019-own-margins.md.
    """
    known, level = trained.known, config.level
    again = replace(config, rounds=max(1, len(trained.placement.residual.roots)))
    cold = impute(rows.without_profile().dataset(fills).features, trained.placement.medians)
    spread = spread_out_of_fold(known.features, trained.folds, trained.spreads)
    floor = FLOOR * float(np.median(spread))
    errors = left_out_errors(known, cold, again)
    cold_spread = spread_out_of_fold(cold, trained.folds, trained.spreads)
    cold_needs = _needed(errors[1] / (cold_spread + floor), known.group, level)
    there = rows.profiled()
    unseen = _needed((errors[0] / (spread + floor))[there], known.group[there], level) if there.any() else cold_needs
    whole = Margins(level, floor, unseen, unseen, cold_needs, np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    return whole if ahead is None else _with_own(whole, ahead, rows, trained)


def left_out_errors(known: Dataset, cold: Floats, config: TrainConfig) -> Floats:
    """(2, n) log slowdown minus what models say that left out the row's app: as it is, and of the (n, d) cold rows."""
    errors = np.empty((2, len(known.weight)))
    folds = leave_group_out(known.group, folds=APP_FOLDS)

    def said(fold: Split) -> Floats:
        both = np.concatenate([known.features[fold.test], cold[fold.test]])
        return log_means(known.rows(fold.train), both, np.array([config.rounds]), config=config).reshape(2, -1)

    for fold, log in zip(folds, in_threads(said, folds), strict=True):
        errors[:, fold.test] = known.log_slowdown[fold.test] - log
    return errors


def _with_own(whole: Margins, ahead: Ahead, rows: Rows, trained: Trained) -> Margins:
    profiled = rows.profiled()[ahead.chosen]
    if not profiled.any():
        return whole
    chosen = ahead.chosen.copy()
    chosen[ahead.chosen] = profiled
    spread = spread_of(raw_score(trained.spread, trained.known.features[chosen]))
    scores = ahead.error[profiled] / (spread + whole.floor)
    group, own = group_quantiles(scores, rows.group[chosen], whole.level)
    beyond = (scores > own[np.searchsorted(group, rows.group[chosen])]).astype(np.float64)
    windows = effective_windows(beyond, rows.group[chosen], rows.series[chosen], rows.time[chosen])
    seen = max(0.0, conformal_quantile(scores, whole.level))
    kept = windows >= FEW_WINDOWS
    served = earned(np.maximum(own, 0.0), windows, seen=seen, unseen=whole.unseen)
    return replace(whole, seen=seen, group=group[kept], own=served[kept], windows=windows[kept])


def _needed(scores: Floats, group: NDArray[np.int32], level: float) -> float:
    return max(0.0, quantile_over_groups(group_quantiles(scores, group, SHARE_OF_ROWS)[1], level))
