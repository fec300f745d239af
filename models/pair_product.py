"""Pair product: excess slowdown as the victim's sensitivity times the aggressor's pressure, one number each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.pairs import Cells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROUNDS = 60
LOWEST_RATIO = 0.1
SMALLEST = 1e-6


@dataclass(frozen=True)
class Product:
    """(entities,) sensitivities and pressures; the mean one for entities that were not seen in the role."""

    sensitivity: Floats
    pressure: Floats

    def predict(self, victim: Ints, aggressor: Ints) -> Floats:
        """(m,) and (m,) entities -> (m,) log slowdown."""
        return np.log(np.maximum(1 + self.sensitivity[victim] * self.pressure[aggressor], LOWEST_RATIO))


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


def _slopes(who: Ints, x: Floats, y: Floats, count: int) -> Floats:
    above, below = np.bincount(who, x * y, count), np.bincount(who, x * x, count)
    overall = above.sum() / max(float(below.sum()), SMALLEST)
    return np.where(below > 0, above / np.maximum(below, SMALLEST), overall)
