"""Fit: forecasts of nodes' peaks, each node by trees that never saw it. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.forms.tree_arrays import Forest
from models.headroom.peak_features import DAY, MAX_24H, can_be_asked, future_peaks, peak_features
from models.headroom.peak_offset import first_offset, followed
from models.training.lightgbm_forest import Recipe, grow, predict

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

FOLDS = 4
"""Parts of the nodes that are left out in turn, and in pairs for the first offset."""
FEWEST_NODES = 2 * FOLDS
"""Fewer nodes are forecast by the largest use of their last day, without trees."""
MOST_ROWS = 200_000
"""Rows that a forest is grown from at most; bins are thinned evenly."""
FEWEST_ROWS = 200
FEWEST_BINS = DAY
"""Bins with outcomes that a forecast needs: a day has its hours of peaks, and less of it may have none."""
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
        See PeakForecast. Without a day of outcomes by then nothing is forecast. Offsets follow each node's outcomes.

    Raises:
        Nothing.

    Source: gradient boosting, Friedman 2001; conformal prediction with groups left out; ours, docs/headroom.md.
    """
    features, outcome, asked = peak_features(use, bins), future_peaks(use, bins), can_be_asked(use)
    usable = asked & np.isfinite(outcome)
    usable[:, max(0, fit_until - bins) :] = False
    usable &= usable.any(axis=0).sum() >= FEWEST_BINS
    by_trees = len(use) >= FEWEST_NODES and usable.sum() >= FOLDS * FEWEST_ROWS
    base = np.full(use.shape, np.nan)
    if by_trees:
        base = _Pool(features, outcome, usable, np.arange(len(use)) % FOLDS, seed).forecast(risk)
    if not by_trees and usable.any():
        day = features[:, :, MAX_24H]
        base = day + first_offset((outcome - day)[usable], risk)
    return PeakForecast(followed(np.where(asked, base, np.nan), outcome, bins, risk), outcome, by_trees)


@dataclass(frozen=True)
class _Pool:
    """Nodes by their features, outcomes, which of these may be learnt from, and the (n,) part that each is in."""

    features: Floats
    outcome: Floats
    usable: Flags
    part: Ints
    seed: int

    def forecast(self, risk: float) -> Floats:
        """(n, t) forecasts of each part by the others, with the first offset: what these miss by, without the part."""
        pairs = {(i, j): self._forest((i, j)) for i in range(FOLDS) for j in range(i)}
        found = np.full(self.outcome.shape, np.nan)
        for part in range(FOLDS):
            shortfall = list[Floats]()
            for other in (one for one in range(FOLDS) if one != part):
                mean = self._mean(pairs[max(part, other), min(part, other)], other)
                here = self.part == other
                shortfall.append(np.where(self.usable[here], self.outcome[here] - mean, np.nan).ravel())
            offset = first_offset(np.concatenate(shortfall), risk)
            found[self.part == part] = self._mean(self._forest((part,)), part) + offset
        return found

    def _forest(self, without: tuple[int, ...]) -> Forest:
        """Trees for expected peaks, grown on the nodes of all other parts."""
        rows = np.flatnonzero((self.usable & ~np.isin(self.part, without)[:, None]).ravel())
        rows = rows[:: -(-len(rows) // MOST_ROWS)]
        features, peak = self.features.reshape(-1, self.features.shape[-1])[rows], self.outcome.ravel()[rows]
        return grow(RECIPE, features, peak, np.ones(len(rows)), seed=self.seed, threads=1)

    def _mean(self, forest: Forest, part: int) -> Floats:
        """(k, t) expected peaks of the nodes of a part."""
        wanted = self.features[self.part == part]
        return predict(forest, wanted.reshape(-1, wanted.shape[-1])).reshape(wanted.shape[:2])
