"""Pair blend: hidden properties and the plain product, weighed by how they do on pairs left out; bounds to match.

What is known beforehand places newcomers and may mislead about workloads that
were measured in both roles, so for those the properties are also sampled without it, and the mean of both is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.pair_product import Product, fit_own_product
from models.calibration.conformal import conformal_quantile
from models.challengers.pair_model import Cells, PairConfig, PairModel, PairPrediction, fit_pairs
from models.data.splits import random_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
FOLDS = 5
SHARES = np.linspace(0.0, 0.8, 9)
"""Shares of the product that are tried; hidden properties always have a say, since only they place newcomers."""
FOR_PRICES = PairConfig(level=0.95, scale="speed", way_share=0.08)
"""Prices are in proportion to the speed that is left; bounds that rebates are paid by hold more often than others."""
SMALLEST_MARGIN = 1e-3
LEAST_STRETCH, MAX_STRETCH = 0.5, 3.0


@dataclass(frozen=True)
class Hidden:
    """Properties sampled with what is known beforehand, and without where there is any; who was measured in both roles.

    Args:
        described: the first.
        plain: the second; None where nothing is known beforehand.
        known: (entities,) measured in both roles.
    """

    described: PairModel
    plain: PairModel | None
    known: Flags

    def knows(self, victim: Ints, aggressor: Ints) -> Flags:
        """(m,) whether both were measured in both roles."""
        return self.known[victim] & self.known[aggressor]

    def predict(self, victim: Ints, aggressor: Ints, rng: np.random.Generator) -> PairPrediction:
        """(m,) as PairModel.predict; of pairs with somebody who was not measured in both roles, by the first alone."""
        said = self.described.predict(victim, aggressor, rng)
        if self.plain is None:
            return said
        half = 0.5 * self.knows(victim, aggressor)
        other = self.plain.predict(victim, aggressor, rng)
        return PairPrediction(
            said.log_mean + half * (other.log_mean - said.log_mean),
            said.upper + half * (other.upper - said.upper),
            said.lower + half * (other.lower - said.lower),
        )


@dataclass(frozen=True)
class PairBlend:
    """Both parts, and how they go together.

    Args:
        hidden: properties.
        product: sensitivity and pressure.
        share: of the product, for pairs of workloads that were measured in both roles.
        unseen: the same for other pairs, of which `hidden` says what it does with what is known beforehand alone.
        stretch: how much wider bounds must be to hold, below and above.
    """

    hidden: Hidden
    product: Product
    share: float
    unseen: float
    stretch: tuple[float, float]

    def predict(self, victim: Ints, aggressor: Ints, rng: np.random.Generator) -> PairPrediction:
        """(m,) expected log slowdowns and bounds of pairs of entities; see PairModel.predict."""
        hidden = self.hidden.predict(victim, aggressor, rng)
        share = np.where(self.hidden.knows(victim, aggressor), self.share, self.unseen)
        mean = hidden.log_mean + share * (self.product.predict(victim, aggressor) - hidden.log_mean)
        below, above = _margins(hidden)
        return PairPrediction(mean, mean + self.stretch[1] * above, mean - self.stretch[0] * below)


def fit_pair_blend(cells: Cells, described: Floats, config: PairConfig, rng: np.random.Generator) -> PairBlend:
    """Learn the share and the stretches on cells left out, then both parts on all.

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
        docs/decisions/0018-pairs.md and 0048-pair-prices.md.
    """
    hidden, (placed, product) = PairPrediction(*np.empty((3, len(cells.victim)))), np.empty((2, len(cells.victim)))
    for fold in random_rows(len(cells.victim), folds=FOLDS, rng=rng):
        seen, left = cells.take(fold.train), cells.take(fold.test)
        fitted = _fit_hidden(seen, described, config, rng)
        said = fitted.predict(left.victim, left.aggressor, rng)
        placed[fold.test] = fitted.described.expect(left.victim, left.aggressor)
        for whole, part in zip(_parts(hidden), _parts(said), strict=True):
            whole[fold.test] = part
        product[fold.test] = fit_own_product(seen, len(described)).predict(left.victim, left.aggressor)
    share = _share(hidden.log_mean, product, cells.log_slowdown)
    error, (below, above) = cells.log_slowdown - _mixed(hidden.log_mean, product, share), _margins(hidden)
    return PairBlend(
        hidden=_fit_hidden(cells, described, config, rng),
        product=fit_own_product(cells, len(described)),
        share=share,
        unseen=_share(placed, product, cells.log_slowdown),
        stretch=(stretch(-error / below, config.level), stretch(error / above, config.level)),
    )


def _fit_hidden(cells: Cells, described: Floats, config: PairConfig, rng: np.random.Generator) -> Hidden:
    known = [np.bincount(who, minlength=len(described)) > 0 for who in (cells.victim, cells.aggressor)]
    return Hidden(
        described=fit_pairs(cells, described, config, rng),
        plain=fit_pairs(cells, described[:, :0], config, rng) if described.shape[1] else None,
        known=known[0] & known[1],
    )


def _share(hidden: Floats, product: Floats, truth: Floats) -> float:
    """The product's share with the smallest mean absolute error."""
    return float(min(SHARES, key=lambda share: np.abs(_mixed(hidden, product, share) - truth).mean()))


def _mixed(hidden: Floats, product: Floats, share: float) -> Floats:
    return hidden + share * (product - hidden)


def _parts(said: PairPrediction) -> Sequence[Floats]:
    return said.log_mean, said.upper, said.lower


def _margins(said: PairPrediction) -> tuple[Floats, Floats]:
    """(m,) each, how far a measurement may lie below and above what is expected."""
    below, above = said.log_mean - said.lower, said.upper - said.log_mean
    return np.maximum(below, SMALLEST_MARGIN), np.maximum(above, SMALLEST_MARGIN)


def stretch(scores: Floats, level: float) -> float:
    """How much wider (n,) scores, errors over margins, ask a margin to be at the level, within limits."""
    return float(np.clip(conformal_quantile(scores, level), LEAST_STRETCH, MAX_STRETCH))
