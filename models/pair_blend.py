"""Pair blend: hidden properties and the plain product, weighed by how they do on pairs left out; a bound to match."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.calibrate import conformal_quantile
from models.pair_product import Product, fit_product
from models.pairs import Cells, PairConfig, PairModel, PairPrediction, fit_pairs
from models.splits import random_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FOLDS = 5
SHARES = np.linspace(0.0, 0.8, 9)
"""Shares of the product that are tried; hidden properties always have a say, since only they place newcomers."""
SMALLEST_MARGIN = 1e-3
LEAST_STRETCH, MOST_STRETCH = 0.5, 3.0


@dataclass(frozen=True)
class PairBlend:
    """Both parts, the product's share, and how much wider the bound of the hidden properties must be to hold."""

    hidden: PairModel
    product: Product
    share: float
    stretch: float

    def predict(self, victim: Ints, aggressor: Ints, rng: np.random.Generator) -> PairPrediction:
        """(m,) expected log slowdowns and bounds of pairs of entities; see PairModel.predict."""
        return _blend(self.hidden.predict(victim, aggressor, rng), self.product.predict(victim, aggressor), self)


def fit_pair_blend(cells: Cells, described: Floats, config: PairConfig, rng: np.random.Generator) -> PairBlend:
    """Learn the share and the stretch on cells left out, then both parts on all.

    Args:
        cells: n >= FOLDS measured pairs.
        described: (e, q) from `describe`.
        config: of the hidden properties.
        rng: of everything drawn.

    Returns:
        The blend with the smallest mean absolute error out of fold.

    Raises:
        InconsistentDataset: fewer cells than folds.

    Source: stacked regression, Breiman, Machine Learning 1996; scaled conformal bounds, Lei et al., JASA 2018; ours,
        docs/decisions/0018-pairs.md.
    """
    hidden = PairPrediction(*np.empty((2, len(cells.victim))))
    product = np.empty(len(cells.victim))
    for fold in random_rows(len(cells.victim), folds=FOLDS, rng=rng):
        seen, left = cells.take(fold.train), cells.take(fold.test)
        said = fit_pairs(seen, described, config, rng).predict(left.victim, left.aggressor, rng)
        hidden.log_mean[fold.test], hidden.upper[fold.test] = said.log_mean, said.upper
        product[fold.test] = fit_product(seen, len(described)).predict(left.victim, left.aggressor)
    blends = hidden.log_mean + SHARES[:, None] * (product - hidden.log_mean)
    best = int(np.abs(blends - cells.log_slowdown).mean(axis=1).argmin())
    margin = np.maximum(hidden.upper - hidden.log_mean, SMALLEST_MARGIN)
    stretch = conformal_quantile((cells.log_slowdown - blends[best]) / margin, config.level)
    return PairBlend(
        hidden=fit_pairs(cells, described, config, rng),
        product=fit_product(cells, len(described)),
        share=float(SHARES[best]),
        stretch=float(np.clip(stretch, LEAST_STRETCH, MOST_STRETCH)),
    )


def _blend(hidden: PairPrediction, product: Floats, how: PairBlend) -> PairPrediction:
    mean = hidden.log_mean + how.share * (product - hidden.log_mean)
    return PairPrediction(mean, mean + how.stretch * np.maximum(hidden.upper - hidden.log_mean, SMALLEST_MARGIN))
