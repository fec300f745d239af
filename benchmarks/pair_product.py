"""Pair product: excess slowdown as the victim's sensitivity times the aggressor's pressure, one number each."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.challengers.pair_model import Cells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROUNDS = 60
OWN_ROUNDS = 6
PULL = 2
"""Mean pairs that speak for workloads that suffer no more beside themselves."""
LOWEST_RATIO = 0.1
SMALLEST = 1e-6


@dataclass(frozen=True)
class Product:
    """(entities,) sensitivities and pressures; the mean one for entities that were not seen in the role.

    A workload beside a copy of itself suffers `itself` times as much.
    """

    sensitivity: Floats
    pressure: Floats
    itself: float = 1.0

    def predict(self, victim: Ints, aggressor: Ints) -> Floats:
        """(m,) and (m,) entities -> (m,) log slowdown."""
        excess = self.sensitivity[victim] * self.pressure[aggressor] * np.where(victim == aggressor, self.itself, 1.0)
        return np.log(np.maximum(1 + excess, LOWEST_RATIO))


def fit_product(cells: Cells, entities: int) -> Product:
    """Alternate between the two roles, each a least-squares slope through zero.

    Args:
        cells: n >= 1 measured pairs.
        entities: how many entities there are.

    Returns:
        The factors after ROUNDS rounds.

    Raises:
        Nothing.

    Source: Mars et al., "Bubble-Up", MICRO 2011 (sensitivity and pressure); alternating least squares.
    """
    excess = np.expm1(cells.log_slowdown)
    sensitivity = np.full(entities, np.sqrt(max(float(excess.mean()), SMALLEST)))
    pressure = np.ones(entities)
    for _ in range(ROUNDS):
        pressure = _slopes(cells.aggressor, sensitivity[cells.victim], excess, entities)
        sensitivity = _slopes(cells.victim, pressure[cells.aggressor], excess, entities)
    return Product(sensitivity, pressure)


def fit_own_product(cells: Cells, entities: int) -> Product:
    """As `fit_product`, with one factor more for workloads beside themselves.

    Args:
        cells: n >= 1 measured pairs.
        entities: how many entities there are.

    Returns:
        The factors after OWN_ROUNDS turns of the product and the factor, which is drawn to 1 as if two mean pairs had
        said so; 1 without a pair of a workload and itself.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0048-pair-prices.md.
    """
    same, excess = cells.victim == cells.aggressor, np.expm1(cells.log_slowdown)
    found = fit_product(cells, entities)
    for _ in range(OWN_ROUNDS if same.any() else 0):
        common = np.expm1(found.predict(cells.victim, cells.aggressor)) / np.where(same, found.itself, 1.0)
        pull = PULL * max(float(excess.mean()), SMALLEST)
        itself = (max(float(excess[same].sum()), 0.0) + pull) / (max(float(common[same].sum()), 0.0) + pull)
        shared = np.log1p(np.where(same, excess / itself, excess))
        found = replace(fit_product(Cells(cells.victim, cells.aggressor, shared), entities), itself=itself)
    return found


def _slopes(who: Ints, x: Floats, y: Floats, count: int) -> Floats:
    above, below = np.bincount(who, x * y, count), np.bincount(who, x * x, count)
    overall = above.sum() / max(float(below.sum()), SMALLEST)
    return np.where(below > 0, above / np.maximum(below, SMALLEST), overall)
