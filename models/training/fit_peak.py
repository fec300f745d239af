"""Fit: forecasts of nodes' peaks, each node by trees that never saw it. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.headroom.peak_features import MAX_24H, can_be_asked, future_peaks, peak_features
from models.headroom.peak_offset import first_offset, followed
from models.training.lightgbm_forest import Recipe, grow, predict

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FOLDS = 4
"""Parts of the nodes that are left out in turn, and of the rest in turn for the first offset."""
FEWEST_NODES = 2 * FOLDS
"""Fewer nodes are forecast by the largest use of their last day, without trees."""
MOST_ROWS = 200_000
"""Rows that a forest is grown from at most; bins are thinned evenly."""
FEWEST_ROWS = 200
RECIPE = Recipe(on_trend=False, rounds=150, leaves=4, learning_rate=0.05, min_rows=200, column_share=0.7, row_share=0.7)
"""Small trees: nodes are few and their days alike, so that deep ones learn nodes by heart."""


@dataclass(frozen=True)
class PeakForecast:
    """Peaks of nodes as forecast at each bin.

    Args:
        peak: (n, t) share of the node that residents use at most until the horizon; NaN where not asked or not known.
        outcome: (n, t) as it came true; NaN where it has not yet.
        by_trees: whether trees made it, or the largest use of a day.
    """

    peak: Floats
    outcome: Floats
    by_trees: bool


def forecast_peaks(use: Floats, bins: int, risk: float, *, fit_until: int, seed: int = 0) -> PeakForecast:
    """Forecast at each bin what nodes of a pool will use at most until a horizon.

    Args:
        use: (n, t) share of the node by bin, see models.headroom.peak_features; NaN where not measured.
        bins: horizon, at least 1.
        risk: share of forecasts that may be exceeded, in (0, 1).
        fit_until: trees and the first offset use outcomes that were known by this bin; 0..t.
        seed: of what is drawn; the same use, seed and bin give the same to the digit.

    Returns:
        See PeakForecast. Without outcomes by then nothing is forecast. Each node's offset follows its own outcomes.

    Raises:
        Nothing.

    Source: gradient boosting, Friedman 2001; conformal prediction with groups left out; ours, docs/headroom.md.
    """
    features, outcome, asked = peak_features(use, bins), future_peaks(use, bins), can_be_asked(use)
    usable = asked & np.isfinite(outcome)
    usable[:, max(0, fit_until - bins) :] = False
    nodes = np.arange(len(use))
    by_trees = len(use) >= FEWEST_NODES and usable.sum() >= FOLDS * FEWEST_ROWS
    pool = _Pool(features, outcome, usable, seed)
    base = np.full(use.shape, np.nan)
    for part in range(FOLDS) if by_trees else ():
        held_out = nodes % FOLDS == part
        base[held_out] = pool.fitted_on(~held_out, held_out, risk)
    if not by_trees and usable.any():
        day = features[:, :, MAX_24H]
        base = day + first_offset((outcome - day)[usable], risk)
    return PeakForecast(followed(np.where(asked, base, np.nan), outcome, bins, risk), outcome, by_trees)


@dataclass(frozen=True)
class _Pool:
    """Nodes by their features, outcomes, and which of these may be learnt from."""

    features: Floats
    outcome: Floats
    usable: Flags
    seed: int

    def fitted_on(self, nodes: Flags, asked: Flags, risk: float) -> Floats:
        """(k, t) forecasts of the asked nodes, with the first offset, by what other nodes show."""
        rows = np.flatnonzero(nodes)
        shortfall = list[Floats]()
        for part in range(FOLDS):
            left_out = np.zeros(len(nodes), np.bool_)
            left_out[rows[part::FOLDS]] = True
            mean = self._mean(nodes & ~left_out, left_out)
            shortfall.append(np.where(self.usable[left_out], self.outcome[left_out] - mean, np.nan).ravel())
        return self._mean(nodes, asked) + first_offset(np.concatenate(shortfall), risk)

    def _mean(self, nodes: Flags, asked: Flags) -> Floats:
        """(k, t) expected peaks of the asked nodes, by trees grown on others."""
        rows = np.flatnonzero((self.usable & nodes[:, None]).ravel())
        rows = rows[:: -(-len(rows) // MOST_ROWS)]
        features, peak = self.features.reshape(-1, self.features.shape[-1])[rows], self.outcome.ravel()[rows]
        forest = grow(RECIPE, features, peak, np.ones(len(rows)), seed=self.seed, threads=1)
        wanted = self.features[asked]
        return predict(forest, wanted.reshape(-1, wanted.shape[-1])).reshape(wanted.shape[:2])
